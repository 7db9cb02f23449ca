"""A plan made ready for a device, and its recordings: command buffers that are submitted again and again.

A recording owns its slice of argument words, so that others of the same plan can be in flight while its words are rewritten.
It holds no storage: what it is bound to is remembered as places, and a binding that comes back is recognised by them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import numpy as np

from oa._lower.plan import Dispatch, Plan
from oa._run.layout import Layout, layout
from oa._run.pipelines import Pipelines
from oa._run.pool import Pool, Storage
from oa._vk.interface import Commands, DescriptorPool, Device, Pipeline, QueryPool
from oa.errors import InternalError

__all__ = ["Prepared", "Recording"]

#: Up to this many words are written one by one, which is faster than setting up an array operation.
_FEW = 16

Step = tuple[Pipeline, tuple[int, int, int]] | None  # None is a barrier


class Prepared:
    """What is known of a plan on this device before its buffers are: pipelines, word layout, its recordings so far."""

    __slots__ = (
        "_made", "_pipelines", "constants", "hits", "inputs", "layout", "name", "outputs", "plan", "rebinds",
        "recordings", "ring", "scalars", "scratch", "sizes", "steps", "submissions", "timed",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        device: Device,
        pipelines: Pipelines,
        forget: Callable[[weakref.ref[Plan]], None] | None = None,
    ) -> None:
        self.layout: Layout = layout(plan, device.profile)
        self._pipelines = pipelines
        self._made = pipelines.take([step.kernel for step in plan.dispatches()])
        self.steps: tuple[Step, ...] = tuple(
            (self._made[step.kernel.digest], step.groups) if isinstance(step, Dispatch) else None
            for step in plan.steps
        )
        self.plan = weakref.ref(plan, forget)
        self.name = _describe(plan)
        self.inputs = len(plan.inputs)
        self.outputs = len(plan.outputs)
        self.sizes = tuple(slot.size for slot in (*plan.inputs, *plan.outputs))
        self.scalars = plan.scalars
        self.scratch = plan.scratch_bytes
        self.constants: Storage | None = None
        self.ring: list[Recording] = []
        self.timed: list[Recording] = []  #: recordings with time stamps
        self.submissions = 0
        self.hits = 0  #: submissions that found a recording with their buffers
        self.recordings = 0  #: command buffers recorded
        self.rebinds = 0  #: recordings given other buffers

    def last_use(self) -> int:
        """Greatest timeline value of its recordings."""
        return max((r.value for r in (*self.ring, *self.timed)), default=0)

    def close(self) -> None:
        """Free the recordings, which must have finished, and let constants and pipelines go."""
        self.constants = None
        for recording in (*self.ring, *self.timed):
            recording.close()
        self.ring.clear()
        self.timed.clear()
        self.steps = ()
        self._pipelines.give(self._made)
        self._made = {}

    def trim(self, done: int) -> None:
        """Free the recordings whose last submission is at or before timeline value `done`, time stamps not read yet aside."""
        for ring in (self.ring, self.timed):
            for recording in [r for r in ring if r.value <= done and r.unread is None]:
                ring.remove(recording)
                recording.close()


class Recording:
    """One command buffer of a plan with its argument words. `bind` must only be called when it is not in flight."""

    __slots__ = (
        "_args", "_array", "_array64", "_device", "_prepared", "_sets", "_sets_pool", "_words", "_words64",
        "batch", "commands", "key", "queries", "scalars", "unread", "value",
    )  # fmt: skip

    def __init__(self, prepared: Prepared, device: Device, arguments: Pool, *, timed: bool = False) -> None:
        self.key: list[int] | None = None  #: places of what it is bound to, None while they are being changed
        self.scalars: tuple[int, ...] | None = None
        self.value = 0  #: timeline value of its last submission
        self.unread: Callable[[], None] | None = None  #: reads the time stamps of the last submission
        self.queries: QueryPool | None = None
        self._prepared = prepared
        self._device = device
        self._sets_pool: DescriptorPool | None = None
        self._sets: list[int] = []
        self._args = arguments.allocate(
            prepared.layout.bytes
        )  # idle: only finished recordings give theirs back
        memory = self._args.map
        if memory is None:
            raise InternalError("argument words: the memory is not mapped, wanted host-visible memory")
        self._array = np.frombuffer(memory, np.uint32, prepared.layout.template.size)
        self._array[:] = prepared.layout.template
        self._array64 = self._array.view(np.uint64)
        self._words, self._words64 = memory.cast("I"), memory.cast("Q")
        self.commands: Commands = device.commands()
        self.batch = (self.commands,)
        try:
            self._allocate(timed)
        except BaseException:
            self.close()
            raise

    def _allocate(self, timed: bool) -> None:
        prepared = self._prepared
        if timed:
            self.queries = self._device.query_pool(prepared.layout.dispatches + 1)
        if self._device.profile.addressing == "descriptor":
            if prepared.layout.sets:
                self._sets_pool = self._device.descriptor_pool(prepared.layout.sets, prepared.layout.buffers)
                self._sets = [
                    self._sets_pool.allocate(step[0]) for step in prepared.steps if step is not None
                ]
        else:
            self._record_address()

    def bind(self, key: list[int], bound: Sequence[Storage | None]) -> bool:
        """Take other storages: arena, constants, inputs, outputs. True when the commands had to be recorded again."""
        self.key = None
        descriptors = self._device.profile.addressing == "descriptor"
        if descriptors:
            self._write_descriptors(bound)
            self._record_descriptor()
        else:
            self._write_pointers(bound)
        self.key = key
        return descriptors

    def _write_pointers(self, bound: Sequence[Storage | None]) -> None:
        at = self._prepared.layout
        bases = [0 if s is None else s.address for s in bound]
        if len(at.pointers) <= _FEW:
            words = self._words64
            for place, base, offset in at.pointers:
                words[place] = bases[base] + offset
        else:
            self._array64[at.pointer_at] = np.array(bases, np.uint64)[at.pointer_base] + at.pointer_offset

    def set_scalars(self, scalars: tuple[int, ...]) -> None:
        """Write the run-time scalars, raw 32-bit patterns, into the argument words."""
        self.scalars = None
        at = self._prepared.layout
        if len(at.scalars) <= _FEW:
            words = self._words
            for place, slot in at.scalars:
                words[place] = scalars[slot]
        else:
            self._array[at.scalar_at] = np.array(scalars, np.uint32)[at.scalar_slot]
        self.scalars = scalars

    def _write_descriptors(self, bound: Sequence[Storage | None]) -> None:
        pool = self._sets_pool
        if pool is None:
            return
        args, at = self._args, self._prepared.layout
        for set_, ranges, word, size in zip(self._sets, at.ranges, at.blocks, at.block_bytes, strict=True):
            where = [(args.block.buffer, args.offset + 4 * word, size)]
            for base, offset, length in ranges:
                storage = bound[base]
                if storage is None:
                    raise InternalError(f"plan: base {base} is not bound")
                where.append((storage.block.buffer, storage.offset + offset, length))
            pool.write(set_, where)

    def _record_address(self) -> None:
        commands, base = self.commands, self._args.address
        blocks = iter(self._prepared.layout.blocks)
        self._begin()
        number = 0
        for step in self._prepared.steps:
            if step is None:
                commands.barrier("compute")
            else:
                commands.dispatch_address(step[0], base + 4 * next(blocks), step[1])
                number = self._stamp(number)
        commands.end()

    def _record_descriptor(self) -> None:
        commands, sets = self.commands, self._sets
        self._begin()
        number = index = 0
        for step in self._prepared.steps:
            if step is None:
                commands.barrier("compute")
            else:
                commands.dispatch_descriptor(step[0], sets[index], step[1])
                index += 1
                number = self._stamp(number)
        commands.end()

    def _begin(self) -> None:
        """What every submission starts with: everything before it on this queue happened, and so did the host's writes."""
        self.commands.begin()
        if self.queries is not None:
            self.commands.reset_queries(self.queries, 0, self._prepared.layout.dispatches + 1)
        self.commands.barrier("all")
        if self.queries is not None:
            self.commands.timestamp(self.queries, 0)

    def _stamp(self, number: int) -> int:
        """A time stamp after dispatch `number` when this recording is timed."""
        if self.queries is not None:
            self.commands.timestamp(self.queries, number + 1)
        return number + 1

    def close(self) -> None:
        """Free it; it must have finished."""
        self.commands.close()
        if self._sets_pool is not None:
            self._sets_pool.close()
        if self.queries is not None:
            self.queries.close()
        del self._array, self._array64, self._words, self._words64, self._args


def _describe(plan: Plan) -> str:
    """A name for a plan: its digest and its first labels."""
    labels = list(dict.fromkeys(step.label or step.kernel.name for step in plan.dispatches()))
    more = f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    return f"plan {plan.digest[:12] or '-'} ({', '.join(labels[:8]) or 'no dispatch'}{more})"
