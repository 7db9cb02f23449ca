"""bfloat16 by integers: the nearest of a float64, ties to even, decided on the exact value."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def widened(halves: Array) -> Array:
    """The float32 values of uint16 bits."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(x: Array) -> Array:
    """The nearest bfloat16 as float32: neighbours below and above in size, and the nearer one, at a tie the even one."""
    wide = np.asarray(x).astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.minimum(np.abs(wide), 2.0**128)
        _, exponent = np.frexp(np.where(size > 0, size, 1.0))
        step = np.ldexp(1.0, np.maximum(exponent, -125) - 8)
        found = np.rint(size / step) * step
        found = np.where(found >= 2.0**128, np.inf, found)
    return np.where(np.isnan(wide), np.nan, np.copysign(found, wide)).astype(np.float32)


def bits(x: Array) -> Array:
    """The uint16 bits of float32 values that are bfloat16."""
    return (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def ulp(x: Array) -> Array:
    """The distance of neighbours at |x|."""
    _, exponent = np.frexp(np.maximum(np.abs(np.asarray(x, np.float64)), 2.0**-126))
    return np.ldexp(1.0, exponent - 8)
