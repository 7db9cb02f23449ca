"""Why a program had to be lowered: what its key has that no earlier one has, against the nearest of these."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oa._device import Profile
from oa._graph.graph import Graph, GraphNode, Input
from oa._schema.op import Instance, freeze

#: Earlier programs that a new one is compared with, of all engines of the process: so many, with so many operations in all.
HISTORY, OPERATIONS = 32, 40_000
#: Of those that do the same work, only the latest are compared in full.
COMPARED = 4
#: Lowerings that an engine remembers.
REMEMBERED = 64
#: Differences told one by one; the rest is counted.
MOST = 8


@dataclass(frozen=True, eq=False)
class Entry:
    """Everything that decides a program: the graph, what it is lowered for, and which results keep or take storage."""

    graph: Graph
    profile: Profile
    without: frozenset[str]
    owned: frozenset[int]
    carried: tuple[tuple[int, int], ...]
    digest: str

    @cached_property
    def operations(self) -> tuple[str, ...]:
        """The operations' schema ids in order: programs that agree in them do the same work on other values."""
        return tuple([node.instance.op.name for node in self.graph.nodes])


@dataclass(frozen=True)
class Compilation:
    """One lowering: the plan that it made, the nearest earlier plan (of any engine of the process) and what differs from it.

    `recompiled` says that the earlier plan has the same operations in the same order: that something else in the key changed.
    """

    plan: str
    nearest: str | None
    recompiled: bool
    changes: tuple[str, ...]

    def __str__(self) -> str:
        if self.nearest is None:
            return f"plan {self.plan}: the first"
        how = "recompiled, compared with" if self.recompiled else "new, nearest to"
        return f"plan {self.plan}: {how} plan {self.nearest}: {'; '.join(self.changes)}"


class History:
    """What one engine lowered, and what it was nearest to then."""

    _process: tuple[Entry, ...] = ()

    def __init__(self) -> None:
        self.recompilations = 0
        self.compilations: deque[Compilation] = deque(maxlen=REMEMBERED)  #: oldest first

    def add(self, entry: Entry) -> None:
        """A program was lowered."""
        near = nearest(entry, History._process)
        if near is None:
            found = Compilation(entry.digest, None, False, ())
        else:
            same = entry.operations == near.operations
            found = Compilation(entry.digest, near.digest, same, tuple(changes(entry, near)))
        self.recompilations += found.recompiled
        self.compilations.append(found)
        History._process = _kept((*History._process, entry))


def _kept(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The latest entries, but the last one in any case."""
    room, first = OPERATIONS - len(entries[-1].operations), len(entries) - 1
    while first and len(entries) - first < HISTORY and room >= len(entries[first - 1].operations):
        first -= 1
        room -= len(entries[first].operations)
    return entries[first:]


def nearest(entry: Entry, earlier: tuple[Entry, ...]) -> Entry | None:
    """The earlier program with the same operations and fewest differences, else the one that begins most alike; of equals the
    later one."""
    latest = earlier[::-1]
    same = [other for other in latest if other.operations == entry.operations][:COMPARED]
    if same:
        return min(same, key=lambda other: _distance(entry, other))
    return max(
        latest,
        key=lambda o: (o.profile == entry.profile, _alike(entry.operations, o.operations)),
        default=None,
    )


def _distance(new: Entry, old: Entry) -> int:
    """How many things differ between programs of the same operations, counted without saying what, at every lowering."""
    a, b = new.graph, old.graph
    inputs = sum(x != y for x, y in zip(a.inputs, b.inputs)) + abs(len(a.inputs) - len(b.inputs))
    nodes = sum(
        x.inputs != y.inputs or (x.instance is not y.instance and _differ(x.instance, y.instance))
        for x, y in zip(a.nodes, b.nodes)
    )
    device = new.profile != old.profile or new.without != old.without
    return (
        inputs
        + nodes
        + device
        + (a.roots != b.roots)
        + (new.carried != old.carried)
        + (new.owned != old.owned)
    )


def _differ(new: Instance, old: Instance) -> bool:
    """Whether two instances of an operation differ in more than what their operands are."""
    return new.attrs != old.attrs or new.ins == old.ins


def _alike(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    common = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return common - abs(len(a) - len(b))


def changes(new: Entry, old: Entry) -> list[str]:
    """What differs, as sentences, most telling first."""
    found = list(_differences(new, old))
    if not found:
        return [
            "nothing: the earlier plan was dropped from the cache, belongs to another engine, or both were captured"
        ]
    more = [f"and {len(found) - MOST} more"] if len(found) > MOST else []
    return found[:MOST] + more


def _differences(new: Entry, old: Entry) -> Iterator[str]:
    yield from _device(new, old)
    names, before = new.operations, old.operations
    if names != before:
        yield from _operations(names, before)
        return
    a, b = new.graph, old.graph
    if len(a.inputs) != len(b.inputs):
        yield f"{len(a.inputs)} inputs, were {len(b.inputs)}"
    for k, (one, other) in enumerate(zip(a.inputs, b.inputs)):
        yield from _input(k, one, other)
    for k, (node, former) in enumerate(zip(a.nodes, b.nodes)):
        yield from _node(k, node, former)
    if a.roots != b.roots:
        yield f"results wanted: {_names(a.roots)}, were {_names(b.roots)}"
    if new.carried != old.carried:
        yield f"{len(new.carried)} results replace an input, were {len(old.carried)}"
    if new.owned != old.owned:
        yield f"{len(new.owned)} results have storage of their own, were {len(old.owned)}"


def _device(new: Entry, old: Entry) -> Iterator[str]:
    a, b = new.profile, old.profile
    if a.fingerprint != b.fingerprint:
        yield "the device or its driver is another"
    for what, one, other in (
        ("profile", a.name, b.name),
        ("addressing", a.addressing, b.addressing),
        ("numeric mode", a.numeric, b.numeric),
    ):
        if one != other:
            yield f"{what} is {one}, was {other}"
    if a.tuned != b.tuned:
        yield f"{len(a.tuned)} measured choices, were {len(b.tuned)}"
    for what, ones, others in (
        ("native operations trusted", a.trusted, b.trusted),
        ("features in use", a.features, b.features),
        ("passes left out", new.without, old.without),
    ):
        if ones != others:
            yield f"{what}: {_set(ones - others, 'with')}{_set(others - ones, 'without')}".rstrip()


def _set(names: frozenset[str], word: str) -> str:
    return f"{word} {', '.join(sorted(names))} " if names else ""


def _operations(names: tuple[str, ...], before: tuple[str, ...]) -> Iterator[str]:
    at = next((k for k, (a, b) in enumerate(zip(names, before)) if a != b), None)
    if at is not None:
        yield f"operation {at} is {names[at]}, was {before[at]}"
    if len(names) != len(before):
        yield f"{len(names)} operation{'' if len(names) == 1 else 's'}, were {len(before)}"


def _input(number: int, one: Input, other: Input) -> Iterator[str]:
    if one.is_scalar != other.is_scalar:
        kinds = ("a value", "a number")
        yield f"input {number} is {kinds[one.is_scalar]}, was {kinds[other.is_scalar]}"
    if one.spec.dtype is not other.spec.dtype:
        yield f"input {number} has dtype {one.spec.dtype.name}, had {other.spec.dtype.name}"
    if one.spec.shape != other.spec.shape:
        yield f"input {number} has shape {one.spec.shape}, had {other.spec.shape}"
    elif one.layout is not None and other.layout is not None and one.layout != other.layout:
        now, then = ((x.offset, x.strides) for x in (one.layout, other.layout))
        yield f"input {number} lies otherwise in memory: offset {now[0]}, strides {now[1]}, had {then[0]}, {then[1]}"


def _node(number: int, node: GraphNode, former: GraphNode) -> Iterator[str]:
    new, old = node.instance, former.instance
    if node.inputs != former.inputs:
        yield f"operation {number}, {new.op.name}, reads {_names(node.inputs)}, read {_names(former.inputs)}"
    if new is old:
        return
    told = False
    for name in sorted({*new.attrs, *old.attrs}):
        one, other = new.attrs.get(name), old.attrs.get(name)
        if freeze(one) != freeze(other):
            told = True
            yield f"operation {number}, {new.op.name}: {name} is {_value(one)}, was {_value(other)}"
    if not told and new.ins == old.ins and new.outs != old.outs:
        yield f"operation {number}, {new.op.name}, gives {new.outs}, gave {old.outs}"
    elif not told and new.ins == old.ins:
        yield f"operation {number}, {new.op.name}, has another constant or index in its body"


def _value(value: Any) -> str:
    text = str(getattr(value, "name", repr(value)))
    return text if len(text) <= 40 else text[:39] + "…"


def _names(ordinals: tuple[int, ...]) -> str:
    shown = ", ".join(f"v{o}" if o >= 0 else f"in{-o - 1}" for o in ordinals[:6])
    return shown + (f" and {len(ordinals) - 6} more" if len(ordinals) > 6 else "") or "none"
