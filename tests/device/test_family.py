"""Plan families: a size seen before replays, a new one compiles once, and results are those of the function itself."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import ml
from oa.errors import ArgumentError, DTypeError, EngineMismatch, ShapeError
from oa.family import CAPACITY

#: Batches in no order, with repeats: what a loader's last batch, and another's, look like.
SIZES = (32, 32, 7, 32, 7, 19, 7, 19, 1, 32, 1)


def data(engine: Any, rows: int, seed: int = 0) -> Any:
    return m.from_numpy(engine, np.random.default_rng(seed).normal(size=(rows, 24)).astype(np.float32))


def test_each_size_compiles_once_then_replays_with_the_same_bits(engine: Any) -> None:
    layer, norm = ml.Linear(engine, 24, 16), ml.LayerNorm(engine, 16)

    def forward(x: Any) -> Any:
        return m.softmax(norm(m.gelu(layer(x))))

    family = engine.family(forward)
    seen: set[int] = set()
    found: list[Any] = []
    for number, rows in enumerate(SIZES):
        x = data(engine, rows, number)
        engine.flush()
        before = engine.diagnostics
        got = family(x)
        after = engine.diagnostics
        assert after["lowerings"] - before["lowerings"] == (rows not in seen)
        if rows in seen:
            assert after["pipelines"] == before["pipelines"]
        elif seen:
            assert any("(" in change for change in engine.compilations[-1].changes)  # both shapes
        seen.add(rows)
        found.append((x, got))
    assert all(np.array_equal(got.to_numpy(), forward(x).to_numpy()) for x, got in found)
    assert len(family.plans) == len(seen)


def test_another_batch_makes_no_kernel_of_pointwise_work_and_rows(engine: Any) -> None:
    family = engine.family(lambda x, w: m.sum(m.softmax(m.tanh(x) * w + 1.0), axis=-1))
    w = m.uniform(engine, (24,), seed=1)
    family(data(engine, 64), w)
    engine.flush()
    before = engine.diagnostics["pipelines"]
    for rows in (63, 48, 80):
        family(data(engine, rows), w)
    assert engine.diagnostics["pipelines"] == before


def test_results_are_left_alone_by_later_calls(engine: Any) -> None:
    family = engine.family(lambda x: {"twice": x * 2.0, "parts": [x + 1.0, (x - 1.0,)]})
    found = [family(m.full(engine, (3,), float(k))) for k in range(6)]
    for k, result in enumerate(found):
        assert result["twice"].tolist() == [2.0 * k] * 3
        assert result["parts"][0].tolist() == [k + 1.0] * 3
        assert result["parts"][1][0].tolist() == [k - 1.0] * 3


def test_a_result_is_the_next_argument(engine: Any) -> None:
    family = engine.family(lambda x: x * 2.0)
    x = m.ones(engine, (5,))
    for _ in range(9):
        x = family(x)
    assert family(family(x)).tolist() == [2.0**11] * 5
    (plan,) = family.plans
    now = plan.outputs.tolist()
    assert family(plan.outputs).tolist() == [2.0 * v for v in now]
    assert family(m.flip(m.arange(engine, 5, dtype="float32"))).tolist() == [8.0, 6.0, 4.0, 2.0, 0.0]


def test_arguments_are_told_apart_by_place_and_kind(engine: Any) -> None:
    def combine(pair: Any, scale: float, *, more: Any, mode: str = "sub") -> Any:
        a, b = pair
        found = a - b if mode == "sub" else a + b
        return found * scale + more["z"]

    family = engine.family(combine)
    a, b, z = (m.full(engine, (2,), v) for v in (5.0, 3.0, 1.0))
    assert family((a, a), 2.0, more={"z": a}).tolist() == [5.0, 5.0]  # one value in three places
    assert family((a, b), 2.0, more={"z": z}).tolist() == [5.0, 5.0]
    assert family((b, a), 2.0, more={"z": a}).tolist() == [1.0, 1.0]
    assert len(family.plans) == 1
    assert (
        family((a, b), 0.0, more={"z": z}).tolist()
        == family((a, b), -0.0, more={"z": z}).tolist()
        == [1.0, 1.0]
    )
    assert family((a, b), 2.0, more={"z": z}, mode="add").tolist() == [17.0, 17.0]
    assert family([a, b], 2.0, more={"z": z}).tolist() == [5.0, 5.0]
    assert len(family.plans) == 5
    assert "Family" in repr(family) and "5 plans" in repr(family)
    assert family.plan((a, b), 2.0, more={"z": z}) in family.plans


def test_cells_and_draws_go_on_through_all_sizes(engine: Any) -> None:
    total = oa.State(engine, m.zeros(engine, ()))

    def step(x: Any, cell: Any) -> Any:
        cell.assign(cell.value + m.sum(x))
        return m.uniform(engine, x.shape)

    family = engine.family(step)
    engine.rng_state = (3, 0)
    drawn = [family(m.ones(engine, (n,)), total) for n in (4, 6, 4, 6)]
    assert total.value.item() == 20.0 and engine.rng_state == (3, 4)
    engine.rng_state = (3, 0)
    assert [d.tolist() for d in drawn] == [m.uniform(engine, (n,)).tolist() for n in (4, 6, 4, 6)]


def test_inside_a_capture_and_under_a_tape_the_function_is_recorded(engine: Any) -> None:
    family = engine.family(lambda x: m.square(x) * 3.0)
    x = m.full(engine, (2,), 2.0)
    with ml.GradientTape() as tape:
        tape.watch(x)
        y = m.sum(family(x))
    assert tape.gradient(y, x).tolist() == [12.0, 12.0]
    plan = engine.capture(lambda: family(x) + 1.0)
    engine.submit(plan)
    assert plan.outputs.tolist() == [13.0, 13.0] and not family.plans


def test_only_the_plans_used_last_are_kept(engine: Any) -> None:
    family = engine.family(lambda x, k: x + k)
    x = m.ones(engine, (2,))
    for k in range(CAPACITY + 3):
        assert family(x, k).tolist() == [k + 1.0] * 2
        assert family(x, 0).tolist() == [1.0] * 2
    assert len(family.plans) == CAPACITY
    held = engine.memory.allocated
    del family
    gc.collect()
    engine.trim()
    assert engine.memory.allocated < held


def test_refused_arguments_leave_the_family_usable(engine: Any, device_name: str) -> None:
    family = engine.family(lambda x, y=None: x + 1.0 if y is None else x + y)
    x = m.ones(engine, (2,))
    with pytest.raises(ArgumentError, match="hashable"):
        family(np.ones(2, np.float32))
    with pytest.raises((ArgumentError, TypeError)):
        family(3.0)
    with pytest.raises(ShapeError):
        family(x, m.ones(engine, (3,)))
    with pytest.raises(ArgumentError, match="wanted a function"):
        engine.family(3)
    with oa.Engine(device=device_name) as other:
        foreign = m.ones(other, (2,))
        with pytest.raises(EngineMismatch):
            family(foreign)
    with pytest.raises(DTypeError):
        family(m.ones(engine, (2,), dtype="int32"), 0.5)
    assert family(x).tolist() == [2.0, 2.0]
