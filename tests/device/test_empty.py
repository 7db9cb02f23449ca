"""Values without elements between operations: nobody computes them, and what reads them has its identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oa import matrix as m

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "sum of a product": lambda xp, x: xp.sum(xp.matmul(x, xp.ones((3, 4), dtype=x.dtype))),
    "sum of sums": lambda xp, x: xp.sum(xp.sum(x, axis=1) * 2.0),
    "sums of a sum": lambda xp, x: xp.sum(x * 2.0, axis=0) + xp.sum(x * 2.0 + 1.0, axis=0),
    "several uses": lambda xp, x: xp.all(
        xp.where(xp.isnan(x * 2.0), xp.tril(x) > 0, xp.equal(x, xp.tril(x)))
    ),
    "any of a comparison of products": lambda xp, x: xp.any(xp.matmul(x, x.T) > 0),
    "behind a concatenation": lambda xp, x: xp.max(xp.concat([xp.sum(x, axis=1), xp.ones(2, dtype=x.dtype)])),
    "between rows": lambda xp, x: xp.concat(
        [xp.sum(x, axis=1, keepdims=True) * x, xp.ones((2, 3), dtype=x.dtype)]
    ),
    "products": lambda xp, x: xp.prod(xp.cumulative_sum(xp.sum(x, axis=1))),
}


@pytest.mark.parametrize("name", CASES)
def test_chain(engine: Any, name: str) -> None:
    empty = np.zeros((0, 3), np.float32)
    got = CASES[name](m, m.from_numpy(engine, empty)).to_numpy()
    want = CASES[name](np, empty)
    assert got.shape == want.shape and np.array_equal(got, want)


def test_gather_from_a_flipped_value_without_rows(engine: Any) -> None:
    """No row exists: every index is outside, and no address behind the view's start may be read."""
    x = m.flip(m.from_numpy(engine, np.zeros((0, 4), np.float32)), axis=0)
    at = m.from_numpy(engine, np.array([-2, 1, -1], np.int32))
    assert np.isnan(m.take(x, at, axis=0).to_numpy()).all()
    assert np.isnan(m.gather(x, m.from_numpy(engine, np.zeros((3, 4), np.int32)), 0).to_numpy()).all()


def test_padding_of_a_flipped_value_without_rows(engine: Any) -> None:
    x = m.flip(m.from_numpy(engine, np.zeros((0, 4), np.float32)), axis=0)
    assert np.array_equal(m.pad(x, ((1, 2), (0, 1))).to_numpy(), np.zeros((3, 5), np.float32))


def test_zeros_of_a_product_without_columns_keep_their_sign_rules(engine: Any) -> None:
    """-0 + 0 is +0, also where a driver could see the zero in the kernel."""
    a, b = (m.from_numpy(engine, np.zeros(s, np.float32)) for s in ((3, 0), (0, 2)))
    total = ((-m.matmul(a, b)) * 0.0 + m.matmul(a, b) * 0.01).to_numpy()
    assert np.array_equal(total.view(np.uint32), np.zeros((3, 2), np.uint32))
