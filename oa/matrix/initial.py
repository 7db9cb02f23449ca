"""First values of weights, scaled by how many inputs and outputs a weight has. Seeds and draws as in `oa.matrix.uniform`."""

from __future__ import annotations

import math
from typing import Any

from oa._schema.dtype import as_float
from oa._schema.spec import as_shape
from oa.errors import ArgumentError, ShapeError
from oa.matrix.random import normal, uniform
from oa.matrix.value import Matrix


def _fans(shape: Any, name: str) -> tuple[tuple[int, ...], int, int]:
    """The shape, and a weight's inputs and outputs: (outputs, inputs, window...)."""
    found = as_shape(shape, f"matrix.{name}")
    if len(found) < 2:
        raise ShapeError(
            f"matrix.{name}: the shape is {found}; wanted (outputs, inputs, ...): rank 2 or more"
        )
    window = math.prod(found[2:])
    return found, found[1] * window, found[0] * window


def _over(count: int, size: float) -> float:
    """size / count; a weight without elements has no scale."""
    return size / count if count else 0.0


def glorot_uniform(engine: Any, shape: Any = None, *, seed: int | None = None, device: Any = None) -> Matrix:
    """Uniform float32 in [-a, a), a = sqrt(6 / (inputs + outputs)): signals keep their variance (Glorot, Bengio 2010).

    The shape is a weight's, (outputs, inputs) and for convolutions the window after them, which counts for both.

    Shapes: `shape`.
    Dtypes: none taken; the result is float32.
    Gradient: none: there is no operand.
    Raises: ShapeError for a rank below 2 or above 8, or a negative extent.

    >>> oa.matrix.glorot_uniform(engine, (4, 2), seed=1).shape
    (4, 2)
    """
    if shape is None:
        engine, shape = None, engine
    found, inputs, outputs = _fans(shape, "glorot_uniform")
    bound = math.sqrt(_over(inputs + outputs, 6.0))
    return uniform(engine, found, -bound, bound, seed=seed, device=device)


def glorot_normal(engine: Any, shape: Any = None, *, seed: int | None = None, device: Any = None) -> Matrix:
    """Normal float32 of mean 0 and standard deviation sqrt(2 / (inputs + outputs)); otherwise as `glorot_uniform`.

    Shapes: `shape`.
    Dtypes: none taken; the result is float32.
    Gradient: none: there is no operand.
    Raises: ShapeError for a rank below 2 or above 8, or a negative extent.

    >>> oa.matrix.glorot_normal(engine, (4, 2), seed=1).shape
    (4, 2)
    """
    if shape is None:
        engine, shape = None, engine
    found, inputs, outputs = _fans(shape, "glorot_normal")
    return normal(engine, found, 0.0, math.sqrt(_over(inputs + outputs, 2.0)), seed=seed, device=device)


def kaiming_uniform(
    engine: Any, shape: Any = None, slope: float = 0.0, *, seed: int | None = None, device: Any = None
) -> Matrix:
    """Uniform float32 in [-a, a), a = sqrt(6 / ((1 + slope^2) inputs)): for relu, or a leaky one of that slope (He et al. 2015).

    Shapes as in `glorot_uniform`; outputs do not count.

    Shapes: `shape`.
    Dtypes: none taken; the result is float32.
    Gradient: none: there is no operand.
    Raises: ShapeError for a rank below 2 or above 8, or a negative extent; ArgumentError for a slope that is not finite.

    >>> oa.matrix.kaiming_uniform(engine, (4, 2), seed=1).shape
    (4, 2)
    """
    if shape is None:
        engine, shape = None, engine
    found, inputs, _ = _fans(shape, "kaiming_uniform")
    slope = as_float(slope)
    if not math.isfinite(slope):
        raise ArgumentError(f"matrix.kaiming_uniform: slope is {slope!r}; wanted a finite number")
    bound = math.sqrt(_over(inputs, 6.0)) / math.hypot(1.0, slope)
    return uniform(engine, found, -bound, bound, seed=seed, device=device)


__all__ = ["glorot_normal", "glorot_uniform", "kaiming_uniform"]
