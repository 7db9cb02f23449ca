"""What the executor submits, when it records, rebinds or only resubmits, and that nothing is left behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from oa._lower.plan import Plan
from oa.errors import OutOfMemory
from tests.null.run_fakes import Rig, small_plan

ADDRESSINGS = ("address", "descriptor")


def dispatches(rig: Rig, submission: int = -1) -> list[list[Any]]:
    (log,), _ = rig.device.submissions[submission]
    return [entry for entry in log if entry[0] == "dispatch"]


@pytest.fixture(params=ADDRESSINGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(request.param)
    yield made
    made.close()
    assert not +made.device.live, made.device.live


def addressing(rig: Rig) -> str:
    return rig.device.profile.addressing


def test_submission_has_steps_in_order_behind_a_full_barrier(rig: Rig) -> None:
    plan = small_plan(addressing(rig), dispatches=3)
    value = rig.executor.run(plan, rig.storages(1), rig.storages(1))
    (log,), signalled = rig.device.submissions[0]
    assert value == signalled == 1
    kinds = [(entry[0], entry[1] if entry[0] == "barrier" else None) for entry in log]
    step, between = ("dispatch", None), ("barrier", "compute")
    assert kinds == [("begin", None), ("barrier", "all"), step, between, step, between, step]
    assert [entry[-1] for entry in dispatches(rig)] == [(1, 1, 1), (2, 1, 1), (3, 1, 1)]
    assert log[0] == ("begin", False), "a recording that is submitted again must not be one-time"
    assert rig.counters.as_dict() == {
        "barriers": 2, "dispatches": 3, "pipelines": 1, "rebinds": 0, "recordings": 1, "submissions": 1,
    }  # fmt: skip


def test_argument_words_and_bindings(rig: Rig) -> None:
    constants = (b"abc", bytes(range(256)) * 2)
    plan = small_plan(addressing(rig), scratch=4096, scalars=2, constants=constants)
    (source,), (target,) = rig.storages(1), rig.storages(1)
    rig.executor.run(plan, [source], [target], [0xFFFFFFFF, 5])
    arena = rig.executor._arena
    assert arena is not None and arena.size >= 4096
    for dispatch in dispatches(rig):
        words = rig.words(dispatch, 2 * 5 + 3)
        assert list(words[10:]) == [7, 0xFFFFFFFF, 5]
        (a, _), (b, _), (scratch, _), (c0, size0), (c1, size1) = rig.bound(dispatch, 5)
        assert (a, b, scratch) == (source.address, target.address, arena.address)
        assert c1 - c0 == 256
        if addressing(rig) == "descriptor":
            assert (size0, size1) == (16, 512) and not words[:10].any()
        buffer = next(
            blk.buffer for blk in rig.pool._blocks.values() if blk.base <= c0 < blk.base + blk.buffer.size
        )
        rig.clock.wait(rig.clock.submitted)
        for at, data in ((c0, constants[0]), (c1, constants[1])):
            start = at - buffer.address
            assert bytes(buffer.bytes[start : start + len(data)]) == data


def test_same_bindings_are_only_submitted_again(rig: Rig) -> None:
    plan = small_plan(addressing(rig))
    a, b = rig.storages(2)
    rig.executor.run(plan, [a], [b])
    calls = dict(rig.device.calls)
    for _ in range(10):
        rig.executor.run(plan, [a], [b])
    assert rig.counters.recordings == 1 and rig.counters.rebinds == 0 and rig.counters.submissions == 11
    grown = {name for name, count in rig.device.calls.items() if count != calls.get(name, 0)}
    assert grown <= {"submit", "wait", "value"}


def test_alternating_bindings_are_remembered(rig: Rig) -> None:
    plan = small_plan(addressing(rig))
    a, b, c = rig.storages(3)
    for _ in range(6):
        rig.executor.run(plan, [a], [b])
        rig.executor.run(plan, [b], [a])
        rig.executor.run(plan, [c], [c])
    assert rig.counters.recordings == 3 and rig.counters.rebinds == 0


def test_rebinding_keeps_the_commands_with_addresses_and_records_with_descriptors(rig: Rig) -> None:
    plan = small_plan(addressing(rig))
    held = rig.storages(20)
    for index in range(0, 20, 2):
        rig.executor.run(plan, held[index : index + 1], held[index + 1 : index + 2])
        last = dispatches(rig)[-1]
        assert [where for where, _ in rig.bound(last, 2)] == [held[index].address, held[index + 1].address]
    expected = (3, 7) if addressing(rig) == "address" else (10, 2)
    assert (rig.counters.recordings, rig.counters.rebinds) == expected


@pytest.mark.parametrize("addressing", ADDRESSINGS)
def test_words_of_a_pending_recording_are_never_touched(addressing: str) -> None:
    rig = Rig(addressing, auto=False)
    plan = small_plan(addressing, scalars=1)
    a, b = rig.storages(2)
    seen = []
    for value in range(9):
        # Nothing finishes by itself; before the host would have to wait, the oldest submission is let finish.
        if len(rig.device.submissions) - rig.device.finished >= 3:
            rig.device.finish(rig.device.finished + 1)
        rig.executor.run(plan, [a], [b], [100 + value])
        seen.append(dispatches(rig)[0])
        for back in range(1, min(3, len(seen)) + 1):
            pending = len(seen) - back
            if pending >= rig.device.finished:
                assert rig.words(seen[pending], 6)[5] == 100 + pending
    assert rig.counters.recordings == 3
    rig.device.auto = True
    rig.close()


def test_equal_scalars_resubmit_and_changed_ones_patch(rig: Rig) -> None:
    plan = small_plan(addressing(rig), scalars=1)
    a, b = rig.storages(2)
    for value in (1, 1, 1, 2, 2, 1):
        rig.executor.run(plan, [a], [b], [value])
        assert rig.words(dispatches(rig)[0], 6)[5] == value
        rig.clock.wait(rig.clock.submitted)
    assert rig.counters.recordings == 1


def test_at_most_three_in_flight() -> None:
    rig = Rig()
    plan = small_plan()
    a, b = rig.storages(2)
    for _ in range(8):
        rig.executor.run(plan, [a], [b])
        assert len(rig.device.submissions) - rig.device.finished <= 3
    rig.close()


def test_last_use_follows_every_run(rig: Rig) -> None:
    plan = small_plan(addressing(rig), scratch=512)
    a, b, c = rig.storages(3)
    first = rig.executor.run(plan, [a], [b])
    second = rig.executor.run(plan, [a], [c])
    assert (a.last_use, b.last_use, c.last_use) == (second, first, second)
    assert rig.executor._arena is not None and rig.executor._arena.last_use == second


def test_arena_growth_moves_all_plans_to_the_new_arena(rig: Rig) -> None:
    small, large = (
        small_plan(addressing(rig), scratch=1000),
        small_plan(addressing(rig), scratch=1 << 20, digest="d2"),
    )
    a, b = rig.storages(2)
    rig.executor.run(small, [a], [b])
    old = rig.executor._arena
    assert old is not None
    place, reference = old.place, weakref.ref(old)
    del old
    rig.executor.run(large, [a], [b])
    arena = rig.executor._arena
    assert arena is not None and arena.size >= 1 << 20 and arena.place != place
    assert reference() is None, "the old arena is let go"
    rig.executor.run(small, [a], [b])
    assert rig.bound(dispatches(rig)[0], 3)[2][0] == arena.address
    rig.executor.run(large, [a], [b])
    assert rig.executor._arena is arena


def test_trim_gives_the_arena_up_and_the_next_run_makes_one(rig: Rig) -> None:
    plan = small_plan(addressing(rig), scratch=1 << 20)
    a, b = rig.storages(2)
    rig.executor.run(plan, [a], [b])
    rig.clock.wait(rig.clock.submitted)
    rig.executor.trim()
    assert rig.executor._arena is None
    rig.executor.run(plan, [a], [b])
    assert rig.bound(dispatches(rig)[0], 3)[2][0] == rig.executor._arena.address


def test_an_arena_that_cannot_be_had_leaves_everything_usable(rig: Rig) -> None:
    rig.pool.limit = 24 << 20
    small, large = (
        small_plan(addressing(rig), scratch=1 << 20),
        small_plan(addressing(rig), scratch=48 << 20, digest="l"),
    )
    a, b = rig.storages(2)
    rig.executor.run(small, [a], [b])
    with pytest.raises(OutOfMemory) as caught:
        rig.executor.run(large, [a], [b])
    assert caught.value.requested == 48 << 20
    assert rig.executor.run(small, [a], [b]) == rig.clock.submitted


def test_a_forgotten_plan_may_run_again(rig: Rig) -> None:
    plan = small_plan(addressing(rig))
    a, b = rig.storages(2)
    rig.executor.run(plan, [a], [b])
    rig.executor.forget(plan)
    rig.executor.forget(plan)
    rig.executor.run(plan, [a], [b])
    assert rig.counters.recordings == 2


def test_a_dropped_plan_frees_its_recordings_and_constants(rig: Rig) -> None:
    a, b = rig.storages(2)
    keep = small_plan(addressing(rig))
    rig.executor.run(keep, [a], [b])
    rig.clock.wait(rig.clock.submitted)
    rig.pool.collect()
    before, allocated = +rig.device.live, rig.pool.allocated
    plan = small_plan(addressing(rig), constants=(b"x" * 100,), digest="gone")
    rig.executor.run(plan, [a], [b])
    assert rig.pool.allocated > allocated
    del plan
    gc.collect()
    assert rig.device.live["commands"] > before["commands"], "nothing is freed while it may run"
    rig.clock.wait(rig.clock.submitted)
    rig.pool.collect()
    for kind in ("descriptor_pool", "query_pool"):
        assert rig.device.live[kind] == before[kind]
    assert rig.device.live["commands"] <= before["commands"] + 1, "only the upload's own commands are kept"
    assert rig.pool.allocated == allocated


def test_pipelines_are_made_once_per_kernel(rig: Rig) -> None:
    a, b = rig.storages(2)
    for digest in ("x", "y"):
        rig.executor.run(small_plan(addressing(rig), digest=digest), [a], [b])
    assert rig.device.pipelines == ["k"] and rig.counters.pipelines == 1


def test_empty_plan_runs(rig: Rig) -> None:
    value = rig.executor.run(Plan((), (), ()), [], [])
    assert rig.clock.wait(value)


def test_timed_recordings_are_separate_and_read(rig: Rig) -> None:
    from oa._run.profiler import Profiler

    plan = small_plan(addressing(rig))
    a, b = rig.storages(2)
    rig.executor.run(plan, [a], [b])
    profiler = Profiler()
    for _ in range(5):
        rig.executor.run(plan, [a], [b], timing=profiler)
    rig.executor.run(plan, [a], [b])
    rows = profiler.rows()
    assert [row.label for row in rows] == ["step0", "step1"] * 5
    assert [row.ns for row in rows[:2]] == [20.0, 40.0], "ticks of 10 and 20 at 2 ns each"
    assert [row.submission for row in rows] == [2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    plain, timed = rig.device.submissions[0][0][0], rig.device.submissions[1][0][0]
    assert not any(entry[0] == "timestamp" for entry in plain)
    assert [entry[1] for entry in timed if entry[0] == "timestamp"] == [0, 1, 2]
    assert rig.device.submissions[-1][0][0] == plain
