"""Derivatives of float64 functions by central differences: the answers that gradients are held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Step of the differences; with it truncation and rounding are both near 1e-9 of the function's size.
STEP = 1e-5


def gradients(
    function: Callable[..., Array], operands: Sequence[Array], which: Sequence[int], cotangent: Array
) -> list[Array]:
    """d sum(cotangent * function(operands)) / d operand for the operands in `which`."""
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in operands]
    found = []
    for k in which:
        out = np.zeros(wide[k].shape)
        for at in np.ndindex(wide[k].shape):
            low, high = wide[k].copy(), wide[k].copy()
            low[at] -= STEP
            high[at] += STEP
            up = function(*wide[:k], high, *wide[k + 1 :])
            down = function(*wide[:k], low, *wide[k + 1 :])
            out[at] = np.sum(cotangent * (up - down)) / (2 * STEP)
        found.append(out)
    return found
