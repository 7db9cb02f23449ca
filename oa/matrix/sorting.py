"""Sorting along an axis, always stable: -0.0 and 0.0 are equal, NaN is last (first when descending).

Keys are numbers in the order of the elements (`sort_key`); a family of kernels (`oa._kernel.sorting`) finds the stable order of
rows of them, the same on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from oa._schema import spec as sp
from oa._schema.declare import primitive
from oa._schema.dtype import float32, int32, uint32
from oa._schema.op import Inference
from oa._schema.spec import Spec, spec
from oa.errors import ArgumentError, ShapeError
from oa.matrix.create import arange, full
from oa.matrix.elementwise import astype, copy, equal
from oa.matrix.indexing import _indices, gather
from oa.matrix.reduce import min, sum
from oa.matrix.search import key_bits, sort_key
from oa.matrix.shape import concat, permute_dims, reshape, slice
from oa.matrix.value import Matrix


def sort(x: Matrix, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Matrix:
    """The elements in order along `axis`; equal ones keep their order, whatever `stable` says.

    The gradient goes to where each element came from.

    Shapes: any; the result has it too.
    Dtypes: any real.
    Gradient: g, to where each element came from.
    Raises: AxisError for an axis outside x; DTypeError for complex numbers.

    >>> oa.matrix.sort(oa.matrix.from_list(engine, [3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    if not x.ndim:
        return copy(x)
    return gather(x, argsort(x, axis=axis, descending=descending), axis=axis)


def argsort(x: Matrix, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Matrix:
    """int32 indices along `axis` that sort x; equal elements keep their order, whatever `stable` says.

    Shapes: any; the result has it too.
    Dtypes: any real; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: AxisError for an axis outside x; DTypeError for complex numbers.

    >>> oa.matrix.argsort(oa.matrix.from_list(engine, [3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    if not x.ndim:
        return full(x.engine, (), 0, dtype=int32)
    at = sp.normalize_axis(axis, x.ndim, "matrix.argsort")
    if x.size == 0 or x.shape[at] == 1:
        return full(x.engine, x.shape, 0, dtype=int32)
    moved, back = _rows(x, at)
    return back(order_of(sort_key(moved, descending=descending), key_bits(x.dtype)))


@primitive("order")
def _order(keys: Matrix, bits: int) -> Matrix:
    found: Spec = keys  # type: ignore[assignment]
    return Inference((spec(int32, found.shape),), (bits,))  # type: ignore[return-value]


def order_of(keys: Matrix, bits: int | None = None) -> Matrix:
    """int32 indices that sort each row of `keys` stably: rank 2, uint32 or uint64 below 2^bits, by default of all their bits."""
    return _order(keys, bits=keys.dtype.bits if bits is None else max(1, bits))


@primitive("inverse")
def _inverse(order: Matrix) -> Matrix:
    found: Spec = order  # type: ignore[assignment]
    return Inference((spec(int32, found.shape),))  # type: ignore[return-value]


def inverse(order: Matrix) -> Matrix:
    """The inverse of a permutation in each row, rank 2 and int32."""
    return _inverse(order)


def topk(x: Matrix, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Matrix, Matrix]:
    """(values, int32 indices) of the k largest (or smallest) elements along `axis`, best first; of equals the earlier wins.

    Raises ArgumentError unless 0 <= k <= extent.

    Shapes: x's, k along `axis`, of both.
    Dtypes: any real; indices are int32.
    Gradient: g of the values, to where each came from.

    >>> values, places = oa.matrix.topk(oa.matrix.from_list(engine, [3.0, 9.0, 5.0]), 2)
    >>> (values.tolist(), places.tolist())
    ([9.0, 5.0], [1, 2])
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.topk")
    if not 0 <= k <= x.shape[at]:
        raise ArgumentError(f"matrix.topk: k is {k} of {x.shape[at]} elements along axis {axis}")
    moved, back = _rows(x, at)
    found = _first(sort_key(moved, descending=largest), k, key_bits(x.dtype))
    order = back(found)
    return gather(x, order, axis=at), order


#: Elements of a row from which the best of chunks are looked at before all of them.
_CHUNKED = 4096


def _first(keys: Matrix, k: int, bits: int) -> Matrix:
    """The first k of `order_of`, (rows, k).

    Each of them is in one of the k chunks whose least keys come first: of the chunks that come before its own, each holds an
    element that comes before it. Chunks of about sqrt(n / k) leave the fewest least keys and candidates to be put in order.
    """
    rows, n = keys.shape
    chunk = 1 << (n // max(1, k)).bit_length() // 2
    chunks = -(-n // chunk)
    if k == 0 or n < _CHUNKED or chunks + k * chunk > n // 4:
        return slice(order_of(keys, bits), 1, 0, k)
    if chunks * chunk > n:
        rest = full(keys.engine, (rows, chunks * chunk - n), (1 << bits) - 1, dtype=keys.dtype)
        keys = concat([keys, rest], axis=1)  # after all others, equal ones too
    least = reshape(min(reshape(keys, (rows, chunks, chunk)), axis=2), (rows, chunks))
    chosen = slice(order_of(least, bits), 1, 0, k)
    chosen = gather(chosen, order_of(astype(chosen, uint32), chunks.bit_length()), axis=1)
    within = reshape(arange(keys.engine, chunk), (1, 1, chunk))
    places = reshape(reshape(chosen * chunk, (rows, k, 1)) + within, (rows, k * chunk))
    best = slice(order_of(gather(keys, places, axis=1), bits), 1, 0, k)
    return gather(places, best, axis=1)


def _rows(x: Matrix, axis: int) -> tuple[Matrix, Callable[[Matrix], Matrix]]:
    """x as rows along `axis`, and how results in rows, of any length, lie in x."""
    order = [*(k for k in range(x.ndim) if k != axis), axis]
    moved = permute_dims(x, order)
    kept = moved.shape[:-1]
    undo = [order.index(k) for k in range(x.ndim)]

    def back(found: Matrix) -> Matrix:
        return permute_dims(reshape(found, (*kept, found.shape[1])), undo)

    return reshape(moved, (math.prod(kept), x.shape[axis])), back


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


__all__ = ["argsort", "inverse", "order_of", "sort", "top_k_mask", "topk"]
