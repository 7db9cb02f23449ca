"""Comparing device results with wider answers: units in the last place, signed zeros, NaN, and what flushing allows.

A device may treat float32 denormals as zeros of the same sign, as operands and as results; nothing else may differ from the
answer by more than the stated bound. Answers are float64, for float64 results the machine's long double.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TINY = 2.0**-126
#: The exponent of the smallest normal number, by dtype.
_LOWEST = {"float16": -14, "float32": -126, "float64": -1022}
_FRACTION = {"float16": 10, "float32": 23, "float64": 52}


def flushed(x: Array) -> Array:
    """x with float32 denormals as zeros of the same sign; other dtypes unchanged."""
    if x.dtype != np.float32:
        return x
    return np.where(np.abs(x) < TINY, np.copysign(x.dtype.type(0), x), x).astype(x.dtype)


def ulp(x: Array, dtype: str = "float32") -> Array:
    """The distance of neighbouring values of `dtype` at |x|, at least that of the smallest normal numbers."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        size = np.nan_to_num(np.abs(np.asarray(x)), nan=0.0, posinf=float(info.max))
        wide = size.astype(np.longdouble if dtype == "float64" else np.float64)
        _, exponent = np.frexp(np.minimum(wide, info.max))
    return np.ldexp(1.0, np.maximum(exponent - 1, _LOWEST[dtype]) - _FRACTION[dtype])


def agrees(got: Array, want: Array, ulps: float = 0.0, absolute: float | Array = 0.0) -> Array:
    """Per element: is `got` within the bound of the wider `want`? Without a bound the bits must be the rounded ones."""
    dtype = got.dtype.name
    largest = float(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        wide = np.longdouble if dtype == "float64" else np.float64
        want = np.asarray(want).astype(wide)
        rounded = want.astype(got.dtype)
        signs = np.signbit(got) == np.signbit(rounded)
        good = ((got == rounded) & signs) | (np.isnan(got) & np.isnan(want))
        if dtype == "float32":
            # A device may find a result tiny before it rounds it, up to the least normal number.
            good |= (np.abs(want) < TINY) & (got == 0) & signs
        bound = ulps * ulp(want, dtype) + np.asarray(absolute, np.float64)
        if np.any(bound > 0):
            near = np.abs(got.astype(wide) - want) <= bound
            # Overflow: an answer within the bound of the largest number may become inf, and the other way round.
            over = (
                (np.abs(want) + bound > largest) & (np.abs(got) >= largest) & (np.sign(got) == np.sign(want))
            )
            good |= ((near & np.isfinite(want)) | over) & ~np.isnan(want) & ~np.isnan(got)
    return np.asarray(good)


def expect(
    got: Array,
    answer: Callable[..., Array],
    operands: Sequence[Array],
    ulps: float = 0.0,
    absolute: Callable[..., Array] | None = None,
    what: str = "",
) -> None:
    """Assert that `got` is `answer(*operands)`, with operands as they are or flushed."""
    want = answer(*operands)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    if got.dtype.kind != "f":
        good = got == want
        if not good.all():
            good |= got == answer(*map(flushed, operands))
    else:
        good = agrees(got, want, ulps, absolute(*operands) if absolute else 0.0)
        if not good.all():
            low = [flushed(x) for x in operands]
            want_low, bound = answer(*low), absolute(*low) if absolute else 0.0
            # A comparison that flushes may choose a denormal for a zero: the result then counts as that zero.
            good |= agrees(got, want_low, ulps, bound) | agrees(flushed(got), want_low, ulps, bound)
    if not good.all():
        raise AssertionError(_report(got, want, good, operands, what))


def _report(got: Array, want: Array, good: Array, operands: Sequence[Array], what: str) -> str:
    bad = np.argwhere(~np.atleast_1d(good))
    lines = [f"{what}: {len(bad)} of {good.size} elements are wrong"]
    spread = [np.broadcast_to(x, got.shape) if _fits(x, got.shape) else None for x in operands]
    for index in map(tuple, bad[:6]):
        at = index if good.ndim else ()
        given = ", ".join(repr(x[at]) for x in spread if x is not None)
        lines.append(f"  {at}: got {got[at]!r}, wanted {want[at]!r} of ({given})")
    return "\n".join(lines)


def _fits(x: Array, shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        return False


def same_bits(a: Array, b: Array) -> bool:
    """Equal shape, dtype and bits; a NaN equals any NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    left, right = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    bits = f"u{a.dtype.itemsize}"
    equal = left.view(bits) == right.view(bits)
    return bool(np.all(equal | (np.isnan(left) & np.isnan(right))))
