"""Exponentials and hyperbolic functions from add, multiply and integer operations.

e^x = 2^n e^r with n the integer nearest to x / ln 2 and |r| <= ln(2) / 2: r is found with ln 2 in two parts, e^r with a
polynomial, and 2^n enters through the exponent field. Adding 1.5 2^23 rounds to the nearest integer and leaves it in the low
bits of the sum. Results below 2^-126 are flushed to zero.
"""

from __future__ import annotations

from oa._kernel.emit import coefficients as co
from oa._kernel.emit.exact import INF, divide, residual, top_half
from oa._kernel.emit.reg import Reg, horner

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693359375  # ten bits: n times it is exact
LN2_LOW = 0.6931471805599453 - LN2_HIGH
ROUND = 12582912.0  # 1.5 * 2^23
ONE = 0x3F800000  # the bits of 1.0
#: Largest x with a finite e^x, smallest with a normal one; as float32 constants.
OVERFLOW, UNDERFLOW = 88.72283172607422, -87.33654022216797
#: 2 / sqrt(pi), the slope of erf at 0.
TWO_OVER_ROOT_PI = 1.1283791670955126


def _power(n_bits: Reg, bias: int = ONE) -> Reg:
    """2^n from the bits of n + ROUND; an exponent of -127 gives zero."""
    return ((n_bits << 23) + bias).f


def _reduced(x: Reg) -> tuple[Reg, Reg, Reg, Reg]:
    """(bits of n + ROUND, n, x - n ln2_high, n ln2_low)."""
    shifted = x * LOG2_E + ROUND
    n = shifted - ROUND
    return shifted.u, n, x - n * LN2_HIGH, n * LN2_LOW


def _exp_parts(x: Reg) -> tuple[Reg, Reg]:
    """(bits of n + ROUND, e^r)."""
    bits, _, high, low = _reduced(x)
    r = high - low
    return bits, r * r * horner(r, co.EXP) + r + 1.0


def _bounded_exp2(t: Reg, coefficients: tuple[float, ...]) -> Reg:
    """2^t for -127 <= t <= 127; NaN stays NaN."""
    shifted = t + ROUND
    r = t - (shifted - ROUND)
    return (r * horner(r, coefficients) + 1.0) * _power(shifted.u)


def exp(x: Reg) -> Reg:
    """e^x."""
    bits, p = _exp_parts(x)
    value = (x < UNDERFLOW).where(0.0, (p.u + (bits << 23)).f)
    return (x <= OVERFLOW).where(value, x + INF)


def exp2(x: Reg) -> Reg:
    """2^x."""
    shifted = x + ROUND
    r = x - (shifted - ROUND)
    p = r * horner(r, co.EXP2) + 1.0
    value = (x < -126.0).where(0.0, (p.u + (shifted.u << 23)).f)
    return (x < 128.0).where(value, x + INF)


def _expm1_parts(x: Reg) -> tuple[Reg, Reg]:
    """(bits of n + ROUND, e^r - 1), the latter with the rounding of r made good."""
    bits, _, high, low = _reduced(x)
    r = high - low
    lost = (high - r) - low
    return bits, r + (r * r * horner(r, co.EXPM1) + lost)


def expm1(x: Reg) -> Reg:
    """e^x - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2))."""
    bits, p = _expm1_parts(x)
    half = _power(bits, ONE - (1 << 23))
    value = half * p + (half - 0.5)
    value = (x < -17.5).where(-1.0, value + value)
    value = (x <= OVERFLOW).where(value, x + INF)
    # So small an x is its own result; halving it could flush it to zero. Keeps the sign of zero.
    return (x.magnitude() < 2.0**-30).where(x, value)


def sigmoid(x: Reg) -> Reg:
    """1 / (1 + e^-x), as e^-|x| / (1 + e^-|x|) for negative x."""
    size = x.magnitude()
    bits, p = _exp_parts(-(size > 88.0).where(88.0, size))
    power = p * _power(bits)
    below = power + 1.0
    ratio = divide((x < 0.0).where(power, 1.0), below)
    return ratio - ratio * (power - (below - 1.0))  # 1 + e^-|x| was rounded


def tanh(x: Reg) -> Reg:
    """An odd polynomial up to 0.55, beyond it 1 - 2 / (e^(2|x|) + 1)."""
    size = x.magnitude()
    z = x * x
    small = size * z * horner(z, co.TANH) + size
    power = _bounded_exp2((size > 9.25).where(9.25, size) * (2 * LOG2_E), co.EXP2)
    large = 1.0 - divide(2.0, power + 1.0)
    return (size < 0.55).where(small, large).signed_like(x)


def _half_exp(size: Reg) -> Reg:
    """e^size / 2 for size >= 0, also where e^size itself overflows."""
    bits, p = _exp_parts(size)
    return (size <= 89.41598510742188).where((p.u + ((bits << 23) - (1 << 23))).f, size + INF)


def sinh(x: Reg) -> Reg:
    """An odd polynomial up to 1, beyond it h - 1 / (4 h) with h = e^|x| / 2."""
    size = x.magnitude()
    z = x * x
    small = size * z * horner(z, co.SINH) + size
    half = _half_exp(size)
    large = half - divide(0.25, half)
    return (size < 1.0).where(small, large).signed_like(x)


def cosh(x: Reg) -> Reg:
    """h + 1 / (4 h) with h = e^|x| / 2."""
    half = _half_exp(x.magnitude())
    return half + divide(0.25, half)


def erf(x: Reg) -> Reg:
    """x + x h(x^2) up to 0.95, beyond it 1 - 2^q(|x|) with q = log2(1 - erf)."""
    size = x.magnitude()
    z = x * x
    small = size * horner(z, co.ERF) + size
    # The product with h would be denormal, and flushed on some devices.
    small = (size < 2.0**-100).where(size * TWO_OVER_ROOT_PI, small)
    clamped = (size > 3.95).where(3.95, size)
    large = 1.0 - _bounded_exp2(horner(clamped, co.ERF_TAIL), co.EXP2_SHORT)
    return (size < 0.95).where(small, large).signed_like(x)


def erfc(x: Reg) -> Reg:
    """1 - erf(x) below 0.5, beyond it e^(-x^2) s / (2 x + 1) with s near 1.2; 2 - that for negative x."""
    size = x.magnitude()
    size = (size > 9.375).where(9.375, size)
    top = top_half(size)
    rest = (size - top) * (size + top)  # x^2 = top^2 + rest, top^2 exact
    bits, n, _, low = _reduced(-(size * size))
    high, low = -(top * top) - n * LN2_HIGH, low + rest
    r = high - low
    bend = r * r * horner(r, co.EXP) + ((high - r) - low)
    p = r + bend
    p_lost = bend - (p - r)
    double = size * 2.0
    below = double + 1.0
    t = divide(double - 1.0, below)
    slope = horner(t, co.ERFC)
    s = slope + 1.25
    lost = slope - (s - 1.25)
    tail = (lost + s * p_lost) + s * p
    top = s + tail
    quotient = divide(top, below)
    # What rounding took from the numerator, the quotient and 2 x + 1; 1 / (2 x + 1) is (1 - t) / 2.
    rest = (tail - (top - s)) + residual(top, quotient, below) - quotient * (double - (below - 1.0))
    far = (quotient + rest * ((1.0 - t) * 0.5)) * _power(bits)
    near = 1.0 - (x * horner(x * x, co.ERF) + x)
    far = (x < 0.0).where(2.0 - far, far)
    return (size < 0.5).where(near, far)
