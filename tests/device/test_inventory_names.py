"""What stands for names of the system description that the array API lacks: initial weights, lists of values, kept rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.ml import GradientTape
from tests.oracle import matrix as oracle

SHAPES = [(6, 4), (3, 5, 2, 2), (1, 7)]


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


@pytest.mark.parametrize("shape", SHAPES)
def test_initial_weights(engine: Any, shape: tuple[int, ...]) -> None:
    inputs, outputs = fans(shape)
    near = math.sqrt(6 / (inputs + outputs))
    assert np.array_equal(
        m.glorot_uniform(engine, shape, seed=5).to_numpy(), oracle.uniform(5, 0, shape, -near, near)
    )
    bound = math.sqrt(6 / (inputs * (1 + 0.5**2)))
    got = m.kaiming_uniform(engine, shape, 0.5, seed=5).to_numpy()
    # Its bound is computed another way here, so that it may be another float32.
    assert np.allclose(got, oracle.uniform(5, 0, shape, -bound, bound), rtol=2**-22, atol=2**-22)
    want = math.sqrt(2 / (inputs + outputs)) * oracle.normal(5, 0, shape)
    # Of the normal 4 ulp, and one rounding each of the factor and of the product.
    assert np.allclose(m.glorot_normal(engine, shape, seed=5).to_numpy(), want, rtol=6 * 2**-23, atol=2**-24)


def test_initial_weights_take_draws_in_turn_and_may_be_empty(engine: Any) -> None:
    engine.rng_state = (9, 0)
    first, second = m.glorot_uniform(engine, (3, 3)).tolist(), m.glorot_uniform(engine, (3, 3)).tolist()
    assert first != second
    engine.rng_state = (9, 0)
    assert m.glorot_uniform(engine, (3, 3)).tolist() == first
    assert m.glorot_uniform(engine, (0, 0)).shape == m.kaiming_uniform(engine, (0, 0)).shape == (0, 0)
    for make in (m.glorot_uniform, m.glorot_normal, m.kaiming_uniform):
        with pytest.raises(
            oa.errors.ShapeError, match=rf"matrix\.{make.__name__}: the shape is \(3,\); wanted"
        ):
            make(engine, (3,))
    with pytest.raises(oa.errors.ArgumentError, match="slope is inf"):
        m.kaiming_uniform(engine, (3, 3), math.inf)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8"])
def test_multi_add_and_fill(engine: Any, dtype: str) -> None:
    rng = np.random.default_rng(4)
    shapes = [(3,), (), (2, 3), (0, 2), (70, 9)]
    a = [rng.integers(0, 9, s).astype(dtype) for s in shapes]
    b = [rng.integers(0, 9, s[-1:]).astype(dtype) for s in shapes]
    held = [[m.from_numpy(engine, x) for x in xs] for xs in (a, b)]
    for got, x, y in zip(m.multi_add(*held), a, b, strict=True):
        assert got.dtype.name == dtype and np.array_equal(got.to_numpy(), x + y)
    for got, x in zip(m.multi_fill(held[0], 3), a, strict=True):
        assert got.dtype.name == dtype and np.array_equal(got.to_numpy(), np.full_like(x, 3))
    assert m.multi_add([], []) == m.multi_fill([], 1) == ()
    with pytest.raises(oa.errors.ArgumentError, match=r"matrix\.multi_add: a has 5 values and b 4"):
        m.multi_add(held[0], held[1][1:])


def test_multi_add_has_adds_gradient(any_engine: Any) -> None:
    x, y = m.ones(any_engine, (2, 3)), m.ones(any_engine, (3,))
    with GradientTape() as tape:
        tape.watch([x, y])
        (found,) = m.multi_add([x], [y])
    dx, dy = tape.gradient(found, [x, y], seed=m.ones_like(found))
    assert dx.tolist() == [[1.0] * 3] * 2 and dy.tolist() == [2.0] * 3


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "float16"])
@pytest.mark.parametrize("shape", [(7,), (40, 3), (5, 2, 3), (0, 3), (4, 0)])
def test_compact_rows(engine: Any, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    x, mask = rng.integers(0, 2, shape).astype(dtype), rng.random(shape[0]) < 0.5
    held, kept = m.from_numpy(engine, x), m.from_numpy(engine, mask)
    assert np.array_equal(m.compact_rows(held, kept).to_numpy(), x[mask])
    for size in (0, 1, int(mask.sum()), shape[0] + 2):
        want = np.concatenate([x[mask][:size], np.zeros((max(size - int(mask.sum()), 0), *shape[1:]), dtype)])
        assert np.array_equal(m.compact_rows(held, kept, size=size).to_numpy(), want)


def test_compact_rows_captured_and_back(any_engine: Any) -> None:
    x = m.from_list(any_engine, [[1.0, 2.0], [math.inf, 4.0], [5.0, math.nan]])
    mask = m.from_list(any_engine, [0, 2, 1])
    plan = any_engine.capture(lambda: m.compact_rows(x, mask, size=3))
    any_engine.submit(plan)
    assert np.array_equal(
        plan.outputs.to_numpy(), np.float32([[np.inf, 4], [5, np.nan], [0, 0]]), equal_nan=True
    )
    for size in (None, 3):
        with GradientTape() as tape:
            tape.watch(x)
            y = m.compact_rows(x, mask, size=size)
        assert tape.gradient(y, x, seed=m.ones_like(y)).tolist() == [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(
        oa.errors.ShapeError, match=r"matrix\.compact_rows: x has shape \(3, 2\) and the mask \(2,\)"
    ):
        m.compact_rows(x, m.ones(any_engine, (2,)))


def test_softsign_has_a_gradient_everywhere(any_engine: Any) -> None:
    x = np.float32([-np.inf, -1e30, -3.0, -0.0, 0.5, 1.0, np.inf])
    held = m.from_numpy(any_engine, x)
    with GradientTape() as tape:
        tape.watch(held)
        y = m.softsign(held)
    assert y.tolist()[0] == -1.0 and y.tolist()[-1] == 1.0 and math.copysign(1.0, y.tolist()[3]) == -1.0
    want = np.square(1 / (1 + np.abs(x.astype(np.float64))))
    assert np.allclose(tape.gradient(y, held, seed=m.ones_like(y)).to_numpy(), want, rtol=4e-7, atol=2**-126)
