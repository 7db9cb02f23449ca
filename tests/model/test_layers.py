"""Layers and losses against the float64 twin: values, and gradients of inputs and of every parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix, ml
from tests.oracle import twin

#: Of one layer in float32 against float64, relative to the largest element.
TOLERANCE = 5e-6


def close(found: Any, wanted: Any, what: str, tolerance: float = TOLERANCE) -> None:
    array = found.to_numpy()
    assert array.shape == np.shape(wanted), what
    error = np.abs(array - wanted).max(initial=0.0)
    assert error <= tolerance * max(1.0, np.abs(wanted).max(initial=0.0)), f"{what}: {error}"


def compare(
    engine: Any, module: ml.Module, oracle: Callable[..., Any], shape: tuple[int, ...], *rest: Any
) -> None:
    """One forward and one backward pass of `module` and of `oracle(p, grads, "layer", x, *rest)`."""
    rng = np.random.default_rng(7)
    x32 = rng.normal(size=shape).astype(np.float32)
    for parameter in module.parameters():  # away from zeros and ones, which would hide a missing term
        noise = rng.normal(0.0, 0.3, parameter.shape).astype(np.float32)
        parameter.assign(matrix.from_numpy(engine, parameter.value.to_numpy() + noise))
    p = {f"layer.{n}": v.to_numpy().astype(np.float64) for n, v in module.state_dict().items()}
    grads: dict[str, Any] = {}
    y64, back = oracle(p, grads, "layer", x32.astype(np.float64), *rest)
    cotangent = rng.normal(size=y64.shape).astype(np.float32)
    dx64 = back(cotangent.astype(np.float64))

    x = matrix.from_numpy(engine, x32)
    with ml.GradientTape() as tape:
        tape.watch(x)
        y = module(x)
        loss = matrix.sum(y * matrix.from_numpy(engine, cotangent))
    names = list(module.named_parameters())
    dx, *found = tape.gradient(loss, [x, *module.parameters()])
    close(y, y64, "result")
    close(dx, dx64, "gradient of x")
    for name, gradient in zip(names, found):
        close(gradient, grads[f"layer.{name}"], f"gradient of {name}", 2e-5)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (2, 3, 7), (64, 64)], ids=str)
@pytest.mark.parametrize("width", [1, 6, 65])
def test_linear(engine: Any, shape: tuple[int, ...], width: int) -> None:
    compare(engine, ml.Linear(engine, shape[-1], width), twin.linear, shape)


@pytest.mark.parametrize("shape", [(3, 2), (2, 5, 7), (4, 64), (2, 1000)], ids=str)
def test_layer_norm(engine: Any, shape: tuple[int, ...]) -> None:
    compare(engine, ml.LayerNorm(engine, shape[-1]), twin.layer_norm, shape)


def test_layer_norm_keeps_its_precision_far_from_zero(engine: Any) -> None:
    x = np.random.default_rng(0).normal(1000.0, 1.0, (4, 64)).astype(np.float32)
    norm = ml.LayerNorm(engine, 64)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    close(norm(matrix.from_numpy(engine, x)), wanted, "result", 2e-4)


@pytest.mark.parametrize("shape, heads", [((1, 1, 4), 1), ((2, 5, 6), 3), ((2, 64, 32), 4)], ids=str)
def test_attention(engine: Any, shape: tuple[int, ...], heads: int) -> None:
    compare(engine, ml.MultiHeadAttention(engine, shape[-1], heads), twin.attention, shape, heads)


@pytest.mark.parametrize("shape, heads", [((1, 2, 4), 2), ((2, 9, 16), 4)], ids=str)
def test_transformer_block(engine: Any, shape: tuple[int, ...], heads: int) -> None:
    compare(engine, ml.TransformerBlock(engine, shape[-1], heads), twin.block, shape, heads)


def test_attention_without_causality_sees_everything_and_a_mask_forbids(engine: Any) -> None:
    layer = ml.MultiHeadAttention(engine, 8, 2, causal=False)
    x = np.random.default_rng(1).normal(size=(1, 4, 8)).astype(np.float32)
    changed = x.copy()
    changed[0, 3] += 1.0
    free = [layer(matrix.from_numpy(engine, v)).to_numpy() for v in (x, changed)]
    assert not np.allclose(free[0][0, 0], free[1][0, 0], atol=1e-4)
    last = np.zeros((1, 1, 1, 4), np.float32)
    last[..., 3] = ml.functional.FORBIDDEN
    mask = matrix.from_numpy(engine, last)
    masked = [layer(matrix.from_numpy(engine, v), mask).to_numpy() for v in (x, changed)]
    assert np.array_equal(masked[0][0, :3], masked[1][0, :3])


def test_embedding_sums_the_gradients_of_repeated_rows(engine: Any) -> None:
    layer = ml.Embedding(engine, 5, 3)
    ids = np.array([[0, 4, 4], [4, 2, 0]], np.int32)
    cotangent = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    with ml.GradientTape() as tape:
        rows = layer(matrix.from_numpy(engine, ids))
        loss = matrix.sum(rows * matrix.from_numpy(engine, cotangent))
    (gradient,) = tape.gradient(loss, layer.parameters())
    wanted = np.zeros((5, 3))
    np.add.at(wanted, ids, cotangent)
    assert np.array_equal(rows.to_numpy(), layer.weight.value.to_numpy()[ids])
    assert np.array_equal(gradient.to_numpy(), wanted)


@pytest.mark.parametrize("shape", [(1, 2), (7, 5), (2, 3, 103)], ids=str)
def test_cross_entropy(engine: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    logits = (4 * rng.normal(size=shape)).astype(np.float32)
    targets = rng.integers(0, shape[-1], shape[:-1]).astype(np.int32)
    wanted, gradient = twin.cross_entropy(logits.astype(np.float64), targets)
    x = matrix.from_numpy(engine, logits)
    with ml.GradientTape() as tape:
        tape.watch(x)
        loss = ml.cross_entropy(x, matrix.from_numpy(engine, targets))
    (found,) = tape.gradient(loss, [x])
    assert loss.shape == ()
    assert loss.item() == pytest.approx(wanted, rel=1e-6)
    close(found, gradient, "gradient")


def test_cross_entropy_of_huge_logits_is_finite(engine: Any) -> None:
    logits = matrix.from_list(engine, [[1e4, -1e4], [0.0, 3e38]])
    targets = matrix.from_numpy(engine, np.array([0, 1], np.int32))
    assert ml.cross_entropy(logits, targets).item() == 0.0


def test_dropout_keeps_the_mean_and_is_the_identity_in_evaluation(any_engine: Any) -> None:
    x = matrix.ones(any_engine, (200, 500))
    layer = ml.Dropout(0.25)
    y = layer(x).to_numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.01)  # seven standard deviations
    assert not np.array_equal(y, layer(x).to_numpy())
    assert layer.eval()(x) is x


def test_wrong_shapes_and_arguments_are_named(any_engine: Any) -> None:
    engine = any_engine
    x = matrix.ones(engine, (2, 3))
    with pytest.raises(oa.errors.ShapeError, match="last axis must be 4"):
        ml.Linear(engine, 4, 2)(x)
    with pytest.raises(oa.errors.ShapeError, match=r"weight has shape \(4,\)"):
        ml.LayerNorm(engine, 4)(x)
    with pytest.raises(oa.errors.ShapeError, match=r"\[batch, positions, 4\]"):
        ml.MultiHeadAttention(engine, 4, 2)(x)
    with pytest.raises(oa.errors.ShapeError, match="targets have shape"):
        ml.cross_entropy(x, matrix.zeros(engine, (3,), dtype="int32"))
    with pytest.raises(oa.errors.DTypeError, match="integer class numbers"):
        ml.cross_entropy(x, matrix.zeros(engine, (2,)))
    with pytest.raises(oa.errors.ArgumentError, match="do not divide"):
        ml.MultiHeadAttention(engine, 6, 4)
    with pytest.raises(oa.errors.ArgumentError, match="in_features is 0"):
        ml.Linear(engine, 0, 4)
    with pytest.raises(oa.errors.ArgumentError, match="at least 0 and below 1"):
        ml.Dropout(1.0)
    assert x.to_numpy().sum() == 6  # the engine still works
