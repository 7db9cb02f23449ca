"""Counts of right answers and plans of experts, beside the same written in NumPy; splitting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint32"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 2), (50, 7), (4, 5, 3)], ids=str)
def test_categorical_accuracy(engine: Any, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng([7, *shape])
    logits = np.round(rng.normal(size=shape), 1).astype(np.float32)
    labels = rng.integers(0, shape[-1] + 1, size=shape[:-1]).astype(dtype)
    mask = rng.integers(0, 2, size=shape[:-1])
    x, y = m.from_numpy(engine, logits), m.from_numpy(engine, labels)
    got = m.categorical_accuracy_count(x, y)
    right = np.argmax(logits, -1) == labels
    assert (got.dtype, got.shape, got.item()) == (oa.uint32, (), right.sum())
    for kind in ("bool", "int32", "float32"):
        some = m.categorical_accuracy_count(x, y, m.from_numpy(engine, mask.astype(kind)))
        assert some.item() == (right & (mask != 0)).sum()


def test_ties_take_the_first(any_engine: Any) -> None:
    logits = m.zeros(any_engine, (3, 4))
    assert m.categorical_accuracy_count(logits, m.from_list(any_engine, [0, 1, 3])).item() == 1


@pytest.mark.parametrize(
    ("tokens", "k", "count"), [(0, 2, 3), (1, 1, 1), (5, 2, 3), (40, 4, 16), (300, 2, 256)]
)
def test_expert_plan(engine: Any, tokens: int, k: int, count: int) -> None:
    rng = np.random.default_rng([tokens, k, count])
    choices = rng.integers(0, count, size=(tokens, k)).astype(np.int32)
    plan = m.moe_expert_plan(m.from_numpy(engine, choices), count)
    flat = choices.reshape(-1)
    order = np.argsort(flat, kind="stable")
    counts = np.bincount(flat, minlength=count)
    assert np.array_equal(plan.counts.to_numpy(), counts)
    assert np.array_equal(plan.offsets.to_numpy(), np.cumsum(counts) - counts)
    assert np.array_equal(plan.expert.to_numpy(), flat[order])
    assert np.array_equal(plan.token.to_numpy(), order // k) and np.array_equal(
        plan.slot.to_numpy(), order % k
    )
    if tokens:
        assert np.array_equal(m.take(plan.expert, plan.inverse, axis=0).to_numpy(), choices)


def test_expert_plan_of_numbers_that_are_none(any_engine: Any) -> None:
    plan = m.moe_expert_plan(m.from_list(any_engine, [[1, -1], [5, 0]]), 2)
    assert (plan.counts.tolist(), plan.offsets.tolist()) == ([1, 1], [1, 2])
    assert plan.expert.tolist() == [-1, 0, 1, 5]


def test_routing_bias(engine: Any) -> None:
    rng = np.random.default_rng(3)
    mask, bias = (rng.random((20, 6)) < 0.4).astype(np.float32), rng.normal(size=6).astype(np.float32)
    got = m.moe_routing_bias_update(
        m.from_numpy(engine, mask), m.from_numpy(engine, bias), 2, 0.25
    ).to_numpy()
    want = bias + np.float32(0.25) * np.sign(np.float32(20 * 2 / 6) - mask.sum(0))
    assert np.array_equal(got, want)


@pytest.mark.parametrize("parts", [1, 2, 3, [2], [0, 4, 4, 6], [-1]], ids=str)
def test_split(engine: Any, parts: Any) -> None:
    array = np.arange(18, dtype=np.float32).reshape(3, 6)
    got, want = m.split(m.from_numpy(engine, array), parts, axis=1), np.split(array, parts, axis=1)
    assert [part.shape for part in got] == [part.shape for part in want]
    assert all(np.array_equal(g.to_numpy(), w) for g, w in zip(got, want))


def test_refusals(any_engine: Any) -> None:
    x = m.ones(any_engine, (4, 3))
    for call, kind, text in (
        (lambda: m.split(x, 3), oa.errors.ShapeError, "extent 4 does not fall into 3"),
        (lambda: m.split(x, 1, axis=2), oa.errors.AxisError, "matrix.split: axis 2"),
        (
            lambda: m.categorical_accuracy_count(x, m.ones(any_engine, 4)),
            oa.errors.DTypeError,
            "float32.*int32",
        ),
        (
            lambda: m.categorical_accuracy_count(x, m.arange(any_engine, 3)),
            oa.errors.ShapeError,
            r"labels .*\(3,\).*\(4,\)",
        ),
        (
            lambda: m.moe_expert_plan(m.arange(any_engine, 4), 3),
            oa.errors.ShapeError,
            r"\(4,\).*\(tokens, k\)",
        ),
        (lambda: m.moe_routing_bias_update(x, m.ones(any_engine, 4), 1, 0.1), oa.errors.ShapeError, "bias"),
    ):
        with pytest.raises(kind, match=text):
            call()
