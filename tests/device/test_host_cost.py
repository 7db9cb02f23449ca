"""What an eager loop costs the host, counted and not timed: plans looked up, operations recorded, lines kept."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import oa
from oa import matrix as m
from oa import ml


def pending(engine: Any) -> list[str]:
    """Names of the operations recorded and not yet run."""
    return [node.instance.op.name for node in engine._batch.nodes]


class Trained:
    """A small model with its optimiser, trained eagerly."""

    def __init__(self, engine: Any) -> None:
        self.layer = ml.Linear(engine, 8, 8)
        self.norm = ml.LayerNorm(engine, 8)
        self.optimizer = ml.AdamW([*self.layer.parameters(), *self.norm.parameters()], lr=1e-2)
        self.x = m.uniform(engine, (4, 8), seed=1)

    def step(self) -> Any:
        """One update; returns the loss."""
        with ml.GradientTape() as tape:
            loss = m.mean(m.square(self.norm(m.relu(self.layer(self.x)))))
        self.optimizer.step(tape.gradient(loss, self.optimizer.parameters))
        return loss


def test_an_eager_loop_finds_its_plan(engine: Any) -> None:
    trained = Trained(engine)
    for _ in range(2):
        trained.step()
    before = engine.diagnostics
    for _ in range(5):
        trained.step()
    after = engine.diagnostics
    assert after["lowerings"] == before["lowerings"]
    assert after["cache_hits"] == before["cache_hits"] + 5
    assert after["submissions"] == before["submissions"] + 5


def test_a_loop_with_other_numbers_and_the_same_types_finds_its_plan(engine: Any) -> None:
    x = m.ones(engine, (3,))
    engine.flush()
    (x * 2.0 + 1).to_numpy()
    before = engine.diagnostics["lowerings"]
    found = [(x * float(k) + k).tolist() for k in range(3, 6)]
    assert found == [[2.0 * k] * 3 for k in range(3, 6)]
    assert engine.diagnostics["lowerings"] == before


def test_types_of_numbers_are_told_apart(engine: Any) -> None:
    x = m.full(engine, (2,), 3, dtype="int32")
    assert (x + 1).dtype is oa.int32
    with pytest.raises(oa.errors.DTypeError):
        x + 1.0
    assert (x + True).tolist() == [4, 4]
    with pytest.raises(oa.errors.DTypeError, match="does not fit"):
        x + (1 << 31)
    assert (x + 2).tolist() == [5, 5]


def test_a_parameter_is_read_by_one_operation(engine: Any) -> None:
    trained = Trained(engine)
    engine.flush()
    first = trained.layer.weight.value
    assert pending(engine) == ["matrix.window"]
    assert trained.layer.weight.value is first
    kept = [trained.layer.bias.value, trained.norm.weight.value]
    assert pending(engine) == ["matrix.window"] * 3
    assert [k.shape for k in kept] == [(8,), (8,)]
    engine.flush()
    whole = trained.optimizer.parameters[0].flat.value.to_numpy()
    assert first.to_numpy().reshape(-1).tolist() == whole[:64].tolist()


def test_a_window_has_the_gradient_of_its_slice_and_reshape(engine: Any) -> None:
    from oa.matrix.shape import window

    x = m.arange(engine, 12, dtype="float32")
    for take in (lambda: window(x, 5, (2, 3)), lambda: m.reshape(x[5:11], (2, 3))):
        with ml.GradientTape() as tape:
            tape.watch(x)
            y = m.sum(m.square(take()))
        assert take().tolist() == [[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]]
        assert tape.gradient(y, x).tolist() == [0.0] * 5 + [2.0 * k for k in range(5, 11)] + [0.0]


def test_lines_are_kept_where_somebody_asks(engine: Any) -> None:
    x = m.ones(engine, (4,))
    y = x + 1.0
    assert engine._batch.nodes[-1].where is None
    with engine.profile() as profile:
        y = y.sum() * 2.0
        line = f"{__file__}:{inspect.currentframe().f_lineno - 1}"  # type: ignore[union-attr]
        engine.flush()
        found = [engine._annotate(row) for row in profile.rows()]
    assert found and all(note == {"lines": line} for note in found)
    assert y.shape == ()
    plan = engine.capture(lambda: m.exp(x))
    assert all(node.where is not None for node in plan._nodes)


def test_a_replay_of_what_is_bound_already_only_submits(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = m.from_list(engine, [1.0, 2.0])
    plan = engine.capture(lambda: (x + 1.0, m.sum(x)))
    for _ in range(2):
        engine.submit(plan)
    before = engine.diagnostics

    def unexpected(*_: Any, **__: Any) -> None:
        raise AssertionError("a replay made or bound something")

    with monkeypatch.context() as patch:
        for owner, name in ((plan, "_advance"), (engine._pool, "allocate"), (engine._executor, "_obtain")):
            patch.setattr(owner, name, unexpected)
        events = [engine.submit(plan) for _ in range(5)]
        assert all(event.wait() for event in events)
        held = plan.outputs[0].reshape((2, 1))
        with pytest.raises(AssertionError, match="made or bound"):  # what the view sees must stay
            engine.submit(plan)
    after = engine.diagnostics
    assert after["submissions"] == before["submissions"] + 5 and after["recordings"] == before["recordings"]
    plan.bind(x, m.from_list(engine, [3.0, 5.0]))
    engine.submit(plan)
    assert (held.tolist(), plan.outputs[0].tolist(), plan.outputs[1].item()) == (
        [[2.0], [3.0]],
        [4.0, 6.0],
        8.0,
    )
    again = plan.outputs[0]
    engine.submit(plan)
    assert again.tolist() == [4.0, 6.0]


def test_what_was_read_of_an_output_is_read_again_after_a_replay(engine: Any) -> None:
    x = m.from_list(engine, [1.0, 2.0])
    plan = engine.capture(lambda: x * 2.0)
    found = []
    for k in range(4):
        plan.bind(x if not k else 0, m.full(engine, (2,), float(k)))
        engine.submit(plan)
        found += [plan.outputs.tolist(), [float(v) for v in plan.outputs]]
    assert found == [[2.0 * k] * 2 for k in range(4) for _ in range(2)]
