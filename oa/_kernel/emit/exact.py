"""Division and square root that are right on every device, and error-free transformations.

Vulkan lets a division be wrong by 2.5 units in the last place and a square root by more, and flushes the quotient when the
divisor is huge. Where the device is not known to round them correctly (`Builder.trusted`), one Newton step on the exact
residual repairs them. The residual comes from a fused multiply-add where that is trusted, else from products of half-width
factors, which are exact by construction.
"""

from __future__ import annotations

from oa._kernel.emit.reg import Reg
from oa._kernel.emit.types import Ty

INF = float("inf")


def top_half(x: Reg) -> Reg:
    """The upper 12 significant bits of `x`; `x` minus it has the other 12, so products of halves are exact."""
    return (x.u & 0xFFFFF000).f


def residual(a: Reg, q: Reg, d: Reg) -> Reg:
    """a - q d, nearly exact when q d is within a few units in the last place of a."""
    if "ffma" in a.b.trusted:
        return Reg(a.b, a.b.op("ffma", (-q).v, d.v, a.v))
    q1, d1 = top_half(q), top_half(d)
    q0, d0 = q - q1, d - d1
    return ((a - q1 * d1) - q1 * d0 - q0 * d1) - q0 * d0


def _corrected_quotient(a: Reg, d: Reg) -> Reg:
    """a / d by reciprocal, multiplication and one correction; scaled so that nothing on the way is flushed.

    The divisor comes between 2^-62 and 2^64 and a numerator below 1 is raised by 2^64, so that a quotient that is a normal number
    is worked out above 2^-64, where the residual's factors of half width are normal numbers too.
    """
    size = d.magnitude()
    scale = (size >= 2.0**64).where(size.like(2.0**-64), (size < 2.0**-32).where(size.like(2.0**64), 1.0))
    small = a.magnitude() < 1.0
    a, d = a * small.where(a.like(2.0**64), 1.0), d * scale
    reciprocal = Reg(a.b, a.b.op("fdiv", a.like(1.0).v, d.v))
    quotient = a * reciprocal
    error = residual(a, quotient, d)
    # Only for a finite residual that is not zero, which keeps the sign of a zero quotient.
    usable = ((error.u & 0x7FFFFFFF) - 1) < 0x7F7FFFFF
    value = usable.where(quotient + error * reciprocal, quotient)
    return value * small.where(a.like(2.0**-64), 1.0) * scale


def _corrected_root(x: Reg) -> Reg:
    """sqrt(x) with one correction; tiny arguments are scaled so that the residual is not flushed."""
    tiny = x < 2.0**-64
    root = (x * tiny.where(x.like(2.0**64), 1.0)).one("fsqrt")
    scaled = x * tiny.where(x.like(2.0**64), 1.0)
    half_slope = Reg(x.b, x.b.op("fdiv", x.like(0.5).v, root.v))
    step = residual(scaled, root, root) * half_slope
    good = (step.magnitude() < INF).where(root + step, root)
    return good * tiny.where(x.like(2.0**-32), 1.0)


def divide(a: Reg | float, d: Reg | float) -> Reg:
    """a / d, correctly rounded or within one unit in the last place; in float64 as the device does it."""
    like = a if isinstance(a, Reg) else d
    if not isinstance(like, Reg):
        raise TypeError("divide: one operand must be a register")
    b, x, y = like.b, like._value(a), like._value(d)
    if "fdiv" in b.trusted or x.ty is Ty.F64:
        return Reg(b, b.op("fdiv", x, y))
    b.function(
        "divide", (Ty.F32, Ty.F32), Ty.F32, lambda p: _corrected_quotient(Reg(b, p[0]), Reg(b, p[1])).v
    )
    return Reg(b, b.call("divide", x, y))


def sqrt(x: Reg) -> Reg:
    """Square root, correctly rounded or within one unit in the last place; in float64 as the device does it."""
    b = x.b
    if "fsqrt" in b.trusted or x.v.ty is Ty.F64:
        return x.one("fsqrt")
    b.function("sqrt", (Ty.F32,), Ty.F32, lambda p: _corrected_root(Reg(b, p[0])).v)
    return Reg(b, b.call("sqrt", x.v))


def finite_or_nan(x: Reg, value: Reg) -> Reg:
    """`value` for finite `x`; NaN for infinities and NaN."""
    return (x.magnitude() < INF).where(value, float("nan"))
