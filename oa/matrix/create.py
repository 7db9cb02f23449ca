"""Creation: constants, ranges, and values from the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oa._schema import expr
from oa._schema.call import at_user_line
from oa._schema.declare import primitive
from oa._schema.dtype import DEFAULT_OF_KIND, DType, as_dtype, float32, int32, weak_kind
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference
from oa._schema.scalar import Scalar, arg
from oa._schema.spec import Spec, as_shape, spec
from oa.engine import Engine, default_engine
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix.value import Matrix


def engine_of(engine: Any, device: Any) -> Any:
    """The engine given first, as `device=`, or this thread's default."""
    chosen = engine if engine is not None else device
    if chosen is None:
        return default_engine()
    if not isinstance(chosen, Engine):
        raise at_user_line(
            ArgumentError(f"wanted an oa.Engine first (or device=engine), got {type(chosen).__name__}")
        )
    return chosen


def _split(args: tuple[Any, ...], count: int, name: str, device: Any) -> tuple[Any, list[Any]]:
    """`(engine, rest)` from positional arguments that may begin with an engine."""
    rest = list(args)
    engine = rest.pop(0) if rest and isinstance(rest[0], Engine) else None
    if not 1 <= len(rest) <= count:
        raise at_user_line(
            ArgumentError(
                f"matrix.{name}: got {len(rest)} positional arguments after the engine, wanted 1 to {count}"
            )
        )
    return engine_of(engine, device), rest


def _generated(dtype: DType, shape: tuple[int, ...], body: Scalar) -> Any:
    return Inference((spec(dtype, shape),), (), body)


@primitive("pointwise")
def _full(value: Matrix, shape: tuple[int, ...]) -> Matrix:
    found: Spec = value  # type: ignore[assignment]
    return _generated(found.dtype, shape, arg(0, found.dtype))


@primitive("pointwise")
def _arange(start: Matrix, step: Matrix, count: int) -> Matrix:
    found: Spec = start  # type: ignore[assignment]
    position = expr.cast(expr.element(), found.dtype)
    body = Expr("arg", (), 0) + position * Expr("arg", (), 1)
    return _generated(found.dtype, (count,), resolve(body, (found.dtype, found.dtype), "matrix.arange"))


@primitive("pointwise")
def _eye(one: Matrix, zero: Matrix, rows: int, columns: int, k: int) -> Matrix:
    found: Spec = one  # type: ignore[assignment]
    on = expr.call("eq", expr.index(1), expr.index(0) + k)
    body = expr.where(on, Expr("arg", (), 0), Expr("arg", (), 1))
    return _generated(found.dtype, (rows, columns), resolve(body, (found.dtype,) * 2, "matrix.eye"))


def _scalar(engine: Any, dtype: DType, number: Any) -> Matrix:
    return Matrix(engine, engine.scalar_value(spec(dtype, ()), number))


def full(*args: Any, dtype: Any = None, device: Any = None) -> Matrix:
    """`full([engine,] shape, value)`: every element `value`. The dtype defaults to float32, int32 or bool by the value.

    >>> oa.matrix.full(engine, [2], 2.0).tolist()
    [2.0, 2.0]
    """
    engine, rest = _split(args, 2, "full", device)
    if len(rest) != 2 or not isinstance(rest[1], (bool, int, float)):
        raise at_user_line(ArgumentError("matrix.full: wanted a shape and a Python number"))
    wanted = DEFAULT_OF_KIND[weak_kind(rest[1])] if dtype is None else as_dtype(dtype)
    return _full(
        _scalar(engine, wanted, _fit(rest[1], wanted, "matrix.full")), as_shape(rest[0], "matrix.full")
    )


def _fit(number: bool | int | float, dtype: DType, operation: str) -> bool | int | float:
    """The number as `dtype` holds it; DTypeError when it cannot."""
    if dtype.is_float:
        return float(number)
    if dtype.kind == "b":
        return bool(number)
    if isinstance(number, float) and not number.is_integer():
        raise at_user_line(
            DTypeError(f"{operation}: {number!r} is not an integer; dtype {dtype.name} cannot hold it")
        )
    info = np.iinfo(dtype.numpy)
    if not info.min <= int(number) <= info.max:
        raise at_user_line(
            DTypeError(f"{operation}: {number!r} does not fit {dtype.name} [{info.min}, {info.max}]")
        )
    return int(number)


def zeros(*args: Any, dtype: Any = float32, device: Any = None) -> Matrix:
    """`zeros([engine,] shape)`: every element 0."""
    engine, rest = _split(args, 1, "zeros", device)
    return full(engine, rest[0], 0, dtype=dtype)


def ones(*args: Any, dtype: Any = float32, device: Any = None) -> Matrix:
    """`ones([engine,] shape)`: every element 1."""
    engine, rest = _split(args, 1, "ones", device)
    return full(engine, rest[0], 1, dtype=dtype)


def zeros_like(x: Matrix, *, dtype: Any = None) -> Matrix:
    """Zeros of x's shape, on its engine, by default of its dtype."""
    return full(x.engine, x.shape, 0, dtype=dtype or x.dtype)


def ones_like(x: Matrix, *, dtype: Any = None) -> Matrix:
    """Ones of x's shape, on its engine, by default of its dtype."""
    return full(x.engine, x.shape, 1, dtype=dtype or x.dtype)


def full_like(x: Matrix, value: bool | int | float, *, dtype: Any = None) -> Matrix:
    """`value` in x's shape, on its engine, by default of its dtype."""
    return full(x.engine, x.shape, value, dtype=dtype or x.dtype)


def arange(*args: Any, dtype: Any = None, device: Any = None) -> Matrix:
    """`arange([engine,] stop)`, `(start, stop)` or `(start, stop, step)`: start + k step for k below ceil((stop - start) / step).

    int32 where all are ints, else float32. Raises ArgumentError for a step of 0.

    >>> oa.matrix.arange(engine, 1, 4).tolist()
    [1, 2, 3]
    """
    engine, rest = _split(args, 3, "arange", device)
    start, stop, step = (
        (0, rest[0], 1) if len(rest) == 1 else (rest[0], rest[1], rest[2] if len(rest) == 3 else 1)
    )
    if step == 0:
        raise at_user_line(ArgumentError("matrix.arange: step is 0"))
    integral = all(isinstance(v, int) for v in (start, stop, step))
    wanted = as_dtype(dtype) if dtype is not None else (int32 if integral else float32)
    count = max(0, -(-(stop - start) // step) if integral else math.ceil((stop - start) / step))
    return _arange(
        _scalar(engine, wanted, _fit(start, wanted, "matrix.arange")),
        _scalar(engine, wanted, step if wanted.kind == "u" else _fit(step, wanted, "matrix.arange")),
        int(count),
    )


def eye(*args: Any, k: int = 0, dtype: Any = float32, device: Any = None) -> Matrix:
    """`eye([engine,] rows, columns=rows)`: 1 on the k-th diagonal, 0 elsewhere."""
    engine, rest = _split(args, 2, "eye", device)
    rows, columns = as_shape((rest[0], rest[-1] if rest[-1] is not None else rest[0]), "matrix.eye")
    wanted = as_dtype(dtype)
    one, zero = (_scalar(engine, wanted, _fit(v, wanted, "matrix.eye")) for v in (1, 0))
    return _eye(one, zero, rows, columns, int(k))


def linspace(*args: Any, dtype: Any = float32, device: Any = None) -> Matrix:
    """`linspace([engine,] start, stop, num)`: `num` evenly spaced values, both ends included."""
    engine, rest = _split(args, 3, "linspace", device)
    if len(rest) != 3:
        raise at_user_line(ArgumentError("matrix.linspace: wanted start, stop and num"))
    return from_numpy(
        engine, np.linspace(float(rest[0]), float(rest[1]), int(rest[2]), dtype=np.float64), dtype=dtype
    )


def from_numpy(engine: Any, array: Any = None, *, dtype: Any = None, device: Any = None) -> Matrix:
    """A copy of a NumPy array of any strides and byte order; `from_numpy(array)` uses the default engine.

    float64 becomes float32 and int64 int32 only when `dtype` asks for it. Raises DTypeError for a dtype `oa` does not have.

    >>> oa.matrix.from_numpy(engine, np.array([[1, 2]], np.int32)).tolist()
    [[1, 2]]
    """
    if array is None:
        engine, array = None, engine
    chosen = engine_of(engine, device)
    found = np.asarray(array)
    wanted = as_dtype(dtype) if dtype is not None else _own_dtype(found)
    return chosen.upload(
        spec(wanted, as_shape(found.shape, "matrix.from_numpy")), _converted(found, wanted), Matrix
    )


def _own_dtype(array: np.ndarray[Any, Any]) -> DType:
    try:
        return as_dtype(array.dtype.newbyteorder("="))
    except DTypeError:
        hint = {"f": "float32", "i": "int32", "u": "uint32"}.get(array.dtype.kind)
        mend = f"; ask for it: from_numpy(engine, array, dtype=oa.{hint})" if hint else ""
        raise at_user_line(
            DTypeError(f"matrix.from_numpy: dtype {array.dtype} is not supported{mend}")
        ) from None


def _converted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    if array.dtype.kind not in "biuf":
        raise at_user_line(DTypeError(f"matrix.from_numpy: dtype {array.dtype} holds no numbers oa has"))
    return array.astype(dtype.numpy, copy=False)


def from_list(engine: Any, values: Any = None, *, dtype: Any = None, device: Any = None) -> Matrix:
    """Nested lists of numbers: bool, int32 or float32 by the highest kind in them. Raises ShapeError for ragged lists."""
    if values is None:
        engine, values = None, engine
    try:
        array = np.array(values)
    except ValueError:
        array = np.array(0, object)
    if array.dtype == object:
        raise at_user_line(
            ShapeError("matrix.from_list: the lists are ragged or hold something that is no number")
        )
    wanted = as_dtype(dtype) if dtype is not None else DEFAULT_OF_KIND.get(array.dtype.kind, float32)
    if array.size == 0 and dtype is None:
        wanted = float32
    if wanted.is_integer and array.size:
        _fit(array.min().item(), wanted, "matrix.from_list")
        _fit(array.max().item(), wanted, "matrix.from_list")
    return from_numpy(engine, array, dtype=wanted, device=device)


def from_f32(engine: Any, values: Sequence[float], shape: Any = None, *, device: Any = None) -> Matrix:
    """A flat sequence of floats as float32, in row-major order under `shape` (default: rank 1)."""
    array = np.asarray(values, dtype=np.float32).reshape(-1)
    wanted = (array.size,) if shape is None else as_shape(shape, "matrix.from_f32")
    if math.prod(wanted) != array.size:
        raise at_user_line(ShapeError(f"matrix.from_f32: {array.size} values do not fill shape {wanted}"))
    return from_numpy(engine, array.reshape(wanted), device=device)
