"""Indexing: basic indices are views; integer values gather. Their gradients are in `oa.matrix.scattering`."""

from __future__ import annotations

import builtins
from typing import Any

from oa._schema import spec as sp
from oa._schema.declare import primitive
from oa._schema.dtype import float32, int32, uint32
from oa._schema.op import Inference
from oa._schema.spec import Spec, spec
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix.create import arange
from oa.matrix.elementwise import astype, clip, equal, where
from oa.matrix.shape import broadcast_to, expand_dims
from oa.matrix.value import Matrix


@primitive("take")
def _take(x: Matrix, indices: Matrix, axis: int) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    at: Spec = indices  # type: ignore[assignment]
    shape = (*found.shape[:axis], *at.shape, *found.shape[axis + 1 :])
    return Inference((spec(found.dtype, shape),), (axis,))  # type: ignore[return-value]


def _wrapped(indices: Matrix, extent: int) -> Matrix:
    return where(indices < 0, indices + extent, indices)


def take(x: Matrix, indices: Matrix, axis: int | None = None) -> Matrix:
    """The slices of x along `axis` at integer `indices` of any rank, NumPy's `take`. Only for rank 1 may the axis be left out.

    Negative indices count from the end. An index outside the axis gives NaN (0 for integer dtypes), never a neighbour's value.

    Shapes: x's with `axis` replaced by those of the indices.
    Dtypes: any; indices are integers.
    Gradient: to each slice the sum of g over the places that took it, in their order.
    Raises: ArgumentError without an axis above rank 1; DTypeError for indices that are no integers; AxisError for an axis
    outside x.

    >>> x = oa.matrix.from_list(engine, [10.0, 20.0, 30.0])
    >>> oa.matrix.take(x, oa.matrix.from_list(engine, [2, 0])).tolist()
    [30.0, 10.0]
    """
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"matrix.take: a value of rank {x.ndim} needs an axis")
    at = sp.normalize_axis(0 if axis is None else axis, x.ndim, "matrix.take")
    return _take(x, _indices(x, indices, "take"), at)


def embedding(indices: Matrix, table: Matrix) -> Matrix:
    """Rows of a (count, width) table at class numbers: `take(table, indices, axis=0)` for those from 0 to count - 1.

    A negative number is no class, as one of `count` or more is none: both give NaN (0 for integer dtypes) and have no gradient.

    Shapes: (count, width) and (...) give (..., width).
    Dtypes: any; indices are integers.
    Gradient: as of `take`, to the table.
    Raises: DTypeError for indices that are no integers.

    >>> oa.matrix.embedding(oa.matrix.from_list(engine, [1, 1]), oa.matrix.from_list(engine, [[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [3.0, 4.0]]
    """
    return take(table, classes(indices, "embedding"), axis=0)


def classes(indices: Matrix, name: str) -> Matrix:
    """int32 class numbers: negative ones lie outside every axis too, instead of counting from its end."""
    found = _indices(indices, indices, name)
    return found if indices.dtype.kind == "u" else where(found < 0, 2**31 - 1, found)


@primitive("along")
def _along(x: Matrix, indices: Matrix, axis: int) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    at: Spec = indices  # type: ignore[assignment]
    return Inference((spec(found.dtype, at.shape),), (axis,))  # type: ignore[return-value]


def gather(x: Matrix, indices: Matrix, axis: int = -1) -> Matrix:
    """Element by element along one axis: result[.., i, ..] = x[.., indices[.., i, ..], ..]; NumPy's `take_along_axis`.

    `indices` has x's rank and, but along `axis`, its extents. Indices as in `take`.

    Shapes: the indices'.
    Dtypes: any; indices are integers.
    Gradient: to each element the sum of g over the places that took it, in their order.
    Raises: ShapeError where the shapes do not fit; DTypeError for indices that are no integers; AxisError for an axis
    outside x.

    >>> oa.matrix.gather(oa.matrix.from_list(engine, [[3.0, 1.0]]), oa.matrix.from_list(engine, [[1, 0]])).tolist()
    [[1.0, 3.0]]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.gather")
    found = _indices(x, indices, "gather")
    same = found.ndim == x.ndim and builtins.all(
        a == b for k, (a, b) in enumerate(zip(found.shape, x.shape)) if k != at
    )
    if not same:
        raise ShapeError(
            f"matrix.gather: indices {found.shape} must have x's shape {x.shape} but along axis {at}"
        )
    return _along(x, found, at)


def take_along_axis(x: Matrix, indices: Matrix, *, axis: int = -1) -> Matrix:
    """`gather` with the axes other than `axis` broadcast against each other.

    Shapes: the indices', broadcast with x's but along `axis`.
    Dtypes: any; indices are integers.
    Gradient: as of `gather`.
    Raises: ShapeError where shapes do not broadcast; DTypeError for indices that are no integers; AxisError for an axis
    outside x.

    >>> x = oa.matrix.from_list(engine, [[3.0, 1.0], [0.0, 2.0]])
    >>> oa.matrix.take_along_axis(x, oa.matrix.argsort(x), axis=1).tolist()
    [[1.0, 3.0], [0.0, 2.0]]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.take_along_axis")
    found = _indices(x, indices, "take_along_axis")
    if found.ndim != x.ndim:
        raise ShapeError(f"matrix.take_along_axis: indices {found.shape} must have x's rank, {x.ndim}")
    shapes = [(*v.shape[:at], 1, *v.shape[at + 1 :]) for v in (x, found)]
    common = sp.broadcast(shapes, "matrix.take_along_axis", ("x", "indices"))
    x, found = (broadcast_to(v, (*common[:at], v.shape[at], *common[at + 1 :])) for v in (x, found))
    return _along(x, found, at)


def _indices(x: Matrix, indices: Any, name: str) -> Matrix:
    if not isinstance(indices, Matrix):
        raise ArgumentError(f"matrix.{name}: indices are {type(indices).__name__}; wanted a Matrix")
    if not indices.dtype.is_integer:
        raise DTypeError(f"matrix.{name}: indices are {indices.dtype.name}; cast with .astype(oa.int32)")
    if indices.dtype.bits > 32 or indices.dtype is uint32:  # what int32 cannot hold lies outside every axis
        indices = clip(indices, None if indices.dtype.kind == "u" else -(2**31), 2**31 - 1)
    return astype(indices, int32)


def one_hot(indices: Matrix, count: int, *, dtype: Any = float32) -> Matrix:
    """1 where the new last axis equals the index, else 0: a negative index, or one of `count` or more, gives zeros.

    Shapes: (...) gives (..., count).
    Dtypes: integer; the result has `dtype`.
    Gradient: none: indices are not floating-point.
    Raises: DTypeError for indices that are no integers; ShapeError for a negative count.

    >>> oa.matrix.one_hot(oa.matrix.from_list(engine, [2, 0]), 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    found = _indices(indices, indices, "one_hot")
    positions = arange(found.engine, *sp.as_shape((count,), "matrix.one_hot"))
    return astype(equal(expand_dims(found, found.ndim), positions), dtype)
