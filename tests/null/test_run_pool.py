"""The memory pool: no overlap, nothing lost, reuse in queue order, honest figures, typed refusals."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oa._run.clock import Clock
from oa._run.pool import GRANULE, Pool, Storage
from oa._run.ranges import Ranges
from oa.errors import AllocationLimit, OutOfMemory
from tests.null.run_fakes import FakeDevice, profile

MIB = 1 << 20


def made(
    addressing: str = "address", limit: int | None = None, auto: bool = True, **limits: int
) -> tuple[FakeDevice, Pool]:
    device = FakeDevice(profile(addressing, **limits), auto=auto)
    return device, Pool(device, Clock(device), limit=limit)


@pytest.fixture
def pool() -> Iterator[Pool]:
    device, made_pool = made()
    yield made_pool
    made_pool.close()
    assert not device.live["buffer"]


SIZES = st.one_of(
    st.integers(0, 4096), st.integers(1, 70_000), st.integers(1, 3 * MIB), st.integers(15 * MIB, 40 * MIB)
)


@given(st.lists(st.tuples(SIZES, st.booleans(), st.integers(0, 1 << 30), st.integers(0, 5)), max_size=60))
def test_live_storages_never_overlap_and_figures_add_up(steps: list[tuple[int, bool, int, int]]) -> None:
    device, pool = made()
    live: list[Storage] = []
    storage: Storage | None = None
    for size, drop, which, trim in steps:
        if drop and live:
            live.pop(which % len(live))
        else:
            live.append(pool.allocate(size, host=bool(which & 1)))
            storage = live[-1]
            assert storage.size >= size and storage.offset % GRANULE == 0
            assert storage.offset + storage.size <= storage.block.buffer.size
            assert storage.address == storage.block.buffer.address + storage.offset
            storage = None
        if trim == 0:
            pool.trim()
        spans = sorted((s.block.serial, s.offset, s.offset + s.size) for s in live)
        for (b0, _, end), (b1, start, _) in pairwise(spans):
            assert b0 != b1 or end <= start
        stats = pool.stats()
        assert stats.allocated == sum(s.size for s in live) <= stats.peak
        assert stats.reserved == sum(b.buffer.size for b in pool._blocks.values()) >= stats.allocated
        assert stats.free == stats.reserved - stats.allocated >= stats.largest_free
        assert len({s.place for s in live}) == len(live)
    live.clear()
    pool.trim()
    assert pool.stats().allocated == pool.stats().reserved == 0
    assert not device.live["buffer"]


@given(st.data())
def test_ranges_coalesce_back_to_whole_blocks(data: st.DataObject) -> None:
    ranges = Ranges()
    sizes = data.draw(st.lists(st.integers(1, 64).map(lambda n: n * 256), min_size=1, max_size=4))
    for block, size in enumerate(sizes):
        ranges.add(block, size)
    taken: list[tuple[int, int, int]] = []
    for _ in range(data.draw(st.integers(0, 40))):
        if taken and data.draw(st.booleans()):
            block, offset, size = taken.pop(data.draw(st.integers(0, len(taken) - 1)))
            ranges.give(block, offset, size, data.draw(st.integers(0, 9)))
        else:
            size = data.draw(st.integers(1, 16)) * 256
            found = ranges.take(size)
            assert (found is None) == (size > ranges.largest if found is None else False)
            if found is not None:
                taken.append((found[0], found[1], size))
        assert ranges.free == sum(sizes) - sum(size for _, _, size in taken)
    for block, offset, size in taken:
        ranges.give(block, offset, size, 3)
    assert sorted(block for block, _ in ranges.whole()) == list(range(len(sizes)))
    assert ranges.free == sum(sizes) and ranges.largest == max(sizes)


def test_best_fit_takes_the_smallest_range_that_holds_it() -> None:
    ranges = Ranges()
    ranges.add(1, 4096)
    ranges.add(2, 1024)
    assert ranges.take(512) == (2, 0, 0)
    assert ranges.take(1024) == (1, 0, 0)


def test_merged_ranges_keep_the_latest_use() -> None:
    ranges = Ranges()
    ranges.add(1, 768)
    for _ in range(3):
        ranges.take(256)
    ranges.give(1, 0, 256, 5)
    ranges.give(1, 512, 256, 9)
    ranges.give(1, 256, 256, 2)
    assert list(ranges.whole()) == [(1, 9)]
    assert ranges.take(256, idle_at=8) is None
    assert ranges.take(256, idle_at=9) == (1, 0, 9)


def test_a_dropped_range_is_reused_at_once_and_remembers_its_last_use(pool: Pool) -> None:
    for size in (1000, 1 * MIB, 20 * MIB):
        first = pool.allocate(size)
        first.last_use = 7
        place = first.place
        del first
        again = pool.allocate(size)
        assert (again.place, again.last_use) == (place, 7)


def test_host_allocations_avoid_what_the_device_still_uses() -> None:
    device, pool = made(auto=False)
    pool.clock.submitted = 3
    for size in (1000, 1 * MIB):
        busy = pool.allocate(size)
        busy.last_use = 3
        place = busy.place
        del busy
        free = pool.allocate(size, host=True)
        assert free.place != place and free.last_use == 0
        assert pool.allocate(size).place == place
    device.finished = 3


def test_sizes_share_classes_with_little_waste(pool: Pool) -> None:
    for size in range(1, 65536, 97):
        storage = pool.allocate(size)
        assert size <= storage.size <= max(-(-size // 256) * 256, int(size * 1.15) + 256)


def test_descriptors_bound_blocks_and_storages_by_the_storage_range() -> None:
    limit = 32 * MIB
    _, pool = made("descriptor", max_storage_range=limit, max_allocation=1 << 40)
    pool.allocate(limit)
    with pytest.raises(AllocationLimit) as caught:
        pool.allocate(limit + 1)
    assert caught.value.requested == limit + 1 and caught.value.largest == limit
    _, pool = made("address", max_storage_range=limit, max_allocation=1 << 40)
    pool.allocate(limit + 1)


@pytest.mark.parametrize("over", (-1, 0, 1))
def test_the_single_allocation_limit(over: int) -> None:
    limit = 64 * MIB
    _, pool = made(max_allocation=limit)
    if over > 0:
        with pytest.raises(AllocationLimit, match="at most 67,108,864"):
            pool.allocate(limit + over)
    else:
        pool.allocate(limit + over)
    pool.allocate(1)


def test_out_of_memory_names_the_figures_and_leaves_the_pool_usable() -> None:
    _, pool = made(limit=4 * MIB)
    held = [pool.allocate(MIB - 4096) for _ in range(3)]
    with pytest.raises(OutOfMemory) as caught:
        pool.allocate(2 * MIB)
    error = caught.value
    assert error.requested == 2 * MIB
    assert error.free == pool.stats().free and error.largest == pool.stats().largest_free
    assert "4,194,304" in str(error)
    held.pop()
    held.append(pool.allocate(MIB - 4096))
    held.clear()
    pool.allocate(2 * MIB)


def test_memory_comes_back_from_garbage_running_work_and_relief() -> None:
    device, pool = made(limit=40 * MIB)

    class Cycle:
        def __init__(self) -> None:
            self.me = self
            self.storage = pool.allocate(30 * MIB)

    gc.disable()
    try:
        Cycle()
        assert pool.allocate(20 * MIB).size == 20 * MIB
    finally:
        gc.enable()
    running = pool.allocate(30 * MIB)
    device.submit([], signal=(None, 1))
    pool.clock.submitted = running.last_use = 1
    del running
    pool.allocate(20 * MIB)
    assert device.finished == 1, "a block in use is given back only after a wait"
    kept = [pool.allocate(30 * MIB)]
    pool.relief.append(kept.clear)
    pool.allocate(35 * MIB)
    assert not kept


def test_when_the_driver_is_out_of_memory_smaller_blocks_are_tried() -> None:
    device, pool = made()
    device.memory_left = 3 * MIB
    held = [pool.allocate(MIB) for _ in range(3)]
    with pytest.raises(OutOfMemory):
        pool.allocate(MIB)
    held.clear()
    pool.allocate(3 * MIB)


def test_trim_returns_only_what_has_finished() -> None:
    device, pool = made(auto=False)
    storage = pool.allocate(20 * MIB)
    device.submit([], signal=(None, 1))
    pool.clock.submitted = storage.last_use = 1
    del storage
    assert pool.trim() == 0
    device.finish(1)
    assert pool.trim() == 20 * MIB and pool.stats().reserved == 0


def test_storages_may_be_dropped_anywhere_and_after_closing(pool: Pool) -> None:
    held = [pool.allocate(1000) for _ in range(200)]
    late = pool.allocate(10)
    halves = [held[::2], held[1::2]]
    held.clear()
    threads = [threading.Thread(target=half.clear) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    halves.clear()
    assert pool.stats().allocated == late.size
    pool.close()
    del late


def test_the_lowest_free_place_is_taken_whatever_the_order_of_dropping(pool: Pool) -> None:
    for size in (1000, 200_000):
        held = [pool.allocate(size) for _ in range(6)]
        places = [s.place for s in held]
        for order in ((3, 0, 5, 1, 4, 2), (5, 4, 3, 2, 1, 0), (0, 2, 4, 1, 3, 5)):
            for index in order:
                held[index] = pool.allocate(1)  # drops the storage that was there
            held = [pool.allocate(size) for _ in range(6)]
            assert [s.place for s in held] == places


def test_a_steady_loop_reaches_a_fixed_point(pool: Pool) -> None:
    sizes = [100, 5000, 70_000, 300_000, 2 * MIB, 17 * MIB]
    patterns, reserved = [], []
    held: list[Storage] = []
    for _ in range(8):
        held = [
            pool.allocate(size) for size in sizes for _ in range(3)
        ]  # the ones before are dropped only after
        patterns.append([s.place for s in held])
        reserved.append(pool.stats().reserved)
    assert sorted(patterns[3]) == sorted(patterns[5]) == sorted(patterns[7])
    assert reserved[2] == reserved[-1]
