"""Logarithms and inverse hyperbolic functions from add, multiply and integer operations.

x = 2^e m with m in [1/sqrt 2, sqrt 2), f = m - 1 exact, log x = e log 2 + log(1 + f) with a polynomial for the last term.
Arguments below 2^-126 count as zero.
"""

from __future__ import annotations

from oa._kernel.emit import coefficients as co
from oa._kernel.emit.exact import INF, divide, sqrt
from oa._kernel.emit.maths_exp import LN2_HIGH, LN2_LOW, ONE
from oa._kernel.emit.reg import Reg, horner

HALF_ROOT = 0x3F3504F3  # the bits of sqrt(1/2)
TINY = 2.0**-126
LOG10_2_HIGH = 0.301025390625  # ten bits: e times it is exact
LOG10_2_LOW = 0.30102999566398120 - LOG10_2_HIGH
NAN = float("nan")


def split(x: Reg) -> tuple[Reg, Reg]:
    """(e as I32, f) with x = 2^e (1 + f), for positive normal x."""
    e = (x.u - HALF_ROOT).i >> 23
    m = (x.u - (e << 23).u).f
    return e, m - 1.0


def _float(e: Reg) -> Reg:
    return e.one("i2f")


def _domain(x: Reg, value: Reg) -> Reg:
    """`value` for positive normal x; -inf at zero, NaN below, x itself at +inf and NaN."""
    value = (x < INF).where(value, x)
    return (x < TINY).where((x < 0.0).where(x.like(NAN), -INF), value)


def _natural(e: Reg, f: Reg) -> Reg:
    """e log 2 + log(1 + f)."""
    n = _float(e)
    return n * LN2_HIGH + (f + (f * f * horner(f, co.LOG) + n * LN2_LOW))


def log(x: Reg) -> Reg:
    """Natural logarithm."""
    return _domain(x, _natural(*split(x)))


def log2(x: Reg) -> Reg:
    """Binary logarithm."""
    e, f = split(x)
    return _domain(x, _float(e) + (f + f * horner(f, co.LOG2)))


def log10(x: Reg) -> Reg:
    """Decimal logarithm."""
    e, f = split(x)
    n = _float(e)
    return _domain(x, n * LOG10_2_HIGH + (f * 0.5 + (f * horner(f, co.LOG10) + n * LOG10_2_LOW)))


def log1p(x: Reg) -> Reg:
    """log(1 + x): what the sum 1 + x loses to rounding is added to f."""
    u = x + 1.0
    whole = u - 1.0
    lost = (x - whole) + (1.0 - (u - whole))
    e, f = split(u)
    lost = lost * (ONE - (e << 23).u).f
    lost = (x < 2.0**30).where(lost, 0.0)  # beyond, it is nothing and 2^-e may be out of range
    value = _natural(e, f + lost)
    value = (x < INF).where(value, x)
    value = (x <= -1.0).where((x < -1.0).where(x.like(NAN), -INF), value)
    return x.eq(0.0).where(x, value)


def asinh(x: Reg) -> Reg:
    """An odd polynomial up to 1.175, beyond it log(|x| + sqrt(x^2 + 1)), from 2^30 on log 2 + log |x|."""
    size = x.magnitude()
    z = x * x
    small = size * z * horner(z, co.ASINH) + size
    huge = size >= 2.0**30
    e, f = split(huge.where(size, size + sqrt(z + 1.0)))
    large = (size < INF).where(_natural(huge.where(e + 1, e), f), size)
    return (size < 1.1752).where(small, large).signed_like(x)


def acosh(x: Reg) -> Reg:
    """sqrt(2 t) times a polynomial in t = x - 1 up to 0.58, beyond it log(x + sqrt((x - 1) (x + 1)))."""
    t = x - 1.0
    root = sqrt(t + t)
    small = root * t * horner(t, co.ACOSH) + root
    huge = x >= 2.0**30
    e, f = split(huge.where(x, x + sqrt(t * (x + 1.0))))
    large = (x < INF).where(_natural(huge.where(e + 1, e), f), x)
    value = (t < 0.58).where(small, large)
    return (x < 1.0).where(x.like(NAN), value)


def atanh(x: Reg) -> Reg:
    """An odd polynomial up to 0.5, beyond it log((1 + |x|) / (1 - |x|)) / 2."""
    size = x.magnitude()
    z = x * x
    small = size * z * horner(z, co.ATANH) + size
    above, below = size + 1.0, 1.0 - size
    e, f = split(divide(above, below))
    lost = divide(size - (above - 1.0), above)
    large = (_natural(e, f) + lost) * 0.5
    large = (size < 1.0).where(large, size.eq(1.0).where(x.like(INF), NAN))
    return (size < 0.5).where(small, large).signed_like(x)
