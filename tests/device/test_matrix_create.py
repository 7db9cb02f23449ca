"""Creation, and values to and from the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.oracle import matrix as oracle
from tests.oracle.compare import agrees, same_bits, ulp
from tests.oracle.inputs import DTYPES, SPECIAL

SHAPES = [(), (0,), (1,), (5,), (2, 3), (4, 0, 2), (65, 33), (2, 1, 3, 1, 2, 1, 2, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants(engine: Any, dtype: str) -> None:
    for shape in SHAPES:
        assert same_bits(m.zeros(engine, shape, dtype=dtype).to_numpy(), np.zeros(shape, dtype))
        assert same_bits(m.ones(engine, shape, dtype=dtype).to_numpy(), np.ones(shape, dtype))
        like = m.ones_like(m.zeros(engine, shape, dtype=dtype))
        assert same_bits(like.to_numpy(), np.ones(shape, dtype))
    for value in SPECIAL[dtype].tolist():
        assert same_bits(m.full(engine, (3,), value, dtype=dtype).to_numpy(), np.full(3, value, dtype))
    assert same_bits(m.full_like(like, 1, dtype="float32").to_numpy(), np.ones(like.shape, np.float32))
    assert same_bits(m.zeros_like(like).to_numpy(), np.zeros(like.shape, dtype))


def test_the_dtype_of_a_constant_follows_the_number(engine: Any) -> None:
    assert [m.full(engine, (), v).dtype for v in (True, 3, 2.5)] == [oa.bool_, oa.int32, oa.float32]


RANGES = [
    (5,),
    (0,),
    (-3,),
    (2, 9),
    (2, 9, 3),
    (9, 2, -2),
    (5, 5),
    (0.0, 1.0, 0.25),
    (1, 2, 0.3),
    (10, 0, -1),
    (2.5,),
    (1000,),
]


@pytest.mark.parametrize("bounds", RANGES)
def test_arange(engine: Any, bounds: tuple[float, ...]) -> None:
    got = m.arange(engine, *bounds).to_numpy()
    want = np.arange(*bounds)
    assert got.shape == want.shape
    assert got.dtype == (np.int32 if want.dtype.kind == "i" else np.float32)
    assert agrees(got.astype(np.float32), want, 2, 2.0**-23).all()
    if want.dtype.kind == "i":
        assert np.array_equal(got, want)
        assert np.array_equal(m.arange(engine, *bounds, dtype="float32").to_numpy(), want)


def test_eye_and_linspace(engine: Any) -> None:
    for rows, columns, k in [(3, 3, 0), (3, 5, 1), (5, 3, -2), (1, 1, 0), (4, 4, 9), (0, 3, 0), (65, 64, -1)]:
        for dtype in DTYPES:
            assert same_bits(
                m.eye(engine, rows, columns, k=k, dtype=dtype).to_numpy(), np.eye(rows, columns, k, dtype)
            )
    assert same_bits(m.eye(engine, 4).to_numpy(), np.eye(4, dtype=np.float32))
    assert same_bits(m.linspace(engine, -1.0, 1.0, 7).to_numpy(), np.linspace(-1, 1, 7).astype(np.float32))
    assert m.linspace(engine, 0.0, 1.0, 0).shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(engine: Any, dtype: str) -> None:
    """Any strides, byte order and flags; the bits of every value, NaN payloads and denormals included."""
    base = np.resize(SPECIAL[dtype], (8, 9))
    swapped = base.astype(base.dtype.newbyteorder())
    frozen = base.copy()
    frozen.flags.writeable = False
    for array in (
        base,
        base.T,
        base[::-1, ::2],
        base[3:3],
        swapped,
        frozen,
        np.asfortranarray(base),
        base[0, 0],
        base[:, 4],
    ):
        got = m.from_numpy(engine, array).to_numpy()
        native = np.asarray(array, base.dtype)
        assert got.tobytes() == native.tobytes()
        assert got.shape == native.shape
    copied = m.from_numpy(engine, base)
    base[...] = 0
    assert not np.array_equal(copied.to_numpy(), base)
    assert copied.to_numpy().flags.writeable


def test_from_dlpack(engine: Any) -> None:
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    for array in (base, base.T, base[::2, 1:], base[0]):
        assert same_bits(m.from_dlpack(array, device=engine).to_numpy(), array)
    with pytest.raises(oa.errors.ArgumentError, match="copy=False"):
        m.from_dlpack(base, device=engine, copy=False)


def test_parts_of_real_values(engine: Any) -> None:
    x = m.from_list(engine, [1.5, -0.0])
    assert (m.real(x).tolist(), m.conj(x).tolist(), m.imag(x).tolist()) == (
        [1.5, -0.0],
        [1.5, -0.0],
        [0.0, 0.0],
    )


def test_put(engine: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = m.put(m.from_numpy(engine, x), (slice(None), 1), 7.0)
    x[:, 1] = 7.0
    assert same_bits(got.to_numpy(), x)


def test_from_list(engine: Any) -> None:
    assert m.from_list(engine, [[1, 2], [3, 4]]).dtype is oa.int32
    assert m.from_list(engine, [1, 2.5]).tolist() == [1.0, 2.5]
    assert m.from_list(engine, [True, False]).dtype is oa.bool_
    assert m.from_list(engine, []).shape == (0,)
    assert m.from_list(engine, [], dtype="int32").dtype is oa.int32
    assert m.from_list(engine, 7).shape == ()
    assert m.from_list(engine, [1, 255], dtype="uint8").tolist() == [1, 255]
    assert m.from_f32(engine, [1, 2, 3, 4], (2, 2)).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_wider_arrays_ask_for_the_cast(engine: Any) -> None:
    wide = np.array([1.5, 2.5], np.longdouble)
    with pytest.raises(oa.errors.DTypeError, match=r"dtype=oa\.float32"):
        m.from_numpy(engine, wide)
    assert m.from_numpy(engine, wide, dtype="float32").tolist() == [1.5, 2.5]
    assert m.from_numpy(engine, np.array([1, 2]), dtype=oa.int32).tolist() == [1, 2]


def test_reading(engine: Any) -> None:
    x = m.from_numpy(engine, np.arange(6, dtype=np.float32).reshape(2, 3))
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert x.to_list() == x.read_f32() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert (float(x[0, 1]), int(x[1, 0]), bool(x[0, 0]), x[1, 2].item(), len(x)) == (1.0, 3, False, 5.0, 2)
    assert [row.tolist() for row in x] == x.tolist()
    assert list(range(m.full(engine, (), 3).__index__())) == [0, 1, 2]
    pending = x + 1.0
    assert pending.try_read() is None
    assert not pending.is_ready
    pending.to_numpy()
    assert pending.is_ready
    assert "shape=(2, 3)" in repr(x)


@pytest.mark.parametrize("shape", SHAPES + [(255,), (257,), (7, 9)])
def test_uniform_is_philox(engine: Any, shape: tuple[int, ...]) -> None:
    for seed in (0, 1, 2**32 + 5, 2**64 - 1):
        got = m.uniform(engine, shape, -2.0, 3.0, seed=seed).to_numpy()
        assert same_bits(got, oracle.uniform(seed, 0, shape, -2.0, 3.0))


@pytest.mark.parametrize("shape", SHAPES + [(255,), (7, 9)])
def test_normal_is_box_and_muller(engine: Any, shape: tuple[int, ...]) -> None:
    got = m.normal(engine, shape, seed=11).to_numpy()
    want = oracle.normal(11, 0, shape)
    assert agrees(got, want, 4, 2.0**-24).all()
    moved = m.normal(engine, shape, 5.0, 2.0, seed=11).to_numpy()
    assert agrees(moved, 5 + 2 * want, 1, 8 * ulp(want)).all()


def test_the_stream_is_taken_at_recording(device_name: str) -> None:
    with oa.Engine(device_name, seed=7) as engine:
        first, second = m.uniform(engine, (4,)), m.uniform(engine, (4,))
        late = second.to_numpy()
        early = first.to_numpy()
        assert same_bits(early, oracle.uniform(7, 0, (4,)))
        assert same_bits(late, oracle.uniform(7, 1, (4,)))
        assert engine.rng_state == (7, 2)
        m.uniform(engine, (4,), seed=3)
        assert engine.rng_state == (7, 2)
        plan = engine.capture(lambda: (m.uniform(engine, (4,)), m.uniform(engine, (4,))))
        assert engine.rng_state == (7, 2)
        for draw in (2, 4):
            engine.submit(plan)
            for number, out in enumerate(plan.outputs):
                assert same_bits(out.to_numpy(), oracle.uniform(7, draw + number, (4,)))
        engine.rng_state = (7, 0)
        assert same_bits(m.uniform(engine, (4,)).to_numpy(), early)


def test_moments(any_engine: Any) -> None:
    """100,000 draws: the mean within 5 sigma of its own spread, and so the variance."""
    count = 100_000
    flat = m.uniform(any_engine, (count,), seed=5).to_numpy().astype(np.float64)
    assert abs(flat.mean() - 0.5) < 5 * (1 / 12 / count) ** 0.5
    assert flat.min() >= 0 and flat.max() < 1
    bell = m.normal(any_engine, (count,), seed=5).to_numpy().astype(np.float64)
    assert abs(bell.mean()) < 5 * count**-0.5
    assert abs(bell.var() - 1) < 5 * (2 / count) ** 0.5
