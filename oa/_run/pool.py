"""Device memory: a caching sub-allocator whose pieces may be dropped in any thread and reused in the queue's order.

A dropped `Storage` only appends to a deque; the next call of the pool takes it back. A range is reused at once, because
whatever is submitted later runs later (one queue, a full barrier at the head of each submission); the host must wait for
`last_use` first.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, NoReturn

from oa._run.clock import Clock
from oa._run.ranges import Ranges
from oa._vk.interface import Buffer, Device
from oa.errors import AllocationLimit, OutOfMemory

__all__ = ["GRANULE", "Block", "MemoryStats", "Pool", "Storage"]

#: Every range starts at and is a multiple of this many bytes: the largest minimum offset alignment that Vulkan allows.
GRANULE = 256

#: Sizes up to here are rounded to a class and have blocks of their own.
_SMALL = 64 << 10

#: Sizes from here have a block of their own.
_DEDICATED = 16 << 20

#: A cached block of its own is reused for a request of at least this fraction of it.
_FIT = 0.75


#: A place is a block's serial number and an offset of this many bits.
_OFFSET_BITS = 48
_OFFSET = (1 << _OFFSET_BITS) - 1
#: Serial number of the first exportable block, so that places of two pools differ.
_SHARED = 1 << 32


def _classes() -> tuple[int, ...]:
    """Size class of n granules, for n up to `_SMALL`: all multiples up to 16, then eight classes a doubling."""
    table = [GRANULE]
    for granules in range(1, _SMALL // GRANULE + 1):
        step = 1 if granules <= 16 else 1 << ((granules - 1).bit_length() - 4)
        table.append(-(-granules // step) * step * GRANULE)
    return tuple(table)


_CLASS = _classes()


class Block:
    """One buffer of the device and what storages need to know of it."""

    __slots__ = ("base", "buffer", "drop", "imported", "kind", "map", "serial")

    def __init__(self, serial: int, kind: str, buffer: Buffer, drop: Callable[[_Dropped], None]) -> None:
        self.serial = serial
        self.kind = kind  #: "small", "large" or "dedicated"
        self.buffer = buffer
        self.base = buffer.address
        self.map = buffer.map
        self.drop = drop
        self.imported: Any = None  #: what another API made of it, freed with the last reference


def _forget(dropped: _Dropped) -> None:
    """A range of a block that is gone."""


_Dropped = tuple[int, int, int, Block]  # size, place, last use, block


class Storage:
    """A sub-allocation: `size` bytes at `offset` of `block`, freed when the last reference goes.

    `address` is 0 without buffer device addresses; `place` is a number no other live range has, the same for the same range;
    `last_use` is the timeline value of its last access.
    """

    __slots__ = ("__weakref__", "address", "block", "last_use", "offset", "place", "size")

    def __init__(self, block: Block, offset: int, size: int, last_use: int) -> None:
        self.block = block
        self.offset = offset
        self.size = size
        self.last_use = last_use
        base = block.base
        self.address = base + offset if base else 0
        self.place = block.serial << _OFFSET_BITS | offset

    def __del__(self) -> None:
        try:
            self.block.drop((self.size, self.place, self.last_use, self.block))
        except AttributeError:
            return  # an interrupt came while it was made

    @property
    def map(self) -> memoryview | None:
        """Its bytes in the host's address space, None where the memory is not mapped."""
        whole = self.block.map
        return None if whole is None else whole[self.offset : self.offset + self.size]

    def __repr__(self) -> str:
        return f"<Storage {self.size} bytes at {self.block.serial}+{self.offset}>"


@dataclass(frozen=True)
class MemoryStats:
    """Bytes: in live storages, held from the driver, most ever live, free inside what is held, largest free range, limit."""

    allocated: int
    reserved: int
    peak: int
    free: int
    largest_free: int
    limit: int | None


class Pool:
    """Sub-allocator of one kind of memory ("device" or "upload").

    `limit` bounds what is held from the driver, in bytes (None: the driver's own limit).
    """

    def __init__(
        self,
        device: Device,
        clock: Clock,
        memory: str = "device",
        limit: int | None = None,
        exportable: bool = False,
    ) -> None:
        limits = device.profile.limits
        self.clock = clock
        self.limit = limit
        #: Bytes of the largest storage: what one allocation, and with descriptors one binding, can cover.
        self.max_size = limits.max_allocation
        if device.profile.addressing == "descriptor":
            self.max_size = min(self.max_size, limits.max_storage_range)
        self.max_size &= -GRANULE
        self.relief: list[
            Callable[[], None]
        ] = []  #: called when memory runs out: drop what can be made again
        self.reserved = 0
        self.allocated = 0
        self.peak = 0
        self._device = device
        self._memory = memory
        self._exportable = exportable
        self._serials = count(_SHARED if exportable else 1)
        self._blocks: dict[int, Block] = {}
        self._dropped: deque[_Dropped] = deque()
        #: Dropped ranges by size, not merged yet, each list a heap: exact reuse is cheap, and the lowest place first makes a
        #: program that repeats itself bind the same places again, whatever order it drops them in.
        self._bins: dict[int, list[tuple[int, int, Block]]] = {}  # (place, last use, block)
        self._binned = {"small": 0, "large": 0}
        self._ranges = {"small": Ranges(), "large": Ranges(), "dedicated": Ranges()}

    def allocate(self, size: int, *, host: bool = False) -> Storage:
        """At least `size` bytes, at a multiple of 256. With `host`, a range the host may write now is preferred.

        Raises OutOfMemory after freeing, waiting and trimming did not help, AllocationLimit when no device of this kind could.
        """
        if self.clock.refusal is not None:
            self.clock.check()
        if self._dropped:
            self.collect()
        if size <= _SMALL:
            kind, need = "small", _CLASS[(size + GRANULE - 1) >> 8]
        else:
            kind, need = "large", (size + GRANULE - 1) & -GRANULE
            if size >= _DEDICATED:
                kind = "dedicated"
            if need > self.max_size:
                self._refuse(size)
        spare = self._bins.get(need)
        if spare:
            found = self._idle(spare, kind, need) if host else heappop(spare)
            if found is not None:
                self._binned[kind] -= need
                return self._storage(found[2], found[0] & _OFFSET, need, found[1])
        return self._carve(kind, need, host)

    def _refuse(self, size: int) -> NoReturn:
        raise AllocationLimit(
            f"allocation of {size:,} bytes: one allocation of this device holds at most {self.max_size:,}; "
            "split the value, or work on it in parts",
            requested=size,
            free=self.free,
            largest=self.max_size,
        )

    def _storage(self, block: Block, offset: int, size: int, last: int) -> Storage:
        self.allocated += size
        if self.allocated > self.peak:
            self.peak = self.allocated
        return Storage(block, offset, size, last)

    def _idle(
        self, spare: list[tuple[int, int, Block]], kind: str, need: int
    ) -> tuple[int, int, Block] | None:
        """A spare range whose last use has passed, else None where an unused range can be cut, else any."""
        done = self.clock.retire()
        idle = [item for item in spare if item[1] <= done]
        if idle:
            found = min(idle)
            spare.remove(found)
            heapify(spare)
            return found
        return None if self._ranges[kind].largest >= need else heappop(spare)

    def _carve(self, kind: str, need: int, host: bool) -> Storage:
        """A range from free ranges or a new block, or, when memory runs out, after each thing that can free some."""
        found = self._take(kind, need, host)
        if found is None and self._binned.get(kind, 0) >= need:
            self._merge(kind)
            found = self._take(kind, need, host)
        if found is None and self._grow(kind, need):
            found = self._take(kind, need, False)
        if found is None:
            found = self._squeeze(kind, need)
        serial, offset, last = found
        size = self._blocks[serial].buffer.size if kind == "dedicated" else need
        return self._storage(self._blocks[serial], offset, size, last)

    def _squeeze(self, kind: str, need: int) -> tuple[int, int, int]:
        for _ in self._reclaim():
            found = self._take(kind, need, False)
            if found is None and self._grow(kind, need):
                found = self._take(kind, need, False)
            if found is not None:
                return found
        self._exhausted(need)

    def _take(self, kind: str, need: int, host: bool) -> tuple[int, int, int] | None:
        ranges = self._ranges[kind]
        if kind == "dedicated":
            fits = [
                (self._blocks[s].buffer.size, s)
                for s, _ in ranges.whole()
                if need <= self._blocks[s].buffer.size <= need / _FIT
            ]
            return ranges.take_block(min(fits)[1]) if fits else None
        if host:
            found = ranges.take(need, idle_at=self.clock.retire())
            if found is not None:
                return found
        return ranges.take(need)

    def _grow(self, kind: str, need: int) -> bool:
        """Add a block that holds `need`: the preferred size, else just enough. False when the driver or `limit` refuses."""
        for size in dict.fromkeys((self._block_size(kind, need), need)):
            if self.limit is not None and self.reserved + size > self.limit:
                continue
            if size > self._budget_left():
                continue
            try:
                buffer = (
                    self._device.buffer(size, self._memory, True)
                    if self._exportable
                    else self._device.buffer(size, self._memory)
                )
            except OutOfMemory:
                continue
            block = Block(next(self._serials), kind, buffer, self._dropped.append)
            self._blocks[block.serial] = block
            self._ranges[kind].add(block.serial, size)
            self.reserved += size
            return True
        return False

    def _budget_left(self) -> int:
        """What the driver lets this process have more of its largest heap: beyond the budget it pages, or takes from others.
        Asked for each new block, of which there are few."""
        if "memory_budget" not in self._device.profile.features:
            return 1 << 62
        _, budget, usage = max(self._device.memory_budget())
        return max(0, budget - usage)

    def _block_size(self, kind: str, need: int) -> int:
        """Blocks grow with what is held already, so that few are needed and little is wasted on a small job."""
        if kind == "dedicated":
            return need
        least, most = (1 << 20, 8 << 20) if kind == "small" else (_DEDICATED, 128 << 20)
        size = least
        while size * 8 <= self.reserved and size < most:
            size *= 2
        return max(need, min(size, self.max_size))

    def _reclaim(self) -> Iterator[None]:
        """Each step frees more than the one before: garbage, what can be made again, then whatever is still running."""
        gc.collect()
        self.collect()
        self.trim()
        yield
        for drop in self.relief:
            drop()
        self.clock.wait(self.clock.submitted)
        self.collect()
        self.trim()
        yield

    def _exhausted(self, need: int) -> NoReturn:
        stats = self.stats()
        bound = "the device" if self.limit is None else f"the limit of {self.limit:,}"
        if self.limit is None and self._budget_left() < need:
            bound = "the budget that the driver gives this process"
        raise OutOfMemory(
            f"out of memory: {need:,} bytes wanted, {bound} leaves too little ({stats.allocated:,} in use, "
            f"{stats.free:,} free in pieces of at most {stats.largest_free:,}); drop values or use smaller batches",
            requested=need,
            free=stats.free,
            largest=stats.largest_free,
        )

    def owns(self, storage: Storage) -> bool:
        """Whether the storage is a part of one of this pool's blocks."""
        return self._blocks.get(storage.block.serial) is storage.block

    def collect(self) -> None:
        """Take back what was dropped since the last call."""
        dropped, bins = self._dropped, self._bins
        while dropped:
            size, place, last, block = dropped.popleft()
            self.allocated -= size
            if block.kind == "dedicated":
                self._ranges["dedicated"].give(block.serial, 0, size, last)
                continue
            self._binned[block.kind] += size
            spare = bins.get(size)
            if spare is None:
                spare = bins[size] = []
            heappush(spare, (place, last, block))

    def _merge(self, kind: str) -> None:
        """Merge the dropped ranges of a kind with their free neighbours."""
        ranges = self._ranges[kind]
        for size in [size for size in self._bins if (size <= _SMALL) == (kind == "small")]:
            for place, last, block in self._bins.pop(size):
                ranges.give(block.serial, place & _OFFSET, size, last)
        self._binned[kind] = 0

    def trim(self) -> int:
        """Give unused blocks whose last use has passed back to the driver; return the bytes given back."""
        self.collect()
        for kind in self._binned:
            self._merge(kind)
        done = self.clock.retire()
        before = self.reserved
        for ranges in self._ranges.values():
            for serial, last in list(ranges.whole()):
                if last <= done:
                    ranges.remove(serial)
                    self._release(serial)
        return before - self.reserved

    def _release(self, serial: int) -> None:
        block = self._blocks.pop(serial)
        self.reserved -= block.buffer.size
        block.map = None
        block.drop = _forget
        block.buffer.close()

    @property
    def free(self) -> int:
        """Bytes held from the driver and not in a live storage."""
        return self.reserved - self._live()

    def _live(self) -> int:
        if not self.reserved:  # closed: what is still held lies nowhere
            return 0
        return self.allocated - sum(item[0] for item in self._dropped.copy())

    def stats(self) -> MemoryStats:
        """The figures now. Any thread may ask."""
        live = self._live()
        if not self.reserved:
            return MemoryStats(0, 0, self.peak, 0, 0, self.limit)
        largest = max((ranges.largest for ranges in self._ranges.values()), default=0)
        largest = max(largest, max((size for size, spare in list(self._bins.items()) if spare), default=0))
        return MemoryStats(live, self.reserved, self.peak, self.reserved - live, largest, self.limit)

    def close(self) -> None:
        """Give everything back. Storages still held may be dropped later; they must not be used. Nothing in a forked child."""
        if self.clock.forked:
            return
        for serial in list(self._blocks):
            self._release(serial)
