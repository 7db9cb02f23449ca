"""Where everything of a plan lies in its argument words: computed once per plan, so that a rebind is a few array writes.

Pure: no device. Bases are numbered: 0 scratch arena, 1 the plan's constants, then inputs, then outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oa._device import Profile
from oa._lower.plan import Dispatch, Operand, Plan, ScalarWord, Space
from oa.errors import InternalError, Unsupported

__all__ = ["Layout", "layout"]

#: Base numbers of the first input; 0 is the scratch arena and 1 the constants.
_INPUTS = 2

#: Argument blocks start at multiples of this many words (16 bytes).
_BLOCK = 4


@dataclass(frozen=True)
class Layout:
    """The argument words of a plan, and where pointers and scalars go in them."""

    template: NDArray[np.uint32]  #: all words with pointers and scalars zero
    blocks: tuple[int, ...]  #: first word of each dispatch's block
    pointer_at: NDArray[np.intp]  #: positions of pointers, in 64-bit words
    pointer_base: NDArray[np.intp]  #: which base each pointer is taken from
    pointer_offset: NDArray[np.uint64]  #: bytes added to the base
    scalar_at: NDArray[np.intp]  #: positions of run-time scalars, in words
    scalar_slot: NDArray[np.intp]  #: which scalar goes there
    pointers: tuple[tuple[int, int, int], ...]  #: the same as rows: (position, base, offset)
    scalars: tuple[tuple[int, int], ...]  #: the same as rows: (position, slot)
    constant_offsets: tuple[int, ...]  #: where each constant lies in the plan's one constants storage
    constant_bytes: int
    ranges: tuple[
        tuple[tuple[int, int, int], ...], ...
    ]  #: per dispatch, per buffer: (base, offset, size), for descriptors
    sets: int  #: descriptor sets
    buffers: int  #: buffers of the largest set, the argument block not counted
    dispatches: int
    barriers: int

    @property
    def bytes(self) -> int:
        """Size of the argument words."""
        return self.template.nbytes


def layout(plan: Plan, profile: Profile) -> Layout:
    """Lay a plan out for a device. Raises Unsupported for what the device cannot do, InternalError for a plan that is wrong."""
    offsets, total = _constants(plan)
    extents = _extents(plan)
    blocks: list[int] = []
    words: list[int] = []
    pointers: list[tuple[int, int, int]] = []
    scalars: list[tuple[int, int]] = []
    ranges: list[tuple[tuple[int, int, int], ...]] = []
    for step in plan.dispatches():
        _check(plan, step, profile, extents)
        words += [0] * (-len(words) % _BLOCK)
        start = len(words)
        blocks.append(start)
        where = tuple(_range(plan, operand, offsets) for operand in step.operands)
        ranges.append(where)
        pointers += [(start // 2 + k, base, offset) for k, (base, offset, _) in enumerate(where)]
        words += [0] * (2 * len(where))
        scalars += [
            (len(words) + k, word.slot) for k, word in enumerate(step.words) if isinstance(word, ScalarWord)
        ]
        words += [0 if isinstance(word, ScalarWord) else word & 0xFFFFFFFF for word in step.words]
    words += [0] * (-len(words) % _BLOCK or (_BLOCK if not words else 0))
    if profile.addressing != "address":
        pointers = []
    at = np.array(pointers, np.int64).reshape(-1, 3)
    slots = np.array(scalars, np.intp).reshape(-1, 2)
    return Layout(
        template=np.array(words, np.uint32),
        blocks=tuple(blocks),
        pointer_at=at[:, 0].astype(np.intp),
        pointer_base=at[:, 1].astype(np.intp),
        pointer_offset=at[:, 2].astype(np.uint64),
        scalar_at=np.ascontiguousarray(slots[:, 0]),
        scalar_slot=np.ascontiguousarray(slots[:, 1]),
        pointers=tuple(pointers),
        scalars=tuple(scalars),
        constant_offsets=offsets,
        constant_bytes=total,
        ranges=tuple(ranges),
        sets=len(blocks),
        buffers=max(map(len, ranges), default=0),
        dispatches=len(blocks),
        barriers=len(plan.steps) - len(blocks),
    )


def _constants(plan: Plan) -> tuple[tuple[int, ...], int]:
    """Offsets of the constants in one storage, each at a multiple of 256 bytes, and its size."""
    offsets: list[int] = []
    total = 0
    for data in plan.constants:
        offsets.append(total)
        total += -(-len(data) // 256) * 256
    return tuple(offsets), total


def _range(plan: Plan, operand: Operand, offsets: tuple[int, ...]) -> tuple[int, int, int]:
    """(base, offset, size) of an operand; the size is rounded up to whole 16-byte vectors, which kernels may touch."""
    size = max(16, -(-operand.size // 16) * 16)
    space, index, offset = operand.space, operand.index, operand.offset
    if space is Space.SCRATCH:
        return 0, offset, size
    if space is Space.CONSTANT:
        return 1, offsets[index] + offset, size
    if space is Space.INPUT:
        return _INPUTS + index, offset, size
    return _INPUTS + len(plan.inputs) + index, offset, size


def _extents(plan: Plan) -> dict[Space, tuple[int, ...]]:
    """Bytes that operands may reach in each storage, rounded up to whole 256-byte ranges as allocations are."""
    sizes = {
        Space.INPUT: [slot.size for slot in plan.inputs],
        Space.OUTPUT: [slot.size for slot in plan.outputs],
        Space.SCRATCH: [plan.scratch_bytes],
        Space.CONSTANT: [len(data) for data in plan.constants],
    }
    return {space: tuple(-(-size // 256) * 256 for size in held) for space, held in sizes.items()}


def _check(plan: Plan, step: Dispatch, profile: Profile, extents: dict[Space, tuple[int, ...]]) -> None:
    """Refuse what would be undefined behaviour on the device. Once per plan, so it may be thorough."""
    kernel, name = step.kernel, f"plan {plan.digest[:12] or '-'}: {step.label or step.kernel.name}"
    if kernel.addressing != profile.addressing:
        raise InternalError(
            f"{name}: kernel for {kernel.addressing!r} addressing, the device uses {profile.addressing!r}"
        )
    if len(step.operands) != kernel.buffers or len(step.words) != kernel.arg_words:
        raise InternalError(
            f"{name}: got {len(step.operands)} buffers and {len(step.words)} words, "
            f"kernel {kernel.name} wants {kernel.buffers} and {kernel.arg_words}"
        )
    for operand in step.operands:
        held, index, end = extents[operand.space], operand.index, operand.offset + operand.size
        extent = held[index] if 0 <= index < len(held) else -1
        if operand.offset % 256 or not 0 <= operand.offset <= end <= extent:
            raise InternalError(f"{name}: {operand} does not lie in its {extent} bytes at a multiple of 256")
    for word in step.words:
        if isinstance(word, ScalarWord) and not 0 <= word.slot < plan.scalars:
            raise InternalError(f"{name}: scalar {word.slot} of {plan.scalars}")
    for what, got, most in _limits(step, profile):
        if got > most:
            raise Unsupported(
                f"{name}: got {got:,} {what}, this device allows {most:,}; the work must be split differently"
            )


def _limits(step: Dispatch, profile: Profile) -> list[tuple[str, int, int]]:
    """(what, how much a dispatch needs, what the device allows). Some drivers lose the device over these instead of refusing."""
    kernel, limits = step.kernel, profile.limits
    x, y, z = kernel.local_size
    found = [
        (f"groups along {axis}", got, most)
        for axis, got, most in zip("xyz", step.groups, limits.max_groups, strict=True)
    ]
    found += [
        (f"invocations a group along {axis}", got, most)
        for axis, got, most in zip("xyz", kernel.local_size, limits.max_local, strict=True)
    ]
    found.append(("invocations a group", x * y * z, limits.max_invocations))
    found.append(("bytes of shared memory", kernel.shared_bytes, limits.shared_bytes))
    if profile.addressing == "descriptor":
        found.append(("storage buffers", kernel.buffers + 1, limits.storage_buffers))
        size = max((operand.size for operand in step.operands), default=0)
        found.append(("bytes in one binding", size, limits.max_storage_range))
    return found
