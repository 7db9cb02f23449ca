"""What follows a product in the product's own kernel: the bits of kernels apart, and the values of the oracle.

Each case runs as it is, without the pass, with every operation alone, captured and replayed, for several kernels of the family:
stores of one, two and four elements, one row, one column, ragged edges, batches, and k in ranges.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import ml
from tests.device.matrix_rig import some
from tests.oracle import matrix as oracle
from tests.oracle.compare import agrees

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Operands:
    """What epilogues read beside the product y of shape (..., rows, columns)."""

    y: Any
    row: Any  #: one number a column
    column: Any  #: one number a row
    full: Any  #: like the product
    mask: Any  #: one matrix for the whole batch, flags


def heads(o: Operands) -> Any:
    """The matrices of a batch side by side."""
    apart = m.reshape(o.y, (-1, *o.y.shape[-2:]))
    return m.reshape(m.permute_dims(apart, (1, 0, 2)), (o.y.shape[-2], -1)) + 1.0


def _named() -> dict[str, Callable[[Operands], Any]]:
    return {
        "bias": lambda o: o.y + o.row,
        "bias relu": lambda o: m.relu(o.y + o.row),
        "bias gelu": lambda o: m.gelu(o.y + o.row),
        "tanh": lambda o: m.tanh(o.y),
        "silu kept": lambda o: [o.y + o.row, m.silu(o.y + o.row)],
        "residual": lambda o: (o.y + o.row) * 0.5 + o.full,
        "product kept": lambda o: [o.y, o.y * o.column],
        "scale by rows": lambda o: o.y * o.column - 3.0,
        "mask": lambda o: m.where(o.mask, o.y, -1e9),
        "dropout": lambda o: ml.dropout(m.relu(o.y), 0.25),
        "half": lambda o: m.astype(o.y + o.row, "float16"),
        "whole numbers": lambda o: m.astype(o.y * 10.0, "int32"),
        "flags": lambda o: o.y > o.row,
        "bytes": lambda o: m.astype(m.abs(o.y) * 10.0, "uint8"),
        "reshaped": lambda o: m.reshape(o.y, (-1,)) * m.reshape(o.full, (-1,)),
        "split rows": lambda o: m.expand_dims(o.y, -3) + m.expand_dims(o.full, -3),
        "positions": lambda o: m.where(m.arange(o.y.engine, o.y.shape[-1]) > 2, o.y, o.column),
        "turned operand": lambda o: o.y + m.transpose(m.reshape(o.full, (o.y.shape[-1], -1))).reshape(o.y.shape),
        "squares": lambda o: o.y * o.y + o.full * o.y,
        "other order": lambda o: m.permute_dims(m.reshape(o.y, (-1, 1, *o.y.shape[-2:])), (1, 2, 0, 3)) * o.row,
        "heads": heads,
        "parts": lambda o: m.concat([o.y + o.row, m.relu(o.y), o.full]),
        "nothing to do": lambda o: m.negative(o.y),
    }  # fmt: skip


EPILOGUES = _named()
#: batch, m, k, n
SHAPES = {
    "fours": ((), 8, 24, 64),
    "twos": ((), 20, 8, 16),
    "odd": ((), 7, 17, 29),
    "row": ((), 1, 40, 20),
    "column": ((), 21, 40, 1),
    "tiny": ((), 3, 2, 5),
    "batch": ((3,), 9, 7, 12),
    "two batches": ((2, 3), 5, 9, 10),
    "ranges": ((), 5, 2100, 8),
    "ranges of a batch": ((2,), 6, 1100, 7),
}


@contextmanager
def leaving_out(engine: Any, *passes: str) -> Iterator[None]:
    """The engine without some passes."""
    programs, own = engine._programs, engine._programs.without
    programs.without = frozenset(passes)
    programs._known.clear()
    yield
    programs.without = own
    programs._known.clear()


@contextmanager
def tuned(engine: Any, tuning: str) -> Iterator[None]:
    """The engine with the choices for another kind of device."""
    programs, own = engine._programs, engine._programs._profile
    programs._profile = replace(own, tuning=tuning)
    programs._known.clear()
    yield
    programs._profile = own
    programs._known.clear()


def given(engine: Any, name: str) -> list[Any]:
    batch, rows, depth, columns = SHAPES[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    shapes = [(*batch, rows, depth), (*batch, depth, columns), (columns,), (rows, 1), (*batch, rows, columns)]
    arrays = [rng.standard_normal(s, dtype=np.float32) for s in shapes]
    return [m.from_numpy(engine, x) for x in (*arrays, rng.random((rows, columns)) < 0.5)]


def listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def compute(
    engine: Any, function: Callable[[Operands], Any], operands: list[Any], apart: bool = False
) -> list[Array]:
    """The results; `apart` runs the product before anything that follows it is known."""
    a, b, *rest = operands
    engine._draws = 7
    y = m.matmul(a, b)
    if apart:
        y.to_numpy()
    found = listed(function(Operands(y, *rest)))
    del y
    return [x.to_numpy() for x in found]


def same(one: list[Array], other: list[Array]) -> bool:
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(one, other, strict=True))


def expect_same_bits(engine: Any, shape: str, full: bool) -> None:
    operands, turn = given(engine, shape), zlib.crc32(repr((shape, engine)).encode())
    for name in some(list(EPILOGUES), turn, full, 2):
        found = compute(engine, EPILOGUES[name], operands)
        with leaving_out(engine, "epilogue"):
            assert same(compute(engine, EPILOGUES[name], operands), found), name
        assert same(compute(engine, EPILOGUES[name], operands, apart=True), found), name


@pytest.mark.parametrize("shape", SHAPES)
def test_same_bits(engine: Any, shape: str, full: bool) -> None:
    expect_same_bits(engine, shape, full)


@pytest.mark.parametrize("shape", ["fours", "odd", "row", "column", "batch", "ranges"])
def test_same_bits_of_kernels_for_gpus(engine: Any, shape: str, full: bool) -> None:
    with tuned(engine, "gpu"):
        expect_same_bits(engine, shape, full)


@pytest.mark.parametrize("shape", ["fours", "odd", "batch", "ranges"])
def test_captured_and_replayed(engine: Any, shape: str) -> None:
    operands = given(engine, shape)

    def step() -> Any:
        return m.relu(m.matmul(operands[0], operands[1]) + operands[2]) * operands[4]

    plan = engine.capture(step)
    with leaving_out(engine, "epilogue"):
        other = engine.capture(step)
    want = step().to_numpy()
    for submitted in (plan, plan, other):
        engine.submit(submitted)
        assert same([submitted.outputs.to_numpy()], [want])
    assert plan.diagnostics["dispatches"] < other.diagnostics["dispatches"]


@pytest.mark.parametrize("shape", SHAPES)
def test_close_to_the_oracle(engine: Any, shape: str) -> None:
    operands = given(engine, shape)
    a, b, row, column, full, _ = (x.to_numpy() for x in operands)
    (got,) = compute(engine, lambda o: (o.y + o.row) * 0.5 + o.full, operands)
    want = (oracle.matmul(a, b) + row.astype(np.float64)) * 0.5 + full
    assert agrees(got, want, 2.0, oracle.matmul_bound(a, b) + 2.0**-22 * (1 + np.abs(want))).all()
    (got,) = compute(engine, lambda o: m.maximum(o.y * o.column, 0.0), operands)
    want = np.maximum(oracle.matmul(a, b) * column, 0)
    assert agrees(got, want, 2.0, oracle.matmul_bound(a, b) * (1 + np.abs(column))).all()


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
def test_special_values(engine: Any, special: float) -> None:
    """NaNs and infinities of the product come through selections and comparisons as they do apart."""
    a, b, *rest = given(engine, "fours")
    spoiled = a.to_numpy().copy()
    spoiled[3] = special
    operands = [m.from_numpy(engine, spoiled), b, *rest]
    for function in (
        EPILOGUES["bias relu"],
        EPILOGUES["whole numbers"],
        EPILOGUES["flags"],
        EPILOGUES["tanh"],
    ):
        found = compute(engine, function, operands)
        with leaving_out(engine, "epilogue"):
            assert same(compute(engine, function, operands), found)


@pytest.mark.parametrize("shape", ["fours", "odd", "batch"])
def test_gradients(engine: Any, shape: str) -> None:
    """Of a layer and its activation: the same bits with and without the pass, close to float64."""
    operands = given(engine, shape)

    def gradients() -> list[Array]:
        x, w, b = operands[:3]
        with oa.ml.GradientTape() as tape:
            tape.watch([x, w, b])
            y = m.tanh(m.matmul(x, w) + b)
        return [y.to_numpy(), *(g.to_numpy() for g in tape.gradient(y, [x, w, b], seed=operands[4]))]

    found = gradients()
    with leaving_out(engine, "epilogue"):
        assert same(gradients(), found)
    x, w, b, _, seed, _ = (o.to_numpy().astype(np.float64) for o in operands)
    y = np.tanh(x @ w + b)
    back = seed * (1 - y * y)
    wanted = [
        y,
        back @ np.swapaxes(w, -1, -2),
        np.swapaxes(x, -1, -2) @ back,
        back.sum(tuple(range(back.ndim - 1))),
    ]
    for got, want in zip(found, wanted, strict=True):
        assert np.allclose(got, want, rtol=1e-4, atol=1e-4)


def test_dispatches(engine: Any) -> None:
    """A layer is one dispatch, and two where k is cut."""
    for shape, wanted in (("fours", 1), ("odd", 1), ("batch", 1), ("ranges", 2)):
        operands = given(engine, shape)
        engine.flush()
        before = engine.diagnostics["dispatches"]
        kept = m.relu(m.matmul(operands[0], operands[1]) + operands[2]) * operands[4]
        kept.to_numpy()
        assert engine.diagnostics["dispatches"] - before == wanted, shape


def test_carried_values_are_updated_in_place(engine: Any) -> None:
    """A step that takes a product from a cell keeps to a map, which may overwrite the cell's storage."""
    a, b, *_, full, _ = given(engine, "fours")
    cell = oa.State(engine, full)
    for _ in range(2):
        cell.assign(cell.value - m.matmul(a, b) * 0.125)
        engine.flush()
    want = full.to_numpy().astype(np.float64) - 0.25 * (a.to_numpy().astype(np.float64) @ b.to_numpy())
    assert np.allclose(cell.value.to_numpy(), want, atol=1e-5)
