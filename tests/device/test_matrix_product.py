"""Matrix products: shapes, transpositions, batches and layouts against float64, within (k + 1) 2^-24 |a| |b|."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from oa import matrix as m
from tests.device.matrix_rig import LAYOUTS, MODES, place, run
from tests.oracle import matrix as oracle
from tests.oracle.compare import agrees, same_bits
from tests.oracle.inputs import gentle


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


def close(got: Any, a: Any, b: Any) -> bool:
    want = oracle.matmul(a, b)
    return bool(got.shape == want.shape and agrees(got, want, 0.5, oracle.matmul_bound(a, b)).all())


#: (m, n, k)
SIZES = {
    "one": [(1, 1, 1), (1, 5, 3), (5, 1, 3), (1, 1, 65), (2, 3, 1)],
    "odd": [(3, 5, 7), (7, 9, 8), (17, 31, 13), (33, 65, 63)],
    "tiles": [(64, 64, 64), (65, 64, 63), (128, 32, 16), (63, 130, 65)],
    "long": [(4, 4, 1031), (2, 3, 4096), (1, 64, 515)],
    "wide": [(257, 3, 9), (3, 257, 9), (255, 256, 4)],
    "empty": [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transposed", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("group", SIZES)
def test_two_matrices(engine: Any, group: str, transposed: str, mode: str) -> None:
    rng = seeded(group, transposed)
    turn = int(rng.integers(len(LAYOUTS)))

    def function(a: Any, b: Any) -> Any:
        a = m.transpose(a) if transposed[0] == "t" else a
        return m.matmul(a, m.transpose(b) if transposed[1] == "t" else b)

    for number, (rows, columns, depth) in enumerate(SIZES[group]):
        layout = LAYOUTS[(turn + number) % len(LAYOUTS)]
        a, b = gentle((rows, depth), rng), gentle((depth, columns), rng)
        given = (a.T.copy() if transposed[0] == "t" else a, b.T.copy() if transposed[1] == "t" else b)
        operands = [place(engine, x, layout) for x in given]
        alone = function(*operands).to_numpy()
        assert close(alone, a, b), (rows, columns, depth, layout)
        if number == 1:
            others = [place(engine, gentle(x.shape, rng), layout) for x in given]
            assert same_bits(run(engine, mode, function, operands, others), alone)


#: Shapes of a and b.
BATCHES = [
    ((3,), (3,)), ((3,), (3, 4)), ((4, 3), (3,)), ((5, 4, 3), (3,)), ((3,), (5, 3, 2)), ((2, 4, 3), (3, 5)), ((4, 3), (2, 3, 5)),
    ((2, 4, 3), (2, 3, 5)), ((2, 1, 4, 3), (1, 6, 3, 5)), ((1, 4, 3), (7, 3, 5)), ((2, 3, 2, 4, 5), (2, 3, 2, 5, 3)),
    ((2, 1, 2, 4, 5), (3, 1, 5, 3)), ((2, 3, 2, 2, 2, 3, 4, 5), (2, 1, 2, 1, 2, 1, 5, 2)), ((0, 4, 3), (0, 3, 2)),
    ((2, 0, 3), (2, 3, 4)), ((2, 4, 0), (2, 0, 4)), ((2, 65, 33), (2, 33, 63)), ((0, 4, 3), (3, 5)),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("left", "right"), BATCHES)
def test_batches(any_engine: Any, left: tuple[int, ...], right: tuple[int, ...], layout: str) -> None:
    rng = seeded(str(left), str(right), layout)
    a, b = gentle(left, rng), gentle(right, rng)
    got = m.matmul(place(any_engine, a, layout), place(any_engine, b, layout)).to_numpy()
    assert close(got, a, b)


@pytest.mark.parametrize(
    ("left", "right"),
    [((4, 3), (5, 3)), ((2, 4, 3), (2, 5, 3)), ((2, 1, 4, 3), (3, 5, 3)), ((65, 64), (63, 64))],
)
def test_by_rows_of_the_second(engine: Any, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = seeded(str(left), str(right))
    a, b = gentle(left, rng), gentle(right, rng)
    got = m.mat_mul_nt(m.from_numpy(engine, a), m.from_numpy(engine, b)).to_numpy()
    assert close(got, a, np.swapaxes(b, -1, -2))


def test_operands_from_views_that_strides_cannot_say(engine: Any) -> None:
    x = gentle((6, 35), seeded("views"))
    held = m.from_numpy(engine, x)
    got = m.reshape(held.T, (14, 15)) @ m.reshape(held, (15, 14))
    assert close(got.to_numpy(), x.T.reshape(14, 15), x.reshape(15, 14))
    heads = m.permute_dims(m.reshape(held, (2, 3, 7, 5)), (0, 2, 1, 3))
    scores = heads @ m.transpose(heads, -1, -2)
    want = x.reshape(2, 3, 7, 5).transpose(0, 2, 1, 3)
    assert close(scores.to_numpy(), want, np.swapaxes(want, -1, -2))


def test_broadcast_operands(engine: Any) -> None:
    x = gentle((5, 1), seeded("broadcast"))
    wide = m.broadcast_to(m.from_numpy(engine, x), (5, 4))
    got = (m.transpose(wide) @ wide).to_numpy()
    spread = np.broadcast_to(x, (5, 4))
    assert close(got, spread.T, spread)


def test_special_values_follow_the_arithmetic(engine: Any) -> None:
    a = np.array([[np.inf, 1.0], [np.nan, 0.0], [3e38, 3e38], [0.0, -0.0]], np.float32)
    b = np.array([[1.0, 0.0], [2.0, 1.0]], np.float32)
    got = (m.from_numpy(engine, a) @ m.from_numpy(engine, b)).to_numpy()
    with np.errstate(all="ignore"):
        want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    assert np.array_equal(got, want, equal_nan=True)


def test_a_chain_of_products_and_neighbours(engine: Any) -> None:
    """What stands between two products is computed in its own kernel; the bits are those of the steps."""
    rng = seeded("chain")
    a, b, c = (m.from_numpy(engine, gentle(s, rng)) for s in [(9, 17), (17, 33), (33, 5)])
    steps = a @ b
    steps.to_numpy()
    middle = m.relu(steps + 1.0)
    middle.to_numpy()
    apart = (middle @ c * 2.0).to_numpy()
    together = (m.relu(a @ b + 1.0) @ c * 2.0).to_numpy()
    assert same_bits(apart, together)
