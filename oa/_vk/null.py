"""A device without a driver: it records calls, checks them, does copies and fills on host memory and runs no kernel.

Lowering and execution are tested on it, on any recorded snapshot, so at any device's limits. Submissions complete at once; with
`manual=True` they stay pending until `complete()`, or until a wait asks for them, as if the device took its time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from oa import errors
from oa._device import Profile, Snapshot
from oa._vk import constants as c
from oa._vk.api import ProcessBound, failure
from oa._vk.memory import GRANULE, KINDS
from oa._vk.null_objects import (
    NullBuffer,
    NullCommands,
    NullDescriptorPool,
    NullObject,
    NullPipeline,
    NullPipelineCache,
    NullQueryPool,
    NullTimeline,
)
from oa._vk.pipeline import PUSH_BYTES
from oa._vk.validate import CheckedCommands, require, require_live

#: Addresses of null buffers start here, so that an offset is never taken for an address.
_FIRST_ADDRESS = 1 << 32
_PAGE = 1 << 16


class NullDevice(ProcessBound):
    """See the module. Besides the interface of a device, for tests:

    `submissions` lists what was submitted, each a tuple of recordings; `sets` the ranges of every descriptor set; `used` the
    bytes in buffers; `memory_limit` makes `buffer` raise OutOfMemory; `kernel`, when given, is called for each dispatch as it
    completes, with (device, pipeline, set or address, block word, groups); `lose()` loses the device.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        profile: Profile,
        *,
        manual: bool = False,
        memory_limit: int | None = None,
        kernel: Callable[[NullDevice, NullPipeline, int, tuple[int, int, int]], None] | None = None,
    ) -> None:
        super().__init__()
        self.snapshot, self.profile = snapshot, profile
        self.manual, self.memory_limit, self.kernel = manual, memory_limit, kernel
        self.lost = self.closed = False
        self.used = 0
        self.live: dict[int, NullObject] = {}
        self.sets: dict[int, tuple[tuple[Any, int, int], ...]] = {}
        self.submissions: list[tuple[tuple[tuple[Any, ...], ...], ...]] = []
        self._pending: deque[tuple[list[Any], tuple[NullTimeline, int] | None]] = deque()
        self._handles = 0
        self._address = _FIRST_ADDRESS
        self._clock = 0

    def next_handle(self) -> int:
        """A handle that no other object has."""
        self._handles += 1
        return self._handles

    def next_address(self, size: int) -> int:
        """The device address of the next buffer of `size` bytes, aligned to 64 KiB."""
        address = self._address
        self._address += -(-size // _PAGE) * _PAGE + _PAGE
        return address

    def require_open(self) -> None:
        """Raise unless the device can take work in this process."""
        self.require_own_process("the device")
        if self.closed:
            raise errors.EngineClosed("the device is closed: make a new Engine")
        if self.lost:
            raise errors.DeviceLost("the device was lost: make a new Engine")

    @property
    def timestamp_period(self) -> float:
        """Nanoseconds a tick."""
        return self.profile.limits.timestamp_period

    def buffer(self, size: int, memory: str = "device", exportable: bool = False) -> NullBuffer:
        """A buffer in "device", "upload" or "download" memory."""
        self.require_open()
        if memory not in KINDS:
            raise errors.ArgumentError(f"memory: got {memory!r}, wanted one of {', '.join(KINDS)}")
        limit = self.profile.limits.max_allocation
        if size > limit:
            raise errors.AllocationLimit(
                f"a buffer of {size} bytes was asked for; {self.snapshot.name} allows {limit}",
                requested=size,
                largest=limit,
            )
        rounded = max(GRANULE, -(-size // GRANULE) * GRANULE)
        if self.memory_limit is not None and self.used + rounded > self.memory_limit:
            raise failure(c.VK_ERROR_OUT_OF_DEVICE_MEMORY, f"allocating a {memory} buffer", requested=rounded)
        made = NullBuffer(self, rounded, memory)
        self.used += rounded
        return made

    def pipeline_cache(self, data: bytes = b"") -> NullPipelineCache:
        """A pipeline cache."""
        self.require_open()
        return NullPipelineCache(self, data)

    def pipeline(
        self,
        kernel_words: bytes,
        *,
        buffers: int,
        addressing: str,
        cache: Any = None,
        subgroup_size: int | None = None,
        name: str = "",
        texels: tuple[int, ...] = (),
    ) -> NullPipeline:
        """A compute pipeline, with the checks that a real device makes."""
        self.require_open()
        if addressing not in PUSH_BYTES:
            raise errors.ArgumentError(
                f"addressing: got {addressing!r}, wanted one of {', '.join(PUSH_BYTES)}"
            )
        if addressing == "address" and "bda" not in self.profile.features:
            raise errors.Unsupported(
                f"kernel {name!r} takes buffer addresses, which {self.snapshot.name} lacks"
            )
        limits = self.profile.limits
        if addressing == "descriptor" and buffers + 1 > limits.storage_buffers:
            raise errors.Unsupported(
                f"kernel {name!r} with {buffers + 1} storage buffers: {limits.storage_buffers} allowed"
            )
        if subgroup_size is not None and not limits.subgroup_min <= subgroup_size <= limits.subgroup_max:
            raise errors.Unsupported(f"kernel {name!r} wants subgroups of {subgroup_size}")
        if not kernel_words:
            raise errors.ArgumentError(f"kernel {name!r} has no words")
        if cache is not None:
            cache.content += f"{name}\n".encode()
        return NullPipeline(self, kernel_words, buffers, addressing, name, texels)

    def descriptor_pool(self, sets: int, buffers: int) -> NullDescriptorPool:
        """Room for descriptor sets."""
        self.require_open()
        return NullDescriptorPool(self, sets, buffers)

    def commands(self, queue: str = "compute") -> CheckedCommands:
        """A command buffer; `.commands.recorded` holds its calls."""
        self.require_open()
        if queue != "compute":
            raise errors.ArgumentError(f"queue: got {queue!r}, wanted 'compute'")
        return CheckedCommands(NullCommands(self), self.profile)

    def timeline(self, exportable: bool = False) -> NullTimeline:
        """A timeline semaphore, at 0."""
        self.require_open()
        return NullTimeline(self)

    def query_pool(self, count: int) -> NullQueryPool:
        """Room for timestamps."""
        self.require_open()
        return NullQueryPool(self, count)

    def submit(
        self,
        commands: Sequence[Any],
        *,
        queue: str = "compute",
        wait: Sequence[tuple[Any, int]] = (),
        signal: tuple[Any, int] | None = None,
    ) -> None:
        """Queue recorded commands; they complete at once unless the device is manual."""
        self.require_open()
        for recorded in commands:
            recorded.require_submittable()
        for timeline, value in wait:
            require(timeline.value() >= value or bool(self._pending), f"the wait for {value} never ends")
        if signal is not None:
            require(
                signal[1] > signal[0].reached, f"timeline value {signal[1]} is not above {signal[0].reached}"
            )
        self.submissions.append(tuple(tuple(recorded.commands.recorded) for recorded in commands))
        self._pending.append((list(commands), signal))
        if not self.manual:
            self.complete()

    def complete(self, count: int | None = None) -> int:
        """Let `count` pending submissions (None: all) complete, in order; returns how many did."""
        done = 0
        while self._pending and (count is None or done < count):
            commands, signal = self._pending.popleft()
            for recorded in commands:
                for call in recorded.commands.recorded:
                    self._perform(call)
            if signal is not None:
                signal[0].reached = signal[1]
            done += 1
        return done

    def _perform(self, call: tuple[Any, ...]) -> None:
        kind = call[0]
        if kind == "copy":
            source, source_offset, target, target_offset, size = call[1:]
            require_live(source, target)
            target.data[target_offset : target_offset + size] = source.data[
                source_offset : source_offset + size
            ]
        elif kind == "fill":
            buffer, offset, size, word = call[1:]
            require_live(buffer)
            buffer.data[offset : offset + size] = word.to_bytes(4, "little") * (size // 4)
        elif kind == "reset_queries":
            pool, first, count = call[1:]
            pool.ticks[first : first + count] = [None] * count
        elif kind == "timestamp":
            pool, index = call[1:]
            require(pool.ticks[index] is None, f"query {index} is written twice: reset_queries() first")
            self._clock += max(1, round(1000 / (self.timestamp_period or 1.0)))
            pool.ticks[index] = self._clock
        elif kind == "dispatch_descriptor":
            pipeline, descriptor_set, groups = call[1:]
            ranges = self.sets.get(descriptor_set)
            require(
                ranges is not None,
                f"{pipeline!r}: descriptor set {descriptor_set} was never written, or is gone",
            )
            require_live(*(buffer for buffer, _, _ in ranges or ()))
            if self.kernel is not None:
                self.kernel(self, pipeline, descriptor_set, groups)
        elif kind == "dispatch_address" and self.kernel is not None:
            pipeline, address, groups = call[1:]
            self.kernel(self, pipeline, address, groups)

    def wait_idle(self) -> None:
        """Complete everything submitted."""
        self.require_open()
        self.complete()

    def memory_budget(self) -> list[tuple[int, int, int]]:
        """(size, budget, usage) of each heap."""
        self.require_open()
        return [(heap.size, heap.size, self.used if heap.device_local else 0) for heap in self.snapshot.heaps]

    def lose(self) -> None:
        """Lose the device, as a driver would."""
        self.lost = True
        self._pending.clear()

    def close(self) -> None:
        """Destroy the device and everything made from it."""
        if not self.closed and not self.foreign:
            self.complete()
            for thing in reversed(list(self.live.values())):
                thing.close()
        self.closed = True
