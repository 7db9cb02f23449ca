"""The value as the array API and NumPy see it: namespace, dtypes, protocols, elementwise functions that are not one operation."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.oracle.compare import same_bits
from tests.oracle.inputs import SPECIAL, values
from tests.oracle.pointwise import nextafter

FLOATS = SPECIAL["float32"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nextafter(engine: Any, dtype: str) -> None:
    if not engine.supports(dtype):
        pytest.skip(f"the device has no {dtype}")
    table = SPECIAL[dtype]
    a, b = (v.astype(dtype) for v in np.meshgrid(table, table))
    got = m.nextafter(m.from_numpy(engine, a), m.from_numpy(engine, b)).to_numpy()
    with np.errstate(all="ignore"):
        want = nextafter(a, b)
    assert same_bits(got, want)


def test_nextafter_of_all_halves(any_engine: Any) -> None:
    """Every float16 on its way to both infinities, to 0 and to itself, by its bits."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    x = m.from_numpy(any_engine, halves)
    for target in (np.inf, -np.inf, 0.0, -0.0, np.nan, halves):
        to = np.broadcast_to(np.asarray(target, np.float16), halves.shape)
        with np.errstate(all="ignore"):
            want = nextafter(halves, to)
        assert same_bits(m.nextafter(x, m.from_numpy(any_engine, to)).to_numpy(), want)
    assert same_bits(m.nextafter(x, 1.0).to_numpy(), nextafter(halves, np.float16(1)))


def test_logaddexp(engine: Any) -> None:
    a, b = np.meshgrid(FLOATS, FLOATS)
    got = m.logaddexp(m.from_numpy(engine, a), m.from_numpy(engine, b)).to_numpy()
    with np.errstate(all="ignore"):
        want = np.logaddexp(a.astype(np.float64), b.astype(np.float64))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= 2.0**-22 * np.maximum(np.abs(want), 1)
    over = np.isinf(got) & (np.abs(want) >= 3.4028235e38) & (np.sign(got) == np.sign(want))
    assert np.all(near | np.isnan(want) | over)


def test_logaddexp_gradient(any_engine: Any) -> None:
    a, b = (m.from_list(any_engine, v) for v in ([0.5, -2.0, 1.0], [1.5, -2.0, -math.inf]))
    with oa.ml.GradientTape() as tape:
        tape.watch([a, b])
        y = m.sum(m.logaddexp(a, b))
    da, db = tape.gradient(y, [a, b])
    share = 1 / (1 + np.exp([-1.0, 0.0, math.inf]))
    assert np.allclose(db.to_numpy(), [share[0], 0.5, 0.0], atol=1e-6)
    assert np.allclose(da.to_numpy(), [1 - share[0], 0.5, 1.0], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "uint8"])
def test_functions_of_every_number(engine: Any, dtype: str) -> None:
    n = SPECIAL[dtype]
    x = m.from_numpy(engine, n)
    for name in ("floor", "ceil", "trunc", "round"):
        want = getattr(np, name)(n) if n.dtype.kind == "f" else n
        got = getattr(m, name)(x).to_numpy()
        assert got.dtype == n.dtype
        assert np.array_equal(got, want, equal_nan=n.dtype.kind == "f") or np.all(
            (got == want) | (np.abs(n) < 2.0**-126)
        )
    for name in ("isnan", "isinf", "isfinite"):
        assert np.array_equal(getattr(m, name)(x).to_numpy(), getattr(np, name)(n))
    assert np.array_equal(m.signbit(x).to_numpy(), np.signbit(n) if n.dtype.kind == "f" else n < 0)
    assert np.array_equal(m.positive(x).to_numpy(), n, equal_nan=n.dtype.kind == "f")
    assert np.array_equal(m.real(x).to_numpy(), n, equal_nan=n.dtype.kind == "f")
    assert not m.imag(x).to_numpy().any()
    assert np.array_equal(m.negative(x).to_numpy(), -n, equal_nan=n.dtype.kind == "f")


def test_clip_with_open_sides(engine: Any) -> None:
    n = values("float32", (3, 7), np.random.default_rng(1), special=True)
    x = m.from_numpy(engine, n)
    for low, high in ((-1.0, 2.0), (None, 0.5), (-0.25, None), (None, None)):
        want = n if low is None and high is None else np.clip(n, low, high)
        assert np.array_equal(m.clip(x, low, max=high).to_numpy(), want, equal_nan=True)
    row = m.from_numpy(engine, n[0])
    assert np.array_equal(m.clip(x, max=row).to_numpy(), np.minimum(n, n[0]), equal_nan=True)
    assert np.array_equal(
        m.clip(x.astype("int32"), -2, 9).to_numpy(), np.clip(x.astype("int32").to_numpy(), -2, 9)
    )
    flags = n > 0
    a, b = m.from_numpy(engine, flags), m.from_numpy(engine, flags[0])
    assert np.array_equal(m.logical_xor(a, b).to_numpy(), np.logical_xor(flags, flags[0]))


def test_namespace(any_engine: Any) -> None:
    x = m.ones(any_engine, 3)
    assert x.__array_namespace__() is m is x.__array_namespace__(api_version="2025.12")
    with pytest.raises(oa.errors.ArgumentError, match="2099"):
        x.__array_namespace__(api_version="2099.12")
    info = m.__array_namespace_info__()
    assert info.capabilities()["max dimensions"] == 8
    assert any_engine in info.devices()
    reals = {"real floating": oa.float32, "integral": oa.int32, "indexing": oa.int32}
    assert info.default_dtypes() == {**reals, "complex floating": oa.complex64}
    assert info.dtypes(kind="bool") == {"bool": oa.bool_}
    assert set(info.dtypes(kind=("real floating", "bool"))) >= {"float32", "bool"}
    assert (m.pi, m.inf, m.newaxis, m.bool) == (math.pi, math.inf, None, oa.bool_)
    assert set(m.__all__) <= set(dir(m))


def test_dtype_questions(any_engine: Any) -> None:
    assert m.result_type(oa.uint8, m.ones(any_engine, 1, dtype="int32"), True) is oa.int32
    assert m.result_type(1, 2.0) is oa.float32
    assert m.result_type(oa.float32, 1, 2.0) is oa.float32
    with pytest.raises(oa.errors.DTypeError):
        m.result_type(oa.int32, 1.0)
    assert m.can_cast(oa.uint8, oa.uint32) and not m.can_cast(oa.uint32, oa.uint8)
    assert not m.can_cast(m.ones(any_engine, 1), oa.int32)
    assert m.isdtype(oa.uint8, "unsigned integer") and not m.isdtype(oa.bool_, "numeric")
    assert m.isdtype(oa.uint8, (oa.int32, oa.uint8)) and not m.isdtype(oa.uint8, "signed integer")
    with pytest.raises(oa.errors.ArgumentError, match="kinds are bool"):
        m.isdtype(oa.uint8, "complicated")
    assert (m.finfo(oa.float32).eps, m.finfo(oa.float32).bits) == (2.0**-23, 32)
    assert (m.iinfo(m.ones(any_engine, 1, dtype="int32")).min, m.iinfo(oa.uint8).max) == (-(2**31), 255)
    with pytest.raises(oa.errors.DTypeError, match="iinfo"):
        m.finfo(oa.int32)


def test_numpy_meets_a_value(any_engine: Any) -> None:
    x = m.from_list(any_engine, [1.0, 2.0])
    for call in (lambda: np.add(x, 1), lambda: np.ones(2) + x, lambda: x + np.ones(2)):
        with pytest.raises(oa.errors.OaError, match=r"matrix\.add"):
            call()
    with pytest.raises(TypeError, match=r"oa\.matrix\.pow"):
        np.power(x, 2)
    assert (np.float32(2) * x).tolist() == (x * np.float32(2)).tolist() == [2.0, 4.0]
    assert (np.float32(3) - x).tolist() == [2.0, 1.0]
    assert np.asarray(x).dtype == np.float32
    assert complex(x[1]) == 2 + 0j


def test_rows_come_from_one_download(any_engine: Any) -> None:
    x = m.from_numpy(any_engine, np.arange(12, dtype=np.float32).reshape(4, 3)) * 2.0
    before = any_engine.diagnostics["submissions"]
    rows = [row.to_numpy() for row in x]
    assert any_engine.diagnostics["submissions"] - before <= 2
    assert np.array_equal(rows, x.to_numpy())
    assert [float(v) for v in x[0]] == [0.0, 2.0, 4.0]
    first = next(iter(x))
    assert (first + 1.0).tolist() == [1.0, 3.0, 5.0]
    with pytest.raises(TypeError):
        iter(x[0, 0])


def test_another_device(any_engine: Any, device_name: str) -> None:
    with oa.Engine(device=device_name) as other:
        x = m.from_list(any_engine, [1, 2])
        y = x.to_device(other)
        assert y.device is other and y.tolist() == [1, 2]
        assert x.to_device(any_engine) is x
        assert m.astype(x, "float32", device=other).device is other
        assert m.zeros_like(x, device=other).device is other
    with pytest.raises(oa.errors.ArgumentError, match="stream"):
        x.to_device(any_engine, stream=1)


def test_dlpack(any_engine: Any) -> None:
    for array in (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([True, False]),
        np.array(3, np.int32),
    ):
        x = m.from_numpy(any_engine, array)
        assert x.__dlpack_device__()[0] == (1 if any_engine.cuda_ordinal() is None else 2)
        assert np.array_equal(np.from_dlpack(x, device="cpu"), array)
        back = m.from_dlpack(array, device=any_engine)
        assert back.device is any_engine and np.array_equal(back.to_numpy(), array) and back.dtype is x.dtype
    x = m.ones(any_engine, 3)
    assert m.from_dlpack(x[::2]).tolist() == [1.0, 1.0]
    host = {"dl_device": (1, 0)}
    for wrong in ({**host, "copy": False}, {"stream": -2}, {"dl_device": (2, 99)}):
        with pytest.raises(oa.errors.ArgumentError, match="__dlpack__"):
            x.__dlpack__(**wrong)  # type: ignore[arg-type]
    for refuse in (lambda: m.from_dlpack(np.ones(2), copy=False), lambda: x.__dlpack__(**host, copy=False)):
        with pytest.raises(BufferError, match="copy=False"):
            refuse()


def test_copies_and_pickles(any_engine: Any) -> None:
    x = m.from_list(any_engine, [[1, 2], [3, 4]], dtype="uint8")
    for twin in (copy.copy(x), copy.deepcopy(x), m.astype(x, "uint8"), m.asarray(x, copy=True)):
        twin[0] = 9
        assert twin.tolist() == [[9, 9], [3, 4]] and twin.device is any_engine
    assert x.tolist() == [[1, 2], [3, 4]]
    held = copy.deepcopy({"a": x, "b": [x]})
    assert held["a"] is held["b"][0]
    found = pickle.loads(pickle.dumps({"x": x.T, "dtype": x.dtype}))
    assert found["x"].tolist() == [[1, 3], [2, 4]] and found["x"].dtype is found["dtype"] is oa.uint8


def test_floor_division_of_infinities(any_engine: Any) -> None:
    """As the standard has it, not as NumPy."""
    inf = math.inf
    a, b = (
        m.from_list(any_engine, v)
        for v in ([inf, inf, -inf, 1.0, -1.0, 1.0, inf], [2.0, -2.0, 2.0, -inf, inf, inf, inf])
    )
    got = m.floor_divide(a, b).to_numpy()
    want = np.array([inf, -inf, -inf, -0.0, -0.0, 0.0, np.nan], np.float32)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got[:6]), np.signbit(want[:6]))
