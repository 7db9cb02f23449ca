"""Reductions over axes. Float sums carry their rounding error: |error| <= 2 log2(n) 2^-24 sum|x| for n >= 2 values."""

from __future__ import annotations

import builtins
import math
from typing import Any

from oa._schema import spec as sp
from oa._schema.declare import gradient, primitive
from oa._schema.dtype import HALVES, DType, bool_, float32, int32, uint32
from oa._schema.op import Inference, Instance
from oa._schema.spec import Spec, spec
from oa.errors import DTypeError, ShapeError
from oa.matrix.create import arange, ones
from oa.matrix.elementwise import astype, divide, equal, multiply, ordered, sqrt, square, where
from oa.matrix.indexing import gather
from oa.matrix.shape import _broadcast_to, _reshape, broadcast_to, concat, permute_dims, reshape, slice
from oa.matrix.value import Matrix

Axis = Any
#: Elements from which a row's largest is looked for in parts, and rows below which these are needed to fill a device.
_LONG, _FEW = 1 << 15, 1024


@primitive("reduce")
def _reduce(x: Matrix, name: str, axes: tuple[int, ...]) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    shape = tuple(1 if k in axes else e for k, e in enumerate(found.shape))
    return Inference((spec(_result(name, found.dtype), shape),), (name, axes))  # type: ignore[return-value]


@primitive("reduce")
def _peak(x: Matrix, axes: tuple[int, ...]) -> Matrix:
    """max with extent-1 axes and no gradient: a shift that leaves the result as it is has none."""
    found: Spec = x  # type: ignore[assignment]
    shape = tuple(1 if k in axes else e for k, e in enumerate(found.shape))
    return Inference((spec(found.dtype, shape),), ("max", axes))  # type: ignore[return-value]


def peak(x: Matrix, axis: int, operation: str) -> Matrix:
    """The largest element along `axis`, kept as extent 1, to be subtracted against overflow: constant for the gradient."""
    if x.shape[axis] == 0:
        raise ShapeError(f"{operation}: axis {axis} of shape {x.shape} holds no elements")
    ordered(x, operation)
    return _peak(x, (axis,))


def _result(name: str, dtype: DType) -> DType:
    return int32 if name in ("argmax", "argmin") else dtype


@gradient(_reduce)
def _reduce_gradient(instance: Instance, ct: Matrix, x: Matrix, result: Matrix) -> tuple[Matrix | None]:
    """sum repeats the cotangent; max and min share it evenly among the elements that reach the result; prod gives each
    element the product of the others, also where elements are 0."""
    name, axes = instance.attrs["name"], instance.attrs["axes"]
    if name == "sum":
        return (broadcast_to(ct, x.shape),)
    if name in ("max", "min"):
        hit = astype(equal(x, result), x.dtype)
        return (hit * divide(ct, _reduce(hit, "sum", axes)),)
    if name == "prod":
        empty = equal(x, 0.0)
        zeros = _reduce(astype(empty, x.dtype), "sum", axes)
        others = _reduce(where(empty, 1.0, x), "prod", axes)
        alone = where(equal(zeros, 1.0), ct * others, 0.0)
        return (where(empty, alone, divide(ct * result, x)),)
    return (None,)


def _over(x: Matrix, name: str, axis: Axis, keepdims: bool, *, nonempty: bool = False) -> Matrix:
    operation = f"matrix.{name}"
    axes = sp.normalize_axes(axis, x.ndim, operation)
    if nonempty and math.prod(x.shape[a] for a in axes) == 0:
        raise ShapeError(
            f"{operation}: axes {axes} of shape {x.shape} hold no elements, and it has no identity"
        )
    found = _reduce(x, name, axes) if axes or name in ("argmax", "argmin") else x
    if keepdims:
        return found
    shape = tuple([e for k, e in enumerate(x.shape) if k not in axes])
    return reshape(x, shape) if found is x else found if shape == found.shape else _reshape(found, shape)


def _numeric(x: Matrix, operation: str) -> None:
    if x.dtype is bool_:
        raise DTypeError(f"{operation}: bool has no order or arithmetic; cast with .astype(oa.int32)")
    ordered(x, operation)


def _accumulator(x: Matrix, dtype: Any) -> Matrix:
    """Integers narrower than 32 bits and bool are summed in 32, as the array API standard has it."""
    if dtype is not None:
        return astype(x, dtype)
    if x.dtype.is_inexact or x.dtype.itemsize >= 4:
        return x
    return astype(x, uint32 if x.dtype.kind == "u" else int32)


def sum(x: Matrix, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Matrix:
    """The sum over `axis` (None: all axes, an int, or several). An empty sum is 0.

    bool and integers narrower than 32 bits are summed as int32, unsigned ones as uint32; `dtype` overrides. float16 is
    accumulated in float32.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: any; see above for the result's.
    Gradient: g, repeated over `axis`.
    Raises: AxisError for an axis outside x or named twice.

    >>> oa.matrix.sum(oa.matrix.ones(engine, (2, 3)), axis=0).tolist()
    [2.0, 2.0, 2.0]
    """
    return _over(_accumulator(x, dtype), "sum", axis, keepdims)


def sum_to(x: Matrix, shape: tuple[int, ...]) -> Matrix:
    """The adjoint of `broadcast_to`: x summed over what broadcasting from `shape` would repeat."""
    if x.shape == shape:
        return x
    extra = x.ndim - len(shape)
    axes = [k for k in range(x.ndim) if k < extra or (shape[k - extra] == 1 and x.shape[k] != 1)]
    found = _reduce(x, "sum", tuple(axes)) if axes else x
    return found if found.shape == shape else _reshape(found, shape)


@gradient(_broadcast_to)
def _broadcast_gradient(instance: Instance, ct: Matrix) -> tuple[Matrix]:
    return (sum_to(ct, instance.ins[0].shape),)


def prod(x: Matrix, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Matrix:
    """The product over `axis`. An empty product is 1.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: any; the result's as in `sum`.
    Gradient: to each element g times the product of the others, also where elements are 0.
    Raises: AxisError for an axis outside x or named twice.

    >>> oa.matrix.prod(oa.matrix.from_list(engine, [2, 3, 4])).item()
    24
    """
    x = _accumulator(x, dtype)
    return _folded(x, axis, keepdims) if x.dtype.is_complex else _over(x, "prod", axis, keepdims)


def _folded(x: Matrix, axis: Axis, keepdims: bool) -> Matrix:
    """The product of complex numbers over `axis` by halves: the first times the second half, until one element is left."""
    axes = sp.normalize_axes(axis, x.ndim, "matrix.prod")
    kept = [k for k in range(x.ndim) if k not in axes]
    shape = tuple(x.shape[k] for k in kept)
    n = math.prod(x.shape[k] for k in axes)
    rows = reshape(permute_dims(x, [*kept, *axes]), (math.prod(shape), n))
    rest = None
    while n > 1:
        if n % 2:
            last = slice(rows, 1, n - 1, n)
            rest = last if rest is None else multiply(rest, last)
        n //= 2
        rows = multiply(slice(rows, 1, 0, n), slice(rows, 1, n, 2 * n))
    found = ones(x.engine, (math.prod(shape), 1), dtype=x.dtype) if n == 0 else rows
    found = found if rest is None else multiply(found, rest)
    full = tuple(1 if k in axes else e for k, e in enumerate(x.shape))
    return reshape(found, full if keepdims else shape)


def mean(x: Matrix, axis: Axis = None, *, keepdims: bool = False) -> Matrix:
    """The arithmetic mean over `axis`, floating-point or complex only; NaN over no elements.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: floating-point and complex.
    Gradient: g / n, repeated over `axis`.
    Raises: DTypeError for other dtypes; AxisError for an axis outside x or named twice.

    >>> oa.matrix.mean(oa.matrix.from_list(engine, [1.0, 2.0, 6.0])).item()
    3.0
    """
    if not x.dtype.is_inexact:
        raise DTypeError(f"matrix.mean: {x.dtype.name} is not floating-point; cast with .astype(oa.float32)")
    if x.dtype in HALVES:  # a sum may lie beyond its range
        return astype(mean(astype(x, float32), axis, keepdims=keepdims), x.dtype)
    count = math.prod(x.shape[a] for a in sp.normalize_axes(axis, x.ndim, "matrix.mean"))
    return divide(sum(x, axis, keepdims=keepdims), float(count))


def var(x: Matrix, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Matrix:
    """The variance over `axis` in two passes: sum((x - mean)^2) / (n - correction).

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: floating-point.
    Gradient: 2 g (x - mean) / (n - correction).
    Raises: DTypeError for other dtypes; AxisError for an axis outside x or named twice.

    >>> oa.matrix.var(oa.matrix.from_list(engine, [1.0, 2.0, 3.0, 6.0])).item()
    3.5
    """
    ordered(x, "matrix.var")
    if x.dtype in HALVES:
        return astype(var(astype(x, float32), axis, correction=correction, keepdims=keepdims), x.dtype)
    count = math.prod(x.shape[a] for a in sp.normalize_axes(axis, x.ndim, "matrix.var"))
    centred = x - mean(x, axis, keepdims=True)
    return divide(sum(square(centred), axis, keepdims=keepdims), float(builtins.max(count - correction, 0.0)))


def std(x: Matrix, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Matrix:
    """The square root of `var`.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: floating-point.
    Gradient: g (x - mean) / (r (n - correction)); NaN where r is 0.
    Raises: DTypeError for other dtypes; AxisError for an axis outside x or named twice.

    >>> oa.matrix.std(oa.matrix.from_list(engine, [1.0, 5.0])).item()
    2.0
    """
    return sqrt(var(x, axis, correction=correction, keepdims=keepdims))


def max(x: Matrix, axis: Axis = None, *, keepdims: bool = False) -> Matrix:
    """The largest element over `axis`; NaN if any is NaN. Ties share the gradient.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: real.
    Gradient: g, shared evenly by the elements that reach the result.
    Raises: ShapeError over no elements; DTypeError for bool; AxisError for an axis outside x or named twice.

    >>> oa.matrix.max(oa.matrix.from_list(engine, [1, 5, 3])).item()
    5
    """
    _numeric(x, "matrix.max")
    return _over(x, "max", axis, keepdims, nonempty=True)


def min(x: Matrix, axis: Axis = None, *, keepdims: bool = False) -> Matrix:
    """The smallest element over `axis`; NaN if any is NaN. Ties share the gradient.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: real.
    Gradient: g, shared evenly by the elements that reach the result.
    Raises: ShapeError over no elements; DTypeError for bool; AxisError for an axis outside x or named twice.

    >>> oa.matrix.min(oa.matrix.from_list(engine, [1, 5, 3])).item()
    1
    """
    _numeric(x, "matrix.min")
    return _over(x, "min", axis, keepdims, nonempty=True)


def argmax(x: Matrix, axis: int | None = None, *, keepdims: bool = False) -> Matrix:
    """The int32 index of the first largest element along `axis` (None: of the flattened value); NaN counts as largest.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: real; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: ShapeError over no elements; DTypeError for bool; AxisError for an axis outside x.

    >>> oa.matrix.argmax(oa.matrix.from_list(engine, [1, 5, 3])).item()
    1
    """
    _numeric(x, "matrix.argmax")
    return _arg(x, "argmax", axis, keepdims)


def argmin(x: Matrix, axis: int | None = None, *, keepdims: bool = False) -> Matrix:
    """The int32 index of the first smallest element along `axis` (None: of the flattened value); NaN counts as smallest.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: real; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: ShapeError over no elements; DTypeError for bool; AxisError for an axis outside x.

    >>> oa.matrix.argmin(oa.matrix.from_list(engine, [1, 5, 3])).item()
    0
    """
    _numeric(x, "matrix.argmin")
    return _arg(x, "argmin", axis, keepdims)


def _arg(x: Matrix, name: str, axis: int | None, keepdims: bool) -> Matrix:
    if axis is not None:
        axis = sp.normalize_axis(axis, x.ndim, f"matrix.{name}")
    length = x.size if axis is None else x.shape[axis]
    if length < _LONG or x.size > length * _FEW:
        return _over(x, name, axis, keepdims, nonempty=True)
    if axis is not None:
        found = _in_parts(x, name, axis)
        return found if keepdims else reshape(found, (*x.shape[:axis], *x.shape[axis + 1 :]))
    return reshape(_in_parts(reshape(x, (length,)), name, 0), (1,) * x.ndim if keepdims else ())


def _in_parts(x: Matrix, name: str, axis: int) -> Matrix:
    """The place along `axis`, kept as extent 1: that of the best among the best of parts, of equal ones the first."""
    before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    part = 1 << length.bit_length() // 2
    parts = length // part
    whole = slice(x, axis, 0, parts * part)
    split = reshape(whole, (*before, parts, part, *after))
    best = _over(split, name, axis + 1, True)
    values = [reshape(gather(split, best, axis + 1), (*before, parts, *after))]
    start = reshape(arange(x.engine, 0, parts * part, part), (parts, *(1 for _ in after)))
    places = [reshape(best, values[0].shape) + start]
    if parts * part < length:
        rest = slice(x, axis, parts * part, length)
        last = _over(rest, name, axis, True)
        values.append(gather(rest, last, axis))
        places.append(last + parts * part)
    return gather(concat(places, axis), _over(concat(values, axis), name, axis, True), axis)


def all(x: Matrix, axis: Axis = None, *, keepdims: bool = False) -> Matrix:
    """Whether every element over `axis` is not 0; true over none.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: any; the result is bool.
    Gradient: none: the result is not floating-point.
    Raises: AxisError for an axis outside x or named twice.

    >>> oa.matrix.all(oa.matrix.from_list(engine, [True, False])).item()
    False
    """
    return equal(sum(astype(equal(astype(x, bool_), False), int32), axis, keepdims=keepdims), 0)


def any(x: Matrix, axis: Axis = None, *, keepdims: bool = False) -> Matrix:
    """Whether some element over `axis` is not 0; false over none.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: any; the result is bool.
    Gradient: none: the result is not floating-point.
    Raises: AxisError for an axis outside x or named twice.

    >>> oa.matrix.any(oa.matrix.from_list(engine, [True, False])).item()
    True
    """
    return sum(astype(astype(x, bool_), int32), axis, keepdims=keepdims) > 0


__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "float32",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
    "where",
]
