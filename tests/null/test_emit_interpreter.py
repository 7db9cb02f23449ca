"""A builder that computes with NumPy arrays instead of emitting words: what an emitted kernel must give, bit for bit.

The prelude and the scalar table run on it unchanged, which makes their results testable without a device and gives
device tests an exact expectation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oa._kernel.emit.module import float_pattern
from oa._kernel.emit.spirv import OPS
from oa._kernel.emit.types import Ty

DTYPE: dict[Ty, Any] = {
    Ty.F32: np.float32, Ty.I32: np.int32, Ty.U32: np.uint32, Ty.BOOL: np.bool_, Ty.F64: np.float64, Ty.I64: np.int64,
    Ty.U64: np.uint64,
}  # fmt: skip


class Array:
    """Stands in for `types.Value`."""

    const: int | None = None
    source = None

    def __init__(self, ty: Ty, data: Any, const: int | None = None) -> None:
        self.ty, self.data, self.const = ty, np.asarray(data, DTYPE[ty]), const


class Cell:
    """Stands in for `types.Var`."""

    def __init__(self, value: Array) -> None:
        self.value = value
        self.ty = value.ty


def _u(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}") if x.dtype != np.bool_ else x


def _i(x: Any) -> Any:
    return x.view(f"i{x.dtype.itemsize}")


def _saturated(kind: Any) -> Callable[[Any], Any]:
    """Float to integer; out of range is undefined in SPIR-V, and poisoned here so that no result may depend on it."""

    def convert(x: Any) -> Any:
        info = np.iinfo(kind)
        whole = np.trunc(x)
        good = (whole >= float(info.min)) & (whole < 2.0 ** (info.bits - (info.min < 0)))
        return np.where(good, np.where(good, whole, 0).astype(kind), kind(0x5EADBEEF))

    return convert


def _divide(sign: bool, remainder: bool) -> Callable[[Any, Any], Any]:
    def run(a: Any, b: Any) -> Any:
        a, b = (_i(a), _i(b)) if sign else (_u(a), _u(b))
        kind: Any = object if a.dtype.itemsize == 8 else np.int64
        wide_a, wide_b = a.astype(kind), b.astype(kind)
        assert not (b == 0).any(), "an integer division by zero is undefined in SPIR-V"
        quotient = np.where((a < 0) != (b < 0), -1, 1) * (abs(wide_a) // abs(wide_b))
        assert not a.size or int(quotient.max()) <= np.iinfo(a.dtype).max
        return ((wide_a - quotient * wide_b) if remainder else quotient).astype(a.dtype)

    return run


def _shift(run: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(a: Any, b: Any) -> Any:
        assert (_u(b) < 8 * a.dtype.itemsize).all(), "a shift by the width or more is undefined in SPIR-V"
        return run(a, _u(b).astype(f"u{a.dtype.itemsize}"))

    return checked


_RUN: dict[str, Callable[..., Any]] = {
    "fadd": operator.add, "fsub": operator.sub, "fmul": operator.mul, "fdiv": operator.truediv, "fneg": operator.neg,
    "iadd": lambda a, b: _u(a) + _u(b), "isub": lambda a, b: _u(a) - _u(b), "imul": lambda a, b: _u(a) * _u(b),
    "ineg": lambda a: _u(a).dtype.type(0) - _u(a),
    "sdiv": _divide(True, False), "srem": _divide(True, True), "udiv": _divide(False, False), "urem": _divide(False, True),
    "umulhi": lambda a, b: ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32),
    "umin": lambda a, b: np.minimum(_u(a), _u(b)), "umax": lambda a, b: np.maximum(_u(a), _u(b)),
    "shl": _shift(lambda a, n: _u(a) << n), "shr_u": _shift(lambda a, n: _u(a) >> n),
    "shr_s": _shift(lambda a, n: _i(a) >> _i(n)),
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert,
    "land": operator.and_, "lor": operator.or_, "leq": operator.eq, "lne": operator.ne, "lnot": operator.invert,
    "f2i": _saturated(np.int32), "f2u": _saturated(np.uint32), "i2f": lambda a: a.astype(np.float32),
    "u2f": lambda a: a.astype(np.float32),
    "ftrunc": np.trunc, "frint": np.rint, "ffloor": np.floor, "fceil": np.ceil, "fsqrt": np.sqrt,
    "fabs": np.abs,
}  # fmt: skip
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _compare = getattr(operator, _name)
    _RUN["f" + _name] = _compare
    _RUN["s" + _name] = lambda a, b, c=_compare: c(_i(a), _i(b))
    _RUN["u" + _name] = lambda a, b, c=_compare: c(_u(a), _u(b))
_RUN["ieq"], _RUN["ine"] = _RUN["ueq"], _RUN["une"]


class NumpyBuilder:
    """The part of `Builder` that functions of registers use."""

    def __init__(self, trusted: frozenset[str] = frozenset(("fdiv", "fsqrt"))) -> None:
        self.trusted = trusted
        self.functions: dict[str, tuple[Callable[..., Any], tuple[Ty, ...], Ty]] = {}
        self.operations = 0

    def bits(self, ty: Ty, pattern: int) -> Array:
        if ty is Ty.BOOL:
            return Array(ty, bool(pattern), pattern)
        raw = np.uint64(pattern) if ty.is_wide else np.uint32(pattern)
        return Array(ty, raw.view(DTYPE[ty]), pattern)

    def const(self, ty: Ty, value: Any) -> Array:
        if ty is Ty.F32:
            return self.bits(ty, float_pattern(value))
        if ty is Ty.F64:
            return self.bits(ty, int(np.float64(value).view(np.uint64)))
        return self.bits(ty, int(value) & (1 << max(ty.bits, 32)) - 1)

    def op(self, name: str, *args: Any) -> Array:
        self.operations += 1
        if name in OPS:
            spec = OPS[name]
            assert len(args) == spec.arity and args[0].ty in spec.operands, name
            assert spec.shift or all(a.ty is args[0].ty for a in args), name
        result = (OPS[name].result if name in OPS else None) or args[0].ty
        with np.errstate(all="ignore"):
            data = np.asarray(_RUN[name](*(a.data for a in args)))
        if data.dtype.kind in "iu" and result.is_int:
            data = data.view(DTYPE[result])
        return Array(result, data)

    def select(self, cond: Any, a: Any, b: Any) -> Array:
        self.operations += 1
        assert cond.ty is Ty.BOOL and a.ty is b.ty
        return Array(a.ty, np.where(cond.data, a.data, b.data))

    def bitcast(self, ty: Ty, a: Any) -> Array:
        assert a.ty is not Ty.BOOL and ty is not Ty.BOOL
        return Array(ty, a.data.view(DTYPE[ty]), a.const)

    def convert(self, ty: Ty, a: Any) -> Array:
        """`Builder.convert`; floats out of an integer type's range are poisoned."""
        self.operations += 1
        assert a.ty is not Ty.BOOL and ty is not Ty.BOOL
        with np.errstate(all="ignore"):
            if a.ty.is_float and ty.is_int:
                return Array(ty, _saturated(DTYPE[ty])(a.data))
            return Array(ty, a.data.astype(DTYPE[ty]))

    def var(self, init: Any) -> Cell:
        return Cell(init)

    def get(self, cell: Cell) -> Array:
        return cell.value

    def set(self, cell: Cell, value: Any) -> None:
        cell.value = value

    def if_else(self, cond: Any, then: Callable[[], Any], other: Callable[[], Any]) -> tuple[Array, ...]:
        return tuple(self.select(cond, a, b) for a, b in zip(then(), other(), strict=True))

    def repeat(self, count: Any, body: Callable[..., Any], *start: Any) -> tuple[Array, ...]:
        """`Builder.repeat`, lane by lane: a lane whose count is reached keeps its values."""
        state = start
        for step in range(int(count.data.max(initial=0))):
            index = Array(Ty.U32, np.uint32(step))
            active = Array(Ty.BOOL, step < count.data)
            state = tuple(self.select(active, n, o) for n, o in zip(body(index, *state), state, strict=True))
        return state

    def function(self, name: str, params: Sequence[Ty], result: Ty, body: Callable[..., Any]) -> None:
        self.functions.setdefault(name, (body, tuple(params), result))

    def defined(self, name: str) -> bool:
        return name in self.functions

    def call(self, name: str, *args: Any) -> Array:
        body, params, result = self.functions[name]
        assert tuple(a.ty for a in args) == params
        value = body(args)
        assert value.ty is result
        return value
