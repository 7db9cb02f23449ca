"""Sets: the distinct elements of a value, in ascending order, and membership. How many there are is read from the device."""

from __future__ import annotations

from typing import Any, NamedTuple

from oa._schema.dtype import bool_, int32, promote
from oa.errors import ArgumentError, DTypeError
from oa.matrix.create import full, ones
from oa.matrix.elementwise import astype, equal, logical_not, not_equal, subtract
from oa.matrix.indexing import take
from oa.matrix.reduce import any
from oa.matrix.scan import cumulative_sum
from oa.matrix.search import flat_nonzero, key_bits, lower_bound, sort_key
from oa.matrix.shape import concat, reshape, slice
from oa.matrix.sorting import inverse, order_of
from oa.matrix.special import imag, real
from oa.matrix.value import Matrix


class UniqueAll(NamedTuple):
    """Distinct values, where each occurs first, which of them each element is, and how often each occurs."""

    values: Matrix
    indices: Matrix
    inverse_indices: Matrix
    counts: Matrix


class UniqueCounts(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Matrix
    counts: Matrix


class UniqueInverse(NamedTuple):
    """Distinct values and which of them each element is."""

    values: Matrix
    inverse_indices: Matrix


class _Groups:
    """x flattened and sorted, cut into runs of equal elements; each NaN is a run of its own."""

    def __init__(self, x: Matrix, operation: str) -> None:
        self.x = x
        flat = reshape(x, (x.size,))
        if x.size == 0:
            self.order = full(x.engine, (0,), 0, dtype=int32)
            self.sorted, self.first, self.starts = flat, full(x.engine, (0,), False), self.order
            return
        self.order = _order(flat)
        self.sorted = take(flat, self.order)
        differs = not_equal(slice(self.sorted, 0, 1, None), slice(self.sorted, 0, 0, -1))
        self.first = concat([ones(x.engine, (1,), dtype=bool_), differs])
        self.starts = flat_nonzero(self.first, None, 0, operation)

    def values(self) -> Matrix:
        return take(self.sorted, self.starts)

    def counts(self) -> Matrix:
        if self.x.size == 0:
            return self.starts
        ends = concat([slice(self.starts, 0, 1, None), full(self.x.engine, (1,), self.x.size, dtype=int32)])
        return subtract(ends, self.starts)

    def inverse(self) -> Matrix:
        if self.x.size == 0:
            return full(self.x.engine, self.x.shape, 0, dtype=int32)
        group = cumulative_sum(astype(self.first, int32)) - 1
        places = reshape(inverse(reshape(self.order, (1, self.x.size))), (self.x.size,))
        return reshape(take(group, places), self.x.shape)


def _order(x: Matrix) -> Matrix:
    """int32 indices that sort a rank-1 value stably; complex numbers by real and then by imaginary part."""
    if x.dtype.is_complex:
        first = _order(imag(x))
        return take(first, _order(take(real(x), first)))
    return reshape(order_of(reshape(sort_key(x), (1, x.size)), key_bits(x.dtype)), (x.size,))


def unique_all(x: Matrix) -> UniqueAll:
    """The distinct elements in ascending order, with first places, inverse and counts; each NaN is distinct.

    Complex numbers are ordered by real and then by imaginary part.

    Raises CaptureError inside a capture.

    Shapes: (count,) of each, the inverse of x's shape.
    Dtypes: any.
    Gradient: g of the values, to where each occurs first.

    >>> found = oa.matrix.unique_all(oa.matrix.from_list(engine, [3, 1, 3]))
    >>> (found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist())
    ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    groups = _Groups(x, "matrix.unique_all")
    return UniqueAll(groups.values(), take(groups.order, groups.starts), groups.inverse(), groups.counts())


def unique_counts(x: Matrix) -> UniqueCounts:
    """The distinct elements in ascending order and how often each occurs. See `unique_all`.

    Shapes: (count,) of each.
    Dtypes: any.
    Gradient: g of the values, to where each occurs first.
    Raises: CaptureError inside a capture.

    >>> oa.matrix.unique_counts(oa.matrix.from_list(engine, [3, 1, 3])).counts.tolist()
    [1, 2]
    """
    groups = _Groups(x, "matrix.unique_counts")
    return UniqueCounts(groups.values(), groups.counts())


def unique_inverse(x: Matrix) -> UniqueInverse:
    """The distinct elements in ascending order and which of them each element is. See `unique_all`.

    Shapes: (count,), the inverse of x's shape.
    Dtypes: any.
    Gradient: g of the values, to where each occurs first.
    Raises: CaptureError inside a capture.

    >>> oa.matrix.unique_inverse(oa.matrix.from_list(engine, [3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    groups = _Groups(x, "matrix.unique_inverse")
    return UniqueInverse(groups.values(), groups.inverse())


def unique_values(x: Matrix) -> Matrix:
    """The distinct elements in ascending order. See `unique_all`.

    Shapes: (count,).
    Dtypes: any.
    Gradient: g, to where each occurs first.
    Raises: CaptureError inside a capture.

    >>> oa.matrix.unique_values(oa.matrix.from_list(engine, [3, 1, 3])).tolist()
    [1, 3]
    """
    return _Groups(x, "matrix.unique_values").values()


#: Values up to which each element is compared with all of them.
_FEW = 32


def isin(a: Any, b: Any, *, invert: bool = False) -> Matrix:
    """Whether each element of a equals some element of b (`invert`: none), as bool of a's shape. NaN equals nothing.

    One of the two may be a Python number.

    Shapes: a's.
    Dtypes: any; a and b are promoted to their common dtype; the result is bool.
    Gradient: none: the result is not floating-point.
    Raises: ArgumentError when both are Python numbers; DTypeError where dtypes have no common one.

    >>> oa.matrix.isin(oa.matrix.from_list(engine, [1, 2, 3]), oa.matrix.from_list(engine, [3, 1])).tolist()
    [True, False, True]
    """
    if not isinstance(a, Matrix) and not isinstance(b, Matrix):
        raise ArgumentError("matrix.isin: neither operand is a Matrix")
    x = a if isinstance(a, Matrix) else full(b.engine, (), a, dtype=b.dtype)
    values = b if isinstance(b, Matrix) else full(x.engine, (), b, dtype=x.dtype)
    try:
        common = promote(x.dtype, values.dtype, "matrix.isin")
    except DTypeError as error:
        raise error from None
    x, values = astype(x, common), reshape(astype(values, common), (values.size,))
    if values.size <= _FEW or common.is_complex:
        hit = reshape(any(equal(reshape(x, (x.size, 1)), values), axis=-1), x.shape)
    else:
        ordered = take(values, _order(values))
        place = lower_bound(sort_key(ordered), sort_key(x))
        hit = equal(take(ordered, place), x) & (place < values.size)
    return logical_not(hit) if invert else hit


__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "isin",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
