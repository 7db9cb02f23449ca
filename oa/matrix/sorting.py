"""Sorting along an axis, always stable: -0.0 and 0.0 are equal, NaN is last (first when descending).

Short rows are ranked by counting (see `_is_short`); longer ones go through Batcher's bitonic network (AFIPS 1968), whose
log2(n) (log2(n) + 1) / 2 stages are a kernel each. Keys are paired with their places, which makes them distinct and the order
stable and the same on every device.
"""

from __future__ import annotations

import math

from oa._schema import expr
from oa._schema import spec as sp
from oa._schema.declare import primitive
from oa._schema.dtype import float32, int32, uint32
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference
from oa._schema.spec import Spec, spec
from oa.errors import ArgumentError, ShapeError
from oa.matrix.create import _scalar, arange, full
from oa.matrix.elementwise import astype, bitwise_invert, copy, equal, less, where
from oa.matrix.indexing import _indices, gather
from oa.matrix.reduce import sum
from oa.matrix.search import sort_key
from oa.matrix.shape import broadcast_to, concat, flip, permute_dims, reshape, slice
from oa.matrix.value import Matrix

#: Elements of a row up to which each is compared with every other; up to `_SOME` where that is so much work in all at most.
_FEW, _SOME, _COMPARISONS = 128, 1024, 1 << 24


def _is_short(shape: tuple[int, ...]) -> bool:
    rows, count = shape
    return count <= _FEW or (count <= _SOME and rows * count * count <= _COMPARISONS)


def sort(x: Matrix, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Matrix:
    """The elements in order along `axis`; equal ones keep their order, whatever `stable` says.

    The gradient goes to where each element came from.

    Shapes: any; the result has it too.
    Dtypes: any.
    Gradient: g, to where each element came from.
    Raises: AxisError for an axis outside x.

    >>> oa.matrix.sort(oa.matrix.from_list(engine, [3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    if not x.ndim:
        return copy(x)
    return gather(x, argsort(x, axis=axis, descending=descending), axis=axis)


def argsort(x: Matrix, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Matrix:
    """int32 indices along `axis` that sort x; equal elements keep their order, whatever `stable` says.

    Shapes: any; the result has it too.
    Dtypes: any; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: AxisError for an axis outside x.

    >>> oa.matrix.argsort(oa.matrix.from_list(engine, [3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    if not x.ndim:
        return full(x.engine, (), 0, dtype=int32)
    at = sp.normalize_axis(axis, x.ndim, "matrix.argsort")
    order = [*(k for k in range(x.ndim) if k != at), at]
    moved = permute_dims(x, order)
    extent = x.shape[at]
    rows = math.prod(moved.shape[:-1])
    if x.size == 0 or extent == 1:
        return full(x.engine, x.shape, 0, dtype=int32)
    keys = sort_key(reshape(moved, (rows, extent)))
    found = order_of(bitwise_invert(keys) if descending else keys)
    back = [order.index(k) for k in range(x.ndim)]
    return permute_dims(reshape(found, moved.shape), back)


def order_of(keys: Matrix) -> Matrix:
    """int32 indices that sort each row of `keys` (of `sort_key`), rank 2, stably."""
    return inverse(ranks(keys)) if _is_short(keys.shape) else _by_network(keys)


def ranks(keys: Matrix) -> Matrix:
    """For each element of each row its place in sorted order."""
    rows, count = keys.shape
    if not _is_short(keys.shape):
        return inverse(_by_network(keys))
    mine, other = reshape(keys, (rows, count, 1)), reshape(keys, (rows, 1, count))
    place = arange(keys.engine, count)
    earlier = less(reshape(place, (1, 1, count)), reshape(place, (1, count, 1)))
    before = less(other, mine) | (equal(other, mine) & earlier)
    return sum(astype(before, int32), axis=2)


def inverse(order: Matrix) -> Matrix:
    """The inverse of a permutation in each row."""
    rows, count = order.shape
    if not _is_short(order.shape):
        return _by_network(astype(order, uint32))
    place = arange(order.engine, count)
    hit = equal(reshape(order, (rows, 1, count)), reshape(place, (1, count, 1)))
    return sum(where(hit, reshape(place, (1, 1, count)), 0), axis=2)


@primitive("pointwise")
def _exchange(
    key: Matrix, place: Matrix, other_key: Matrix, other_place: Matrix, run: Matrix, part: str
) -> Matrix:
    """One stage: (key, place) or the other's, the smaller below where the run ascends; (rows, pairs of blocks, 2, block)."""
    found: Spec = key  # type: ignore[assignment]
    a, i, b, j, k = (Expr("arg", (), n) for n in range(5))
    mine_first = (a < b) | (expr.call("eq", a, b) & (i < j))
    ascending = expr.call("eq", expr.call("band", expr.index(1), k), 0)
    keep = expr.call("eq", mine_first, expr.call("eq", expr.call("eq", expr.index(2), 0), ascending))
    chosen = expr.where(keep, a, b) if part == "key" else expr.where(keep, i, j)
    dtypes = (found.dtype, int32, found.dtype, int32, int32)
    body = resolve(chosen, dtypes, "matrix.sort")
    return Inference((spec(body.dtype, found.shape),), (), body)  # type: ignore[return-value]


def _by_network(keys: Matrix) -> Matrix:
    rows, count = keys.shape
    width = 1 << (count - 1).bit_length()
    place = broadcast_to(arange(keys.engine, width), (rows, width))
    if width != count:
        last = full(keys.engine, (rows, width - count), (1 << keys.dtype.bits) - 1, dtype=keys.dtype)
        keys = concat([keys, last], axis=1)
    run = 2
    while run <= width:
        block = run // 2
        while block:
            keys, place = _stage(keys, place, run, block)
            block //= 2
        run *= 2
    return slice(place, 1, 0, count)


def _stage(keys: Matrix, place: Matrix, run: int, block: int) -> tuple[Matrix, Matrix]:
    rows, width = keys.shape
    shape = (rows, width // (2 * block), 2, block)
    a, i = reshape(keys, shape), reshape(place, shape)
    bit = _scalar(keys.engine, int32, run // (2 * block))
    operands = (a, i, flip(a, axis=2), flip(i, axis=2), bit)
    new_keys, new_place = _exchange(*operands, part="key"), _exchange(*operands, part="place")
    return reshape(new_keys, (rows, width)), reshape(new_place, (rows, width))


def topk(x: Matrix, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Matrix, Matrix]:
    """(values, int32 indices) of the k largest (or smallest) elements along `axis`, best first; of equals the earlier wins.

    Raises ArgumentError unless 0 <= k <= extent.

    Shapes: x's, k along `axis`, of both.
    Dtypes: any; indices are int32.
    Gradient: g of the values, to where each came from.

    >>> values, places = oa.matrix.topk(oa.matrix.from_list(engine, [3.0, 9.0, 5.0]), 2)
    >>> (values.tolist(), places.tolist())
    ([9.0, 5.0], [1, 2])
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.topk")
    if not 0 <= k <= x.shape[at]:
        raise ArgumentError(f"matrix.topk: k is {k} of {x.shape[at]} elements along axis {axis}")
    order = slice(argsort(x, axis=at, descending=largest), at, 0, k)
    return gather(x, order, axis=at), order


def top_k_mask(indices: Matrix, count: int) -> Matrix:
    """float32 (..., count): 1 where a class is among the k chosen ones `indices` (..., k), else 0.

    Shapes: (..., k) gives (..., count).
    Dtypes: integer; the result is float32.
    Gradient: none: indices are not floating-point.
    Raises: DTypeError for indices that are no integers; ShapeError for indices of rank 0 or a negative count.

    >>> oa.matrix.top_k_mask(oa.matrix.from_list(engine, [[2, 0]]), 4).tolist()
    [[1.0, 0.0, 1.0, 0.0]]
    """
    found = _indices(indices, indices, "top_k_mask")
    if not found.ndim:
        raise ShapeError("matrix.top_k_mask: the indices have rank 0; wanted rank 1 or more")
    (count,) = sp.as_shape((count,), "matrix.top_k_mask")
    classes = reshape(arange(found.engine, count), (count, 1))
    hit = equal(classes, reshape(found, (*found.shape[:-1], 1, found.shape[-1])))
    return astype(sum(astype(hit, int32), axis=-1) > 0, float32)


__all__ = ["argsort", "inverse", "order_of", "ranks", "sort", "top_k_mask", "topk"]
