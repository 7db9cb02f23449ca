"""Creation: constants, ranges, and values from the host."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oa._schema import expr
from oa._schema.declare import primitive
from oa._schema.dtype import (
    DEFAULT_OF_KIND,
    DType,
    Weak,
    as_dtype,
    as_float,
    bfloat16,
    complex64,
    float32,
    int32,
    weak_kind,
)
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference, Number
from oa._schema.scalar import Scalar, arg
from oa._schema.spec import Spec, as_shape, spec
from oa.engine import Engine, default_engine
from oa.errors import ArgumentError, DTypeError, OutOfMemory, ShapeError
from oa.matrix.bfloat import bits_of, widened
from oa.matrix.surface import shown
from oa.matrix.value import Matrix


def engine_of(engine: Any, device: Any) -> Any:
    """The engine given first, as `device=`, or this thread's default."""
    if engine is not None and device is not None and engine is not device:
        raise ArgumentError(
            f"device={device!r} contradicts the engine {engine!r} given first; give one of them"
        )
    chosen = engine if engine is not None else device
    if chosen is None:
        return default_engine()
    if not isinstance(chosen, Engine):
        raise ArgumentError(
            f"the engine is {shown(chosen)}; wanted an oa.Engine first, or device=engine. Make one: oa.Engine()"
        )
    return chosen


def leading_engine(function: Callable[..., Matrix]) -> Callable[..., Matrix]:
    """The standard's signature, with an Engine allowed in front of all arguments instead of as `device=`."""

    @functools.wraps(function)
    def call(*args: Any, device: Any = None, **named: Any) -> Matrix:
        if args and isinstance(args[0], Engine):
            device, args = engine_of(args[0], device), args[1:]
        return function(*args, device=engine_of(None, device), **named)

    call.leader = Engine  # type: ignore[attr-defined]
    return call


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


def _either(given: Any, default: Any) -> Any:
    return default if given is None else given


def diagonal(k: Any, rows: int, columns: int, operation: str) -> int:
    """The number of a diagonal, an int; those beyond the corners are all alike."""
    if not hasattr(k, "__index__"):
        raise ArgumentError(f"{operation}: k is {shown(k)}; wanted an int, the diagonal's number")
    return max(-rows, min(int(k), columns))


@leading_engine
def full(
    shape: Any, fill_value: bool | int | float | complex, *, dtype: Any = None, device: Any = None
) -> Matrix:
    """`full([engine,] shape, fill_value)`: every element `fill_value`; by default float32, int32, bool or complex64 by the value.

    Shapes: of any rank up to 8, an int or a sequence of ints.
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: DTypeError when the dtype cannot hold the value; ShapeError for a negative extent or a rank above 8.

    >>> oa.matrix.full(engine, [2], 2.0).tolist()
    [2.0, 2.0]
    """
    number = fill_value.item() if getattr(fill_value, "shape", None) == () else fill_value  # type: ignore[union-attr]
    if not isinstance(number, Number):
        raise ArgumentError(f"matrix.full: fill_value is {type(number).__name__}; wanted a Python number")
    wanted = DEFAULT_OF_KIND[weak_kind(number)] if dtype is None else as_dtype(dtype)
    return _full(_scalar(device, wanted, _fit(number, wanted, "matrix.full")), as_shape(shape, "matrix.full"))


def _fit(number: Weak, dtype: DType, operation: str) -> Weak:
    """The number as `dtype` holds it; DTypeError when it cannot."""
    if dtype.is_complex:
        return number if isinstance(number, complex) else complex(as_float(number), 0.0)
    if isinstance(number, complex):
        raise DTypeError(
            f"{operation}: {number!r} is complex; dtype {dtype.name} cannot hold it, dtype=oa.complex64 can"
        )
    if dtype.is_float:
        return as_float(number)
    if dtype.kind == "b":
        return bool(number)
    if isinstance(number, float) and not number.is_integer():
        raise DTypeError(f"{operation}: {number!r} is not an integer; dtype {dtype.name} cannot hold it")
    info = np.iinfo(dtype.numpy)
    if not info.min <= int(number) <= info.max:
        raise DTypeError(f"{operation}: {number!r} does not fit {dtype.name} [{info.min}, {info.max}]")
    return int(number)


@leading_engine
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Matrix:
    """`zeros([engine,] shape)`: every element 0, by default of float32.

    Shapes: of any rank up to 8, an int or a sequence of ints.
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: ShapeError for a negative extent or a rank above 8; DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.zeros(engine, (2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return full(device, as_shape(shape, "matrix.zeros"), 0, dtype=_either(dtype, float32))


@leading_engine
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Matrix:
    """`ones([engine,] shape)`: every element 1, by default of float32.

    Shapes: of any rank up to 8, an int or a sequence of ints.
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: ShapeError for a negative extent or a rank above 8; DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.ones(engine, (2, 2), dtype=oa.int32).tolist()
    [[1, 1], [1, 1]]
    """
    return full(device, as_shape(shape, "matrix.ones"), 1, dtype=_either(dtype, float32))


@leading_engine
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Matrix:
    """`empty([engine,] shape)`: a value whose elements mean nothing; here they are 0, so that no run differs from another.

    Shapes: of any rank up to 8, an int or a sequence of ints.
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: ShapeError for a negative extent or a rank above 8; DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.empty(engine, (2, 2)).shape
    (2, 2)
    """
    return full(device, shape, 0, dtype=_either(dtype, float32))


def zeros_like(x: Matrix, *, dtype: Any = None, device: Any = None) -> Matrix:
    """Zeros of x's shape, by default on its engine and of its dtype.

    Shapes: any; the result has x's.
    Dtypes: any.
    Gradient: none: the result is constant.
    Raises: DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.zeros_like(oa.matrix.from_list(engine, [1, 2])).tolist()
    [0, 0]
    """
    return full(x.shape, 0, dtype=_either(dtype, x.dtype), device=_either(device, x.engine))


def ones_like(x: Matrix, *, dtype: Any = None, device: Any = None) -> Matrix:
    """Ones of x's shape, by default on its engine and of its dtype.

    Shapes: any; the result has x's.
    Dtypes: any.
    Gradient: none: the result is constant.
    Raises: DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.ones_like(oa.matrix.from_list(engine, [1, 2])).tolist()
    [1, 1]
    """
    return full(x.shape, 1, dtype=_either(dtype, x.dtype), device=_either(device, x.engine))


def empty_like(x: Matrix, *, dtype: Any = None, device: Any = None) -> Matrix:
    """As `empty`, of x's shape, by default on its engine and of its dtype.

    Shapes: any; the result has x's.
    Dtypes: any.
    Gradient: none: the result is constant.
    Raises: DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.empty_like(oa.matrix.from_list(engine, [1, 2])).shape
    (2,)
    """
    return zeros_like(x, dtype=dtype, device=device)


def full_like(
    x: Matrix, fill_value: bool | int | float | complex, *, dtype: Any = None, device: Any = None
) -> Matrix:
    """`fill_value` in x's shape, by default on its engine and of its dtype.

    Shapes: any; the result has x's.
    Dtypes: any.
    Gradient: none: the result is constant.
    Raises: DTypeError when the dtype cannot hold the value.

    >>> oa.matrix.full_like(oa.matrix.from_list(engine, [1, 2]), 7).tolist()
    [7, 7]
    """
    return full(x.shape, fill_value, dtype=_either(dtype, x.dtype), device=_either(device, x.engine))


@leading_engine
def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Matrix:
    """`arange([engine,] stop)`, `(start, stop)` or `(start, stop, step)`: start + k step for k below ceil((stop - start) / step).

    int32 where all are ints, else float32. Raises ArgumentError for a step of 0.

    Shapes: (count,).
    Dtypes: any.
    Gradient: none: there is no operand.

    >>> oa.matrix.arange(engine, 1, 4).tolist()
    [1, 2, 3]
    """
    first, last = (0, start) if stop is None else (start, stop)
    for name, number in (("start", first), ("stop", last), ("step", step)):
        if not isinstance(number, (int, float)) or not abs(number) < math.inf:
            raise ArgumentError(f"matrix.arange: {name} is {shown(number)}; wanted a finite Python number")
    if step == 0:
        raise ArgumentError("matrix.arange: step is 0")
    integral = all(isinstance(v, int) for v in (first, last, step))
    wanted = as_dtype(dtype) if dtype is not None else (int32 if integral else float32)
    count = max(0, int(-(-(last - first) // step)) if integral else math.ceil((last - first) / step))
    if count == 0:
        return zeros(device, (0,), dtype=wanted)
    if wanted.is_integer:
        _fit(first + (count - 1) * step, wanted, "matrix.arange")
    return _arange(
        _scalar(device, wanted, _fit(first, wanted, "matrix.arange")),
        _scalar(device, wanted, step if wanted.kind == "u" else _fit(step, wanted, "matrix.arange")),
        count,
    )


@leading_engine
def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Matrix:
    """`eye([engine,] n_rows, n_cols=n_rows)`: 1 on the k-th diagonal, 0 elsewhere.

    Shapes: (n_rows, n_cols).
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: ShapeError for a negative extent.

    >>> oa.matrix.eye(engine, 2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    rows, columns = as_shape((n_rows, n_rows if n_cols is None else n_cols), "matrix.eye")
    wanted = as_dtype(_either(dtype, float32))
    one, zero = (_scalar(device, wanted, _fit(v, wanted, "matrix.eye")) for v in (1, 0))
    return _eye(one, zero, rows, columns, diagonal(k, rows, columns, "matrix.eye"))


@leading_engine
def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Matrix:
    """`linspace([engine,] start, stop, num)`: `num` evenly spaced values, by default with both ends.

    Shapes: (num,).
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: ArgumentError for a negative `num`; DTypeError for a dtype that `oa` does not have.

    >>> oa.matrix.linspace(engine, 0.0, 1.0, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    either = isinstance(start, complex) or isinstance(stop, complex)
    wanted = as_dtype(_either(dtype, complex64 if either else float32))
    (count,) = as_shape((num,), "matrix.linspace")
    try:
        with np.errstate(all="ignore"):
            first, last = (v if isinstance(v, complex) else as_float(v) for v in (start, stop))
            kind: Any = np.complex128 if wanted.is_complex or either else np.float64
            made: Any = np.linspace(first, last, count, endpoint=endpoint, dtype=kind)
    except (ValueError, MemoryError):
        raise OutOfMemory(f"matrix.linspace: the host cannot hold {count:,} values; ask for fewer") from None
    return from_numpy(device, made, dtype=wanted)


def _host_first(engine: Any, values: Any, what: str) -> tuple[Any, Any]:
    """(engine or None, values) of a call that may leave the engine out."""
    if values is None and isinstance(engine, Engine):
        raise ArgumentError(f"{what} is None; wanted numbers on the host")
    return (None, engine) if values is None else (engine, values)


def from_numpy(engine: Any, array: Any = None, *, dtype: Any = None, device: Any = None) -> Matrix:
    """A copy of a NumPy array of any strides and byte order; `from_numpy(array)` uses the default engine.

    The array's dtype is kept unless `dtype` asks for another.

    Shapes: any of rank up to 8; the result has it too.
    Dtypes: any.
    Gradient: none: there is no operand.
    Raises: DTypeError for a dtype `oa` does not have or that cannot hold the elements; Unsupported for one that the
    device lacks.

    >>> oa.matrix.from_numpy(engine, np.array([[1, 2]], np.int32)).tolist()
    [[1, 2]]
    """
    engine, array = _host_first(engine, array, "matrix.from_numpy: array")
    chosen = engine_of(engine, device)
    try:
        found = np.asarray(array)
    except ValueError as error:
        raise ArgumentError(f"matrix.from_numpy: array is no array: {error}") from None
    wanted = as_dtype(dtype) if dtype is not None else _own_dtype(found)
    return chosen.upload(
        spec(wanted, as_shape(found.shape, "matrix.from_numpy")), _converted(found, wanted), Matrix
    )


def _own_dtype(array: np.ndarray[Any, Any]) -> DType:
    try:
        return as_dtype(array.dtype.newbyteorder("="))
    except DTypeError:
        hint = {"f": "float32", "i": "int32", "u": "uint32", "c": "complex64"}.get(array.dtype.kind)
        mend = f"; ask for it: from_numpy(engine, array, dtype=oa.{hint})" if hint else ""
        raise DTypeError(f"matrix.from_numpy: dtype {array.dtype} is not supported{mend}") from None


def _converted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    if array.dtype.name == "bfloat16" and dtype is not bfloat16:
        array = widened(bits_of(array))
    elif dtype is bfloat16 and array.dtype.kind in "biufV":
        return bits_of(array)
    if array.dtype.kind == "c" and not dtype.is_complex:
        raise DTypeError(
            f"matrix.from_numpy: complex numbers do not fit {dtype.name}; take array.real, or ask for dtype=oa.complex64"
        )
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"matrix.from_numpy: dtype {array.dtype} holds no numbers oa has")
    if dtype.is_integer and array.dtype.kind == "f":
        return _saturated(array, dtype)
    if dtype.is_integer and array.dtype.kind in "iu" and array.size:
        info = np.iinfo(dtype.numpy)
        low, high = int(array.min()), int(array.max())
        if low < info.min or high > info.max:
            raise DTypeError(
                f"matrix.from_numpy: values from {low} to {high} do not fit {dtype.name} [{info.min}, {info.max}];"
                " choose a wider dtype, or clip the array first"
            )
    with np.errstate(over="ignore"):
        return array.astype(dtype.numpy, copy=False)


def _saturated(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Floats as integers the way `astype` converts them: truncated, saturated at the ends, NaN as 0."""
    info = np.iinfo(dtype.numpy)
    wide = array.astype(np.float64)
    high, low = wide >= float(info.max), wide <= float(info.min)
    inside = np.where(high | low | np.isnan(wide), 0.0, wide).astype(dtype.numpy)
    return np.where(high, info.max, np.where(low, info.min, inside)).astype(dtype.numpy)


def from_list(engine: Any, values: Any = None, *, dtype: Any = None, device: Any = None) -> Matrix:
    """Nested lists of numbers: bool, int32, float32 or complex64 by the highest kind in them. Raises ShapeError for ragged lists.

    Shapes: of the nested lists.
    Dtypes: any.
    Gradient: none: there is no operand.

    >>> oa.matrix.from_list(engine, [[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    engine, values = _host_first(engine, values, "matrix.from_list: values")
    try:
        array = np.array(values)
    except ValueError:
        array = np.array(0, object)
    if array.dtype == object:
        raise ShapeError("matrix.from_list: the lists are ragged or hold something that is no number")
    wanted = as_dtype(dtype) if dtype is not None else DEFAULT_OF_KIND.get(array.dtype.kind, float32)
    if array.size == 0 and dtype is None:
        wanted = float32
    if wanted.is_integer and array.size:
        _fit(array.min().item(), wanted, "matrix.from_list")
        _fit(array.max().item(), wanted, "matrix.from_list")
    return from_numpy(engine, array, dtype=wanted, device=device)


def from_f32(engine: Any, values: Sequence[float], shape: Any = None, *, device: Any = None) -> Matrix:
    """A flat sequence of floats as float32, in row-major order under `shape` (default: rank 1).

    Shapes: `shape`, or (n,) of n values.
    Dtypes: none taken; the result is float32.
    Gradient: none: there is no operand.
    Raises: ShapeError when the values do not fill the shape.

    >>> oa.matrix.from_f32(engine, [1.0, 2.0, 3.0, 4.0], (2, 2)).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(values, dtype=np.float32).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(
            f"matrix.from_f32: values are {shown(values)}; wanted a flat sequence of numbers"
        ) from None
    wanted = (array.size,) if shape is None else as_shape(shape, "matrix.from_f32")
    if math.prod(wanted) != array.size:
        raise ShapeError(f"matrix.from_f32: {array.size} values do not fill shape {wanted}")
    return from_numpy(engine, array.reshape(wanted), device=device)
