"""The memory budget that a driver tells: no block is taken beyond it, what is kept for reuse goes first, and it may change."""

from __future__ import annotations

import dataclasses

import pytest

from oa._run.clock import Clock
from oa._run.pool import Pool
from oa.errors import OutOfMemory
from tests.null.run_fakes import FakeDevice, profile

MIB = 1 << 20


class Budgeted(FakeDevice):
    """A device whose driver tells a budget for its largest heap, of which others use some."""

    def __init__(self, budget: int) -> None:
        super().__init__(dataclasses.replace(profile(), features=frozenset({"memory_budget"})))
        self.budget, self.others, self.pool = budget, 0, None

    def memory_budget(self) -> list[tuple[int, int, int]]:
        """A small heap with room, and the largest one."""
        used = self.pool.reserved if self.pool is not None else 0
        return [(256 * MIB, 256 * MIB, 0), (1 << 40, self.budget, used + self.others)]


def opened(budget: int) -> tuple[Budgeted, Pool]:
    device = Budgeted(budget)
    pool = device.pool = Pool(device, Clock(device))
    return device, pool


def test_no_block_goes_beyond_the_budget() -> None:
    _, pool = opened(100 * MIB)
    held = []
    with pytest.raises(OutOfMemory, match="the budget that the driver gives this process") as caught:
        while True:
            held.append(pool.allocate(3 * MIB))
    assert pool.reserved <= 100 * MIB and len(held) >= 24
    assert caught.value.requested == 3 * MIB


def test_what_is_kept_for_reuse_makes_room() -> None:
    _, pool = opened(100 * MIB)
    held = [pool.allocate(30 * MIB) for _ in range(3)]
    held.clear()
    assert pool.reserved == 90 * MIB
    assert pool.allocate(70 * MIB).size >= 70 * MIB
    assert pool.reserved <= 100 * MIB


def test_a_budget_that_shrinks_and_grows_is_followed() -> None:
    device, pool = opened(100 * MIB)
    first = pool.allocate(40 * MIB)
    device.others = 50 * MIB
    with pytest.raises(OutOfMemory):
        pool.allocate(40 * MIB)
    device.others = 0
    second = pool.allocate(40 * MIB)
    assert first.block is not second.block
    assert pool.stats().allocated == 80 * MIB


def test_a_device_that_tells_none_is_bounded_by_its_driver_alone() -> None:
    device = FakeDevice()
    pool = Pool(device, Clock(device))
    assert pool.allocate(1 << 30).size == 1 << 30
