"""Row kernels that sum over their rows: the bits of the sums alone, under every way to reach a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import ml
from oa._lower import strips
from tests.conftest import CONFIGURATIONS

#: Rows that fill their strips and workgroups and others, columns that fill their registers and others.
SHAPES = [(2048, 64), (1999, 260), (70, 30, 36), (3000, 9)]


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return ml.layer_norm(x, w, b, 1e-5)


def rms_norm(x: Any, w: Any, b: Any) -> Any:
    return x * m.rsqrt(m.mean(x * x, axis=-1, keepdims=True) + 1e-5) * w + b


def both_ways(function: Callable[..., Any], x: Any, g: Any, w: Any, b: Any) -> list[Any]:
    with ml.GradientTape() as tape:
        tape.watch([x, w, b])
        y = function(x, w, b)
    return [y, *tape.gradient(y, [x, w, b], seed=g)]


def taken(engine: Any, function: Callable[..., Any], arrays: list[Any], without: frozenset[str]) -> Any:
    """Results, and how many dispatches they took, with rows shared as on a GPU."""
    programs = engine._programs
    programs._profile = dataclasses.replace(programs._profile, tuning="gpu")
    programs._known.clear()
    programs.without = without
    held = [m.from_numpy(engine, a) for a in arrays]
    plan = engine.capture(lambda: both_ways(function, *held))
    engine.submit(plan)
    return [y.to_numpy() for y in plan.outputs], plan.diagnostics["dispatches"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", [layer_norm, rms_norm])
@pytest.mark.parametrize("configuration", list(CONFIGURATIONS))
def test_a_norm_sums_the_gradients_of_its_weights(
    device_name: str, configuration: str, function: Any, shape: tuple[int, ...], monkeypatch: Any
) -> None:
    monkeypatch.setattr(strips, "LEAST_INVOCATIONS", 1)
    rng = np.random.default_rng(shape[0])
    arrays = [rng.standard_normal(s, np.float32) for s in (shape, shape, shape[-1:], shape[-1:])]
    profile, addressing = CONFIGURATIONS[configuration]
    with oa.Engine(device_name, profile=profile, addressing=addressing) as engine:
        got, fewer = taken(engine, function, arrays, frozenset())
        alone, more = taken(engine, function, arrays, frozenset({"strips"}))
    assert fewer < more
    assert [a.tobytes() for a in got] == [a.tobytes() for a in alone]
    x, g, _, _ = (a.astype(np.float64) for a in arrays)
    over = tuple(range(x.ndim - 1))
    centred = x - x.mean(-1, keepdims=True) if function is layer_norm else x
    normal = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    count = g.size // shape[-1]
    # Sums within 2 log2(n) units of 2^-24 of the sum of magnitudes; the normalised values add some 16 units of their own.
    for found, terms, own in ((got[2], g * normal, 16), (got[3], g, 0)):
        bound = (2 * np.log2(count) + own) * 2.0**-24 * np.abs(terms).sum(over)
        assert (np.abs(found - terms.sum(over)) <= bound).all()


def test_a_special_value_reaches_its_column_alone(device_name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(strips, "LEAST_INVOCATIONS", 1)
    rng = np.random.default_rng(3)
    x, g = rng.standard_normal((2, 1000, 64), np.float32)
    g[7, 3], g[500, 9], g[501, 9], g[999, 63] = np.inf, np.inf, -np.inf, np.nan
    w, b = np.ones((2, 64), np.float32)
    with oa.Engine(device_name) as engine:
        got, _ = taken(engine, rms_norm, [x, g, w, b], frozenset())
        alone, _ = taken(engine, rms_norm, [x, g, w, b], frozenset({"strips"}))
    assert [a.tobytes() for a in got] == [a.tobytes() for a in alone]
    assert got[3][3] == np.inf and np.isnan(got[3][[9, 63]]).all()
    assert np.isfinite(np.delete(got[3], [3, 9, 63])).all()
