"""Trigonometric functions and their inverses from add, multiply and integer operations.

|x| is reduced to r + lost in [-pi/4, pi/4] and a quadrant: up to 200 with pi/2 in three parts, beyond it with 96 bits of
2/pi chosen by the exponent, multiplied as integers. `lost` is what r lacks to full precision.
"""

from __future__ import annotations

from oa._kernel.emit import coefficients as co
from oa._kernel.emit.exact import divide, finite_or_nan, sqrt, top_half
from oa._kernel.emit.maths_exp import ROUND
from oa._kernel.emit.reg import Reg, horner

TWO_OVER_PI = 0.6366197723675814
# pi/2 = A + B + C with 17 bits in A and B each: n A and n B are exact for n < 128.
HALF_PI_A, HALF_PI_B, HALF_PI_C = 1.5707855224609375, 1.0804273188114166e-05, 6.07710062827671e-11
HALF_PI, HALF_PI_LOW = 1.57079637050628662109375, -4.3711390001862426e-08
#: pi/2 = TOP + BOTTOM with 12 bits in TOP.
HALF_PI_TOP = 1.5703125
HALF_PI_BOTTOM = 1.5707963267948966 - HALF_PI_TOP
NEAR = 200.0
#: 18 zero bits, then the binary digits of 2/pi: bit s starts the digits that matter for the exponent field 134 + s.
PI_DIGITS = (0x000028BE, 0x60DB9391, 0x054A7F09, 0xD5F47D4D, 0x377036D8, 0xA5664F10, 0xE4107F94)


def _near(size: Reg) -> tuple[Reg, Reg, Reg]:
    """(quadrant, r, lost) for |x| < 200."""
    shifted = size * TWO_OVER_PI + ROUND
    n = shifted - ROUND
    a, b, c = size - n * HALF_PI_A, n * HALF_PI_B, n * HALF_PI_C
    ab = a - b
    r = ab - c
    return shifted.u, r, ((ab - r) - c) + ((a - ab) - b)


def _digits(exponent: Reg) -> list[Reg]:
    """The three words of 2/pi that matter for the biased exponent (134 to 254)."""
    start = exponent - 134
    by_one, by_two = (start & 32).ne(0), (start & 64).ne(0)
    words = [start.like(w) for w in PI_DIGITS]
    pairs = [by_two.where(words[k + 2], words[k]) for k in range(5)]
    chosen = [by_one.where(pairs[k + 1], pairs[k]) for k in range(4)]
    shift = start & 31
    back = shift ^ 31
    return [(chosen[k] << shift) | ((chosen[k + 1] >> 1) >> back) for k in range(3)]


def _far(size: Reg) -> tuple[Reg, Reg, Reg]:
    """(quadrant, r, lost) for 128 <= |x|, finite."""
    bits = size.u
    mantissa = (bits & 0x7FFFFF) | 0x800000
    w0, w1, w2 = _digits(bits >> 23)
    low = mantissa * w1
    middle = low + mantissa.two("umulhi", w2)
    high = mantissa * w0 + mantissa.two("umulhi", w1) + (middle < low).where(low.like(1), 0)
    # high : middle is x 2/pi as a binary fraction of 4; take the nearest quadrant off.
    quadrant = (high + 0x20000000) >> 30
    top = ((high << 2) | (middle >> 30)).i
    left = (top >> 8).one("i2f") * 2.0**-24
    right = (((top.u << 24) | (middle >> 6 & 0xFFFFFF)).one("u2f")) * 2.0**-56
    turn = left + right
    fine = right - (turn - left)
    coarse = top_half(turn)
    fine = (turn - coarse) + fine
    product = coarse * HALF_PI_TOP  # exact
    rest = coarse * HALF_PI_BOTTOM + fine * HALF_PI
    r = product + rest
    return quadrant, r, rest - (r - product)


def _reduced(size: Reg) -> tuple[Reg, Reg, Reg]:
    """(quadrant, r, lost) of |x|."""
    b = size.b
    values = b.if_else((size < NEAR).v, lambda: [v.v for v in _near(size)], lambda: [v.v for v in _far(size)])
    quadrant, r, lost = (Reg(b, v) for v in values)
    return quadrant, r, lost


def _sine(r: Reg, lost: Reg, z: Reg) -> Reg:
    return r + (r * z * horner(z, co.SIN) + lost)


def _cosine(r: Reg, lost: Reg, z: Reg) -> Reg:
    return 1.0 - (z * 0.5 - (z * z * horner(z, co.COS) - r * lost))


def _quadrant_sine(quadrant: Reg, r: Reg, lost: Reg) -> Reg:
    """sin(r + lost + quadrant pi/2)."""
    z = r * r
    value = (quadrant & 1).ne(0).where(_cosine(r, lost, z), _sine(r, lost, z))
    return (value.u ^ ((quadrant & 2) << 30)).f


def sin(x: Reg) -> Reg:
    """Sine of any finite argument."""
    size = x.magnitude()
    value = _quadrant_sine(*_reduced(size))
    return finite_or_nan(x, (value.u ^ (x.u & 0x80000000)).f)


def cos(x: Reg) -> Reg:
    """Cosine of any finite argument."""
    quadrant, r, lost = _reduced(x.magnitude())
    return finite_or_nan(x, _quadrant_sine(quadrant + 1, r, lost))


def tan(x: Reg) -> Reg:
    """Tangent of any finite argument."""
    quadrant, r, lost = _reduced(x.magnitude())
    z = r * r
    t = r + (r * z * horner(z, co.TAN) + (lost + lost * z))
    value = (quadrant & 1).ne(0).where(divide(-1.0, t), t)
    return finite_or_nan(x, (value.u ^ (x.u & 0x80000000)).f)


def _asin_parts(size: Reg) -> tuple[Reg, Reg, Reg]:
    """(inside 0.6, s, s^3 P(s^2)) with asin |x| = s + that inside, pi/2 - 2 (s + that) outside, s = sqrt((1 - |x|) / 2)."""
    inside = size < 0.6
    z = inside.where(size * size, 0.5 - size * 0.5)
    s = inside.where(size, sqrt(z))
    return inside, s, s * z * horner(z, co.ASIN)


def asin(x: Reg) -> Reg:
    """Arc sine; NaN outside [-1, 1]."""
    inside, s, rest = _asin_parts(x.magnitude())
    twice = s * 2.0
    outside = HALF_PI - twice
    lost = (HALF_PI - outside) - twice
    outside = outside + ((lost + HALF_PI_LOW) - rest * 2.0)
    return inside.where(s + rest, outside).signed_like(x)


def acos(x: Reg) -> Reg:
    """Arc cosine; NaN outside [-1, 1]."""
    inside, s, rest = _asin_parts(x.magnitude())
    below = x < 0.0
    signed, bent = below.where(-s, s), below.where(-rest, rest)
    middle = (HALF_PI - signed) + (HALF_PI_LOW - bent)
    twice, twist = s * 2.0, rest * 2.0
    outer = below.where((2 * HALF_PI - twice) + (2 * HALF_PI_LOW - twist), twice + twist)
    return inside.where(middle, outer)


def _atan_ratio(ratio: Reg, flip: Reg) -> Reg:
    """atan(ratio) for 0 <= ratio <= 1; pi/2 minus that where `flip` holds."""
    z = ratio * ratio
    rest = ratio * z * horner(z, co.ATAN)
    return flip.where((HALF_PI - ratio) + (HALF_PI_LOW - rest), ratio + rest)


def atan(x: Reg) -> Reg:
    """Arc tangent."""
    size = x.magnitude()
    flip = size > 1.0
    return _atan_ratio(divide(flip.where(x.like(1.0), size), flip.where(size, 1.0)), flip).signed_like(x)


def atan2(y: Reg, x: Reg) -> Reg:
    """Angle of the point (x, y), in [-pi, pi]; signed zeros and infinities as in C."""
    across, up = x.magnitude(), y.magnitude()
    flip = up > across
    small, large = flip.where(across, up), flip.where(up, across)
    ratio = divide(small, large)
    ratio = small.eq(large).where(1.0, ratio)  # inf / inf and 0 / 0
    ratio = large.eq(0.0).where(0.0, ratio)
    angle = _atan_ratio(ratio, flip)
    left = x.i < 0
    angle = left.where((2 * HALF_PI - angle) + 2 * HALF_PI_LOW, angle)
    angle = (across.ne(across) | up.ne(up)).where(x + y, angle)
    return (angle.magnitude().u | (y.u & 0x80000000)).f
