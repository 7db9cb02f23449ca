"""Scattering: values written to, or combined at, places that are data; sums and extremes of segments. Deterministic."""

from __future__ import annotations

import math
from typing import Any

from oa._graph.node import again
from oa._schema import spec as sp
from oa._schema.dtype import HALVES, float32
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix.combining import JOIN, combined, last_of, take_unique
from oa.matrix.elementwise import astype, where
from oa.matrix.indexing import _indices, _wrapped
from oa.matrix.interop import asarray
from oa.matrix.shape import broadcast_to, permute_dims, reshape
from oa.matrix.value import Matrix

MODES = ("replace", *JOIN)


# -- scatter


def _scattered(x: Matrix, places: Matrix, rows: Matrix, mode: str) -> Matrix:
    """x (lines, count, width) with `rows` (lines, n, width) at `places` (lines, n)."""
    lines, count, width = x.shape
    n = rows.shape[1]
    if x.size == 0 or rows.size == 0:
        return again(x)
    if x.dtype in HALVES and mode != "replace":  # rounded once, at the end
        return astype(_scattered(astype(x, float32), places, astype(rows, float32), mode), x.dtype)
    places = _wrapped(places, count)
    if mode == "replace":
        source = last_of(places, count)
        written = take_unique(reshape(rows, (lines * n, width)), reshape(source, (lines * count,)))
        hit = reshape(source < lines * n, (lines, count, 1))
        return where(hit, reshape(written, x.shape), x)
    found, counts = combined(places, rows, count, mode)
    return where(reshape(counts > 0, (lines, count, 1)), JOIN[mode](x, found), x)


def _operand(x: Matrix, values: Any, shape: tuple[int, ...], mode: str, name: str) -> Matrix:
    """The values in x's dtype, broadcast."""
    if mode not in MODES:
        raise ArgumentError(f"matrix.{name}: mode {mode!r} is none of {', '.join(MODES)}")
    if mode != "replace" and x.dtype.kind == "b":
        raise DTypeError(f"matrix.{name}: mode {mode!r} has no meaning for bool; cast with .astype(oa.int32)")
    if not isinstance(values, Matrix):
        values = asarray(values, dtype=x.dtype, device=x.engine)
    if values.dtype is not x.dtype:
        raise DTypeError(
            f"matrix.{name}: values are {values.dtype.name} and x is {x.dtype.name};"
            f" cast them: values.astype(oa.{x.dtype.name})"
        )
    try:
        return broadcast_to(values, shape)
    except ShapeError:
        raise ShapeError(
            f"matrix.{name}: values {values.shape} do not broadcast to {shape}, what the indices reach"
        ) from None


def scatter(x: Matrix, indices: Matrix, values: Any, *, axis: int = -1, mode: str = "replace") -> Matrix:
    """x with values[.., i, ..] put at, or combined with, x[.., indices[.., i, ..], ..]: what `gather` reads, written.

    Args:
        indices: integers; x's rank and, but along `axis`, its extents. Negative ones count from the end; what lies outside the
            axis is left out.
        values: of x's dtype and the indices' shape, or broadcast to it.
        mode: "replace" (of equal indices the last one counts), "add", "multiply", "min" or "max" (x takes part).

    The same on every run: values that meet are combined in their order, then with x. Integers wrap; min and max give NaN where
    one takes part.

    Shapes: x's.
    Dtypes: any; bool is only replaced; indices are integers.
    Gradient: of "replace" to the value that won, and to x where none came; of "add" g to all; of "multiply" g times the
    others; of "min" and "max" to the one that won, shared at a tie.
    Raises: ShapeError for indices or values of another shape; DTypeError for values of another dtype, for indices that are no
    integers and for bool; ArgumentError for a mode; AxisError for an axis outside x.

    >>> x = oa.matrix.zeros(engine, (4,))
    >>> oa.matrix.scatter(x, oa.matrix.from_list(engine, [1, 3, 1]), 1.0, mode="add").tolist()
    [0.0, 2.0, 0.0, 1.0]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.scatter")
    found = _indices(x, indices, "scatter")
    lead = [k for k in range(x.ndim) if k != at]
    if found.ndim != x.ndim or [found.shape[k] for k in lead] != [x.shape[k] for k in lead]:
        raise ShapeError(
            f"matrix.scatter: indices {found.shape} must have x's shape {x.shape} but along axis {at}"
        )
    rows = _operand(x, values, found.shape, mode, "scatter")
    lines = math.prod(x.shape[k] for k in lead)
    moved = [permute_dims(v, [*lead, at]) for v in (x, found, rows)]
    target = reshape(moved[0], (lines, x.shape[at], 1))
    places, flat = (reshape(v, (lines, found.shape[at])) for v in moved[1:])
    made = _scattered(target, places, reshape(flat, (*flat.shape, 1)), mode)
    back = [[*lead, at].index(k) for k in range(x.ndim)]
    return permute_dims(reshape(made, moved[0].shape), back)


def scatter_rows(x: Matrix, indices: Matrix, rows: Any, *, axis: int = 0, mode: str = "replace") -> Matrix:
    """x with whole slices along `axis` put at, or combined with, those at rank-1 `indices`: what `take` reads, written.

    `rows` has x's shape but for `axis`, where it has one slice for each index, or broadcasts to that. Modes, order and indices
    outside as in `scatter`.

    Shapes: x's.
    Dtypes: any; bool is only replaced; indices are integers.
    Gradient: as of `scatter`.
    Raises: ShapeError for indices that are not of rank 1, or rows of another shape; otherwise as `scatter`.

    >>> x = oa.matrix.zeros(engine, (3, 2))
    >>> oa.matrix.scatter_rows(x, oa.matrix.from_list(engine, [2, 0]), [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.scatter_rows")
    found = _indices(x, indices, "scatter_rows")
    if found.ndim != 1:
        raise ShapeError(f"matrix.scatter_rows: indices have shape {found.shape}; wanted rank 1")
    shape = (*x.shape[:at], found.size, *x.shape[at + 1 :])
    given = _operand(x, rows, shape, mode, "scatter_rows")
    order = [at, *(k for k in range(x.ndim) if k != at)]
    width = math.prod(e for k, e in enumerate(x.shape) if k != at)
    moved = permute_dims(x, order)
    flat = reshape(permute_dims(given, order), (1, found.size, width))
    made = _scattered(reshape(moved, (1, x.shape[at], width)), reshape(found, (1, found.size)), flat, mode)
    return permute_dims(reshape(made, moved.shape), [order.index(k) for k in range(x.ndim)])


def scatter_add_rows(x: Matrix, indices: Matrix, rows: Any, *, axis: int = 0) -> Matrix:
    """x with slices along `axis` added at rank-1 `indices`, as often as they occur: `scatter_rows` with mode "add".

    Shapes: x's.
    Dtypes: numeric; indices are integers.
    Gradient: g to x; to each slice of `rows` the slice of g at its index.
    Raises: as `scatter_rows`.

    >>> x = oa.matrix.ones(engine, (2, 2))
    >>> oa.matrix.scatter_add_rows(x, oa.matrix.from_list(engine, [0, 0]), 1.0).tolist()
    [[3.0, 3.0], [1.0, 1.0]]
    """
    return scatter_rows(x, indices, rows, axis=axis, mode="add")


# -- segments


def _segments(rows: Matrix, segments: Matrix, count: int, mode: str, name: str) -> tuple[Matrix, Matrix]:
    """(what each segment combines to (count, ...), how many rows it has (count, 1, ...))."""
    (count,) = sp.as_shape((count,), f"matrix.{name}")
    found = _indices(rows, segments, name)
    if found.ndim != 1 or rows.shape[:1] != found.shape:
        raise ShapeError(
            f"matrix.{name}: segments {found.shape} must have rank 1 and one for each of the rows {rows.shape}"
        )
    if rows.dtype.kind == "b":
        raise DTypeError(f"matrix.{name}: bool has no order or arithmetic; cast with .astype(oa.int32)")
    width, rest = math.prod(rows.shape[1:]), rows.shape[1:]
    made, counts = combined(
        reshape(found, (1, found.size)), reshape(rows, (1, found.size, width)), count, mode
    )
    return reshape(made, (count, *rest)), reshape(counts, (count, *(1 for _ in rest)))


def segment_sum(rows: Matrix, segments: Matrix, count: int) -> Matrix:
    """(count, ...): row v is the sum of the rows (n, ...) whose integer segment (n,) is v; 0 where there is none.

    Segments need not be sorted; those outside [0, count) do not count, negative ones neither. 16-bit floats are summed in
    float32. Deterministic: the order of additions follows from shapes and segments alone.

    Shapes: (n, ...) and (n,) give (count, ...).
    Dtypes: numeric; segments are integers.
    Gradient: to each row that of its segment, 0 to those outside.
    Raises: ShapeError unless there is one segment a row; DTypeError for bool, or segments that are no integers.

    >>> oa.matrix.segment_sum(oa.matrix.ones(engine, 3), oa.matrix.from_list(engine, [1, 0, 1]), 2).tolist()
    [1.0, 2.0]
    """
    if rows.dtype in HALVES:
        return astype(segment_sum(astype(rows, float32), segments, count), rows.dtype)
    return _segments(rows, segments, count, "add", "segment_sum")[0]


def segment_prod(rows: Matrix, segments: Matrix, count: int) -> Matrix:
    """Products of the rows of each segment, as `segment_sum`; 1 where there is none.

    Shapes: (n, ...) and (n,) give (count, ...).
    Dtypes: numeric; segments are integers.
    Gradient: to each row g times the product of the others of its segment.
    Raises: as `segment_sum`.

    >>> segments = oa.matrix.from_list(engine, [1, 1])
    >>> oa.matrix.segment_prod(oa.matrix.from_list(engine, [2, 3]), segments, 2).tolist()
    [1, 6]
    """
    if rows.dtype in HALVES:
        return astype(segment_prod(astype(rows, float32), segments, count), rows.dtype)
    return _segments(rows, segments, count, "multiply", "segment_prod")[0]


def segment_mean(rows: Matrix, segments: Matrix, count: int) -> Matrix:
    """Means of the rows of each segment, floating-point only, as `segment_sum`; NaN where there is none.

    Shapes: (n, ...) and (n,) give (count, ...).
    Dtypes: floating-point; segments are integers.
    Gradient: to each row that of its segment over how many it has.
    Raises: as `segment_sum`.

    >>> segments = oa.matrix.from_list(engine, [0, 0])
    >>> oa.matrix.segment_mean(oa.matrix.from_list(engine, [1.0, 2.0]), segments, 1).tolist()
    [1.5]
    """
    if not rows.dtype.is_float:
        raise DTypeError(
            f"matrix.segment_mean: {rows.dtype.name} is not floating-point; cast with .astype(oa.float32)"
        )
    if rows.dtype in HALVES:
        return astype(segment_mean(astype(rows, float32), segments, count), rows.dtype)
    total, counts = _segments(rows, segments, count, "add", "segment_mean")
    return total / astype(counts, rows.dtype)


def segment_max(rows: Matrix, segments: Matrix, count: int) -> Matrix:
    """The largest of the rows of each segment, as `segment_sum`, NaN if one is; the dtype's least (-inf) where there is none.

    Shapes: (n, ...) and (n,) give (count, ...).
    Dtypes: real; segments are integers.
    Gradient: to the largest row of each segment, shared at a tie.
    Raises: as `segment_sum`.

    >>> segments = oa.matrix.from_list(engine, [0, 0])
    >>> oa.matrix.segment_max(oa.matrix.from_list(engine, [1.0, 2.0]), segments, 2).tolist()
    [2.0, -inf]
    """
    return _segments(rows, segments, count, "max", "segment_max")[0]


def segment_min(rows: Matrix, segments: Matrix, count: int) -> Matrix:
    """The smallest of the rows of each segment, as `segment_sum`, NaN if one is; the dtype's greatest (inf) where there is none.

    Shapes: (n, ...) and (n,) give (count, ...).
    Dtypes: real; segments are integers.
    Gradient: to the smallest row of each segment, shared at a tie.
    Raises: as `segment_sum`.

    >>> segments = oa.matrix.from_list(engine, [0, 0])
    >>> oa.matrix.segment_min(oa.matrix.from_list(engine, [1.0, 2.0]), segments, 1).tolist()
    [1.0]
    """
    return _segments(rows, segments, count, "min", "segment_min")[0]


__all__ = [
    "MODES",
    "scatter",
    "scatter_add_rows",
    "scatter_rows",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
]
