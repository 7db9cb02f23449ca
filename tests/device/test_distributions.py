"""Truncated normal, gamma and choices among logits beside their definitions in float64; all draws eager, captured, replayed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.oracle import distributions as oracle
from tests.oracle.compare import ulp

Array = np.ndarray[Any, Any]

BOUNDS = [(-2.0, 2.0), (-1.0, 0.5), (0.0, 1.0), (-0.01, 0.01), (-9.0, 9.0), (2.0, math.inf), (5.0, 6.0), (-12.5, -9.0),
          (-math.inf, math.inf)]  # fmt: skip
SHAPES = [(), (1,), (7,), (4, 33), (2, 3, 65), (0,), (3, 0)]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_truncated_normal(engine: Any, bounds: tuple[float, float]) -> None:
    for shape in [*SHAPES, (5000,)]:
        got = m.truncated_normal(engine, shape, *bounds, seed=7).to_numpy()
        want = oracle.truncated_normal(7, 0, shape, *bounds)
        assert (got.shape, got.dtype) == (shape, np.float32)
        assert np.all(np.abs(got - want) <= 4 * ulp(want))
        assert np.all((got >= bounds[0]) & (got <= bounds[1]))


def test_truncated_normal_is_scaled(any_engine: Any) -> None:
    plain = m.truncated_normal(any_engine, (500,), -1.0, 3.0, seed=2**40 + 1).to_numpy()
    moved = m.truncated_normal(any_engine, (500,), -1.0, 3.0, 10.0, 0.5, seed=2**40 + 1).to_numpy()
    assert np.array_equal(moved, np.float32(10) + np.float32(0.5) * plain)


def test_truncated_normal_has_its_moments(any_engine: Any) -> None:
    x = m.truncated_normal(any_engine, (40_000,), seed=3).to_numpy().astype(np.float64)
    assert abs(x.mean()) < 0.02
    assert abs(x.std() - 0.8796) < 0.01


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 1.5, 7.0, 300.0])
def test_gamma(engine: Any, a: float) -> None:
    for shape in [*SHAPES, (2000,)]:
        got = m.gamma(engine, shape, a, seed=5).to_numpy()
        want, clear = oracle.gamma(5, 0, np.full(shape, a, np.float32))
        assert (got.shape, got.dtype) == (shape, np.float32)
        good = np.abs(got - want) <= 3e-5 * (1 + 1 / a) * want + 2.0**-126
        assert np.all(good | ~clear)
        assert clear.size == 0 or clear.mean() > 0.9


def test_gamma_of_values(any_engine: Any) -> None:
    """Concentrations and scales are operands that broadcast; one that is not positive gives NaN."""
    a = np.array([[0.3], [2.0], [0.0], [-1.0], [np.nan]], np.float32)
    scale = np.array([1.0, 2.0, 0.25], np.float32)
    got = m.gamma(
        any_engine, (5, 3), m.from_numpy(any_engine, a), m.from_numpy(any_engine, scale), seed=1
    ).to_numpy()
    plain = np.stack(
        [m.gamma(any_engine, (5, 3), float(v), seed=1).to_numpy()[k] for k, v in enumerate([0.3, 2.0])]
    )
    assert np.array_equal(got[:2], plain * scale)
    assert np.isnan(got[2:]).all()


def test_gamma_has_its_moments(any_engine: Any) -> None:
    for a in (0.5, 3.0):
        x = m.gamma(any_engine, (40_000,), a, 2.0, seed=8).to_numpy().astype(np.float64)
        assert abs(x.mean() / (2 * a) - 1) < 0.03
        assert abs(x.var() / (4 * a) - 1) < 0.06


def counts(engine: Any, logits: list[float], **how: Any) -> Array:
    many = m.broadcast_to(m.from_numpy(engine, np.array(logits, np.float32)), (8000, len(logits)))
    return np.bincount(m.sample_logits(many, seed=4, **how).to_numpy(), minlength=len(logits)) / 8000


def test_sample_logits(any_engine: Any) -> None:
    p = np.array([0.1, 0.4, 0.2, 0.3])
    logits = np.log(p).tolist()
    assert np.allclose(counts(any_engine, logits), p, atol=0.025)
    assert np.allclose(counts(any_engine, logits, temperature=0.5), p**2 / (p**2).sum(), atol=0.025)
    assert np.allclose(counts(any_engine, logits, top_k=2), [0, 4 / 7, 0, 3 / 7], atol=0.025)
    assert np.allclose(counts(any_engine, logits, top_p=0.65), [0, 4 / 7, 0, 3 / 7], atol=0.025)
    assert np.allclose(counts(any_engine, logits, top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9], atol=0.025)
    assert np.allclose(counts(any_engine, logits, top_k=3, top_p=0.5), [0, 4 / 7, 0, 3 / 7], atol=0.025)
    assert counts(any_engine, logits, top_p=1e-6).tolist() == [0, 1, 0, 0]
    assert counts(any_engine, [1.0, 2.0, 2.0], temperature=0.0).tolist() == [0, 1, 0]
    assert counts(any_engine, [1.0, 2.0, 2.0], top_k=1).tolist() == [0, 1, 0]
    x = m.from_numpy(any_engine, np.array([[0.0, 9.0], [9.0, 0.0], [-9.0, -9.0]], np.float32))
    assert m.sample_logits(x, 0.01, axis=0, seed=1).tolist() == [1, 0]


#: Every way to draw.
DRAWS: dict[str, Callable[[Any, int | None], Any]] = {
    "uniform": lambda e, s: m.uniform(e, (9,), seed=s),
    "normal": lambda e, s: m.normal(e, (9,), seed=s),
    "truncated_normal": lambda e, s: m.truncated_normal(e, (9,), seed=s),
    "gamma": lambda e, s: m.gamma(e, (9,), 0.7, seed=s),
    "integers": lambda e, s: m.integers(e, (9,), 1000, seed=s),
    "bernoulli": lambda e, s: m.bernoulli(e, (64,), 0.5, seed=s),
    "permutation": lambda e, s: m.permutation(e, 30, seed=s),
    "categorical": lambda e, s: m.categorical(m.zeros(e, (9, 50)), seed=s),
    "sample_logits": lambda e, s: m.sample_logits(m.zeros(e, (9, 50)), 1.0, 40, 0.9, seed=s),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_advance_and_repeat(engine: Any, name: str) -> None:
    """A seed fixes a draw; without one draws follow the engine's stream, eager and replayed alike."""
    draw = DRAWS[name]
    assert draw(engine, 3).tolist() == draw(engine, 3).tolist()
    assert draw(engine, 3).tolist() != draw(engine, 4).tolist()
    start = engine.rng_state
    eager = [draw(engine, None).tolist() for _ in range(6)]
    assert len({str(v) for v in eager}) == 6
    end = engine.rng_state
    engine.rng_state = start
    plan = engine.capture(lambda: (draw(engine, None), draw(engine, None)))
    assert engine.rng_state == start
    replayed = []
    for _ in range(3):
        engine.submit(plan)
        replayed += [v.tolist() for v in plan.outputs]
    assert replayed == eager
    assert engine.rng_state == end
    fixed = engine.capture(lambda: draw(engine, 3))
    for _ in range(2):
        engine.submit(fixed)
        assert fixed.outputs.tolist() == draw(engine, 3).tolist()


def test_refusals(any_engine: Any) -> None:
    with pytest.raises(oa.errors.ArgumentError, match="wanted low < high"):
        m.truncated_normal(any_engine, (2,), 1.0, 1.0)
    with pytest.raises(oa.errors.ArgumentError, match=r"between 20\.0 and 21\.0 is too small"):
        m.truncated_normal(any_engine, (2,), 20.0, 21.0)
    with pytest.raises(oa.errors.ArgumentError, match="concentration is 0"):
        m.gamma(any_engine, (2,), 0)
    with pytest.raises(oa.errors.DTypeError, match="scale is int32"):
        m.gamma(any_engine, (2,), 1.0, m.ones(any_engine, (2,), dtype="int32"))
    with pytest.raises(oa.errors.ShapeError, match=r"concentration \(3,\)"):
        m.gamma(any_engine, (2,), m.ones(any_engine, (3,)))
    with pytest.raises(oa.errors.ShapeError, match="does not broadcast"):
        m.gamma(any_engine, (), m.ones(any_engine, (3,)))
    with pytest.raises(oa.errors.ArgumentError, match="at most"):
        m.gamma(any_engine, (1 << 14, 1 << 14), 1.0)
    x = m.zeros(any_engine, (4,))
    for how, text in (
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0}, r"top_p is 0\.0"),
        ({"top_p": 1.5}, r"top_p is 1\.5"),
    ):
        with pytest.raises(oa.errors.ArgumentError, match=text):
            m.sample_logits(x, **how)
    with pytest.raises(oa.errors.DTypeError, match="logits are int32"):
        m.sample_logits(m.zeros(any_engine, (4,), dtype="int32"))
    with pytest.raises(oa.errors.AxisError):
        m.sample_logits(x, axis=1)
