"""Random choices and statistics beside NumPy; the random words are those of the oracle's Philox."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.oracle.inputs import values
from tests.oracle.matrix import philox


def test_integers(engine: Any) -> None:
    ranges = (
        (0, 10, "int32"),
        (-7, 8, "int32"),
        (0, 2**32, "uint32"),
        (3, 200, "uint8"),
        (-(2**31), 2**31, "int32"),
    )
    for low, high, dtype in ranges:
        got = m.integers(engine, (5, 7), low, high, dtype=dtype, seed=11).to_numpy()
        words = philox(11, 0, 70).astype(object)
        wide = words[1::2] * 2**32 + words[0::2]
        want = np.array([low + int(w * (high - low) >> 64) for w in wide]).reshape(5, 7)
        assert got.dtype == np.dtype(dtype)
        assert np.array_equal(got, want)
    assert m.integers(engine, (3,), 1, seed=2).tolist() == [0, 0, 0]


def test_integers_are_even(any_engine: Any) -> None:
    got = m.integers(any_engine, (60_000,), 6, seed=5).to_numpy()
    counts = np.bincount(got, minlength=6)
    assert np.all(np.abs(counts - 10_000) < 500)


def test_bernoulli(engine: Any) -> None:
    got = m.bernoulli(engine, (9, 11), 0.3, seed=4).to_numpy()
    unit = (philox(4, 0, 99) >> np.uint32(8)).astype(np.float64) * 2.0**-24
    assert np.array_equal(got.reshape(-1), unit < np.float32(0.3))
    assert m.bernoulli(engine, (4,), 0.0).tolist() == [False] * 4


def test_permutation(engine: Any) -> None:
    got = m.permutation(engine, 50, seed=9).to_numpy()
    assert np.array_equal(got, np.argsort(philox(9, 0, 50), kind="stable"))
    x = m.from_numpy(engine, np.arange(12, dtype=np.float32).reshape(6, 2))
    rows = m.permutation(x, seed=3).to_numpy()
    assert np.array_equal(rows, x.to_numpy()[np.argsort(philox(3, 0, 6), kind="stable")])
    assert m.permutation(engine, 0).tolist() == []


def test_draws_follow_the_engine(any_engine: Any) -> None:
    before = any_engine.rng_state
    first = m.permutation(any_engine, 20).tolist()
    assert m.permutation(any_engine, 20).tolist() != first
    any_engine.rng_state = before
    assert m.permutation(any_engine, 20).tolist() == first


def test_categorical(any_engine: Any) -> None:
    p = np.array([0.5, 0.2, 0.3])
    logits = m.broadcast_to(m.from_numpy(any_engine, np.log(p).astype(np.float32)), (20_000, 3))
    counts = np.bincount(m.categorical(logits, seed=1).to_numpy(), minlength=3)
    assert np.all(np.abs(counts / 20_000 - p) < 0.015)


def test_refusals(any_engine: Any) -> None:
    with pytest.raises(oa.errors.ArgumentError, match="no integer lies"):
        m.integers(any_engine, (1,), 3, 3)
    with pytest.raises(oa.errors.DTypeError, match="does not fit uint8"):
        m.integers(any_engine, (1,), 0, 257, dtype="uint8")
    with pytest.raises(oa.errors.DTypeError, match="float32"):
        m.integers(any_engine, (1,), 3, dtype="float32")
    with pytest.raises(oa.errors.ArgumentError, match=r"p is 1\.5"):
        m.bernoulli(any_engine, (1,), 1.5)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantile(any_engine: Any, method: Any) -> None:
    n = np.random.default_rng(0).standard_normal((3, 8, 5)).astype(np.float32)
    x = m.from_numpy(any_engine, n)
    wide = n.astype(np.float64)
    for axis in (None, 0, -1, (0, 2)):
        for q in (0.0, 0.3, 0.5, 1.0, [0.25, 0.9]):
            got = m.quantile(x, q, axis=axis, method=method).to_numpy()
            want = np.quantile(wide, q, axis=axis, method=method)
            assert got.shape == want.shape
            assert np.allclose(got, want, rtol=1e-6, atol=1e-7)
    assert m.quantile(x, 0.5, axis=1, keepdims=True).shape == (3, 1, 5)


def test_quantile_of_special_values(any_engine: Any) -> None:
    x = m.from_list(any_engine, [[np.inf, np.inf, 1.0], [np.nan, 1.0, 2.0], [-np.inf, 0.0, np.inf]])
    got = m.median(x, axis=1).to_numpy()
    assert np.array_equal(got, [np.inf, np.nan, 0.0], equal_nan=True)
    y = m.from_list(any_engine, [1.0, 5.0, 2.0, 8.0])
    with oa.ml.GradientTape() as tape:
        tape.watch(y)
        middle = m.median(y)
    assert tape.gradient(middle, y).tolist() == [0.0, 0.5, 0.5, 0.0]
    with pytest.raises(oa.errors.ShapeError, match="no elements"):
        m.quantile(m.zeros(any_engine, (0,)), 0.5)
    with pytest.raises(oa.errors.ArgumentError, match="fractions"):
        m.quantile(y, 1.5)


def test_histogram(any_engine: Any) -> None:
    n = values("float32", (3, 50), np.random.default_rng(1))
    n[0, 0], n[0, 1] = np.nan, 2.0
    x = m.from_numpy(any_engine, n)
    edges = np.array([-4.0, -1.0, 0.0, 0.5, 2.0], np.float32)
    counts, found = m.histogram(x, edges.tolist())
    assert np.array_equal(counts.to_numpy(), np.histogram(n, edges)[0])
    assert np.array_equal(found.to_numpy(), edges)
    k = np.random.default_rng(2).integers(0, 64, 1000).astype(np.int32)
    y = m.from_numpy(any_engine, k)
    for bins, bounds in ((8, (0, 64)), (64, (0, 64)), (300, (0, 300)), (1500, (3, 40))):
        counts, found = m.histogram(y, bins, range=bounds)
        want, line = np.histogram(k, bins, bounds)
        assert np.array_equal(counts.to_numpy(), want)
        assert np.allclose(found.to_numpy(), line)
    counts, found = m.histogram(m.full(any_engine, (4,), 3.0), 2)
    assert (counts.tolist(), found.tolist()) == ([0, 4], [2.5, 3.0, 3.5])


def test_repeat(engine: Any) -> None:
    n = values("int32", (3, 4), np.random.default_rng(3))
    x = m.from_numpy(engine, n)
    assert np.array_equal(m.repeat(x, 3).to_numpy(), np.repeat(n, 3))
    assert np.array_equal(m.repeat(x, 2, axis=1).to_numpy(), np.repeat(n, 2, 1))
    assert np.array_equal(m.repeat(x, 0, axis=0).to_numpy(), np.repeat(n, 0, 0))
    for counts in ([1, 0, 2], [2, 0, 0]):
        assert np.array_equal(
            m.repeat(x, m.from_list(engine, counts), axis=0).to_numpy(), np.repeat(n, counts, 0)
        )
    assert np.array_equal(m.repeat(x, [0, 2, 1, 1], axis=1).to_numpy(), np.repeat(n, [0, 2, 1, 1], 1))
    with pytest.raises(oa.errors.ArgumentError, match="repeats is -1"):
        m.repeat(x, -1)
    with pytest.raises(oa.errors.ShapeError, match="repeats"):
        m.repeat(x, [1, 2], axis=0)


def test_take_along_axis_and_segments(engine: Any) -> None:
    n = values("float32", (3, 4), np.random.default_rng(4))
    x = m.from_numpy(engine, n)
    order = np.argsort(n, 1)
    assert np.array_equal(
        m.take_along_axis(x, m.argsort(x), axis=1).to_numpy(), np.take_along_axis(n, order, 1)
    )
    one = np.array([[2, -1, 0]], np.int32)
    got = m.take_along_axis(x, m.from_numpy(engine, one)).to_numpy()
    assert np.array_equal(got, np.take_along_axis(n, np.repeat(one, 3, 0), 1))
    total = m.segment_sum(x, m.from_list(engine, [1, 4, 1]), 3).to_numpy()
    assert np.allclose(total, [np.zeros(4), n[0] + n[2], np.zeros(4)])
    counts = m.segment_sum(m.ones(engine, (3, 2), dtype="int32"), m.from_list(engine, [2, 2, -1]), 3)
    assert counts.tolist() == [[0, 0], [0, 0], [2, 2]]
    with pytest.raises(oa.errors.ArgumentError, match="needs an axis"):
        m.take(x, m.from_list(engine, [0]))
