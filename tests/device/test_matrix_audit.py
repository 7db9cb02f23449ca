"""OA_CHECK=1: what is fused is also run apart, and an operation that differs is named with the user's line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oa
from oa import audit, engine, plan, programs
from oa import matrix as m
from oa._lower import alike
from oa._lower.pull import Pull
from oa._schema import scalar as sc
from tests.fuzz.wide import grown


@pytest.fixture
def checked(any_engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The engine as with OA_CHECK=1 in the environment, knowing no plan."""
    for module in (engine, plan, programs):
        monkeypatch.setattr(module, "CONFIG", dataclasses.replace(module.CONFIG, check=True))
    any_engine._programs._known.clear()
    yield any_engine
    any_engine._programs._known.clear()


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of fusion: the exponential is another function where it shares its kernel."""
    plain = Pull._pointwise

    def wrong(self: Pull, node: Any, *rest: Any) -> Any:
        if node.name == "matrix.exp" and len(self.cluster.members) > 1:
            node = dataclasses.replace(node, body=sc.apply("exp2", node.body.args[0]))
        return plain(self, node, *rest)

    monkeypatch.setattr(Pull, "_pointwise", wrong)
    monkeypatch.setattr(alike, "_KNOWN", type(alike._KNOWN)(alike.DEVICES))


def model(x: Any) -> Any:
    h = m.tanh(x * 2.0)
    y = m.exp(h) + 1.0  # the fault
    return m.sqrt(y) * h


def here(function: Any, offset: int) -> str:
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno + offset}"


def test_right_plans_pass(checked: Any) -> None:
    for seed in range(4):
        program = grown(seed, True, 8)
        values = program.run([m.from_numpy(checked, x) for x in program.inputs])
        for k in program.wanted:
            values[k].to_numpy()
    x = m.from_list(checked, [0.5, 1.5])
    captured = checked.capture(lambda: (model(x), m.uniform(checked, (4,))))
    checked.submit(captured)
    checked.submit(captured)
    assert captured.outputs[0].tolist() == model(x).tolist()
    assert not checked._programs._unaudited


def test_each_plan_is_run_apart_once(checked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[bool] = []

    def count(*args: Any, fused: bool = True, **named: Any) -> Any:
        lowered.append(fused)
        return programs.lower(*args, fused=fused, **named)

    monkeypatch.setattr(audit, "lower", count)
    for value in (1.0, 2.0, 3.0):
        model(m.full(checked, (5,), value)).to_numpy()
    assert lowered == [False]


def test_the_first_operation_that_differs_is_named(checked: Any, broken: None) -> None:
    y = model(m.from_list(checked, [0.5, 1.5]))
    with pytest.raises(oa.errors.InternalError, match=r"OA_CHECK: matrix\.exp") as caught:
        y.to_numpy()
    assert here(model, 2) in str(caught.value)
    assert "2 of 2 elements" in str(caught.value)
    with pytest.raises(oa.errors.PoisonedValue, match="OA_CHECK"):
        y.to_numpy()
    assert (m.ones(checked, (2,)) + 1.0).tolist() == [2.0, 2.0]


def test_a_captured_plan_is_checked_at_its_first_run(checked: Any, broken: None) -> None:
    x = m.from_numpy(checked, np.float32([0.5, 1.5]))
    captured = checked.capture(lambda: model(x))
    with pytest.raises(oa.errors.InternalError, match=r"OA_CHECK: matrix\.exp"):
        checked.submit(captured)
    assert (x + 1.0).tolist() == [1.5, 2.5]
