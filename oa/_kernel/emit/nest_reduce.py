"""Reductions: what is carried, how an element joins, how two carries combine.

Elements that an invocation holds in registers combine in a tree that pairs neighbours. In a loop, float sums carry the rounding
error of each addition beside the sum (Knuth's two-sum). Either way, with the tree over lanes, |error| <= (1 + log2(n)) * 2^-24
* sum|x| to first order for float32. A plain sum carries nothing in the loop. An overflowing sum keeps its inf. Arg-reductions
take the first of equals; NaN beats every number.

Float extremes are found among ranks: integers in the order of the numbers, -0 below +0, with every NaN beyond the end that is
looked for. Ranking takes three integer operations, joining one; comparing floats with regard to NaN and zeros takes eight.
"""

from __future__ import annotations

from collections.abc import Sequence

from oa._kernel.emit.ir import Builder, Ty, Value
from oa._kernel.emit.scalar import REGISTER, emit_op
from oa._kernel.emit.scalar_float import INF_BITS, INF_BITS_64
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
        self.ranked = self.ty.is_float and name in ("max", "min")
        self.word = self.ty.unsigned  #: of a rank

    def initial(self) -> list[Value]:
        """The carry before the first element."""
        b, name = self.b, self.name
        if name in ("sum", "plain_sum"):
            zero = b.bits(self.ty, 0)
            return [zero, zero] if name == "sum" and self.ty.is_float else [zero]
        if name == "prod":
            return [b.const(self.ty, 1)]
        if self.ranked:
            return [b.bits(self.word, 0 if name == "max" else (1 << self.word.bits) - 1)]
        if name in ("max", "argmax"):
            first = b.const(self.ty, _ends(self.dtype)[0])
        elif name in ("min", "argmin"):
            first = b.const(self.ty, _ends(self.dtype)[1])
        else:
            raise InternalError(f"unknown reduction {name}")
        return [first, b.bits(Ty.U32, _NONE)] if self.is_arg else [first]

    def enter(self, x: Value, position: Value, inside: Value | None) -> list[Value]:
        """The settled carry of one element, at flat `position` of its row; one that changes nothing where `inside` is false."""
        b = self.b
        if self.is_arg:
            place = position if inside is None else b.select(inside, position, b.bits(Ty.U32, _NONE))
            return [x, place]
        entry = self._rank(x) if self.ranked else x
        return [entry if inside is None else b.select(inside, entry, self.initial()[0])]

    def step(self, carry: Sequence[Value], entry: Sequence[Value]) -> list[Value]:
        """The carry with one more element."""
        if self.name == "sum" and self.ty.is_float:
            b, (x,) = self.b, entry
            total = b.op("fadd", carry[0], x)
            back = b.op("fsub", total, carry[0])
            lost = b.op("fadd", b.op("fsub", carry[0], b.op("fsub", total, back)), b.op("fsub", x, back))
            return [total, b.op("fadd", carry[1], lost)]
        return self.combine(carry, entry)

    def tree(self, entries: Sequence[list[Value]]) -> list[Value]:
        """The settled carry of a power of two of elements: neighbours first, then pairs of pairs."""
        level = list(entries)
        while len(level) > 1:
            level = [self.combine(x, y) for x, y in zip(level[::2], level[1::2], strict=True)]
        return level[0]

    def combine(self, a: Sequence[Value], c: Sequence[Value]) -> list[Value]:
        """Two settled carries as one."""
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
        if self.ranked:
            return self._ranked(carry[0])
        return self.b.bitcast(Ty.I32, carry[1]) if self.is_arg else carry[0]

    def _origin(self) -> Value:
        """What lies at rank 0: -inf for the greatest, the first NaN for the least, so that NaNs are beyond it at either end."""
        infinity = INF_BITS_64 if self.word.is_wide else INF_BITS
        flipped = (1 << self.word.bits) - 1 - infinity  # of -inf
        return self.b.bits(self.word, flipped if self.name == "max" else infinity + 1)

    def _flipped(self, word: Value) -> Value:
        """Bits of a float as an integer in the order of floats (two's complement), and back."""
        b, bits = self.b, self.word.bits
        sign = b.op("shr_s", word, b.const(Ty.U32, bits - 1))
        return b.op("xor", word, b.op("and", sign, b.bits(self.word, (1 << bits - 1) - 1)))

    def _rank(self, x: Value) -> Value:
        return self.b.op("isub", self._flipped(self.b.bitcast(self.word, x)), self._origin())

    def _ranked(self, rank: Value) -> Value:
        return self.b.bitcast(self.ty, self._flipped(self.b.op("iadd", rank, self._origin())))

    def _join(self, a: Value, c: Value) -> Value:
        if self.ranked:
            return self.b.op("umax" if self.name == "max" else "umin", a, c)
        op = {"sum": "add", "plain_sum": "add", "prod": "mul", "max": "max", "min": "min"}[self.name]
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
