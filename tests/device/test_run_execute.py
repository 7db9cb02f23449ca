"""`oa._run` on a real device, in each profile and addressing: results, transfers, timestamps, memory, and nothing left behind."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from oa._lower.plan import Access, Barrier, Dispatch, Operand, Plan, Slot, Space
from oa._run.cache import DiskCache
from oa._run.clock import Event
from oa._run.pool import Storage
from oa._run.profiler import Profiler
from oa._vk import counts
from tests.conftest import CONFIGURATIONS
from tests.device.run_kernels import Rig, blend, chain, chained, rig

COUNT = 5000


@pytest.fixture(scope="module", params=list(CONFIGURATIONS))
def run(
    request: pytest.FixtureRequest, device_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rig]:
    before = counts()
    with rig(device_name, *CONFIGURATIONS[request.param], tmp_path_factory.mktemp("cache")) as made:
        yield made
    assert counts() == before


def values(seed: int = 0, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)


def test_a_chain_through_scratch(run: Rig) -> None:
    data = values()
    for length in (1, 2, 7):
        plan = chain(run.addressing, COUNT, length)
        source, target = run.array(data), run.pool.allocate(4 * COUNT)
        run.executor.run(plan, [source], [target])
        assert (run.read(target, COUNT) == chained(data, length)).all()


def test_replays_with_other_buffers_and_scalars(run: Rig) -> None:
    plan = chain(run.addressing, COUNT, 3, scalars=True)
    rng = np.random.default_rng(1)
    sources = [(run.array(values(seed)), values(seed)) for seed in range(5)]
    live: list[tuple[Storage, np.ndarray]] = []
    for _ in range(60):
        source, data = sources[rng.integers(5)]
        scalar = int(rng.integers(0, 1 << 32))
        target = run.pool.allocate(4 * COUNT)
        run.executor.run(plan, [source], [target], [scalar])
        live.append((target, chained(data, 3, scalar)))
        if len(live) > 8:
            live.pop(int(rng.integers(8)))
    for target, want in live:
        assert (run.read(target, COUNT) == want).all()


def test_uploads_wait_for_nothing_and_change_nothing_that_runs(run: Rig) -> None:
    plan = chain(run.addressing, COUNT, 2)
    source = run.array(values(0))
    outputs = []
    for seed in range(12):
        run.transfer.upload(source, values(seed))
        target = run.pool.allocate(4 * COUNT)
        run.executor.run(plan, [source], [target])
        outputs.append(target)
    for seed, target in enumerate(outputs):
        assert (run.read(target, COUNT) == chained(values(seed), 2)).all()


def test_in_place_and_constants(run: Rig) -> None:
    size = 4 * COUNT
    slot = Slot("uint32", (COUNT,), size)
    constant = values(9)
    operands = (
        Operand(Space.INPUT, 0, 0, size, Access.READ),
        Operand(Space.CONSTANT, 1, 0, size, Access.READ),
        Operand(Space.OUTPUT, 0, 0, size, Access.WRITE),
    )
    kernel, groups = blend(run.addressing), (-(-COUNT // 64), 1, 1)
    plan = Plan(
        (Dispatch(kernel, groups, operands, (COUNT, 5)),),
        (slot,),
        (slot,),
        ((0, 0),),
        0,
        (b"x", constant.tobytes()),
    )
    data = values(3)
    state = run.array(data)
    for _ in range(4):
        run.executor.run(plan, [state], [state])
        data = data * np.uint32(5) + constant
    assert (run.read(state, COUNT) == data).all()


@pytest.mark.parametrize("size", (0, 1, 2, 3, 5, 255, 257, 65_537, 40_000_003))
def test_bytes_of_any_size_come_back(run: Rig, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    storage = run.transfer.create(data)
    assert (run.transfer.download(storage, 0, size) == data).all()
    half = size // 2
    run.transfer.upload(storage, data[:half].copy(), size - half)
    want = np.concatenate([data[: size - half], data[:half]])
    assert (run.transfer.download(storage, 0, size) == want).all()
    del storage


def test_copy_and_fill(run: Rig) -> None:
    a, b = run.array(values(1)), run.array(values(2))
    run.transfer.copy(a, 400, b, 100, 1200)
    run.transfer.fill(b, 4000, 16, 0xDEADBEEF)
    want = values(2)
    want[25:325] = values(1)[100:400]
    want[1000:1004] = 0xDEADBEEF
    assert (run.read(b, COUNT) == want).all()


def test_events_from_another_thread(run: Rig) -> None:
    plan = chain(run.addressing, COUNT, 20)
    source, target = run.array(values()), run.pool.allocate(4 * COUNT)
    event = Event(run.clock, run.executor.run(plan, [source], [target]))
    seen: list[bool] = []
    threads = [threading.Thread(target=lambda: seen.append(event.wait(30))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 3 and event.done


def test_timestamps_are_ordered_and_cover_every_dispatch(run: Rig, tmp_path: Path) -> None:
    plan = chain(run.addressing, COUNT, 6)
    source, target = run.array(values()), run.pool.allocate(4 * COUNT)
    profiler = Profiler()
    for _ in range(7):
        run.executor.run(plan, [source], [target], timing=profiler)
    assert (run.read(target, COUNT) == chained(values(), 6)).all()
    rows = profiler.rows()
    assert [row.label for row in rows] == [f"link{i}" for i in range(6)] * 7
    assert all(row.ns >= 0 for row in rows) and sum(row.ns for row in rows) > 0
    for a, b in pairwise(rows):
        assert b.start >= a.start + a.ns - 1e-3
    events = json.loads(profiler.write_trace(tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(e["ph"] == "X" for e in events) == 42
    assert "link0" in profiler.table()


def test_nothing_stays_behind_over_many_runs(run: Rig) -> None:
    source = run.array(values())

    def work(times: int) -> None:
        for i in range(times):
            plan = chain(run.addressing, COUNT, 2, digest=f"plan{i}")
            for _ in range(4):
                target = run.pool.allocate(4 * COUNT)
                run.executor.run(plan, [source], [target])
        del plan, target
        gc.collect()
        run.clock.wait(run.clock.submitted)
        run.executor._bury()
        run.pool.collect()

    work(20)
    before, allocated, reserved = counts(), run.pool.allocated, run.pool.reserved
    work(60)
    assert counts() == before
    assert (run.pool.allocated, run.pool.reserved) == (allocated, reserved)


def test_independent_dispatches_and_a_wide_plan(run: Rig) -> None:
    """One plan of 300 dispatches over 100 scratch arrays."""
    size, room, width = 4 * 256, 4 * 256, 100
    kernel = blend(run.addressing)
    read, write = Access.READ, Access.WRITE
    steps: list[Dispatch | Barrier] = []
    for level in range(3):
        steps += [Barrier()] if level else []
        for k in range(width):
            a = (
                Operand(Space.INPUT, 0, 0, size, read)
                if not level
                else Operand(Space.SCRATCH, 0, k * room, size, read)
            )
            b = Operand(Space.INPUT, 0, 0, size, read)
            # Each level writes another half of the arena, so that no dispatch overwrites what another one reads.
            c = (
                Operand(Space.SCRATCH, 0, k * room, size, write)
                if level < 2
                else Operand(Space.OUTPUT, k, 0, size, write)
            )
            if level == 1:
                c = Operand(Space.SCRATCH, 0, (width + k) * room, size, write)
            if level == 2:
                a = Operand(Space.SCRATCH, 0, (width + k) * room, size, read)
            steps.append(Dispatch(kernel, (4, 1, 1), (a, b, c), (256, k), (), f"k{k}"))
    slot = Slot("uint32", (256,), size)
    plan = Plan(tuple(steps), (slot,), (slot,) * width, (), 0, (), 2 * width * room, "wide")
    data = values(4, 256)
    source = run.array(data)
    for _ in range(2):
        targets = [run.pool.allocate(size) for _ in range(width)]
        run.executor.run(plan, [source], targets)
        for k in range(0, width, 9):
            want = data
            for _ in range(3):
                want = want * np.uint32(k) + data
            assert (run.read(targets[k], 256) == want).all()


def test_the_pipeline_cache_file_is_written_and_read(device_name: str, tmp_path: Path) -> None:
    for _ in range(2):
        with rig(device_name, None, None, tmp_path) as made:
            source, target = made.array(values()), made.pool.allocate(4 * COUNT)
            made.executor.run(chain(made.addressing, COUNT, 1), [source], [target])
            assert (made.read(target, COUNT) == chained(values(), 1)).all()
            disk = DiskCache(tmp_path, made.device.profile.fingerprint)
    assert disk.path is not None and disk.path.exists()
    disk.path.write_bytes(disk.path.read_bytes()[:-3])
    with rig(device_name, None, None, tmp_path) as made:
        source, target = made.array(values()), made.pool.allocate(4 * COUNT)
        made.executor.run(chain(made.addressing, COUNT, 1), [source], [target])
        assert (made.read(target, COUNT) == chained(values(), 1)).all()
