"""`oa.ml.checkpoint`: the same gradients to the bit in less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import ml
from oa.errors import ArgumentError
from tests.oracle.inputs import gentle


class Block(ml.Module):
    """Two layers with dropout between and a residual path around."""

    def __init__(self, engine: oa.Engine, width: int) -> None:
        self.norm = ml.LayerNorm(engine, width)
        self.up = ml.Linear(engine, width, 4 * width)
        self.dropout = ml.Dropout(0.25)
        self.down = ml.Linear(engine, 4 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.dropout(m.gelu(self.up(self.norm(x)))))


def blocks(engine: oa.Engine, kind: str, count: int) -> list[ml.Module]:
    if kind == "mlp":
        return [Block(engine, 32) for _ in range(count)]
    return [ml.TransformerBlock(engine, 32, 4, dropout=0.1) for _ in range(count)]


def step(made: list[ml.Module], x: Any, checked: bool) -> Callable[[], list[Any]]:
    """Loss and gradients of every parameter and of the input."""

    def run() -> list[Any]:
        parameters = [p for block in made for p in block.parameters()]
        with ml.GradientTape() as tape:
            tape.watch(x)
            y = x * 0.5 + x
            for block in made:
                y = ml.checkpoint(block, y) if checked else block(y)
            loss = m.mean(y * y) + m.sum(x) * 0.125
        return [loss, *tape.gradient(loss, [x, *parameters])]

    return run


def bits(values: list[Any]) -> list[bytes]:
    return [v.to_numpy().tobytes() for v in values]


@pytest.mark.parametrize("kind", ["mlp", "transformer"])
def test_gradients_are_the_same_to_the_bit(engine: Any, kind: str) -> None:
    made = blocks(engine, kind, 3)
    x = m.from_numpy(engine, gentle((2, 16, 32), np.random.default_rng(3)))
    found = []
    for checked in (False, True):
        run = step(made, x, checked)
        engine.rng_state = (7, 0)
        found.append(bits(run()))
        engine.rng_state = (7, 0)
        plan = engine.capture(run)
        engine.submit(plan)
        found.append(bits(plan.outputs))
    assert all(other == found[0] for other in found[1:])


@pytest.mark.parametrize("kind", ["mlp", "transformer"])
def test_the_arena_shrinks(any_engine: Any, kind: str) -> None:
    """Of a deep model: what a checkpoint keeps a block is its input, of all that the block computes inside."""
    made = blocks(any_engine, kind, 12)
    x = m.from_numpy(any_engine, gentle((8, 64, 32), np.random.default_rng(4)))
    plain, checked = (
        any_engine.capture(step(made, x, flag)).diagnostics["arena_bytes"] for flag in (False, True)
    )
    assert checked * 3 < plain, (checked, plain)


def test_what_a_function_may_return_and_read(any_engine: Any) -> None:
    x, w = (m.from_numpy(any_engine, gentle((4, 4), np.random.default_rng(k))) for k in (5, 6))

    def several(x: Any, k: int) -> dict[str, Any]:
        y = m.exp(x @ w)
        return {"y": y, "parts": (m.sum(y * k, axis=0), [x]), "label": "x"}

    def gradients(call: Any) -> list[bytes]:
        with ml.GradientTape() as tape:
            tape.watch([x, w])
            found = call(several, x, 3)
            loss = m.sum(found["y"]) + m.sum(found["parts"][0] * found["parts"][1][0][1])
        assert found["label"] == "x"
        return bits([loss, *tape.gradient(loss, [x, w])])

    nested = lambda f, *a: ml.checkpoint(lambda *b: ml.checkpoint(f, *b), *a)  # noqa: E731
    assert gradients(lambda f, *a: f(*a)) == gradients(ml.checkpoint) == gradients(nested)


def test_second_derivatives(any_engine: Any) -> None:
    x = m.from_numpy(any_engine, gentle((5,), np.random.default_rng(8)))

    def second(call: Any) -> bytes:
        with ml.GradientTape() as outer:
            outer.watch(x)
            with ml.GradientTape() as inner:
                inner.watch(x)
                y = m.sum(call(lambda v: m.tanh(v) * v, x))
            slope = m.sum(inner.gradient(y, x) ** 2)
        return bits([outer.gradient(slope, x)])[0]

    assert second(ml.checkpoint) == second(lambda f, *a: f(*a))


def test_a_cell_is_assigned_once(any_engine: Any) -> None:
    count = oa.State(any_engine, m.zeros(any_engine, ()))
    x = m.ones(any_engine, (3,))

    def counted(v: Any) -> Any:
        count.assign(count.value + 1.0)
        return v * v

    with ml.GradientTape() as tape:
        tape.watch(x)
        y = m.sum(ml.checkpoint(counted, x))
    assert tape.gradient(y, x).tolist() == [2.0, 2.0, 2.0]
    assert count.value.item() == 1.0


def test_without_a_tape_it_is_the_call(any_engine: Any) -> None:
    x = m.ones(any_engine, (2,))
    assert ml.checkpoint(lambda v: v + 1.0, x).tolist() == [2.0, 2.0]
    with ml.GradientTape() as tape:
        tape.watch(x)
        y = m.sum(x * x)
        ml.checkpoint(lambda v: m.floor(v), m.zeros(any_engine, (2,)))  # nothing watched goes in
    assert tape.gradient(y, x).tolist() == [2.0, 2.0]


def test_wrong_use(any_engine: Any) -> None:
    with pytest.raises(ArgumentError, match="wanted a function"):
        ml.checkpoint(3, m.ones(any_engine, (2,)))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no argument is a Matrix"):
        ml.checkpoint(lambda: None)
