"""Rearranging: moving, repeating, rolling and padding axes. Views where strides can say it, gathers where they cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

from oa._graph.node import again
from oa._schema import spec as sp
from oa._schema.dtype import int32, uint32
from oa.errors import ArgumentError, AxisError, ShapeError
from oa.matrix.create import arange, from_list, ones
from oa.matrix.elementwise import abs, astype, clip, remainder, where
from oa.matrix.indexing import take
from oa.matrix.scan import cumulative_sum
from oa.matrix.search import counted, lower_bound
from oa.matrix.shape import _pad, broadcast_to, concat, permute_dims, reshape, slice, squeeze
from oa.matrix.value import Matrix

_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which `shapes` broadcast. Raises ShapeError, naming axis and extents, where there is none.

    Shapes: the common one, as a tuple.
    Dtypes: none taken: it takes shapes.
    Gradient: none: there is no operand.

    >>> oa.matrix.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    name = "matrix.broadcast_shapes"
    try:
        return sp.broadcast([sp.as_shape(s, name) for s in shapes], name)
    except ShapeError as error:
        raise error from None


def broadcast_arrays(*arrays: Matrix) -> tuple[Matrix, ...]:
    """All values under their common shape, as views.

    Shapes: all under their common shape.
    Dtypes: any.
    Gradient: g, summed over what was repeated.
    Raises: ShapeError where shapes do not broadcast.

    >>> [x.shape for x in oa.matrix.broadcast_arrays(oa.matrix.ones(engine, (2, 1)), oa.matrix.ones(engine, 3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return tuple(broadcast_to(x, shape) for x in arrays)


def moveaxis(x: Matrix, source: int | Sequence[int], destination: int | Sequence[int]) -> Matrix:
    """Axes `source` moved to places `destination`; the others keep their order.

    Shapes: x's extents in another order.
    Dtypes: any.
    Gradient: g, moved back.
    Raises: AxisError for an axis outside x or named twice; ArgumentError for unequal numbers of axes.

    >>> oa.matrix.moveaxis(oa.matrix.ones(engine, (2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    start = [source] if hasattr(source, "__index__") else list(source)
    stop = [destination] if hasattr(destination, "__index__") else list(destination)
    found = [[sp.normalize_axis(a, x.ndim, "matrix.moveaxis") for a in axes] for axes in (start, stop)]
    if len(found[0]) != len(found[1]) or any(len(set(axes)) != len(axes) for axes in found):
        raise AxisError(
            f"matrix.moveaxis: source {source} and destination {destination} must be as many distinct axes"
        )
    order = [k for k in range(x.ndim) if k not in found[0]]
    for to, axis in sorted(zip(found[1], found[0])):
        order.insert(to, axis)
    return permute_dims(x, order)


def split(x: Matrix, parts: int | Sequence[int], *, axis: int = 0) -> tuple[Matrix, ...]:
    """x cut along `axis` into so many equal parts, or before each of the places `parts`, as views; NumPy's `split`.

    Shapes: x's, shorter along `axis`.
    Dtypes: any.
    Gradient: each part's g in its place.
    Raises: ShapeError where x does not fall into equal parts; AxisError for an axis outside x.

    >>> [part.tolist() for part in oa.matrix.split(oa.matrix.arange(engine, 5), [2, 3])]
    [[0, 1], [2], [3, 4]]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.split")
    if not x.ndim:
        raise AxisError("matrix.split: a value of rank 0 has no axis")
    extent = x.shape[at]
    if hasattr(parts, "__index__"):
        count = int(parts.__index__())
        if count < 1 or extent % count:
            raise ShapeError(
                f"matrix.split: axis {at} with extent {extent} does not fall into {count} equal parts"
            )
        places = list(range(0, extent, extent // count)) if extent else [0] * count
    else:
        places = [0, *parts]
    return tuple(slice(x, at, a, b) for a, b in zip(places, [*places[1:], None]))


def unstack(x: Matrix, *, axis: int = 0) -> tuple[Matrix, ...]:
    """The slices of x along `axis`, without it, as views; the inverse of `stack`.

    Shapes: x's without `axis`, of each.
    Dtypes: any.
    Gradient: each slice's g in its place.
    Raises: AxisError for an axis outside x.

    >>> [row.tolist() for row in oa.matrix.unstack(oa.matrix.from_list(engine, [[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.unstack")
    if not x.ndim:
        raise AxisError("matrix.unstack: a value of rank 0 has no axis")
    return tuple(squeeze(slice(x, at, k, k + 1), at) for k in range(x.shape[at]))


def roll(x: Matrix, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Matrix:
    """Elements moved on by `shift` places, those past the end coming in at the start; None rolls the flattened value.

    Shapes: any; the result has it too.
    Dtypes: any.
    Gradient: g, rolled back.
    Raises: AxisError for an axis outside x or named twice; ArgumentError for unequal numbers of shifts and axes.

    >>> oa.matrix.roll(oa.matrix.arange(engine, 4), 1).tolist()
    [3, 0, 1, 2]
    """
    if axis is None:
        if not hasattr(shift, "__index__"):
            raise ArgumentError("matrix.roll: several shifts need as many axes")
        return reshape(roll(reshape(x, (x.size,)), shift, axis=0), x.shape)
    axes = [axis] if hasattr(axis, "__index__") else list(axis)
    shifts = [shift] * len(axes) if hasattr(shift, "__index__") else list(shift)
    if len(shifts) != len(axes):
        raise ArgumentError(f"matrix.roll: {len(shifts)} shifts for {len(axes)} axes")
    x = again(x)
    for by, at in zip(shifts, axes):
        k = sp.normalize_axis(at, x.ndim, "matrix.roll")
        extent = x.shape[k]
        start = -int(by) % extent if extent else 0
        if start:
            x = concat([slice(x, k, start, None), slice(x, k, 0, start)], axis=k)
    return x


def tile(x: Matrix, repetitions: Sequence[int]) -> Matrix:
    """x laid `repetitions[k]` times along axis k; missing axes and repetitions count as 1, at the front.

    Shapes: each extent times its repetition.
    Dtypes: any.
    Gradient: g of the copies, summed.
    Raises: ArgumentError for a negative repetition.

    >>> oa.matrix.tile(oa.matrix.arange(engine, 2), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    counts = list(sp.as_shape(repetitions, "matrix.tile"))
    rank = max(len(counts), x.ndim)
    counts = [1] * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    made = reshape(x, shape)
    for k, (count, extent) in enumerate(zip(counts, shape)):
        if count != 1:
            wide = (*made.shape[:k], count * extent, *made.shape[k + 1 :])
            made = _repeated(made, k, count, outside=True, shape=wide)
    return made


def _repeated(x: Matrix, axis: int, count: int, *, outside: bool, shape: tuple[int, ...]) -> Matrix:
    """Axis `axis` `count` times as a whole, or each element of it `count` times."""
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    extent = x.shape[axis]
    if outside:
        found = broadcast_to(reshape(x, (before, 1, extent, after)), (before, count, extent, after))
    else:
        found = broadcast_to(reshape(x, (before, extent, 1, after)), (before, extent, count, after))
    return reshape(found, shape)


def pad(
    x: Matrix,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: bool | int | float = 0,
) -> Matrix:
    """x with more elements before and after it along each axis; NumPy's `pad`.

    Args:
        pad_width: n, (before, after), or one such pair an axis.
        mode: "constant" fills with `constant_values`, "edge" repeats the outermost element, "reflect" mirrors without it,
            "symmetric" mirrors with it, "wrap" continues at the other end.

    Raises ArgumentError for an unknown mode or a negative width, ShapeError where there is nothing to repeat.

    Shapes: x's, longer by what is added.
    Dtypes: any.
    Gradient: g of each element and of its copies, summed.

    >>> oa.matrix.pad(oa.matrix.arange(engine, 3), (1, 2), "reflect").tolist()
    [1, 0, 1, 2, 1, 0]
    """
    widths = _widths(pad_width, x.ndim)
    if mode not in _MODES:
        raise ArgumentError(f"matrix.pad: mode {mode!r} is none of {', '.join(_MODES)}")
    if mode == "constant":
        return _filled(x, widths, constant_values)
    x = again(x)
    for k, (before, after) in enumerate(widths):
        if before or after:
            if x.shape[k] == 0:
                raise ShapeError(f"matrix.pad: axis {k} of shape {x.shape} has nothing to repeat")
            x = take(x, _sources(x, k, before, after, mode), axis=k)
    return x


def _widths(width: Any, rank: int) -> list[tuple[int, int]]:
    try:
        items: list[Any] = [width] if hasattr(width, "__index__") else list(width)
        if len(items) == 2 and hasattr(items[0], "__index__"):
            items = [tuple(items)]
        found = [(index(p),) * 2 if hasattr(p, "__index__") else tuple(index(v) for v in p) for p in items]
    except TypeError:
        found = [()] * 2
    if len(found) == 1:
        found = found * rank
    if len(found) != rank or any(len(p) != 2 or min(p) < 0 for p in found):
        raise ArgumentError(
            f"matrix.pad: pad_width {width!r} must be n, (before, after) or {rank} such pairs, none negative"
        )
    return [(a, b) for a, b in found]


def _filled(x: Matrix, widths: list[tuple[int, int]], value: bool | int | float) -> Matrix:
    shape = tuple(e + a + b for e, (a, b) in zip(x.shape, widths))
    if shape == x.shape:
        return again(x)
    starts, steps = tuple(a for a, _ in widths), (1,) * x.ndim
    padded = _pad(x, shape, starts, steps)
    if value == 0 and math.copysign(1.0, value) > 0:
        return padded
    inside = _pad(ones(x.engine, x.shape, dtype="bool"), shape, starts, steps)
    return where(inside, padded, value)


def _sources(x: Matrix, axis: int, before: int, after: int, mode: str) -> Matrix:
    """Which element each place of the padded axis shows."""
    extent = x.shape[axis]
    place = arange(x.engine, -before, extent + after)
    if mode == "edge":
        return clip(place, 0, extent - 1)
    if mode == "wrap":
        return remainder(place, extent)
    period = 2 * extent - 2 if mode == "reflect" else 2 * extent
    if period == 0:
        return place * 0
    phase = remainder(place, period)
    last = period if mode == "reflect" else period - 1
    return where(phase < extent, phase, abs(last - phase))


def repeat(
    x: Matrix, repeats: int | Sequence[int] | Matrix, *, axis: int | None = None, size: int | None = None
) -> Matrix:
    """Each element `repeats` times along `axis` (None: of the flattened value), or the k-th element `repeats[k]` times.

    A count for all gives a view. With a count each the extent is read from the device; inside a capture give it as `size`.

    Raises ArgumentError for a negative count, ShapeError when there is not one count for each element.

    Shapes: x's, longer along `axis`.
    Dtypes: any.
    Gradient: g of the copies, summed.

    >>> oa.matrix.repeat(oa.matrix.from_list(engine, [7, 8]), oa.matrix.from_list(engine, [1, 2])).tolist()
    [7, 8, 8]
    """
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    at = sp.normalize_axis(axis, x.ndim, "matrix.repeat")
    if hasattr(repeats, "__index__") and not isinstance(repeats, Matrix):
        count = int(repeats)
        if count < 0:
            raise ArgumentError(f"matrix.repeat: repeats is {count}; wanted 0 or more")
        if size not in (None, x.shape[at] * count):
            raise ArgumentError(
                f"matrix.repeat: size is {size!r}; {count} of each give {x.shape[at] * count}, leave it out"
            )
        shape = (*x.shape[:at], x.shape[at] * count, *x.shape[at + 1 :])
        return _repeated(x, at, count, outside=False, shape=shape)
    counts = repeats if isinstance(repeats, Matrix) else from_list(x.engine, list(repeats), dtype=int32)
    if counts.ndim > 1 or counts.size not in (1, x.shape[at]):
        raise ShapeError(f"matrix.repeat: repeats {counts.shape} for {x.shape[at]} elements along axis {at}")
    ends = cumulative_sum(broadcast_to(astype(counts, int32), (x.shape[at],)))
    if size is None:
        size = counted(ends[-1], "matrix.repeat", "size=") if x.shape[at] else 0
    sources = lower_bound(astype(ends, uint32), arange(x.engine, size, dtype=uint32), right=True)
    return take(x, sources, axis=at)


__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "moveaxis",
    "pad",
    "repeat",
    "roll",
    "split",
    "tile",
    "unstack",
]
