"""Device memory shared with CUDA: values lent without a copy, others' memory copied on the device, in the order of both queues.

Memory that another API may import has blocks of its own: a value that is lent for the first time is copied into one, on the
device, and stays there, so that it is lent without a copy from then on. Two timelines order the queues: CUDA's streams wait for
one that submissions signal, submissions wait for one that streams signal.

What was lent may be in use on a stream when its consumer drops it, so it goes back to the pool only after the stream: the
submissions that follow wait for the default stream; of other streams, which may be gone, the host waits for the context.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from oa._run.clock import Clock
from oa._run.pool import Pool, Storage
from oa._run.transfer import Transfer
from oa._vk.cuda import HOST_WAY, Cuda
from oa._vk.interface import Device
from oa.errors import Unsupported

#: CUDA's handle of the legacy default stream, which is never destroyed.
DEFAULT_STREAM = 1
#: In place of a stream: the consumer will order nothing, so the host waits.
NO_STREAM = -1


class _Returned(deque[tuple[Storage, int]]):
    """What consumers have dropped, with their streams; nobody asks any more once the engine is closed."""

    closed = False


class Lent:
    """Memory that a consumer holds: `pointer` is its address for CUDA. Dropping it gives the memory back."""

    __slots__ = ("_memory", "_returned", "_storage", "_stream", "pointer")

    def __init__(self, storage: Storage, stream: int, returned: _Returned) -> None:
        self._storage, self._stream, self._returned = storage, stream, returned
        self._memory = storage.block.imported  # keeps the bytes alive when the engine is closed
        self.pointer: int = self._memory.pointer + storage.offset

    def __del__(self) -> None:
        if not self._returned.closed:
            self._returned.append((self._storage, self._stream))


class Sharing:
    """One engine's side of sharing with CUDA. Cheap to make: CUDA is opened when `cuda` is first asked for."""

    def __init__(self, device: Device, pool: Pool, clock: Clock, transfer: Transfer) -> None:
        self._device, self._clock, self._transfer = device, clock, transfer
        self.pool = Pool(device, clock, exportable=True)
        pool.relief.append(self.reclaim)
        self.pool.relief.append(self.reclaim)
        self._own = pool
        self._cuda: Cuda | None = None
        self._timelines: list[tuple[Any, Any]] = []  # (Vulkan's, CUDA's): first the one that Vulkan signals
        self._values = [0, 0]
        self._returned = _Returned()
        self._borrowed: deque[tuple[int, Any]] = deque()

    @property
    def possible(self) -> bool:
        """Whether the device can share at all, before CUDA is asked."""
        return {"external_memory_fd", "external_semaphore_fd"} <= self._device.profile.features

    @property
    def cuda(self) -> Cuda:
        """CUDA on this device; raises Unsupported, naming the way through the host."""
        if self._cuda is None:
            if not self.possible:
                raise Unsupported(
                    f"{self._device.snapshot.name} shares no memory with CUDA: it takes NVIDIA's driver; {HOST_WAY}"
                )
            cuda = Cuda(self._device.snapshot.uuid)
            for _ in range(2):
                timeline = self._device.timeline(True)
                self._timelines.append((timeline, cuda.semaphore(timeline.export())))
            self._cuda = cuda
        return self._cuda

    def lend(self, storage: Storage, stream: int) -> tuple[Storage, Lent]:
        """The storage, or a copy of it that can be shared, and its loan to a consumer on `stream`.

        The stream waits for what was submitted so far; with `NO_STREAM` the host does.
        """
        self.settle()
        cuda = self.cuda
        if not self.pool.owns(storage):
            shared = self.pool.allocate(storage.size)
            self._transfer.copy(storage, 0, shared, 0, storage.size)
            storage = shared
        self._import(cuda, storage)
        self._order(storage, stream)
        return storage, Lent(storage, stream, self._returned)

    def borrow(self, source: int, size: int, keep: Any) -> Storage:
        """A copy of `size` bytes at a CUDA address, made on the default stream; `keep` is held until it is done."""
        self.settle()
        cuda = self.cuda
        storage = self.pool.allocate(max(16, size))
        memory = self._import(cuda, storage)
        self._order(storage, DEFAULT_STREAM)
        cuda.copy(memory.pointer + storage.offset, source, size, DEFAULT_STREAM)
        storage.last_use = self._follow(DEFAULT_STREAM)
        self._borrowed.append((storage.last_use, keep))
        return storage

    def _import(self, cuda: Cuda, storage: Storage) -> Any:
        block = storage.block
        if block.imported is None:
            block.imported = cuda.memory(block.buffer.export(), block.buffer.allocated, block.buffer.size)
        return block.imported

    def _order(self, storage: Storage, stream: int) -> None:
        """What the stream does from now on comes after the last use of the storage."""
        if storage.last_use <= self._clock.retire():
            return
        if stream == NO_STREAM:
            self._clock.wait(storage.last_use)
            return
        timeline, semaphore = self._timelines[0]
        self._values[0] += 1
        self._clock.signal(timeline, self._values[0])
        semaphore.wait(self._values[0], stream)

    def _follow(self, stream: int) -> int:
        """What is submitted from now on comes after what the stream was given."""
        timeline, semaphore = self._timelines[1]
        self._values[1] += 1
        semaphore.signal(self._values[1], stream)
        return self._clock.follow(timeline, self._values[1], "work on a CUDA stream")

    def settle(self) -> None:
        """Let go of what copies have left behind, and take back what consumers have dropped."""
        if self._borrowed:
            done = self._clock.retire()
            while self._borrowed and self._borrowed[0][0] <= done:
                self._borrowed.popleft()
        if not self._returned:
            return
        back = [self._returned.popleft() for _ in range(len(self._returned))]
        if all(stream == DEFAULT_STREAM for _, stream in back):
            value = self._follow(DEFAULT_STREAM)
            for storage, _ in back:
                storage.last_use = max(storage.last_use, value)
        else:
            self.cuda.synchronize()

    def reclaim(self) -> None:
        """When memory runs out: take back what can be, and free blocks that nobody uses."""
        if self._cuda is not None:
            self.settle()
            self.pool.trim()

    def close(self) -> None:
        """Wait for both sides and free what this made. What consumers still hold stays theirs."""
        if self._clock.forked:
            return
        for pool in (self._own, self.pool):
            if self.reclaim in pool.relief:
                pool.relief.remove(self.reclaim)
        if self._cuda is not None and self._clock.settle():
            self._cuda.synchronize()
            self._device.wait_idle()
        for timeline, semaphore in self._timelines:
            semaphore.close()
            timeline.close()
        self._timelines.clear()
        self._borrowed.clear()
        self._returned.closed = True
        self._returned.clear()
        self.pool.close()


__all__ = ["DEFAULT_STREAM", "NO_STREAM", "Lent", "Sharing"]
