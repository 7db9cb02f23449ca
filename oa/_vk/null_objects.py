"""What the null device makes: buffers in host memory, pipelines that run nothing, recordings as tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from oa import errors
from oa._vk import constants as c
from oa._vk.api import created, destroyed, failure
from oa._vk.memory import preference
from oa._vk.validate import check_ranges, require, require_live

if TYPE_CHECKING:
    from oa._vk.null import NullDevice


class NullObject:
    """An object with a handle, counted like a Vulkan object of kind `null_<kind>` while it lives."""

    kind = ""

    def __init__(self, device: NullDevice) -> None:
        self.device = device
        self.handle = device.next_handle()
        created(f"null_{self.kind}")
        device.live[self.handle] = self

    def close(self) -> None:
        """Destroy the object."""
        if self.handle:
            del self.device.live[self.handle]
            self.handle = 0
            destroyed(f"null_{self.kind}")

    def __repr__(self) -> str:
        return f"<null {self.kind} {self.handle}>"


class NullBuffer(NullObject):
    """Host memory: `data` always, `map` where the snapshot's memory types would let the host see it."""

    kind = "buffer"

    def __init__(self, device: NullDevice, size: int, memory: str) -> None:
        types = preference(device.snapshot, memory)
        if not types:
            raise errors.Unsupported(f"{device.snapshot.name} has no memory for {memory} buffers")
        super().__init__(device)
        self.memory = memory
        self.flags = device.snapshot.memory_types[types[0]].properties
        self.size = self.allocated = size
        self.data = bytearray(size)
        self.map = memoryview(self.data) if self.flags >= {"host_visible", "host_coherent"} else None
        self.address = device.next_address(size) if "bda" in device.profile.features else 0

    def export(self) -> int:
        """The handle, in place of a file descriptor."""
        return self.handle

    def close(self) -> None:
        """Free the buffer."""
        if self.handle:
            self.device.used -= self.size
            self.map = None
            self.address = 0
        super().close()

    def __repr__(self) -> str:
        return f"<null {self.memory} buffer {self.handle} of {self.size} bytes>"


class NullPipelineCache(NullObject):
    """Keeps what it was given and one digest line for each pipeline made with it."""

    kind = "pipeline_cache"

    def __init__(self, device: NullDevice, data: bytes) -> None:
        super().__init__(device)
        self.content = data

    def data(self) -> bytes:
        """The bytes to keep on disk."""
        return self.content


class NullPipeline(NullObject):
    """A kernel's words and ABI."""

    kind = "pipeline"

    def __init__(
        self,
        device: NullDevice,
        words: bytes,
        buffers: int,
        addressing: str,
        name: str,
        texels: tuple[int, ...] = (),
    ) -> None:
        super().__init__(device)
        self.words, self.buffers, self.addressing, self.name = words, buffers, addressing, name
        self.texels = texels or (0,) * buffers

    def statistics(self) -> dict[str, int | float | bool]:
        """Nothing compiles here, so there is nothing to tell."""
        raise errors.Unsupported("the null device compiles no kernels and has no pipeline statistics")

    def __repr__(self) -> str:
        return f"<null pipeline {self.name} {self.addressing} {self.buffers} buffers>"


class NullDescriptorPool(NullObject):
    """Descriptor sets; `device.sets` maps a set to the ranges written last."""

    kind = "descriptor_pool"

    def __init__(self, device: NullDevice, sets: int, buffers: int) -> None:
        super().__init__(device)
        self._room, self._buffers = sets, buffers
        self._made: dict[int, int] = {}

    def allocate(self, pipeline: Any) -> int:
        """A set for a pipeline."""
        require_live(self, pipeline)
        require(
            pipeline.buffers <= self._buffers,
            f"{pipeline!r} has more buffers than this pool's {self._buffers}",
        )
        if len(self._made) == self._room:
            raise failure(c.VK_ERROR_OUT_OF_POOL_MEMORY, "allocating a descriptor set")
        descriptor_set = self.device.next_handle()
        self._made[descriptor_set] = pipeline.buffers
        return descriptor_set

    def write(self, descriptor_set: int, ranges: Sequence[tuple[Any, int, int]]) -> None:
        """Point bindings 0, 1, ... at (buffer, offset, size)."""
        require(descriptor_set in self._made, f"descriptor set {descriptor_set} is not of this pool")
        check_ranges(self.device.profile, self._made[descriptor_set], ranges)
        self.device.sets[descriptor_set] = tuple(ranges)

    def reset(self) -> None:
        """Free every set."""
        require_live(self)
        for descriptor_set in self._made:
            self.device.sets.pop(descriptor_set, None)
        self._made.clear()

    def close(self) -> None:
        """Destroy the pool and its sets."""
        if self.handle:
            self.reset()
        super().close()


class NullTimeline(NullObject):
    """A number that completed submissions raise."""

    kind = "semaphore"

    def __init__(self, device: NullDevice) -> None:
        super().__init__(device)
        self.reached = 0

    def export(self) -> int:
        """The handle, in place of a file descriptor."""
        return self.handle

    def value(self) -> int:
        """The value reached so far."""
        self.device.require_open()
        require_live(self)
        return self.reached

    def wait(self, value: int, timeout_ns: int | None = None) -> bool:
        """Complete pending submissions until `value` is reached; with `timeout_ns=0` only look.

        A wait without a timeout for a value that no submission will signal would never end: it raises InternalError.
        """
        self.device.require_open()
        require_live(self)
        while self.reached < value and timeout_ns != 0 and self.device.complete(1):
            continue
        require(
            self.reached >= value or timeout_ns is not None,
            f"nothing submitted signals {value}: the wait never ends",
        )
        return self.reached >= value


class NullQueryPool(NullObject):
    """Timestamps: each one written is one microsecond after the one before."""

    kind = "query_pool"

    def __init__(self, device: NullDevice, count: int) -> None:
        super().__init__(device)
        self.count = count
        self.ticks: list[int | None] = [None] * count

    def read(self, first: int, count: int) -> list[int]:
        """Ticks of `Device.timestamp_period` nanoseconds."""
        require_live(self)
        found = self.ticks[first : first + count]
        done = [tick for tick in found if tick is not None]
        if len(done) != count:
            raise errors.VulkanError(f"timestamps {first} to {first + count - 1} are not written yet", code=1)
        return done


class NullCommands(NullObject):
    """The calls of a recording, as tuples: ("dispatch_address", pipeline, address, groups), ("barrier", kind), ..."""

    kind = "command_buffer"

    def __init__(self, device: NullDevice) -> None:
        super().__init__(device)
        self.recorded: list[tuple[Any, ...]] = []

    def begin(self, one_time: bool = False) -> None:
        """Start recording."""
        self.recorded = []

    def end(self) -> None:
        """Finish recording."""

    def reset(self) -> None:
        """Drop the recording."""
        self.recorded = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in _RECORDED:
            raise AttributeError(name)

        def record(*arguments: Any) -> None:
            self.recorded.append((name, *arguments))

        return record


_RECORDED = frozenset(
    ("dispatch_address", "dispatch_descriptor", "bind", "push", "descriptors", "dispatch", "barrier", "copy", "fill",
     "reset_queries", "timestamp")
)  # fmt: skip
