"""Trigonometric functions and their inverses in float64.

|x| is reduced to r + lost in [-pi/4, pi/4] and a quadrant: below 10^5 with pi/2 in three parts, beyond with 192 bits of 2/pi
chosen by the exponent and multiplied as integers (Payne and Hanek 1983). Arc tangents add a tabulated one.
"""

from __future__ import annotations

import math
from fractions import Fraction

from oa._kernel.emit import double as d
from oa._kernel.emit.double import INF, NAN, quotient
from oa._kernel.emit.reg import Reg, horner
from oa._kernel.emit.types import Ty

_NEAR = 1e5
_PI = Fraction(d.pi_digits(1300), 1 << 1300)
HALF_PI, HALF_PI_LOW = d.exact_pair(_PI / 2)
PI, PI_LOW = d.exact_pair(_PI)


def _parts() -> tuple[float, float, float]:
    """pi/2 as two numbers of 33 bits and the rest."""
    first = Fraction(math.floor(_PI / 2 * 2**32), 2**32)
    second = Fraction(math.floor((_PI / 2 - first) * 2**66), 2**66)
    return float(first), float(second), float(_PI / 2 - first - second)


_PART_A, _PART_B, _PART_C = _parts()
_WORDS = 41
#: 64 zero bits, then the binary digits of 2/pi, as words.
_DIGITS = tuple(
    math.floor(2 / _PI * (1 << 32 * (_WORDS - 2))) >> 32 * (_WORDS - 1 - k) & 0xFFFFFFFF
    for k in range(_WORDS)
)
_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 10))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(2, 11))
_ATAN = tuple((-1) ** k / (2 * k + 1) for k in range(1, 9))


def _arc(x: Fraction) -> Fraction:
    """atan(x) for 0 <= x <= 1, to 100 bits."""
    if x == 1:
        return _PI / 4
    total, term, k = Fraction(0), x, 0
    while abs(term) > Fraction(1, 1 << 110):
        total += term / (2 * k + 1)
        term, k = -term * x * x, k + 1
    return total


_ARCS = tuple(d.exact_pair(_arc(Fraction(k, 8))) for k in range(9))


def _near(size: Reg) -> tuple[Reg, Reg, Reg]:
    """(quadrant, r, lost) for |x| < 10^5."""
    n = (size * (2 / math.pi)).one("frint")
    a, b, c = size - n * _PART_A, n * _PART_B, n * _PART_C
    ab = a - b
    r = ab - c
    return n.to(Ty.I64).to(Ty.U32), r, ((ab - r) - c) + ((a - ab) - b)


def _window(start: Reg) -> list[Reg]:
    """Six words of the digits from bit `start`, the last first, as U64."""
    b = start.b
    words = [Reg(b, b.const(Ty.U32, w)) for w in _DIGITS]
    place = start >> 5
    for step in (32, 16, 8, 4, 2, 1):
        taken = (place & step).ne(0)
        length = min(6 + step, len(words))
        words = [taken.where(words[min(k + step, len(words) - 1)], words[k]) for k in range(length)]
    shift = start & 31
    back = shift ^ 31
    return [((words[k] << shift) | ((words[k + 1] >> 1) >> back)).to(Ty.U64) for k in reversed(range(6))]


def _far(size: Reg) -> tuple[Reg, Reg, Reg]:
    """(quadrant, r, lost) for 10^5 <= |x|, finite."""
    bits = size.u
    mantissa = (bits & d.MANTISSA) | d.MANTISSA + 1
    low_half, high_half = mantissa & 0xFFFFFFFF, mantissa >> 32
    start = ((bits >> 52).to(Ty.U32) & 0x7FF) - (1075 - 62)
    words = _window(start)
    product, carry = [], mantissa.like(0)
    for k in range(6):
        first = low_half * words[k] + carry
        second = high_half * words[k - 1] + (first & 0xFFFFFFFF) if k else first & 0xFFFFFFFF
        carry = (first >> 32) + (second >> 32)
        product.append(second & 0xFFFFFFFF)
    quadrant = ((product[5] + 0x20000000) >> 30).to(Ty.U32) & 3
    top = ((product[5] << 34) | (product[4] << 2) | (product[3] >> 30)).i
    more = ((product[3] << 34) | (product[2] << 2) | (product[1] >> 30)).u
    left = (top >> 11).to(Ty.F64) * 2.0**-53
    right = (((top.u & 0x7FF) << 53) | (more >> 11)).to(Ty.F64) * 2.0**-117
    turn, fine = d.two_sum(left, right)
    high, low = d.two_product(turn, turn.like(HALF_PI))
    r, lost = d.quick_sum(high, low + (turn * HALF_PI_LOW + fine * HALF_PI))
    return quadrant, r, lost


def _reduced(size: Reg) -> tuple[Reg, Reg, Reg]:
    b = size.b
    near = (size < _NEAR).where(size, 0.0)
    far = (size >= _NEAR) & (size < INF)
    safe = far.where(size, _NEAR)
    values = b.if_else(far.v, lambda: [v.v for v in _far(safe)], lambda: [v.v for v in _near(near)])
    quadrant, r, lost = (Reg(b, v) for v in values)
    return quadrant, r, lost


def _sine(r: Reg, lost: Reg) -> Reg:
    z = r * r
    return r + (r * z * horner(z, _SIN) + lost)


def _cosine(r: Reg, lost: Reg) -> Reg:
    z = r * r
    half = z * 0.5
    near = 1.0 - half
    return near + (((1.0 - near) - half) + (z * z * horner(z, _COS) - r * lost))


def _wave(quadrant: Reg, r: Reg, lost: Reg) -> Reg:
    """sin(r + lost + quadrant pi/2)."""
    value = (quadrant & 1).ne(0).where(_cosine(r, lost), _sine(r, lost))
    return (quadrant & 2).ne(0).where(-value, value)


def _finite(x: Reg, value: Reg) -> Reg:
    return (x.magnitude() < INF).where(value, x - x)


def sin(x: Reg) -> Reg:
    """Sine of any finite argument."""
    value = _wave(*_reduced(x.magnitude()))
    return _finite(x, x.eq(0.0).where(x, (value.u ^ (x.u & 1 << 63)).f))


def cos(x: Reg) -> Reg:
    """Cosine of any finite argument."""
    quadrant, r, lost = _reduced(x.magnitude())
    return _finite(x, _wave(quadrant + 1, r, lost))


def tan(x: Reg) -> Reg:
    """Tangent of any finite argument, within 3 units in the last place."""
    quadrant, r, lost = _reduced(x.magnitude())
    s, c = _sine(r, lost), _cosine(r, lost)
    turned = (quadrant & 1).ne(0)
    value = quotient(turned.where(-c, s), turned.where(s, c))
    return _finite(x, x.eq(0.0).where(x, (value.u ^ (x.u & 1 << 63)).f))


def _ratio(num: Reg, den: Reg) -> Reg:
    """atan(num / den) for 0 <= num <= den, den > 0, both moderate."""
    place = (quotient(num, den) * 8.0).one("frint")
    high, low = num.like(_ARCS[0][0]), num.like(_ARCS[0][1])
    for k, (one, two) in enumerate(_ARCS[1:], 1):
        here = place >= float(k)
        high, low = here.where(one, high), here.where(two, low)
    c = place * 0.125
    t = quotient(num - c * den, den + c * num)
    z = t * t
    return high + (t + (t * z * horner(z, _ATAN) + low))


def atan(x: Reg) -> Reg:
    """The arc tangent."""
    a = x.magnitude()
    a = (a < 2.0**66).where(a, 2.0**66)
    big = a > 1.0
    value = _ratio(big.where(a.like(1.0), a), big.where(a, 1.0))
    value = big.where(HALF_PI - (value - HALF_PI_LOW), value)
    return x.ne(x).where(x, x.eq(0.0).where(x, value.signed_like(x)))


def atan2(y: Reg, x: Reg) -> Reg:
    """The angle of the point (x, y)."""
    a, c = y.magnitude(), x.magnitude()
    big = a > c
    den, num = big.where(a, c), big.where(c, a)
    scale = (den > 2.0**900).where(den.like(2.0**-200), (den < 2.0**-700).where(den.like(2.0**300), 1.0))
    infinite = den.eq(INF)
    num = infinite.where(num.eq(INF).where(num.like(1.0), 0.0), num * scale)
    den = (infinite | den.eq(0.0)).where(1.0, den * scale)
    value = _ratio(num, den)
    value = big.where(HALF_PI - (value - HALF_PI_LOW), value)
    value = (x.i < 0).where(PI - (value - PI_LOW), value)
    return (x.ne(x) | y.ne(y)).where(x + y, value.signed_like(y))


def asin(x: Reg) -> Reg:
    """The arc sine; NaN outside [-1, 1]."""
    other = ((1.0 - x) * (x + 1.0)).one("fsqrt")
    value = atan2(x, (x.magnitude() <= 1.0).where(other, 1.0))
    return (x.magnitude() <= 1.0).where(value, x.like(NAN))


def acos(x: Reg) -> Reg:
    """The arc cosine; NaN outside [-1, 1]."""
    inside = x.magnitude() <= 1.0
    other = inside.where((1.0 - x) * (x + 1.0), 0.0).one("fsqrt")
    return inside.where(atan2(other, x), x.like(NAN))
