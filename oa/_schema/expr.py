"""The notation in which pointwise operations are declared: untyped scalar expressions with Python operators.

A declaration's body runs once on `Expr` operands; `resolve` then gives it dtypes for each mix of operand dtypes.
Python numbers in a body are weak: they take the dtype of what they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from oa._schema import scalar as sc
from oa._schema.dtype import DType, bool_, float32, float64, int32, uint32, uint64
from oa._schema.scalar import Scalar
from oa.errors import DTypeError, InternalError

Operand = Union["Expr", bool, int, float, complex]


class Expr:
    """An untyped scalar expression."""

    __slots__ = ("args", "attr", "op")

    def __init__(self, op: str, args: tuple[Operand, ...] = (), attr: Any = None) -> None:
        self.op, self.args, self.attr = op, args, attr

    def __add__(self, other: Operand) -> Expr:
        return Expr("add", (self, other))

    def __radd__(self, other: Operand) -> Expr:
        return Expr("add", (other, self))

    def __sub__(self, other: Operand) -> Expr:
        return Expr("sub", (self, other))

    def __rsub__(self, other: Operand) -> Expr:
        return Expr("sub", (other, self))

    def __mul__(self, other: Operand) -> Expr:
        return Expr("mul", (self, other))

    def __rmul__(self, other: Operand) -> Expr:
        return Expr("mul", (other, self))

    def __truediv__(self, other: Operand) -> Expr:
        return Expr("div", (self, other))

    def __rtruediv__(self, other: Operand) -> Expr:
        return Expr("div", (other, self))

    def __neg__(self) -> Expr:
        return Expr("neg", (self,))

    def __lt__(self, other: Operand) -> Expr:
        return Expr("lt", (self, other))

    def __le__(self, other: Operand) -> Expr:
        return Expr("le", (self, other))

    def __gt__(self, other: Operand) -> Expr:
        return Expr("gt", (self, other))

    def __ge__(self, other: Operand) -> Expr:
        return Expr("ge", (self, other))

    def __and__(self, other: Operand) -> Expr:
        return Expr("band", (self, other))

    def __or__(self, other: Operand) -> Expr:
        return Expr("bor", (self, other))


def call(op: str, *args: Operand) -> Expr:
    """The scalar operation named `op` (see `oa._kernel.emit.scalar` for the list)."""
    return Expr(op, args)


def where(condition: Operand, a: Operand, b: Operand) -> Expr:
    """`a` where the condition holds, else `b`."""
    return Expr("where", (condition, a, b))


def cast(x: Operand, dtype: DType) -> Expr:
    """`x` converted to `dtype`."""
    return Expr("cast", (x,), dtype)


def index(axis: int) -> Expr:
    """The element's own index along `axis`, int32."""
    return Expr("dim", (), axis)


def element() -> Expr:
    """The element's own position in row-major order, uint32."""
    return Expr("element")


def philox(seed_lo: Operand, seed_hi: Operand, draw: Operand, element: Operand) -> Expr:
    """One 32-bit word of Philox4x32-10 for (seed, draw number, element index)."""
    return Expr("philox", (seed_lo, seed_hi, draw, element))


_ARGUMENT_DTYPES: dict[str, tuple[DType, ...]] = {
    "philox": (uint32,) * 4,
    "umulhi": (uint32,) * 2,
    "bitcast_u32": (float32,),
    "bitcast_f32": (uint32,),
    "bitcast_u64": (float64,),
    "bitcast_f64": (uint64,),
}


def resolve(root: Operand, dtypes: Sequence[DType], operation: str) -> Scalar:
    """The typed form of a body whose operands have `dtypes`."""
    done: dict[int, Scalar] = {}

    def typed(node: Operand, weak: DType) -> Scalar:
        if not isinstance(node, Expr):
            return sc.const(node, weak)
        found = done.get(id(node))
        if found is None:
            found = done[id(node)] = build(node, weak)
        return found

    def build(node: Expr, weak: DType) -> Scalar:
        if node.op == "arg":
            return sc.arg(node.attr, dtypes[node.attr])
        if node.op == "dim":
            return sc.dim(node.attr)
        if node.op == "element":
            return sc.scalar("element", uint32)
        if node.op == "cast":
            inner = node.args[0]
            return sc.cast(typed(inner, node.attr if not isinstance(inner, Expr) else weak), node.attr)
        if node.op == "real":  # as it is where it is floating-point, else converted to the default float
            inner_typed = typed(node.args[0], weak)
            return inner_typed if inner_typed.dtype.is_inexact else sc.cast(inner_typed, float32)
        fixed = _ARGUMENT_DTYPES.get(node.op)
        if fixed:
            return sc.apply(node.op, *(typed(a, d) for a, d in zip(node.args, fixed)))
        args = list(node.args)
        head = [typed(args.pop(0), bool_)] if node.op == "where" else []
        common = _common([typed(a, weak) for a in args if isinstance(a, Expr)], weak, node.op, operation)
        if node.op in sc.FLOAT_ONLY and not common.is_inexact:
            raise DTypeError(
                f"{operation}: {common.name} is not a floating-point dtype; cast first: x.astype(oa.float32)"
            )
        return sc.apply(node.op, *head, *(typed(a, common) for a in args))

    return typed(root, dtypes[0] if dtypes else float32)


def _common(args: Sequence[Scalar], weak: DType, op: str, operation: str) -> DType:
    if not args:
        return weak
    if any(a.dtype is not args[0].dtype for a in args):
        found = ", ".join(a.dtype.name for a in args)
        raise InternalError(f"{operation}: operands of {op} disagree: {found}")
    return args[0].dtype


__all__ = [
    "Expr",
    "bool_",
    "call",
    "cast",
    "element",
    "float32",
    "index",
    "int32",
    "philox",
    "resolve",
    "uint32",
    "where",
]
