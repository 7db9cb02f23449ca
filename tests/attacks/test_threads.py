"""Threads that are not the engine's: what they may do, they may do at any time; the rest is refused and changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import ml
from oa.errors import EngineClosed, OaError, WrongThread


def elsewhere(function: Callable[[], object]) -> Any:
    """What a function returns, or the OaError that it raises, in another thread."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(function())
        except OaError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def test_everything_else_is_refused_in_another_thread(engine: Any) -> None:
    x, cell = m.ones(engine, (8,)), oa.State(engine, m.zeros(engine, (8,)))
    stored, pending = x * 2.0, x * 3.0
    stored.to_numpy()
    plan = engine.capture(lambda: x + cell.value)
    tape = ml.GradientTape(persistent=True)
    uses: dict[str, Callable[[], object]] = {
        "record": lambda: x + 1.0,
        "create": lambda: m.zeros(engine, (3,)),
        "upload": lambda: m.from_numpy(engine, np.zeros(3, np.float32)),
        "draw": lambda: m.uniform(engine, (3,)),
        "read": stored.to_numpy,
        "read pending": pending.tolist,
        "item": lambda: bool(x[0] > 0),
        "flush": engine.flush,
        "wait": engine.wait,
        "trim": engine.trim,
        "capture": lambda: engine.capture(lambda: x + 1.0),
        "submit": lambda: engine.submit(plan),
        "bind": lambda: plan.bind(x, stored),
        "assign": lambda: cell.assign(stored),
        "read cell": lambda: cell.value,
        "seed": lambda: setattr(engine, "rng_state", (1, 2)),
        "profile": lambda: engine.profile().__enter__(),
        "close": engine.close,
        "tape": lambda: (tape.__enter__(), x * x),
    }
    state = engine.rng_state
    for name, use in uses.items():
        assert isinstance(elsewhere(use), WrongThread), name
    tape.close()
    assert engine.rng_state == state and not engine.is_recording
    assert pending.tolist() == [3.0] * 8 and cell.value.tolist() == [0.0] * 8
    engine.submit(plan)
    assert plan.outputs.tolist() == [1.0] * 8


def test_events_memory_and_dropping_are_for_every_thread(engine: Any) -> None:
    cell, x = oa.State(engine, m.zeros(engine, (4096,))), m.ones(engine, (4096,))

    def step() -> Any:
        cell.assign(cell.value + x)
        return m.sum(cell.value)

    plan = engine.capture(step)
    stop, trouble = threading.Event(), []
    events: list[Any] = []
    garbage: list[Any] = []

    def watch() -> None:
        try:
            while not stop.is_set():
                for event in events[-3:]:
                    assert event.wait(10.0) and event.done
                memory = engine.memory
                assert memory.reserved >= memory.allocated >= 0
        except BaseException as error:
            trouble.append(error)

    def drop() -> None:
        try:
            while not stop.is_set() or garbage:
                if garbage:
                    garbage.pop()
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=f) for f in (watch, watch, drop)]
    for thread in threads:
        thread.start()
    for k in range(200):
        events.append(engine.submit(plan))
        garbage.append([cell.value, x * float(k), events[-1]])
        if k % 20 == 0:
            garbage.append(engine.capture(lambda: x * 2.0))
    engine.flush()
    stop.set()
    for thread in threads:
        thread.join()
    assert not trouble
    assert set(cell.value.tolist()) == {200.0}
    assert plan.outputs.item() == 200.0 * 4096


@pytest.mark.parametrize("waiters", [1, 8])
def test_closing_lets_waiting_threads_go(device_name: str, waiters: int) -> None:
    seen: list[Any] = []
    with oa.Engine(device=device_name) as engine:
        x = m.ones(engine, (256, 256))
        plan = engine.capture(lambda: m.matmul(m.matmul(x, x), m.matmul(x, x)))
        for _ in range(3):
            event = engine.submit(plan)
        threads = [threading.Thread(target=lambda: seen.append(event.wait())) for _ in range(waiters)]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert all(found is True for found in seen) and len(seen) == waiters
    assert event.done
    with pytest.raises(EngineClosed):
        plan.outputs.to_numpy()


def test_each_thread_may_have_an_engine(device_name: str) -> None:
    results: list[Any] = []

    def work(seed: int) -> None:
        with oa.Engine(device=device_name, seed=seed) as engine:
            model = ml.Linear(engine, 8, 4)
            optimizer = ml.AdamW(model.parameters(), 1e-2)
            x = m.normal(engine, (16, 8))

            def step() -> Any:
                with ml.GradientTape() as tape:
                    loss = m.mean(m.square(model(x)))
                optimizer.step(tape.gradient(loss, optimizer.parameters))
                return loss

            plan = engine.capture(step)
            for _ in range(20):
                engine.submit(plan)
            results.append((seed, plan.outputs.item()))

    for seeds in ((1, 2, 3), (1,), (2,), (3,)):
        threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 6 and len(set(results)) == 3, "together they compute what each computes alone"
