"""`x[key]` and `x[key] = value`, with NumPy's meaning of every kind of key.

Ints, slices, `...` and None are views. Integer values gather, bool values choose; several index together, broadcast. An integer
value with an index outside its axis reads NaN (0 for integer dtypes) and writes nothing; a Python int there is an AxisError.
"""

from __future__ import annotations

import builtins
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oa._graph.node import again
from oa._schema.dtype import WEAK_KINDS, bool_, common, int32, weak_kind
from oa._schema.op import Number
from oa.errors import ArgumentError, AxisError, DTypeError, ShapeError
from oa.matrix.create import arange, from_numpy, full, ones
from oa.matrix.elementwise import astype, equal, where
from oa.matrix.indexing import _indices, take
from oa.matrix.interop import asarray
from oa.matrix.reduce import max
from oa.matrix.scan import cumulative_sum
from oa.matrix.search import counted, flat_nonzero, lower_bound, sort_key
from oa.matrix.shape import _pad, broadcast_to, flip, permute_dims, reshape, slice_all
from oa.matrix.sorting import order_of
from oa.matrix.surface import shown
from oa.matrix.value import Matrix

#: Comparisons up to which each place of a value looks through all that is written to it.
_COMPARISONS = 1 << 24


@dataclass(frozen=True)
class _Array:
    """An index that is a value: int32 indices, or a mask over `span` axes made into positions along them as one."""

    indices: Matrix
    span: int


@dataclass
class _Key:
    """A key in terms of the axes of its value: one slice an axis, and what becomes of each.

    `axes` describes the result of the slicing: "keep", "drop" (an int was there), "new" (None), or the array that indexes there.
    """

    bounds: list[builtins.slice]
    axes: list[Any]
    arrays: int  #: how many arrays there are
    adjacent: bool  #: whether arrays and ints stand next to each other, so that their axes stay in place


def _items(x: Matrix, key: Any) -> list[Any]:
    """The parts of a key, arrays made into values, the ellipsis filled in."""
    items = [_item(x, part) for part in (key if isinstance(key, tuple) else (key,))]
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError("index: a key may hold one ellipsis (...) only")
    used = builtins.sum(_span(item) for item in items)
    if used > x.ndim:
        raise AxisError(f"index: {used} indices for a value of rank {x.ndim}")
    fill = [builtins.slice(None)] * (x.ndim - used)
    at = dots[0] if dots else len(items)
    return items[:at] + fill + items[at + len(dots) :]


def _item(x: Matrix, part: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, (builtins.slice, Matrix)):
        return part
    if isinstance(part, (bool, np.bool_)):
        return full(x.engine, (), bool(part))
    if isinstance(part, (list, np.ndarray)) and not (isinstance(part, np.ndarray) and part.shape == ()):
        array = np.asarray(part)
        if array.size == 0 and not isinstance(part, np.ndarray):
            array = array.astype(np.int32)
        if array.dtype.kind not in "biu":
            raise DTypeError(f"index: an array of {array.dtype}; wanted integers or bool")
        return from_numpy(x.engine, array, dtype=None if array.dtype.kind == "b" else int32)
    if hasattr(part, "__index__"):
        return int(part.__index__())
    raise ArgumentError(
        f"index: {type(part).__name__} is no index; wanted ints, slices, ..., None, or integer or bool values"
    )


def _span(item: Any) -> int:
    """How many axes a part of a key takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, Matrix) and item.dtype is bool_ else 1


def _parse(x: Matrix, key: Any) -> _Key:
    bounds: list[builtins.slice] = []
    axes: list[Any] = []
    kinds: list[str] = []
    arrays = 0
    for item in _items(x, key):
        axis = len(bounds)
        if item is None:
            axes.append("new")
            kinds.append("basic")
        elif isinstance(item, builtins.slice):
            bounds.append(item)
            axes.append("keep")
            kinds.append("basic")
        elif isinstance(item, Matrix):
            span = _span(item)
            bounds.extend([builtins.slice(None)] * span)
            axes.append(_Array(_positions(x, item, axis), span))
            kinds.append("array")
            arrays += 1
        else:
            extent = x.shape[axis]
            if not -extent <= item < extent:
                raise AxisError(f"index {item} is out of range for axis {axis} with extent {extent}")
            bounds.append(builtins.slice(item % extent, item % extent + 1))
            axes.append("drop")
            kinds.append("array")
    runs = "".join(k[0] for k in kinds).strip("b")
    return _Key(bounds, axes, arrays, "b" not in runs)


def _positions(x: Matrix, item: Matrix, axis: int) -> Matrix:
    if item.dtype is not bool_:
        return _indices(x, item, "index")
    if item.shape != x.shape[axis : axis + item.ndim]:
        raise AxisError(
            f"index: a mask of shape {item.shape} on axes {axis} to {axis + item.ndim - 1} of a value of shape {x.shape}"
        )
    return flat_nonzero(item, None, 0, "index by a bool value")


def get(x: Matrix, key: Any) -> Matrix:
    """x[key]."""
    parsed = _parse(x, key)
    sliced = slice_all(x, parsed.bounds)
    if not parsed.arrays:
        found = reshape(sliced, _shape(sliced, parsed.axes))
        return again(x) if found is x else found
    return _gathered(sliced, parsed)


def _shape(sliced: Matrix, axes: list[Any]) -> tuple[int, ...]:
    """The shape after ints and None, for a key without arrays."""
    extents = iter(sliced.shape)
    shape = []
    for entry in axes:
        if entry == "new":
            shape.append(1)
        else:
            extent = next(extents)
            if entry == "keep":
                shape.append(extent)
    return tuple(shape)


def _gathered(sliced: Matrix, key: _Key) -> Matrix:
    """The axes that arrays index are merged into one, which takes the place of the first, or comes first when they are apart."""
    shape: list[int] = []  # of the value without dropped axes, masked axes merged, new axes put in
    places: list[tuple[int, _Array]] = []
    first: int | None = None
    extents = list(sliced.shape)
    for entry in key.axes:
        if isinstance(entry, _Array):
            first = len(shape) if first is None else first
            places.append((len(shape), entry))
            merged, extents = extents[: entry.span], extents[entry.span :]
            shape.append(math.prod(merged))
        elif entry == "new":
            shape.append(1)
        else:
            extent = extents.pop(0)
            if entry == "keep":
                shape.append(extent)
            elif first is None:
                first = len(shape)
    at = (first or 0) if key.adjacent else 0
    view = reshape(sliced, tuple(shape))
    indexed = [axis for axis, _ in places]
    rest = [k for k in range(len(shape)) if k not in indexed]
    view = permute_dims(view, rest[:at] + indexed + rest[at:])
    lengths = [shape[axis] for axis in indexed]
    indices = _joined([entry.indices for _, entry in places], lengths)
    flat = reshape(view, (*view.shape[:at], math.prod(lengths), *view.shape[at + len(indexed) :]))
    return take(flat, indices, axis=at)


def _joined(indices: list[Matrix], lengths: list[int]) -> Matrix:
    """Positions along merged axes from an index along each; an index outside its axis gives a position outside them all."""
    if len(indices) == 1:
        return indices[0]
    total: Matrix | None = None
    inside: Matrix | None = None
    for index, extent in zip(indices, lengths):
        wrapped = where(index < 0, index + extent, index)
        good = (wrapped >= 0) & (wrapped < extent)
        total = wrapped if total is None else total * extent + wrapped
        inside = good if inside is None else inside & good
    assert total is not None and inside is not None
    return where(inside, total, math.prod(lengths))


# -- assignment


def put(x: Matrix, key: Any, value: Any) -> Matrix:
    """x with `value`, broadcast, at `key`: what `x[key] = value` puts in the place of x. Of equal places the last one counts.

    The value's dtype must promote to x's. The gradient reaches x outside the key and the value inside it.

    Shapes: x's.
    Dtypes: any; the value's must promote to it.
    Gradient: g outside the key to x, inside it to the value.
    Raises: AxisError for an index outside x; ShapeError where the value does not broadcast; DTypeError for a value that
    does not promote to x's dtype.

    >>> oa.matrix.put(oa.matrix.from_list(engine, [1, 2, 3]), 1, 9).tolist()
    [1, 9, 3]
    """
    items = _items(x, key)
    number = _written(x, value)
    if builtins.all(not isinstance(item, Matrix) for item in items):
        return _put_region(x, _parse(x, tuple(items)), number)
    masks = [item for item in items if isinstance(item, Matrix)]
    whole = builtins.all(isinstance(i, Matrix) or i == builtins.slice(None) for i in items)
    if len(masks) == 1 and masks[0].dtype is bool_ and whole and items[0] is masks[0]:
        return _put_masked(x, masks[0], number)
    if len(masks) == 1 and whole and masks[0].dtype is not bool_:
        axis = next(k for k, item in enumerate(items) if item is masks[0])
        return _put_slices(x, _indices(x, masks[0], "index"), axis, number)
    # Which element of x each element of x[key] is; what lies outside x reads 0 there and becomes -1.
    places = get(reshape(arange(x.engine, 1, x.size + 1), x.shape), tuple(items)) - 1
    rows = reshape(_spread(number, places.shape), (places.size, 1))
    flat = _put_rows(reshape(x, (x.size, 1)), reshape(places, (places.size,)), rows)
    return reshape(flat, x.shape)


def _written(x: Matrix, value: Any) -> Matrix:
    """The value to write, in x's dtype."""
    if not isinstance(value, Matrix) and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, Number):
        own = "i" if x.dtype.kind == "u" else x.dtype.kind
        if WEAK_KINDS.index(weak_kind(value)) > WEAK_KINDS.index(own):
            raise DTypeError(f"assignment of {value!r} to a {x.dtype.name} value; cast the value first")
        return full(x.engine, (), value, dtype=x.dtype)
    if not isinstance(value, Matrix) and np.asarray(value).dtype.kind not in "biufc":
        raise DTypeError(
            f"assignment: the value is {shown(value)}; wanted a Matrix, a Python number or an array of numbers"
        )
    found = asarray(value, device=x.engine)
    if found.dtype is not x.dtype and common(found.dtype, x.dtype) is not x.dtype:
        raise DTypeError(
            f"assignment of {found.dtype.name} to a {x.dtype.name} value; cast it: value.astype(oa.{x.dtype.name})"
        )
    return astype(found, x.dtype)


def _spread(value: Matrix, shape: tuple[int, ...]) -> Matrix:
    """`value` broadcast to `shape`, leading axes of extent 1 dropped as NumPy does."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = reshape(value, value.shape[1:])
    try:
        return broadcast_to(value, shape)
    except ShapeError:
        raise ShapeError(f"assignment of shape {value.shape} to a place of shape {shape}") from None


def _put_region(x: Matrix, key: _Key, value: Matrix) -> Matrix:
    region = [bound.indices(extent) for bound, extent in zip(key.bounds, x.shape)]
    lengths = tuple(len(range(*r)) for r in region)
    made = reshape(_spread(value, _shape(slice_all(x, key.bounds), key.axes)), lengths)
    if 0 in lengths:
        return again(x)
    if lengths == x.shape and builtins.all(step == 1 for _, _, step in region):
        return again(made)
    backwards = tuple(k for k, (_, _, step) in enumerate(region) if step < 0)
    made = flip(made, axis=backwards) if backwards else made
    starts = tuple(r[0] if r[2] > 0 else r[0] + (n - 1) * r[2] for r, n in zip(region, lengths))
    steps = tuple(abs(r[2]) for r in region)
    inside = _pad(ones(x.engine, lengths, dtype=bool_), x.shape, starts, steps)
    return where(inside, _pad(made, x.shape, starts, steps), x)


def _put_masked(x: Matrix, mask: Matrix, value: Matrix) -> Matrix:
    if mask.shape != x.shape[: mask.ndim]:
        raise AxisError(f"index: a mask of shape {mask.shape} on a value of shape {x.shape}")
    rest = x.shape[mask.ndim :]
    inside = reshape(mask, (*mask.shape, *(1 for _ in rest)))
    while value.ndim > len(rest) and value.shape[0] == 1:
        value = reshape(value, value.shape[1:])
    if value.ndim <= len(rest):
        return where(inside, _spread(value, rest), x)
    running = cumulative_sum(astype(reshape(mask, (mask.size,)), int32)) if mask.size else None
    total = 0 if running is None else counted(running[-1], "assignment by a bool value", "matrix.where")
    rows = _spread(value, (total, *rest))
    if running is None or total == 0:
        return again(x)
    chosen = take(rows, reshape(running, mask.shape) - 1, axis=0)
    return where(inside, chosen, x)


def _put_slices(x: Matrix, indices: Matrix, axis: int, value: Matrix) -> Matrix:
    """x[:, indices] = value: whole slices along one axis."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    rows = _spread(value, (*before, *indices.shape, *after))
    rank = indices.ndim
    moved = permute_dims(rows, [*range(axis, axis + rank), *range(axis), *range(axis + rank, rows.ndim)])
    width = math.prod(before) * math.prod(after)
    flat = permute_dims(x, [axis, *(k for k in range(x.ndim) if k != axis)])
    index = reshape(indices, (indices.size,))
    index = where(index < 0, index + x.shape[axis], index)
    made = _put_rows(reshape(flat, (x.shape[axis], width)), index, reshape(moved, (indices.size, width)))
    back = [*range(1, axis + 1), 0, *range(axis + 1, x.ndim)]
    return permute_dims(reshape(made, flat.shape), back)


def _put_rows(x: Matrix, places: Matrix, rows: Matrix) -> Matrix:
    """x (n, width) with row k of `rows` at row `places[k]`; of equal places the last, none where a place is outside."""
    if places.size == 0 or x.size == 0:
        return again(x)
    count = x.shape[0]
    here = arange(x.engine, count)
    if count * places.size <= _COMPARISONS:
        hit = equal(reshape(here, (count, 1)), reshape(places, (1, places.size)))
        source = max(where(hit, reshape(arange(x.engine, places.size), (1, places.size)), -1), axis=1)
    else:
        keys = sort_key(places)
        order = reshape(order_of(reshape(keys, (1, places.size))), (places.size,))
        ordered = take(places, order)
        last = lower_bound(sort_key(ordered), sort_key(here), right=True) - 1
        source = where((last >= 0) & equal(take(ordered, last), here), take(order, last), -1)
    written = take(rows, where(source < 0, 0, source), axis=0)
    return where(reshape(source >= 0, (count, 1)), written, x)


__all__ = ["get", "put"]
