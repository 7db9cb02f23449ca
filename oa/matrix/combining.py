"""Rows combined by the place that they are for: under scatters, segments and the gradients of gathers. Deterministic.

Nothing is atomic: every result is computed from the rows that reach it, in their order. Few rows are compared with every place;
many are sorted by place (stably) and combined by a scan that starts anew at each place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from oa._schema.declare import gradient, primitive
from oa._schema.dtype import HALVES, float32, int32, limits_of, uint32
from oa._schema.op import Inference, Instance
from oa._schema.spec import Spec, spec
from oa.matrix.create import arange, full, zeros_like
from oa.matrix.elementwise import (
    add,
    astype,
    equal,
    isfinite,
    isnan,
    less_equal,
    maximum,
    minimum,
    multiply,
    ordered,
    where,
)
from oa.matrix.indexing import _along, _take, _wrapped, take
from oa.matrix.products import matmul
from oa.matrix.reduce import max, min, prod, sum
from oa.matrix.scan import BLOCK
from oa.matrix.search import lower_bound
from oa.matrix.shape import concat, permute_dims, reshape, slice
from oa.matrix.sorting import order_of
from oa.matrix.value import Matrix

#: Products of places and values up to which each value is compared with each place.
_COMPARISONS = 1 << 22
#: Products of places, rows and their width up to which the gradient of a `take` is a matrix product.
_ONE_HOT_LIMIT = 1 << 29
JOIN: dict[str, Callable[[Any, Any], Matrix]] = {
    "add": add,
    "multiply": multiply,
    "max": maximum,
    "min": minimum,
}


# -- one row for each index that is used once


@primitive("take")
def take_unique(x: Matrix, indices: Matrix) -> Matrix:
    """`take` along axis 0 where no index inside x occurs twice: its adjoint is a `take` too."""
    found: Spec = x  # type: ignore[assignment]
    at: Spec = indices  # type: ignore[assignment]
    return Inference((spec(found.dtype, (*at.shape, *found.shape[1:])),), (0,))  # type: ignore[return-value]


@gradient(take_unique)
def _take_unique_gradient(instance: Instance, ct: Matrix, indices: Matrix) -> tuple[Matrix, None]:
    """Row k of x takes the cotangent of the one place that read it, found in the sorted indices, or 0."""
    extent, count = instance.ins[0].shape[0], indices.size
    if extent == 0 or count == 0:
        return zeros_like(ct, dtype=ct.dtype) if extent == count else _nothing(instance, ct), None
    keys = astype(indices, uint32)
    order = reshape(order_of(reshape(keys, (1, count))), (count,))
    ordered = take(keys, order)
    here = astype(arange(ct.engine, extent), uint32)
    at = lower_bound(ordered, here)
    hit = (at < count) & equal(take(ordered, at), here)
    rows = take_unique(ct, where(hit, take(order, at), count))
    return where(reshape(hit, (extent, *(1 for _ in ct.shape[1:]))), rows, 0.0), None


def _nothing(instance: Instance, ct: Matrix) -> Matrix:
    return full(ct.engine, instance.ins[0].shape, 0.0, dtype=ct.dtype)


# -- values combined place by place


def _identity(mode: str, x: Matrix) -> float | int:
    if mode in ("add", "multiply"):
        number = 0 if mode == "add" else 1
        return float(number) if x.dtype.is_inexact else number
    if x.dtype.is_float:
        return -math.inf if mode == "max" else math.inf
    ordered(x, f"mode {mode!r}")
    low, high = limits_of(x.dtype)
    return low if mode == "max" else high


def _reduced(mode: str, x: Matrix, axis: int) -> Matrix:
    if mode in ("add", "multiply"):
        return (sum if mode == "add" else prod)(x, axis, dtype=x.dtype)
    return (max if mode == "max" else min)(x, axis)


def combined(places: Matrix, rows: Matrix, count: int, mode: str) -> tuple[Matrix, Matrix]:
    """For lines of `rows` (lines, n, width) and `places` (lines, n): what reaches each place (lines, count, width), and how many
    rows that are, int32 (lines, count). Where none do, the mode's identity stands. Places outside [0, count) do not count."""
    lines, n, width = rows.shape
    if n == 0 or rows.size == 0 or count == 0:
        empty = full(rows.engine, (lines, count, width), _identity(mode, rows), dtype=rows.dtype)
        return empty, full(rows.engine, (lines, count), 0, dtype=int32)
    if n <= BLOCK or lines * count * n * width <= _COMPARISONS:
        here = reshape(arange(rows.engine, count), (1, count, 1))
        hit = equal(here, reshape(places, (lines, 1, n)))
        spread = where(
            reshape(hit, (lines, count, n, 1)), reshape(rows, (lines, 1, n, width)), _identity(mode, rows)
        )
        return _reduced(mode, spread, 2), sum(astype(hit, int32), axis=2)
    return _by_sorting(places, rows, count, mode)


def _by_sorting(places: Matrix, rows: Matrix, count: int, mode: str) -> tuple[Matrix, Matrix]:
    lines, n, width = rows.shape
    order, ordered = _in_order(places, count)
    inside = reshape((places >= 0) & (places < count), (lines, n, 1))
    rows = where(inside, rows, _identity(mode, rows))  # what overflows outside has no gradient
    sorted_rows = reshape(
        take_unique(reshape(rows, (lines * n, width)), reshape(order, (lines * n,))), rows.shape
    )
    running = reshape(_segmented(sorted_rows, ordered, mode), (lines * n, width))
    first, last = _bounds(ordered, count)
    found = last - first
    pick = where(found > 0, last - 1, lines * n)
    values = reshape(take_unique(running, reshape(pick, (lines * count,))), (lines, count, width))
    return where(reshape(found > 0, (lines, count, 1)), values, _identity(mode, rows)), found


def _in_order(places: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """(order, places in that order), both (lines, n): the stable order by place, as positions among all lines; places outside
    come last, as `count`."""
    lines, n = places.shape
    inside = (places >= 0) & (places < count)
    keys = where(inside, places, count)
    offset = reshape(arange(places.engine, lines) * n, (lines, 1))
    order = order_of(astype(keys, uint32), count.bit_length()) + offset
    return order, take(reshape(keys, (lines * n,)), order)


def _bounds(ordered: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """For each line and place where its run begins and ends among all lines' rows, (lines, count) each."""
    lines, n = ordered.shape
    offset = reshape(arange(ordered.engine, lines) * (count + 1), (lines, 1))
    keys = reshape(astype(ordered + offset, uint32), (lines * n,))
    wanted = astype(reshape(arange(ordered.engine, count), (1, count)) + offset, uint32)
    return lower_bound(keys, wanted), lower_bound(keys, wanted, right=True)


def _segmented(x: Matrix, segments: Matrix, mode: str) -> Matrix:
    """Inclusive scan along axis 1 of (lines, n, width), anew where the sorted `segments` (lines, n) change."""
    lines, n, width = x.shape
    if n <= BLOCK:
        return _triangle(x, segments, mode)
    blocks = -(-n // BLOCK)
    missing = blocks * BLOCK - n
    if missing:
        rest = full(x.engine, (lines, missing, width), _identity(mode, x), dtype=x.dtype)
        x = concat([x, rest], axis=1)
        segments = concat([segments, full(x.engine, (lines, missing), -1, dtype=int32)], axis=1)
    inner = _triangle(
        reshape(x, (lines * blocks, BLOCK, width)), reshape(segments, (lines * blocks, BLOCK)), mode
    )
    inner = reshape(inner, (lines, blocks, BLOCK, width))
    within = reshape(segments, (lines, blocks, BLOCK))
    totals = reshape(slice(inner, 2, BLOCK - 1, None), (lines, blocks, width))
    ends = reshape(slice(within, 2, BLOCK - 1, None), (lines, blocks))
    before = slice(ends, 1, 0, blocks - 1)
    earlier = _segmented(slice(totals, 1, 0, blocks - 1), before, mode)
    start = concat([full(x.engine, (lines, 1, width), _identity(mode, x), dtype=x.dtype), earlier], axis=1)
    owner = concat([full(x.engine, (lines, 1), -2, dtype=int32), before], axis=1)
    same = equal(reshape(owner, (lines, blocks, 1, 1)), reshape(within, (lines, blocks, BLOCK, 1)))
    joined = where(same, JOIN[mode](reshape(start, (lines, blocks, 1, width)), inner), inner)
    return slice(reshape(joined, (lines, blocks * BLOCK, width)), 1, 0, n)


def _triangle(x: Matrix, segments: Matrix, mode: str) -> Matrix:
    lines, n, width = x.shape
    if n == 1:
        return x
    place = arange(x.engine, n)
    earlier = less_equal(reshape(place, (1, 1, n)), reshape(place, (1, n, 1)))
    same = equal(reshape(segments, (lines, 1, n)), reshape(segments, (lines, n, 1)))
    inside = reshape(earlier & same, (lines, n, n, 1))
    return _reduced(mode, where(inside, reshape(x, (lines, 1, n, width)), _identity(mode, x)), 2)


def last_of(places: Matrix, count: int) -> Matrix:
    """For each line and place the last row that reaches it, among all lines' rows, or as many as there are: (lines, count)."""
    lines, n = places.shape
    if n <= BLOCK or lines * count * n <= _COMPARISONS:
        here = reshape(arange(places.engine, count), (1, count, 1))
        hit = equal(here, reshape(places, (lines, 1, n)))
        row = reshape(arange(places.engine, lines * n), (lines, 1, n))
        found = max(where(hit, row, -1), axis=2)
        return where(found < 0, lines * n, found)
    order, ordered = _in_order(places, count)
    first, last = _bounds(ordered, count)
    return where(last > first, take(reshape(order, (lines * n,)), last - 1), lines * n)


# -- the gradients of gathers


def _sum_of_rows(rows: Matrix, places: Matrix, count: int) -> Matrix:
    """(lines, count, width): for each place the sum of the rows (lines, n, width) whose place (lines, n) it is."""
    lines, n, width = rows.shape
    if rows.dtype is float32 and lines == 1 and width > 1 and count * n * width <= _ONE_HOT_LIMIT:
        return _by_product(rows, places, count)
    if rows.dtype in HALVES:
        return astype(_sum_of_rows(astype(rows, float32), places, count), rows.dtype)
    return combined(places, rows, count, "add")[0]


def _by_product(rows: Matrix, places: Matrix, count: int) -> Matrix:
    """`_sum_of_rows` of one line as the product of a one-hot matrix. It multiplies every row by 0 for every other place, which
    of an infinity would make NaN there: so what is not finite is left out, counted beside, and put in afterwards."""
    _, n, width = rows.shape
    hot = astype(equal(reshape(arange(rows.engine, count), (count, 1)), places), float32)
    rows = reshape(rows, (n, width))
    unknown = isnan(rows)  # an infinity of each sign, whose sum is NaN
    above, below = (astype(equal(rows, end) | unknown, float32) for end in (math.inf, -math.inf))
    parts = matmul(hot, concat([where(isfinite(rows), rows, 0.0), above, below], axis=1))
    found, above, below = (slice(parts, 1, k * width, (k + 1) * width) for k in range(3))
    infinite = where(above > 0, math.inf, 0.0) + where(below > 0, -math.inf, 0.0)
    return reshape(where(equal(infinite, 0.0), found, infinite), (1, count, width))


@gradient(_take)
def _take_gradient(instance: Instance, ct: Matrix, indices: Matrix) -> tuple[Matrix, None]:
    """Row v of the adjoint sums the cotangent's rows whose index is v, in their order."""
    axis, shape, rank = instance.attrs["axis"], instance.ins[0].shape, indices.ndim
    order = [*range(axis, axis + rank), *range(axis), *range(axis + rank, ct.ndim)]
    rest = [e for k, e in enumerate(shape) if k != axis]
    rows = reshape(permute_dims(ct, order), (1, indices.size, math.prod(rest)))
    places = reshape(_wrapped(indices, shape[axis]), (1, indices.size))
    back = reshape(_sum_of_rows(rows, places, shape[axis]), (shape[axis], *rest))
    return permute_dims(back, [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]), None


@gradient(_along)
def _along_gradient(instance: Instance, ct: Matrix, indices: Matrix) -> tuple[Matrix, None]:
    """Element (.., v, ..) sums the cotangents whose index along the axis is v; with one index a row it is a selection."""
    axis, shape = instance.attrs["axis"], instance.ins[0].shape
    extent, count = shape[axis], indices.shape[axis]
    places = _wrapped(indices, extent)
    if count == 1:
        here = reshape(
            arange(ct.engine, extent), tuple(extent if k == axis else 1 for k in range(len(shape)))
        )
        return where(equal(here, places), ct, 0.0), None
    order = [*(k for k in range(len(shape)) if k != axis), axis]
    lines = math.prod(e for k, e in enumerate(shape) if k != axis)
    rows = reshape(permute_dims(ct, order), (lines, count, 1))
    found = _sum_of_rows(rows, reshape(permute_dims(places, order), (lines, count)), extent)
    moved = reshape(found, tuple(shape[k] for k in order))
    return permute_dims(moved, [order.index(k) for k in range(len(shape))]), None


__all__ = ["JOIN", "combined", "last_of", "take_unique"]
