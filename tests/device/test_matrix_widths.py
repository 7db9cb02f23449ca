"""8, 16 and 64-bit integers, half and double floats: arithmetic, casts, reductions and movement, alone and in company.

Exact operations only: functions of doubles and halves belong to the tests of the prelude.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.device.matrix_rig import LAYOUTS, place, run
from tests.device.test_matrix_shape import RECIPES
from tests.oracle import matrix as oracle
from tests.oracle.compare import agrees, expect, same_bits
from tests.oracle.inputs import DTYPES, SPECIAL, WIDTHS, values
from tests.oracle.matrix import POINTWISE, REDUCTIONS, cast

#: Within half an ulp, or a fixed number of them; the rest of the elementwise operations is made from functions.
EXACT = [n for n, a in POINTWISE.items() if a.ulps == 0 and n != "copy"] + [
    "divide",
    "sqrt",
]
CASES = [f"{n}-{d}" for n in EXACT for d in WIDTHS if np.dtype(d).kind in POINTWISE[n].kinds]


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


@pytest.fixture(autouse=True)
def _capable(request: pytest.FixtureRequest, any_engine: Any) -> None:
    """Skip what the device has no arithmetic for."""
    named = (
        " ".join(map(str, request.node.callspec.params.values())) if hasattr(request.node, "callspec") else ""
    )
    features = any_engine.device.profile.features
    for dtype in WIDTHS:
        if dtype in named.replace("-", " ").split() and dtype.endswith("64") and "int64" not in features:
            pytest.skip(f"the device has no {dtype}")
    if "float64" in named and "float64" not in features:
        pytest.skip("the device has no float64")


@pytest.mark.parametrize("case", CASES)
def test_elementwise(any_engine: Any, case: str) -> None:
    name, dtype = case.split("-")
    answer, table, rng = POINTWISE[name], SPECIAL[dtype], seeded(case)
    grids = [
        (table,),
        (table[:, None], table[None, :]),
        (table[:, None], table[None, :], np.roll(table, 3)[None, :]),
    ]
    sets = [grids[answer.arity - 1]] + [
        [values(dtype, s, rng) for _ in range(answer.arity)] for s in ((65,), (3, 7), (), (0, 2))
    ]
    for number, arrays in enumerate(sets):
        operands = [place(any_engine, np.asarray(a), LAYOUTS[number % len(LAYOUTS)]) for a in arrays]
        got = getattr(m, name)(*operands).to_numpy()
        expect(got, answer.function, [np.asarray(a) for a in arrays], answer.ulps, what=case)
        if number == 1:
            assert same_bits(run(any_engine, "fused", getattr(m, name), operands, []), got)


@pytest.mark.parametrize("target", (*DTYPES, *WIDTHS))
@pytest.mark.parametrize("dtype", (*DTYPES, *WIDTHS))
def test_casts(any_engine: Any, dtype: str, target: str) -> None:
    if dtype in DTYPES and target in DTYPES:
        pytest.skip("tested in each configuration elsewhere")
    rng = seeded("cast", dtype)
    for array, layout in ((SPECIAL[dtype], "plain"), (values(dtype, (3, 65), rng), "transposed")):
        got = m.astype(place(any_engine, array, layout), target).to_numpy()
        assert got.dtype == np.dtype(target)
        expect(got, lambda x: cast(x, target), [array], what=f"{dtype} to {target}")


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_reductions(any_engine: Any, dtype: str, name: str) -> None:
    rng = seeded("reduce", dtype, name)
    for number, (shape, axis) in enumerate(
        [((7, 65), 1), ((65, 7), 0), ((3, 4, 5), (0, 2)), ((5001,), 0), ((9,), None), ((1, 1), 0)]
    ):
        if isinstance(axis, tuple) and not REDUCTIONS[name][2]:
            continue
        x = values(dtype, shape, rng)
        if np.dtype(dtype).kind == "f":
            x = (rng.integers(-4, 5, shape) / 4 if name != "prod" else np.where(x > 0, 1, -1)).astype(dtype)
        got = getattr(m, name)(place(any_engine, x, LAYOUTS[number % len(LAYOUTS)]), axis=axis).to_numpy()
        want = REDUCTIONS[name][0](x, axis)
        if got.dtype.kind == "f":
            assert agrees(got, want, 0.5).all(), (shape, axis, got, want)
        else:
            assert np.array_equal(got, want), (shape, axis, got, want)


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in RECIPES
        if n.startswith(("reshape-re", "permute", "concat", "slice", "index-chain", "stack"))
    ],
)
@pytest.mark.parametrize("dtype", ["int16", "int64", "float16", "float64"])
def test_movement(any_engine: Any, dtype: str, name: str) -> None:
    recipe, rng = RECIPES[name], seeded("move", dtype, name)
    for layout in ("plain", "negative"):
        arrays = [values(dtype, s, rng, special=True) for s in recipe.shapes]
        got = recipe.ours(*(place(any_engine, a, layout) for a in arrays)).to_numpy()
        assert same_bits(got, np.asarray(recipe.theirs(*arrays)))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_where_take_and_creation(any_engine: Any, dtype: str) -> None:
    rng = seeded("more", dtype)
    a, b = values(dtype, (5, 9), rng, special=True), values(dtype, (9,), rng, special=True)
    c = values("bool", (5, 1), rng)
    held = [m.from_numpy(any_engine, x) for x in (c, a, b)]
    assert same_bits(m.where(*held).to_numpy(), np.where(c, a, b))
    indices = np.array([4, 0, -1, 7], np.int32)
    assert same_bits(
        m.take(held[1], m.from_numpy(any_engine, indices), axis=0).to_numpy(), oracle.take(a, indices, 0)
    )
    assert same_bits(m.full(any_engine, (3, 3), 7, dtype=dtype).to_numpy(), np.full((3, 3), 7, dtype))
    assert same_bits(m.eye(any_engine, 5, dtype=dtype).to_numpy(), np.eye(5, dtype=dtype))
    assert same_bits(
        m.arange(any_engine, 2, 50, 3, dtype=dtype).to_numpy(), np.arange(2, 50, 3).astype(dtype)
    )
    base = np.resize(SPECIAL[dtype], (4, 7))
    assert m.from_numpy(any_engine, base).to_numpy().tobytes() == base.tobytes()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64"])
def test_numbers_of_any_size(any_engine: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = m.zeros(any_engine, (3,), dtype=dtype)
    assert (x + int(info.max)).tolist() == [int(info.max)] * 3
    assert (x + int(info.min)).tolist() == [int(info.min)] * 3
    with pytest.raises(oa.OaError, match=str(info.max + 1)):
        _ = x + (int(info.max) + 1)
