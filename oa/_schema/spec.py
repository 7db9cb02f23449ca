"""The static description of a value, dtype and shape, and the shape rules that every operation shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from oa._schema.dtype import DType
from oa._schema.interning import Interned
from oa.errors import ArgumentError, AxisError, ShapeError

MAX_RANK = 8
MAX_EXTENT = 2**63 - 1
Shape = tuple[int, ...]
_INTS = frozenset({int})


class Spec:
    """Dtype and shape of a value. Interned: equal specs are one object, so identity decides and hashing is free."""

    __slots__ = ("__weakref__", "dtype", "id", "nbytes", "shape", "size")
    dtype: DType
    shape: Shape
    size: int
    nbytes: int
    id: int

    def __repr__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


_SPECS: Interned[Spec] = Interned()
_lookup = _SPECS.lookup


def spec(dtype: DType, shape: Shape) -> Spec:
    """The one `Spec` of this dtype and shape (a tuple of non-negative ints, rank at most 8)."""
    entry = _lookup((dtype, shape))
    found = None if entry is None else entry()
    if found is None:
        if len(shape) > MAX_RANK:
            raise ShapeError(f"a value of rank {len(shape)} is not supported; the highest rank is {MAX_RANK}")
        found = Spec()
        found.dtype, found.shape, found.size = dtype, shape, math.prod(shape)
        found.nbytes = found.size * dtype.itemsize
        found.id = _SPECS.add((dtype, shape), found)
    return found


def as_shape(value: Any, operation: str) -> Shape:
    """A shape given as an int or a sequence of ints, checked."""
    plain = type(value) is tuple and len(value) <= MAX_RANK and _INTS.issuperset(map(type, value))
    if plain and min(value, default=0) >= 0 and max(value, default=0) <= MAX_EXTENT:
        checked: Shape = value
        return checked
    items: Iterable[Any] = (value,) if isinstance(value, int) or hasattr(value, "__index__") else value
    try:
        shape = tuple(int(v.__index__()) for v in items)
    except (TypeError, AttributeError):
        raise ShapeError(f"{operation}: shape {value!r} must be an int or a sequence of ints") from None
    if any(v < 0 for v in shape):
        raise ShapeError(f"{operation}: shape {shape} has a negative extent; wanted extents >= 0")
    if any(v > MAX_EXTENT for v in shape):
        raise ShapeError(f"{operation}: shape {shape} has an extent above {MAX_EXTENT}, the largest")
    if len(shape) > MAX_RANK:
        raise ShapeError(f"{operation}: shape {shape} has rank {len(shape)}; the highest rank is {MAX_RANK}")
    return shape


def broadcast(shapes: Sequence[Shape], operation: str, names: Sequence[str] = ()) -> Shape:
    """The common shape of `shapes` by NumPy's rule; the error names the operand, the axis and both extents."""
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    source = [0] * rank
    for which, shape in enumerate(shapes):
        for back in range(1, len(shape) + 1):
            have, extent = out[-back], shape[-back]
            if have == extent or extent == 1:
                continue
            if have != 1:
                first = names[source[-back]] if names else f"operand {source[-back]}"
                second = names[which] if names else f"operand {which}"
                raise ShapeError(
                    f"{operation}: cannot broadcast {second} {shape} to {first} {shapes[source[-back]]}:"
                    f" axis {-back} is {extent}, wanted {have} or 1"
                )
            out[-back], source[-back] = extent, which
    return tuple(out)


def normalize_axis(axis: Any, rank: int, operation: str) -> int:
    """`axis` counted from the front; AxisError when it lies outside [-rank, rank)."""
    if type(axis) is int and -rank <= axis < rank:
        return axis if axis >= 0 else axis + rank
    try:
        index = int(axis.__index__())
    except (TypeError, AttributeError):
        raise ArgumentError(f"{operation}: axis {axis!r} must be an int") from None
    if not -rank <= index < rank:
        wanted = f"{-rank} to {rank - 1}" if rank else "none: the value has rank 0"
        raise AxisError(f"{operation}: axis {index} is out of range for rank {rank}; wanted {wanted}")
    return index % rank if rank else 0


def normalize_axes(axis: Any, rank: int, operation: str) -> tuple[int, ...]:
    """Sorted distinct axes from None (all), an int or a sequence; a repeated axis is an AxisError."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, int) or hasattr(axis, "__index__"):
        return (normalize_axis(axis, rank, operation),)
    if isinstance(axis, str) or not isinstance(axis, Iterable):
        raise ArgumentError(f"{operation}: axis {axis!r} must be None, an int or a sequence of ints")
    axis = tuple(axis)
    axes = [normalize_axis(a, rank, operation) for a in axis]
    if len(set(axes)) != len(axes):
        raise AxisError(f"{operation}: axes {axis} name one axis twice")
    return tuple(sorted(axes))


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(strides[::-1])
