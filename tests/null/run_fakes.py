"""A device that executes nothing and finishes when told to: for tests of what `oa._run` does around a device.

Every call can be made to fail once (`fail(call, error)`), every live object is counted (`live`), and completion is under the
test's control: with `auto` the timeline reaches a value when somebody waits for it, otherwise `finish(value)` says so.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oa._device import Limits, Profile
from oa._lower.plan import Access, Barrier, Dispatch, Kernel, Operand, Plan, ScalarWord, Slot, Space
from oa._run.clock import Clock
from oa._run.executor import Executor
from oa._run.pool import Pool, Storage
from oa._run.transfer import Transfer

LIMITS = Limits(
    max_groups=(65535, 65535, 65535),
    max_local=(1024, 1024, 64),
    max_invocations=1024,
    shared_bytes=32768,
    max_storage_range=1 << 27,
    max_allocation=1 << 31,
    subgroup_size=8,
    subgroup_min=8,
    subgroup_max=8,
    push_bytes=128,
    storage_buffers=32,
    offset_alignment=256,
    uniform_alignment=64,
    timestamp_period=2.0,
)


def profile(addressing: str = "address", *, software: bool = False, **limits: Any) -> Profile:
    """A profile with chosen limits."""
    return Profile(
        name="strict",
        addressing=addressing,
        software=software,
        vendor="test",
        features=frozenset(),
        extensions=(),
        limits=dataclasses.replace(LIMITS, **limits),
        unified_memory=False,
        fingerprint="0123456789abcdef",
        tuning="gpu",
        api=(1, 3),
    )


class FakeObject:
    def __init__(self, device: FakeDevice, kind: str, **more: Any) -> None:
        self.device = device
        self.kind = kind
        self.closed = False
        device.live[kind] += 1
        self.__dict__.update(more)

    def close(self) -> None:
        assert not self.closed, f"{self.kind} closed twice"
        self.closed = True
        self.device.live[self.kind] -= 1


class FakeBuffer(FakeObject):
    def __init__(self, device: FakeDevice, size: int, memory: str) -> None:
        super().__init__(device, "buffer", size=size, memory=memory)
        self._size = size if memory == "device" else 0
        #: A test that touches more than 32 MiB is told so by an exception.
        self.bytes = bytearray(min(size, 1 << 25))
        self.address = device.next_address
        device.next_address += (size + 0xFFFF) & ~0xFFFF
        mapped = memory != "device" or device.mapped
        self.map: memoryview | None = memoryview(self.bytes) if mapped else None
        self.flags = (
            frozenset(("host_cached",)) if memory == "download" or device.cached else frozenset[str]()
        )

    def close(self) -> None:
        super().close()
        self.device.memory_left += self._size


class FakeCommands(FakeObject):
    def __init__(self, device: FakeDevice) -> None:
        super().__init__(device, "commands", log=[])

    def begin(self, one_time: bool = False) -> None:
        self.device.called("begin")
        self.log = [("begin", one_time)]

    def end(self) -> None:
        self.device.called("end")

    def reset(self) -> None:
        self.device.called("reset")
        self.log = []

    def barrier(self, kind: str = "compute") -> None:
        self.log.append(("barrier", kind))

    def dispatch_address(self, pipeline: Any, block_address: int, groups: tuple[int, int, int]) -> None:
        self.log.append(("dispatch", pipeline.name, block_address, groups))

    def dispatch_descriptor(self, pipeline: Any, descriptor_set: int, groups: tuple[int, int, int]) -> None:
        self.log.append(("dispatch", pipeline.name, descriptor_set, groups))

    def copy(self, src: FakeBuffer, src_off: int, dst: FakeBuffer, dst_off: int, size: int) -> None:
        self.log.append(("copy", src, src_off, dst, dst_off, size))

    def fill(self, buf: FakeBuffer, off: int, size: int, word: int) -> None:
        self.log.append(("fill", buf, off, size, word))

    def reset_queries(self, pool: Any, first: int, n: int) -> None:
        self.log.append(("reset_queries", first, n))

    def timestamp(self, pool: Any, i: int) -> None:
        self.log.append(("timestamp", i))

    def transfers(self) -> None:
        """Do the copies and fills."""
        for entry in self.log:
            if entry[0] == "copy":
                _, src, src_off, dst, dst_off, size = entry
                assert not (src.closed or dst.closed), "a copy ran on a freed buffer"
                dst.bytes[dst_off : dst_off + size] = src.bytes[src_off : src_off + size]
            elif entry[0] == "fill":
                _, buf, off, size, word = entry
                buf.bytes[off : off + size] = word.to_bytes(4, "little") * (size // 4)


class FakeTimeline(FakeObject):
    def __init__(self, device: FakeDevice) -> None:
        super().__init__(device, "timeline", waits=[])

    def value(self) -> int:
        self.device.called("value")
        return self.device.finished

    def wait(self, value: int, timeout_ns: int | None = None) -> bool:
        self.device.called("wait")
        self.waits.append(value)
        if self.device.auto:
            self.device.finish(value)
        return self.device.finished >= value


class FakePool(FakeObject):
    def __init__(self, device: FakeDevice, sets: int, buffers: int) -> None:
        super().__init__(device, "descriptor_pool", sets=sets, buffers=buffers, made=[])

    def allocate(self, pipeline: Any) -> int:
        self.device.called("allocate")
        assert len(self.made) < self.sets
        self.made.append(pipeline.buffers)
        self.device.sets.append([])
        return len(self.device.sets) - 1

    def write(self, descriptor_set: int, ranges: list[tuple[Any, int, int]]) -> None:
        self.device.called("write")
        assert len(ranges) <= self.buffers + 1
        for binding, (buffer, offset, size) in enumerate(ranges):
            assert offset % (256 if binding else 64) == 0 and offset + size <= buffer.size, (
                offset,
                size,
                buffer.size,
            )
        self.device.sets[descriptor_set] = list(ranges)


class FakeQueries(FakeObject):
    def __init__(self, device: FakeDevice, count: int) -> None:
        super().__init__(device, "query_pool", count=count)

    def read(self, first: int, n: int) -> list[int]:
        self.device.called("read")
        return [1000 + 10 * i * (i + 1) // 2 for i in range(first, first + n)]


class FakeCache(FakeObject):
    def __init__(self, device: FakeDevice, data: bytes) -> None:
        super().__init__(device, "pipeline_cache", content=data)

    def data(self) -> bytes:
        self.device.called("cache_data")
        return self.content + b"+"


class FakeDevice:
    """See the module. `submissions` lists (command logs, signalled value)."""

    def __init__(
        self, of: Profile | None = None, *, mapped: bool = False, auto: bool = True, cached: bool = False
    ) -> None:
        self.profile = of or profile()
        self.mapped = mapped or cached
        self.cached = cached
        self.auto = auto
        self.lost = False
        self.timestamp_period = self.profile.limits.timestamp_period
        self.live: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.finished = 0
        self.next_address = 0x1000_0000
        self.memory_left = 1 << 60
        self.submissions: list[tuple[list[list[Any]], int]] = []
        self.pipelines: list[str] = []
        self.sets: list[
            list[tuple[Any, int, int]]
        ] = []  #: by descriptor set: (buffer, offset, size) from binding 0
        self._failures: dict[str, tuple[int, Callable[[], Exception]]] = {}
        self._pending: list[tuple[Any, int]] = []

    def fail(self, call: str, error: Callable[[], Exception], nth: int = 1) -> None:
        """Let the nth next `call` raise."""
        self._failures[call] = (self.calls[call] + nth, error)

    def called(self, call: str) -> None:
        from oa.errors import DeviceLost

        self.calls[call] += 1
        if self.lost:
            raise DeviceLost("the device was lost earlier")
        when = self._failures.get(call)
        if when is not None and self.calls[call] == when[0]:
            del self._failures[call]
            error = when[1]()
            self.lost = isinstance(error, DeviceLost)
            raise error

    def finish(self, value: int) -> None:
        """Everything up to `value` is done."""
        while self._pending and self._pending[0][1] <= value:
            for commands in self._pending.pop(0)[0]:
                commands.transfers()
        self.finished = max(self.finished, min(value, len(self.submissions)))

    def buffer(self, size: int, memory: str = "device") -> FakeBuffer:
        from oa.errors import OutOfMemory

        self.called("buffer")
        if memory == "device":
            if size > self.memory_left:
                raise OutOfMemory("the driver is out of device memory")
            self.memory_left -= size
        return FakeBuffer(self, size, memory)

    def pipeline_cache(self, data: bytes = b"") -> FakeCache:
        self.called("pipeline_cache")
        return FakeCache(self, data)

    def pipeline(self, kernel_words: bytes, *, buffers: int, addressing: str, cache: Any, subgroup_size: int | None = None,
                 name: str = "", texels: tuple[int, ...] = ()) -> FakeObject:  # fmt: skip
        self.called("pipeline")
        assert isinstance(cache, FakeCache)
        self.pipelines.append(name)
        return FakeObject(self, "pipeline", name=name, buffers=buffers, words=kernel_words)

    def descriptor_pool(self, sets: int, buffers: int) -> FakePool:
        self.called("descriptor_pool")
        return FakePool(self, sets, buffers)

    def commands(self, queue: str = "compute") -> FakeCommands:
        self.called("commands")
        return FakeCommands(self)

    def timeline(self) -> FakeTimeline:
        self.called("timeline")
        return FakeTimeline(self)

    def submit(
        self, commands: Any, *, queue: str = "compute", wait: Any = (), signal: tuple[Any, int]
    ) -> None:
        self.called("submit")
        assert signal[1] == len(self.submissions) + 1, "timeline values are consecutive"
        self.submissions.append(([list(c.log) for c in commands], signal[1]))
        self._pending.append((list(commands), signal[1]))

    def wait_idle(self) -> None:
        self.called("wait_idle")
        self.finish(len(self.submissions))

    def query_pool(self, count: int) -> FakeQueries:
        self.called("query_pool")
        return FakeQueries(self, count)


def kernel(
    name: str = "k", buffers: int = 2, words: int = 1, addressing: str = "address", **more: Any
) -> Kernel:
    """A kernel whose words are its name."""
    return Kernel(name, name.encode(), buffers, words, addressing, more.pop("local_size", (64, 1, 1)), **more)


def operand(
    space: Space, index: int = 0, offset: int = 0, size: int = 1024, access: Access = Access.READ
) -> Operand:
    return Operand(space, index, offset, size, access)


def small_plan(addressing: str = "address", *, scratch: int = 0, scalars: int = 0, constants: tuple[bytes, ...] = (),
               dispatches: int = 2, digest: str = "d1") -> Plan:  # fmt: skip
    """in0 -> out0 through `dispatches` dependent dispatches, with what else is asked for among the operands."""
    extra = [operand(Space.SCRATCH, size=scratch, access=Access.READ | Access.WRITE)] if scratch else []
    extra += [operand(Space.CONSTANT, i, size=len(data)) for i, data in enumerate(constants)]
    word: tuple[int | ScalarWord, ...] = (7, *(ScalarWord(i) for i in range(scalars)))
    k = kernel("k", 2 + len(extra), len(word), addressing)
    operands = (operand(Space.INPUT), operand(Space.OUTPUT, access=Access.WRITE), *extra)
    steps: list[Dispatch | Barrier] = []
    for i in range(dispatches):
        steps += [Barrier()] if i else []
        steps.append(Dispatch(k, (i + 1, 1, 1), operands, word, (i,), f"step{i}"))
    slot = Slot("float32", (256,), 1024)
    return Plan(tuple(steps), (slot,), (slot,), ((0, 0),), scalars, constants, scratch, digest)


class Rig:
    """A fake device with everything of `oa._run` on it."""

    def __init__(self, addressing: str = "address", cache: Path | None = None, **how: Any) -> None:
        self.device = FakeDevice(profile(addressing), **how)
        self.clock = Clock(self.device)
        self.pool = Pool(self.device, self.clock)
        self.transfer = Transfer(self.device, self.pool, self.clock)
        self.executor = Executor(self.device, self.pool, self.clock, cache, self.transfer)
        self.counters = self.executor.counters

    def storages(self, count: int, size: int = 1024) -> list[Storage]:
        return [self.pool.allocate(size) for _ in range(count)]

    def close(self) -> None:
        self.executor.close()
        self.transfer.close()
        self.pool.close()
        self.clock.close()

    def words(self, dispatch: list[Any], count: int) -> np.ndarray:
        """Argument words of a logged dispatch."""
        if self.device.profile.addressing == "address":
            address = dispatch[2]
            blocks = self.executor._arguments._blocks.values()
            buffer = next(b.buffer for b in blocks if b.base <= address < b.base + b.buffer.size)
            return np.frombuffer(buffer.bytes, np.uint32, count, address - buffer.address)
        buffer, offset, _ = self.device.sets[dispatch[2]][0]
        return np.frombuffer(buffer.bytes, np.uint32, count, offset)

    def bound(self, dispatch: list[Any], buffers: int) -> list[tuple[int, int]]:
        """(address, size or 0) of the buffers of a logged dispatch."""
        if self.device.profile.addressing == "address":
            pointers = self.words(dispatch, 2 * buffers).view(np.uint64)
            return [(int(p), 0) for p in pointers]
        return [(buffer.address + offset, size) for buffer, offset, size in self.device.sets[dispatch[2]][1:]]
