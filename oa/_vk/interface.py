"""The interface that a driver-backed device (`oa._vk.device`) and the null device (`oa._vk.null`) both have.

Code above this package is written against these protocols and never against one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oa._device import Profile, Snapshot

Groups = tuple[int, int, int]


class Buffer(Protocol):
    """Storage; see `oa._vk.memory.VulkanBuffer`."""

    size: int
    address: int
    map: memoryview | None
    flags: frozenset[str]
    allocated: int  #: bytes of its memory, from `size` up

    def export(self) -> int:
        """A file descriptor of memory made exportable."""

    def close(self) -> None:
        """Free the buffer and its memory."""


class PipelineCache(Protocol):
    """Compiled pipelines as bytes."""

    def data(self) -> bytes:
        """The bytes to keep on disk."""

    def close(self) -> None:
        """Destroy the cache."""


class Pipeline(Protocol):
    """A compute pipeline."""

    name: str
    buffers: int
    addressing: str
    texels: tuple[int, ...]

    def statistics(self) -> dict[str, int | float | bool]:
        """What the driver's compiler tells; needs the capability "pipeline_statistics"."""

    def close(self) -> None:
        """Destroy the pipeline."""


class DescriptorPool(Protocol):
    """Descriptor sets, by number."""

    def allocate(self, pipeline: Pipeline) -> int:
        """A set for a pipeline."""

    def write(self, descriptor_set: int, ranges: Sequence[tuple[Buffer, int, int]]) -> None:
        """Point bindings 0, 1, ... at (buffer, offset, size)."""

    def reset(self) -> None:
        """Free every set."""

    def close(self) -> None:
        """Destroy the pool."""


class QueryPool(Protocol):
    """Timestamps."""

    count: int

    def read(self, first: int, count: int) -> list[int]:
        """Ticks of `Device.timestamp_period` nanoseconds."""

    def close(self) -> None:
        """Destroy the pool."""


class Timeline(Protocol):
    """A number that submissions raise; `value` and `wait` from any thread."""

    def export(self) -> int:
        """A file descriptor of a timeline made exportable."""

    def value(self) -> int:
        """The value reached so far."""

    def wait(self, value: int, timeout_ns: int | None = None) -> bool:
        """Wait until `value` is reached; False when the time passed first."""

    def close(self) -> None:
        """Destroy the timeline."""


class Commands(Protocol):
    """A command buffer; see `oa._vk.command.VulkanCommands`."""

    def begin(self, one_time: bool = False) -> None:
        """Start recording."""

    def end(self) -> None:
        """Finish recording."""

    def reset(self) -> None:
        """Drop the recording."""

    def dispatch_address(self, pipeline: Pipeline, block_address: int, groups: Groups) -> None:
        """Run a kernel whose argument block lies at an address."""

    def dispatch_descriptor(self, pipeline: Pipeline, descriptor_set: int, groups: Groups) -> None:
        """Run a kernel whose argument block is at binding 0 of the set."""

    def bind(self, pipeline: Pipeline) -> None:
        """Make a pipeline current."""

    def push(self, pipeline: Pipeline, data: bytes) -> None:
        """Set the push constants."""

    def descriptors(self, pipeline: Pipeline, descriptor_set: int) -> None:
        """Make a descriptor set current."""

    def dispatch(self, x: int, y: int = 1, z: int = 1) -> None:
        """Run the current pipeline."""

    def barrier(self, kind: str = "compute") -> None:
        """ "compute", "all" or "host"."""

    def copy(self, source: Buffer, source_offset: int, target: Buffer, target_offset: int, size: int) -> None:
        """Copy bytes."""

    def fill(self, buffer: Buffer, offset: int, size: int, word: int) -> None:
        """Fill with a 32-bit pattern."""

    def reset_queries(self, pool: QueryPool, first: int, count: int) -> None:
        """Make timestamps writable again."""

    def timestamp(self, pool: QueryPool, index: int) -> None:
        """Write a timestamp."""

    def close(self) -> None:
        """Free the command buffer."""


class Device(Protocol):
    """An open device; see `oa._vk.device.VulkanDevice`."""

    profile: Profile
    snapshot: Snapshot
    lost: bool
    closed: bool

    @property
    def foreign(self) -> bool:
        """True in a process forked from the one that opened the device."""

    @property
    def timestamp_period(self) -> float:
        """Nanoseconds a tick."""

    def buffer(self, size: int, memory: str = "device", exportable: bool = False) -> Buffer:
        """A buffer in "device", "upload" or "download" memory, that another API may import with `exportable`."""

    def pipeline_cache(self, data: bytes = b"") -> PipelineCache:
        """A pipeline cache."""

    def pipeline(
        self,
        kernel_words: bytes,
        *,
        buffers: int,
        addressing: str,
        cache: PipelineCache | None = None,
        subgroup_size: int | None = None,
        name: str = "",
        texels: tuple[int, ...] = (),
    ) -> Pipeline:
        """A compute pipeline."""

    def descriptor_pool(self, sets: int, buffers: int) -> DescriptorPool:
        """Room for descriptor sets."""

    def commands(self, queue: str = "compute") -> Commands:
        """A command buffer."""

    def timeline(self, exportable: bool = False) -> Timeline:
        """A timeline semaphore, at 0, that another API may import with `exportable`."""

    def query_pool(self, count: int) -> QueryPool:
        """Room for timestamps."""

    def submit(
        self,
        commands: Sequence[Commands],
        *,
        queue: str = "compute",
        wait: Sequence[tuple[Timeline, int]] = (),
        signal: tuple[Timeline, int] | None = None,
    ) -> None:
        """Queue recorded commands."""

    def wait_idle(self) -> None:
        """Wait for everything submitted."""

    def memory_budget(self) -> list[tuple[int, int, int]]:
        """(size, budget, usage) of each heap."""

    def close(self) -> None:
        """Destroy the device and everything made from it."""
