"""Seeded operands: random values of many magnitudes, and the special values of each dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

DTYPES = ("float32", "int32", "uint32", "uint8", "bool")
#: The widths of which the generated test matrices leave most to one test module.
WIDTHS = ("int8", "int16", "int64", "uint16", "uint64", "float16", "float64")

_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, -3.5, np.inf, -np.inf, np.nan, 3.4028235e38, -3.4028235e38,
    1.1754944e-38, -1.1754944e-38, 1e-45, -1e-40, 8388608.0, 8388607.5, -8388609.0, 16777216.0, 2147483648.0, -2147483648.0,
    4294967296.0, 255.0, 256.0, 88.72283, 89.0, -87.33655, -104.0, 1e-8, -1e-8, 1.5707964, 3.1415927, 1e10, 0.99999994,
    1.0000001, -0.99999994, 10.0, 100.0,
]  # fmt: skip

#: The special values of each dtype: zeros, ones, ties, ends of the range and beyond.
SPECIAL: dict[str, Array] = {
    "float32": np.array(_FLOATS, np.float32),
    "int32": np.array(
        [
            0,
            1,
            -1,
            2,
            -2,
            3,
            7,
            -7,
            31,
            32,
            33,
            255,
            256,
            65535,
            65536,
            16777217,
            2**31 - 1,
            -(2**31),
            -(2**31) + 1,
        ],
        np.int32,
    ),
    "uint32": np.array(
        [0, 1, 2, 3, 7, 31, 32, 33, 255, 256, 65535, 65536, 16777217, 2**31, 2**32 - 1, 2**32 - 2], np.uint32
    ),
    "uint8": np.array([0, 1, 2, 3, 7, 8, 9, 31, 127, 128, 254, 255], np.uint8),
    "bool": np.array([False, True], np.bool_),
}


def _integers(dtype: str) -> Array:
    """Both ends of the range, widths as counts of shifts, and small numbers of both signs."""
    info, bits = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    found = [
        0,
        1,
        2,
        3,
        7,
        bits - 1,
        bits,
        bits + 1,
        100,
        info.max,
        info.max - 1,
        info.max // 2 + 1,
        info.min,
        info.min + 1,
    ]
    return np.array(found + ([-1, -2, -7] if info.min < 0 else []), dtype)


_FEW = [0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 7.0, 10.0, 100.0, np.inf, np.nan]
_HALF = [65504.0, 65472.0, 2.0**-14, 2.0**-24, 3e-7, 2048.0, 2047.0, 1023.5, 0.9995, 1.001, 32768.0, 255.0]
_DOUBLE = [
    1.7976931348623157e308, 2.0**-1022, 5e-324, 1e-310, 2.0**52, 2.0**52 + 0.5, 2.0**53, 2.0**63, 2.0**64, 3e38, 4e38, 1e-45,
    2147483648.0, 4294967296.5, 1 - 2.0**-53, 1 + 2.0**-52, 1e300, 65504.0, 65520.0,
]  # fmt: skip
SPECIAL.update({name: _integers(name) for name in WIDTHS if np.dtype(name).kind in "iu"})
SPECIAL["float16"] = np.array([s * v for v in _FEW + _HALF for s in (1.0, -1.0)], np.float16)
SPECIAL["float64"] = np.array([s * v for v in _FEW + _DOUBLE for s in (1.0, -1.0)], np.float64)


def values(dtype: str, shape: tuple[int, ...], rng: np.random.Generator, *, special: bool = False) -> Array:
    """Random values of `dtype`; with `special` about a quarter are special ones."""
    count = int(np.prod(shape, dtype=np.int64))
    made: Array
    if np.dtype(dtype).kind == "f":
        scale = np.exp2(rng.integers(-8, 8, count))
        made = (rng.standard_normal(count) * scale).astype(dtype)
    elif dtype == "bool":
        made = rng.integers(0, 2, count).astype(np.bool_)
    else:
        info = np.iinfo(dtype)
        kind = np.uint64 if dtype == "uint64" else np.int64
        wide = rng.integers(info.min, info.max, count, dtype=kind, endpoint=True)
        small = rng.integers(max(info.min, -20), 21, count)
        made = np.where(rng.random(count) < 0.5, small, wide).astype(dtype)
    if special and count:
        table = SPECIAL[dtype]
        chosen = rng.random(count) < 0.25
        made = np.where(chosen, table[rng.integers(0, len(table), count)], made).astype(dtype)
    return made.reshape(shape)


def gentle(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Float32 values near 1 in size, for sums, products of matrices and gradients."""
    return rng.standard_normal(shape).astype(np.float32)
