"""Scalar operations on integer and bool registers."""

from __future__ import annotations

from collections.abc import Callable

from oa._kernel.emit import prelude
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.scalar_cast import wrapped
from oa._kernel.emit.types import Ty

Operation = Callable[..., Reg]


def _safe_divisor(a: Reg, b: Reg) -> Reg:
    """`b`, or 1 where the division is undefined: by zero, and the least integer by -1."""
    if b.v.const is not None and b.v.const not in (0, (1 << b.v.ty.bits) - 1):
        return b
    bad = b.eq(0)
    if a.v.ty.is_signed:
        bad = bad | (a.eq(-(1 << a.v.ty.bits - 1)) & b.eq(-1))
    return bad.where(1, b)


def _quotient(a: Reg, b: Reg) -> tuple[Reg, Reg, Reg]:
    """(divisor, truncated quotient, remainder). The remainder is a - q b: OpSRem is undefined below zero in Vulkan."""
    d = _safe_divisor(a, b)
    q = a.two("sdiv" if a.v.ty.is_signed else "udiv", d)
    return d, q, a - q * d


def floor_divide(a: Reg, b: Reg) -> Reg:
    """Python's a // b; 0 where b is 0, and the least integer by -1 wraps to itself."""
    d, q, rest = _quotient(a, b)
    if a.v.ty.is_signed:
        q = (rest.ne(0) & ((rest ^ d) < 0)).where(q - 1, q)
    return b.eq(0).where(0, q)


def remainder(a: Reg, b: Reg) -> Reg:
    """Python's a % b, with the sign of b; 0 where b is 0."""
    d, _, rest = _quotient(a, b)
    if a.v.ty.is_signed:
        rest = (rest.ne(0) & ((rest ^ d) < 0)).where(rest + d, rest)
    return b.eq(0).where(0, rest)


def power(a: Reg, b: Reg) -> Reg:
    """a^b modulo the width; a negative exponent gives the truncated reciprocal: 1 or -1 for those bases, else 0."""
    builder = a.b
    value = Reg(builder, prelude.integer_power(builder, a.u.v, b.u.v))
    if not a.v.ty.is_signed:
        return value
    odd = (b & 1).ne(0)
    below = a.eq(1).where(a, a.eq(-1).where(odd.where(a, 1), 0))
    return (b < 0).where(below, value.i)


def _shift(name: str, width: int) -> Operation:
    def run(a: Reg, b: Reg) -> Reg:
        """Shifts by the width or more (or a negative count) give 0, or the sign for a signed shift right."""
        count, most = b.u, a.v.ty.bits - 1
        if name == "shr" and a.v.ty.is_signed:
            return a >> (count > most).where(count.like(most), count)
        moved = a << (count & most) if name == "shl" else Reg(a.b, a.b.op("shr_u", a.v, (count & most).v))
        return (count > width - 1).where(0, moved)

    return run


def _sign(x: Reg) -> Reg:
    if x.v.ty.is_signed:
        return (x > 0).where(x.like(1), (x < 0).where(x.like(-1), 0))
    return x.ne(0).where(x.like(1), 0)


def _abs(x: Reg) -> Reg:
    return (x < 0).where(-x, x) if x.v.ty.is_signed else x


def _truth(value: bool) -> Operation:
    return lambda x: Reg(x.b, x.b.const(Ty.BOOL, value))


def _identity(x: Reg) -> Reg:
    return x


def _negative(x: Reg) -> Reg:
    return x < 0 if x.v.ty.is_signed else Reg(x.b, x.b.const(Ty.BOOL, False))


_SHARED: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda x: -x,
    "square": lambda x: x * x,
    "abs": _abs,
    "sign": _sign,
    "min": lambda a, b: (a < b).where(a, b),
    "max": lambda a, b: (a > b).where(a, b),
    "floordiv": floor_divide,
    "mod": remainder,
    "pow": power,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda x: ~x,
    "isnan": _truth(False),
    "isinf": _truth(False),
    "isfinite": _truth(True),
    "signbit": _negative,
    "floor": _identity,
    "ceil": _identity,
    "trunc": _identity,
    "round": _identity,
}

_BOOL: dict[str, Operation] = {
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda x: ~x,
    "add": lambda a, b: a | b,
    "mul": lambda a, b: a & b,
    "min": lambda a, b: a & b,
    "max": lambda a, b: a | b,
    "isnan": _truth(False),
    "isinf": _truth(False),
    "isfinite": _truth(True),
}

#: Operations whose result may leave the range of a dtype narrower than its register.
_WRAPS = frozenset(("add", "sub", "mul", "neg", "square", "pow", "bnot", "shl", "abs", "floordiv"))
_BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int64": 64, "uint64": 64}


def operation(name: str, dtype: str) -> Operation | None:
    """The operation on registers of an integer dtype or bool; None if it has no meaning there."""
    if dtype == "bool":
        return _BOOL.get(name)
    if name in ("shl", "shr"):
        run: Operation | None = _shift(name, _BITS.get(dtype, 32))
    else:
        run = _SHARED.get(name)
    if run is None or _BITS.get(dtype, 32) >= 32 or name not in _WRAPS:
        return run
    if dtype[0] == "u" and name in ("abs", "floordiv"):
        return run
    wide = run
    return lambda *regs: wrapped(wide(*regs), dtype)
