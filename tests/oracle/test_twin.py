"""The twin's hand-written gradients against central differences, and its parts against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.oracle import twin

RECIPE = twin.Recipe(vocabulary=11, context=5, width=8, heads=2, layers=2)


def batch(rng: np.random.Generator, rows: int = 3) -> tuple[twin.Array, twin.Array]:
    ids = rng.integers(0, RECIPE.vocabulary, (rows, RECIPE.context + 1))
    return ids[:, :-1], ids[:, 1:]


def test_every_parameter_gradient_is_the_central_difference() -> None:
    rng = np.random.default_rng(1)
    p = twin.initial(RECIPE, rng)
    for value in p.values():  # away from the symmetric start, so that no term vanishes by accident
        value += rng.normal(0.0, 0.3, value.shape)
    inputs, targets = batch(rng)
    _, grads = twin.loss_and_gradients(p, inputs, targets, RECIPE)
    assert list(grads) == list(p)
    h = 1e-5
    for name, value in p.items():
        for at in rng.choice(value.size, size=min(6, value.size), replace=False):
            place = np.unravel_index(at, value.shape)
            kept = value[place]
            value[place] = kept + h
            above = twin.loss_and_gradients(p, inputs, targets, RECIPE)[0]
            value[place] = kept - h
            below = twin.loss_and_gradients(p, inputs, targets, RECIPE)[0]
            value[place] = kept
            assert grads[name][place] == pytest.approx((above - below) / (2 * h), rel=1e-6, abs=1e-9), (
                name,
                place,
            )


def test_a_random_direction_through_all_parameters() -> None:
    rng = np.random.default_rng(2)
    p = twin.initial(RECIPE, rng)
    inputs, targets = batch(rng)
    _, grads = twin.loss_and_gradients(p, inputs, targets, RECIPE)
    way = {name: rng.normal(size=value.shape) for name, value in p.items()}
    slope = sum(float(np.vdot(grads[name], way[name])) for name in p)
    h = 1e-6
    above, below = (
        twin.loss_and_gradients({n: v + s * h * way[n] for n, v in p.items()}, inputs, targets, RECIPE)[0]
        for s in (1, -1)
    )
    assert slope == pytest.approx((above - below) / (2 * h), rel=1e-6)


def test_no_position_sees_a_later_one() -> None:
    rng = np.random.default_rng(3)
    p = twin.initial(RECIPE, rng)
    inputs, _ = batch(rng)
    changed = inputs.copy()
    changed[:, 3] = (changed[:, 3] + 1) % RECIPE.vocabulary
    a, b = twin.forward(p, inputs, RECIPE)[0], twin.forward(p, changed, RECIPE)[0]
    assert np.array_equal(a[:, :3], b[:, :3])
    assert not np.allclose(a[:, 3:], b[:, 3:])


def test_schedule_reaches_its_landmarks() -> None:
    recipe = twin.Recipe(vocabulary=2)
    assert twin.learning_rate(0, recipe) == pytest.approx(3e-3 / 50)
    assert twin.learning_rate(49, recipe) == pytest.approx(3e-3)
    assert twin.learning_rate(50, recipe) == pytest.approx(3e-3)
    assert twin.learning_rate(275, recipe) == pytest.approx(3e-3 * 0.55)
    assert twin.learning_rate(500, recipe) == pytest.approx(3e-4)


def test_clipping_keeps_direction_and_bounds_the_norm() -> None:
    grads = {"a": np.array([3.0, 0.0]), "b": np.array([[4.0]])}
    clipped, norm = twin.clip(grads, 1.0)
    assert norm == pytest.approx(5.0)
    assert clipped["a"][0] / clipped["b"][0, 0] == pytest.approx(0.75)
    assert math.hypot(clipped["a"][0], clipped["b"][0, 0]) == pytest.approx(1.0, rel=1e-6)
    untouched, _ = twin.clip(grads, 6.0)
    assert np.array_equal(untouched["a"], grads["a"])


def test_first_adamw_step_is_the_sign_of_the_gradient() -> None:
    optimiser = twin.AdamW((0.9, 0.99), 1e-8, 0.01)
    p = {"w": np.array([2.0, -3.0])}
    optimiser.step(p, {"w": np.array([0.5, -0.25])}, rate=0.1)
    assert p["w"] == pytest.approx(np.array([2.0 - 0.1 * (1 + 0.02), -3.0 - 0.1 * (-1 - 0.03)]), rel=1e-7)
