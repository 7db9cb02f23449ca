"""Clusters that are alike: what was found for one is found again for every other that differs only in which values it reads.

The layers of a model repeat, and so do the graphs of a loop that is cut in changing places: most clusters of a graph have been
lowered before, there or in an earlier one. An outline describes a cluster up to the numbers of its values.

Invariants. Two clusters with one outline are lowered to the same kernel, words and costs, with the values of the one in the
places of the other's: an outline holds everything that `pull`, `nests` and `donate` look at, and numbers values by the order in
which they are met. The walk below takes the ways of `Pull` and must be changed with it; a node of a kind that it does not know
has no outline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from oa._lower.base import Ref
from oa._lower.fuse import NOTHING, Cluster, Fusion
from oa._lower.plan import ScalarWord
from oa._schema.interning import Recent

if TYPE_CHECKING:
    from oa._device import Profile
    from oa._lower.draft import Draft

#: Drafts remembered for one device, and devices.
CAPACITY, DEVICES = 1024, 16

Known = Recent[Any, "Draft"]
_KNOWN: Recent[Profile, Known] = Recent(DEVICES)
_KINDS = frozenset({"view", "pointwise", "reduce", "partial", "take", "along", "pad", "concat", "pair"})


@dataclass(frozen=True)
class Outline:
    """`key` is the description; `values` are the node results and inputs that the cluster reads and writes, by number."""

    key: Any
    values: tuple[Ref, ...]


def known(profile: Profile) -> Known:
    """What was lowered for a device so far, by outline, its values replaced by their numbers."""
    found = _KNOWN.get(profile)
    if found is None:
        found = _KNOWN[profile] = Recent(CAPACITY)
    return found


def outline(
    fusion: Fusion, cluster: Cluster, outputs: Sequence[Ref], replaced: Mapping[Ref, Ref]
) -> Outline | None:
    """The outline of a map, row or partial cluster that stores `outputs`; `replaced` as in `donate`."""
    nodes, inputs, again = fusion.base.nodes, fusion.base.inputs, fusion.again
    members, rows = set(cluster.members), cluster.row_members
    number = {ref: k for k, ref in enumerate(outputs)}  # of what is read or written
    met = {
        (ref, NOTHING): k for k, ref in enumerate(outputs)
    }  # a node may be met with other `expand`, as in `Pull`
    entries: list[Any] = []
    for ref, expand in (walk := list(met)):
        if ref < 0:
            given = inputs[-ref - 1]
            entries.append((given.spec, given.layout, number.setdefault(ref, len(number))))
            continue
        node = nodes[ref]
        if ref not in members and node.kind != "view":
            expand = again.get(ref, expand)
            if not fusion.computed_by_reader(ref, expand):
                entries.append((node.spec, number.setdefault(ref, len(number))))
                continue
        if node.kind not in _KINDS:
            return None
        if node.kind in ("reduce", "partial"):
            expand = NOTHING
        below = []
        for operand, read in enumerate(node.inputs):
            state = (read, fusion.pointwise if operand == 0 and ref in fusion.recomputes else expand)
            place = met.get(state)
            if place is None:
                place = met[state] = len(met)
                walk.append(state)
            below.append(place)
        entries.append((node.kind, node.spec, node.params, node.body, ref in rows, tuple(below)))
    taken = tuple(number.get(replaced[ref]) if ref in replaced else None for ref in outputs)
    key = (cluster.kind, cluster.space, cluster.axes, len(outputs), taken, tuple(entries))
    return Outline(key, tuple(number))


def drafted(
    fusion: Fusion,
    cluster: Cluster,
    outputs: Sequence[Ref],
    profile: Profile,
    replaced: Mapping[Ref, Ref],
    about: Mapping[str, Any],
    make: Callable[[], Draft],
) -> Draft:
    """What `make` gives for a cluster that stores `outputs`, or what it gave for one alike with the values put in; `about` are
    the fields that an outline does not hold."""
    found = outline(fusion, cluster, outputs, replaced)
    if found is None:
        return replace(make(), **about)
    store = known(profile)
    draft = store.get(found.key)
    if draft is not None:
        return _renamed(draft, found.values.__getitem__, about)
    draft = make()
    number = {ref: k for k, ref in enumerate(found.values)}
    store[found.key] = _renamed(draft, number.__getitem__, {"sources": (), "label": "", "cluster": 0})
    return replace(draft, **about)


def _renamed(draft: Draft, new: Callable[[int], int], about: Mapping[str, Any]) -> Draft:
    """A draft about other values. A word names a scalar by its number among the inputs, `-ref - 1`."""
    words = [
        ScalarWord(-new(-w.slot - 1) - 1, w.half) if isinstance(w, ScalarWord) else w for w in draft.words
    ]
    return replace(
        draft,
        operands=tuple([(new(ref), access) for ref, access in draft.operands]),
        words=tuple(words),
        replaces={new(ref): new(source) for ref, source in draft.replaces.items()},
        **about,
    )
