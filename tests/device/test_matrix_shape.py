"""Views, assembly and indexing against NumPy: every recipe and dtype over layouts, alone and in company; bits must be equal."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from oa import matrix as m
from tests.device.matrix_rig import LAYOUTS, MODES, place, run
from tests.oracle import matrix as oracle
from tests.oracle.compare import same_bits
from tests.oracle.inputs import values


class Recipe(NamedTuple):
    """The same thing said in `oa` and in NumPy, of operands of these shapes."""

    shapes: list[tuple[int, ...]]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]


def both(shape: tuple[int, ...], function: Callable[[Any], Any]) -> Recipe:
    """Basic indexing, which both write alike."""
    return Recipe([shape], function, function)


BIG = (2, 1, 3, 1, 2, 1, 2, 2)

RECIPES: dict[str, Recipe] = {
    "reshape-merge": Recipe([(3, 4, 5)], lambda x: m.reshape(x, (12, 5)), lambda x: x.reshape(12, 5)),
    "reshape-split": Recipe([(12, 5)], lambda x: m.reshape(x, (3, 4, -1)), lambda x: x.reshape(3, 4, 5)),
    "reshape-flat": Recipe([(7, 9)], lambda x: m.reshape(x, -1), lambda x: x.reshape(-1)),
    "reshape-regroup": Recipe([(6, 35)], lambda x: m.reshape(x, (14, 15)), lambda x: x.reshape(14, 15)),
    "reshape-ones": Recipe([(3, 1, 5)], lambda x: m.reshape(x, (1, 15, 1)), lambda x: x.reshape(1, 15, 1)),
    "reshape-scalar": Recipe([(1, 1)], lambda x: m.reshape(x, ()), lambda x: x.reshape(())),
    "reshape-empty": Recipe([(0, 3)], lambda x: m.reshape(x, (5, 0, 2)), lambda x: x.reshape(5, 0, 2)),
    "reshape-rank8": Recipe([BIG], lambda x: m.reshape(x, (6, 8)), lambda x: x.reshape(6, 8)),
    "reshape-of-transpose": Recipe([(4, 6)], lambda x: m.reshape(m.transpose(x), (3, 8)), lambda x: x.T.reshape(3, 8)),
    "permute": Recipe([(3, 4, 5)], lambda x: m.permute_dims(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "permute-rank8": Recipe(
        [BIG], lambda x: m.permute_dims(x, (7, 3, 0, 5, 2, 1, 6, 4)), lambda x: x.transpose(7, 3, 0, 5, 2, 1, 6, 4)
    ),
    "transpose": Recipe([(9, 65)], m.transpose, np.transpose),
    "transpose-4d": Recipe([(2, 3, 4, 5)], m.transpose, np.transpose),
    "swap": Recipe([(2, 3, 4)], lambda x: m.transpose(x, 0, -1), lambda x: x.swapaxes(0, -1)),
    "expand": Recipe([(3, 4)], lambda x: m.expand_dims(x, -1), lambda x: np.expand_dims(x, -1)),
    "squeeze": Recipe([(1, 3, 1)], m.squeeze, np.squeeze),
    "squeeze-axis": Recipe([(1, 3, 1)], lambda x: m.squeeze(x, -1), lambda x: np.squeeze(x, -1)),
    "broadcast": Recipe([(3, 1)], lambda x: m.broadcast_to(x, (2, 3, 5)), lambda x: np.broadcast_to(x, (2, 3, 5))),
    "broadcast-scalar": Recipe([()], lambda x: m.broadcast_to(x, (4, 7)), lambda x: np.broadcast_to(x, (4, 7))),
    "broadcast-reshape": Recipe(
        [(3, 1)], lambda x: m.reshape(m.broadcast_to(x, (3, 4)), (12,)), lambda x: np.broadcast_to(x, (3, 4)).reshape(12)
    ),
    "flip": Recipe([(3, 5)], m.flip, np.flip),
    "flip-axis": Recipe([(3, 5, 2)], lambda x: m.flip(x, 1), lambda x: np.flip(x, 1)),
    "slice": Recipe([(9, 7)], lambda x: m.slice(x, 1, 1, 6, 2), lambda x: x[:, 1:6:2]),
    "slice-negative": Recipe([(9, 7)], lambda x: m.slice(x, 0, None, None, -3), lambda x: x[::-3]),
    "index-int": both((4, 5), lambda x: x[2]),
    "index-negative": both((4, 5), lambda x: x[:, -1]),
    "index-mixed": both((4, 5, 6), lambda x: x[1, ..., ::-2]),
    "index-none": both((4, 5), lambda x: x[None, 1:3, None, :, None]),
    "index-ellipsis": both((2, 3, 4, 5), lambda x: x[1, ..., 2]),
    "index-empty": both((4, 5), lambda x: x[3:1]),
    "index-beyond": both((4, 5), lambda x: x[-99:99, 2:99]),
    "index-all": both((4, 5), lambda x: x[...]),
    "index-chain": both((64, 65), lambda x: x[1:60:3][::-1, 5:][2:9, ::7]),
    "index-to-scalar": both((3, 4), lambda x: x[1, -2]),
    "concat": Recipe([(2, 3), (4, 3), (1, 3)], lambda *p: m.concat(p, 0), lambda *p: np.concatenate(p, 0)),
    "concat-last": Recipe([(3, 5), (3, 1), (3, 64)], lambda *p: m.concat(p, -1), lambda *p: np.concatenate(p, -1)),
    "concat-middle": Recipe([(2, 3, 4), (2, 5, 4)], lambda *p: m.concat(p, 1), lambda *p: np.concatenate(p, 1)),
    "concat-flat": Recipe([(2, 3), (7,)], lambda *p: m.concat(p, None), lambda *p: np.concatenate(p, None)),
    "concat-empty": Recipe([(0, 3), (2, 3), (0, 3)], lambda *p: m.concat(p, 0), lambda *p: np.concatenate(p, 0)),
    "concat-nothing": Recipe([(0, 3), (0, 3)], lambda *p: m.concat(p, 0), lambda *p: np.concatenate(p, 0)),
    "concat-many": Recipe([(k % 3 + 1,) for k in range(20)], lambda *p: m.concat(p), lambda *p: np.concatenate(p)),
    "concat-same": Recipe([(3, 5)], lambda x: m.concat([x, x, x], 1), lambda x: np.concatenate([x, x, x], 1)),
    "concat-of-views": Recipe(
        [(4, 6)], lambda x: m.concat([x[::-1, :3], x[:, 3:]], 1), lambda x: np.concatenate([x[::-1, :3], x[:, 3:]], 1)
    ),
    "concat-of-concat": Recipe(
        [(5,), (6,)],
        lambda x, y: m.concat([m.concat([x, y]), y[::-1]])[1:-1],
        lambda x, y: np.concatenate([x, y, y[::-1]])[1:-1],
    ),
    "stack": Recipe([(3, 4), (3, 4)], lambda *p: m.stack(p, 1), lambda *p: np.stack(p, 1)),
    "stack-last": Recipe([(9,), (9,), (9,)], lambda *p: m.stack(p, -1), lambda *p: np.stack(p, -1)),
}  # fmt: skip


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", RECIPES)
def test_recipes(engine: Any, name: str, dtype: str, mode: str) -> None:
    recipe, rng = RECIPES[name], seeded(name, dtype)
    turn = int(rng.integers(len(LAYOUTS)))
    for number in range(2):
        layout = LAYOUTS[(turn + 3 * number) % len(LAYOUTS)]
        arrays = [values(dtype, s, rng, special=True) for s in recipe.shapes]
        operands = [place(engine, a, layout) for a in arrays]
        alone = recipe.ours(*operands).to_numpy()
        assert same_bits(alone, np.asarray(recipe.theirs(*arrays))), f"{name} of {layout}"
        if number == 0 and name != "index-all":  # which is its operand
            others = [place(engine, values(dtype, s, rng), layout) for s in recipe.shapes]
            assert same_bits(run(engine, mode, recipe.ours, operands, others), alone), f"{mode} changes bits"


#: (shape of x, shape of indices, axis)
TAKES = [
    ((7,), (3,), 0), ((7,), (), 0), ((5, 6), (4,), 0), ((5, 6), (4,), 1), ((5, 6), (2, 3), 0), ((2, 5, 3), (2, 2), 1),
    ((65, 33), (64,), 0), ((4, 257), (9,), -1), ((3, 4), (0,), 0), ((0, 4), (3,), 0), ((4, 0), (3,), 0), ((1, 5), (7,), 0),
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "uint32", "uint8", "bool"])
@pytest.mark.parametrize("index", ["int32", "uint8", "uint32"])
def test_take(engine: Any, dtype: str, index: str, mode: str) -> None:
    rng = seeded("take", dtype, index)
    turn = int(rng.integers(len(LAYOUTS)))
    for number, (shape, at, axis) in enumerate(TAKES):
        layout = LAYOUTS[(turn + number) % len(LAYOUTS)]
        x = values(dtype, shape, rng)
        extent = shape[axis]
        low = 0 if index.startswith("u") else -extent - 2
        indices = rng.integers(low, extent + 2, at).astype(index)  # a few lie outside the axis
        operands = [
            place(engine, x, layout),
            place(engine, indices, LAYOUTS[(turn + 2 * number) % len(LAYOUTS)]),
        ]

        def function(a: Any, i: Any, axis: int = axis) -> Any:
            return m.take(a, i, axis=axis)

        alone = function(*operands).to_numpy()
        assert same_bits(alone, oracle.take(x, indices, axis)), (shape, at, axis, layout)
        if number in (5, 6):
            others = [place(engine, x[::-1].copy(), layout), operands[1].copy()]
            captured = m.from_numpy(engine, indices)
            operands[1] = captured
            others[1] = m.from_numpy(engine, np.zeros_like(indices))
            assert same_bits(run(engine, mode, function, operands, others), alone)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
def test_gather(engine: Any, dtype: str) -> None:
    rng = seeded("gather", dtype)
    for number, (shape, count, axis) in enumerate(
        [
            ((5, 6), 4, 1),
            ((5, 6), 1, 0),
            ((5, 6), 9, 0),
            ((7,), 3, 0),
            ((2, 3, 4), 2, 1),
            ((65, 9), 33, -1),
            ((3, 4), 0, 1),
        ]
    ):
        x = values(dtype, shape, rng)
        at = list(shape)
        at[axis] = count
        indices = rng.integers(-shape[axis] - 1, shape[axis] + 1, at).astype(np.int32)
        layout = LAYOUTS[number % len(LAYOUTS)]
        got = m.gather(place(engine, x, layout), place(engine, indices, layout), axis=axis)
        assert same_bits(got.to_numpy(), oracle.gather(x, indices, axis))
        fused = m.where(got == got, got, got)
        assert np.array_equal(fused.to_numpy(), got.to_numpy(), equal_nan=dtype == "float32")


def test_one_hot_embedding_and_index_by_matrix(engine: Any) -> None:
    rng = seeded("one_hot")
    indices = rng.integers(-1, 6, (3, 4)).astype(np.int32)
    held = m.from_numpy(engine, indices)
    assert same_bits(m.one_hot(held, 5).to_numpy(), oracle.one_hot(indices, 5))
    assert m.one_hot(held, 5, dtype="bool").to_numpy().dtype == np.bool_
    table = values("float32", (6, 7), rng)
    got = m.embedding(held, m.from_numpy(engine, table)).to_numpy()
    assert same_bits(got, oracle.take(table, indices, 0))
    picked = m.from_numpy(engine, table)[1:, held[0]]
    assert same_bits(picked.to_numpy(), oracle.take(table[1:], indices[0], 1))


def test_views_of_stored_values_cost_nothing(any_engine: Any) -> None:
    x = m.from_numpy(any_engine, values("float32", (6, 8), seeded("views")))
    before = any_engine.diagnostics["dispatches"]
    for view in (
        x.T,
        x[::-1, 2:],
        m.reshape(x, (48,)),
        m.broadcast_to(x[0], (5, 8)),
        m.reshape(x.T[:, 1:2], (8,)),
    ):
        view.to_numpy()
    assert any_engine.diagnostics["dispatches"] == before


def test_mutation_rebinds(engine: Any) -> None:
    x = m.from_list(engine, [1.0, 2.0])
    y = x
    x += 1.0
    assert (x.tolist(), y.tolist()) == ([2.0, 3.0], [1.0, 2.0])
