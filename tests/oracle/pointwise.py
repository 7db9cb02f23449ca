"""Answers of the elementwise operations: NumPy in float64 and 64-bit integers, wrapped to the result's dtype by hand.

Bounds, in units in the last place of float32:
  0  add, subtract, multiply, rounding, selection: correctly rounded, hence bit by bit
  1  divide, sqrt, reciprocal: a GPU's own are within 2.5 and are corrected
  2  every other function of one argument, and what is a single function of two
Compositions state an absolute bound from the bounds of their parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Answer(NamedTuple):
    """`function` of the operands as they come; `kinds` are the NumPy kinds accepted."""

    function: Callable[..., Array]
    arity: int
    kinds: str
    ulps: float = 0.0
    absolute: Callable[..., Array] | None = None


def widened(x: Array) -> Array:
    """A float in a wider type; integers, which wrap in NumPy as they do here, as they are."""
    if x.dtype.kind != "f":
        return x
    return x.astype(np.longdouble if x.dtype.itemsize >= 8 else np.float64)


def _wide(*operands: Array) -> list[Array]:
    return [widened(x) for x in operands]


def _kept(result: Array, *operands: Array) -> Array:
    """An integer result wrapped to the operands' dtype; floats stay wide."""
    kind = operands[0].dtype
    return np.asarray(result) if kind.kind == "f" else np.asarray(result).astype(kind)


def _arithmetic(function: Callable[..., Array]) -> Callable[..., Array]:
    def answer(*operands: Array) -> Array:
        # One rounding only: NumPy's own in float64, that from float64 to anything narrower.
        exact = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in operands]
        with np.errstate(all="ignore"):
            return _kept(function(*exact), *operands)

    return answer


def _real(function: Callable[..., Any]) -> Callable[..., Array]:
    def answer(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*_wide(*operands)))

    return answer


def _rounding(function: Callable[..., Any]) -> Callable[..., Array]:
    """Integers are whole already."""

    def answer(x: Array) -> Array:
        return _real(function)(x) if x.dtype.kind == "f" else x.copy()

    return answer


def nextafter(a: Array, b: Array) -> Array:
    """NumPy's, and b where they are equal; NumPy gives a there for float16."""
    return np.where(a == b, b, np.nextafter(a, b)).astype(np.result_type(a, b))


def _raw(function: Callable[..., Any]) -> Callable[..., Array]:
    def answer(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*operands))

    return answer


def _divide(a: Array, b: Array) -> Array:
    """What is no float is rounded to float32 first."""
    x, y = (v if v.dtype.kind == "f" else v.astype(np.float32) for v in (a, b))
    return _real(np.divide)(x, y)


def _floor_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        infinite = np.isinf(a) | np.isinf(b)  # the standard's rule, not NumPy's
        return np.where(infinite, _real(np.divide)(a, b), _real(np.floor_divide)(a, b))
    x, y = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        return _kept(np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y))), a)


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return _real(np.mod)(a, b)
    x, y = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        return _kept(np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y))), a)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return _real(np.power)(a, b)
    x, y = np.broadcast_arrays(a, b)
    modulus = 1 << (8 * a.dtype.itemsize)
    out = np.empty(x.shape, object)
    for at in np.ndindex(x.shape):
        base, exponent = int(x[at]), int(y[at])
        if exponent < 0:
            out[at] = (1 if exponent % 2 == 0 else base) if base in (1, -1) else 0
        else:
            out[at] = pow(base, exponent, modulus)
        out[at] = (
            (out[at] + modulus // 2) % modulus - modulus // 2 if a.dtype.kind == "i" else out[at] % modulus
        )
    return out.astype(a.dtype)


def _extremum(pick: Callable[..., Array]) -> Callable[..., Array]:
    """NaN if either is NaN; -0 below +0."""

    def answer(a: Array, b: Array) -> Array:
        if a.dtype.kind != "f":
            return np.asarray(pick(a, b))
        x, y = np.broadcast_arrays(widened(a), widened(b))
        zeros = (x == 0) & (y == 0)
        either, both = np.signbit(x) | np.signbit(y), np.signbit(x) & np.signbit(y)
        signed = np.where(both if pick is np.maximum else either, -0.0, 0.0)
        return np.where(zeros, signed, pick(x, y))

    return answer


_maximum, _minimum = _extremum(np.maximum), _extremum(np.minimum)


def _sign(x: Array) -> Array:
    return _kept(np.sign(_wide(x)[0]), x)


def _shift(left: bool) -> Callable[..., Array]:
    def answer(a: Array, b: Array) -> Array:
        width = 8 * a.dtype.itemsize
        x, count = np.broadcast_arrays(a, b)
        inside = (count >= 0) & (count < width)
        safe = np.where(inside, count, 0).astype(a.dtype)
        if left:
            return np.where(inside, np.left_shift(x, safe), np.zeros_like(x))
        return np.where(inside, np.right_shift(x, safe), np.where(x < 0, ~np.zeros_like(x), np.zeros_like(x)))

    return answer


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _erf_safe(x: Array) -> Array:
    return np.asarray(_erf(x), np.float64).reshape(x.shape) if x.size else x


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _relu(x: Array) -> Array:
    return _kept(np.where(x <= 0, np.zeros_like(x), x), x)


def _gelu(x: Array) -> Array:
    phi = (
        np.where(
            np.isnan(x), x, np.vectorize(lambda v: math.erfc(-v * math.sqrt(0.5)) / 2, otypes=[float])(x)
        )
        if x.size
        else x
    )
    return x * phi


def _gelu_tanh(x: Array) -> Array:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _softsign(x: Array) -> Array:
    return np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x)))


def _clip(x: Array, low: Array, high: Array) -> Array:
    top = _maximum(x, low)
    return _minimum(top.astype(x.dtype), high)


def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def cast(x: Array, dtype: str) -> Array:
    """Floats to integers truncate and saturate, NaN gives 0; integers wrap; to bool: != 0; to floats: rounded to nearest."""
    target = np.dtype(dtype)
    if target.kind == "b":
        return np.asarray(x != 0)
    if target.kind == "f":
        return x.astype(np.longdouble)
    if x.dtype.kind != "f":
        return x.astype(target)
    info = np.iinfo(target)
    whole = np.trunc(np.nan_to_num(x.astype(np.longdouble), nan=0.0, posinf=np.inf, neginf=-np.inf))
    # Long double holds every 64-bit integer, so nothing is lost where the bounds are applied.
    return np.clip(whole, np.longdouble(info.min), np.longdouble(info.max)).astype(target)


def _half_gelu(x: Array) -> Array:
    """1 + erf loses what erf's 2 ulp near -1 are, about 2^-23, times |x| / 2; two more roundings."""
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(x), np.abs(x) * 2.0**-22, 0.0)


def _unit_error(a: Array, b: Array) -> Array:
    """The logarithm lies in [0, log 2], is rounded, and may cancel against the larger operand."""
    return np.full(np.broadcast_shapes(a.shape, b.shape), 2.0**-22)


def _product_tail(x: Array) -> Array:
    """Where sigmoid is denormal it may be flushed to zero: |x| times the smallest normal number."""
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(x), np.abs(x) * 2.0**-125, 0.0)


_NUMERIC, _ALL, _BITS = "iuf", "biuf", "biu"

POINTWISE: dict[str, Answer] = {
    "add": Answer(_arithmetic(np.add), 2, _NUMERIC),
    "subtract": Answer(_arithmetic(np.subtract), 2, _NUMERIC),
    "multiply": Answer(_arithmetic(np.multiply), 2, _NUMERIC),
    "divide": Answer(_divide, 2, "biuf", 1),
    "floor_divide": Answer(_floor_divide, 2, _NUMERIC, 1),
    "remainder": Answer(_remainder, 2, _NUMERIC, 2),
    "pow": Answer(_power, 2, _NUMERIC, 2),
    "negative": Answer(_arithmetic(np.negative), 1, _NUMERIC),
    "positive": Answer(_raw(np.copy), 1, _NUMERIC),
    "abs": Answer(_arithmetic(np.abs), 1, _NUMERIC),
    "sign": Answer(_sign, 1, _NUMERIC),
    "square": Answer(_arithmetic(np.square), 1, _NUMERIC),
    "maximum": Answer(_maximum, 2, _NUMERIC),
    "minimum": Answer(_minimum, 2, _NUMERIC),
    "clip": Answer(_clip, 3, _NUMERIC),
    "equal": Answer(_raw(np.equal), 2, _ALL),
    "not_equal": Answer(_raw(np.not_equal), 2, _ALL),
    "less": Answer(_raw(np.less), 2, _NUMERIC),
    "less_equal": Answer(_raw(np.less_equal), 2, _NUMERIC),
    "greater": Answer(_raw(np.greater), 2, _NUMERIC),
    "greater_equal": Answer(_raw(np.greater_equal), 2, _NUMERIC),
    "bitwise_and": Answer(_raw(np.bitwise_and), 2, _BITS),
    "bitwise_or": Answer(_raw(np.bitwise_or), 2, _BITS),
    "bitwise_xor": Answer(_raw(np.bitwise_xor), 2, _BITS),
    "bitwise_invert": Answer(_raw(np.invert), 1, _BITS),
    "bitwise_left_shift": Answer(_shift(True), 2, "iu"),
    "bitwise_right_shift": Answer(_shift(False), 2, "iu"),
    "logical_and": Answer(_raw(np.logical_and), 2, "biuf"),
    "logical_or": Answer(_raw(np.logical_or), 2, "biuf"),
    "logical_not": Answer(_raw(np.logical_not), 1, "biuf"),
    "logical_xor": Answer(_raw(np.logical_xor), 2, "biuf"),
    "signbit": Answer(_raw(np.signbit), 1, _NUMERIC),
    "isnan": Answer(_raw(np.isnan), 1, _NUMERIC),
    "isinf": Answer(_raw(np.isinf), 1, _NUMERIC),
    "isfinite": Answer(_raw(np.isfinite), 1, _NUMERIC),
    "floor": Answer(_rounding(np.floor), 1, _NUMERIC),
    "ceil": Answer(_rounding(np.ceil), 1, _NUMERIC),
    "trunc": Answer(_rounding(np.trunc), 1, _NUMERIC),
    "round": Answer(_rounding(np.rint), 1, _NUMERIC),
    "sqrt": Answer(_real(np.sqrt), 1, "f", 1),
    "rsqrt": Answer(_real(lambda x: 1 / np.sqrt(x)), 1, "f", 2),
    "reciprocal": Answer(_real(np.reciprocal), 1, "f", 1),
    "exp": Answer(_real(np.exp), 1, "f", 2),
    "exp2": Answer(_real(np.exp2), 1, "f", 2),
    "expm1": Answer(_real(np.expm1), 1, "f", 2),
    "log": Answer(_real(np.log), 1, "f", 2),
    "log2": Answer(_real(np.log2), 1, "f", 2),
    "log10": Answer(_real(np.log10), 1, "f", 2),
    "log1p": Answer(_real(np.log1p), 1, "f", 2),
    "sin": Answer(_real(np.sin), 1, "f", 2),
    "cos": Answer(_real(np.cos), 1, "f", 2),
    "tan": Answer(_real(np.tan), 1, "f", 2),
    "asin": Answer(_real(np.arcsin), 1, "f", 2),
    "acos": Answer(_real(np.arccos), 1, "f", 2),
    "atan": Answer(_real(np.arctan), 1, "f", 2),
    "sinh": Answer(_real(np.sinh), 1, "f", 2),
    "cosh": Answer(_real(np.cosh), 1, "f", 2),
    "tanh": Answer(_real(np.tanh), 1, "f", 2),
    "asinh": Answer(_real(np.arcsinh), 1, "f", 2),
    "acosh": Answer(_real(np.arccosh), 1, "f", 2),
    "atanh": Answer(_real(np.arctanh), 1, "f", 2),
    "erf": Answer(_real(_erf_safe), 1, "f", 2),
    "sigmoid": Answer(_real(_sigmoid), 1, "f", 2),
    "atan2": Answer(_real(np.arctan2), 2, "f", 2),
    "hypot": Answer(_real(np.hypot), 2, "f", 2),
    "copysign": Answer(_real(np.copysign), 2, "f"),
    "nextafter": Answer(_raw(nextafter), 2, "f"),
    "logaddexp": Answer(_real(np.logaddexp), 2, "f", 4, _unit_error),
    "relu": Answer(_relu, 1, "if"),
    "gelu": Answer(_real(_gelu), 1, "f", 4, _half_gelu),
    "gelu_tanh": Answer(_real(_gelu_tanh), 1, "f", 4, _half_gelu),
    "softsign": Answer(_real(_softsign), 1, "f", 2),
    "silu": Answer(_real(_silu), 1, "f", 3, _product_tail),
    "copy": Answer(_raw(np.copy), 1, _ALL),
}

#: The ternary selection has a bool operand of its own and is tested by hand.
where = Answer(_raw(_where), 3, _ALL)
