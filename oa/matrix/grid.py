"""Grids of coordinates and triangles of matrices."""

from __future__ import annotations

from typing import Any

from oa._schema import expr
from oa._schema.declare import primitive
from oa._schema.dtype import int32
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference
from oa._schema.spec import Spec
from oa.errors import ArgumentError, ShapeError
from oa.matrix.create import _scalar, diagonal
from oa.matrix.shape import broadcast_to, reshape
from oa.matrix.value import Matrix


@primitive("pointwise")
def _triangle(x: Matrix, k: Matrix, lower: bool) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    rank = len(found.shape)
    edge = expr.index(rank - 2) + Expr("arg", (), 1)
    keep = expr.call("le" if lower else "ge", expr.index(rank - 1), edge)
    zero = expr.cast(0, found.dtype)
    body = resolve(expr.where(keep, Expr("arg", (), 0), zero), (found.dtype, int32), "matrix.tril")
    return Inference((found,), (), body)  # type: ignore[return-value]


def _checked(x: Matrix, name: str, k: int, lower: bool) -> Matrix:
    if x.ndim < 2:
        raise ShapeError(f"matrix.{name}: the value has rank {x.ndim}; wanted rank 2 or more")
    k = diagonal(k, x.shape[-2], x.shape[-1], f"matrix.{name}")
    return _triangle(x, _scalar(x.engine, int32, k), lower)


def tril(x: Matrix, *, k: int = 0) -> Matrix:
    """The lower triangles of the last two axes: x where column <= row + k, else 0.

    Shapes: (..., m, n); the result has it too.
    Dtypes: any.
    Gradient: g inside the triangle, 0 outside.
    Raises: ShapeError below rank 2.

    >>> oa.matrix.tril(oa.matrix.ones(engine, (2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _checked(x, "tril", k, True)


def triu(x: Matrix, *, k: int = 0) -> Matrix:
    """The upper triangles of the last two axes: x where column >= row + k, else 0.

    Shapes: (..., m, n); the result has it too.
    Dtypes: any.
    Gradient: g inside the triangle, 0 outside.
    Raises: ShapeError below rank 2.

    >>> oa.matrix.triu(oa.matrix.ones(engine, (2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _checked(x, "triu", k, False)


def meshgrid(*arrays: Matrix, indexing: str = "xy") -> tuple[Matrix, ...]:
    """Coordinates of a grid from values of rank 1, as views; "xy" gives the first two axes in the order (rows, columns).

    Shapes: rank 1 each; all results have the grid's shape.
    Dtypes: any.
    Gradient: g, summed over the other axes.
    Raises: ShapeError for a value above rank 1; ArgumentError for another `indexing`.

    >>> x, y = oa.matrix.meshgrid(oa.matrix.arange(engine, 3), oa.matrix.arange(engine, 2))
    >>> (x.shape, y.tolist())
    ((2, 3), [[0, 0, 0], [1, 1, 1]])
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"matrix.meshgrid: indexing {indexing!r} is neither 'xy' nor 'ij'")
    for a in arrays:
        if a.ndim > 1:
            raise ShapeError(f"matrix.meshgrid: a value has shape {a.shape}; wanted rank 1")
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[0], places[1] = 1, 0
    shape = [1] * len(arrays)
    for place, a in zip(places, arrays):
        shape[place] = a.size
    found: list[Any] = []
    for place, a in zip(places, arrays):
        along = [1] * len(arrays)
        along[place] = a.size
        found.append(broadcast_to(reshape(a, tuple(along)), tuple(shape)))
    return tuple(found)


__all__ = ["meshgrid", "tril", "triu"]
