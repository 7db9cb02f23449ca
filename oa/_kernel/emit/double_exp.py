"""Exponentials, logarithms, hyperbolic functions, powers and the error function in float64.

e^x = 2^n e^r with |r| <= ln(2) / 2 and the series of e^r; log x = e log 2 + log m with the series of 2 atanh((m - 1) / (m + 1)).
Series of fixed length suffice: their first omitted term lies below 2^-58 of the sum.
"""

from __future__ import annotations

import math
from fractions import Fraction

from oa._kernel.emit import double as d
from oa._kernel.emit.double import INF, NAN, quotient, scaled
from oa._kernel.emit.reg import Reg, horner
from oa._kernel.emit.types import Ty, Value

_LN2 = Fraction("0.6931471805599453094172321214581765680755001343602552")
LN2_HIGH = math.floor(float(_LN2) * 2**32) / 2**32  #: 32 bits: n times it is exact
LN2_LOW = float(_LN2 - Fraction(LN2_HIGH))
LOG2_E, LOG10_E = math.log2(math.e), math.log10(math.e)
LOG10_2_HIGH = math.floor(math.log10(2) * 2**32) / 2**32
LOG10_2_LOW = float(
    Fraction("0.3010299956639811952137388947244930267681898814621085") - Fraction(LOG10_2_HIGH)
)
#: (e^r - 1 - r) / r^2
_EXP = tuple(1 / math.factorial(k) for k in range(2, 15))
#: (2 atanh(s) - 2 s) / s^3 in s^2
_ATANH = tuple(2 / (2 * k + 1) for k in range(1, 12))


def _reduced(x: Reg) -> tuple[Reg, Reg]:
    """(n as I64, r) with x = n ln 2 + r, for |x| <= 1100."""
    n = (x * LOG2_E).one("frint")
    return n.to(Ty.I64), (x - n * LN2_HIGH) - n * LN2_LOW


def _clamped(x: Reg, limit: float) -> Reg:
    """x cut to [-limit, limit]; NaN becomes 0, for the caller to put back."""
    inside = (x.magnitude() <= limit).where(x, x.like(limit).signed_like(x))
    return x.ne(x).where(0.0, inside)


def _grown(r: Reg) -> Reg:
    """e^r - 1 for |r| <= ln(2) / 2."""
    return r + r * r * horner(r, _EXP)


def exp(x: Reg) -> Reg:
    """e^x."""
    n, r = _reduced(_clamped(x, 800.0))
    return x.ne(x).where(x, scaled(_grown(r) + 1.0, n))


def exp2(x: Reg) -> Reg:
    """2^x."""
    inside = _clamped(x, 1100.0)
    n = inside.one("frint")
    return x.ne(x).where(x, scaled(_grown((inside - n) * float(_LN2)) + 1.0, n.to(Ty.I64)))


def expm1(x: Reg) -> Reg:
    """e^x - 1."""
    n, r = _reduced(_clamped(x, 800.0))
    grown = _grown(r)
    low = (n > 1000).where(n.like(1000), (n < -1000).where(n.like(-1000), n))
    two = d.power_of_two(low)
    near = (two - 1.0) + two * grown
    value = (n > 60).where(scaled(grown + 1.0, n), near)
    return (x.ne(x) | x.eq(0.0)).where(x, value)


def _series(f: Reg) -> Reg:
    """log(1 + f) for 1 / sqrt 2 <= 1 + f < sqrt 2."""
    s = quotient(f, f + 2.0)
    z = s * s
    return f - s * (f - z * horner(z, _ATANH))


def _domain(x: Reg, value: Reg) -> Reg:
    """`value` for positive finite x; -inf at zero, NaN below, x itself at +inf and NaN."""
    value = (x.u << 1 >= 0x7FF << 53).where(x, value)
    return x.eq(0.0).where(-INF, (x < 0.0).where(x.like(NAN), value))


def log(x: Reg) -> Reg:
    """The natural logarithm."""
    n, m = d.split(x)
    return _domain(x, n * LN2_HIGH + (n * LN2_LOW + _series(m - 1.0)))


def log2(x: Reg) -> Reg:
    """The logarithm to base 2."""
    n, m = d.split(x)
    return _domain(x, n + _series(m - 1.0) * LOG2_E)


def log10(x: Reg) -> Reg:
    """The logarithm to base 10."""
    n, m = d.split(x)
    return _domain(x, n * LOG10_2_HIGH + (n * LOG10_2_LOW + _series(m - 1.0) * LOG10_E))


def log1p(x: Reg) -> Reg:
    """log(1 + x): the logarithm of the rounded sum, and what rounding lost over the sum."""
    u = x + 1.0
    lost = (x > 1.0).where(1.0 - (u - x), x - (u - 1.0))
    small = x.magnitude() < 2.0**-54
    value = log(u) + (u < INF).where(quotient(lost, u), 0.0)
    return (small | x.eq(INF)).where(x, x.eq(-1.0).where(-INF, value))


def sigmoid(x: Reg) -> Reg:
    """1 / (1 + e^-x)."""
    return quotient(1.0, exp(-x) + 1.0)


def sinh(x: Reg) -> Reg:
    """The hyperbolic sine."""
    a = x.magnitude()
    t = expm1((a > 709.0).where(709.0, a))
    near = (t + quotient(t, t + 1.0)) * 0.5
    half = exp(a * 0.5)
    return (a > 708.0).where(half * 0.5 * half, near).signed_like(x)


def cosh(x: Reg) -> Reg:
    """The hyperbolic cosine."""
    a = x.magnitude()
    half = exp(a * 0.5)
    e = exp((a > 709.0).where(709.0, a))
    return (a > 708.0).where(half * 0.5 * half, e * 0.5 + quotient(0.5, e))


def tanh(x: Reg) -> Reg:
    """The hyperbolic tangent."""
    a = x.magnitude()
    t = expm1((a > 22.0).where(-44.0, a * -2.0))
    return x.ne(x).where(x, quotient(-t, t + 2.0).signed_like(x))


def asinh(x: Reg) -> Reg:
    """The inverse hyperbolic sine."""
    a = x.magnitude()
    near = (a > 2.0**28).where(1.0, a)
    square = near * near
    value = log1p(near + quotient(square, (square + 1.0).one("fsqrt") + 1.0))
    return (a > 2.0**28).where(log(a) + float(_LN2), value).signed_like(x)


def acosh(x: Reg) -> Reg:
    """The inverse hyperbolic cosine; NaN below 1."""
    t = (x > 2.0**28).where(1.0, x) - 1.0
    value = log1p(t + (t * 2.0 + t * t).one("fsqrt"))
    return (x < 1.0).where(x.like(NAN), (x > 2.0**28).where(log(x) + float(_LN2), value))


def atanh(x: Reg) -> Reg:
    """The inverse hyperbolic tangent; NaN outside [-1, 1]."""
    a = x.magnitude()
    value = log1p(quotient(a * 2.0, 1.0 - a)) * 0.5
    value = (a < 2.0**-30).where(a, a.eq(1.0).where(INF, value))
    return (a > 1.0).where(x.like(NAN), value.signed_like(x))


def erf(x: Reg) -> Reg:
    """Below 2 the series 2 / sqrt(pi) x e^(-x^2) (1 + 2 x^2 / 3 (1 + 2 x^2 / 5 (1 + ...))), of positive terms; beyond, 1 less the
    continued fraction e^(-x^2) / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + (3/2) / ...)))."""
    a = x.magnitude()
    near, far = (a < 2.0).where(a, 2.0), (a < 2.0).where(2.0, (a < 6.5).where(a, 6.5))
    square = near * near
    twice = square * 2.0
    steps = 40

    def series(k: Value, total: Value) -> list[Value]:
        odd = (Reg(x.b, k).to(Ty.F64) * -2.0) + (2.0 * steps + 1.0)
        return [(quotient(twice, odd) * Reg(x.b, total) + 1.0).v]

    def fraction(k: Value, total: Value) -> list[Value]:
        half = (Reg(x.b, k).to(Ty.F64) * -0.5) + 30.0
        return [(far + quotient(half, Reg(x.b, total))).v]

    total = Reg(x.b, x.b.repeat(x.b.const(Ty.U32, steps), series, x.like(1.0).v)[0])
    low = near * exp(-square) * total * (2 / math.sqrt(math.pi))
    below = Reg(x.b, x.b.repeat(x.b.const(Ty.U32, 60), fraction, far.v)[0])
    high = 1.0 - quotient(exp(-(far * far)) * (1 / math.sqrt(math.pi)), below)
    return x.ne(x).where(x, (a < 2.0).where(low, high).signed_like(x))


def _log2_pair(x: Reg) -> d.Pair:
    """log2 of positive finite x to some 68 bits."""
    n, m = d.split(x)
    f = m - 1.0
    g, g_low = d.two_sum(f, f.like(2.0))
    s = quotient(f, g)
    product, lost = d.two_product(s, g)
    s_low = quotient(((f - product) - lost) - s * g_low, g)
    square = d.pair_product((s, s_low), (s, s_low))
    third = tuple(s.like(c) for c in d.exact_pair(Fraction(2, 3)))
    cube = d.pair_product(d.pair_product((s, s_low), square), (third[0], third[1]))
    z = square[0]
    rest = s * z * z * horner(z, _ATANH[1:])
    high, low = d.quick_sum(s * 2.0, cube[0])
    high, low = d.quick_sum(high, low + (cube[1] + s_low * 2.0 + rest))
    scale = tuple(s.like(c) for c in d.exact_pair(1 / _LN2))
    high, low = d.pair_product((high, low), (scale[0], scale[1]))
    total, lost = d.two_sum(n, high)
    return d.quick_sum(total, lost + low)


def power(x: Reg, y: Reg) -> Reg:
    """x^y, with the special cases of IEEE 754's pow."""
    size, far = x.magnitude(), y.magnitude()
    usual = (size.ne(0.0) & (size < INF)).where(size, 1.0)
    bound = (far < 2.0**70).where(y, y.like(2.0**70).signed_like(y))
    bound = y.ne(y).where(0.0, bound)
    high, low = d.pair_product(_log2_pair(usual), (bound, bound.like(0.0)))
    high = _clamped(high, 1100.0)
    n = high.one("frint")
    rest = ((high - n) + (high.magnitude() < 1100.0).where(low, 0.0)) * float(_LN2)
    value = scaled(_grown(rest) + 1.0, n.to(Ty.I64))
    falls = y < 0.0
    value = size.eq(0.0).where(falls.where(x.like(INF), 0.0), value)
    value = size.eq(INF).where(falls.where(x.like(0.0), INF), value)
    fraction = y.ne(y.one("ftrunc"))
    half = y * 0.5
    odd = (far < 2.0**53).where(half.ne(half.one("ftrunc")), Reg(x.b, x.b.const(Ty.BOOL, False))) & ~fraction
    value = ((x.i < 0) & odd).where(-value, value)
    broken = (x < 0.0) & fraction & (size < INF) & (far < INF)
    value = broken.where(value.like(NAN), value)
    value = x.ne(x).where(x, y.ne(y).where(y, value))
    return (y.eq(0.0) | x.eq(1.0) | (size.eq(1.0) & far.eq(INF))).where(1.0, value)


__all__ = ["exp", "expm1", "log", "log1p", "power"]
