"""Integer, bool and random scalar operations on a device: every pair of uint8, every pair of edge values otherwise."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from oa._schema.dtype import bool_, int32, uint8, uint32
from tests.device.prelude_rig import Machine, machine
from tests.device.vk_rig import CONFIGURATIONS
from tests.null.test_emit_scalar import BINARY, INTEGER, grids

DTYPES = {"uint8": uint8, "int32": int32, "uint32": uint32}


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids="-".join)
def device(request: pytest.FixtureRequest, device_name: str) -> Iterator[Machine]:
    with machine(*request.param, device_name) as opened:
        yield opened


def wrapped(values: list[int], dtype: str) -> np.ndarray[Any, Any]:
    """Python integers modulo 2^width."""
    bits = np.dtype(dtype).itemsize * 8
    return np.array([v & ((1 << bits) - 1) for v in values], np.uint64).astype(f"u{bits // 8}").view(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", INTEGER)
def test_arithmetic(device: Machine, name: str, dtype: str) -> None:
    a, b = grids(DTYPES[dtype])
    arrays = (a, b) if name in BINARY else (a,)
    want = [INTEGER[name](*(int(v) for v in row)) for row in zip(*arrays, strict=True)]
    assert np.array_equal(device.op(name, dtype, *arrays), wrapped(want, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["shl", "shr"])
def test_shifts(device: Machine, name: str, dtype: str) -> None:
    a, counts = grids(DTYPES[dtype])
    width = 8 * np.dtype(dtype).itemsize
    clamped = [width if n < 0 else min(n, width) for n in counts.tolist()]
    shift = operator.lshift if name == "shl" else operator.rshift
    want = [shift(x, n) for x, n in zip(a.tolist(), clamped, strict=True)]
    assert np.array_equal(device.op(name, dtype, a, counts), wrapped(want, dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint32", "bool"])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(device: Machine, name: str, dtype: str) -> None:
    a, b = grids(DTYPES.get(dtype, bool_))
    assert np.array_equal(device.op(name, "bool", a, b), getattr(operator, name)(a, b))


@pytest.mark.parametrize("name", ["band", "bor", "bxor", "min", "max"])
def test_bool(device: Machine, name: str) -> None:
    a, b = grids(bool_)
    want = {"band": a & b, "bor": a | b, "bxor": a ^ b, "min": a & b, "max": a | b}[name]
    assert np.array_equal(device.op(name, "bool", a, b), want)


@pytest.mark.parametrize("source", ["bool", "uint8", "int32", "uint32"])
@pytest.mark.parametrize("target", ["bool", "uint8", "int32", "uint32", "float32"])
def test_casts(device: Machine, source: str, target: str) -> None:
    values = grids(DTYPES.get(source, bool_))[0]
    assert np.array_equal(device.op("cast", target, values), values.astype(target))


def test_high_word(device: Machine) -> None:
    a, b = grids(uint32)
    want = (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)
    assert np.array_equal(device.op("umulhi", "uint32", a, b), want)


def _philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 in Python integers, from the paper."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            (second >> 32) ^ c1 ^ k0, second & 0xFFFFFFFF, (first >> 32) ^ c3 ^ k1, first & 0xFFFFFFFF,
        )  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def test_philox(device: Machine) -> None:
    """The published test vector of a zero counter and key, and the layout of elements and draws."""
    assert _philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    index = np.concatenate([np.arange(64), [2**32 - 1, 2**31, 12345]]).astype(np.uint32)
    low, high, draw = (np.full(index.size, v, np.uint32) for v in (0xDEADBEEF, 7, 42))
    want = [_philox([i // 4, 42, 0, 0], [0xDEADBEEF, 7])[i % 4] for i in index.tolist()]
    assert device.op("philox", "uint32", low, high, draw, index).tolist() == want
    zero = np.zeros(4, np.uint32)
    first = device.op("philox", "uint32", zero, zero, zero, np.arange(4, dtype=np.uint32))
    assert first.tolist() == _philox([0] * 4, [0] * 2)
