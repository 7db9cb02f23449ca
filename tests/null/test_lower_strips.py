"""Which row kernels take sums over their rows."""

from __future__ import annotations

from typing import Any

import pytest

from oa import matrix as m
from oa import ml
from tests.null.lower_rig import Recorder, kernels, lowered


def norm(*shape: int) -> Any:
    def function(e: Recorder) -> Any:
        x, w, b = e.input(*shape), e.input(shape[-1]), e.input(shape[-1])
        with ml.GradientTape() as tape:
            tape.watch([x, w, b])
            y = ml.layer_norm(x, w, b)
        return [y, *tape.gradient(y, [x, w, b], seed=e.input(*shape))]

    return function


@pytest.mark.parametrize("shape", [(8192, 4096), (32768, 1024), (8, 1024, 4096)], ids=str)
def test_a_norm_both_ways_goes_through_its_rows_once(shape: tuple[int, ...]) -> None:
    program = lowered(norm(*shape), "card")
    first, *rest = program.plan.dispatches()
    array = 4 * shape[-1] * (program.plan.outputs[0].size // (4 * shape[-1]))
    assert len(rest) == 2
    assert sum(d.cost.read for d in rest) < array / 8
    assert first.cost.read < 2.1 * array and first.cost.written < 2.1 * array
    assert len(kernels(lowered(norm(*shape), "card", without=frozenset({"strips"})))) == 4


@pytest.mark.parametrize(
    ("name", "shape"),
    [("card", (256, 64)), ("card", (8192, 8192)), ("lavapipe-descriptor", (8192, 1024))],
    ids=["rows that keep no device busy", "rows longer than registers", "a software device"],
)
def test_where_strips_would_not_profit_nothing_changes(name: str, shape: tuple[int, ...]) -> None:
    assert kernels(lowered(norm(*shape), name)) == kernels(
        lowered(norm(*shape), name, without=frozenset({"strips"}))
    )


def test_what_the_rows_follow_from_is_no_part_of_them() -> None:
    """A sum over the rows that the row kernel itself reads."""

    def function(e: Recorder) -> Any:
        x = e.input(8192, 1024)
        return m.softmax(x - m.sum(x, axis=0))

    assert kernels(lowered(function, "card")) == kernels(
        lowered(function, "card", without=frozenset({"strips"}))
    )
