"""Bytes between host and device, each way through the memory that is fast for it.

Uploads write mapped device memory directly when the range is idle; else they go through staging memory and a copy in queue
order, so that the host never waits for running work. Downloads read device memory directly only where that is cached memory:
reading device-local memory across the bus is a thousand times slower than a copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oa._run.clock import Clock
from oa._run.pool import Pool, Storage
from oa._vk.interface import Buffer, Commands, Device
from oa.errors import InternalError

__all__ = ["Bytes", "Transfer"]

#: What can be uploaded.
Bytes = bytes | bytearray | memoryview | NDArray[Any]

#: Bytes of one staging buffer, and of the largest piece of it used at a time: four pieces overlap host and device copies.
_STAGING = 16 << 20
_PIECE = _STAGING // 4

_ALIGN = 256


class _Ring:
    """A staging buffer used round and round; a place is reused once the submission that used it has finished."""

    def __init__(self, device: Device, clock: Clock, memory: str) -> None:
        self._clock = clock
        self._buffer = device.buffer(_STAGING, memory)
        self._next = 0
        self._used: deque[tuple[int, int, int]] = deque()  # (start, end, timeline value), oldest first
        if self._buffer.map is None:
            self._buffer.close()
            raise InternalError(f"staging: {memory} memory is not mapped, wanted host-visible memory")
        self.map: memoryview | None = self._buffer.map

    @property
    def buffer(self) -> Buffer:
        return self._buffer

    def reserve(self, size: int) -> int:
        """Offset of `size` free bytes, waiting for older users of the place."""
        if self._next + size > _STAGING:
            self._next = 0
        start, end = self._next, self._next + size
        while any(s < end and start < e for s, e, _ in self._used):
            self._clock.wait(self._used.popleft()[2])
        return start

    def commit(self, start: int, size: int, value: int) -> None:
        """The reserved bytes are in use until `value`."""
        self._next = start + -(-size // _ALIGN) * _ALIGN
        self._used.append((start, start + size, value))

    def idle(self, done: int) -> bool:
        """Whether nothing uses it once `done` has passed."""
        return all(value <= done for _, _, value in self._used)

    def close(self) -> None:
        self.map = None
        self._buffer.close()


class Transfer:
    """Uploads, downloads, copies and fills on one device. Belongs to one thread."""

    def __init__(self, device: Device, pool: Pool, clock: Clock) -> None:
        self._device = device
        self._pool = pool
        self._clock = clock
        self._visible = 0  # device writes up to this timeline value may be read through mapped memory
        self._rings: dict[str, _Ring] = {}
        self._commands: deque[tuple[int, Commands]] = (
            deque()
        )  # (timeline value of the last use, commands), oldest first
        pool.relief.append(self.trim)

    def create(self, data: Bytes) -> Storage:
        """A new storage that holds `data` (C-contiguous)."""
        view = _bytes(data)
        storage = self._pool.allocate(len(view), host=True)
        self.upload(storage, view)
        return storage

    def upload(self, storage: Storage, data: Bytes, offset: int = 0) -> None:
        """Write `data` (C-contiguous) at `offset` bytes. It may be changed or freed as soon as this returns."""
        self._clock.check()
        view = _bytes(data)
        _within(storage, offset, len(view))
        mapped = storage.map
        if mapped is not None and (
            storage.last_use <= self._clock.completed or storage.last_use <= self._clock.retire()
        ):
            mapped[offset : offset + len(view)] = view
            return
        ring = self._ring("upload") if len(view) else None
        for start in range(0, len(view), _PIECE):
            piece = view[start : start + _PIECE]
            if ring is None or ring.map is None:
                break
            place = ring.reserve(len(piece))
            ring.map[place : place + len(piece)] = piece
            try:
                self._copy(
                    ring.buffer, place, storage.block.buffer, storage.offset + offset + start, len(piece)
                )
            finally:  # an interrupt may come after the submission
                storage.last_use = self._clock.submitted
                ring.commit(place, len(piece), storage.last_use)

    def download(self, storage: Storage, offset: int = 0, nbytes: int | None = None) -> NDArray[np.uint8]:
        """`nbytes` bytes from `offset` (by default to the end), after everything submitted so far. Waits."""
        size = storage.size - offset if nbytes is None else nbytes
        out = np.empty(size, np.uint8)
        self.download_into(storage, out.data, offset)
        return out

    def download_into(self, storage: Storage, out: memoryview, offset: int = 0) -> None:
        """`download` into memory that the caller has: a writable, contiguous view of bytes."""
        self._clock.check()
        _within(storage, offset, len(out))
        if not len(out):
            return
        mapped = storage.map if self._direct(storage) else None
        if mapped is not None:
            if not self._device.profile.software and storage.last_use > self._visible:
                self._visible = self._submit(lambda commands: None, "barrier", after=True)
            self._clock.wait(max(storage.last_use, self._visible))
            out[:] = mapped[offset : offset + len(out)]
            return
        ring = self._ring("download")
        ready: deque[tuple[int, int, int, int]] = deque()  # (start, place, size, timeline value)
        for start in range(0, len(out), _PIECE):
            size = min(_PIECE, len(out) - start)
            if len(ready) == 3:
                self._receive(ring, out, *ready.popleft())
            place = ring.reserve(size)
            try:
                self._copy(
                    storage.block.buffer,
                    storage.offset + offset + start,
                    ring.buffer,
                    place,
                    size,
                    after=True,
                )
            finally:
                value = storage.last_use = self._clock.submitted
                ring.commit(place, size, value)
            ready.append((start, place, size, value))
        while ready:
            self._receive(ring, out, *ready.popleft())

    def _receive(self, ring: _Ring, out: memoryview, start: int, place: int, size: int, value: int) -> None:
        self._clock.wait(value)
        if ring.map is not None:
            out[start : start + size] = ring.map[place : place + size]

    def _direct(self, storage: Storage) -> bool:
        """Whether the host may read the device's memory where it lies."""
        return self._device.profile.software or "host_cached" in storage.block.buffer.flags

    def copy(
        self, source: Storage, source_offset: int, target: Storage, target_offset: int, nbytes: int
    ) -> int:
        """Copy bytes on the device; return the timeline value."""
        self._clock.check()
        _within(source, source_offset, nbytes)
        _within(target, target_offset, nbytes)
        if not nbytes:
            return self._clock.submitted
        try:
            return self._copy(
                source.block.buffer,
                source.offset + source_offset,
                target.block.buffer,
                target.offset + target_offset,
                nbytes,
            )
        finally:
            source.last_use = target.last_use = self._clock.submitted

    def fill(self, target: Storage, offset: int, nbytes: int, word: int = 0) -> int:
        """Fill with a repeated 32-bit word (`offset` and `nbytes` multiples of 4); return the timeline value."""
        self._clock.check()
        _within(target, offset, nbytes)
        if offset % 4 or nbytes % 4:
            raise InternalError(f"fill: offset {offset} and size {nbytes}, wanted multiples of 4")
        if not nbytes:
            return self._clock.submitted
        buffer, start = target.block.buffer, target.offset + offset
        try:
            return self._submit(lambda commands: commands.fill(buffer, start, nbytes, word), "fill")
        finally:
            target.last_use = self._clock.submitted

    def _copy(
        self, src: Buffer, src_off: int, dst: Buffer, dst_off: int, size: int, *, after: bool = False
    ) -> int:
        return self._submit(
            lambda commands: commands.copy(src, src_off, dst, dst_off, size), "copy", after=after
        )

    def _submit(self, record: Callable[[Commands], None], what: str, *, after: bool = False) -> int:
        """One submission: a full barrier, the commands and, with `after`, a barrier that shows their result to the host."""
        self._clock.room()
        if self._commands and self._commands[0][0] <= self._clock.completed:
            commands = self._commands.popleft()[1]
        else:
            commands = self._device.commands()
        try:
            commands.begin(one_time=True)
            commands.barrier("all")
            record(commands)
            if after:
                commands.barrier("host")
            commands.end()
            return self._clock.submit((commands,), what)
        finally:
            self._commands.append((self._clock.submitted, commands))

    def _ring(self, memory: str) -> _Ring:
        ring = self._rings.get(memory)
        if ring is None:
            ring = self._rings[memory] = _Ring(self._device, self._clock, memory)
        return ring

    def trim(self) -> None:
        """Give up what can be made again and is not in use: staging memory and command buffers."""
        done = self._clock.retire()
        while self._commands and self._commands[0][0] <= done:
            self._commands.popleft()[1].close()
        for memory, ring in list(self._rings.items()):
            if ring.idle(done):
                del self._rings[memory]
                ring.close()

    def close(self) -> None:
        """Wait for what is in flight and free everything. Nothing in a forked child."""
        if self._clock.forked:
            return
        self._clock.settle()
        if self.trim in self._pool.relief:
            self._pool.relief.remove(self.trim)
        for _, commands in self._commands:
            commands.close()
        self._commands.clear()
        for ring in self._rings.values():
            ring.close()
        self._rings.clear()


def _bytes(data: Bytes) -> memoryview:
    """A flat view of bytes."""
    if isinstance(data, np.ndarray):
        if not data.flags.c_contiguous:
            raise InternalError("upload: the array is not contiguous, wanted C-contiguous memory")
        return data.reshape(-1).view(np.uint8).data
    view = memoryview(data)
    if not view.c_contiguous:
        raise InternalError("upload: the data is not contiguous, wanted C-contiguous memory")
    return view.cast("B") if view.nbytes else memoryview(b"")


def _within(storage: Storage, offset: int, nbytes: int) -> None:
    if offset < 0 or nbytes < 0 or offset + nbytes > storage.size:
        raise InternalError(f"transfer: bytes {offset} to {offset + nbytes} of a storage of {storage.size}")
