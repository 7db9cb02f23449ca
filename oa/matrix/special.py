"""Elementwise operations that are more than one scalar operation: log of a sum of exponentials, neighbouring floats."""

from __future__ import annotations

import math
from typing import Any

from oa._schema import expr
from oa._schema.declare import pointwise
from oa._schema.dtype import bfloat16, float16, float32, float64, int32, int64, uint32, uint64
from oa.errors import DTypeError
from oa.matrix.create import zeros_like
from oa.matrix.dtypes import result_type
from oa.matrix.elementwise import atan2, positive
from oa.matrix.value import Matrix, Operand


def _call(name: str, *args: Any) -> Any:
    return expr.call(name, *args)


@pointwise(kinds="f")
def logaddexp(a: Operand, b: Operand) -> Matrix:
    """log(exp(a) + exp(b)) without overflow: max(a, b) + log1p(exp(-|a - b|)).

    Gradient: g exp(a - r) to a and g exp(b - r) to b.

    >>> oa.matrix.logaddexp(oa.matrix.zeros(engine, (1,)), -1000.0).tolist()
    [0.0]
    """
    apart = expr.where(_call("eq", a, b), 0.0, _call("sub", a, b))  # equal infinities are 0 apart
    return _call("add", _call("max", a, b), _call("log1p", _call("exp", _call("neg", _call("abs", apart)))))


def _next(a: Any, b: Any, width: int, step: int = 1) -> Any:
    """`step` steps in the integers that order floats of `width` bits, 0 for both zeros."""
    unsigned, signed, top = (uint64, int64, 1 << 63) if width == 64 else (uint32, int32, 1 << 31)

    def order(bits: Any) -> Any:
        size = expr.cast(_call("band", bits, top - 1), signed)
        return expr.where(_call("ge", bits, top), -size, size)

    bits, target = _call(f"bitcast_u{width}", a), _call(f"bitcast_u{width}", b)
    start, stop = order(bits), order(target)
    moved = start + expr.where(_call("lt", start, stop), expr.cast(step, signed), expr.cast(-step, signed))
    negative = expr.where(_call("lt", moved, 0), expr.cast(top, unsigned), expr.cast(0, unsigned))
    sign = expr.where(_call("eq", moved, 0), _call("band", bits, top), negative)
    there = _call("bor", expr.cast(_call("abs", moved), unsigned), sign)
    found = _call(f"bitcast_f{width}", expr.where(_call("eq", start, stop), target, there))
    return _call("where", _call("bor", _call("isnan", a), _call("isnan", b)), math.nan, found)


@pointwise(kinds="f")
def _next32(a: Operand, b: Operand) -> Matrix:
    return _next(a, b, 32)


@pointwise(kinds="f")
def _next64(a: Operand, b: Operand) -> Matrix:
    return _next(a, b, 64)


@pointwise(kinds="f")
def _next16(a: Operand, b: Operand) -> Matrix:
    """The step in float32, where a float16 has 13 zero bits at the end, or below 2^-14 is a multiple of 2^-24."""
    x, y = expr.cast(a, float32), expr.cast(b, float32)  # type: ignore[arg-type]
    zero, up = _call("eq", x, 0.0), _call("lt", x, y)
    away = _call("bor", zero, _call("eq", up, _call("gt", x, 0.0)))
    size = _call("abs", x)
    bits = _call("bitcast_u32", size)
    grown = _call("bitcast_f32", _call("add", bits, 1 << 13))
    grown = expr.where(_call("ge", grown, 65536.0), math.inf, grown)
    grown = expr.where(_call("ge", size, 2.0**-14), grown, _call("add", size, 2.0**-24))
    shrunk = _call("bitcast_f32", _call("sub", bits, 1 << 13))
    shrunk = expr.where(_call("isinf", size), 65504.0, shrunk)
    shrunk = expr.where(_call("gt", size, 2.0**-14), shrunk, _call("sub", size, 2.0**-24))
    sign = expr.where(zero, expr.where(up, expr.cast(1.0, float32), expr.cast(-1.0, float32)), x)
    found = _call("copysign", expr.where(away, grown, shrunk), sign)
    found = expr.where(_call("eq", x, y), y, found)
    either = _call("bor", _call("isnan", x), _call("isnan", y))
    return expr.cast(expr.where(either, math.nan, found), float16)  # type: ignore[return-value]


@pointwise(kinds="f")
def _next_bfloat(a: Operand, b: Operand) -> Matrix:
    x, y = expr.cast(a, float32), expr.cast(b, float32)  # type: ignore[arg-type]
    return expr.cast(_next(x, y, 32, 1 << 16), bfloat16)  # type: ignore[return-value]


def nextafter(a: Operand, b: Operand) -> Matrix:
    """The float next to a on the way to b; b where they are equal, NaN if either is.

    Shapes: operands broadcast.
    Dtypes: floating-point; operands are promoted to their common dtype.
    Gradient: 0 everywhere.
    Raises: DTypeError for other dtypes; ShapeError where shapes do not broadcast.

    >>> oa.matrix.nextafter(oa.matrix.ones(engine, ()), 2.0).item() - 1.0 == 2.0**-23
    True
    """
    found = result_type(*(v for v in (a, b) if isinstance(v, Matrix)))
    if not found.is_float:
        raise DTypeError(
            f"matrix.nextafter: {found.name} is not accepted; wanted floating-point. Cast first: x.astype(oa.float32)"
        )
    return {float16: _next16, bfloat16: _next_bfloat, float64: _next64}.get(found, _next32)(a, b)


@pointwise(kinds="c")
def _real(x: Matrix) -> Matrix:
    return _call("real_part", x)


@pointwise(kinds="c")
def _imag(x: Matrix) -> Matrix:
    return _call("imag_part", x)


@pointwise(kinds="c")
def _conj(x: Matrix) -> Matrix:
    return _call("conj", x)


@pointwise(kinds="c")
def _angle(x: Matrix) -> Matrix:
    return _call("angle", x)


@pointwise(kinds="f")
def _complex(re: Operand, im: Operand) -> Matrix:
    return _call("complex", re, im)


def real(x: Matrix) -> Matrix:
    """The real part, of a real dtype: of a real value the value itself.

    Shapes: any; the result has it too.
    Dtypes: numeric; of complex64 the result is float32, of complex128 float64.
    Gradient: g.
    Raises: DTypeError for bool.

    >>> oa.matrix.real(oa.matrix.from_list(engine, [1.5])).tolist()
    [1.5]
    """
    return _real(x) if x.dtype.is_complex else positive(x)


def imag(x: Matrix) -> Matrix:
    """The imaginary part, of a real dtype: of a real value zeros.

    Shapes: any; the result has it too.
    Dtypes: any; of complex64 the result is float32, of complex128 float64.
    Gradient: i g of a complex value; none of a real one, where the result is constant.
    Raises: ArgumentError for what is no Matrix.

    >>> oa.matrix.imag(oa.matrix.from_list(engine, [1.5])).tolist()
    [0.0]
    """
    return _imag(x) if x.dtype.is_complex else zeros_like(x)


def angle(x: Matrix) -> Matrix:
    """The angle of a complex number, atan2(im, re), from -pi to pi; of a real one 0 or, below 0, pi.

    Shapes: any; the result has it too.
    Dtypes: floating-point and complex; the result has the dtype of the parts.
    Gradient: i g / conj(x) of a complex value; 0 of a real one.
    Raises: DTypeError for other dtypes.

    >>> oa.matrix.angle(oa.matrix.from_list(engine, [1j, 2 + 0j])).tolist()
    [1.5707963705062866, 0.0]
    """
    if x.dtype.is_complex:
        return _angle(x)
    return atan2(zeros_like(x), x)


def complex(re: Operand, im: Operand) -> Matrix:
    """re + i im from two real values, one of which may be a Python number.

    Shapes: operands broadcast.
    Dtypes: floating-point; of float64 the result is complex128, of other dtypes complex64.
    Gradient: real(g) to re and imag(g) to im.
    Raises: DTypeError for other dtypes; ShapeError where shapes do not broadcast.

    >>> oa.matrix.complex(oa.matrix.ones(engine, 1), oa.matrix.full(engine, 1, 2.0)).tolist()
    [(1+2j)]
    """
    return _complex(re, im)


def conjugated(x: Matrix) -> Matrix:
    """`conj` without an operation for real values."""
    return _conj(x) if x.dtype.is_complex else x


def conj(x: Matrix) -> Matrix:
    """The complex conjugate: of a real value the value itself.

    Shapes: any; the result has it too.
    Dtypes: numeric.
    Gradient: conj(g).
    Raises: DTypeError for bool.

    >>> oa.matrix.conj(oa.matrix.from_list(engine, [1.5 + 2j])).tolist()
    [(1.5-2j)]
    """
    return _conj(x) if x.dtype.is_complex else positive(x)


__all__ = ["angle", "complex", "conj", "imag", "logaddexp", "nextafter", "real"]
