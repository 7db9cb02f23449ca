"""Operations that families of static kernels compute, in one dispatch or several with scratch of their own: sorting and scans.

Each reads whole values in row-major order and writes one. Nothing is fused with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oa._kernel.launch import Launch
from oa._kernel.scanning import family as scanning
from oa._kernel.sorting import family as sorting
from oa._lower.base import BaseGraph, BaseNode, Ref
from oa._lower.draft import PARTIAL, Draft, private
from oa._lower.plan import Access, Cost
from oa._lower.route import view_source

if TYPE_CHECKING:
    from oa._device import Profile


#: What a node becomes: dispatches, bytes of scratch by name, and how its operand and its result are called there.
Planned = tuple[Sequence[Launch], Mapping[str, int], str, str]
_ACCESS = {"r": Access.READ, "w": Access.WRITE, "rw": Access.READ | Access.WRITE}


def _order(base: BaseGraph, node: BaseNode, profile: Profile) -> Planned:
    keys = base.spec(node.inputs[0])
    rows, n = keys.shape
    problem = sorting.Problem(rows, n, node.params[0], keys.dtype.itemsize // 4)
    return *sorting.plan(problem, profile), "keys", "order"


def _inverse(base: BaseGraph, node: BaseNode, profile: Profile) -> Planned:
    rows, n = node.spec.shape
    return sorting.invert(rows, n, profile), {}, "order", "result"


def _positions(base: BaseGraph, node: BaseNode, profile: Profile) -> Planned:
    (n,), (size,) = base.spec(node.inputs[0]).shape, node.spec.shape
    return sorting.positions(n, size, node.params[0], profile), {}, "counts", "result"


def _scan(base: BaseGraph, node: BaseNode, profile: Profile) -> Planned:
    before, extent, after = node.spec.shape
    problem = scanning.Problem(before, extent, after, node.spec.dtype.name)
    launches, size = scanning.plan(problem, profile)
    return launches, {"sums": size} if size else {}, "x", "y"


FAMILIES: dict[str, Callable[[BaseGraph, BaseNode, Profile], Planned]] = {
    "order": _order,
    "inverse": _inverse,
    "positions": _positions,
    "scan": _scan,
}


def family_drafts(base: BaseGraph, ref: Ref, profile: Profile, number: int) -> list[Draft]:
    """The dispatches of one node, cluster `number`."""
    node = base.nodes[ref]
    source = view_source(base, node.inputs[0])[0]
    launches, scratch, given, result = FAMILIES[node.kind](base, node, profile)
    place = {given: source, result: ref}
    place |= {name: private(number, k) for k, name in enumerate(scratch)}
    sizes = {place[name]: size for name, size in scratch.items()}
    label = node.name.removeprefix("matrix.").lstrip("_")
    found = []
    for launch in launches:
        operands = tuple((place[o], _ACCESS[a]) for o, a in zip(launch.operands, launch.access))
        cost = _cost(base, operands, sizes)
        made = Draft(launch.kernel, launch.groups, operands, launch.words, node.sources, label)
        found.append(replace(made, scratch=sizes, cost=cost))
    return found


def _cost(base: BaseGraph, operands: Sequence[tuple[Ref, Access]], sizes: Mapping[Ref, int]) -> Cost:
    """Each operand read or written once."""
    moved = {Access.READ: 0, Access.WRITE: 0}
    for ref, access in dict.fromkeys(operands):
        size = sizes[ref] if ref >= PARTIAL else base.spec(ref).nbytes
        for way in moved:
            moved[way] += size if access & way else 0
    return Cost(moved[Access.READ], moved[Access.WRITE])
