"""Answers of all public matrix operations, in float64 NumPy, written from their documentation and not from their code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.pointwise import POINTWISE, Answer, Array, cast, where

Axis = Any

__all__ = ["POINTWISE", "REDUCTIONS", "Answer", "cast", "where"]


def _axes(axis: Axis, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(a % rank if rank else 0 for a in (axis if isinstance(axis, tuple) else (axis,)))


def sum_of(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """Integers wrap; bool and signed ones below 32 bits count as int32, unsigned ones as uint32; floats in float64."""
    wide = x.astype(np.float64 if x.dtype.kind == "f" else _summed(x.dtype.name))
    with np.errstate(all="ignore"):
        return np.asarray(np.sum(wide, axis=axis, keepdims=keepdims, dtype=wide.dtype))


def _summed(dtype: str) -> str:
    small = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
    return small.get(dtype, dtype)


def prod_of(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """As `sum_of`."""
    if x.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.asarray(np.prod(x.astype(np.float64), axis=axis, keepdims=keepdims))
    wide = x.astype(_summed(x.dtype.name))
    return np.asarray(np.prod(wide, axis=axis, keepdims=keepdims, dtype=wide.dtype))


def mean_of(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """NaN over no elements."""
    count = np.prod([x.shape[a] for a in _axes(axis, x.ndim)], dtype=np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(sum_of(x, axis, keepdims) / count)


def var_of(x: Array, axis: Axis = None, keepdims: bool = False, correction: float = 0.0) -> Array:
    """sum((x - mean)^2) / max(n - correction, 0)."""
    wide = x.astype(np.float64)
    count = np.prod([x.shape[a] for a in _axes(axis, x.ndim)], dtype=np.float64)
    with np.errstate(all="ignore"):
        centred = np.square(wide - mean_of(wide, axis, True))
        return np.asarray(np.sum(centred, axis=axis, keepdims=keepdims) / max(count - correction, 0.0))


def std_of(x: Array, axis: Axis = None, keepdims: bool = False, correction: float = 0.0) -> Array:
    """The square root of `var_of`."""
    return np.sqrt(var_of(x, axis, keepdims, correction))


def _arg(pick: Callable[..., Any]) -> Callable[..., Array]:
    def answer(x: Array, axis: int | None = None, keepdims: bool = False) -> Array:
        return np.asarray(pick(x, axis=axis, keepdims=keepdims)).astype(np.int32)

    return answer


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    def answer(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        with np.errstate(all="ignore"):
            found = np.asarray(function(x, axis=axis, keepdims=keepdims))
        return found.astype(np.float64) if found.dtype.kind == "f" else found

    return answer


#: name -> (answer, kinds accepted, several axes at once)
REDUCTIONS: dict[str, tuple[Callable[..., Array], str, bool]] = {
    "sum": (sum_of, "biuf", True),
    "prod": (prod_of, "biuf", True),
    "mean": (mean_of, "f", True),
    "var": (var_of, "f", True),
    "std": (std_of, "f", True),
    "max": (_plain(np.max), "iuf", True),
    "min": (_plain(np.min), "iuf", True),
    "argmax": (_arg(np.argmax), "iuf", False),
    "argmin": (_arg(np.argmin), "iuf", False),
    "all": (_plain(np.all), "biuf", True),
    "any": (_plain(np.any), "biuf", True),
}


def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x - max) / sum(exp(x - max))."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        grown = np.exp(wide - np.max(wide, axis=axis, keepdims=True)) if wide.shape[axis] else wide
        return np.asarray(grown / np.sum(grown, axis=axis, keepdims=True))


def logsumexp(x: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """log(sum(exp(x))); -inf over nothing or over -inf alone, inf where an inf takes part."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        top = np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
        finite = np.where(np.isfinite(top), top, 0.0)
        total = np.log(np.sum(np.exp(wide - finite), axis=axis, keepdims=True)) + finite
    return np.asarray(total if keepdims else np.squeeze(total, axis))


def log_softmax(x: Array, axis: int = -1) -> Array:
    """x - max - logsumexp(x - max): x itself may be too large for float64 to keep the difference."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = wide - np.max(wide, axis=axis, keepdims=True) if wide.shape[axis] else wide
        return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)))


def matmul(a: Array, b: Array) -> Array:
    """The product in float64."""
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)))


def mat_mul_nt(a: Array, b: Array) -> Array:
    """a b^T over the last two axes."""
    return matmul(a, np.swapaxes(b, -1, -2))


def matmul_bound(a: Array, b: Array) -> Array:
    """(k + 1) 2^-24 |a| |b|: a dot product of k terms, each addition rounded once, whatever their order; one for luck of FMA."""
    depth = a.shape[-1]
    return (depth + 1) * 2.0**-24 * matmul(np.abs(a), np.abs(b))


def sum_bound(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """2 log2(n) 2^-24 sum|x| for n >= 2 values, the documented bound; half an ulp of the result is added by the caller."""
    count = int(np.prod([x.shape[a] for a in _axes(axis, x.ndim)], dtype=np.int64))
    with np.errstate(all="ignore"):
        size = np.sum(np.abs(x.astype(np.float64)), axis=axis, keepdims=keepdims)
    return np.asarray(2 * np.log2(max(count, 2)) * 2.0**-24 * np.nan_to_num(size, nan=0.0, posinf=0.0))


def take(x: Array, indices: Array, axis: int = 0) -> Array:
    """NumPy's take; outside the axis NaN for floats and 0 for others."""
    return _looked_up(x, indices, axis, along=False)


def gather(x: Array, indices: Array, axis: int = -1) -> Array:
    """NumPy's take_along_axis; outside the axis as `take`."""
    return _looked_up(x, indices, axis, along=True)


def _looked_up(x: Array, indices: Array, axis: int, along: bool) -> Array:
    axis %= x.ndim
    extent = x.shape[axis]
    index = indices.astype(np.int32).astype(np.int64)
    index = np.where(index < 0, index + extent, index)
    inside = (index >= 0) & (index < extent)
    missing = np.nan if x.dtype.kind == "f" else 0
    shape = indices.shape if along else (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if extent == 0:
        return np.full(shape, missing, x.dtype)
    safe = np.where(inside, index, 0)
    if along:
        return np.where(inside, np.take_along_axis(x, safe, axis), missing).astype(x.dtype)
    spread = inside.reshape((1,) * axis + inside.shape + (1,) * (x.ndim - axis - 1))
    return np.where(spread, np.take(x, safe, axis), missing).astype(x.dtype)


def one_hot(indices: Array, count: int) -> Array:
    """1 where the new last axis equals the index."""
    return (indices[..., None].astype(np.int64) == np.arange(count)).astype(np.float32)


_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
_WORD = np.uint64(0xFFFFFFFF)


def philox(seed: int, draw: int, count: int) -> Array:
    """Words 0 .. count-1 of Philox4x32-10: counter (element / 4, draw, 0, 0), key (seed low, seed high), lane element % 4.

    Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
    """
    groups = -(-max(count, 1) // 4)
    c = [np.arange(groups, dtype=np.uint64), np.full(groups, draw & 0xFFFFFFFF, np.uint64)]
    c += [np.zeros(groups, np.uint64), np.zeros(groups, np.uint64)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(_M0), c[2] * np.uint64(_M1)
        high0, low0, high1, low1 = p0 >> np.uint64(32), p0 & _WORD, p1 >> np.uint64(32), p1 & _WORD
        c = [high1 ^ c[1] ^ np.uint64(k0), low1, high0 ^ c[3] ^ np.uint64(k1), low0]
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack(c, axis=1).reshape(-1)[:count].astype(np.uint32)


def uniform(seed: int, draw: int, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Array:
    """24 bits of each word as a fraction, scaled in float32 arithmetic: equal bit by bit."""
    count = int(np.prod(shape, dtype=np.int64))
    unit = (philox(seed, draw, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    a, b = np.float32(low), np.float32(high)
    return (a + (b - a) * unit).astype(np.float32).reshape(shape)


def normal(seed: int, draw: int, shape: tuple[int, ...]) -> Array:
    """Box and Muller on pairs of words: the even element has the cosine, the odd one the sine."""
    count = int(np.prod(shape, dtype=np.int64))
    even = count + count % 2
    unit = (philox(seed, draw, even) >> np.uint32(8)).astype(np.float64) * 2.0**-24
    radius = np.sqrt(-2 * np.log(1 - unit[0::2]))
    # The angle is rounded to float32 before sine and cosine, as the definition has it.
    angle = (unit[1::2].astype(np.float32) * np.float32(2 * np.pi)).astype(np.float64)
    made = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return np.asarray(made.reshape(-1)[:count].reshape(shape))
