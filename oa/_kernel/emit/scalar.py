"""One typed scalar operation of the schema, emitted on register values.

Registers: float32, float16 and bfloat16 are F32, integers narrower than 32 bits are I32 or U32 holding values of their range,
bool is BOOL, 64-bit dtypes are registers of their own. Semantics are those of the Python array API standard, and NumPy's where
it is silent; what integers leave undefined (division by zero, shifts by the width or more, casts out of range) is given a fixed
value here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oa._kernel.emit import philox, prelude, scalar_cast, scalar_float, scalar_int
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.scalar_cast import REGISTER
from oa._kernel.emit.types import Ty, Value
from oa.errors import InternalError

if TYPE_CHECKING:
    from oa._kernel.emit.ir import Builder
    from oa._schema.dtype import DType

#: Results of 16-bit floats that need no rounding: they are operands, or change the sign alone.
_ROUNDED = frozenset(("neg", "abs", "min", "max", "copysign", "floor", "ceil", "trunc", "round", "sign"))
_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_Float = Callable[..., Reg]


def _compare(op: str, a: Reg, c: Reg) -> Reg:
    if a.v.ty is Ty.BOOL and op not in ("eq", "ne"):
        if op in ("lt", "ge"):
            less = ~a & c
            return less if op == "lt" else ~less
        more = a & ~c
        return more if op == "gt" else ~more
    if op == "eq":
        return a.eq(c)
    if op == "ne":
        return a.ne(c)
    if op == "lt":
        return a < c
    if op == "le":
        return a <= c
    return a > c if op == "gt" else a >= c


def emit_op(b: Builder, op: str, out: DType, ins: tuple[DType, ...], args: Sequence[Value]) -> Value:
    """Emit `op` on registers `args` of dtypes `ins`; the result is a register of dtype `out`.

    Raises InternalError for an operation that has no meaning for the dtypes.
    """
    regs = [Reg(b, v) for v in args]
    if op == "where":
        return b.select(*args)
    if op == "cast":
        return scalar_cast.cast(regs[0], ins[0].name, out.name).v
    if op in _COMPARE:
        return _compare(op, *regs).v
    if op == "philox":
        return philox.word(*regs).v
    if op == "umulhi":
        return b.op("umulhi", *args)
    if op.startswith("bitcast_"):
        return (regs[0].u if op.startswith("bitcast_u") else regs[0].f).v
    if ins[0].is_float:
        if prelude.has(op, args[0].ty):
            return _rounded(b, op, out, prelude.call(b, op, *args))
        run = scalar_float.OPERATIONS.get(op)
    else:
        run = scalar_int.operation(op, ins[0].name)
    if run is None:
        raise InternalError(f"scalar operation {op} is not defined for {', '.join(d.name for d in ins)}")
    return _rounded(b, op, out, run(*regs).v)


def _rounded(b: Builder, op: str, out: DType, value: Value) -> Value:
    """A result of a 16-bit float dtype rounded to it."""
    narrowed = scalar_cast.NARROWED.get(out.name)
    return value if narrowed is None or op in _ROUNDED else narrowed(Reg(b, value)).v


__all__ = ["REGISTER", "emit_op"]
