"""What a user writes, for mypy: `assert_type` fails the check where a hint is missing, too wide or wrong. It is never run.

`./run check` looks at it in strict mode.
"""

from __future__ import annotations

import sys

import numpy as np

import oa
from oa import matrix as m
from oa import ml

if sys.version_info >= (3, 11):
    from typing import assert_type
else:
    from typing_extensions import assert_type


def engines() -> None:
    with oa.Engine(device="cpu", seed=1) as engine:
        assert_type(engine, oa.Engine)
        assert_type(m.zeros(engine, (2, 3)), oa.Matrix)
        assert_type(m.ones((2, 3), dtype=oa.int32, device=engine), oa.Matrix)
        assert_type(m.arange(engine, 5), oa.Matrix)
        assert_type(m.full(engine, [2], 1.0), oa.Matrix)
        assert_type(m.eye(engine, 3), oa.Matrix)
        assert_type(m.linspace(engine, 0.0, 1.0, 5), oa.Matrix)
        assert_type(m.from_numpy(engine, np.ones(3)), oa.Matrix)
        assert_type(m.from_list(engine, [[1, 2], [3, 4]]), oa.Matrix)
        assert_type(m.asarray([1.0]), oa.Matrix)
        assert_type(m.uniform(engine, (2,), seed=3), oa.Matrix)
        assert_type(oa.default_engine(), oa.Engine)


def operators(x: oa.Matrix, y: oa.Matrix) -> None:
    for value in (x + y, x - 1, 2.0 * x, x / y, x // 2, x % 3, x**2, 2**x, -x, +x, abs(x), x @ y):
        assert_type(value, oa.Matrix)
    for value in (x & y, x | y, x ^ True, ~x, x << 1, x >> 1, x == y, x != 0, x < y, x <= 1, x > 1.0, x >= y):
        assert_type(value, oa.Matrix)
    x += y
    x[0] = 1.0
    x[1:, ...] = y
    x[x > 0] = 0


def indexing(x: oa.Matrix, indices: oa.Matrix) -> None:
    for value in (
        x[0],
        x[-1, 2],
        x[1:3],
        x[..., None],
        x[::2, 0],
        x[indices],
        x[x > 0],
        x[[0, 1]],
        x[np.array([1])],
    ):
        assert_type(value, oa.Matrix)
    for row in x:
        assert_type(row, oa.Matrix)


def attributes(x: oa.Matrix) -> None:
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.dtype, oa.DType)
    assert_type(x.ndim, int)
    assert_type(x.size, int)
    assert_type(x.T, oa.Matrix)
    assert_type(x.mT, oa.Matrix)
    assert_type(x.engine, oa.Engine)
    assert_type(x.astype(oa.float32).reshape(2, -1).transpose(), oa.Matrix)
    assert_type(x.sum(axis=0).mean(), oa.Matrix)
    assert_type(float(x), float)
    assert_type(int(x), int)
    assert_type(bool(x), bool)
    assert_type(len(x), int)


def functions(x: oa.Matrix, y: oa.Matrix) -> None:
    assert_type(m.exp(x), oa.Matrix)
    assert_type(m.sqrt(x=x), oa.Matrix)
    assert_type(m.add(x, 1), oa.Matrix)
    assert_type(m.maximum(0.0, x), oa.Matrix)
    assert_type(m.where(x > 0, x, 0.0), oa.Matrix)
    assert_type(m.clip(x, 0.0, max=1.0), oa.Matrix)
    assert_type(m.sum(x, axis=(0, 1), keepdims=True), oa.Matrix)
    assert_type(m.argmax(x, axis=-1), oa.Matrix)
    assert_type(m.softmax(x, axis=-1), oa.Matrix)
    assert_type(m.matmul(x, y), oa.Matrix)
    assert_type(m.einsum("ij,jk->ik", x, y), oa.Matrix)
    assert_type(m.reshape(x, (2, -1)), oa.Matrix)
    assert_type(m.concat([x, y], axis=0), oa.Matrix)
    assert_type(m.stack((x, y)), oa.Matrix)
    assert_type(m.unstack(x), tuple[oa.Matrix, ...])
    assert_type(m.nonzero(x), tuple[oa.Matrix, ...])
    assert_type(m.take(x, y, axis=0), oa.Matrix)
    assert_type(m.topk(x, 3), tuple[oa.Matrix, oa.Matrix])
    assert_type(m.unique_counts(x).counts, oa.Matrix)
    assert_type(m.split(x, 2), tuple[oa.Matrix, ...])
    assert_type(m.linalg.svd(x).S, oa.Matrix)
    assert_type(m.linalg.solve(x, y), oa.Matrix)
    assert_type(m.linalg.vector_norm(x, axis=0), oa.Matrix)
    assert_type(m.result_type(x, oa.float32, 1), oa.DType)
    assert_type(m.finfo(oa.float32).eps, float)
    assert_type(m.broadcast_shapes((1, 2), (3, 1)), tuple[int, ...])


class Net(ml.Module):
    """A user's module."""

    def __init__(self, engine: oa.Engine) -> None:
        super().__init__()
        self.hidden = ml.Linear(engine, 4, 8)
        self.out = ml.Linear(engine, 8, 2)

    def forward(self, x: oa.Matrix) -> oa.Matrix:
        hidden = self.hidden(x)
        assert_type(hidden, oa.Matrix)
        return self.out(m.gelu(hidden))


def training(engine: oa.Engine, x: oa.Matrix, targets: oa.Matrix) -> float:
    model = Net(engine)
    optimiser = ml.AdamW(model.parameters(), lr=1e-3)
    with ml.GradientTape() as tape:
        loss = ml.cross_entropy(model(x), targets)
        tape.watch(x)
    assert_type(loss, oa.Matrix)
    optimiser.step(tape.gradient(loss, model.parameters()))
    state = oa.State(engine, m.zeros(engine, 3))
    assert_type(state.value, oa.Matrix)
    state.assign(state.value + 1)
    return float(loss)


def refused(x: oa.Matrix, engine: oa.Engine) -> None:
    # Each of these must be an error: an ignore that is not needed is reported.
    m.add(x, "1")  # type: ignore[arg-type]
    m.exp("1")  # type: ignore[arg-type]
    m.exp(x, x)  # type: ignore[call-arg]
    m.sum(x, keepdims=3)  # type: ignore[arg-type]
    m.reshape(3, (1,))  # type: ignore[arg-type]
    x.no_such_attribute  # type: ignore[attr-defined]  # noqa: B018
    m.no_such_function(x)  # type: ignore[attr-defined]
    m.topk(x)  # type: ignore[call-arg]
