"""Power, hypotenuse and floating-point remainder from add, multiply and integer operations."""

from __future__ import annotations

from oa._kernel.emit import coefficients as co
from oa._kernel.emit.exact import INF, divide, residual, sqrt, top_half
from oa._kernel.emit.maths_exp import ROUND
from oa._kernel.emit.maths_log import NAN, TINY, split
from oa._kernel.emit.reg import Reg, horner
from oa._kernel.emit.types import Ty, Value

#: 2 / log 2 = TOP + BOTTOM with 12 bits in TOP.
SLOPE = 2.8853900817779268
SLOPE_TOP = 2.884765625
SLOPE_BOTTOM = SLOPE - SLOPE_TOP
#: log2 of 13/16 and of 5/4 = multiple of 2^-12 + rest.
LOG2_C = ((-0.299560546875, 2.6501609218243516e-07), (0.32177734375, 0.00015075113736234824))
#: Powers of two, of floats and of doubles: larger numbers than the first are divided by the second, smaller ones than the third
#: multiplied by the fourth, so that neither their squares nor the scaled-back root leave the range on the way.
HYPOT_SCALES = ((60, 80, -40, 96), (500, 600, -450, 600))


def _log2_pair(x: Reg) -> tuple[Reg, Reg]:
    """log2 x as a sum of two floats, with about 31 bits.

    x = 2^e m, m near c = 13/16, 1 or 5/4: log2 m = log2 c + 2 atanh(s) / log 2 with s = (m - c) / (m + c) below 0.07.
    """
    e, f = split(x)
    m = f + 1.0  # exact: f came from m
    low_m, high_m = m < 0.9, m > 1.118
    c = low_m.where(m.like(0.8125), high_m.where(m.like(1.25), 1.0))
    base = low_m.where(m.like(LOG2_C[0][0]), high_m.where(m.like(LOG2_C[1][0]), 0.0))
    base_rest = low_m.where(m.like(LOG2_C[0][1]), high_m.where(m.like(LOG2_C[1][1]), 0.0))
    above, below = m - c, m + c
    s = divide(above, below)
    lost = m - (below - c)
    fine = divide(residual(above, s, below) - s * lost, below)
    z = s * s
    top = top_half(s)
    rest = s * z * horner(z, co.LOG2_ODD) + top * SLOPE_BOTTOM + ((s - top) + fine) * SLOPE + base_rest
    n, lead = e.one("i2f") + base, top * SLOPE_TOP
    high = n + lead
    low = (lead - (high - n)) + rest
    total = high + low
    return total, low - (total - high)


def _exp2_pair(high: Reg, low: Reg) -> Reg:
    """2^(high + low), also where it overflows or underflows."""
    t = high + low
    shifted = t + ROUND
    r = (high - (shifted - ROUND)) + low
    p = r * horner(r, co.EXP2) + 1.0
    value = (t < -126.0).where(0.0, (p.u + (shifted.u << 23)).f)
    inside = (t < 128.0) | (t.eq(128.0) & (p < 1.0))  # t itself was rounded
    return inside.where(value, t + INF)


def power(x: Reg, y: Reg) -> Reg:
    """x^y as in C: NaN for a negative base with a fractional exponent, 1 for y = 0 and for x = 1."""
    size, far = x.magnitude(), y.magnitude()
    # |log2 x| >= 2^-24 unless x is 1, so a larger exponent changes nothing; infinities become finite.
    bound = (far > 2.0**33).where(far.like(2.0**33), far).signed_like(y)
    high, low = _log2_pair(size)
    y_top, top = top_half(bound), top_half(high)
    rest = (bound - y_top) * high + y_top * ((high - top) + low)
    value = _exp2_pair(y_top * top, rest)
    falls = y < 0.0
    value = (size < TINY).where(falls.where(x.like(INF), 0.0), value)
    value = size.eq(INF).where(falls.where(x.like(0.0), INF), value)
    fraction = y.ne(y.one("ftrunc"))
    odd = ((far < 2.0**24).where(bound, 0.0).one("f2i") & 1).ne(0) & ~fraction
    negative = x.i < 0
    value = (negative & odd).where(-value, value)
    broken = (x < 0.0) & fraction & (size < INF) & (size >= TINY)
    value = broken.where(value.like(NAN), value)
    value = (size.u > 0x7F800000).where(x, (far.u > 0x7F800000).where(y, value))
    return ((far < TINY) | x.eq(1.0)).where(1.0, value)


def hypot(x: Reg, y: Reg) -> Reg:
    """sqrt(x^2 + y^2) without overflow or underflow on the way; infinite if either is, even if the other is NaN."""
    a, b = x.magnitude(), y.magnitude()
    most = (a > b).where(a, b)
    above, down, below, up = HYPOT_SCALES[x.v.ty.is_wide]
    big, tiny = most > 2.0**above, most < 2.0**below
    scale = big.where(a.like(2.0**-down), tiny.where(a.like(2.0**up), 1.0))
    back = big.where(a.like(2.0**down), tiny.where(a.like(2.0**-up), 1.0))
    a_scaled, b_scaled = a * scale, b * scale
    value = sqrt(a_scaled * a_scaled + b_scaled * b_scaled) * back
    return (a.eq(INF) | b.eq(INF)).where(a.like(INF), value)


def fmod(x: Reg, y: Reg) -> Reg:
    """The exact remainder of |x| by |y|, both finite and normal (NaN if y is zero or x infinite).

    Long division on the 24-bit mantissas, eight bits of the quotient a step; quotients below 256 take none.
    """
    a, b = x.magnitude(), y.magnitude()
    divisor = (b.u & 0x7FFFFF) | 0x800000
    inverse = divide(1.0, divisor.one("u2f"))

    def step(rest: Reg, bits: Reg) -> Reg:
        wide = rest << bits
        quotient = (wide.one("u2f") * inverse).one("f2u")
        left = (wide - quotient * divisor).i  # the quotient may be off by one either way
        left = (left < 0).where(left + divisor.i, left)
        return (left >= divisor.i).where(left - divisor.i, left).u

    distance = (a.u >> 23).i - (b.u >> 23).i
    distance = (distance < 0).where(0, distance).u
    mantissa = (a.u & 0x7FFFFF) | 0x800000
    start = step(step(mantissa, mantissa.like(0)), distance & 7)

    def again(_: Value, rest: Value) -> list[Value]:
        return [step(Reg(x.b, rest), mantissa.like(8)).v]

    rest = Reg(x.b, x.b.repeat((distance >> 3).v, again, start.v)[0])
    value = rest.one("u2f") * 2.0**-23 * (b.u & 0x7F800000).f
    value = (a < b).where(a, value)
    valid = (a < INF) & (b >= TINY)
    return valid.where(value, a.like(NAN))


def remainder(x: Reg, y: Reg) -> Reg:
    """x - floor(x / y) y with the sign of y, as Python's and NumPy's %."""
    rest = _truncated(x, y)
    bent = (rest < 0.0).ne(y < 0.0).where(rest + y, rest)
    return rest.eq(0.0).where(x.like(0.0).signed_like(y), bent)


def floor_divide(x: Reg, y: Reg) -> Reg:
    """floor(x / y), from the exact remainder; infinite (0 / 0: NaN) where y is zero or denormal.

    Where an operand is infinite it is x / y, as the array API standard has it: inf // 2 is inf and -1 // inf is -0.
    """
    rest = _truncated(x, y)
    plain = divide(x, y)
    whole = divide(x - rest, y).one("frint")
    # x - rest was rounded, so the quotient may be one off; what is left of x then is a whole y.
    left = residual(x, whole, y) - rest
    off = (left.magnitude() > y.magnitude() * 0.5) & (whole.magnitude() < 2.0**24)
    whole = off.where(whole + (left < 0.0).ne(y < 0.0).where(x.like(-1.0), 1.0), whole)
    step = rest.ne(0.0) & (rest < 0.0).ne(y < 0.0)
    value = step.where(whole - 1.0, whole)
    value = value.eq(0.0).where(x.like(0.0).signed_like(plain), value)
    infinite = x.magnitude().eq(INF) | y.magnitude().eq(INF)
    value = infinite.where(plain, value)
    by_zero = (x.magnitude() >= TINY).where(x.like(INF), NAN)
    by_zero = (by_zero.u ^ ((x.u ^ y.u) & 0x80000000)).f
    return (y.magnitude() < TINY).where(by_zero, value)


def _truncated(x: Reg, y: Reg) -> Reg:
    """The remainder with the sign of x."""
    return (fmod(x, y).u | (x.u & 0x80000000)).f


def integer_power(x: Reg, n: Reg) -> Reg:
    """x^n modulo the width of unsigned registers, by repeated squaring."""
    one = x.like(1)

    def step(_: Value, *state: Value) -> list[Value]:
        result, base, left = (Reg(x.b, v) for v in state)
        result = (left & 1).ne(0).where(result * base, result)
        return [result.v, (base * base).v, (left >> 1).v]

    return Reg(x.b, x.b.repeat(x.b.const(Ty.U32, x.v.ty.bits), step, one.v, x.v, n.v)[0])
