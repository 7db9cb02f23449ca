"""Answers of the elementwise operations on complex numbers: NumPy in twice the width, composed by hand where NumPy cancels.

Bounds are in units u |z| of the whole result (u = 2^-24 or 2^-53): 0 is bit by bit. Sums round each part once. A product is
within sqrt(5) u (Brent, Percival and Zimmermann 2007), a quotient and all functions are within 8 u.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
DTYPES = ("complex64", "complex128")
PART = {"complex64": "float32", "complex128": "float64"}
UNIT = {"complex64": 2.0**-24, "complex128": 2.0**-53, "float32": 2.0**-24, "float64": 2.0**-53}


class Answer(NamedTuple):
    """`function` of wide operands; `units` bounds the error, or gives the bound of each element."""

    function: Callable[..., Array]
    arity: int = 1
    units: float | Callable[..., Array] = 8.0


def join(real: Any, imag: Any) -> Array:
    """A complex array with these parts, without arithmetic that would mix infinities."""
    real, imag = np.broadcast_arrays(real, imag)
    made = np.empty(real.shape, np.clongdouble if real.dtype == np.longdouble else np.complex128)
    made.real, made.imag = real, imag
    return made


def wide(x: Array) -> Array:
    """complex64 in complex128, complex128 in the machine's long double."""
    return x.astype(np.complex128 if x.dtype == np.complex64 else np.clongdouble)


def _log1p(z: Array) -> Array:
    x, y = z.real, z.imag
    near = np.abs(z) < 0.5
    size = np.where(near, 0.5 * np.log1p(2 * x + x * x + y * y), np.log(np.hypot(1 + x, y)))
    return join(size, np.arctan2(y, 1 + x))


def _log(z: Array) -> Array:
    m, n = np.maximum(abs(z.real), abs(z.imag)), np.minimum(abs(z.real), abs(z.imag))
    near = (m > 0.5) & (m < 2)
    close = 0.5 * np.log1p((m - 1) * (m + 1) + n * n)
    return join(np.where(near, close, np.log(np.hypot(m, n))), np.angle(z))


def _expm1(z: Array) -> Array:
    x, y = z.real, z.imag
    return join(np.expm1(x) * np.cos(y) - 2 * np.sin(y / 2) ** 2, np.exp(x) * np.sin(y))


def _atanh(z: Array) -> Array:
    x, y = z.real, z.imag
    with np.errstate(divide="ignore"):
        re = np.log1p(4 * np.abs(x) / ((1 - np.abs(x)) ** 2 + y * y)) / 4
    return join(np.copysign(re, x), np.arctan2(2 * y, (1 - x) * (1 + x) - y * y) / 2)


def _atan(z: Array) -> Array:
    found = _atanh(join(-z.imag, z.real))
    return join(found.imag, -found.real)


def _sign(z: Array) -> Array:
    size = np.hypot(z.real, z.imag)
    with np.errstate(all="ignore"):
        return np.where(size == 0, 0, z / np.where(size == 0, 1, size))


def _pow_units(a: Array, b: Array) -> Array:
    """The angle im(b) log |a| + re(b) arg a and the exponent of the size are each rounded."""
    with np.errstate(all="ignore"):
        return 16.0 + 4 * np.abs(b) * (np.abs(np.log(np.abs(a))) + np.abs(np.angle(a)))


def _scaled_log(base: float) -> Callable[[Array], Array]:
    return lambda z: _log(z) / np.log(z.real.dtype.type(base))


COMPLEX: dict[str, Answer] = {
    "add": Answer(np.add, 2, 0),
    "subtract": Answer(np.subtract, 2, 0),
    "multiply": Answer(np.multiply, 2, 2.3),
    "divide": Answer(np.divide, 2, 8),
    "pow": Answer(np.power, 2, _pow_units),
    "negative": Answer(np.negative, 1, 0),
    "positive": Answer(np.positive, 1, 0),
    "copy": Answer(np.copy, 1, 0),
    "conj": Answer(np.conj, 1, 0),
    "real": Answer(np.real, 1, 0),
    "imag": Answer(np.imag, 1, 0),
    "round": Answer(lambda z: join(np.rint(z.real), np.rint(z.imag)), 1, 0),
    "abs": Answer(lambda z: np.hypot(z.real, z.imag), 1, 4),
    "angle": Answer(lambda z: np.arctan2(z.imag, z.real), 1, 4),
    "sign": Answer(_sign, 1, 4),
    "square": Answer(np.square, 1, 4),
    "sqrt": Answer(np.sqrt),
    "rsqrt": Answer(lambda z: 1 / np.sqrt(z)),
    "reciprocal": Answer(lambda z: 1 / z),
    "exp": Answer(np.exp),
    "exp2": Answer(lambda z: np.exp(z * np.log(z.real.dtype.type(2))), 1, lambda z: 8 + np.abs(z.imag)),
    "expm1": Answer(_expm1),
    "log": Answer(_log),
    "log2": Answer(_scaled_log(2)),
    "log10": Answer(_scaled_log(10)),
    "log1p": Answer(_log1p),
    "sin": Answer(np.sin),
    "cos": Answer(np.cos),
    "tan": Answer(np.tan),
    "asin": Answer(np.arcsin),
    "acos": Answer(np.arccos),
    "atan": Answer(_atan),
    "sinh": Answer(np.sinh),
    "cosh": Answer(np.cosh),
    "tanh": Answer(np.tanh),
    "asinh": Answer(np.arcsinh),
    "acosh": Answer(np.arccosh),
    "atanh": Answer(_atanh),
    "equal": Answer(np.equal, 2, 0),
    "not_equal": Answer(np.not_equal, 2, 0),
    "logical_and": Answer(np.logical_and, 2, 0),
    "logical_or": Answer(np.logical_or, 2, 0),
    "logical_xor": Answer(np.logical_xor, 2, 0),
    "logical_not": Answer(np.logical_not, 1, 0),
    "isnan": Answer(np.isnan, 1, 0),
    "isinf": Answer(np.isinf, 1, 0),
    "isfinite": Answer(np.isfinite, 1, 0),
}

_PARTS = [0.0, -0.0, 1.0, -1.5, 1e-3, 40.0, np.inf, -np.inf, np.nan]
#: Every pair of some parts.
SPECIAL: dict[str, Array] = {
    d: join(*np.meshgrid(np.array(_PARTS), np.array(_PARTS))).reshape(-1).astype(d) for d in DTYPES
}


def values(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random numbers of sizes around 1, in every direction, near the axes, and near 1 in size."""
    count = int(np.prod(shape))
    angle = rng.choice([0.0, 1e-3, 1.0], count) * rng.uniform(-np.pi, np.pi, count)
    angle += rng.choice([0.0, np.pi / 2, np.pi], count)
    size = np.exp2(rng.uniform(-6, 4, count))
    size = np.where(rng.random(count) < 0.2, 1 + rng.normal(size=count) * 1e-4, size)
    return (size * np.exp(1j * angle)).astype(dtype).reshape(shape)


def check(name: str, got: Array, operands: Sequence[Array]) -> None:
    """Assert that finite answers are met within the bound. What is infinite or NaN is the matter of tables."""
    answer = COMPLEX[name]
    with np.errstate(all="ignore"):
        want = np.asarray(answer.function(*map(wide, operands)))
        units = answer.units(*map(wide, operands)) if callable(answer.units) else answer.units
    assert got.shape == want.shape, (name, got.shape, want.shape)
    if got.dtype.kind == "b":
        assert np.array_equal(got, want), name
        return
    if isinstance(units, (int, float)) and units == 0:
        assert np.array_equal(got, want.astype(got.dtype), equal_nan=True), name
        return
    largest, tiny = (float(v) for v in (np.finfo(got.dtype).max, np.finfo(got.dtype).tiny))
    usual = np.isfinite(want) & (np.abs(want) < largest / 2)
    bound = units * UNIT[got.dtype.name] * np.abs(want) + 4 * tiny
    with np.errstate(all="ignore"):
        bad = usual & ~(np.abs(got - want) <= bound)
    if bad.any():
        at = tuple(np.argwhere(np.atleast_1d(bad))[0])
        given = [np.broadcast_to(x, got.shape)[at if got.ndim else ()] for x in operands]
        raise AssertionError(
            f"{name}{given}: got {got[at]!r}, wanted {want[at]!r}; {bad.sum()} of {bad.size} wrong"
        )
