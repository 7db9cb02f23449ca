"""Finding: places in sorted values, places that are not zero, membership. Nothing here has a gradient."""

from __future__ import annotations

import builtins
import math
from typing import Any, overload

from oa._schema import expr
from oa._schema.declare import pointwise, primitive
from oa._schema.dtype import HALVES, DType, bfloat16, bool_, float16, float32, int32, promote, uint32, uint64
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference
from oa._schema.scalar import Scalar
from oa._schema.spec import Spec, spec
from oa.errors import ArgumentError, CaptureError, DTypeError, ShapeError
from oa.matrix.create import _scalar, full, zeros
from oa.matrix.elementwise import astype, floor_divide, ordered, remainder
from oa.matrix.elementwise import where as chosen
from oa.matrix.indexing import take
from oa.matrix.reduce import sum
from oa.matrix.scan import cumulative_sum
from oa.matrix.shape import reshape, slice, stack
from oa.matrix.value import Matrix, Operand


def _call(name: str, *args: Any) -> Any:
    return expr.call(name, *args)


@primitive("pointwise")
def sort_key(x: Matrix, descending: bool = False) -> Matrix:
    """uint32 (of 64-bit dtypes uint64) numbers below 2^`key_bits` in the order of x, or against it: -0.0 and 0.0 equal, all NaN
    equal and last."""
    found: Spec = x  # type: ignore[assignment]
    ordered(x, "matrix.sort")
    body = _key(found, descending)
    return Inference((spec(body.dtype, found.shape),), (), body)  # type: ignore[return-value]


#: By 16-bit float: low bits that are alike in all keys of one sign, made through float32.
_IDLE_BITS = {float16: 13, bfloat16: 16}


def key_bits(dtype: DType) -> int:
    """How many bits the keys of a dtype take."""
    return 32 - _IDLE_BITS[dtype] if dtype in HALVES else dtype.bits


def _key(x: Spec, descending: bool) -> Scalar:
    value = expr.cast(Expr("arg", (), 0), float32) if x.dtype in HALVES else Expr("arg", (), 0)
    wide, bits = x.dtype.itemsize == 8, key_bits(x.dtype)
    dtype = uint64 if wide else uint32
    if x.dtype.is_float:
        sign = 1 << (63 if wide else 31)
        pattern = expr.call("bitcast_u64" if wide else "bitcast_u32", value)
        placed = expr.where(pattern < sign, expr.call("bor", pattern, sign), expr.call("bnot", pattern))
        zero = expr.call("eq", expr.call("band", pattern, sign - 1), 0)
        body = expr.where(zero, sign, placed)
        body = expr.where(expr.call("isnan", value), expr.cast(2 * sign - 1, dtype), body)
        if x.dtype in HALVES:
            body = expr.call("shr", body, _IDLE_BITS[x.dtype])
    else:
        body = expr.cast(value, dtype)
        if x.dtype.kind == "i":
            body = expr.call("bxor", body, 1 << (bits - 1))
            if bits < 32:
                body = expr.call("band", body, (1 << bits) - 1)
    if descending:
        body = expr.call("bxor", body, (1 << bits) - 1)
    return resolve(body, (x.dtype,), "matrix.sort")


# -- places in sorted values


@pointwise(exclude=("found", "query", "place", "step", "count"))
def _advance(
    found: Matrix, query: Matrix, place: Matrix, step: Operand, count: Operand, right: bool = False
) -> Matrix:
    """One step of a binary search: on by `step` where that many more elements lie before the query."""
    inside = _call("le", _call("add", place, step), count)
    before = _call("le" if right else "lt", found, query)
    return _call("where", _call("band", inside, before), _call("add", place, step), place)


def lower_bound(keys: Matrix, queries: Matrix, right: bool = False) -> Matrix:
    """For each query how many of the sorted `keys` (rank 1, of `sort_key`) are below it, or not above it."""
    count = keys.shape[0]
    place = zeros(keys.engine, queries.shape, dtype=int32)
    bound = _scalar(keys.engine, int32, count)
    for bit in reversed(range(count.bit_length())):
        step = _scalar(keys.engine, int32, 1 << bit)
        found = take(keys, place + ((1 << bit) - 1))
        place = _advance(found, queries, place, step, bound, right=right)
    return place


def searchsorted(
    a: Matrix, v: Matrix | int | float, *, side: str = "left", sorter: Matrix | None = None
) -> Matrix:
    """Where elements of v would be put into the sorted rank-1 value a to keep it sorted: before ("left") or after equals.

    int32, of v's shape. `sorter` gives the order that sorts a. NaN is sorted last.

    Shapes: v's.
    Dtypes: any real; a and v are promoted to their common dtype; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: ShapeError unless a has rank 1; ArgumentError for another `side`; DTypeError where dtypes have no common one.

    >>> oa.matrix.searchsorted(oa.matrix.from_list(engine, [1.0, 2.0, 2.0]), 2.0, side="right").item()
    3
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"matrix.searchsorted: side {side!r} is neither 'left' nor 'right'")
    if a.ndim != 1:
        raise ShapeError(f"matrix.searchsorted: a has shape {a.shape}; wanted rank 1")
    if not isinstance(v, Matrix):
        v = full(a.engine, (), v, dtype=a.dtype)
    try:
        common = promote(a.dtype, v.dtype, "matrix.searchsorted")
    except DTypeError as error:
        raise error from None
    ordered = take(a, sorter) if sorter is not None else a
    return lower_bound(sort_key(astype(ordered, common)), sort_key(astype(v, common)), right=side == "right")


# -- places that are not zero


def counted(x: Matrix, operation: str, fixed: str) -> int:
    """The element of a rank-0 integer value, which decides a shape. Inside a capture an error names the fixed-size form."""
    if x.engine.is_recording:
        raise CaptureError(
            f"{operation}: the result's shape depends on data, which a capture does not know; use {fixed}"
        )
    x._hidden(operation)
    return int(x.item())


def flat_nonzero(x: Matrix, size: int | None, fill_value: int, operation: str) -> Matrix:
    """int32 positions, in row-major order, of elements that are not 0; `size` of them, padded with `fill_value`."""
    for name, given in (("size", size), ("fill_value", fill_value)):
        whole = (
            isinstance(given, int) and not isinstance(given, bool) and (name != "size" or 0 <= given < 2**31)
        )
        if not whole and not (name == "size" and given is None):
            raise ArgumentError(f"{operation}: {name} is {given!r}; wanted a whole number below 2**31")
    flags = astype(reshape(x, (x.size,)), bool_)
    if x.size == 0:
        return full(x.engine, (size or 0,), fill_value, dtype=int32)
    running = cumulative_sum(astype(flags, int32))
    if size is None:
        size = counted(reshape(slice(running, 0, -1, None), ()), operation, "size= and fill_value=")
    return _positions(running, size=size, fill=fill_value)


@primitive("positions")
def _positions(counts: Matrix, size: int, fill: int) -> Matrix:
    """Where inclusive counts grow: the first `size` places, `fill` for those that are not there."""
    return Inference((spec(int32, (size,)),), (fill,))  # type: ignore[return-value]


def nonzero(x: Matrix, *, size: int | None = None, fill_value: int = 0) -> tuple[Matrix, ...]:
    """Where x is not 0: one int32 value of indices an axis, in row-major order.

    How many there are is read from the device. Inside a capture give `size`: so many places, those missing `fill_value`.

    Raises ShapeError for rank 0, CaptureError inside a capture without `size`.

    Shapes: (count,) of each.
    Dtypes: any; the result is int32.
    Gradient: none: the result is not floating-point.

    >>> [i.tolist() for i in oa.matrix.nonzero(oa.matrix.from_list(engine, [[0, 1], [2, 3]]))]
    [[0, 1, 1], [1, 0, 1]]
    """
    if not x.ndim:
        raise ShapeError("matrix.nonzero: the value has rank 0; wanted rank 1 or more")
    flat = flat_nonzero(x, size, -1, "matrix.nonzero")
    found = []
    for axis, extent in enumerate(x.shape):
        step = math.prod(x.shape[axis + 1 :])
        place = floor_divide(flat, step) if step > 1 else flat
        if axis:
            place = remainder(place, builtins.max(extent, 1))
        found.append(place if size is None else chosen(flat < 0, fill_value, place))
    return tuple(found)


@overload
def where(condition: Matrix) -> tuple[Matrix, ...]: ...
@overload
def where(condition: Matrix, a: Operand, b: Operand) -> Matrix: ...
def where(condition: Matrix, a: Operand | None = None, b: Operand | None = None) -> Any:
    """a where the bool condition holds, else b. The gradient reaches the chosen one alone.

    With the condition alone, as in NumPy, `nonzero(condition)`: a tuple of the places where it holds.

    Shapes: broadcast.
    Dtypes: any; a and b are promoted to their common dtype.
    Gradient: g to a where the condition holds, to b elsewhere.
    Raises: ArgumentError for one of a and b without the other; ShapeError where shapes do not broadcast; DTypeError where dtypes
    have no common one.

    >>> x = oa.matrix.from_list(engine, [-1.0, 2.0])
    >>> oa.matrix.where(x > 0.0, x, 0.0).tolist()
    [0.0, 2.0]
    >>> [place.tolist() for place in oa.matrix.where(x > 0.0)]
    [[1]]
    """
    if a is None and b is None:
        return nonzero(condition)
    if a is None or b is None:
        missing = "a" if a is None else "b"
        raise ArgumentError(
            f"matrix.where: {missing} is missing; wanted both values to choose from, or the condition alone"
        )
    return chosen(condition, a, b)


def argwhere(x: Matrix, *, size: int | None = None, fill_value: int = 0) -> Matrix:
    """`nonzero` as one value of shape (count, rank).

    Shapes: (count, rank).
    Dtypes: any; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: ShapeError for rank 0; CaptureError inside a capture without `size`.

    >>> oa.matrix.argwhere(oa.matrix.from_list(engine, [0, 5, 6])).tolist()
    [[1], [2]]
    """
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=1)


def count_nonzero(x: Matrix, *, axis: Any = None, keepdims: bool = False) -> Matrix:
    """How many elements over `axis` are not 0, as int32.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: any; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: AxisError for an axis outside x or named twice.

    >>> oa.matrix.count_nonzero(oa.matrix.from_list(engine, [0, 5, 6])).item()
    2
    """
    return sum(astype(astype(x, bool_), int32), axis, keepdims=keepdims)


__all__ = [
    "argwhere",
    "count_nonzero",
    "counted",
    "flat_nonzero",
    "key_bits",
    "lower_bound",
    "nonzero",
    "searchsorted",
    "sort_key",
]
