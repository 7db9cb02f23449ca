"""Reductions over axes: every reduction and dtype over shapes, axes, layouts and lengths, alone and in company."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from oa import matrix as m
from tests.device.matrix_rig import LAYOUTS, MODES, place, run, some
from tests.oracle import matrix as oracle
from tests.oracle.compare import agrees, expect, same_bits
from tests.oracle.inputs import DTYPES, SPECIAL, gentle, values
from tests.oracle.matrix import REDUCTIONS

CASES = [
    f"{name}-{dtype}"
    for name, (_, kinds, _) in REDUCTIONS.items()
    for dtype in DTYPES
    if np.dtype(dtype).kind in kinds
]

#: Groups of (shape, axis).
SHAPES: dict[str, list[tuple[tuple[int, ...], Any]]] = {
    "small": [((), None), ((1,), 0), ((3,), None), ((2, 3), 0), ((2, 3), -1), ((1, 1, 1), 1), ((5, 1), 1), ((1, 5), 0)],
    "rows": [((7, 8), 1), ((9, 63), 1), ((3, 64), -1), ((2, 65), 1), ((4, 255), 1), ((1, 256), 1), ((5, 257), 1)],
    "columns": [((8, 7), 0), ((63, 9), 0), ((64, 3), 0), ((65, 2), 0), ((257, 5), 0), ((31, 33), 0)],
    "long": [((5000,), 0), ((2, 4099), 1), ((4099, 2), 0), ((20011,), None), ((3, 1000, 2), 1)],
    "several": [((3, 4, 5), (0, 2)), ((3, 4, 5), (1, 2)), ((3, 4, 5), (0, 1)), ((2, 3, 4, 5), (1, 3)), ((2, 3, 4, 5), (0, 3)),
                ((2, 1, 3, 1, 2, 1, 2, 2), (0, 2, 4, 6)), ((2, 3, 2, 2, 1, 2, 3, 2), (1, 7)), ((2, 3), ())],
    "empty": [((0,), 0), ((0, 3), 1), ((0, 3), 0), ((3, 0), 1), ((2, 0, 3), None)],
}  # fmt: skip

_NEEDS_ELEMENTS = ("max", "min", "argmax", "argmin")


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


def numbers(name: str, dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Operands for which the answer says something: no overflow of float products, ties for the extremes."""
    if dtype != "float32":
        return values(dtype, shape, rng)
    if name == "prod":
        return np.exp(gentle(shape, rng) * 0.01).astype(np.float32)
    if name in _NEEDS_ELEMENTS or name in ("all", "any"):
        return rng.integers(-3, 4, shape).astype(np.float32) / 2
    return (gentle(shape, rng) * np.float32(3) + np.float32(1)).astype(np.float32)


def bound(name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    """Absolute error: the documented one of the sum, and for what is made of sums the roundings that follow."""
    if x.dtype.kind != "f":
        return 0.0
    total = oracle.sum_bound(x, axis, keepdims)
    count = max(int(np.prod([x.shape[a] for a in oracle._axes(axis, x.ndim)], dtype=np.int64)), 1)
    if name == "sum":
        return total
    if name == "mean":
        return total / count
    if name == "prod":
        return count * 2.0**-24 * np.abs(oracle.prod_of(x, axis, keepdims))
    # Each centred value is rounded and off by the mean's error; squares double the relative error.
    spread = np.sqrt(np.sum(np.square(x.astype(np.float64)), axis=axis, keepdims=keepdims) / count)
    return 2.0**-20 * np.nan_to_num(spread * (spread if name == "var" else 1.0))


def axis_fits(name: str, shape: tuple[int, ...], axis: Any) -> bool:
    several = REDUCTIONS[name][2]
    if isinstance(axis, tuple) and not several:
        return False
    if name in _NEEDS_ELEMENTS:
        return int(np.prod([shape[a] for a in oracle._axes(axis, len(shape))], dtype=np.int64)) > 0
    return True


def verify(name: str, got: Any, x: Any, axis: Any, keepdims: bool) -> None:
    want = REDUCTIONS[name][0](x, axis, keepdims)
    what = f"{name} {x.dtype} {x.shape} axis {axis} keepdims {keepdims}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    if got.dtype.kind != "f":
        assert got.dtype == want.dtype, what
        assert np.array_equal(got, want), f"{what}: got {got}, wanted {want}"
        return
    exact = name in ("max", "min")
    with np.errstate(all="ignore"):
        absolute = 0.0 if exact else bound(name, x, axis, keepdims)
    assert agrees(got, want, 0 if exact else 1, absolute).all(), f"{what}: got {got}, wanted {want}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_reductions(engine: Any, case: str, group: str, mode: str, full: bool) -> None:
    name, dtype = case.split("-")
    rng = seeded(case, group)
    turn = int(rng.integers(60))
    entries = some([e for e in SHAPES[group] if axis_fits(name, *e)], turn, full)
    for number, (shape, axis) in enumerate(entries):
        layout, keepdims = LAYOUTS[(turn + number) % len(LAYOUTS)], bool((turn + number) % 2)
        x = numbers(name, dtype, shape, rng)

        def function(v: Any, axis: Any = axis, keepdims: bool = keepdims) -> Any:
            return getattr(m, name)(v, axis=axis, keepdims=keepdims)

        operand = place(engine, x, layout)
        alone = function(operand).to_numpy()
        verify(name, alone, x, axis, keepdims)
        if number + 1 == len(entries) or number == len(mode) % len(entries):
            other = place(engine, numbers(name, dtype, shape, rng), layout)
            assert same_bits(run(engine, mode, function, [operand], [other]), alone), (
                f"{mode} changes bits at {shape}"
            )


@pytest.mark.parametrize("name", ["sum", "max", "min", "argmax", "argmin", "any", "all", "mean", "prod"])
def test_special_values(engine: Any, name: str) -> None:
    """NaN, infinities and signed zeros in rows of two and three."""
    table = SPECIAL["float32"]
    grid = np.stack(np.broadcast_arrays(table[:, None], table[None, :]), axis=-1)
    for x in (grid, np.concatenate([grid, np.roll(grid[..., :1], 5, axis=1)], axis=-1)):
        got = getattr(m, name)(m.from_numpy(engine, x), axis=-1).to_numpy()
        if name in ("max", "min"):
            # Of zeros of both signs NumPy keeps either; the array API leaves it open, oa has -0 below +0.
            want = np.where(_zeros(x, name), _signed_zero(x, name), REDUCTIONS[name][0](x, -1))
            assert agrees(got, want).all() or agrees(got, np.where(np.abs(want) < 2.0**-126, got, want)).all()
        elif name in ("argmax", "argmin"):
            expect(got, lambda v: REDUCTIONS[name][0](v, -1), [x], what=name)
        elif got.dtype.kind == "f":
            want = REDUCTIONS[name][0](x, -1)
            with np.errstate(all="ignore"):
                good = agrees(got, want, 2, oracle.sum_bound(x, -1) + 2.0**-125)
                # Where denormals count as zero, infinity times one is no number.
                good |= agrees(got, REDUCTIONS[name][0](np.where(np.abs(x) < 2.0**-126, 0 * x, x), -1))
                partial = np.isinf(np.abs(x.astype(np.float64)).sum(-1)) | (np.abs(x).sum(-1) > 3e38)
            assert (good | (partial & (name in ("sum", "mean")) & _overflowing(x))).all(), (
                x[~good],
                got[~good],
                want[~good],
            )
        else:
            expect(got, lambda v: REDUCTIONS[name][0](v, -1), [x], what=name)


def _overflowing(x: Any) -> Any:
    """Rows whose finite sum may overflow float32 on the way in one order and not in another."""
    with np.errstate(all="ignore"):
        return np.isfinite(x).all(-1) & (np.abs(x.astype(np.float64)).sum(-1) > 3.4e38)


def _zeros(x: Any, name: str) -> Any:
    return (np.max(x, axis=-1) if name == "max" else np.min(x, axis=-1)) == 0


def _signed_zero(x: Any, name: str) -> Any:
    at_zero = x == 0
    positive = (at_zero & ~np.signbit(x)).any(-1)
    negative = (at_zero & np.signbit(x)).any(-1)
    if name == "max":
        return np.where(positive, 0.0, -0.0)
    return np.where(negative, -0.0, 0.0)


@pytest.mark.parametrize("length", [1, 2, 3, 100, 255, 4096, 100_003])
@pytest.mark.parametrize("name", ["random", "cancelling", "growing"])
def test_sum_keeps_its_documented_bound(any_engine: Any, name: str, length: int) -> None:
    """|error| <= 2 log2(n) 2^-24 sum|x|, in rows and in columns, also where the terms cancel or differ in size."""
    rng = seeded(name, str(length))
    x = gentle((3, length), rng)
    if name == "cancelling":
        x[:, 1::2] = -x[:, : 2 * (length // 2) : 2]
    elif name == "growing":
        x = (x * np.exp2(rng.integers(-20, 20, x.shape))).astype(np.float32)
    for array, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
        got = m.sum(m.from_numpy(any_engine, array), axis=axis).to_numpy()
        want = oracle.sum_of(array, axis)
        assert agrees(got, want, 0.5, oracle.sum_bound(array, axis)).all()


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_arguments_take_the_first_of_equals(engine: Any, dtype: str) -> None:
    for length in (1, 2, 9, 64, 300, 5000):
        x = np.zeros((4, length), dtype)
        x[1, length // 2 :] = 1
        x[2, length // 3 :] = -1
        if dtype == "float32":
            x[3, [length // 2, length - 1]] = np.nan
        for name in ("argmax", "argmin"):
            for axis in (1, None):
                want = REDUCTIONS[name][0](x, axis)
                assert np.array_equal(getattr(m, name)(m.from_numpy(engine, x), axis=axis).to_numpy(), want)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_normalisations(engine: Any, name: str, axis: int) -> None:
    """Rounding x - max costs exp |x - max| / 2 ulp; beside it two ulp for exp, log and division each, and the sum's bound."""
    rng = seeded(name, str(axis))
    for shape in [(1, 1), (3, 5), (2, 64), (4, 257), (65, 9), (2, 3, 4), (3, 1), (0, 4), (4, 0), (2, 1000)]:
        x = (gentle(shape, rng) * 4).astype(np.float32)
        if axis < len(shape):
            got = getattr(m, name)(m.from_numpy(engine, x), axis=axis).to_numpy()
            want = getattr(oracle, name)(x, axis)
            assert got.shape == want.shape
            size = (
                0.0
                if name == "softmax"
                else 2.0**-22 * (np.max(np.abs(x), initial=0.0) + np.log(max(x.shape[axis], 2)))
            )
            relative = 8 + 2 * np.log2(max(x.shape[axis], 2)) + (np.ptp(x) if x.size else 0)
            with np.errstate(all="ignore"):
                assert agrees(got, want, relative, size + 2.0**-125).all(), (name, shape, got, want)


def test_normalisations_of_extremes(engine: Any) -> None:
    x = np.array(
        [[1000.0, 0.0, -1000.0], [-np.inf, 0.0, 1.0], [-np.inf] * 3, [np.nan, 0.0, 1.0], [3e38, 3e38, -3e38]],
        np.float32,
    )
    for name in ("softmax", "log_softmax", "logsumexp"):
        got = getattr(m, name)(m.from_numpy(engine, x)).to_numpy()
        want = getattr(oracle, name)(x)
        assert agrees(got, want, 16, 1e-6).all(), (name, got, want)


def test_sum_dtype(engine: Any) -> None:
    x = np.array([[250, 250, 250], [1, 2, 3]], np.uint8)
    held = m.from_numpy(engine, x)
    assert m.sum(held, dtype="uint8").to_numpy() == np.uint8((750 + 6) % 256)
    assert m.sum(held, axis=1, dtype="float32").tolist() == [750.0, 6.0]
    assert m.sum(held, axis=1).to_numpy().dtype == np.uint32
    assert m.prod(held, axis=1, dtype="int32").tolist() == [15625000, 6]
