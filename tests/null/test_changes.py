"""Why something had to be lowered: what changed in the key, against the nearest earlier program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oa import matrix as m
from oa._inspect import changes
from oa._inspect.changes import Compilation, History
from oa.programs import Programs
from tests.null.lower_rig import Recorder, graph_of, profile

Build = Callable[[Recorder], Any]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No program of another test is near."""
    monkeypatch.setattr(History, "_process", ())
    yield


def compiled(*builds: Build, where: str = "card") -> list[Compilation]:
    programs = Programs(profile(where))
    for build in builds:
        programs.lower(graph_of(build))
    return programs.compilations()


def told(*builds: Build) -> str:
    return "; ".join(compiled(*builds)[-1].changes)


def test_the_first_has_nothing_to_be_compared_with() -> None:
    (only,) = compiled(lambda r: r.input(3) + 1.0)
    assert only.nearest is None and not only.recompiled and str(only).endswith(": the first")


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (lambda r: m.exp(r.input(4, 5)), lambda r: m.exp(r.input(6, 5)), "input 0 has shape (6, 5), had (4, 5)"),
        (lambda r: m.abs(r.input(4)), lambda r: m.abs(r.input(4, dtype="int32")), "input 0 has dtype int32, had float32"),
        (lambda r: m.sum(r.input(4, 5), 0), lambda r: m.sum(r.input(4, 5), 1), "axes is (1,), was (0,)"),
        (lambda r: m.exp(r.input(4)), lambda r: m.tanh(r.input(4)), "operation 0 is matrix.tanh, was matrix.exp"),
        (lambda r: m.exp(r.input(4)), lambda r: m.exp(m.exp(r.input(4))), "2 operations, were 1"),
        (lambda r: m.ones(r, (3,)) + r.input(3), lambda r: m.ones(r, (1,)) + r.input(3), "shape is (1,), was (3,)"),
        (lambda r: r.input(4) + 1.0, lambda r: r.input(4) + r.input(4), "input 1 is a value, was a number"),
    ],
)  # fmt: skip
def test_shape_dtype_option_operation_and_constant(before: Build, after: Build, sentence: str) -> None:
    assert sentence in told(before, after)


def test_numbers_are_data_and_change_nothing() -> None:
    assert "nothing" in told(lambda r: r.input(4) * 2.0, lambda r: r.input(4) * 3.0)


def test_which_results_are_wanted_and_how_operands_are_wired() -> None:
    def both(r: Recorder) -> Any:
        y = m.exp(r.input(4))
        return y, y * 2.0

    def one(r: Recorder) -> Any:
        return m.exp(r.input(4)) * 2.0

    assert "results wanted: v1, were v0, v1" in told(both, one)

    def twice(r: Recorder) -> Any:
        x = r.input(4)
        return x + x

    assert "operation 0, matrix.add, reads in0, in0, read in0, in1" in told(
        lambda r: r.input(4) + r.input(4), twice
    )


def test_layouts() -> None:
    def transposed(r: Recorder) -> Any:
        x = r.input(4, 4)
        x._value.layout = dataclasses.replace(x._value.layout, strides=(1, 4))
        return m.exp(x)

    assert "input 0 lies otherwise in memory: offset 0, strides (1, 4), had 0, (4, 1)" in told(
        lambda r: m.exp(r.input(4, 4)), transposed
    )


def test_device_profile_addressing_and_trust() -> None:
    build: Build = lambda r: m.sqrt(r.input(8))  # noqa: E731
    compiled(build, where="lavapipe-address")
    (other,) = compiled(build, where="lavapipe-descriptor")
    assert other.recompiled and other.changes == ("addressing is descriptor, was address",)
    (card,) = compiled(build, where="card")
    assert "the device or its driver is another" in card.changes
    programs = Programs(profile("card"))
    programs.trust(frozenset({"fsqrt"}))
    programs.lower(graph_of(build))
    assert programs.compilations()[-1].changes == ("native operations trusted: with fsqrt",)


def test_the_nearest_is_the_one_with_fewest_differences() -> None:
    found = compiled(
        lambda r: m.exp(r.input(4, 5)) + r.input(4, 5),
        lambda r: m.exp(r.input(9, 9)) + r.input(9, 9),
        lambda r: m.exp(r.input(4, 5)) + r.input(1, 5),
    )
    assert found[2].nearest == found[0].plan
    assert found[2].changes == ("input 1 has shape (1, 5), had (4, 5)",)


def test_counters_and_memory_of_lowerings() -> None:
    programs = Programs(profile("card"))
    for rows in range(1, changes.REMEMBERED + 10):
        programs.lower(graph_of(lambda r, n=rows: m.exp(r.input(n))))
    assert programs.counters()["recompilations"] == programs.counters()["lowerings"] - 1
    assert len(programs.compilations()) == changes.REMEMBERED
    assert len(History._process) == changes.HISTORY


def test_large_graphs_push_out_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "OPERATIONS", 5)
    compiled(*[lambda r, n=n: m.exp(m.exp(r.input(n))) for n in range(1, 6)])
    assert len(History._process) == 2


def test_many_differences_are_counted() -> None:
    def sum_of(r: Recorder, extent: int) -> Any:
        total = r.input(extent)
        for _ in range(20):
            total = total + r.input(extent)
        return total

    found = compiled(lambda r: sum_of(r, 3), lambda r: sum_of(r, 4))[-1].changes
    assert len(found) == changes.MOST + 1 and found[-1].startswith("and ")
