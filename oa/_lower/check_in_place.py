"""Pass `check`, its second part: a proof that outputs which may take an input's storage do no harm there.

Like the first part it shares no code with the passes: it reads the finished plan and, for a dispatch that reads an input and
writes the output in its place, the loop nest of the kernel with the numbers that the dispatch puts in.
"""

from __future__ import annotations

from collections.abc import Sequence

from oa._kernel.emit.nest import Address, Nest
from oa._lower.plan import Access, Barrier, Dispatch, Operand, Plan, Space
from oa.errors import InternalError


def _fail(message: str) -> None:
    raise InternalError(f"plan check: {message}; this is a fault of oa, please report it")


def check_in_place(plan: Plan, nests: Sequence[Nest | None]) -> None:
    """Each pair of `plan.in_place` may share storage; `nests[k]` is what the kernel of dispatch k was made from, if known."""
    if not plan.in_place:
        return
    outputs, inputs = ({pair[side] for pair in plan.in_place} for side in (0, 1))
    if not len(outputs) == len(inputs) == len(plan.in_place):
        _fail("two outputs take one input, or one output two")
    for output, source in plan.in_place:
        if plan.outputs[output] != plan.inputs[source]:
            _fail(f"output {output} and the input {source} that it takes are not alike")
        _check_pair(plan, nests, output, source)


def _uses(dispatch: Dispatch, space: Space, index: int) -> list[tuple[int, Operand]]:
    return [(k, o) for k, o in enumerate(dispatch.operands) if (o.space, o.index) == (space, index)]


def _check_pair(plan: Plan, nests: Sequence[Nest | None], output: int, source: int) -> None:
    """Nothing reads the input after, or unordered with, the first write to the output."""
    stretch = number = 0
    written = -1  # the stretch of the first write
    readers: list[int] = []  # the stretches of dispatches that read the input and leave the output alone
    for step in plan.steps:
        if isinstance(step, Barrier):
            stretch += 1
            continue
        writes, reads = _uses(step, Space.OUTPUT, output), _uses(step, Space.INPUT, source)
        if writes and reads:
            if written >= 0:
                _fail(f"{step.label} reads input {source} after output {output} took its place")
            _check_map(step, nests[number], writes, reads)
        elif reads:
            readers.append(stretch)
        if writes and written < 0:
            written = stretch
        number += 1
    if written < 0:
        _fail(f"output {output} is never written")
    if any(reader >= written for reader in readers):
        _fail(f"input {source} is read where output {output} may have taken its place")


def _check_map(
    step: Dispatch,
    nest: Nest | None,
    writes: Sequence[tuple[int, Operand]],
    reads: Sequence[tuple[int, Operand]],
) -> None:
    """Every invocation reads of the input what it writes of the output, and nothing else of it."""
    if nest is None or nest.schedule.kind != "flat":
        _fail(f"{step.label} is no map and works in place")
        return
    for k, operand in (*writes, *reads):
        whole = operand.offset == 0 and operand.part == 0
        if not whole or not nest.buffers[k].aliased or operand.access is (Access.READ | Access.WRITE):
            _fail(f"{step.label}: operand {operand} cannot be in place")
    stored, loaded = {k for k, _ in writes}, {k for k, _ in reads}
    extents = [_word(step, word) for word in nest.extents]
    flat, stride = {}, 1
    for axis in reversed(range(nest.kept)):
        if extents[axis] != 1:
            flat[axis] = stride
        stride *= extents[axis]
    if nest.reduced or stride != _word(step, 1):
        _fail(f"{step.label}: the map does not visit each element once")
    stores = [s for s in nest.stores if s.buffer in stored]
    loads = [k for k, i in enumerate(nest.code) if i.op == "load" and i.buffer in loaded]
    for store in stores:
        four_bytes = store.dtype in ("float32", "int32", "uint32")
        if not store.vector and four_bytes and _affine(step, store.address, extents) != flat:
            _fail(f"{step.label} writes elsewhere than it reads in place")
        if not _needs(nest, store.value, loads):
            _fail(f"{step.label} may write in place before it reads")
    for k in loads:
        address = nest.code[k].address
        if address is None or _affine(step, address, extents) != flat:
            _fail(f"{step.label} reads elsewhere than it writes in place")
    if len(stores) != 1 or not loads:
        _fail(f"{step.label}: {len(stores)} stores and {len(loads)} loads in place")


def _word(step: Dispatch, index: int) -> int:
    word = step.words[index]
    if not isinstance(word, int):
        _fail(f"{step.label}: an extent or stride is known only when the plan runs")
        return 0
    return word


def _affine(step: Dispatch, address: Address, extents: Sequence[int]) -> dict[int, int] | None:
    """The step along each axis longer than 1, None for an address that is not a sum of such from 0."""
    if address.const is not None and _word(step, address.const):
        return None
    found: dict[int, int] = {}
    for atom, factor in address.terms:
        if atom[0] != "dim" or not isinstance(atom[1], int):
            return None
        if extents[atom[1]] != 1:
            found[atom[1]] = found.get(atom[1], 0) + (1 if factor is None else _word(step, factor))
    return found


def _needs(nest: Nest, value: int, loads: Sequence[int]) -> bool:
    """Whether one of `loads` is among what `value` is computed from."""
    stack, seen = [value], set()
    while stack:
        k = stack.pop()
        if k in loads:
            return True
        if k not in seen:
            seen.add(k)
            stack.extend(nest.code[k].args)
    return False
