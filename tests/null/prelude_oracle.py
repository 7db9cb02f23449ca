"""Float64 answers to the prelude's functions, the arguments that they are asked for, and errors in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TINY = 2.0**-126


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(function, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1.0) / (1.0 + power)


UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sigmoid": _sigmoid, "tanh": np.tanh, "sinh": np.sinh,
    "cosh": np.cosh, "erf": _each(math.erf), "erfc": _each(math.erfc), "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}

#: Where each function is neither trivial nor saturated.
RANGES: dict[str, tuple[float, float]] = {
    "exp": (-88, 89), "exp2": (-127, 128), "expm1": (-18, 89), "sigmoid": (-88, 20), "tanh": (-9.5, 9.5),
    "sinh": (-90, 90), "cosh": (-90, 90), "erf": (-4, 4), "erfc": (-4, 9.4), "log": (0, 8), "log2": (0, 8),
    "log10": (0, 8), "log1p": (-1, 8), "asinh": (-8, 8), "acosh": (1, 8), "atanh": (-1, 1), "sin": (-210, 210),
    "cos": (-210, 210), "tan": (-210, 210), "asin": (-1, 1), "acos": (-1, 1), "atan": (-20, 20),
}  # fmt: skip

SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        np.inf,
        -np.inf,
        np.nan,
        -np.nan,
        3.4028235e38,
        -3.4028235e38,
    ]
    + [
        1.17549435e-38,
        -1.17549435e-38,
        1e-40,
        -1e-40,
        1e-45,
        -1e-45,
        88.72283,
        88.722839,
        88.8,
        -87.33654,
        -87.4,
    ]
    + [
        -104.0,
        89.41598,
        89.416,
        -126.0,
        -126.5,
        127.9999,
        128.0,
        0.99999994,
        1.0000001,
        -0.99999994,
        9.0,
        17.5,
    ]
    + [math.pi, math.pi / 2, math.pi / 4, 1e10, 2.0**31, 1e22, 1.1752, 0.95, 0.55, 0.6, 200.0, 3.95, 9.375],
    np.float32,
)


def arguments(name: str, count: int, seed: int) -> Array:
    """`count` arguments: of all bit patterns, of all exponents, uniform where the function lives; and the special ones."""
    rng = np.random.default_rng([seed, *name.encode()])
    part = count // 4
    patterns = rng.integers(0, 1 << 32, part, dtype=np.uint32).view(np.float32)
    exponents = (np.arange(part, dtype=np.uint32) % 512 << 23 | rng.integers(0, 1 << 23, part)).astype(
        np.uint32
    )
    low, high = RANGES.get(name, (-10, 10))
    lively = rng.uniform(low, high, count - 2 * part).astype(np.float32)
    parts = [patterns, exponents.view(np.float32), lively, SPECIAL]
    if name in ("sin", "cos", "tan"):  # where the answer or its reciprocal is nearly zero
        parts.append((rng.integers(1, 1 << 45, part) * (math.pi / 2)).astype(np.float32))
        parts.append((np.arange(1, 1 << 12) * (math.pi / 2)).astype(np.float32))
    return np.concatenate(parts)


def pow_arguments(count: int, seed: int) -> tuple[Array, Array]:
    """Bases and exponents whose powers are mostly in range, and all pairs of special values."""
    rng = np.random.default_rng(seed)
    half = count // 2
    wide = np.exp2(rng.uniform(-125, 127, half))
    base = np.concatenate([wide, rng.uniform(0.3, 3, count - half)]).astype(np.float32)
    log = np.log2(base.astype(np.float64))
    exponent = (rng.uniform(-125, 127, count) / np.where(log == 0, 1, log)).astype(np.float32)
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    whole = np.arange(-20, 21, dtype=np.float32)
    c, d = np.meshgrid(np.concatenate([-whole - 0.5, whole]), whole)
    return np.concatenate([base, a.ravel(), c.ravel()]), np.concatenate([exponent, b.ravel(), d.ravel()])


def flushed(x: Array) -> Array:
    """Denormals as zeros of the same sign."""
    return np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x).astype(np.float32)


def errors(got: Array, want: Array) -> Array:
    """|got - want| in units in the last place of `want`; infinite where NaN, infinity or the sign of zero is wrong.

    Answers below 2^-126 may be zeros of the same sign, and are held to 32 units otherwise.
    """
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        size = np.abs(want)
        unit = np.exp2(np.floor(np.log2(np.clip(np.where(np.isfinite(size), size, 1), TINY, 3.4e38))) - 23)
        error = np.abs(got.astype(np.float64) - want) / unit
        error[np.isnan(error)] = np.inf
        error[(got == rounded) | (np.isnan(got) & np.isnan(want))] = 0
        small = (size < TINY) & ((got == 0) | (np.abs(got - want) <= 32 * unit))
        error[small] = 0
        finite = np.isfinite(rounded)
        wrong_zero = finite & (rounded == 0) & ((np.abs(got) >= TINY) | (np.signbit(got) != np.signbit(want)))
        error[wrong_zero] = np.inf
    return np.asarray(error)


def worst(got: Array, answer: Callable[..., Array], *arguments: Array) -> tuple[float, str]:
    """The largest error over all elements, denormal arguments as they are or flushed, and where it is."""
    with np.errstate(all="ignore"):
        error = errors(got, answer(*(a.astype(np.float64) for a in arguments)))
        if any((np.abs(a) < TINY).any() for a in arguments):
            other = errors(got, answer(*(flushed(a).astype(np.float64) for a in arguments)))
            error = np.minimum(error, other)
    place = int(np.argmax(error))
    where = ", ".join(repr(float(a[place])) for a in arguments)
    return float(error[place]), f"{float(error[place]):.3f} ulp at ({where}): got {float(got[place])!r}"
