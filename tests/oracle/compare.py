"""Comparing device results with float64 answers: units in the last place, signed zeros, NaN, and what flushing allows.

A device may treat float32 denormals as zeros of the same sign, as operands and as results; nothing else may differ from the
answer by more than the stated bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TINY = 2.0**-126
LARGEST = float(np.finfo(np.float32).max)


def flushed(x: Array) -> Array:
    """x with float32 denormals as zeros of the same sign; other dtypes unchanged."""
    if x.dtype.kind != "f":
        return x
    return np.where(np.abs(x) < TINY, np.copysign(x.dtype.type(0), x), x).astype(x.dtype)


def ulp(x: Array) -> Array:
    """The distance of neighbouring float32 values at |x|, at least that of the smallest normal numbers."""
    with np.errstate(all="ignore"):
        safe = np.clip(
            np.nan_to_num(np.abs(np.asarray(x, np.float64)), nan=0.0, posinf=LARGEST), TINY, LARGEST
        )
    return np.exp2(np.floor(np.log2(safe)) - 23)


def agrees(got: Array, want: Array, ulps: float = 0.0, absolute: float | Array = 0.0) -> Array:
    """Per element: is float32 `got` within the bound of float64 `want`? Without a bound the bits must be the rounded ones."""
    with np.errstate(all="ignore"):
        want = np.asarray(want, np.float64)
        rounded = want.astype(np.float32)
        same = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
        # Tiny is decided before rounding: what rounds up to the smallest normal number may have been flushed already.
        zero = (np.abs(want) < TINY) & (got == 0) & (np.signbit(got) == np.signbit(rounded))
        good = same | zero | (np.isnan(got) & np.isnan(want))
        bound = ulps * ulp(want) + np.asarray(absolute, np.float64)
        if np.any(bound > 0):
            near = np.abs(got.astype(np.float64) - want) <= bound
            # Overflow: an answer within the bound of the largest number may become inf, and the other way round.
            over = (
                (np.abs(want) + bound > LARGEST) & (np.abs(got) >= LARGEST) & (np.sign(got) == np.sign(want))
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
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    left, right = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    equal = left.view(np.uint32) == right.view(np.uint32)
    return bool(np.all(equal | (np.isnan(left) & np.isnan(right))))
