"""Modules and parameters: names, counts, modes, values that never change once read, loading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix, ml


class Net(ml.Module):
    """Two linear layers in a list, a tied one, and a dropout."""

    def __init__(self, engine: Any) -> None:
        self.scale = ml.Parameter(matrix.ones(engine, ()))
        self.layers = [ml.Linear(engine, 3, 5), ml.Linear(engine, 5, 2, bias=False)]
        self.tied = self.layers[0]
        self.dropout = ml.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.dropout(x) * self.scale.value


def test_names_follow_the_attributes_and_tied_weights_count_once(any_engine: Any) -> None:
    net = Net(any_engine)
    assert list(net.named_parameters()) == ["scale", "layers.0.weight", "layers.0.bias", "layers.1.weight"]
    assert net.parameter_count == 1 + 15 + 5 + 10
    assert "layers.0: Linear(3, 5)  20 parameters" in repr(net)
    assert repr(net).splitlines()[0] == "Net()  31 parameters"


def test_modes_reach_the_whole_tree(any_engine: Any) -> None:
    net = Net(any_engine)
    assert net.dropout.training
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert net.train().dropout.training


def test_a_value_read_earlier_never_changes(any_engine: Any) -> None:
    for optimised in (False, True):
        parameter = ml.Parameter(matrix.from_list(any_engine, [1.0, 2.0]))
        other = ml.Parameter(matrix.ones(any_engine, (3,)))
        if optimised:  # then both live in one cell
            ml.AdamW([parameter, other])
        before = parameter.value
        assert parameter.value is before
        parameter.assign(matrix.from_list(any_engine, [5.0, 6.0]))
        assert before.to_numpy().tolist() == [1.0, 2.0]
        assert parameter.value.to_numpy().tolist() == [5.0, 6.0]
        assert other.value.to_numpy().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("optimised", [False, True])
def test_a_layer_used_several_times_collects_all_its_gradients(any_engine: Any, optimised: bool) -> None:
    layer, neighbour = ml.Linear(any_engine, 3, 3), ml.Linear(any_engine, 3, 3)
    if optimised:
        ml.AdamW([*layer.parameters(), *neighbour.parameters()])
    with ml.GradientTape() as tape:
        loss = matrix.sum(layer(layer(layer(matrix.ones(any_engine, (4, 3))))))
    _, bias = tape.gradient(loss, layer.parameters())
    w, one = layer.weight.value.to_numpy().astype(np.float64), np.ones(3)
    assert bias.to_numpy() == pytest.approx(4 * (one + w.T @ one + w.T @ w.T @ one), rel=1e-5)


def test_changing_what_was_read_leaves_the_parameter(any_engine: Any) -> None:
    first, second = (ml.Parameter(matrix.ones(any_engine, (3,))) for _ in range(2))
    ml.AdamW([first, second])
    for parameter in (first, second):
        read = parameter.value
        read[0] = 5.0
        assert parameter.value.to_numpy().tolist() == [1.0, 1.0, 1.0]
        assert read.to_numpy().tolist() == [5.0, 1.0, 1.0]


@pytest.mark.parametrize("optimised", [False, True])
def test_state_round_trip_is_exact(any_engine: Any, optimised: bool) -> None:
    first, second = Net(any_engine), Net(any_engine)
    if optimised:
        ml.AdamW(second.parameters())
    state = first.state_dict()
    second.load_state_dict({n: v.to_numpy() for n, v in state.items()})
    for name, value in second.state_dict().items():
        assert np.array_equal(value.to_numpy(), state[name].to_numpy()), name
    second.load_state_dict(state)


def test_a_state_that_does_not_fit_changes_nothing(any_engine: Any) -> None:
    net = Net(any_engine)
    before = {n: v.to_numpy() for n, v in net.state_dict().items()}
    good = {n: np.zeros_like(v) for n, v in before.items()}
    with pytest.raises(oa.errors.ArgumentError, match=r"missing: scale; unknown: spare"):
        net.load_state_dict({**{n: v for n, v in good.items() if n != "scale"}, "spare": good["scale"]})
    with pytest.raises(oa.errors.ShapeError, match=r"layers\.1\.weight: the value has shape \(5, 2\)"):
        net.load_state_dict({**good, "layers.1.weight": np.zeros((5, 2), np.float32)})
    with pytest.raises(oa.errors.DTypeError, match=r"layers\.1\.weight: the value is int32"):
        net.load_state_dict({**good, "layers.1.weight": np.zeros((2, 5), np.int32)})
    for name, value in net.state_dict().items():
        assert np.array_equal(value.to_numpy(), before[name]), name


def test_parameters_are_float32_and_stay_with_one_optimiser(any_engine: Any) -> None:
    with pytest.raises(oa.errors.DTypeError, match="int32"):
        ml.Parameter(matrix.zeros(any_engine, (2,), dtype="int32"))
    parameter = ml.Parameter(matrix.zeros(any_engine, (2,)))
    ml.AdamW([parameter])
    with pytest.raises(oa.errors.ArgumentError, match="belongs to another optimiser"):
        ml.AdamW([parameter])
    with pytest.raises(oa.errors.ArgumentError, match="listed twice"):
        ml.AdamW([ml.Parameter(matrix.zeros(any_engine, (2,)))] * 2)
    with pytest.raises(oa.errors.ArgumentError, match="empty"):
        ml.AdamW([])


def test_one_seed_gives_one_model(device_name: str) -> None:
    def values(seed: int) -> list[Any]:
        with oa.Engine(device=device_name, seed=seed) as engine:
            return [p.value.to_numpy() for p in ml.TransformerBlock(engine, 8, 2).parameters()]

    first, again, other = values(3), values(3), values(4)
    assert all(np.array_equal(a, b) for a, b in zip(first, again))
    weights = [(a, b) for a, b in zip(first, other) if a.ndim == 2]
    assert not any(np.array_equal(a, b) for a, b in weights)


def test_linear_starts_uniform_within_its_bound(any_engine: Any) -> None:
    weight = ml.Linear(any_engine, 100, 300).weight.value.to_numpy()
    assert np.abs(weight).max() <= 0.1
    assert weight.std() == pytest.approx(0.1 / np.sqrt(3), rel=0.03)
    table = ml.Embedding(any_engine, 300, 100, std=0.02).weight.value.to_numpy()
    assert table.std() == pytest.approx(0.02, rel=0.03)
