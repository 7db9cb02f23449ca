"""Clusters that are alike are lowered once, and lowering them again or for the first time gives one and the same plan."""

from __future__ import annotations

from typing import Any

import pytest

from oa import matrix as m
from oa import ml
from oa._lower import alike, kernels
from tests.fuzz.wide import grown
from tests.null.lower_rig import PROFILES, Recorder, lowered


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts with nothing lowered."""
    monkeypatch.setattr(alike, "_KNOWN", type(alike._KNOWN)(alike.DEVICES))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of clusters that are lowered and not found."""
    found: list[str] = []
    for name in ("_fused", "_partial"):
        plain = getattr(kernels, name)

        def spy(fusion: Any, cluster: Any, *rest: Any, plain: Any = plain) -> Any:
            found.append(cluster.kind)
            return plain(fusion, cluster, *rest)

        monkeypatch.setattr(kernels, name, spy)
    return found


def layers(e: Recorder) -> Any:
    """Five layers that differ in their values alone."""
    x, w = e.input(16, 8), e.input(8, 8)
    for k in range(5):
        x = ml.layer_norm(m.matmul(x, w), e.input(8), e.input(8)) * (1.5 + k)
    return x


def both_ways(e: Recorder) -> Any:
    """A gradient: recomputed values, gathers, partial sums and a chain of products."""
    x, w, ids = e.input(64, 16), e.input(16, 16), e.input(64, dtype="int32")
    with ml.GradientTape() as tape:
        tape.watch([x, w])
        y = m.take(x, ids, axis=0)
        for _ in range(3):
            y = y + m.gelu(ml.layer_norm(m.matmul(y, w), w[0], w[1]))
        loss = ml.cross_entropy(y, ids)
    return [loss, *tape.gradient(loss, [x, w])]


@pytest.mark.parametrize("name", PROFILES)
def test_layers_are_lowered_once(name: str, made: list[str]) -> None:
    plan = lowered(layers, name).plan
    assert len(made) == 1
    assert sum(d.label != "matmul" for d in plan.dispatches()) == 5
    lowered(layers, name)
    assert len(made) == 1


def test_each_cluster_reads_its_own_values_and_numbers() -> None:
    def function(e: Recorder) -> Any:
        inputs = [e.input(40) for _ in range(3)]
        grown = [m.exp(x * (2.0 + k)) for k, x in enumerate(inputs)]
        return [m.matmul(m.reshape(x, (5, 8)), e.input(8, 3)) for x in grown]

    plan = lowered(function, "card").plan
    maps = [d for d in plan.dispatches() if d.label != "matmul"]
    assert len({d.kernel.digest for d in maps}) == 1
    assert [d.operands[0].index for d in maps] == [0, 1, 2]
    assert len({d.words for d in maps}) == 3
    assert len({d.nodes for d in maps}) == 3


def test_what_differs_is_told_apart(made: list[str]) -> None:
    for shape, axis in (((16, 8), 1), ((16, 8), 0), ((8, 16), 1)):
        lowered(lambda e, s=shape, a=axis: m.softmax(e.input(*s), axis=a))
    lowered(lambda e: m.softmax(e.input(8, 16).T, axis=1))
    lowered(lambda e: m.softmax(e.input(16, 16)[:, ::2], axis=1))
    lowered(lambda e: m.log_softmax(e.input(16, 8), axis=1))
    assert len(made) == 6
    lowered(lambda e: m.softmax(e.input(16, 8), axis=1))
    assert len(made) == 6


def test_profiles_are_told_apart(made: list[str]) -> None:
    for name in PROFILES:
        lowered(lambda e: m.exp(e.input(9)), name)
    assert len(made) == len(PROFILES)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("function", [layers, both_ways])
def test_a_plan_does_not_depend_on_what_is_known(name: str, function: Any) -> None:
    cold = lowered(function, name).plan
    assert lowered(function, name).plan == cold
    alike._KNOWN.clear()
    lowered(lambda e: [function(e), function(e)], name)
    assert lowered(function, name).plan == cold


def random(seed: int) -> Any:
    """A function that records a random graph."""
    program = grown(seed, seed % 2 == 1, 15)

    def function(e: Recorder) -> Any:
        values = program.run([e.like(x) for x in program.inputs])
        return [values[k] for k in program.wanted]

    return function


def test_random_graphs_do_not_depend_on_what_is_known() -> None:
    cold = []
    for seed in range(40):
        alike._KNOWN.clear()
        cold.append(lowered(random(seed)).plan)
    assert [lowered(random(seed)).plan for seed in range(40)] == cold
    assert [lowered(random(seed)).plan for seed in reversed(range(40))] == cold[::-1]
