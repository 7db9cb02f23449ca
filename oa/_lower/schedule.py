"""Passes `schedule` and `hazard`: independent dispatches share a level; a barrier stands only where ranges conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oa._lower.alias import Alias
from oa._lower.kernels import Draft
from oa._lower.plan import Access, Barrier, Dispatch, Operand, Step


def levels(drafts: Sequence[Draft], in_place: Mapping[int, Alias]) -> list[int]:
    """The level of each dispatch: one more than the latest that it must follow."""
    written: dict[int, int] = {}
    parts: dict[int, bool] = {}
    found = []
    for draft in drafts:
        level = 0
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
        found.append(level)
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
