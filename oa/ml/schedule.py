"""Learning rates as functions of the step cell, evaluated on the device: captured and eager steps see the same rate."""

from __future__ import annotations

import math
from collections.abc import Callable

from oa import matrix
from oa._schema.dtype import as_float
from oa.errors import ArgumentError
from oa.matrix import Matrix

#: Maps the number of updates done so far (rank 0, int32) to the rate of the next one (rank 0, float32).
Schedule = Callable[[Matrix], Matrix]


def warmup_cosine(peak: float, *, steps: int, warmup: int = 0, floor: float = 0.1) -> Schedule:
    """Linear from peak / warmup to peak over `warmup` updates, then half a cosine down to peak * floor at update `steps`.

    rate(t) = peak (t + 1) / warmup for t < warmup, else peak (floor + (1 - floor) (1 + cos(pi d)) / 2) with
    d = (t - warmup) / (steps - warmup), held at 1 from `steps` on.

    Raises:
        ArgumentError: steps below 1, warmup outside [0, steps], floor outside [0, 1], or peak not positive.

    Example:
        >>> optimizer = oa.ml.AdamW(model.parameters(), lr=oa.ml.warmup_cosine(3e-3, steps=500, warmup=50))
    """
    peak = as_float(peak)
    whole = hasattr(steps, "__index__") and hasattr(warmup, "__index__")
    if (
        not whole
        or not 1 <= steps < 2**31
        or not 0 <= warmup <= steps
        or not 0.0 <= floor <= 1.0
        or not 0.0 < peak < math.inf
    ):
        raise ArgumentError(
            f"warmup_cosine: peak={peak!r}, steps={steps!r}, warmup={warmup!r}, floor={floor!r}; wanted peak > 0,"
            " whole steps >= 1, 0 <= warmup <= steps and 0 <= floor <= 1"
        )

    def rate(step: Matrix) -> Matrix:
        t = step.astype("float32")
        done = (t - float(warmup)) * (1.0 / max(1, steps - warmup))
        done = matrix.where(done > 1.0, 1.0, done)
        falling = (1.0 + matrix.cos(done * math.pi)) * (0.5 * (1.0 - floor) * peak) + floor * peak
        rising = (t + 1.0) * (peak / max(1, warmup))
        return matrix.where(step < warmup, rising, falling)

    return rate
