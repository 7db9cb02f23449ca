"""One typed scalar operation of the schema, emitted on register values.

Registers: float32 is F32, int32 is I32, uint32 is U32, uint8 is U32 holding 0 to 255, bool is BOOL. Semantics are those of
the Python array API standard, and NumPy's where it is silent; what integers leave undefined (division by zero, shifts by the
width or more, casts out of range) is given a fixed value here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oa._kernel.emit import philox, prelude, scalar_cast, scalar_float, scalar_int
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.types import Ty, Value
from oa.errors import InternalError

if TYPE_CHECKING:
    from oa._kernel.emit.ir import Builder
    from oa._schema.dtype import DType

#: Register type of each dtype.
REGISTER: dict[str, Ty] = {
    "float32": Ty.F32, "int32": Ty.I32, "uint32": Ty.U32, "uint8": Ty.U32, "bool": Ty.BOOL,
}  # fmt: skip

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


def _bitcast(op: str, x: Reg) -> Reg:
    return x.u if op == "bitcast_u32" else x.f


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
    if op in ("bitcast_u32", "bitcast_f32"):
        return _bitcast(op, regs[0]).v
    kind = ins[0].name
    if kind == "float32":
        if op in prelude.UNARY or op in prelude.BINARY:
            return prelude.call(b, op, *args)
        run = scalar_float.OPERATIONS.get(op)
    else:
        run = scalar_int.operation(op, kind)
    if run is None:
        raise InternalError(f"scalar operation {op} is not defined for {', '.join(d.name for d in ins)}")
    return run(*regs).v
