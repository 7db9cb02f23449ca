"""Elementwise operations that are more than one scalar operation: log of a sum of exponentials, neighbouring floats."""

from __future__ import annotations

import math
from typing import Any

from oa._schema import expr
from oa._schema.declare import pointwise
from oa._schema.dtype import int32, uint32
from oa.matrix.create import zeros_like
from oa.matrix.elementwise import positive
from oa.matrix.value import Matrix, Operand


def _call(name: str, *args: Any) -> Any:
    return expr.call(name, *args)


@pointwise(kinds="f")
def logaddexp(a: Operand, b: Operand) -> Matrix:
    """log(exp(a) + exp(b)) without overflow: max(a, b) + log1p(exp(-|a - b|)).

    >>> oa.matrix.logaddexp(oa.matrix.zeros(engine, (1,)), -1000.0).tolist()
    [0.0]
    """
    apart = expr.where(_call("eq", a, b), 0.0, _call("sub", a, b))  # equal infinities are 0 apart
    return _call("add", _call("max", a, b), _call("log1p", _call("exp", _call("neg", _call("abs", apart)))))


def _order(bits: Any) -> Any:
    """A float's bits as an integer that grows with the float, 0 for both zeros."""
    size = expr.cast(_call("band", bits, 0x7FFFFFFF), int32)
    return expr.where(_call("ge", bits, 0x80000000), -size, size)


@pointwise(kinds="f")
def nextafter(a: Operand, b: Operand) -> Matrix:
    """The float next to a on the way to b; b where they are equal, NaN if either is. Gradient 0.

    >>> oa.matrix.nextafter(oa.matrix.ones(engine, ()), 2.0).item() - 1.0 == 2.0**-23
    True
    """
    bits, target = _call("bitcast_u32", a), _call("bitcast_u32", b)
    start, stop = _order(bits), _order(target)
    moved = start + expr.where(_call("lt", start, stop), expr.cast(1, int32), expr.cast(-1, int32))
    negative = expr.where(_call("lt", moved, 0), expr.cast(0x80000000, uint32), expr.cast(0, uint32))
    sign = expr.where(_call("eq", moved, 0), _call("band", bits, 0x80000000), negative)
    there = _call("bor", expr.cast(_call("abs", moved), uint32), sign)
    found = _call("bitcast_f32", expr.where(_call("eq", start, stop), target, there))
    return _call("where", _call("bor", _call("isnan", a), _call("isnan", b)), math.nan, found)


def real(x: Matrix) -> Matrix:
    """The real part: of a real value the value itself."""
    return positive(x)


def imag(x: Matrix) -> Matrix:
    """The imaginary part: of a real value zeros."""
    return zeros_like(x)


def conj(x: Matrix) -> Matrix:
    """The complex conjugate: of a real value the value itself."""
    return positive(x)


__all__ = ["conj", "imag", "logaddexp", "nextafter", "real"]
