"""Rows, chunks and products so long that one invocation's loops would go around more often than llvmpipe lets them (65,535
times in all, after which it computes on with what there is)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oa import matrix as m

LENGTHS = (65_535, 65_537, 262_140, 262_141, 300_000, 1_000_003)


def whole(*shape: int) -> np.ndarray[Any, Any]:
    """Small whole numbers: sums are exact."""
    return np.random.default_rng(1).integers(-2, 3, shape).astype(np.float32)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_last_element_counts(engine: Any, length: int) -> None:
    x = np.zeros(length, np.float32)
    x[-1] = 3.0
    held = m.from_numpy(engine, x)
    assert m.argmax(held).item() == length - 1
    assert (m.sum(held).item(), m.max(held).item()) == (3.0, 3.0)
    assert m.argmin(m.from_numpy(engine, (1 - x).astype(np.int32))).item() == length - 1


@pytest.mark.parametrize("axis", [0, 1])
def test_many_long_rows(any_engine: Any, axis: int) -> None:
    x = whole(260, 70_000) if axis else whole(70_000, 260)
    held = m.from_numpy(any_engine, x)
    assert np.array_equal(m.sum(held, axis=axis).to_numpy(), x.sum(axis, dtype=np.float64))
    assert np.array_equal(m.argmax(held * 2.0, axis=axis).to_numpy(), x.argmax(axis))


@pytest.mark.parametrize("length", [65_540, 120_000, 300_001])
def test_several_passes_over_a_row(engine: Any, length: int) -> None:
    x = np.random.default_rng(2).normal(size=(3, length)).astype(np.float32)
    got = m.softmax(m.from_numpy(engine, x), axis=1).to_numpy()
    wanted = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    assert np.abs(got / wanted - 1).max() < 40 * 2.0**-23  # exp and a sum of its results: as for short rows


def test_many_passes_over_a_row(any_engine: Any) -> None:
    """More than one kernel may hold: what cannot be one is run in parts."""
    x = y = whole(2, 120_000)
    held = m.from_numpy(any_engine, x)
    for _ in range(12):
        held = held - m.max(held, axis=1, keepdims=True)
        y = y - y.max(1, keepdims=True)
    assert np.array_equal(held.to_numpy(), y)


@pytest.mark.parametrize("shape", [(2, 300_000, 2), (40, 140_000, 40), (1, 1_000_000, 3)])
def test_long_products(engine: Any, shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    a, b = whole(rows, depth), whole(depth, columns)
    got = m.matmul(m.from_numpy(engine, a), m.from_numpy(engine, b)).to_numpy()
    assert np.array_equal(got, a.astype(np.float64) @ b.astype(np.float64))
