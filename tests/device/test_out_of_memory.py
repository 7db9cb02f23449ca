"""Memory runs out at every place where some is asked for: OutOfMemory, nothing lost beside what failed, and the engine goes on.

Two things say no: the engine's own limit, swept upwards so that each step of a scene fails in turn, and the driver, whose every
single refusal is tried.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa._vk import counts
from oa.errors import OutOfMemory, PoisonedValue
from tests.device.fault_rig import SIDE, Scene, settled

#: Steps of a scene that need memory which those before them have not left; the later ones have tests of their own.
ASKING = {"upload", "eager", "scratch", "submit"}


def filled(engine: Any) -> list[Any]:
    """Storages that leave no room for anything large; the limit stands at what is reserved."""
    settled(engine)
    engine.memory_limit = engine.memory.reserved
    held = []
    for size in (1 << 20, 128 << 10, 16 << 10):
        try:
            while True:
                held.append(engine._pool.allocate(size))
        except OutOfMemory:
            continue
    return held


@pytest.fixture
def scene(engine: Any, tmp_path: Path) -> Iterator[Scene]:
    yield Scene(engine, tmp_path)
    engine.memory_limit = None


def fails(scene: Scene) -> str | None:
    """Where the scene fails, and that with OutOfMemory; None when it succeeds."""
    try:
        scene.run()
    except OutOfMemory as error:
        assert error.requested > 0 or "driver" in str(error)
        return scene.step
    return None


def test_every_step_meets_the_limit_and_the_engine_goes_on(scene: Scene) -> None:
    engine = scene.engine
    wanted = scene.run()
    before = settled(engine)
    met, limit = set(), engine.memory.reserved
    for _ in range(200):
        settled(engine)
        engine.memory_limit = limit
        step = fails(scene)
        assert engine.memory.reserved <= limit
        engine.memory_limit = None
        if step is None:
            break
        met.add(step)
        assert settled(engine) <= before, f"{step}: memory is still held"
        assert scene.run() == wanted, f"after {step}"
        limit += 192 << 10
    else:
        pytest.fail(f"the scene never had enough; it failed in {met}")
    assert met >= ASKING, met


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_the_driver_refuses_each_buffer(scene: Scene, monkeypatch: pytest.MonkeyPatch, lasting: bool) -> None:
    """Once: the pool frees what it can and asks again, or the step fails. From then on: the step fails."""
    engine = scene.engine
    monkeypatch.setattr(
        engine._transfer, "_direct", lambda storage: False
    )  # so that reading needs staging memory
    wanted = scene.run()
    before = settled(engine)
    plain, seen = engine.device.buffer, [0]
    refuse: Callable[[int], bool] = lambda number: False  # noqa: E731

    def buffer(size: int, memory: str) -> Any:
        seen[0] += 1
        if refuse(seen[0]):
            raise OutOfMemory("the driver is out of memory")
        return plain(size, memory)

    monkeypatch.setattr(engine.device, "buffer", buffer)
    assert scene.run() == wanted
    asked, met = seen[0], set()
    assert asked >= 3
    for nth in range(1, asked + 1):
        settled(engine)
        seen[0] = 0
        refuse = (lambda number, n=nth: number >= n) if lasting else (lambda number, n=nth: number == n)
        step = fails(scene)
        met.add(step)
        refuse = lambda number: False  # noqa: E731
        assert settled(engine) <= before, f"{step}: memory is still held"
        assert scene.run() == wanted, f"after {step}"
    assert met != {None} if lasting else None in met


def test_downloads_without_staging_memory(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = m.from_numpy(engine, np.arange(1000, dtype=np.float32))
    monkeypatch.setattr(engine._transfer, "_direct", lambda storage: False)
    engine.trim()
    plain = engine.device.buffer

    def buffer(size: int, memory: str) -> Any:
        if memory == "download":
            raise OutOfMemory("the driver is out of memory")
        return plain(size, memory)

    with monkeypatch.context() as patch:
        patch.setattr(engine.device, "buffer", buffer)
        for _ in range(2):
            with pytest.raises(OutOfMemory):
                x.to_numpy()
    assert x.to_numpy().tolist() == list(range(1000))


def test_a_failed_step_leaves_cells_draws_and_outputs_as_they_were(engine: Any) -> None:
    cell = oa.State(engine, m.from_numpy(engine, np.full((SIDE, SIDE), 0.5, np.float32)))

    def advance() -> Any:
        noise = m.uniform(engine, (SIDE, SIDE))
        cell.assign(m.matmul(cell.value, cell.value) * 0.001 + noise)
        return m.sum(cell.value, axis=0)

    engine.rng_state = (5, 0)
    plan = engine.capture(advance)
    engine.submit(plan)
    kept, outputs, state = cell.value, plan.outputs.to_numpy().tobytes(), engine.rng_state
    bits = kept.to_numpy().tobytes()
    held = filled(engine)  # `kept` stops the step from writing in place: it wants new storage
    try:
        for _ in range(3):
            with pytest.raises(OutOfMemory):
                engine.submit(plan)
            assert cell.value is kept and engine.rng_state == state
    finally:
        held.clear()
        engine.memory_limit = None
    assert kept.to_numpy().tobytes() == bits and plan.outputs.to_numpy().tobytes() == outputs
    engine.submit(plan)
    second = cell.value.to_numpy().tobytes()
    again = oa.State(engine, m.from_numpy(engine, np.full((SIDE, SIDE), 0.5, np.float32)))
    cell.assign(again.value)
    engine.rng_state = (5, 0)
    engine.submit(plan)
    engine.submit(plan)
    assert cell.value.to_numpy().tobytes() == second


def test_only_what_failed_is_lost(engine: Any) -> None:
    small = m.from_numpy(engine, np.arange(6, dtype=np.float32))
    (small + 1.0).to_numpy()
    settled(engine)
    engine.memory_limit = engine.memory.reserved + (1 << 20)
    try:
        kept = small + 1.0
        large = m.ones(engine, (1 << 20, 4)) * 2.0
        with pytest.raises(OutOfMemory):
            engine.flush()
        assert kept.tolist() == [1, 2, 3, 4, 5, 6]
        with pytest.raises(PoisonedValue, match="out of memory") as caught:
            large.to_numpy()
        assert isinstance(caught.value.__cause__, OutOfMemory)
    finally:
        engine.memory_limit = None
    large = m.ones(engine, (1 << 20, 4)) * 2.0
    assert (large.to_numpy() == 2).all()


def test_a_value_dropped_makes_room(engine: Any) -> None:
    settled(engine)
    size = 24 << 20
    x = m.zeros(engine, (size // 4,)) + 1.0
    engine.flush()
    engine.memory_limit = engine.memory.reserved + (1 << 20)
    try:
        with pytest.raises(OutOfMemory):
            (m.zeros(engine, (size // 4,)) + 2.0).to_numpy()
        del x
        y = m.zeros(engine, (size // 4,)) + 2.0
        assert (y.to_numpy() == 2).all()
    finally:
        engine.memory_limit = None


def test_an_engine_with_a_limit_from_the_start(device_name: str) -> None:
    before = counts()
    opened = 0
    for limit in (0, 4 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20):
        try:
            with oa.Engine(device=device_name, memory_limit=limit) as engine:
                assert engine.memory_limit == limit == engine.memory.limit
                assert m.sum(m.ones(engine, (10,))).item() == 10
                assert engine.memory.reserved <= limit
                with pytest.raises(OutOfMemory):
                    m.zeros(engine, (limit // 4 + (1 << 18),)).to_numpy()
                assert m.sum(m.ones(engine, (20,))).item() == 20
                opened += 1
        except OutOfMemory:
            assert limit < 1 << 20
        gc.collect()
    assert opened >= 3
    assert counts() == before


def test_binding_and_loading_without_memory_change_nothing(scene: Scene) -> None:
    engine = scene.engine
    x = m.from_numpy(engine, np.full((SIDE, SIDE), 0.5, np.float32))
    engine.flush()
    plan = engine.capture(lambda: x + 1.0)
    engine.submit(plan).wait()
    other = m.transpose(m.from_numpy(engine, np.full((SIDE, SIDE), 4.0, np.float32)))
    loaded = engine.load_plan(scene.saved)
    held = filled(engine)
    try:
        with pytest.raises(OutOfMemory):
            engine.submit(loaded)
        with pytest.raises(OutOfMemory):
            plan.bind(x, other)  # lies otherwise in memory: a copy is made
        with pytest.raises(OutOfMemory):
            engine.load_plan(scene.saved)
        assert plan.inputs[0] is x
        engine.submit(plan)
        assert (plan.outputs.to_numpy() == 1.5).all()
    finally:
        held.clear()
        engine.memory_limit = None
    plan.bind(x, other)
    engine.submit(plan)
    assert (plan.outputs.to_numpy() == 5.0).all()
    engine.submit(loaded)
    assert (loaded.outputs.to_numpy() == SIDE + 1).all()
    loaded = engine.load_plan(scene.saved)
    engine.submit(loaded)
    assert (loaded.outputs.to_numpy() == SIDE + 1).all()
