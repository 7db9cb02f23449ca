"""AdamW, clipping and schedules against their formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix, ml
from oa.ml.parameter import ALIGNMENT
from tests.oracle import twin

SHAPES = {"matrix": (3, 5), "scalar": (), "vector": (64,), "wide": (65,)}


def start(engine: Any) -> tuple[dict[str, ml.Parameter], dict[str, Any]]:
    """Parameters of several shapes, and the same values in float64."""
    rng = np.random.default_rng(4)
    values = {n: rng.normal(size=s).astype(np.float32) for n, s in SHAPES.items()}
    parameters = {n: ml.Parameter(matrix.from_numpy(engine, np.asarray(v))) for n, v in values.items()}
    return parameters, {n: np.asarray(v, np.float64) for n, v in values.items()}


def draw(rng: np.random.Generator, scale: float = 1.0) -> dict[str, Any]:
    return {n: np.asarray(scale * rng.normal(size=s), np.float32) for n, s in SHAPES.items()}


@pytest.mark.parametrize("max_norm", [None, 0.5, 1e6])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_follows_the_twin(engine: Any, max_norm: float | None, decay: float) -> None:
    parameters, p = start(engine)
    recipe = twin.Recipe(vocabulary=2, steps=30, warmup=5, peak=1e-2)
    rate = ml.warmup_cosine(1e-2, steps=30, warmup=5, floor=0.1)
    ours = ml.AdamW(parameters, rate, weight_decay=decay, max_norm=max_norm)
    theirs = twin.AdamW((0.9, 0.999), 1e-8, decay)
    rng = np.random.default_rng(5)
    for step in range(30):
        grads = draw(rng, 10.0 ** (step % 3 - 1))
        ours.step([matrix.from_numpy(engine, g) for g in grads.values()])
        wide = {n: g.astype(np.float64) for n, g in grads.items()}
        if max_norm is not None:
            wide, _ = twin.clip(wide, max_norm)
        theirs.step(p, wide, twin.learning_rate(step, recipe))
    assert ours.step_count.item() == 30
    for name, parameter in parameters.items():
        assert np.abs(parameter.value.to_numpy() - p[name]).max() < 2e-6, name
    state = ours.state_dict()
    for name in SHAPES:
        assert np.allclose(state[f"m.{name}"].to_numpy(), theirs.m[name], rtol=1e-4, atol=1e-7), name
        assert np.allclose(state[f"v.{name}"].to_numpy(), theirs.v[name], rtol=1e-4, atol=1e-9), name


def test_parameters_lie_side_by_side_on_64_element_marks(any_engine: Any) -> None:
    parameters, _ = start(any_engine)
    before = {n: p.value.to_numpy() for n, p in parameters.items()}
    optimizer = ml.AdamW(parameters)
    flat = parameters["matrix"].flat
    assert flat is not None
    assert all(p.flat is flat for p in optimizer.parameters)
    whole = flat.value.to_numpy()
    assert whole.shape == (5 * ALIGNMENT,)
    at = 0
    for name, value in before.items():
        padded = -(-value.size // ALIGNMENT) * ALIGNMENT
        assert np.array_equal(whole[at : at + value.size], value.ravel()), name
        assert not whole[at + value.size : at + padded].any(), name
        assert np.array_equal(parameters[name].value.to_numpy(), value), name
        at += padded


def test_padding_stays_zero_and_a_missing_gradient_counts_as_zeros(any_engine: Any) -> None:
    parameters, p = start(any_engine)
    optimizer = ml.AdamW(parameters, 0.1, weight_decay=0.5)
    optimizer.step([None] * len(parameters))
    for name, parameter in parameters.items():
        assert np.allclose(parameter.value.to_numpy(), p[name] * (1 - 0.1 * 0.5), rtol=1e-6), name
    flat = parameters["matrix"].flat
    assert flat is not None and not flat.value.to_numpy()[15:64].any()


def test_rate_may_be_a_cell_that_is_assigned_between_steps(any_engine: Any) -> None:
    parameter = ml.Parameter(matrix.zeros(any_engine, (4,)))
    rate = oa.State(any_engine, matrix.full(any_engine, (), 0.5))
    optimizer = ml.AdamW([parameter], rate, weight_decay=0.0)
    gradient = matrix.ones(any_engine, (4,))
    optimizer.step([gradient])
    assert parameter.value.to_numpy() == pytest.approx(-0.5 * np.ones(4), rel=1e-6)
    rate.assign(matrix.full(any_engine, (), 0.25))
    optimizer.step([gradient])
    assert parameter.value.to_numpy() == pytest.approx(-0.75 * np.ones(4), rel=1e-6)


@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_schedule_on_the_device_is_the_twins(engine: Any, warmup: int) -> None:
    recipe = twin.Recipe(vocabulary=2, steps=20, warmup=warmup, peak=0.3, floor=0.2)
    rate = ml.warmup_cosine(0.3, steps=20, warmup=warmup, floor=0.2)
    found = rate(matrix.arange(engine, 25)).to_numpy()
    assert found == pytest.approx([twin.learning_rate(t, recipe) for t in range(25)], rel=1e-5)


def test_clipping_by_the_global_norm(engine: Any) -> None:
    grads = draw(np.random.default_rng(6), 3.0)
    wanted, norm = twin.clip({n: g.astype(np.float64) for n, g in grads.items()}, 2.0)
    clipped, found = ml.clip_grad_norm([matrix.from_numpy(engine, g) for g in grads.values()], 2.0)
    assert found.item() == pytest.approx(norm, rel=1e-6)
    for ours, (name, theirs) in zip(clipped, wanted.items()):
        assert np.allclose(ours.to_numpy(), theirs, rtol=1e-5, atol=0), name
    same, _ = ml.clip_grad_norm([matrix.from_numpy(engine, g) for g in grads.values()], 1e9)
    assert all(np.array_equal(a.to_numpy(), g) for a, g in zip(same, grads.values()))


def test_state_of_the_optimiser_round_trip(any_engine: Any) -> None:
    rng = np.random.default_rng(8)
    runs = []
    for interrupted in (False, True):
        rng = np.random.default_rng(8)
        parameters, _ = start(any_engine)
        optimizer = ml.AdamW(parameters, 1e-2)
        for step in range(6):
            if interrupted and step == 3:
                state = {n: v.to_numpy() for n, v in optimizer.state_dict().items()}
                values = {n: p.value.to_numpy() for n, p in parameters.items()}
                parameters = {n: ml.Parameter(matrix.from_numpy(any_engine, v)) for n, v in values.items()}
                optimizer = ml.AdamW(parameters, 1e-2)
                optimizer.load_state_dict(state)
            optimizer.step([matrix.from_numpy(any_engine, g) for g in draw(rng).values()])
        runs.append([p.value.to_numpy() for p in parameters.values()])
    assert all(np.array_equal(a, b) for a, b in zip(*runs))


def test_wrong_arguments_are_named_and_change_nothing(any_engine: Any) -> None:
    parameters, p = start(any_engine)
    optimizer = ml.AdamW(parameters)
    zeros = [matrix.zeros(any_engine, s) for s in SHAPES.values()]
    with pytest.raises(oa.errors.ArgumentError, match="got 3 gradients or values for 4 parameters"):
        optimizer.step(zeros[:3])
    with pytest.raises(oa.errors.ShapeError, match=r"0 has shape \(5, 3\); wanted \(3, 5\)"):
        optimizer.step([matrix.zeros(any_engine, (5, 3)), *zeros[1:]])
    state = optimizer.state_dict()
    with pytest.raises(oa.errors.ArgumentError, match=r"m\.matrix"):
        optimizer.load_state_dict({n: v for n, v in state.items() if n != "m.matrix"})
    with pytest.raises(oa.errors.ShapeError, match=r"v\.wide"):
        optimizer.load_state_dict({**state, "v.wide": np.zeros(64, np.float32)})
    with pytest.raises(oa.errors.ShapeError, match="int32 of rank 0"):
        optimizer.load_state_dict({**state, "step": np.zeros(1, np.int32)})
    for wrong in (
        {"lr": -1.0},
        {"betas": (1.0, 0.9)},
        {"eps": 0.0},
        {"weight_decay": -0.1},
        {"max_norm": 0.0},
    ):
        with pytest.raises(oa.errors.ArgumentError, match=f"AdamW: {next(iter(wrong))}"):
            ml.AdamW([ml.Parameter(zeros[0])], **wrong)  # type: ignore[arg-type]
    with pytest.raises(oa.errors.ArgumentError, match="warmup=30"):
        ml.warmup_cosine(1.0, steps=20, warmup=30)
    with pytest.raises(oa.errors.ArgumentError, match="max_norm is 0"):
        ml.clip_grad_norm(zeros, 0.0)
    assert optimizer.step_count.item() == 0
    for name, parameter in parameters.items():
        assert np.array_equal(parameter.value.to_numpy(), p[name].astype(np.float32)), name
