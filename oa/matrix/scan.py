"""Cumulative sums and products, differences.

Sums have a family of kernels (`oa._kernel.scanning`). Float sums carry their rounding errors:
|error| <= 2 log2(n) 2^-24 sum|x| for the n terms of each result, and less. Products are scanned in blocks, and the blocks'
products in turn, so that their gradient, which holds where elements are 0 too, is that of products.
"""

from __future__ import annotations

import math
from typing import Any

from oa._schema import spec as sp
from oa._schema.declare import gradient, primitive
from oa._schema.dtype import float32, int32, uint32
from oa._schema.op import Inference, Instance
from oa._schema.spec import Spec
from oa.errors import ArgumentError
from oa.matrix.create import arange, full
from oa.matrix.elementwise import astype, less_equal, multiply, not_equal, subtract, where
from oa.matrix.reduce import _accumulator, prod
from oa.matrix.shape import broadcast_to, concat, flip, reshape, slice
from oa.matrix.value import Matrix

#: Elements that one result multiplies directly.
BLOCK = 32
_IDENTITY = {"sum": 0, "prod": 1}
_WIDE = {"i": int32, "u": uint32, "b": uint32, "f": float32}


@primitive("scan")
def _scan(x: Matrix) -> Matrix:
    """Inclusive sums along the middle one of three axes."""
    found: Spec = x  # type: ignore[assignment]
    return Inference((found,))  # type: ignore[return-value]


@gradient(_scan)
def _scan_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix]:
    """The sums of the cotangent from each place on."""
    return (flip(_scan(flip(ct, axis=1)), axis=1),)


def cumulative_sum(
    x: Matrix, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Matrix:
    """Sums of the first 1, 2, ... elements along `axis`, which may be left out for rank 1.

    bool is summed as int32, uint8 as uint32; `dtype` overrides. `include_initial` puts the empty sum in front.

    Shapes: any; the result has it too, one more along `axis` with `include_initial`.
    Dtypes: any; the result's as in `sum`.
    Gradient: the sums of g from each place on.
    Raises: ArgumentError without an axis above rank 1; AxisError for an axis outside x.

    >>> oa.matrix.cumulative_sum(oa.matrix.from_list(engine, [1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(_accumulator(x, dtype), "sum", axis, include_initial)


def cumulative_prod(
    x: Matrix, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Matrix:
    """Products of the first 1, 2, ... elements along `axis`. Dtypes and arguments as in `cumulative_sum`.

    Shapes: any; the result has it too, one more along `axis` with `include_initial`.
    Dtypes: any; the result's as in `sum`.
    Gradient: by the product rule, also where elements are 0.
    Raises: ArgumentError without an axis above rank 1; AxisError for an axis outside x.

    >>> oa.matrix.cumulative_prod(oa.matrix.from_list(engine, [1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 6.0]
    """
    return _cumulative(_accumulator(x, dtype), "prod", axis, include_initial)


def _cumulative(x: Matrix, name: str, axis: int | None, initial: bool) -> Matrix:
    operation = f"matrix.cumulative_{name}"
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"{operation}: a value of rank {x.ndim} needs an axis")
    at = sp.normalize_axis(0 if axis is None else axis, x.ndim, operation)
    before, extent, after = math.prod(x.shape[:at]), x.shape[at], math.prod(x.shape[at + 1 :])
    found = reshape(scan(reshape(x, (before, extent, after)), name), x.shape) if x.size else x
    if not initial:
        return found
    shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
    return concat([_identity(x, name, shape), found], axis=at)


def _identity(x: Matrix, name: str, shape: tuple[int, ...]) -> Matrix:
    return full(x.engine, shape, _IDENTITY[name], dtype=x.dtype)


def scan(x: Matrix, name: str) -> Matrix:
    """Inclusive "sum" or "prod" along the middle of three axes."""
    if name == "prod":
        return _products(x)
    if x.dtype.itemsize >= 4:
        return _scan(x)
    return astype(_scan(astype(x, _WIDE[x.dtype.kind])), x.dtype)


def _products(x: Matrix) -> Matrix:
    before, extent, after = x.shape
    if extent <= BLOCK:
        return _direct(x)
    blocks = -(-extent // BLOCK)
    missing = blocks * BLOCK - extent
    padded = concat([x, _identity(x, "prod", (before, missing, after))], axis=1) if missing else x
    inner = _direct(reshape(padded, (before * blocks, BLOCK, after)))
    inner = reshape(inner, (before, blocks, BLOCK, after))
    totals = reshape(slice(inner, 2, BLOCK - 1, None), (before, blocks, after))
    earlier = _products(slice(totals, 1, 0, blocks - 1))
    start = concat([_identity(x, "prod", (before, 1, after)), earlier], axis=1)
    start = broadcast_to(reshape(start, (before, blocks, 1, after)), inner.shape)
    joined = multiply(inner, start)
    return slice(reshape(joined, (before, blocks * BLOCK, after)), 1, 0, extent)


def _direct(x: Matrix) -> Matrix:
    """Each product from the elements up to its own: a reduction over a triangle."""
    before, extent, after = x.shape
    if extent == 1:
        return x
    place = arange(x.engine, extent)
    inside = less_equal(reshape(place, (1, 1, extent, 1)), reshape(place, (1, extent, 1, 1)))
    spread = where(inside, reshape(x, (before, 1, extent, after)), 1.0 if x.dtype.is_inexact else 1)
    return prod(spread, axis=2, dtype=x.dtype)


def diff(
    x: Matrix, n: int = 1, axis: int = -1, prepend: Matrix | None = None, append: Matrix | None = None
) -> Matrix:
    """Differences of neighbours along `axis`, `n` times over; of bool whether they differ.

    All but x go by name in the array API; their order is NumPy's.

    `prepend` and `append` are put before and after x first.

    Shapes: any; n fewer along `axis`.
    Dtypes: any; of bool the result is bool.
    Gradient: g, differences in the other direction.
    Raises: ArgumentError for a negative n; AxisError for an axis outside x.

    >>> oa.matrix.diff(oa.matrix.from_list(engine, [1, 4, 9])).tolist()
    [3, 5]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.diff")
    if not hasattr(n, "__index__") or n < 0:
        raise ArgumentError(f"matrix.diff: n is {n!r}; wanted a whole number of 0 or more")
    parts = [p for p in (prepend, x, append) if p is not None]
    found = concat(parts, axis=at) if n and len(parts) > 1 else x
    for _ in range(min(n, found.shape[at])):  # nothing is left then
        later, earlier = slice(found, at, 1, None), slice(found, at, 0, -1)
        found = (not_equal if found.dtype.kind == "b" else subtract)(later, earlier)
    return found


__all__ = ["cumulative_prod", "cumulative_sum", "diff", "scan"]
