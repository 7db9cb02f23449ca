"""Questions about dtypes: limits, kinds, promotion. Named as the array API standard names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oa._schema.dtype import (
    DEFAULT_OF_KIND,
    WEAK_KINDS,
    DType,
    as_dtype,
    bfloat16,
    common,
    join_weak,
    promote,
    weak_kind,
)
from oa._schema.op import Number
from oa.errors import ArgumentError, DTypeError
from oa.matrix.value import Matrix

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating-point dtype, or of a complex one's parts: width in bits, spacing at 1, largest, smallest and smallest
    normal number."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer dtype: width in bits, largest and smallest number."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(value: Any) -> DType:
    return value.dtype if isinstance(value, Matrix) else as_dtype(value)


def finfo(type: Any) -> FloatInfo:
    """Limits of a floating-point dtype, of the parts of a complex one, or of a Matrix's. Raises DTypeError for any other.

    Shapes: any, where it is given a Matrix.
    Dtypes: floating-point and complex.
    Gradient: none: there is no operand.

    >>> oa.matrix.finfo(oa.float32).bits
    32
    """
    found = _dtype_of(type).component
    if not found.is_float:
        raise DTypeError(f"matrix.finfo: {found.name} is not floating-point; see matrix.iinfo")
    if found is bfloat16:
        return FloatInfo(16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, -(2 - 2.0**-7) * 2.0**127, 2.0**-126, found)
    info = np.finfo(found.numpy)
    return FloatInfo(
        found.bits, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), found
    )


def iinfo(type: Any) -> IntegerInfo:
    """Limits of an integer dtype, or of a Matrix's. Raises DTypeError for any other.

    Shapes: any, where it is given a Matrix.
    Dtypes: integer.
    Gradient: none: there is no operand.

    >>> oa.matrix.iinfo(oa.uint8).max
    255
    """
    found = _dtype_of(type)
    if not found.is_integer:
        raise DTypeError(f"matrix.iinfo: {found.name} is not an integer dtype; see matrix.finfo")
    info = np.iinfo(found.numpy)
    return IntegerInfo(found.bits, int(info.max), int(info.min), found)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of `kind`: a dtype, a name of a kind, or a tuple of either.

    Kinds: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric".

    Shapes: none taken: it takes dtypes.
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: ArgumentError for what is neither a dtype nor a kind.

    >>> oa.matrix.isdtype(oa.int32, ("bool", "integral"))
    True
    """
    found = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return found.kind in _KINDS[kind]
    try:
        return found is as_dtype(kind)
    except DTypeError:
        raise ArgumentError(
            f"matrix.isdtype: {kind!r} is neither a dtype nor a kind; kinds are {', '.join(_KINDS)}"
        ) from None


def can_cast(from_: Any, to: Any) -> bool:
    """Whether promotion alone turns `from_` (a dtype or a Matrix) into `to`; what promotion leaves undefined is False.

    Shapes: any, where it is given a Matrix.
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.can_cast(oa.uint8, oa.int32)
    True
    """
    source, target = _dtype_of(from_), as_dtype(to)
    return common(source, target) is target


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that an operation on all these gives: Matrix values, dtypes, and weak Python numbers.

    Raises DTypeError for mixes that promotion leaves undefined.

    Shapes: any, where it is given a Matrix.
    Dtypes: any.
    Gradient: none: there is no operand.

    >>> oa.matrix.result_type(oa.uint8, oa.int32, 1)
    oa.int32
    """
    if not arrays_and_dtypes:
        raise ArgumentError("matrix.result_type: wanted at least one value or dtype")
    numbers = [v for v in arrays_and_dtypes if isinstance(v, Number)]
    found: DType | None = None
    for value in arrays_and_dtypes:
        if not isinstance(value, Number):
            dtype = _dtype_of(value)
            found = dtype if found is None else promote(found, dtype, "matrix.result_type")
    kinds = [weak_kind(v) for v in numbers]
    if found is None:
        return DEFAULT_OF_KIND[max(kinds, key=WEAK_KINDS.index)]
    for kind in kinds:
        found = join_weak(found, kind, "matrix.result_type")
    return found


__all__ = ["FloatInfo", "IntegerInfo", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]
