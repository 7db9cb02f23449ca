"""Conversions between dtypes: float to integer saturates and NaN gives 0, integers wrap, anything but zero is True."""

from __future__ import annotations

from oa._kernel.emit.reg import Reg
from oa._kernel.emit.types import Ty

_REGISTER = {"int32": Ty.I32, "uint32": Ty.U32, "uint8": Ty.U32}


def cast(x: Reg, source: str, target: str) -> Reg:
    """`x`, a register of dtype `source`, as a register of dtype `target`."""
    if source == target:
        return x
    if target == "bool":
        return x.ne(0)
    if source == "bool":
        return _from_bool(x, target)
    if source == "float32":
        return _from_float(x, target)
    if target == "float32":
        return x.one("i2f" if source == "int32" else "u2f")
    whole = x.i if target == "int32" else x.u
    return whole & 0xFF if target == "uint8" else whole


def _from_bool(x: Reg, target: str) -> Reg:
    b = x.b
    ty = _REGISTER.get(target, Ty.F32)
    return Reg(b, b.select(x.v, b.const(ty, 1), b.const(ty, 0)))


def _from_float(x: Reg, target: str) -> Reg:
    """Only in-range values are converted, since anything else is undefined; NaN is never in range."""
    if target == "int32":
        whole = (x.magnitude() < 2.0**31).where(x, 0.0).one("f2i")
        whole = (x >= 2.0**31).where(0x7FFFFFFF, whole)
        return (x <= -(2.0**31)).where(-0x80000000, whole)
    limit, most = (2.0**32, 0xFFFFFFFF) if target == "uint32" else (256.0, 255)
    inside = (x > 0.0) & (x < limit)
    whole = inside.where(x, 0.0).one("f2u")
    return (x >= limit).where(most, whole)
