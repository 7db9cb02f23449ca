"""Passes `schedule` and `hazard`: independent dispatches share a level; a barrier stands only where ranges conflict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from oa._lower.alias import Alias
from oa._lower.draft import Draft
from oa._lower.fuse import Fusion
from oa._lower.plan import Access, Barrier, Dispatch, Operand, Step


def levels(
    drafts: Sequence[Draft], in_place: Mapping[int, Alias], late: Mapping[int, Collection[int]]
) -> list[int]:
    """The level of each dispatch: one more than the latest that it must follow. `late` are the clusters that the dispatches of
    a cluster follow without reading what they make."""
    written: dict[int, int] = {}
    parts: dict[int, bool] = {}
    last: dict[int, int] = {}  # by cluster
    found: list[int] = []
    for draft in drafts:
        level = max((last[c] + 1 for c in late.get(draft.cluster, ()) if c in last), default=0)
        for ref, access in draft.operands:
            sibling = draft.part and bool(access & Access.WRITE) and parts.get(ref, False)
            if ref in written and not sibling:
                level = max(level, written[ref] + 1)
        for ref, access in draft.operands:
            if access & Access.WRITE:
                written[ref] = max(written.get(ref, 0), level)
                parts[ref] = draft.part
                if ref in in_place:
                    parent = in_place[ref].parent
                    written[parent] = max(written.get(parent, 0), level)
                    parts[parent] = True
        last[draft.cluster] = max(last.get(draft.cluster, 0), level)
        found.append(level)
    return found


def waits(fusion: Fusion) -> dict[int, set[int]]:
    """By cluster, those that it follows without reading what they make."""
    if not fusion.waits:
        return {}
    number = {ref: k for k, cluster in enumerate(fusion.clusters) for ref in cluster.members}
    found: dict[int, set[int]] = {}
    for ref, tokens in fusion.waits.items():
        if ref in number:
            others = {number[t] for t in tokens if t in number} - {number[ref]}
            found.setdefault(number[ref], set()).update(others)
    return found


def conflicts(a: Operand, b: Operand) -> bool:
    """Whether two accesses touch a common byte, one of them writes, and they are not parts of one result."""
    if not (a.access | b.access) & Access.WRITE:
        return False
    if a.space is not b.space or a.index != b.index:
        return False
    if a.part and a.part == b.part and a.access & b.access & Access.WRITE:
        return False
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def with_barriers(dispatches: Sequence[Dispatch]) -> tuple[Step, ...]:
    """The dispatches in order, with a barrier before each that conflicts with something since the last barrier."""
    steps: list[Step] = []
    since: dict[tuple[int, int], list[Operand]] = {}
    for dispatch in dispatches:
        if any(conflicts(o, e) for o in dispatch.operands for e in since.get((o.space, o.index), ())):
            steps.append(Barrier())
            since.clear()
        steps.append(dispatch)
        for operand in dispatch.operands:
            since.setdefault((operand.space, operand.index), []).append(operand)
    return tuple(steps)
