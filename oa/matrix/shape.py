"""Views and assembly: reshape, permute, slice, broadcast, concat. Views cost nothing; they become index arithmetic or strides."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from oa._graph.node import again
from oa._graph.views import Broadcast, Permute, Reshape, Slice, Window
from oa._schema import spec as sp
from oa._schema.declare import gradient, primitive
from oa._schema.dtype import promote
from oa._schema.op import Inference, Instance
from oa._schema.spec import Spec, spec
from oa.errors import ArgumentError, AxisError, DTypeError, ShapeError
from oa.matrix.value import Matrix


def _view(x: Spec, shape: tuple[int, ...], view: Any) -> Any:
    return Inference((spec(x.dtype, shape),), (view,))


@primitive("view")
def _reshape(x: Matrix, shape: tuple[int, ...]) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    return _view(found, shape, Reshape(found.shape, shape))


@gradient(_reshape)
def _reshape_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix]:
    return (_reshape(ct, instance.ins[0].shape),)


def reshape(x: Matrix, shape: Any, *, copy: bool | None = None) -> Matrix:
    """The elements in row-major order under another shape; one extent may be -1 and is then inferred.

    Values are immutable, so `copy` changes nothing that can be seen.

    Raises ShapeError when the sizes differ.

    Shapes: any of as many elements.
    Dtypes: any.
    Gradient: g, reshaped back.

    >>> oa.matrix.reshape(oa.matrix.arange(engine, 6), (2, -1)).shape
    (2, 3)
    """
    items = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    wanted = sp.as_shape(_inferred(x, items) if -1 in items else items, "matrix.reshape")
    if math.prod(wanted) != x.size:
        raise ShapeError(
            f"matrix.reshape: shape {x.shape} has {x.size} elements, shape {wanted} has {math.prod(wanted)}"
        )
    return again(x) if wanted == x.shape else _reshape(x, wanted)


def _inferred(x: Matrix, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """`items` with the extent that x leaves in the place of its one -1."""
    known = math.prod(sp.as_shape(tuple(1 if s == -1 else s for s in items), "matrix.reshape"))
    if items.count(-1) > 1:
        raise ShapeError(f"matrix.reshape: shape {items} has more than one -1")
    if known == 0 or x.size % known:
        raise ShapeError(f"matrix.reshape: {x.size} elements of shape {x.shape} do not fit {items}")
    return tuple(x.size // known if s == -1 else s for s in items)


@primitive("view")
def _window(x: Matrix, start: int, shape: tuple[int, ...]) -> Matrix:
    """The elements of a vector from `start` on in row-major order under `shape`."""
    found: Spec = x  # type: ignore[assignment]
    return _view(found, shape, Window(start, shape))


@gradient(_window)
def _window_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix]:
    flat = reshape(ct, (ct.size,))
    return (_pad(flat, instance.ins[0].shape, (instance.attrs["start"],), (1,)),)


def window(x: Matrix, start: int, shape: tuple[int, ...]) -> Matrix:
    """`reshape(x[start : start + size], shape)` of a vector that is so long, as one operation."""
    found: Matrix = _window(x, start, shape)
    return found


@primitive("view")
def _permute(x: Matrix, axes: tuple[int, ...]) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    return _view(found, tuple(found.shape[a] for a in axes), Permute(axes))


@gradient(_permute)
def _permute_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix]:
    axes = instance.attrs["axes"]
    return (_permute(ct, tuple(axes.index(k) for k in range(len(axes)))),)


def permute_dims(x: Matrix, axes: Sequence[int]) -> Matrix:
    """Axis k of the result is axis `axes[k]` of x. Raises AxisError unless `axes` is a permutation.

    Shapes: x's extents in the order of `axes`.
    Dtypes: any.
    Gradient: g, permuted back.

    >>> oa.matrix.permute_dims(oa.matrix.zeros(engine, (2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    found = tuple(sp.normalize_axis(a, x.ndim, "matrix.permute_dims") for a in axes)
    if sorted(found) != list(range(x.ndim)):
        raise AxisError(f"matrix.permute_dims: axes {tuple(axes)} are not a permutation of {x.ndim} axes")
    return again(x) if found == tuple(range(x.ndim)) else _permute(x, found)


def transpose(x: Matrix, *axes: int) -> Matrix:
    """`transpose(x)` reverses all axes; `transpose(x, i, j)` swaps axes i and j.

    Shapes: x's extents in another order.
    Dtypes: any.
    Gradient: g, transposed back.
    Raises: ArgumentError for one axis or more than two; AxisError for an axis outside x.

    >>> oa.matrix.transpose(oa.matrix.zeros(engine, (2, 3, 4)), 0, 1).shape
    (3, 2, 4)
    """
    order = list(range(x.ndim))
    if not axes:
        return permute_dims(x, order[::-1])
    if len(axes) != 2:
        raise ArgumentError(
            f"matrix.transpose: got {len(axes)} axes, wanted none or two; see matrix.permute_dims"
        )
    i, j = (sp.normalize_axis(a, x.ndim, "matrix.transpose") for a in axes)
    order[i], order[j] = order[j], order[i]
    return permute_dims(x, order)


@primitive("view")
def _broadcast_to(x: Matrix, shape: tuple[int, ...]) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    return _view(found, shape, Broadcast(found.shape, shape))


def broadcast_to(x: Matrix, shape: Any) -> Matrix:
    """x repeated along new leading axes and axes of extent 1. Raises ShapeError where that does not give `shape`.

    Shapes: `shape`.
    Dtypes: any.
    Gradient: g, summed over what was repeated.

    >>> oa.matrix.broadcast_to(oa.matrix.ones(engine, (2, 1)), (2, 3)).shape
    (2, 3)
    """
    wanted = sp.as_shape(shape, "matrix.broadcast_to")
    if sp.broadcast([x.shape, wanted], "matrix.broadcast_to", ("x", "shape")) != wanted:
        raise ShapeError(f"matrix.broadcast_to: cannot broadcast x {x.shape} to shape {wanted}")
    return again(x) if wanted == x.shape else _broadcast_to(x, wanted)


@primitive("view")
def _slice(x: Matrix, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    shape = tuple(len(range(a, b, c)) for a, b, c in zip(starts, stops, steps))
    return _view(found, shape, Slice(starts, steps))


@gradient(_slice)
def _slice_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix]:
    """The cotangent put back in its place, zero elsewhere."""
    starts, steps = list(instance.attrs["starts"]), list(instance.attrs["steps"])
    for axis, step in enumerate(steps):
        if step < 0:
            ct = flip(ct, axis)
            starts[axis] += (ct.shape[axis] - 1) * step
            steps[axis] = -step
    return (_pad(ct, instance.ins[0].shape, tuple(starts), tuple(steps)),)


@primitive("pad")
def _pad(x: Matrix, shape: tuple[int, ...], starts: tuple[int, ...], steps: tuple[int, ...]) -> Matrix:
    """Zeros of `shape` with x at `starts + steps * index`; steps are positive."""
    found: Spec = x  # type: ignore[assignment]
    return Inference((spec(found.dtype, shape),), (starts, steps))  # type: ignore[return-value]


@gradient(_pad)
def _pad_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix]:
    starts, steps = instance.attrs["starts"], instance.attrs["steps"]
    stops = tuple(a + (e - 1) * c + 1 if e else a for a, c, e in zip(starts, steps, instance.ins[0].shape))
    return (_slice(ct, starts, stops, steps),)


def slice(x: Matrix, axis: int, start: int | None, stop: int | None, step: int | None = 1) -> Matrix:
    """x[start:stop:step] along one axis, with Python's meaning for negative and missing bounds.

    Shapes: x's, shorter along `axis`.
    Dtypes: any.
    Gradient: g in its place, 0 elsewhere.
    Raises: ArgumentError for a step of 0; AxisError for an axis outside x.

    >>> oa.matrix.slice(oa.matrix.from_list(engine, [1, 2, 3, 4]), 0, 1, None, 2).tolist()
    [2, 4]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.slice")
    bounds = [builtins.slice(None)] * x.ndim
    bounds[at] = builtins.slice(start, stop, step)
    return slice_all(x, bounds)


def slice_all(x: Matrix, bounds: Sequence[Any]) -> Matrix:
    """x under one Python slice per axis."""
    found = []
    for bound, extent in zip(bounds, x.shape):
        if bound.step == 0:
            raise ArgumentError("slice step cannot be 0")
        found.append(bound.indices(extent))
    if all(f == (0, e, 1) for f, e in zip(found, x.shape)):
        return again(x)
    starts, stops, steps = (tuple(f[k] for f in found) for k in range(3))
    return _slice(x, starts, stops, steps)


def flip(x: Matrix, axis: int | Sequence[int] | None = None) -> Matrix:
    """The order of elements reversed along the axes (default all).

    Shapes: any; the result has it too.
    Dtypes: any.
    Gradient: g, reversed back.
    Raises: AxisError for an axis outside x or named twice.

    >>> oa.matrix.flip(oa.matrix.from_list(engine, [1, 2, 3])).tolist()
    [3, 2, 1]
    """
    axes = sp.normalize_axes(axis, x.ndim, "matrix.flip")
    bounds = [builtins.slice(None, None, -1) if k in axes else builtins.slice(None) for k in range(x.ndim)]
    return slice_all(x, bounds)


def expand_dims(x: Matrix, axis: int | Sequence[int] = 0) -> Matrix:
    """x with a new axis of extent 1 at `axis` of the result, or at each of several.

    Shapes: x's with extents of 1 put in.
    Dtypes: any.
    Gradient: g, reshaped back.
    Raises: AxisError for a place outside the result or named twice.

    >>> oa.matrix.expand_dims(oa.matrix.zeros(engine, (2, 3)), 1).shape
    (2, 1, 3)
    """
    count = 1 if hasattr(axis, "__index__") else len(axis)
    axes = sp.normalize_axes(axis, x.ndim + count, "matrix.expand_dims")
    extents = iter(x.shape)
    return reshape(x, tuple(1 if k in axes else next(extents) for k in range(x.ndim + count)))


def squeeze(x: Matrix, axis: int | Sequence[int] | None = None) -> Matrix:
    """x without the axes (default all of extent 1).

    Shapes: x's without extents of 1.
    Dtypes: any.
    Gradient: g, reshaped back.
    Raises: ShapeError when a named axis has another extent; AxisError for an axis outside x or named twice.

    >>> oa.matrix.squeeze(oa.matrix.zeros(engine, (2, 1, 3)), 1).shape
    (2, 3)
    """
    if axis is None:
        axes = tuple(k for k, e in enumerate(x.shape) if e == 1)
    else:
        axes = sp.normalize_axes(axis, x.ndim, "matrix.squeeze")
        for a in axes:
            if x.shape[a] != 1:
                raise ShapeError(f"matrix.squeeze: axis {a} has extent {x.shape[a]}, wanted 1")
    return reshape(x, tuple(e for k, e in enumerate(x.shape) if k not in axes))


@primitive("concat")
def _concat(*parts: Matrix, axis: int) -> Matrix:
    specs: tuple[Spec, ...] = parts  # type: ignore[assignment]
    shape = list(specs[0].shape)
    shape[axis] = sum(s.shape[axis] for s in specs)
    return Inference((spec(specs[0].dtype, tuple(shape)),), (axis,))  # type: ignore[return-value]


@gradient(_concat)
def _concat_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix, ...]:
    axis = instance.attrs["axis"]
    found, start = [], 0
    for part in instance.ins:
        stop = start + part.shape[axis]
        found.append(slice(ct, axis, start, stop))
        start = stop
    return tuple(found)


def concat(parts: Sequence[Matrix], axis: int | None = 0) -> Matrix:
    """The parts one after the other along `axis`; None flattens them first.

    Raises ShapeError when other extents differ, DTypeError when the dtypes have no common one.

    Shapes: equal but along `axis`, where extents add up.
    Dtypes: any; parts are promoted to their common dtype.
    Gradient: to each part its piece of g.

    >>> a = oa.matrix.ones(engine, (1, 2))
    >>> oa.matrix.concat([a, a], axis=0).shape
    (2, 2)
    """
    parts = list(parts)
    if not parts or not all(isinstance(p, Matrix) for p in parts):
        raise ArgumentError("matrix.concat: wanted a sequence of at least one Matrix")
    if axis is None:
        parts, axis = [reshape(p, (p.size,)) for p in parts], 0
    at = sp.normalize_axis(axis, parts[0].ndim, "matrix.concat")
    first = parts[0]
    for k, p in enumerate(parts[1:], 1):
        if p.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(p.shape, first.shape)) if i != at
        ):
            raise ShapeError(
                f"matrix.concat: part {k} has shape {p.shape}, part 0 {first.shape};"
                f" all axes but {at} must agree"
            )
    parts = _promoted(parts)
    return again(parts[0]) if len(parts) == 1 else _concat(*parts, axis=at)


def _promoted(parts: list[Matrix]) -> list[Matrix]:
    dtype = parts[0].dtype
    try:
        for p in parts[1:]:
            dtype = promote(dtype, p.dtype, "matrix.concat")
    except DTypeError as error:
        raise error from None
    return [p if p.dtype is dtype else p.astype(dtype) for p in parts]


def stack(parts: Sequence[Matrix], axis: int = 0) -> Matrix:
    """The parts side by side along a new axis.

    Shapes: equal; the result has one more axis.
    Dtypes: any; parts are promoted to their common dtype.
    Gradient: to each part its slice of g.
    Raises: ShapeError when shapes differ; DTypeError when the dtypes have no common one; AxisError for a place outside
    the result.

    >>> oa.matrix.stack([oa.matrix.ones(engine, 2), oa.matrix.zeros(engine, 2)], axis=1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    parts = list(parts)
    if not parts or not all(isinstance(p, Matrix) for p in parts):
        raise ArgumentError("matrix.stack: wanted a sequence of at least one Matrix")
    for k, p in enumerate(parts):
        if p.shape != parts[0].shape:
            raise ShapeError(
                f"matrix.stack: part {k} has shape {p.shape}, part 0 {parts[0].shape}; all shapes must agree"
            )
    return concat([expand_dims(p, axis) for p in parts], axis=axis)
