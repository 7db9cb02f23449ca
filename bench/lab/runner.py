"""A device opened straight through `oa._vk`, and a family's launches on it: for labs and for tests below the engine."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from oa._device import plan, select
from oa._kernel.pack import Kernel
from oa._vk import open_instance

_ARGS = 1 << 20
Array = npt.NDArray[Any]


class Launch(Protocol):
    """What a family plans: one dispatch over named operands."""

    kernel: Kernel
    groups: tuple[int, int, int]
    operands: tuple[str, ...]
    words: tuple[int, ...]


class Runner:
    """Runs lists of launches, with a full barrier between each two. `device` is an open `oa._vk` device."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.profile = device.profile
        self._args = device.buffer(_ARGS, "upload")
        self._pools: dict[int, Any] = {}
        self._pipelines: dict[str, Any] = {}
        self._timeline = device.timeline()
        self._value = 0

    def pipeline(self, kernel: Kernel) -> Any:
        """The pipeline of a kernel, made once."""
        found = self._pipelines.get(kernel.digest)
        if found is None:
            found = self.device.pipeline(
                kernel.words,
                buffers=kernel.buffers,
                addressing=kernel.addressing,
                subgroup_size=kernel.subgroup_size,
                name=kernel.name,
                texels=kernel.texels,
            )
            self._pipelines[kernel.digest] = found
        return found

    def upload(self, data: Array) -> Any:
        """A buffer with the bytes of an array, in device memory that the host can write, else in host memory."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
        buffer = self.device.buffer(max(16, raw.nbytes), "device")
        if buffer.map is None:
            buffer.close()
            buffer = self.device.buffer(max(16, raw.nbytes), "upload")
        buffer.map[: raw.nbytes] = raw
        return buffer

    def scratch(self, size: int) -> Any:
        """A buffer in device memory, its content undefined."""
        return self.device.buffer(max(16, size), "device")

    def download(self, buffer: Any, count: int) -> Array:
        """The first `count` float32 of a buffer."""
        target = self.device.buffer(max(16, 4 * count), "download")
        commands = self.device.commands()
        commands.begin(one_time=True)
        commands.barrier("all")
        commands.copy(buffer, 0, target, 0, target.size)
        commands.barrier("host")
        commands.end()
        self._submit(commands)
        found = np.frombuffer(bytes(target.map[: 4 * count]), np.float32)
        target.close()
        commands.close()
        return found

    def run(self, launches: Sequence[Launch], buffers: Mapping[str, Any]) -> None:
        """Run and wait."""
        commands = self.device.commands()
        commands.begin(one_time=True)
        commands.barrier("all")
        self._record(commands, self._prepare(launches, buffers), 1)
        commands.end()
        self._submit(commands)
        commands.close()
        self._reset()

    def time(
        self, launches: Sequence[Launch], buffers: Mapping[str, Any], *, repeats: int = 1, rounds: int = 5
    ) -> list[float]:
        """Device seconds of one execution, a figure for each round of `repeats` executions; a warm round comes first."""
        queries = self.device.query_pool(2)
        commands = self.device.commands()
        commands.begin()
        commands.barrier("all")
        commands.reset_queries(queries, 0, 2)
        commands.timestamp(queries, 0)
        self._record(commands, self._prepare(launches, buffers), repeats)
        commands.timestamp(queries, 1)
        commands.end()
        seconds = []
        for _ in range(rounds + 1):
            self._submit(commands)
            first, last = queries.read(0, 2)
            seconds.append((last - first) * self.device.timestamp_period * 1e-9 / repeats)
        commands.close()
        queries.close()
        self._reset()
        return seconds[1:]

    def _prepare(
        self, launches: Sequence[Launch], buffers: Mapping[str, Any]
    ) -> list[tuple[Any, Any, int, Any]]:
        """(pipeline, descriptor set or None, place of the argument block, groups) of each launch."""
        place, made = 0, []
        for launch in launches:
            kernel = launch.kernel
            bound = [buffers[name] for name in launch.operands]
            # Buffers that are read as texels start at the beginning of their view.
            pointers = [b.address if kernel.addressing == "address" else 0 for b in bound]
            block = struct.pack(f"<{len(bound)}Q{len(launch.words)}I", *pointers, *launch.words)
            self._args.map[place : place + len(block)] = block
            chosen = None
            if kernel.addressing == "descriptor":
                pool = self._pools.get(kernel.buffers)
                if pool is None:
                    pool = self._pools[kernel.buffers] = self.device.descriptor_pool(64, kernel.buffers)
                chosen = pool.allocate(self.pipeline(kernel))
                size = -(-len(block) // 16) * 16
                pool.write(chosen, [(self._args, place, size), *((b, 0, b.size) for b in bound)])
            made.append((self.pipeline(kernel), chosen, place, launch.groups))
            place += -(-len(block) // 256) * 256  # uniform buffers start at multiples of up to 256 bytes
        return made

    def _record(self, commands: Any, prepared: Sequence[tuple[Any, Any, int, Any]], repeats: int) -> None:
        for _ in range(repeats):
            for pipeline, chosen, place, groups in prepared:
                if chosen is None:
                    commands.dispatch_address(pipeline, self._args.address + place, groups)
                else:
                    commands.dispatch_descriptor(pipeline, chosen, groups)
                commands.barrier()

    def _submit(self, commands: Any) -> None:
        self._value += 1
        self.device.submit([commands], signal=(self._timeline, self._value))
        self._timeline.wait(self._value)

    def _reset(self) -> None:
        for pool in self._pools.values():
            pool.reset()


@contextmanager
def runner(
    device: str = "auto",
    profile: str | None = None,
    addressing: str | None = None,
    *,
    validation: bool = False,
) -> Iterator[Runner]:
    """A runner on a device chosen by name; afterwards everything is closed."""
    instance = open_instance(validation=validation)
    try:
        adapters = instance.adapters()
        snapshots = [adapter.snapshot() for adapter in adapters]
        chosen = select(snapshots, device)
        opened = adapters[chosen].open(plan(snapshots[chosen], profile, addressing))
        try:
            yield Runner(opened)
        finally:
            opened.close()
    finally:
        instance.close()
