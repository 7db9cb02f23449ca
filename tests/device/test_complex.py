"""complex64 and complex128: storage, arithmetic and functions against wide oracles, special values, every way to run, interop."""

from __future__ import annotations

import copy
import pickle
import zlib
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.device.matrix_rig import LAYOUTS, MODES, place, run
from tests.oracle.compare import same_bits
from tests.oracle.complex import COMPLEX, DTYPES, PART, SPECIAL, UNIT, Array, check, join, values, wide
from tests.oracle.matrix import POINTWISE

CASES = [f"{name}-{dtype}" for name in COMPLEX for dtype in DTYPES]
#: Kernels of every kind of part.
ACROSS = "multiply divide abs sqrt exp log tanh acosh atanh pow".split()
INF, NAN, PI = np.inf, np.nan, np.pi


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


def needs(engine: Any, dtype: str) -> None:
    if not engine.supports(dtype):
        pytest.skip(f"the device has no {dtype}")


@pytest.mark.parametrize("case", CASES)
def test_elementwise(any_engine: Any, case: str) -> None:
    """Within the bound for random numbers of many sizes and directions, and for those of the special values that are finite."""
    name, dtype = case.split("-")
    needs(any_engine, dtype)
    answer, rng = COMPLEX[name], seeded(case)
    table = SPECIAL[dtype][np.isfinite(SPECIAL[dtype])]
    if name != "pow":  # of which 0 and what overflows on the way is in no table
        grids = [(table,)] if answer.arity == 1 else [(table[:, None], table[None, :])]
        for arrays in grids:
            with np.errstate(all="ignore"):
                check(
                    name, getattr(m, name)(*(m.from_numpy(any_engine, a) for a in arrays)).to_numpy(), arrays
                )
    for shape in ((1031,), (0, 3)):
        arrays = tuple(values(dtype, shape, rng) for _ in range(answer.arity))
        check(name, getattr(m, name)(*(m.from_numpy(any_engine, a) for a in arrays)).to_numpy(), arrays)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", COMPLEX)
def test_ways_to_run(engine: Any, name: str, mode: str) -> None:
    """The same bits alone, fused, captured and replayed, whatever the layout and however shapes broadcast."""
    answer, function, rng = COMPLEX[name], getattr(m, name), seeded(name)
    layout = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
    shapes = [(3, 33), (33,)][: answer.arity]
    arrays = [values("complex64", s, rng) for s in shapes]
    operands = [place(engine, a, layout) for a in arrays]
    alone = function(*operands).to_numpy()
    check(name, alone, arrays)
    assert same_bits(function(*(m.from_numpy(engine, a) for a in arrays)).to_numpy(), alone), layout
    others = [place(engine, values("complex64", s, rng), layout) for s in shapes]
    assert same_bits(run(engine, mode, function, operands, others), alone), f"{mode} changes bits"


def test_configurations_agree_bit_for_bit(device_name: str) -> None:
    found: list[list[Array]] = []
    for named in ({}, {"addressing": "descriptor"}, {"profile": "compat"}):
        with oa.Engine(device=device_name, **named) as engine:
            x = m.from_numpy(engine, values("complex64", (300,), seeded("bits")))
            y = m.from_numpy(engine, np.concatenate([SPECIAL["complex64"]] * 4)[:300])
            pairs = ((x, y), (y, x))
            found.append([getattr(m, n)(*p[: COMPLEX[n].arity]).to_numpy() for n in ACROSS for p in pairs])
    for other in found[1:]:
        assert all(same_bits(a, b) for a, b in zip(found[0], other))


@pytest.mark.parametrize("name", POINTWISE)
def test_what_takes_complex_numbers_is_tested_here(any_engine: Any, name: str) -> None:
    """Neither more, or nothing would test them, nor fewer."""
    assert any_engine.supports("complex64", name) == (name in COMPLEX)


# -- special values: Annex G of C99, for non-negative imaginary parts; the others follow by conjugation

CONJUGATE: dict[str, list[tuple[complex, complex]]] = {
    "exp": [
        (complex(0.0, 0.0), complex(1, 0)), (complex(1, INF), complex(NAN, NAN)), (complex(INF, 0), complex(INF, 0)),
        (complex(-INF, 2), complex(-0.0, 0)), (complex(-INF, INF), complex(0, 0)), (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, 0), complex(NAN, 0)), (complex(NAN, 1), complex(NAN, NAN)), (complex(-INF, NAN), complex(0, 0)),
    ],
    "expm1": [
        (complex(0.0, 0.0), complex(0, 0)), (complex(INF, 0), complex(INF, 0)), (complex(-INF, INF), complex(-1, 0)),
        (complex(NAN, 0), complex(NAN, 0)), (complex(-INF, 1), complex(-1, 0)),
    ],
    "log": [
        (complex(-0.0, 0), complex(-INF, PI)), (complex(0.0, 0), complex(-INF, 0)), (complex(2, INF), complex(INF, PI / 2)),
        (complex(-INF, 2), complex(INF, PI)), (complex(-INF, INF), complex(INF, 3 * PI / 4)),
        (complex(NAN, INF), complex(INF, NAN)),
        (complex(INF, NAN), complex(INF, NAN)), (complex(1, NAN), complex(NAN, NAN)),
    ],
    "log1p": [
        (complex(-1, 0), complex(-INF, 0)), (complex(0, 0), complex(0, 0)), (complex(-INF, INF), complex(INF, 3 * PI / 4)),
    ],
    "sqrt": [
        (complex(-0.0, 0), complex(0, 0)), (complex(-4, 0), complex(0, 2)), (complex(1, INF), complex(INF, INF)),
        (complex(NAN, INF), complex(INF, INF)), (complex(INF, 2), complex(INF, 0)), (complex(-INF, 2), complex(0, INF)),
        (complex(INF, NAN), complex(INF, NAN)), (complex(NAN, 1), complex(NAN, NAN)), (complex(-INF, NAN), complex(NAN, INF)),
    ],
    "sinh": [
        (complex(0, 0), complex(0, 0)), (complex(0, INF), complex(0, NAN)), (complex(INF, 0), complex(INF, 0)),
        (complex(INF, 2), complex(-INF, INF)), (complex(INF, INF), complex(INF, NAN)), (complex(NAN, 0), complex(NAN, 0)),
    ],
    "cosh": [
        (complex(0, 0), complex(1, 0)), (complex(0, INF), complex(NAN, 0)), (complex(INF, 0), complex(INF, 0)),
        (complex(INF, 2), complex(-INF, INF)), (complex(INF, INF), complex(INF, NAN)), (complex(NAN, 0), complex(NAN, 0)),
    ],
    "tanh": [
        (complex(0, 0), complex(0, 0)), (complex(INF, 1), complex(1, 0)), (complex(INF, INF), complex(1, 0)),
        (complex(0, NAN), complex(0, NAN)), (complex(NAN, 0), complex(NAN, 0)), (complex(1, INF), complex(NAN, NAN)),
    ],
    "asinh": [
        (complex(0, 0), complex(0, 0)), (complex(1, INF), complex(INF, PI / 2)), (complex(INF, 1), complex(INF, 0)),
        (complex(INF, INF), complex(INF, PI / 4)), (complex(NAN, 0), complex(NAN, 0)), (complex(NAN, INF), complex(INF, NAN)),
    ],
    "acosh": [
        (complex(0, 0), complex(0, PI / 2)), (complex(1, INF), complex(INF, PI / 2)), (complex(-INF, 1), complex(INF, PI)),
        (complex(-INF, INF), complex(INF, 3 * PI / 4)), (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, INF), complex(INF, NAN)),
    ],
    "acos": [
        (complex(0, 0), complex(PI / 2, -0.0)), (complex(0, NAN), complex(PI / 2, NAN)), (complex(1, INF), complex(PI / 2, -INF)),
        (complex(-INF, 1), complex(PI, -INF)), (complex(-INF, INF), complex(3 * PI / 4, -INF)),
        (complex(NAN, INF), complex(NAN, -INF)),
    ],
    "atanh": [
        (complex(0, 0), complex(0, 0)), (complex(0, NAN), complex(0, NAN)), (complex(1, 0), complex(INF, 0)),
        (complex(1, INF), complex(0, PI / 2)), (complex(INF, 1), complex(0, PI / 2)), (complex(INF, INF), complex(0, PI / 2)),
        (complex(INF, NAN), complex(0, NAN)), (complex(NAN, INF), complex(0, PI / 2)),
    ],
    "sign": [(complex(0, 0), complex(0, 0)), (complex(3e38, 3e38), complex(0.5**0.5, 0.5**0.5)),
        (complex(NAN, 1), complex(NAN, NAN))],
    "reciprocal": [(complex(INF, 1), complex(0, -0.0)), (complex(3e38, 0), complex(1 / 3e38, -0.0))],
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONJUGATE)
def test_special_values(any_engine: Any, name: str, dtype: str) -> None:
    needs(any_engine, dtype)
    given, wanted = (np.array(v, dtype) for v in zip(*CONJUGATE[name]))
    for turned in (False, True):
        z, want = (np.conj(v) if turned else v for v in (given, wanted))
        got = getattr(m, name)(m.from_numpy(any_engine, z)).to_numpy()
        for part in ("real", "imag"):
            a, b = getattr(got, part), getattr(want, part)
            near = np.isclose(a, b, rtol=4 * UNIT[dtype], atol=0, equal_nan=True)
            # Where the sign of an infinity or a zero is free, both are NaN beside it.
            free = np.isnan(getattr(want, "imag" if part == "real" else "real")) & (np.abs(a) == np.abs(b))
            assert (near | free).all(), f"{name}({z[~(near | free)]}).{part}: {a[~(near | free)]}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_of_the_range(any_engine: Any, dtype: str) -> None:
    """Sizes and quotients are finite where they can be held, and not lost where they are small."""
    needs(any_engine, dtype)
    info = np.finfo(PART[dtype])
    big, small = float(info.max), float(info.tiny)
    z = np.array(
        [complex(big / 2, big / 2), complex(small * 4, small * 8), complex(big / 2, 1), complex(1, small)],
        dtype,
    )
    x = m.from_numpy(any_engine, z)
    one = m.ones_like(x).to_numpy()
    assert np.allclose((x / x).to_numpy(), one, rtol=8 * UNIT[dtype], atol=0)
    size = m.abs(x).to_numpy()
    assert np.allclose(size, np.abs(wide(z)).astype(size.dtype), rtol=4 * UNIT[dtype], atol=0)
    root = m.sqrt(x).to_numpy()
    assert np.allclose(root, np.sqrt(wide(z)).astype(dtype), rtol=8 * UNIT[dtype], atol=0)
    assert (m.full_like(x, complex(1, 1e-10)) / 1.0).to_numpy()[0] == np.array(complex(1, 1e-10), dtype)
    zero = (x / 0.0).to_numpy()
    assert np.isinf(zero.real).all() and np.isinf(zero.imag).all()


# -- reductions and products


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumulative_sum", "cumulative_prod"])
def test_along_axes(engine: Any, name: str, dtype: str, mode: str) -> None:
    needs(engine, dtype)
    rng = seeded(name, dtype)
    answer = {"cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod}.get(name) or getattr(np, name)
    for shape, axis in (
        ((5,), 0),
        ((1,), 0),
        ((7, 65), 0),
        ((7, 65), -1),
        ((3, 700), 1),
        ((2, 3, 4), 1),
        ((0, 3), 0),
    ):
        if name == "mean" and 0 in shape:
            continue
        angle, spread = rng.uniform(-PI, PI, shape), rng.uniform(0.95, 1.05, shape)
        array = (spread * np.exp(1j * angle)).astype(dtype)

        def function(x: Any, axis: int = axis) -> Any:
            return getattr(m, name)(x, axis=axis)

        x = place(engine, array, "strided")
        got = function(x).to_numpy()
        want = answer(wide(array), axis=axis)
        length = max(shape[axis], 2)
        reach = np.cumsum(np.abs(wide(array)), axis) if "sum" in name or name == "mean" else np.abs(want)
        bound = 4 * length * UNIT[dtype] * np.max(reach, initial=1.0)
        assert got.dtype == dtype and np.all(np.abs(got - want) <= bound), (name, shape)
        others = [place(engine, (array + 1).astype(dtype), "strided")]
        assert same_bits(run(engine, mode, function, [x], others), got)
    table = m.from_numpy(engine, np.array([[0, 1j], [0, 0], [NAN, 2]], dtype))
    assert m.any(table, axis=1).tolist() == [True, False, True] and m.all(table, axis=1).tolist() == [
        False,
        False,
        True,
    ]
    assert m.count_nonzero(table).item() == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_products(engine: Any, dtype: str, mode: str) -> None:
    """Each part within 2 (k + 1) u of the product of sizes: two sums of k products, and one difference."""
    needs(engine, dtype)
    rng = seeded("product", dtype)
    for left, right in (
        ((4, 5), (5, 6)),
        ((33, 64), (64, 17)),
        ((2, 3, 7), (7, 5)),
        ((5,), (5,)),
        ((3, 0), (0, 2)),
    ):
        a, b = values(dtype, left, rng), values(dtype, right, rng)
        operands = [place(engine, a, "transposed"), place(engine, b, "plain")]
        got = m.matmul(*operands).to_numpy()
        bound = 4 * (left[-1] + 1) * UNIT[dtype] * (np.abs(wide(a)) @ np.abs(wide(b)))
        assert got.dtype == dtype and np.all(np.abs(got - wide(a) @ wide(b)) <= bound)
        others = [
            place(engine, values(dtype, s, rng), k) for s, k in ((left, "transposed"), (right, "plain"))
        ]
        assert same_bits(run(engine, mode, m.matmul, operands, others), got)
        after = m.exp(m.conj(m.matmul(*operands)) * 0.01j).to_numpy()
        alone = m.exp(m.from_numpy(engine, np.conj(got)) * 0.01j).to_numpy()
        assert same_bits(after, alone), "an epilogue changes bits"
    a, b = values(dtype, (4, 9), rng), values(dtype, (4, 9), rng)
    x, y = m.from_numpy(engine, a), m.from_numpy(engine, b)
    scale = 64 * UNIT[dtype] * np.max(np.abs(a)) * np.max(np.abs(b)) * 9
    assert np.allclose(m.vecdot(x, y).to_numpy(), np.sum(np.conj(a) * b, -1), rtol=0, atol=scale)
    assert np.allclose(m.tensordot(x, y, axes=2).to_numpy(), np.sum(a * b), rtol=0, atol=4 * scale)
    assert np.allclose(m.einsum("ij,kj->ik", x, y).to_numpy(), a @ b.T, rtol=0, atol=scale)


# -- moving elements


def test_views_and_movements(engine: Any) -> None:
    rng = seeded("views")
    a = values("complex64", (4, 6), rng)
    x = m.from_numpy(engine, a)
    index = np.array([[3, 0], [-1, 2]], np.int32)
    pairs = {
        "transpose": (x.T, a.T), "reshape": (m.reshape(x.T, (3, 8)), a.T.reshape(3, 8)), "slice": (x[1:, ::-2], a[1:, ::-2]),
        "computed slice": ((x * x)[:, 1], wide(a)[:, 1] ** 2), "flip": (m.flip(x), np.flip(a)),
        "roll": (m.roll(x, 2), np.roll(a, 2)),
        "concat": (m.concat([x, x * 2.0], axis=1), np.concatenate([a, a * 2], 1)), "stack": (m.stack([x, -x]), np.stack([a, -a])),
        "take": (m.take(x, m.from_numpy(engine, index), axis=0), a[index]), "mask": (x[m.real(x) > 0], a[a.real > 0]),
        "pad": (m.pad(x, 1), np.pad(a, 1)), "pad 1j": (m.pad(x, 1, constant_values=1j), np.pad(a, 1, constant_values=1j)),
        "tile": (m.tile(x, (2, 1)), np.tile(a, (2, 1))), "repeat": (m.repeat(x, 2, axis=1), np.repeat(a, 2, 1)),
        "triu": (m.triu(x), np.triu(a)), "where": (m.where(m.imag(x) > 0, x, 1j), np.where(a.imag > 0, a, np.complex64(1j))),
        "broadcast": (m.broadcast_to(x[:1] * 1.0, (5, 6)), np.broadcast_to(a[:1], (5, 6))),
    }  # fmt: skip
    for name, (got, want) in pairs.items():
        assert got.dtype is oa.complex64, name
        assert np.allclose(got.to_numpy(), want, rtol=1e-6), name
    y = m.from_numpy(engine, a)
    y[1, 2:4] = 5j
    y[0] = x[2]
    want = a.copy()
    want[1, 2:4], want[0] = 5j, a[2]
    assert np.array_equal(y.to_numpy(), want)
    added = m.scatter(x, m.full(engine, (2, 6), 1), x[:2], axis=0, mode="add").to_numpy()
    want = a.copy()
    np.add.at(want, [1, 1], a[:2])
    assert np.allclose(added, want, rtol=1e-5)


def test_sets(any_engine: Any) -> None:
    z = np.array([2 + 1j, 1j, 2 - 1j, 1j, -1, 2 + 1j, complex(NAN, 0), complex(0, NAN)], np.complex64)
    found = m.unique_all(m.from_numpy(any_engine, z[:6]))
    values_, places, back, counts = np.unique(
        z[:6], return_index=True, return_inverse=True, return_counts=True
    )
    assert np.array_equal(found.values.to_numpy(), values_) and found.indices.tolist() == places.tolist()
    assert found.inverse_indices.tolist() == back.tolist() and found.counts.tolist() == counts.tolist()
    assert m.unique_values(m.from_numpy(any_engine, z)).size == 6
    many = m.from_numpy(any_engine, np.concatenate([z[:2]] * 40))
    assert m.isin(m.from_numpy(any_engine, z[:3]), many).tolist() == [True, True, False]


# -- dtypes and interop


def test_promotion_and_weak_numbers(engine: Any) -> None:
    x = m.ones(engine, 2)
    z = m.from_list(engine, [1 + 2j, 3j])
    assert z.dtype is oa.complex64 and (x + z).dtype is oa.complex64 and (z * 2).dtype is oa.complex64
    assert (
        (x * 1j).dtype is oa.complex64
        and (x * 1j).tolist() == [1j, 1j]
        and (1j - x).tolist() == [-1 + 1j] * 2
    )
    assert m.result_type(x, 1j) is oa.complex64 and m.result_type(1j) is oa.complex64
    assert m.result_type(oa.float16, oa.complex64) is oa.complex64
    assert m.can_cast(oa.float32, oa.complex64) and not m.can_cast(oa.complex64, oa.float32)
    assert m.isdtype(oa.complex64, "complex floating") and not m.isdtype(oa.complex64, "real floating")
    assert m.finfo(oa.complex128).bits == 64 and m.finfo(z).dtype is oa.float32
    assert {"complex64"} <= set(m.__array_namespace_info__().dtypes(device=engine, kind="complex floating"))
    assert m.astype(x, oa.complex64).tolist() == [1, 1] and m.astype(z, oa.bool_).tolist() == [True, True]
    if engine.supports(oa.float64):
        assert (m.astype(x, oa.float64) + z).dtype is oa.complex128
        assert (m.astype(x, oa.float64) * 1j).dtype is oa.complex128
    for wrong in (
        lambda: m.from_list(engine, [1]) * 1j,
        lambda: m.from_list(engine, [1]) + z,
        lambda: z.astype("float32"),
    ):
        with pytest.raises(oa.errors.DTypeError):
            wrong()


@pytest.mark.parametrize("dtype", DTYPES)
def test_to_and_from_the_host(any_engine: Any, dtype: str) -> None:
    needs(any_engine, dtype)
    a = SPECIAL[dtype].reshape(9, 9)
    for array in (a, a.T, a[::-1, ::2], np.asfortranarray(a), a.astype(a.dtype.newbyteorder())):
        x = m.from_numpy(any_engine, array)
        assert x.dtype.name == dtype and same_bits(x.to_numpy(), np.ascontiguousarray(array, dtype))
    x = m.from_numpy(any_engine, a)
    assert same_bits(np.from_dlpack(x), a) and same_bits(m.from_dlpack(a, device=any_engine).to_numpy(), a)
    assert same_bits(m.asarray(a, device=any_engine).to_numpy(), a)
    assert same_bits(pickle.loads(pickle.dumps(x)).to_numpy(), a) and same_bits(
        copy.deepcopy(x).to_numpy(), a
    )
    one = x[4, 3]
    assert complex(one) == one.item() == complex(a[4, 3]) and isinstance(x.tolist()[0][0], complex)
    assert "j" in repr(x) and dtype in repr(x)
    assert same_bits(m.complex(m.real(x), m.imag(x)).to_numpy(), a)


def test_creation(engine: Any) -> None:
    made = {
        "zeros": (m.zeros(engine, 3, dtype="complex64"), np.zeros(3)), "ones": (m.ones(engine, 3, dtype="complex64"), np.ones(3)),
        "full": (m.full(engine, (2, 2), 2 - 1j), np.full((2, 2), 2 - 1j)),
        "eye": (m.eye(engine, 3, dtype="complex64"), np.eye(3)),
        "linspace": (m.linspace(engine, 0, 1 + 1j, 5), np.linspace(0, 1 + 1j, 5)),
        "full_like": (m.full_like(m.zeros(engine, 2, dtype="complex64"), 1j), np.full(2, 1j)),
        "asarray": (m.asarray([1, 2j], device=engine), np.array([1, 2j])),
    }  # fmt: skip
    for name, (got, want) in made.items():
        assert got.dtype is oa.complex64 and np.allclose(got.to_numpy(), want, rtol=1e-6), name
    assert same_bits(m.full(engine, (), complex(-0.0, NAN)).to_numpy(), join(-0.0, NAN).astype(np.complex64))


def test_cells_and_replays(engine: Any) -> None:
    """A carried complex value: assigned, captured, replayed with other operands and numbers."""
    cell = oa.State(engine, m.full(engine, (5,), 1 + 1j))
    step = m.from_list(engine, [1j, 2.0, 3.0, 4.0, 5.0])

    def body() -> Any:
        cell.assign(cell.value * 0.5 + step)
        return m.abs(cell.value)

    plan = engine.capture(body)
    want = np.full(5, 1 + 1j, np.complex64)
    for _ in range(3):
        engine.submit(plan)
        want = want * np.float32(0.5) + step.to_numpy()
    assert np.allclose(cell.value.to_numpy(), want, rtol=1e-6)
    assert np.allclose(plan.outputs.to_numpy(), np.abs(want), rtol=1e-6)
