"""Real expressions with operators, complex numbers made of two, and what both halves of complex arithmetic need."""

from __future__ import annotations

from typing import NamedTuple

from oa._schema import scalar as sc
from oa._schema.scalar import Scalar


class R:
    """A real expression with Python's operators; numbers take its dtype."""

    __slots__ = ("v",)

    def __init__(self, v: Scalar) -> None:
        self.v = v

    def like(self, x: R | float | bool) -> R:
        """A number in this expression's dtype."""
        return x if isinstance(x, R) else R(sc.const(x, self.v.dtype))

    def one(self, op: str) -> R:
        """An operation on this expression alone."""
        return R(sc.apply(op, self.v))

    def two(self, op: str, other: R | float) -> R:
        """An operation on this expression and another."""
        return R(sc.apply(op, self.v, self.like(other).v))

    def __add__(self, other: R | float) -> R:
        return self.two("add", other)

    def __sub__(self, other: R | float) -> R:
        return self.two("sub", other)

    def __mul__(self, other: R | float) -> R:
        return self.two("mul", other)

    def __truediv__(self, other: R | float) -> R:
        return self.two("div", other)

    def __neg__(self) -> R:
        return self.one("neg")

    def __abs__(self) -> R:
        return self.one("abs")

    def __and__(self, other: R) -> R:
        return self.two("band", other)

    def __or__(self, other: R) -> R:
        return self.two("bor", other)

    def __invert__(self) -> R:
        return self.one("bnot")

    def __lt__(self, other: R | float) -> R:
        return self.two("lt", other)

    def __le__(self, other: R | float) -> R:
        return self.two("le", other)

    def __gt__(self, other: R | float) -> R:
        return self.two("gt", other)

    def __ge__(self, other: R | float) -> R:
        return self.two("ge", other)

    def eq(self, other: R | float) -> R:
        return self.two("eq", other)

    def ne(self, other: R | float) -> R:
        return self.two("ne", other)

    def signed(self, other: R | float) -> R:
        """The magnitude of this with the sign of another."""
        return self.two("copysign", other)

    @property
    def inf(self) -> R:
        return self.one("isinf")

    @property
    def nan(self) -> R:
        return self.one("isnan")

    @property
    def finite(self) -> R:
        return self.one("isfinite")

    @property
    def wide(self) -> bool:
        """Whether this is float64."""
        return self.v.dtype.itemsize == 8


class Complex(NamedTuple):
    """A complex number as two real expressions."""

    re: R
    im: R


def choose(condition: R, a: R | float, b: R | float) -> R:
    """`a` where the condition holds, else `b`; one of the two is an expression."""
    like = a if isinstance(a, R) else b
    assert isinstance(like, R)
    return R(sc.apply("where", condition.v, like.like(a).v, like.like(b).v))


def select(condition: R, a: Complex, b: Complex) -> Complex:
    """`a` where the condition holds, else `b`."""
    return Complex(choose(condition, a.re, b.re), choose(condition, a.im, b.im))


def unit(z: Complex) -> Complex:
    """1, in z's dtype."""
    return Complex(z.re.like(1.0), z.re.like(0.0))


def hypot(z: Complex) -> R:
    """|z| without overflow or underflow on the way."""
    return z.re.two("hypot", z.im)


def largest(z: Complex) -> R:
    """max(|re|, |im|); NaN if either is."""
    return abs(z.re).two("max", abs(z.im))


def tame(z: Complex) -> tuple[Complex, R]:
    """(z s, s) for a power of four s with which sums and products of few parts neither overflow nor lose digits to underflow.

    s is 1 except near the ends of the range: below 2^-75 (2^-900) and from 2^125 (2^1021).
    """
    low, up, high = (2.0**-900, 2.0**128, 2.0**1021) if z.re.wide else (2.0**-75, 2.0**48, 2.0**125)
    size = largest(z)
    factor = choose(size >= high, z.re.like(0.25), choose(size < low, z.re.like(up), 1.0))
    return Complex(z.re * factor, z.im * factor), factor


def divided(a: Complex, b: Complex) -> Complex:
    """a / b by Smith's method on operands scaled away from the ends of the range; |error| <= 8 u |a / b|.

    A real divisor divides both parts exactly as a real division would. Divided by 0 each part is; by infinity it is 0 (C99).
    """
    over, factor_a = tame(a)
    under, factor_b = tame(b)
    endless = b.re.inf | b.im.inf
    c = choose(endless, choose(b.re.inf, b.re.like(1.0), 0.0).signed(b.re), under.re)
    d = choose(endless, choose(b.im.inf, b.im.like(1.0), 0.0).signed(b.im), under.im)
    first = abs(c) >= abs(d)
    large, small = choose(first, c, d), choose(first, d, c)
    zero = large.eq(0.0)
    ratio = choose(zero, 0.0, small / large)
    whole = choose(zero, large, large + small * ratio)
    x, y = choose(first, over.re, over.im), choose(first, over.im, over.re)
    plain = ratio.eq(0.0)  # no product of infinity and 0
    re = choose(plain, x, x + y * ratio) / whole
    im = choose(plain, y, y - x * ratio) / whole
    im = choose(first, im, -im)
    back = choose(endless, 0.0, factor_b)
    return Complex(re * back / factor_a, im * back / factor_a)


Pair = tuple[R, R]


def two_sum(a: R, b: R) -> Pair:
    """a + b and what its rounding lost (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def two_square(a: R) -> Pair:
    """a^2 and what its rounding lost (Dekker), for |a| far from the ends of the range."""
    big = a * (134217729.0 if a.wide else 4097.0)
    high = big - (big - a)
    low = a - high
    product = a * a
    return product, ((high * high - product) + high * low + high * low) + low * low
