"""Random values: Philox4x32-10 (Salmon et al. 2011) keyed by seed, draw number and element, equal on every device."""

from __future__ import annotations

import math
from typing import Any

from oa._schema import expr
from oa._schema.declare import primitive
from oa._schema.dtype import as_float, float32, uint32
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference
from oa._schema.spec import Spec, as_shape, spec
from oa.matrix.create import _scalar, engine_of
from oa.matrix.value import Matrix


def _bits(index: Any) -> Any:
    """The element's random word; operands 0 to 2 are seed (low, high) and draw number."""
    return expr.philox(Expr("arg", (), 0), Expr("arg", (), 1), Expr("arg", (), 2), index)


def _unit(word: Any) -> Any:
    """24 random bits as a float in [0, 1)."""
    return expr.cast(expr.call("shr", word, 8), float32) * (2.0**-24)


_UNIFORM = (uint32, uint32, uint32, float32, float32)


@primitive("pointwise")
def _uniform(
    low_seed: Matrix, high_seed: Matrix, draw: Matrix, low: Matrix, high: Matrix, shape: tuple[int, ...]
) -> Matrix:
    a, b = Expr("arg", (), 3), Expr("arg", (), 4)
    body = resolve(a + (b - a) * _unit(_bits(expr.element())), _UNIFORM, "matrix.uniform")
    return Inference((spec(float32, shape),), (), body)  # type: ignore[return-value]


@primitive("pointwise")
def _normal(
    low_seed: Matrix, high_seed: Matrix, draw: Matrix, mean: Matrix, std: Matrix, shape: tuple[int, ...]
) -> Matrix:
    """Box and Muller: an even element takes the cosine, the odd one after it the sine of one pair of words."""
    element = expr.element()
    pair = expr.call("band", element, 0xFFFFFFFE)
    # 1 - u lies in (0, 1], so the logarithm is finite.
    radius = expr.call("sqrt", expr.call("log", 1.0 - _unit(_bits(pair))) * -2.0)
    angle = _unit(_bits(expr.call("bor", pair, 1))) * (2.0 * math.pi)
    odd = expr.call("eq", expr.call("band", element, 1), 1)
    wave = expr.where(odd, expr.call("sin", angle), expr.call("cos", angle))
    body = Expr("arg", (), 3) + radius * wave * Expr("arg", (), 4)
    return Inference((spec(float32, shape),), (), resolve(body, _UNIFORM, "matrix.normal"))  # type: ignore[return-value]


def _stream(engine: Any, seed: int | None) -> tuple[Matrix, Matrix, Matrix]:
    """Seed and draw number: the engine's next draw, or draw 0 of a stream of its own."""
    if seed is None:
        low, high, draw = (Matrix(engine, value) for value in engine.random_key())
        return low, high, draw
    key = seed & 0xFFFFFFFFFFFFFFFF
    return (
        _scalar(engine, uint32, key & 0xFFFFFFFF),
        _scalar(engine, uint32, key >> 32),
        _scalar(engine, uint32, 0),
    )


def uniform(
    engine: Any,
    shape: Any = None,
    low: float = 0.0,
    high: float = 1.0,
    *,
    seed: int | None = None,
    device: Any = None,
) -> Matrix:
    """Uniform float32 in [low, high), bit-equal on every device.

    Without `seed` the engine's stream advances by one draw; with it the result depends on seed, shape and bounds alone.

    Shapes: `shape`.
    Dtypes: none taken; the result is float32.
    Gradient: none: there is no operand.
    Raises: ShapeError for a negative extent or a rank above 8.

    >>> oa.matrix.uniform(engine, (2,), seed=1).shape
    (2,)
    """
    if shape is None:
        engine, shape = None, engine
    chosen = engine_of(engine, device)
    a, b = (_scalar(chosen, float32, as_float(v)) for v in (low, high))
    return _uniform(*_stream(chosen, seed), a, b, as_shape(shape, "matrix.uniform"))


def normal(
    engine: Any,
    shape: Any = None,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    seed: int | None = None,
    device: Any = None,
) -> Matrix:
    """Normal float32 of the given mean and standard deviation, within 4 ulp on every device. Seed as in `uniform`.

    Shapes: `shape`.
    Dtypes: none taken; the result is float32.
    Gradient: none: there is no operand.
    Raises: ShapeError for a negative extent or a rank above 8.

    >>> oa.matrix.normal(engine, (2, 3), seed=1).shape
    (2, 3)
    """
    if shape is None:
        engine, shape = None, engine
    chosen = engine_of(engine, device)
    centre, spread = (_scalar(chosen, float32, as_float(v)) for v in (mean, std))
    return _normal(*_stream(chosen, seed), centre, spread, as_shape(shape, "matrix.normal"))


__all__ = ["Spec", "_bits", "_stream", "_unit", "normal", "uniform"]
