"""Scans, sorting, searching and sets of the array API standard beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.oracle.inputs import SPECIAL, values

DTYPES = ("float32", "int32", "uint32", "uint8", "bool")


def made(engine: Any, dtype: str, shape: tuple[int, ...], seed: int = 0) -> tuple[Any, Any]:
    array = values(dtype, shape, np.random.default_rng([seed, *shape]), special=dtype != "float32")
    return m.from_numpy(engine, array), array


def wide(array: Any) -> Any:
    return array.astype({"bool": "int32", "uint8": "uint32"}.get(array.dtype.name, array.dtype))


@pytest.mark.parametrize("dtype", ("float32", "int32", "uint8"))
def test_cumulative(engine: Any, dtype: str) -> None:
    for shape, axis in (((7,), 0), ((3, 33), 1), ((70, 2), 0), ((2, 3, 4), -2), ((0, 2), 0), ((1, 1), 1)):
        x, n = made(engine, dtype, shape)
        n = wide(n)
        total, product = m.cumulative_sum(x, axis=axis), m.cumulative_prod(x, axis=axis)
        assert total.shape == n.shape
        if dtype == "float32":
            double = n.astype(np.float64)
            count = max(2, n.shape[axis])
            bound = 2 * np.log2(count) * 2.0**-24 * np.cumsum(np.abs(double), axis) + 2.0**-24
            assert np.all(
                np.abs(total.to_numpy() - np.cumsum(double, axis))
                <= bound + 1e-7 * np.abs(np.cumsum(double, axis))
            )
            with np.errstate(all="ignore"):
                want = np.cumprod(double, axis)
                near = np.isclose(product.to_numpy(), want, rtol=count * 2.0**-23, atol=1e-37) | (
                    np.abs(want) > 3e38
                )
            assert np.all(near)
        else:
            assert total.to_numpy().dtype == n.dtype
            assert np.array_equal(total.to_numpy(), np.cumsum(n, axis, dtype=n.dtype))
            assert np.array_equal(product.to_numpy(), np.cumprod(n, axis, dtype=n.dtype))


def test_cumulative_arguments(engine: Any) -> None:
    x = m.from_list(engine, [[1, 2], [3, 4]])
    assert m.cumulative_sum(x, axis=0, include_initial=True).tolist() == [[0, 0], [1, 2], [4, 6]]
    assert m.cumulative_prod(x, axis=1, include_initial=True).tolist() == [[1, 1, 2], [1, 3, 12]]
    assert m.cumulative_sum(x, axis=1, dtype="float32").to_numpy().dtype == np.float32
    assert m.cumulative_sum(m.zeros(engine, (0,)), include_initial=True).tolist() == [0.0]
    with pytest.raises(oa.errors.ArgumentError, match="needs an axis"):
        m.cumulative_sum(x)


def test_long_scan(any_engine: Any) -> None:
    n = np.random.default_rng(3).integers(0, 3, (2, 40_000)).astype(np.int32)
    assert np.array_equal(m.cumulative_sum(m.from_numpy(any_engine, n), axis=1).to_numpy(), np.cumsum(n, 1))


def test_scan_gradients(any_engine: Any) -> None:
    n = np.random.default_rng(4).uniform(0.5, 1.5, (2, 40)).astype(np.float32)
    seed = np.random.default_rng(5).standard_normal((2, 40)).astype(np.float32)
    x = m.from_numpy(any_engine, n)
    for function, want in (
        (m.cumulative_sum, np.cumsum(seed[:, ::-1], 1)[:, ::-1]),
        (m.cumulative_prod, np.cumsum((seed * np.cumprod(n.astype(np.float64), 1))[:, ::-1], 1)[:, ::-1] / n),
    ):
        with oa.ml.GradientTape() as tape:
            tape.watch(x)
            y = function(x, axis=1)
        got = tape.gradient(y, x, seed=m.from_numpy(any_engine, seed)).to_numpy()
        assert np.allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_diff(any_engine: Any, dtype: str) -> None:
    x, n = made(any_engine, dtype, (3, 6))
    assert np.array_equal(m.diff(x).to_numpy(), np.diff(n))
    assert np.array_equal(m.diff(x, axis=0, n=2).to_numpy(), np.diff(n, 2, 0))
    assert np.array_equal(
        m.diff(x, prepend=x[:, :1], append=x[:, :2]).to_numpy(), np.diff(n, prepend=n[:, :1], append=n[:, :2])
    )
    assert m.diff(x, n=9).shape == (3, 0)


@pytest.mark.parametrize("dtype", ("float32", "int32", "bool"))
def test_sort(engine: Any, dtype: str) -> None:
    for shape, axis in (
        ((9,), 0),
        ((3, 40), 1),
        ((17, 2), 0),
        ((2, 5, 3), 1),
        ((0, 3), 0),
        ((3, 0), 1),
        ((4, 1), 1),
    ):
        x, n = made(engine, dtype, shape)
        assert np.array_equal(m.sort(x, axis=axis).to_numpy(), np.sort(n, axis))
        assert np.array_equal(m.argsort(x, axis=axis).to_numpy(), np.argsort(n, axis, kind="stable"))
        order = m.argsort(x, axis=axis, descending=True).to_numpy()
        # Stable among equals: the order that sorts the ascending ranks, negated.
        down = np.argsort(-wide(n).astype(np.float64), axis, kind="stable")
        assert np.array_equal(order, down)


def test_sort_of_special_values(engine: Any) -> None:
    n = np.tile(SPECIAL["float32"], 2)
    normal = n[(np.abs(n) >= 2.0**-126) | (n == 0) | np.isnan(n)]
    x = m.from_numpy(engine, normal)
    assert np.array_equal(m.argsort(x).to_numpy(), np.argsort(normal, kind="stable"))
    assert np.isnan(m.sort(x, descending=True).to_numpy()[:2]).all()


WIDE = ("float64", "int64", "uint64", "float16", "int8", "int16", "uint16", *DTYPES)


def unordered(dtype: str, shape: tuple[int, ...]) -> Any:
    """Values over the dtype's whole range; of floats some are NaN, infinite or a zero of either sign, and many are ties."""
    rng = np.random.default_rng([len(dtype), *shape])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if not dtype.startswith("float"):
        found = np.iinfo(dtype)
        return rng.integers(found.min, found.max, shape, dtype=dtype, endpoint=True)
    x = np.round(rng.standard_normal(shape) * 50).astype(dtype) / 8
    for k, special in enumerate((0.0, -0.0, np.nan, np.inf, -np.inf)):
        x.reshape(-1)[k :: 11 + 6 * k] = special
    return x


@pytest.mark.parametrize("dtype", WIDE)
def test_sort_of_any_length(engine: Any, dtype: str) -> None:
    """Each way in which rows are sorted: in registers, by counting, in workgroup memory, by digits; NumPy's order exactly."""
    if not engine.supports(dtype):
        pytest.skip(f"no {dtype} on this device")
    for shape, axis in (((5,), 0), ((70, 200), 1), ((300, 4), 0), ((3, 2500), 1), ((20_000,), 0)):
        n = unordered(dtype, shape)
        x, last = m.from_numpy(engine, n), shape[axis] - 1
        assert np.array_equal(m.argsort(x, axis=axis).to_numpy(), np.argsort(n, axis, kind="stable"))
        down = last - np.flip(np.argsort(np.flip(n, axis), axis, kind="stable"), axis)
        assert np.array_equal(m.argsort(x, axis=axis, descending=True).to_numpy(), down)
        bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}.get(n.dtype.itemsize, np.uint8)
        want = np.take_along_axis(n, np.argsort(n, axis, kind="stable"), axis)
        got = m.sort(x, axis=axis).to_numpy()
        plain = ~np.isnan(want) if dtype.startswith("float") else np.ones(shape, bool)
        assert np.array_equal(
            got.view(bits)[plain], want.view(bits)[plain]
        )  # zeros keep their signs, in their order
        assert np.array_equal(got, want, equal_nan=dtype.startswith("float"))


@pytest.mark.parametrize("dtype", ("float32", "float64", "int64", "uint64", "float16", "int8"))
def test_cumulative_sum_of_any_length(engine: Any, dtype: str) -> None:
    """Within an ulp of the exact sums of floats, in one chunk and several, along any axis; integers wrap."""
    if not engine.supports(dtype):
        pytest.skip(f"no {dtype} on this device")
    for shape, axis in (((3000,), 0), ((2, 3, 1000), 2), ((4000, 3), 0), ((5, 2, 30), 1)):
        n = np.random.default_rng([*shape]).uniform(0, 100, shape).astype(dtype)
        got = m.cumulative_sum(m.from_numpy(engine, n), axis=axis).to_numpy()
        if not dtype.startswith("float"):
            assert np.array_equal(got, np.cumsum(n, axis, dtype=got.dtype))
            continue
        want = np.cumsum(n.astype(np.longdouble), axis)
        with np.errstate(over="ignore"):
            near = want.astype(dtype)
        assert got.dtype == n.dtype
        finite = np.isfinite(near)
        unit = np.ldexp(np.finfo(dtype).eps, np.frexp(near[finite])[1] - 1)  # an ulp of what is near
        assert np.all(np.abs(got - want)[finite] <= 1.01 * unit)
        assert np.array_equal(got[~finite], near[~finite])


@pytest.mark.parametrize("count", [1100, 2500])
def test_long_sort(any_engine: Any, count: int) -> None:
    n = np.random.default_rng(6).integers(0, 50, (2, count)).astype(np.float32)
    x = m.from_numpy(any_engine, n)
    assert np.array_equal(m.argsort(x).to_numpy(), np.argsort(n, 1, kind="stable"))
    values, places = m.topk(x, 7)
    want = np.argsort(-n, 1, kind="stable")[:, :7]
    assert np.array_equal(places.to_numpy(), want)
    assert np.array_equal(values.to_numpy(), np.take_along_axis(n, want, 1))


def test_views_are_sorted_as_they_are(any_engine: Any) -> None:
    """What a kernel reads from the start of its storage may be asked for as part of another value."""
    n = np.random.default_rng(9).integers(0, 1 << 20, (6, 700)).astype(np.uint32)
    x = m.from_numpy(any_engine, n)
    assert np.array_equal(
        m.argsort(x[1::2, 5:], axis=1).to_numpy(), np.argsort(n[1::2, 5:], 1, kind="stable")
    )
    assert np.array_equal(m.cumulative_sum(x.T, axis=0).to_numpy(), np.cumsum(n.T, 0, dtype=np.uint32))
    assert np.array_equal(m.cumulative_sum(x[2, ::-1]).to_numpy(), np.cumsum(n[2, ::-1], dtype=np.uint32))
    assert m.cumulative_sum(m.full(any_engine, (1000,), 1, dtype="int32")).to_numpy()[-1] == 1000


def test_sort_gradient(any_engine: Any) -> None:
    n = np.random.default_rng(7).standard_normal((3, 11)).astype(np.float32)
    seed = np.random.default_rng(8).standard_normal((3, 11)).astype(np.float32)
    x = m.from_numpy(any_engine, n)
    with oa.ml.GradientTape() as tape:
        tape.watch(x)
        y = m.sort(x, descending=True)
    got = tape.gradient(y, x, seed=m.from_numpy(any_engine, seed)).to_numpy()
    want = np.empty_like(n)
    np.put_along_axis(want, np.argsort(-n, 1), seed, 1)
    assert np.array_equal(got, want)


def test_topk(engine: Any) -> None:
    x, n = made(engine, "int32", (4, 9))
    best, places = m.topk(x, 3)
    order = np.argsort(-n.astype(np.int64), 1, kind="stable")[:, :3]
    assert np.array_equal(places.to_numpy(), order)
    assert np.array_equal(best.to_numpy(), np.take_along_axis(n, order, 1))
    least, _ = m.topk(x, 2, axis=0, largest=False)
    assert np.array_equal(least.to_numpy(), np.sort(n, 0)[:2])
    assert m.top_k_mask(places, 9).to_numpy().sum() == 12
    assert np.array_equal(np.nonzero(m.top_k_mask(places, 9).to_numpy())[1].reshape(4, 3), np.sort(order, 1))
    with pytest.raises(oa.errors.ArgumentError, match="k is 10 of 9"):
        m.topk(x, 10)


@pytest.mark.parametrize("dtype", ("float32", "int32", "uint8", "int64", "float16"))
def test_topk_of_long_rows(any_engine: Any, dtype: str) -> None:
    """By chunks: ties within chunks and across them, special values, a last chunk that is not full, rows and columns."""
    if not any_engine.supports(dtype):
        pytest.skip(f"no {dtype} on this device")
    for shape, axis in (((50_003,), 0), ((3, 20_000), 1), ((9000, 2), 0)):
        n = unordered(dtype, shape)
        x, last = m.from_numpy(any_engine, n), shape[axis] - 1
        down = last - np.flip(np.argsort(np.flip(n, axis), axis, kind="stable"), axis)
        up = np.argsort(n, axis, kind="stable")
        for k in (0, 1, 9, 100, 800):
            for order, largest in ((down, True), (up, False)):
                values, places = m.topk(x, k, axis=axis, largest=largest)
                want = np.take(order, range(k), axis)
                assert np.array_equal(places.to_numpy(), want)
                found = np.take_along_axis(n, want, axis)
                assert np.array_equal(values.to_numpy(), found, equal_nan=dtype.startswith("float"))


def test_topk_gradient_of_long_rows(any_engine: Any) -> None:
    n = np.random.default_rng(12).standard_normal((2, 6000)).astype(np.float32)
    x = m.from_numpy(any_engine, n)
    with oa.ml.GradientTape() as tape:
        tape.watch(x)
        values, places = m.topk(x, 3)
    seed = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    want = np.zeros_like(n)
    np.put_along_axis(want, places.to_numpy(), seed, 1)
    got = tape.gradient(values, x, seed=m.from_numpy(any_engine, seed)).to_numpy()
    assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted(any_engine: Any, dtype: str) -> None:
    for count in (0, 1, 5, 64):
        _, n = made(any_engine, dtype, (count,))
        query, q = made(any_engine, dtype, (3, 7), 1)
        order = np.argsort(n, kind="stable").astype(np.int32)
        for side in ("left", "right"):
            want = np.searchsorted(n[order], q, side)  # type: ignore[call-overload]
            assert np.array_equal(
                m.searchsorted(m.from_numpy(any_engine, n[order]), query, side=side).to_numpy(), want
            )
            sorter = m.from_numpy(any_engine, order)
            assert np.array_equal(
                m.searchsorted(m.from_numpy(any_engine, n), query, side=side, sorter=sorter).to_numpy(), want
            )
    assert m.searchsorted(m.from_list(any_engine, [1.0, 3.0]), 2).item() == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(any_engine: Any, dtype: str) -> None:
    for shape in ((5,), (3, 40), (2, 3, 4), (0,), (2, 0)):
        x, n = made(any_engine, dtype, shape)
        if n.dtype.kind != "b":
            n = np.where(np.random.default_rng(1).random(shape) < 0.6, 0, n).astype(n.dtype)
            x = m.from_numpy(any_engine, n)
        for got, want in zip(m.nonzero(x), np.nonzero(n), strict=True):
            assert got.to_numpy().dtype == np.int32
            assert np.array_equal(got.to_numpy(), want)
        assert np.array_equal(m.argwhere(x).to_numpy(), np.argwhere(n))
        assert m.count_nonzero(x).item() == np.count_nonzero(n)
        assert np.array_equal(
            m.count_nonzero(x, axis=0, keepdims=True).to_numpy(), np.count_nonzero(n, 0, keepdims=True)
        )
    with pytest.raises(oa.errors.ShapeError, match="rank 0"):
        m.nonzero(m.zeros(any_engine, ()))


def test_nonzero_of_fixed_size(any_engine: Any) -> None:
    x = m.from_list(any_engine, [[0, 7], [0, 7]])
    assert [i.tolist() for i in m.nonzero(x, size=3, fill_value=9)] == [[0, 1, 9], [1, 1, 9]]
    assert [i.tolist() for i in m.nonzero(x, size=1)] == [[0], [1]]
    plan = any_engine.capture(lambda: m.nonzero(x, size=3, fill_value=-1)[0])
    any_engine.submit(plan)
    assert plan.outputs.tolist() == [0, 1, -1]
    with pytest.raises(oa.errors.CaptureError, match=r"size= and fill_value="):
        any_engine.capture(lambda: m.nonzero(x))
    with pytest.raises(oa.errors.CaptureError, match=r"matrix\.unique_values"):
        any_engine.capture(lambda: m.unique_values(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(any_engine: Any, dtype: str) -> None:
    for shape in ((12,), (3, 4), (0,), (1,)):
        x, n = made(any_engine, dtype, shape)
        n = (n.astype(np.int64) % 5).astype(dtype)
        x = m.from_numpy(any_engine, n)
        want = np.unique(n, return_index=True, return_inverse=True, return_counts=True)
        for got, expected in zip(m.unique_all(x), want, strict=True):
            assert np.array_equal(got.to_numpy(), expected)
        assert np.array_equal(m.unique_counts(x).counts.to_numpy(), want[3])
        assert np.array_equal(m.unique_inverse(x).inverse_indices.to_numpy(), want[2])
        assert np.array_equal(m.unique_values(x).to_numpy(), want[0])


def test_unique_of_nan(any_engine: Any) -> None:
    x = m.from_list(any_engine, [np.nan, 1.0, -0.0, np.nan, 0.0])
    found = m.unique_all(x)
    assert np.array_equal(found.values.to_numpy(), [0.0, 1.0, np.nan, np.nan], equal_nan=True)
    assert found.counts.tolist() == [2, 1, 1, 1]
    assert found.indices.tolist() == [2, 1, 0, 3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_isin(any_engine: Any, dtype: str) -> None:
    x, n = made(any_engine, dtype, (3, 20))
    for count in (0, 4, 50):
        values_, k = made(any_engine, dtype, (count,), 1)
        k = np.concatenate([k, n[0, : count // 2]])
        values_ = m.from_numpy(any_engine, k)
        assert np.array_equal(m.isin(x, values_).to_numpy(), np.isin(n, k))
        assert np.array_equal(m.isin(x, values_, invert=True).to_numpy(), np.isin(n, k, invert=True))
    assert m.isin(m.from_list(any_engine, [1, 2]), 2).tolist() == [False, True]
    assert m.isin(2, m.from_list(any_engine, [1, 2])).item() is True
