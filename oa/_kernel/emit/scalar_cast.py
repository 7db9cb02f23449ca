"""Conversions between dtypes: float to integer saturates and NaN gives 0, integers wrap, anything but zero is True."""

from __future__ import annotations

from collections.abc import Callable

from oa._kernel.emit import bfloat, half
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.types import Ty

#: Register type of each dtype.
REGISTER: dict[str, Ty] = {
    "float32": Ty.F32, "int32": Ty.I32, "uint32": Ty.U32, "uint8": Ty.U32, "bool": Ty.BOOL, "float16": Ty.F32,
    "bfloat16": Ty.F32,
    "float64": Ty.F64, "int8": Ty.I32, "int16": Ty.I32, "uint16": Ty.U32, "int64": Ty.I64, "uint64": Ty.U64,
}  # fmt: skip
#: How a float32 is rounded to the dtypes that live in its registers.
NARROWED: dict[str, Callable[[Reg], Reg]] = {"float16": half.rounded, "bfloat16": bfloat.rounded}
#: Width of the integer dtypes that are narrower than their register.
_NARROW = {"int8": 8, "int16": 16, "uint8": 8, "uint16": 16}


def wrapped(x: Reg, dtype: str) -> Reg:
    """A register of an integer dtype whose value may have left the dtype's range, modulo its width."""
    bits = _NARROW.get(dtype)
    if bits is None:
        return x
    return x << 32 - bits >> 32 - bits if x.v.ty.is_signed else x & (1 << bits) - 1


def cast(x: Reg, source: str, target: str) -> Reg:
    """`x`, a register of dtype `source`, as a register of dtype `target`."""
    ty = REGISTER[target]
    if source == target:
        return x
    if target == "bool":
        return x.ne(0)
    if source == "bool":
        return Reg(x.b, x.b.select(x.v, x.b.const(ty, 1), x.b.const(ty, 0)))
    if ty.is_float:
        narrowed = NARROWED.get(target)
        if narrowed is None:
            return x.to(ty)
        return half.from_double(x, narrowed) if source == "float64" else narrowed(x.to(ty))
    return _from_float(x, target) if x.v.ty.is_float else wrapped(x.to(ty), target)


def _from_float(x: Reg, target: str) -> Reg:
    """Only in-range values are converted, since anything else is undefined; NaN is never in range."""
    ty = REGISTER[target]
    bits = _NARROW.get(target, ty.bits)
    if ty.is_signed:
        limit = 2.0 ** (bits - 1)
        whole = (x.magnitude() < limit).where(x, 0.0).to(ty)
        whole = (x >= limit).where((1 << bits - 1) - 1, whole)
        return (x <= -limit).where(-(1 << bits - 1), whole)
    limit = 2.0**bits
    inside = (x > 0.0) & (x < limit)
    whole = inside.where(x, 0.0).to(ty)
    return (x >= limit).where((1 << bits) - 1, whole)
