"""Order statistics and counts: quantiles, the median, histograms."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from oa._schema import spec as sp
from oa._schema.dtype import float32, int32, uint32
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix.create import arange
from oa.matrix.elementwise import astype, equal, isnan, where
from oa.matrix.indexing import take
from oa.matrix.interop import asarray
from oa.matrix.reduce import max, min, sum
from oa.matrix.search import lower_bound, sort_key
from oa.matrix.shape import expand_dims, permute_dims, reshape, slice, stack
from oa.matrix.sorting import order_of, sort
from oa.matrix.value import Matrix

_METHODS = ("linear", "lower", "higher", "nearest", "midpoint")
#: Bins up to which each element is compared with all of them; for more the elements are sorted by bin.
_BINS = 256


def quantile(
    x: Matrix, q: float | Sequence[float], *, axis: Any = None, keepdims: bool = False, method: str = "linear"
) -> Matrix:
    """The values below which the fractions `q` (0 to 1) of the elements over `axis` lie; several fractions make a first axis.

    Element q (n - 1) of the sorted elements; between two of them "linear" interpolates, "lower", "higher" and "nearest" (ties
    to even) choose, "midpoint" halves. NaN if any element is NaN. The gradient goes to the elements taken.

    Raises DTypeError for integers, ShapeError over no elements, ArgumentError for a fraction outside 0 to 1.

    Shapes: any; the result as in `sum`, with a first axis where q is a sequence.
    Dtypes: floating-point.
    Gradient: g, to the elements taken, by their weights.

    >>> oa.matrix.quantile(oa.matrix.from_list(engine, [4.0, 1.0, 2.0]), [0.0, 0.75]).tolist()
    [1.0, 3.0]
    """
    fractions = [q] if isinstance(q, (int, float)) else list(q)
    if method not in _METHODS:
        raise ArgumentError(f"matrix.quantile: method {method!r} is none of {', '.join(_METHODS)}")
    if builtins.any(not 0.0 <= f <= 1.0 for f in fractions):
        raise ArgumentError(f"matrix.quantile: q is {q}; wanted fractions from 0 to 1")
    if not x.dtype.is_float:
        raise DTypeError(
            f"matrix.quantile: {x.dtype.name} is not floating-point; cast with .astype(oa.float32)"
        )
    axes = sp.normalize_axes(axis, x.ndim, "matrix.quantile")
    count = math.prod(x.shape[a] for a in axes)
    if count == 0:
        raise ShapeError(f"matrix.quantile: axes {axes} of shape {x.shape} hold no elements")
    kept = [k for k in range(x.ndim) if k not in axes]
    rows = reshape(permute_dims(x, [*kept, *axes]), (math.prod(x.shape[k] for k in kept), count))
    ordered = sort(rows, axis=1)
    last = slice(ordered, 1, count - 1, None)
    found = [_between(ordered, f * (count - 1), method) for f in fractions]
    shape = tuple(1 if k in axes else e for k, e in enumerate(x.shape) if keepdims or k not in axes)
    found = [reshape(where(isnan(last), math.nan, f), shape) for f in found]
    return found[0] if isinstance(q, (int, float)) else stack(found)


def _between(ordered: Matrix, place: float, method: str) -> Matrix:
    """The element of each row at a place between two whole ones; (rows, 1)."""
    below, above = math.floor(place), math.ceil(place)
    if method == "nearest":
        below = above = round(place)
    elif method == "lower":
        above = below
    elif method == "higher":
        below = above
    a = slice(ordered, 1, below, below + 1)
    if below == above:
        return a
    b = slice(ordered, 1, above, above + 1)
    t = 0.5 if method == "midpoint" else place - below
    mixed = a + (b - a) * t if t < 0.5 else b - (b - a) * (1 - t)
    return where(equal(a, b), a, mixed)  # equal infinities have no difference


def median(x: Matrix, *, axis: Any = None, keepdims: bool = False) -> Matrix:
    """The middle element over `axis`, or the mean of the two: `quantile(x, 0.5)`.

    Shapes: any; the result as in `sum`.
    Dtypes: floating-point.
    Gradient: g, to the middle element or half each to the two.
    Raises: DTypeError for other dtypes; ShapeError over no elements; AxisError for an axis outside x or named twice.

    >>> oa.matrix.median(oa.matrix.from_list(engine, [4.0, 1.0, 2.0])).item()
    2.0
    """
    return quantile(x, 0.5, axis=axis, keepdims=keepdims)


def histogram(
    x: Matrix, bins: int | Sequence[float] | Matrix = 10, *, range: tuple[float, float] | None = None
) -> tuple[Matrix, Matrix]:
    """(int32 counts, edges): how many elements lie in each of the bins [edge k, edge k + 1), the last one closed.

    Args:
        bins: how many bins of equal width, or their ascending edges.
        range: the outer edges where `bins` is a number; by default the least and the greatest element.

    NaN and elements outside count nowhere. Raises ArgumentError for no bins or an empty range.

    Shapes: x any; (bins,) and (bins + 1,).
    Dtypes: any real; edges have x's where that is floating-point, else float32.
    Gradient: none: counts are not floating-point.

    >>> counts, edges = oa.matrix.histogram(oa.matrix.from_list(engine, [0.0, 1.0, 1.5, 4.0]), 2)
    >>> (counts.tolist(), edges.tolist())
    ([3, 1], [0.0, 2.0, 4.0])
    """
    values = astype(reshape(x, (x.size,)), float32) if not x.dtype.is_float else reshape(x, (x.size,))
    edges = _edges(values, bins, range)
    count = edges.shape[0] - 1
    place = lower_bound(sort_key(edges), sort_key(values), right=True) - 1
    inside = (values >= edges[0]) & (values <= edges[-1])
    place = where(inside, where(place == count, count - 1, place), -1)
    return _counts(place, count), edges


def _counts(place: Matrix, count: int) -> Matrix:
    """How often each of 0 ... count - 1 occurs among rank-1 places, of which others are negative."""
    if count <= _BINS or not place.size:
        here = expand_dims(arange(place.engine, count), 1)
        return sum(astype(equal(expand_dims(place, 0), here), int32), axis=1)
    keys = astype(where(place < 0, count, place), uint32)
    order = order_of(reshape(keys, (1, keys.size)), count.bit_length())
    ordered = take(keys, reshape(order, (keys.size,)))
    bounds = lower_bound(ordered, astype(arange(place.engine, count + 1), uint32))
    return slice(bounds, 0, 1, None) - slice(bounds, 0, 0, -1)


def _edges(values: Matrix, bins: Any, range: tuple[float, float] | None) -> Matrix:
    if not hasattr(bins, "__index__") or isinstance(bins, Matrix):
        edges = astype(asarray(bins, device=values.engine), values.dtype)
        if edges.ndim != 1 or edges.size < 2:
            raise ArgumentError(
                f"matrix.histogram: edges of shape {edges.shape}; wanted rank 1 and two or more"
            )
        return edges
    count = int(bins)
    if count < 1 or (range is not None and not range[0] <= range[1]):
        raise ArgumentError(f"matrix.histogram: {count} bins over {range}")
    low: Any
    high: Any
    if range is not None:
        low, high = (range[0] - 0.5, range[1] + 0.5) if range[0] == range[1] else range
        steps = astype(arange(values.engine, count + 1), values.dtype)
        return where(steps == float(count), float(high), steps * ((high - low) / count) + float(low))
    if values.size == 0:
        return _edges(values, count, (0.0, 1.0))
    low, high = min(values), max(values)
    apart = where(equal(low, high), 0.5, 0.0)
    low, high = low - apart, high + apart
    steps = astype(arange(values.engine, count + 1), values.dtype)
    return where(steps == float(count), high, steps * ((high - low) / float(count)) + low)


__all__ = ["histogram", "median", "quantile"]
