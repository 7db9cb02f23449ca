"""Pass `memory`: where every stored value lives. Wanted values take output slots; the rest share one scratch arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oa._graph.graph import Input
from oa._lower.alias import Alias
from oa._lower.base import BaseGraph, Ref
from oa._lower.draft import PARTIAL, Draft
from oa._lower.plan import Access, Operand, Slot, Space

ALIGNMENT = 256
PADDING = 16


def padded(nbytes: int) -> int:
    """Bytes that hold a value, whole 16-byte vectors, at least one."""
    return max(PADDING, -(-nbytes // PADDING) * PADDING)


@dataclass(frozen=True)
class Place:
    """Where a stored value lives."""

    space: Space
    index: int
    offset: int
    size: int


@dataclass(frozen=True)
class Interval:
    """A value that needs `size` bytes of scratch from level `first` to level `last`, both included."""

    ref: Ref
    size: int
    first: int
    last: int


def input_slot(found: Input) -> Slot:
    """What an input's storage must at least hold: up to the last element that its layout reaches."""
    assert found.layout is not None
    reach = found.layout.offset + sum(
        (e - 1) * s for e, s in zip(found.spec.shape, found.layout.strides) if s > 0 and e > 0
    )
    size = padded((reach + 1) * found.spec.dtype.itemsize if found.spec.size else 0)
    return Slot(found.spec.dtype.name, found.spec.shape, size)


def intervals(
    base: BaseGraph,
    drafts: Sequence[Draft],
    levels: Sequence[int],
    outputs: set[Ref],
    in_place: Mapping[Ref, Alias],
) -> list[Interval]:
    """Lifetimes of everything that is neither input nor output; what is computed in place extends its parent's."""
    first: dict[Ref, int] = {}
    last: dict[Ref, int] = {}
    sizes: dict[Ref, int] = {}
    for draft, level in zip(drafts, levels):
        for operand, access in draft.operands:
            ref = in_place[operand].parent if operand in in_place else operand
            if ref < 0 or ref in outputs:
                continue
            sizes[ref] = padded(draft.scratch[operand] if ref >= PARTIAL else base.nodes[ref].spec.nbytes)
            # A value without elements is written by nobody; whoever reads it still has to bind something.
            if access & Access.WRITE or (ref < PARTIAL and base.nodes[ref].spec.size == 0):
                first[ref] = min(first.get(ref, level), level)
            last[ref] = max(last.get(ref, level), level)
    return [Interval(ref, sizes[ref], first[ref], last[ref]) for ref in sizes]


def colour(wanted: Sequence[Interval]) -> tuple[dict[Ref, int], int]:
    """Offsets such that values alive together do not overlap, and the bytes needed: first fit, largest first. Where that takes
    more than what is alive at once, other orders are tried too."""
    live: dict[int, int] = {}
    for interval in wanted:
        for level in range(interval.first, interval.last + 1):
            live[level] = live.get(level, 0) + _whole(interval.size)
    least = max(live.values(), default=0)
    best: tuple[dict[Ref, int], int] | None = None
    for order in _ORDERS:
        found = _first_fit(sorted(wanted, key=order))
        if best is None or found[1] < best[1]:
            best = found
        if best[1] == least:
            break
    assert best is not None
    return best


#: Largest first, longest and largest first, as they come, as they go, and by the room that they take over time.
_ORDERS: tuple[Callable[[Interval], tuple[int, ...]], ...] = (
    lambda i: (-i.size, i.first, i.ref),
    lambda i: (i.first - i.last, -i.size, i.first, i.ref),
    lambda i: (i.first, i.first - i.last, -i.size, i.ref),
    lambda i: (-i.last, i.first - i.last, -i.size, i.ref),
    lambda i: (i.first, -i.size, i.ref),
    lambda i: (-i.size * (i.last - i.first + 1), i.first, i.ref),
)


def _whole(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _first_fit(wanted: Sequence[Interval]) -> tuple[dict[Ref, int], int]:
    """Each value in the lowest gap that is free at all of its levels, in the order given."""
    #: By level, start and end of what is placed; no two of a level overlap.
    alive: dict[int, list[tuple[int, int]]] = {}
    offsets: dict[Ref, int] = {}
    total = 0
    for interval in wanted:
        size = _whole(interval.size)
        levels = [alive.setdefault(level, []) for level in range(interval.first, interval.last + 1)]
        at = 0
        for start, stop in sorted({span for level in levels for span in level}):
            if start - at >= size:
                break
            at = max(at, stop)
        for level in levels:
            level.append((at, at + size))
        offsets[interval.ref] = at
        total = max(total, at + size)
    return offsets, total


def place(
    base: BaseGraph,
    drafts: Sequence[Draft],
    levels: Sequence[int],
    outputs: Sequence[Ref],
    in_place: Mapping[Ref, Alias],
) -> tuple[dict[Ref, Place], int]:
    """A place for every stored value, and the size of the arena."""
    places: dict[Ref, Place] = {}
    stored = 0
    for number, found in enumerate(base.inputs):
        if not found.is_scalar:
            places[-number - 1] = Place(Space.INPUT, stored, 0, input_slot(found).size)
            stored += 1
    for number, ref in enumerate(outputs):
        places[ref] = Place(Space.OUTPUT, number, 0, padded(base.nodes[ref].spec.nbytes))
    scratch = intervals(base, drafts, levels, set(outputs), in_place)
    offsets, total = colour(scratch)
    for interval in scratch:
        places[interval.ref] = Place(Space.SCRATCH, 0, offsets[interval.ref], interval.size)
    for ref, alias in in_place.items():
        whole = places[alias.parent]
        size = padded(base.nodes[ref].spec.nbytes)
        places[ref] = Place(whole.space, whole.index, whole.offset + alias.offset, size)
    return places, total


def operand(where: Place, access: Access, part: int) -> Operand:
    """A place as a dispatch's operand."""
    return Operand(where.space, where.index, where.offset, where.size, access, part)
