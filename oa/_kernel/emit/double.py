"""float64 arithmetic beyond one instruction: error-free transformations, powers of two, remainders.

Numbers of one double are rounded; a pair (high, low) stands for their sum. Where the device flushes denormal float64, results
below 2^-1022 count as zero.
"""

from __future__ import annotations

from fractions import Fraction

from oa._kernel.emit.reg import Reg
from oa._kernel.emit.types import Ty, Value

INF, NAN = float("inf"), float("nan")
TINY = 2.0**-1022
MANTISSA = (1 << 52) - 1
Pair = tuple[Reg, Reg]


def quotient(a: Reg | float, b: Reg) -> Reg:
    """a / b as the device rounds it."""
    return Reg(b.b, b.b.op("fdiv", a.v if isinstance(a, Reg) else b.like(a).v, b.v))


def two_sum(a: Reg, b: Reg) -> Pair:
    """a + b and what its rounding lost (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def quick_sum(a: Reg, b: Reg) -> Pair:
    """`two_sum` for |a| >= |b| (Dekker)."""
    total = a + b
    return total, b - (total - a)


def _halves(x: Reg) -> Pair:
    """x as 26 and 27 significant bits (Veltkamp); |x| below 2^996."""
    big = x * 134217729.0
    high = big - (big - x)
    return high, x - high


def two_product(a: Reg, b: Reg) -> Pair:
    """a b and what its rounding lost (Dekker)."""
    product = a * b
    a1, a0 = _halves(a)
    b1, b0 = _halves(b)
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def pair_product(a: Pair, b: Pair) -> Pair:
    """The product of two pairs."""
    high, low = two_product(a[0], b[0])
    return quick_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def exact_pair(value: Fraction) -> tuple[float, float]:
    """A number as the sum of two doubles."""
    high = float(value)
    return high, float(value - Fraction(high))


def power_of_two(n: Reg) -> Reg:
    """2^n for an I64 n from -1022 to 1023."""
    return ((n + 1023) << 52).f


def scaled(x: Reg, n: Reg) -> Reg:
    """x 2^n for an I64 n from -2044 to 2046, in two steps."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def split(x: Reg) -> tuple[Reg, Reg]:
    """(e as F64, m) with x = 2^e m and m in [1 / sqrt 2, sqrt 2), for positive finite x."""
    small = x < TINY
    bits = small.where(x * 2.0**54, x).u
    e = (bits - 0x3FE6A09E667F3BCD).i >> 52  # the bits of sqrt(1/2)
    return (small.where(e - 54, e)).to(Ty.F64), (bits - (e << 52).u).f


def fmod(x: Reg, y: Reg) -> Reg:
    """The exact remainder of |x| by |y|, both finite, y normal (else NaN): long division, 11 bits of the quotient a step."""
    a, b = x.magnitude(), y.magnitude()
    divisor = (b.u & MANTISSA) | MANTISSA + 1

    def step(rest: Reg, bits: Reg) -> Reg:
        return (rest << bits).two("urem", divisor)

    distance = (a.u >> 52).i - (b.u >> 52).i
    distance = (distance < 0).where(0, distance)
    whole = floor_by_eleven(distance)
    start = step((a.u & MANTISSA) | MANTISSA + 1, (distance - whole * 11).u)

    def again(_: Value, rest: Value) -> list[Value]:
        return [step(Reg(x.b, rest), divisor.like(11)).v]

    rest = Reg(x.b, x.b.repeat(whole.to(Ty.U32).v, again, start.v)[0])
    value = rest.to(Ty.F64) * 2.0**-52 * (b.u & 0x7FF << 52).f
    value = (a < b).where(a, value)
    return ((a < INF) & (b >= TINY)).where(value, a.like(NAN))


def floor_by_eleven(n: Reg) -> Reg:
    """n // 11 for 0 <= n < 2048."""
    return (n * 5958) >> 16


def _truncated(x: Reg, y: Reg) -> Reg:
    """The remainder with the sign of x."""
    return (fmod(x, y).u | (x.u & 1 << 63)).f


def remainder(x: Reg, y: Reg) -> Reg:
    """x - floor(x / y) y with the sign of y."""
    rest = _truncated(x, y)
    bent = (rest < 0.0).ne(y < 0.0).where(rest + y, rest)
    bent = y.magnitude().eq(INF).where((x < 0.0).ne(y < 0.0).where(y, x), bent)
    bent = (x.magnitude() < INF).where(bent, x.like(NAN))
    bent = (y.u << 1 > 0x7FF << 53).where(y, bent)
    return rest.eq(0.0).where(x.like(0.0).signed_like(y), bent)


def floor_divide(x: Reg, y: Reg) -> Reg:
    """floor(x / y), from the exact remainder; x / y where either is infinite or y is zero (0 / 0: NaN)."""
    plain = quotient(x, y)
    rest = _truncated(x, y)
    rest = (rest.ne(0.0) & (rest < 0.0).ne(y < 0.0)).where(rest + y, rest)
    scale = (x.magnitude() > 2.0**1000).where(x.like(0.5), 1.0)  # x - rest may lie beyond the largest number
    found = quotient(x * scale - rest * scale, y * scale)
    whole = found.one("ffloor")
    whole = (found - whole > 0.5).where(whole + 1.0, whole)
    whole = whole.eq(0.0).where(x.like(0.0).signed_like(plain), whole)
    usual = (x.magnitude() < INF) & (y.magnitude() < INF) & (y.magnitude() >= TINY)
    return usual.where(whole, plain)


def pi_digits(bits: int) -> int:
    """floor(pi 2^bits), by Machin's formula."""
    one = 1 << bits + 32

    def inverse_tangent(n: int) -> int:
        total = term = one // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    return (16 * inverse_tangent(5) - 4 * inverse_tangent(239)) >> 32
