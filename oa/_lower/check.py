"""Pass `check`: an independent proof of each plan. It shares no code with the passes whose work it judges.

It walks the steps with a model of memory. Between two barriers no dispatch may touch bytes that another of the same stretch
writes (parts of one result aside). Every read must find the value it means, whole. Every barrier must be needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from oa._lower.plan import Access, Barrier, Dispatch, Operand, Plan, Space
from oa.errors import InternalError

Key = tuple[int, int]
Held = tuple[int, int, int]  #: first byte, end, value


def _fail(message: str) -> None:
    raise InternalError(f"plan check: {message}; this is a fault of oa, please report it")


def _clash(a: Operand, b: Operand) -> bool:
    if (a.space, a.index) != (b.space, b.index):
        return False
    if max(a.offset, b.offset) >= min(a.offset + a.size, b.offset + b.size):
        return False
    writes = (Access.WRITE in a.access, Access.WRITE in b.access)
    if writes == (False, False):
        return False
    return not (writes == (True, True) and a.part != 0 and a.part == b.part)


def check_order(plan: Plan) -> None:
    """Every conflicting pair has a barrier between; no barrier separates stretches that do not conflict."""
    stretches: list[list[Dispatch]] = [[]]
    for step in plan.steps:
        if isinstance(step, Barrier):
            stretches.append([])
        else:
            stretches[-1].append(step)
    for stretch in stretches:
        for k, one in enumerate(stretch):
            for other in stretch[:k]:
                for a in one.operands:
                    for b in other.operands:
                        if _clash(a, b):
                            _fail(
                                f"{other.label} and {one.label} touch {a.space.name}{a.index} without a barrier"
                            )
    for before, after in pairwise(stretches):
        pairs = ((a, b) for x in before for a in x.operands for y in after[:1] for b in y.operands)
        if not any(_clash(a, b) for a, b in pairs):
            _fail(f"the barrier before {after[0].label if after else 'the end'} separates nothing")


#: Names every value that has no elements, and that nobody computes.
NOTHING = -(1 << 62)


def check_values(plan: Plan, identities: Sequence[Sequence[int]], parents: Mapping[int, int]) -> None:
    """Every read finds its value: `identities[d][k]` says which value operand k of dispatch d means.

    `parents` names values that are computed in their place inside another, as a part of it. Of NOTHING, a value without elements,
    there is nothing to find.
    """
    memory: dict[Key, list[Held]] = {}
    for dispatch, names in zip(plan.dispatches(), identities):
        for operand, name in zip(dispatch.operands, names):
            if Access.READ in operand.access and operand.space is not Space.INPUT and name != NOTHING:
                _expect(
                    memory.get((operand.space, operand.index), []), operand, name, parents, dispatch.label
                )
        for operand, name in zip(dispatch.operands, names):
            if Access.WRITE in operand.access:
                if operand.space is Space.INPUT:
                    _fail(f"{dispatch.label} writes an input")
                _write(memory.setdefault((operand.space, operand.index), []), operand, name, parents)


def _expect(held: list[Held], operand: Operand, name: int, parents: Mapping[int, int], label: str) -> None:
    start, stop = operand.offset, operand.offset + operand.size
    if (start, stop, name) in held:
        return
    at = start
    for low, high, other in sorted(held):
        if other == name or parents.get(other) == name:
            if low > at:
                break
            at = max(at, high)
    if at < stop:
        _fail(
            f"{label} reads value {name} at {operand.space.name}[{start}:{stop}], which holds something else"
        )


def _write(held: list[Held], operand: Operand, name: int, parents: Mapping[int, int]) -> None:
    start, stop = operand.offset, operand.offset + operand.size
    family = parents.get(name, name)
    held[:] = [h for h in held if h[1] <= start or h[0] >= stop or parents.get(h[2], h[2]) == family]
    if (start, stop, name) not in held:
        held.append((start, stop, name))


def check_bounds(
    plan: Plan, shared_bytes: int, max_groups: tuple[int, int, int], max_invocations: int
) -> None:
    """Every operand lies inside its storage and every dispatch inside the device's limits."""
    sizes = {Space.INPUT: [s.size for s in plan.inputs], Space.OUTPUT: [s.size for s in plan.outputs]}
    sizes[Space.SCRATCH] = [plan.scratch_bytes]
    sizes[Space.CONSTANT] = [len(c) for c in plan.constants]
    for dispatch in plan.dispatches():
        kernel = dispatch.kernel
        if len(dispatch.operands) != kernel.buffers or len(dispatch.words) != kernel.arg_words:
            _fail(
                f"{dispatch.label}: {len(dispatch.operands)} operands and {len(dispatch.words)} words for {kernel!r}"
            )
        if any(g > limit for g, limit in zip(dispatch.groups, max_groups)) or min(dispatch.groups) < 1:
            _fail(f"{dispatch.label}: {dispatch.groups} workgroups, the device takes {max_groups}")
        x, y, z = kernel.local_size
        if x * y * z > max_invocations or kernel.shared_bytes > shared_bytes:
            _fail(
                f"{dispatch.label}: a workgroup of {kernel.local_size} with {kernel.shared_bytes} shared bytes"
            )
        for operand in dispatch.operands:
            if operand.offset % 256 or operand.offset + operand.size > sizes[operand.space][operand.index]:
                _fail(f"{dispatch.label}: operand {operand} lies outside its storage")
