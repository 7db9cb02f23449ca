"""Elementwise operations: every operation and dtype over shapes, layouts and special values, alone and in company."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from oa import matrix as m
from tests.device.matrix_rig import LAYOUTS, MODES, place, run, some
from tests.oracle.compare import expect, same_bits
from tests.oracle.inputs import DTYPES, SPECIAL, values
from tests.oracle.matrix import POINTWISE, cast, where

CASES = [
    f"{name}-{dtype}"
    for name, answer in POINTWISE.items()
    for dtype in DTYPES
    if np.dtype(dtype).kind in answer.kinds
]

#: Groups of operand shapes; a shape is repeated for all operands, a list gives one to each (the last for any more).
SHAPES: dict[str, list[Any]] = {
    "small": [(), (1,), (0,), (3,), (4,), (2, 0, 3), (5,), (1, 1)],
    "tails": [(7,), (8,), (9,), (63,), (64,), (65,), (1031,)],
    "blocks": [(255,), (256,), (257,), (3, 85), (4, 64), (16, 17)],
    "ranks": [(2, 3), (3, 4, 5), (2, 3, 2, 3), (2, 1, 3, 2, 2), (2, 1, 3, 1, 2, 1, 2, 2)],
    "broadcast": [
        [(3, 1), (1, 4)], [(4,), (2, 3, 4)], [(), (5,)], [(7, 1, 5), (8, 1)], [(1,), (9,)], [(0, 1), (1, 3)], [(2, 3), ()],
        [(2, 1, 3, 1, 2, 1, 2, 2), (1, 2, 1, 3, 1, 2, 1, 1)], [(1, 1), (3, 64)], [(65, 1), (1, 65)],
    ],
}  # fmt: skip


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


def operand_shapes(entry: Any, arity: int) -> list[tuple[int, ...]]:
    return (
        [entry[min(k, len(entry) - 1)] for k in range(arity)] if isinstance(entry, list) else [entry] * arity
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_shapes(engine: Any, case: str, group: str, mode: str, full: bool) -> None:
    """Every other shape lies plainly in memory, the rest in a layout that differs from case to case."""
    name, dtype = case.split("-")
    answer, function = POINTWISE[name], getattr(m, name)
    rng = seeded(case, group)
    turn = int(rng.integers(60))
    entries, views = some(SHAPES[group], turn, full), LAYOUTS[1 + turn % (len(LAYOUTS) - 1)]
    for number, entry in enumerate(entries):
        shapes, layout = operand_shapes(entry, answer.arity), views if number % 2 else "plain"
        arrays = [values(dtype, s, rng, special=True) for s in shapes]
        operands = [place(engine, a, layout) for a in arrays]
        alone = function(*operands).to_numpy()
        expect(alone, answer.function, arrays, answer.ulps, answer.absolute, f"{name} {dtype} {shapes}")
        if number == len(mode) % len(entries) or number + 1 == len(entries):
            others = [place(engine, values(dtype, s, rng), layout) for s in shapes]
            assert same_bits(run(engine, mode, function, operands, others), alone), (
                f"{mode} changes bits at {shapes}"
            )


@pytest.mark.parametrize("case", CASES)
def test_special_values(any_engine: Any, case: str) -> None:
    """Every pair of special values meets; of three operands every pair twice, in turn."""
    name, dtype = case.split("-")
    answer, table = POINTWISE[name], SPECIAL[dtype]
    count = len(table)
    grids = {1: [(table,)], 2: [(table[:, None], table[None, :])]}.get(answer.arity) or [
        (table[:, None], table[None, :], np.roll(table, 3)[None, :]),
        (table[None, :], table[:, None], np.roll(table, 5)[:, None]),
    ]
    for arrays in grids:
        got = getattr(m, name)(*(m.from_numpy(any_engine, a) for a in arrays)).to_numpy()
        assert got.shape[-1] == count
        expect(got, answer.function, list(arrays), answer.ulps, answer.absolute, case)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_where(any_engine: Any, dtype: str, layout: str) -> None:
    rng = seeded("where", dtype, layout)
    for shapes in (
        [(5,)] * 3,
        [(3, 1), (1, 4), ()],
        [(2, 3), (3,), (4, 1, 1)],
        [(64, 65)] * 3,
        [(0,), (1,), (0,)],
    ):
        condition = values("bool", shapes[0], rng)
        a, b = (values(dtype, s, rng, special=True) for s in shapes[1:])
        got = m.where(*(place(any_engine, x, layout) for x in (condition, a, b))).to_numpy()
        assert same_bits(got, where.function(condition, a, b))


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_astype(engine: Any, dtype: str, target: str) -> None:
    rng = seeded("astype", dtype)
    for array in (
        SPECIAL[dtype],
        values(dtype, (3, 65), rng),
        values(dtype, (), rng),
        values(dtype, (0, 2), rng),
    ):
        for layout in ("plain", "transposed", "negative"):
            got = m.astype(place(engine, array, layout), target).to_numpy()
            assert got.dtype == np.dtype(target)
            expect(got, lambda x: cast(x, target), [array], what=f"{dtype} to {target}")


NUMBERS = [
    ("add", "float32", 2), ("add", "float32", 0.1), ("add", "int32", True), ("multiply", "uint8", 3), ("subtract", "uint32", 7),
    ("divide", "float32", 3), ("pow", "float32", 2), ("maximum", "float32", 0.0), ("equal", "bool", True), ("less", "int32", -1),
    ("bitwise_and", "bool", False), ("bitwise_xor", "uint8", 255), ("floor_divide", "int32", -3), ("remainder", "int32", 5),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "number"), NUMBERS)
def test_python_numbers_are_weak(engine: Any, name: str, dtype: str, number: Any) -> None:
    array = values(dtype, (3, 7), seeded("weak", name))
    answer, x = POINTWISE[name], m.from_numpy(engine, array)
    other = np.array(number, dtype)
    for got, operands in (
        (getattr(m, name)(x, number), [array, other]),
        (getattr(m, name)(number, x), [other, array]),
    ):
        expect(got.to_numpy(), answer.function, operands, answer.ulps, what=f"{name} with {number!r}")


def test_numbers_are_data(any_engine: Any) -> None:
    """Another number is another run of the same plan."""
    x = m.from_numpy(any_engine, values("float32", (9,), seeded("data")))
    (x * 2.0).to_numpy()
    before = any_engine.diagnostics["lowerings"]
    for number in (3.0, -0.0, float("inf"), float("nan"), 0.1):
        got = (x * number).to_numpy()
        assert same_bits(got, x.to_numpy() * np.float32(number))
    assert any_engine.diagnostics["lowerings"] == before


MIXED = [
    ("uint8", "int32", "int32"),
    ("uint8", "uint32", "uint32"),
    ("int32", "uint8", "int32"),
    ("uint32", "uint8", "uint32"),
]


@pytest.mark.parametrize(("left", "right", "common"), MIXED)
def test_promotion(engine: Any, left: str, right: str, common: str) -> None:
    rng = seeded("promotion", left, right)
    a, b = values(left, (4, 33), rng, special=True), values(right, (33,), rng, special=True)
    for name in ("add", "maximum", "floor_divide", "less", "bitwise_or"):
        got = getattr(m, name)(m.from_numpy(engine, a), m.from_numpy(engine, b)).to_numpy()
        want = POINTWISE[name].function(a.astype(common), b.astype(common))
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)
