"""The Matrix: an immutable array of any rank up to 8 on one engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from oa._graph.node import again, stand_for
from oa._schema.dtype import DType, bfloat16
from oa._schema.registry import add_value_type
from oa._schema.value import Typed
from oa.errors import ArgumentError, CopyError, OaError, ShapeError, UfuncError
from oa.matrix import bfloat, capsule, lending

if TYPE_CHECKING:
    from oa.engine import Engine

#: What an elementwise operation takes: a Matrix, or a Python number (weak: it takes the dtype of the Matrix it meets).
Operand = Union["Matrix", bool, int, float, complex]


@add_value_type
class Matrix(Typed):
    """An array on a device. Immutable: operations return new values, `m[k] = v` and `+=` rebind this name's value.

    Make one with `oa.matrix.from_numpy`, `zeros`, `full`, ...; read it with `to_numpy`, `tolist`, `item`.
    Operations are recorded at once and run when a value is read.
    """

    __slots__ = ()
    __array_priority__ = 1000

    # -- description

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return self._value.spec.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._value.spec.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._value.spec.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._value.spec.size

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self._value.spec.nbytes

    @property
    def engine(self) -> Engine:
        """The engine that holds the value."""
        return self._engine

    @property
    def device(self) -> Engine:
        """The engine: the array API's device object."""
        return self._engine

    @property
    def is_ready(self) -> bool:
        """Whether the value has been computed and submitted; never submits anything."""
        return self._value.storage is not None

    # -- observation

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """A NumPy copy. Runs what is pending and waits.

        Of bfloat16, which NumPy lacks, an array of ml_dtypes.bfloat16; DTypeError where that package is not installed.
        """
        found: np.ndarray[Any, Any] = self._engine.read(self._value)
        return bfloat.as_numpy(found) if self.dtype is bfloat16 else found

    def _numbers(self) -> np.ndarray[Any, Any]:
        """As `to_numpy`, bfloat16 as float32."""
        found: np.ndarray[Any, Any] = self._engine.read(self._value)
        return bfloat.widened(found) if self.dtype is bfloat16 else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise CopyError("np.asarray(matrix, copy=False): reading a device value always copies")
        self._hidden("numpy")
        found = self.to_numpy()
        return found if dtype is None else found.astype(dtype, copy=False)

    def tolist(self) -> Any:
        """Nested Python lists; a number for rank 0."""
        return self._numbers().tolist()

    def to_list(self) -> list[Any]:
        """All elements in row-major order as one flat list."""
        return self._numbers().reshape(-1).tolist()

    def read_f32(self) -> list[float]:
        """All elements of a float32 value in row-major order as one flat list of floats."""
        if self.dtype.name != "float32":
            raise ArgumentError(
                f"read_f32: the value is {self.dtype.name}; cast it with .astype(oa.float32) first"
            )
        return self.to_list()

    def try_read(self) -> np.ndarray[Any, Any] | None:
        """A NumPy copy when the value has been computed, else None; never runs anything."""
        return self.to_numpy() if self.is_ready else None

    def item(self) -> Any:
        """The only element as a Python number."""
        if self.size != 1:
            raise ShapeError(
                f"item: the value has {self.size} elements, wanted 1; index it first, or use tolist()"
            )
        return self._numbers().reshape(-1)[0].item()

    def _hidden(self, construct: str) -> None:
        """Called before a read that the user's code does not name; see `Engine.warn_on_sync`."""
        if self._engine.warn_on_sync:
            self._engine.report_sync(construct, self._value)

    def __float__(self) -> float:
        self._hidden("float()")
        return float(self.item())

    def __int__(self) -> int:
        self._hidden("int()")
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(
                f"the truth of {self.size} elements is ambiguous; use oa.matrix.any or oa.matrix.all"
            )
        self._hidden("bool()")
        return bool(self.item())

    def __complex__(self) -> complex:
        self._hidden("complex()")
        return complex(self.item())

    def __index__(self) -> int:
        if not self.dtype.is_integer or self.ndim != 0:
            raise TypeError(f"only a rank-0 integer value can be an index, not {self._value.spec!r}")
        self._hidden("an index")
        return int(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a rank-0 value")
        return self.shape[0]

    def __iter__(self) -> Iterator[Matrix]:
        """The slices along the first axis. The value is downloaded once; reading a slice then costs no transfer."""
        if not self.shape:
            raise TypeError("iteration over a rank-0 value")
        return self._rows()

    def _rows(self) -> Iterator[Matrix]:
        self._hidden("iteration")
        held = None if self._engine.is_recording else self._engine.read(self._value)
        for k in range(self.shape[0]):
            row = self[k]
            if held is not None:
                row._value.host = held[k]
            yield row

    def __repr__(self) -> str:
        head = f"shape={self.shape}, dtype={self.dtype.name}"
        value = self._value
        if value.error is not None:
            return f"Matrix(failed, {head})"
        if self._engine.is_recording or (value.storage is None and value.batch is None):
            return f"Matrix(captured, {head})"
        self._hidden("print")
        try:
            text = np.array2string(self._numbers(), threshold=64, edgeitems=3, precision=6, prefix="Matrix(")
        except OaError as error:
            return f"Matrix(unreadable: {type(error).__name__}, {head})"
        return f"Matrix({text}, {head})"

    # -- conversion

    def astype(self, dtype: Any) -> Matrix:
        """The elements in another dtype; see `oa.matrix.astype`."""
        return _operations.astype(self, dtype)

    def copy(self) -> Matrix:
        """The same elements in storage of their own."""
        return _operations.copy(self)

    def reshape(self, *shape: Any) -> Matrix:
        """The elements under another shape; see `oa.matrix.reshape`."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return _operations.reshape(self, wanted)

    def transpose(self, *axes: int) -> Matrix:
        """All axes reversed, or two swapped; see `oa.matrix.transpose`."""
        return _operations.transpose(self, *axes)

    @property
    def T(self) -> Matrix:
        """The transpose of a rank-2 value."""
        if self.ndim != 2:
            raise ShapeError(f"T: the value has rank {self.ndim}, wanted 2; use oa.matrix.permute_dims")
        return _operations.transpose(self)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Matrix:
        """See `oa.matrix.sum`."""
        return _operations.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Matrix:
        """See `oa.matrix.mean`."""
        return _operations.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Matrix:
        """See `oa.matrix.max`."""
        return _operations.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Matrix:
        """See `oa.matrix.min`."""
        return _operations.min(self, axis=axis, keepdims=keepdims)

    @property
    def mT(self) -> Matrix:
        """The last two axes swapped."""
        return _operations.matrix_transpose(self)

    def to_device(self, device: Any, *, stream: Any = None) -> Matrix:
        """The same elements on another Engine, copied through the host; `stream` must be None."""
        if stream is not None:
            raise ArgumentError("to_device: an Engine orders its own work; stream must be None")
        if not isinstance(device, _operations.create.Engine):
            raise ArgumentError(
                f"to_device: device is {device!r}; wanted an oa.Engine, the array API's device object. Make one: oa.Engine()"
            )
        return (
            self
            if device is self._engine
            else _operations.from_numpy(device, self._numbers(), dtype=self.dtype)
        )

    # -- protocols

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`oa.matrix`, the array API namespace of this value. Raises ArgumentError for an unknown version."""
        _operations.namespace.check_version(api_version)
        return _operations

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule: of the device's memory where CUDA reaches it, else of a copy on the host.

        Device memory is shared, read-only; the consumer's `stream` waits for the value. `dl_device=(1, 0)` asks for the host,
        `copy=True` for elements of the consumer's own. Raises ArgumentError for a device or stream that there is not, CopyError
        for `copy=False` on the host.
        """
        own = self.__dlpack_device__()
        wanted = own if dl_device is None else tuple(map(int, dl_device))
        if wanted == own != _HOST:
            held = self.copy() if copy else self
            return lending.lent(held, stream=stream, max_version=max_version, copied=bool(copy))
        if copy is False:
            raise CopyError("__dlpack__: copy=False, but reading a device value always copies")
        if stream is not None and own == _HOST:
            raise ArgumentError("__dlpack__: the capsule holds host memory; stream must be None")
        if wanted != _HOST:
            raise ArgumentError(
                f"__dlpack__: dl_device {dl_device}; the value is on {own}, a copy on the host (1, 0)"
            )
        how: dict[str, Any] = {} if max_version is None else {"max_version": max_version}
        if self.dtype is bfloat16:
            return capsule.exported(self._engine.read(self._value), **how)
        return self.to_numpy().__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(2, CUDA's number of the device) where CUDA reaches the engine's device, else the host, (1, 0)."""
        ordinal = self._engine.cuda_ordinal()
        return _HOST if ordinal is None else (lending.CUDA, ordinal)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles elements and dtype, not the engine: loading puts the value on the default engine of its thread."""
        self._hidden("pickle")
        if self.dtype is bfloat16:
            return _narrowed, (self._numbers(),)
        return _operations.from_numpy, (self.to_numpy(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Matrix:
        """The same elements on the same engine. No elements move, since values are immutable."""
        return again(self)

    __copy__ = again

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """NumPy's functions refuse, naming the operation here; its scalars take part in operators as Python numbers do."""
        name = _name_here(ufunc.__name__)
        plain = all(isinstance(x, (Matrix, np.generic)) for x in inputs)
        if method == "__call__" and not named and name and plain and len(inputs) == 2:
            return getattr(_operations, name)(*inputs)
        if method != "__call__":
            name = _METHOD_NAMES.get((ufunc.__name__, method), "")
        raise _refused(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}", name)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """NumPy's other functions refuse where there is an operation here to name, and work on copies on the host elsewhere."""
        if name := _name_here(function.__name__):
            raise _refused(function.__name__, name)
        if function in (np.shape, np.ndim, np.size) and len(args) == 1 and not named:
            return getattr(args[0], function.__name__)
        return function._implementation(*args, **named)

    # -- indexing

    def __getitem__(self, key: Any) -> Matrix:
        return _operations.subscript.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Rebinds this object to a new value; views, cells and captured plans that took the old one keep it."""
        made = _operations.subscript.put(self, key, value)
        self._value = made._value
        stand_for(self)

    # -- operators

    def __add__(self, other: Any) -> Matrix:
        return _operations.add(self, other)

    def __radd__(self, other: Any) -> Matrix:
        return _operations.add(other, self)

    def __sub__(self, other: Any) -> Matrix:
        return _operations.subtract(self, other)

    def __rsub__(self, other: Any) -> Matrix:
        return _operations.subtract(other, self)

    def __mul__(self, other: Any) -> Matrix:
        return _operations.multiply(self, other)

    def __rmul__(self, other: Any) -> Matrix:
        return _operations.multiply(other, self)

    def __truediv__(self, other: Any) -> Matrix:
        return _operations.divide(self, other)

    def __rtruediv__(self, other: Any) -> Matrix:
        return _operations.divide(other, self)

    def __floordiv__(self, other: Any) -> Matrix:
        return _operations.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Matrix:
        return _operations.floor_divide(other, self)

    def __mod__(self, other: Any) -> Matrix:
        return _operations.remainder(self, other)

    def __rmod__(self, other: Any) -> Matrix:
        return _operations.remainder(other, self)

    def __pow__(self, other: Any) -> Matrix:
        return _operations.pow(self, other)

    def __rpow__(self, other: Any) -> Matrix:
        return _operations.pow(other, self)

    def __matmul__(self, other: Any) -> Matrix:
        return _operations.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Matrix:
        return _operations.matmul(other, self)

    def __and__(self, other: Any) -> Matrix:
        return _operations.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Matrix:
        return _operations.bitwise_and(other, self)

    def __or__(self, other: Any) -> Matrix:
        return _operations.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Matrix:
        return _operations.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Matrix:
        return _operations.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Matrix:
        return _operations.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Matrix:
        return _operations.bitwise_left_shift(self, other)

    def __rlshift__(self, other: Any) -> Matrix:
        return _operations.bitwise_left_shift(other, self)

    def __rshift__(self, other: Any) -> Matrix:
        return _operations.bitwise_right_shift(self, other)

    def __rrshift__(self, other: Any) -> Matrix:
        return _operations.bitwise_right_shift(other, self)

    def __eq__(self, other: Any) -> Matrix:  # type: ignore[override]
        return _operations.equal(self, other)

    def __ne__(self, other: Any) -> Matrix:  # type: ignore[override]
        return _operations.not_equal(self, other)

    def __lt__(self, other: Any) -> Matrix:
        return _operations.less(self, other)

    def __le__(self, other: Any) -> Matrix:
        return _operations.less_equal(self, other)

    def __gt__(self, other: Any) -> Matrix:
        return _operations.greater(self, other)

    def __ge__(self, other: Any) -> Matrix:
        return _operations.greater_equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Matrix:
        return _operations.negative(self)

    def __pos__(self) -> Matrix:
        return _operations.positive(self)

    def __abs__(self) -> Matrix:
        return _operations.abs(self)

    def __invert__(self) -> Matrix:
        return _operations.bitwise_invert(self)


def _narrowed(numbers: np.ndarray[Any, Any]) -> Matrix:
    """Loads a pickled bfloat16 value."""
    found: Matrix = _operations.from_numpy(numbers, dtype=bfloat16)
    return found


#: DLPack's number of the host.
_HOST = (1, 0)

#: NumPy functions whose name here is another.
_UFUNC_NAMES = {
    "true_divide": "divide",
    "power": "pow",
    "absolute": "abs",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "invert": "bitwise_invert",
    "concatenate": "concat",
    "hstack": "concat",
    "vstack": "concat",
    "append": "concat",
    "amax": "max",
    "amin": "min",
    "around": "round",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "dot": "matmul",
    "inner": "vecdot",
    "percentile": "quantile",
    "ravel": "reshape",
    "swapaxes": "transpose",
    "transpose": "permute_dims",
    "unique": "unique_values",
}
_METHOD_NAMES = {
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("add", "accumulate"): "cumulative_sum",
    ("multiply", "accumulate"): "cumulative_prod",
}


def _name_here(name: str) -> str:
    """The operation here that does what NumPy's function of that name does, or an empty string."""
    found = _UFUNC_NAMES.get(name, name)
    return found if found in _operations.__all__ else ""


def _refused(numpy_name: str, name: str) -> UfuncError:
    there = f"oa.matrix.{name}" if name else "operations of oa.matrix"
    return UfuncError(
        f"numpy.{numpy_name} takes no oa values: use {there}, or np.asarray(x) for a NumPy copy"
    )


#: The module `oa.matrix`, whose functions the methods call; set by that module, which imports this one.
_operations: Any = None
