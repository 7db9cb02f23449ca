"""Running plans: the second run of a plan with the same buffers is a look-up and one submit.

Each plan keeps a ring of recordings. A recording whose bindings match is submitted as it is (its scalars patched when they
changed); otherwise one is made, up to the ring's size, or the longest unused one is bound anew: with addresses a few array
writes, with descriptors new descriptor sets and a new command buffer.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from operator import attrgetter, lt
from pathlib import Path

from oa._lower.plan import Plan
from oa._run.cache import DiskCache
from oa._run.clock import DEPTH, Clock
from oa._run.pipelines import Pipelines
from oa._run.pool import Pool, Storage
from oa._run.profiler import Profiler
from oa._run.recording import Prepared, Recording
from oa._run.transfer import Transfer
from oa._vk.interface import Device
from oa.errors import InternalError

__all__ = ["Counters", "Executor"]

#: Recordings a plan keeps, by addressing: with descriptors a rebind costs a new recording, so more bindings are remembered.
_RING = {"address": DEPTH, "descriptor": 8}

#: The scratch arena grows in steps of an eighth of its size, but at least this much.
_ARENA_STEP = 64 << 10


class Counters:
    """What the executor did since it was made."""

    __slots__ = ("barriers", "dispatches", "pipelines", "rebinds", "recordings", "submissions")

    def __init__(self) -> None:
        self.dispatches = 0  #: dispatches submitted
        self.barriers = 0  #: barriers submitted, the one at the head of each submission not counted
        self.recordings = 0  #: command buffers recorded
        self.submissions = 0  #: plans submitted
        self.rebinds = 0  #: recordings given other buffers
        self.pipelines = 0  #: pipelines made

    def as_dict(self) -> dict[str, int]:
        """All counters by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class Executor:
    """Runs plans on one device. Belongs to one thread."""

    def __init__(
        self,
        device: Device,
        pool: Pool,
        clock: Clock,
        cache_dir: Path | None = None,
        transfer: Transfer | None = None,
    ) -> None:
        self.counters = Counters()
        self._device = device
        self._pool = pool
        self._clock = clock
        self._transfer = Transfer(device, pool, clock) if transfer is None else transfer
        self._owns_transfer = transfer is None
        self._capacity = _RING[device.profile.addressing]
        self._pipelines = Pipelines(device, DiskCache(cache_dir, device.profile.fingerprint))
        try:
            self._arguments = _argument_pool(device, clock)
        except BaseException:
            self._pipelines.close(save=False)
            raise
        self._prepared: dict[int, Prepared] = {}  # by id(plan): a plan's own hash covers all of it
        self._dead: deque[Prepared] = deque()  # plans that are gone, their recordings perhaps in flight
        self._arena: Storage | None = None
        pool.relief.append(self.trim)
        clock.idle = self._idle

    def run(
        self,
        plan: Plan,
        inputs: Sequence[Storage],
        outputs: Sequence[Storage],
        scalars: Sequence[int] = (),
        *,
        timing: Profiler | None = None,
    ) -> int:
        """Submit a plan over these storages; return the timeline value that says it has finished.

        `scalars` are raw 32-bit patterns. With `timing` each dispatch is timed and reported there. Waits only when `DEPTH`
        submissions are in flight. Raises Unsupported or InternalError for a plan that cannot run here, OutOfMemory, DeviceLost.
        """
        clock = self._clock
        if clock.refusal is not None:
            clock.check()
        prepared = self._prepared.get(id(plan))
        if prepared is None:
            prepared = self._prepare(plan)
        bound = (*inputs, *outputs)
        key = [storage.place for storage in bound]
        arena = None
        if prepared.scratch:
            arena = self._arena
            if arena is None or arena.size < prepared.scratch:
                arena = self._grow(prepared.scratch)
            key.append(arena.place)
        wanted = tuple(scalars)
        if clock.submitted - clock.completed >= DEPTH:
            clock.room()
        recording = None
        if timing is None:
            completed = clock.completed
            for candidate in prepared.ring:
                if candidate.key == key:
                    if candidate.scalars == wanted:
                        recording = candidate
                        break
                    if candidate.value <= completed:
                        recording = candidate
        if recording is None:
            recording = self._obtain(plan, prepared, key, inputs, outputs, arena, timing is not None)
        else:
            prepared.hits += 1
        if recording.scalars != wanted:
            self._set_scalars(prepared, recording, wanted)
        # Marked before the submission: an interrupt between the two must not let the host write what the device uses.
        recording.value = value = clock.submitted + 1
        for storage in bound:
            storage.last_use = value
        if arena is not None:
            arena.last_use = value
        clock.submit(recording.batch, prepared.name)
        prepared.submissions += 1
        counters = self.counters
        counters.submissions += 1
        counters.dispatches += prepared.layout.dispatches
        counters.barriers += prepared.layout.barriers
        if timing is not None:
            timing.expect(plan, recording, self._clock)
        return value

    def was_submitted(self, outputs: Sequence[Storage], last_use: int) -> bool:
        """Whether a run that ended in an exception was submitted; `last_use` is that of the first output before it."""
        return bool(outputs) and last_use < outputs[0].last_use <= self._clock.submitted

    def _set_scalars(self, prepared: Prepared, recording: Recording, scalars: tuple[int, ...]) -> None:
        if len(scalars) != prepared.scalars:
            raise InternalError(f"plan: got {len(scalars)} scalars, wanted {prepared.scalars}")
        recording.set_scalars(scalars)

    def _prepare(self, plan: Plan) -> Prepared:
        """Check a new plan, make its pipelines, upload its constants."""
        self._bury()
        alive, dead, number = self._prepared, self._dead, id(plan)

        def forget(_: weakref.ref[Plan]) -> None:
            gone = alive.pop(number, None)
            if gone is not None:
                dead.append(gone)

        try:
            prepared = Prepared(plan, self._device, self._pipelines, forget)
        finally:
            self.counters.pipelines = self._pipelines.made
        if prepared.layout.constant_bytes:
            packed = bytearray(prepared.layout.constant_bytes)
            for offset, data in zip(prepared.layout.constant_offsets, plan.constants, strict=True):
                packed[offset : offset + len(data)] = data
            try:
                prepared.constants = self._transfer.create(packed)
            except BaseException:
                prepared.close()
                raise
        self._prepared[number] = prepared
        return prepared

    def _obtain(
        self,
        plan: Plan,
        prepared: Prepared,
        key: list[int],
        inputs: Sequence[Storage],
        outputs: Sequence[Storage],
        arena: Storage | None,
        timed: bool,
    ) -> Recording:
        """A recording bound to these storages and not in flight: one of the ring, or a new one while the ring is not full."""
        ring = prepared.timed if timed else prepared.ring
        recording = _matching(ring, key, self._clock)
        if recording is not None:
            prepared.hits += 1
        else:
            _check_bindings(plan, prepared, inputs, outputs)
            if len(ring) < self._capacity:
                recording = Recording(prepared, self._device, self._arguments, timed=timed)
                if self._device.profile.addressing == "address":
                    self._count_recording(prepared)
                ring.append(recording)
            else:
                recording = min(ring, key=_value)
                self._clock.wait(recording.value)
                self.counters.rebinds += 1
                prepared.rebinds += 1
        if recording.unread is not None:
            recording.unread()
        if recording.key != key:
            try:
                if recording.bind(key, (arena, prepared.constants, *inputs, *outputs)):
                    self._count_recording(prepared)
            except BaseException:
                ring.remove(recording)
                recording.close()
                raise
        return recording

    def _count_recording(self, prepared: Prepared) -> None:
        self.counters.recordings += 1
        prepared.recordings += 1

    def counts(self, plan: Plan) -> dict[str, int]:
        """What the runs of one plan took so far: recordings, submissions, rebinds, cache hits (runs that found a recording with
        their buffers)."""
        found = self._prepared.get(id(plan))
        if found is None:
            return {"recordings": 0, "submissions": 0, "rebinds": 0, "cache_hits": 0}
        return {
            "recordings": found.recordings,
            "submissions": found.submissions,
            "rebinds": found.rebinds,
            "cache_hits": found.hits,
        }

    def _grow(self, size: int) -> Storage:
        """A larger scratch arena. The old one is freed at once: what still uses it was submitted earlier."""
        step = max(_ARENA_STEP, size // 8)
        self._arena = None
        try:
            self._arena = self._pool.allocate(min(-(-size // step) * step, max(size, self._pool.max_size)))
        except MemoryError:
            self._arena = self._pool.allocate(size)
        return self._arena

    def _bury(self) -> None:
        """Free what dead plans left behind, once it has finished."""
        if self._dead:
            done = self._clock.retire()
            for _ in range(len(self._dead)):
                gone = self._dead.popleft()
                if gone.last_use() <= done:
                    gone.close()
                else:
                    self._dead.append(gone)

    def _idle(self) -> None:
        """Housekeeping for when nothing is in flight."""
        self._bury()
        self._pipelines.save()

    def forget(self, plan: Plan) -> None:
        """Let go of a plan's recordings and constants; it may be run again. Happens by itself when the plan is dropped."""
        gone = self._prepared.pop(id(plan), None)
        if gone is not None:
            self._dead.append(gone)
            self._bury()

    def trim(self) -> None:
        """Give up what can be made again: the scratch arena, recordings that have finished, the remains of dead plans."""
        self._arena = None
        self._bury()
        done = self._clock.retire()
        for prepared in self._prepared.values():
            prepared.trim(done)
        self._arguments.trim()

    def close(self) -> None:
        """Wait for what is in flight, save the pipeline cache, free everything. Nothing in a forked child."""
        clock = self._clock
        if clock.forked:
            return
        clock.idle = None
        sound = clock.settle()
        if self.trim in self._pool.relief:
            self._pool.relief.remove(self.trim)
        self._arena = None
        for prepared in (*self._prepared.values(), *self._dead):
            prepared.close()
        self._prepared.clear()
        self._dead.clear()
        self._pipelines.close(save=sound)
        self._arguments.close()
        if self._owns_transfer:
            self._transfer.close()


def _argument_pool(device: Device, clock: Clock) -> Pool:
    """Where argument words live: in device memory where the host can write it, else in the host's.

    Each dispatch starts by reading its words: across the bus that adds 1.05 us to the 2.1 us of a dependent one (NVIDIA H200).
    """
    pool = Pool(device, clock, "device")
    if pool.allocate(1).map is None:
        pool.close()
        pool = Pool(device, clock, "upload")
    return pool


_value = attrgetter("value")
_place = attrgetter("place")
_size = attrgetter("size")


def _matching(ring: list[Recording], key: list[int], clock: Clock) -> Recording | None:
    """A recording with these bindings that has finished."""
    matching = [recording for recording in ring if recording.key == key]
    if matching:
        oldest = min(matching, key=_value)
        if oldest.value <= clock.completed or oldest.value <= clock.retire():
            return oldest
    return None


def _check_bindings(
    plan: Plan, prepared: Prepared, inputs: Sequence[Storage], outputs: Sequence[Storage]
) -> None:
    """Refuse bindings that do not fit the plan. Runs only for bindings that no recording has yet."""
    sizes = (*map(_size, inputs), *map(_size, outputs))
    wrong = (
        len(inputs) != prepared.inputs
        or len(outputs) != prepared.outputs
        or any(map(lt, sizes, prepared.sizes))
    )
    places = set(map(_place, outputs))
    if wrong or len(places) != len(outputs) or not places.isdisjoint(map(_place, inputs)):
        _refuse_bindings(plan, inputs, outputs)


def _refuse_bindings(plan: Plan, inputs: Sequence[Storage], outputs: Sequence[Storage]) -> None:
    """Say what does not fit; nothing when outputs only share the storages of inputs that they may take."""
    name = f"plan {plan.digest[:12] or '-'}"
    if len(inputs) != len(plan.inputs) or len(outputs) != len(plan.outputs):
        raise InternalError(
            f"{name}: got {len(inputs)} inputs and {len(outputs)} outputs, wanted {len(plan.inputs)} and {len(plan.outputs)}"
        )
    for kind, storages, slots in (("input", inputs, plan.inputs), ("output", outputs, plan.outputs)):
        for index, (storage, slot) in enumerate(zip(storages, slots, strict=True)):
            if storage.size < slot.size:
                raise InternalError(f"{name}: {kind} {index} has {storage.size} bytes, wanted {slot.size}")
    places = {storage.place: index for index, storage in enumerate(outputs)}
    if len(places) != len(outputs):
        raise InternalError(f"{name}: two outputs share one storage, wanted a storage for each")
    for index, storage in enumerate(inputs):
        output = places.get(storage.place)
        if output is not None and (output, index) not in plan.in_place:
            raise InternalError(
                f"{name}: output {output} is bound to the storage of input {index}, which it may not overwrite"
            )
