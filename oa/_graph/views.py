"""Views: results that are their operand's elements under another index. Plain data, one class a kind."""

from __future__ import annotations

from dataclasses import dataclass

from oa._schema.spec import Shape, contiguous_strides


@dataclass(frozen=True)
class Reshape:
    """Row-major order kept, extents regrouped."""

    source: Shape
    shape: Shape


@dataclass(frozen=True)
class Permute:
    """Axis `k` of the result is axis `axes[k]` of the operand."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class Broadcast:
    """Aligned at the last axis; axes of extent 1 repeat."""

    source: Shape
    shape: Shape


@dataclass(frozen=True)
class Slice:
    """Index `i` along axis `k` of the result is `starts[k] + steps[k] * i` of the operand. Steps may be negative."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A vector's elements from `start` on, in row-major order under `shape`."""

    start: int
    shape: Shape


@dataclass(frozen=True)
class Part:
    """The real (0) or imaginary (1) parts of a complex value from outside. Only lowering makes it, directly on an input."""

    number: int


View = Part | Reshape | Permute | Broadcast | Slice | Window


@dataclass(frozen=True)
class Layout:
    """Where a value's elements lie in its storage: `offset + sum(index * stride)`, in elements."""

    offset: int
    strides: tuple[int, ...]

    def is_contiguous(self, shape: Shape) -> bool:
        """Whether the elements lie in row-major order without gaps (extents of 1 aside)."""
        want = contiguous_strides(shape)
        return all(s == w or e == 1 for s, w, e in zip(self.strides, want, shape))


def contiguous(shape: Shape) -> Layout:
    """The layout of a freshly written value."""
    return Layout(0, contiguous_strides(shape))
