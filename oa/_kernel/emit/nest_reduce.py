"""Reductions: what is carried, how an element joins, how two carries combine.

Float sums carry the rounding error of each addition beside the sum (Knuth's two-sum), so the error does not grow with the
number of terms: |error| <= (1 + log2(lanes)) * 2^-24 * sum|x| to first order. An overflowing sum keeps its inf.
Arg-reductions take the first of equals; NaN beats every number.
"""

from __future__ import annotations

from collections.abc import Sequence

from oa._kernel.emit.ir import Builder, Ty, Value
from oa._kernel.emit.scalar import REGISTER, emit_op
from oa._schema.dtype import DType, as_dtype
from oa.errors import InternalError

_NONE = 0xFFFFFFFF
_INF = float("inf")


def _ends(dtype: DType) -> tuple[float, float]:
    """The least and the greatest value of a dtype."""
    if dtype.is_float:
        return -_INF, _INF
    low = -(1 << dtype.bits - 1) if dtype.kind == "i" else 0
    return low, low + (1 << dtype.bits) - 1


class Reduction:
    """One reduction by name over operands of `dtype`."""

    def __init__(self, b: Builder, name: str, dtype: str) -> None:
        self.b = b
        self.name = name
        self.dtype: DType = as_dtype(dtype)
        self.ty = REGISTER[dtype]
        self.is_arg = name in ("argmax", "argmin")

    def initial(self) -> list[Value]:
        """The carry before the first element."""
        b, name = self.b, self.name
        if name == "sum":
            zero = b.bits(self.ty, 0)
            return [zero, zero] if self.ty.is_float else [zero]
        if name == "prod":
            return [b.const(self.ty, 1)]
        if name in ("max", "argmax"):
            first = b.const(self.ty, _ends(self.dtype)[0])
        elif name in ("min", "argmin"):
            first = b.const(self.ty, _ends(self.dtype)[1])
        else:
            raise InternalError(f"unknown reduction {name}")
        return [first, b.bits(Ty.U32, _NONE)] if self.is_arg else [first]

    def step(self, carry: Sequence[Value], x: Value, position: Value) -> list[Value]:
        """The carry with one more element, at flat `position` of its row."""
        b = self.b
        if self.name == "sum" and self.ty.is_float:
            total = b.op("fadd", carry[0], x)
            back = b.op("fsub", total, carry[0])
            lost = b.op("fadd", b.op("fsub", carry[0], b.op("fsub", total, back)), b.op("fsub", x, back))
            return [total, b.op("fadd", carry[1], lost)]
        if self.is_arg:
            return self._pick(carry, [x, position])
        return [self._join(carry[0], x)]

    def masked(self, x: Value, position: Value, inside: Value | None) -> tuple[Value, Value]:
        """The element, or what changes nothing where `inside` is false."""
        if inside is None:
            return x, position
        if self.is_arg:
            return x, self.b.select(inside, position, self.b.bits(Ty.U32, _NONE))
        return self.b.select(inside, x, self.initial()[0]), position

    def combine(self, a: Sequence[Value], c: Sequence[Value]) -> list[Value]:
        """Two carries as one; for float sums after `settle`."""
        if self.is_arg:
            return self._pick(a, c)
        return [self._join(a[0], c[0])]

    def settle(self, carry: Sequence[Value]) -> list[Value]:
        """The carry ready to combine: a float sum with its collected error added, unless that is not finite."""
        if self.name == "sum" and self.ty.is_float:
            b = self.b
            finite = b.op("flt", b.op("fabs", carry[1]), b.const(self.ty, _INF))
            return [b.select(finite, b.op("fadd", carry[0], carry[1]), carry[0])]
        return list(carry)

    def result(self, carry: Sequence[Value]) -> Value:
        """The reduction's value from a settled carry."""
        return self.b.bitcast(Ty.I32, carry[1]) if self.is_arg else carry[0]

    def _join(self, a: Value, c: Value) -> Value:
        op = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}[self.name]
        return emit_op(self.b, op, self.dtype, (self.dtype, self.dtype), [a, c])

    def _beats(self, x: Value, y: Value) -> Value:
        op = "gt" if self.name == "argmax" else "lt"
        dtype, boolean = self.dtype, as_dtype("bool")
        wins = emit_op(self.b, op, boolean, (dtype, dtype), [x, y])
        if not self.ty.is_float:
            return wins
        nan = self.b.op("land", self.b.op("fne", x, x), self.b.op("feq", y, y))
        return self.b.op("lor", wins, nan)

    def _pick(self, a: Sequence[Value], c: Sequence[Value]) -> list[Value]:
        """Of two (value, position) pairs the better, then the earlier; a pair without a position loses."""
        b = self.b
        none = b.bits(Ty.U32, _NONE)
        tie = b.op("land", b.op("lnot", self._beats(a[0], c[0])), b.op("ult", c[1], a[1]))
        better = b.op("lor", self._beats(c[0], a[0]), tie)
        take = b.op("land", b.op("ine", c[1], none), b.op("lor", b.op("ieq", a[1], none), better))
        return [b.select(take, c[0], a[0]), b.select(take, c[1], a[1])]
