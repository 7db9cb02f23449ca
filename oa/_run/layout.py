"""Where everything of a plan lies in its argument words: computed once per plan, so that a rebind is a few array writes.

Pure: no device. Bases are numbered: 0 scratch arena, 1 the plan's constants, then inputs, then outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import gt

import numpy as np
from numpy.typing import NDArray

from oa._device import Profile
from oa._lower.plan import Dispatch, Kernel, Operand, Plan, ScalarWord, Space
from oa.errors import InternalError, Unsupported

__all__ = ["Layout", "layout"]

#: Base numbers of the first input; 0 is the scratch arena and 1 the constants.
_INPUTS = 2

#: Argument blocks start at multiples of this many words (16 bytes), with descriptors of what a uniform buffer needs.
_BLOCK = 4

#: Bytes of the largest argument block: what every device allows a uniform buffer (Vulkan's least maxUniformBufferRange).
_LARGEST_BLOCK = 16384


@dataclass(frozen=True)
class Layout:
    """The argument words of a plan, and where pointers and scalars go in them."""

    template: NDArray[np.uint32]  #: all words with pointers and scalars zero
    blocks: tuple[int, ...]  #: first word of each dispatch's block
    block_bytes: tuple[int, ...]  #: and its size, whole 16-byte vectors
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
    resolve = _resolver(plan, offsets)
    descriptors = profile.addressing == "descriptor"
    alignment = max(_BLOCK, profile.limits.uniform_alignment // 4) if descriptors else _BLOCK
    blocks: list[int] = []
    sizes: list[int] = []
    words: list[int] = []
    pointers: list[tuple[int, int, int]] = []
    scalars: list[tuple[int, int]] = []
    ranges: list[tuple[tuple[int, int, int], ...]] = []
    known: set[int] = set()
    for step in plan.dispatches():
        _check(plan, step, profile, known)
        words += [0] * (-len(words) % alignment)
        start = len(words)
        blocks.append(start)
        sizes.append(-(-(2 * len(step.operands) + len(step.words)) // 4) * 16 or 16)
        where = tuple([resolve(step, operand) for operand in step.operands])
        ranges.append(where)
        if not descriptors:
            pointers += [(start // 2 + k, base, offset) for k, (base, offset, _) in enumerate(where)]
        words += [0] * (2 * len(where))
        for word in step.words:
            if isinstance(word, ScalarWord):
                scalars.append((len(words), word.slot))
                words.append(0)
            else:
                words.append(word & 0xFFFFFFFF)
    words += [0] * (-len(words) % _BLOCK or (_BLOCK if not words else 0))
    at = np.array(pointers, np.int64).reshape(-1, 3)
    slots = np.array(scalars, np.intp).reshape(-1, 2)
    return Layout(
        template=np.array(words, np.uint32),
        blocks=tuple(blocks),
        block_bytes=tuple(sizes),
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


def _resolver(plan: Plan, constants: tuple[int, ...]) -> Callable[[Dispatch, Operand], tuple[int, int, int]]:
    """The function that turns an operand into (base, offset, size).

    The size is rounded up to whole 16-byte vectors, which kernels may touch; an operand must lie in its storage, whose size
    counts up to the next multiple of 256 as allocations do.
    """
    # By Space: (base, offset in the base, bytes) of each storage.
    inputs = [(_INPUTS + i, 0, slot.size) for i, slot in enumerate(plan.inputs)]
    outputs = [(_INPUTS + len(inputs) + i, 0, slot.size) for i, slot in enumerate(plan.outputs)]
    held = [(1, offset, len(data)) for offset, data in zip(constants, plan.constants, strict=True)]
    spaces = {
        Space.INPUT: inputs,
        Space.OUTPUT: outputs,
        Space.SCRATCH: [(0, 0, plan.scratch_bytes)],
        Space.CONSTANT: held,
    }
    table = [spaces[Space(number)] for number in range(len(Space))]

    def resolve(step: Dispatch, operand: Operand) -> tuple[int, int, int]:
        offset, size, index = operand.offset, operand.size, operand.index
        storages = table[operand.space]
        if 0 <= index < len(storages):
            base, start, extent = storages[index]
            if not offset & 255 and offset >= 0 <= size and offset + size <= (extent + 255) & -256:
                return base, start + offset, (size + 15) & -16 or 16
        raise InternalError(
            f"{_name(plan, step)}: {operand} does not lie in its storage at a multiple of 256"
        )

    return resolve


def _name(plan: Plan, step: Dispatch) -> str:
    return f"plan {plan.digest[:12] or '-'}: {step.label or step.kernel.name}"


def _check(plan: Plan, step: Dispatch, profile: Profile, known: set[int]) -> None:
    """Refuse what would be undefined behaviour on the device. Once per plan; `known` are the kernels checked before, by id."""
    kernel, limits = step.kernel, profile.limits
    if id(kernel) not in known:
        if kernel.addressing != profile.addressing:
            raise InternalError(
                f"{_name(plan, step)}: kernel for {kernel.addressing!r} addressing, the device uses {profile.addressing!r}"
            )
        _within(plan, step, _kernel_limits(kernel, profile))
        known.add(id(kernel))
    if len(step.operands) != kernel.buffers or len(step.words) != kernel.arg_words:
        raise InternalError(
            f"{_name(plan, step)}: got {len(step.operands)} buffers and {len(step.words)} words, "
            f"kernel {kernel.name} wants {kernel.buffers} and {kernel.arg_words}"
        )
    if any(map(gt, step.groups, limits.max_groups)):
        axes = zip("xyz", step.groups, limits.max_groups, strict=True)
        _within(plan, step, [(f"groups along {axis}", got, most) for axis, got, most in axes])
    if profile.addressing == "descriptor":
        size = max([operand.size for operand in step.operands], default=0)
        if size > limits.max_storage_range:
            _within(plan, step, [("bytes in one binding", size, limits.max_storage_range)])
    for word in step.words:
        if isinstance(word, ScalarWord) and not 0 <= word.slot < plan.scalars:
            raise InternalError(f"{_name(plan, step)}: scalar {word.slot} of {plan.scalars}")


def _within(plan: Plan, step: Dispatch, needs: list[tuple[str, int, int]]) -> None:
    """Raise for the first need that is over what the device allows."""
    for what, got, most in needs:
        if got > most:
            raise Unsupported(
                f"{_name(plan, step)}: got {got:,} {what}, this device allows {most:,}; the work must be split differently"
            )


def _kernel_limits(kernel: Kernel, profile: Profile) -> list[tuple[str, int, int]]:
    """(what, how much a kernel needs, what the device allows). Some drivers lose the device over these instead of refusing."""
    limits = profile.limits
    x, y, z = kernel.local_size
    axes = zip("xyz", kernel.local_size, limits.max_local, strict=True)
    needs = [(f"invocations a group along {axis}", got, most) for axis, got, most in axes]
    needs.append(("invocations a group", x * y * z, limits.max_invocations))
    needs.append(("bytes of shared memory", kernel.shared_bytes, limits.shared_bytes))
    if profile.addressing == "descriptor":
        needs.append(("storage buffers", kernel.buffers + 1, limits.storage_buffers))
        needs.append(("bytes of arguments", 4 * (2 * kernel.buffers + kernel.arg_words), _LARGEST_BLOCK))
    return needs
