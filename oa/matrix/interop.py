"""Values from other libraries: anything that NumPy can see, nested sequences, DLPack capsules on host and device."""

from __future__ import annotations

from typing import Any

import numpy as np

from oa._schema.dtype import DType, as_dtype, bfloat16
from oa.errors import ArgumentError, CopyError, DTypeError
from oa.matrix import lending
from oa.matrix.bfloat import widened
from oa.matrix.capsule import Lent
from oa.matrix.create import engine_of, from_list, from_numpy, full
from oa.matrix.elementwise import astype, positive
from oa.matrix.shape import stack
from oa.matrix.surface import shown
from oa.matrix.value import Matrix


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Matrix:
    """A Matrix of a Matrix, a Python number, nested sequences of numbers, a NumPy array or anything with a buffer.

    Python numbers give bool, int32 or float32; arrays keep their dtype. `asarray(engine, obj)` puts the engine first.
    `copy=False` is possible for a Matrix of the same engine and dtype alone and raises ArgumentError otherwise.

    Shapes: of the object.
    Dtypes: any.
    Gradient: g of a Matrix; none of anything else.
    Raises: CopyError, an ArgumentError, for `copy=False` where elements must move; ShapeError for ragged lists;
    DTypeError for a dtype `oa` does not have.

    >>> oa.matrix.asarray([[1, 2], [3, 4]], device=engine).tolist()
    [[1, 2], [3, 4]]
    """
    if isinstance(obj, Matrix):
        return _again(obj, dtype, device, copy)
    if copy is False:
        raise CopyError(f"matrix.asarray: copy=False, but a {type(obj).__name__} is on the host")
    engine = engine_of(None, device)
    if isinstance(obj, (bool, int, float, complex)):
        return full(engine, (), obj, dtype=dtype)
    if isinstance(obj, (list, tuple)):
        if any(isinstance(v, Matrix) for v in obj):
            made = stack([asarray(v, device=device or _engine_in(obj)) for v in obj])
            return made if dtype is None else astype(made, dtype)
        return from_list(engine, obj, dtype=dtype)
    if hasattr(obj, "__dlpack_device__") and (near := _near(engine, obj)) is not None:
        return near if dtype is None else astype(near, dtype)
    if hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
        held, own = _on_host(obj)
        return from_numpy(engine, held, dtype=own if dtype is None else dtype)
    array = np.asarray(obj)
    if array.dtype.kind not in "biufc" and array.dtype.name != "bfloat16":
        raise ArgumentError(
            f"matrix.asarray: obj is {shown(obj)}; wanted numbers, nested or in an array, or a Matrix"
        )
    return from_numpy(engine, array, dtype=dtype)


def _engine_in(values: Any) -> Any:
    return next(v.engine for v in values if isinstance(v, Matrix))


def _again(x: Matrix, dtype: Any, device: Any, copy: bool | None) -> Matrix:
    wanted = x.dtype if dtype is None else as_dtype(dtype)
    elsewhere = device is not None and device is not x.engine
    if copy is False and (wanted is not x.dtype or elsewhere):
        raise CopyError("matrix.asarray: copy=False, but another dtype or engine needs a copy")
    if copy is False:
        return x  # the object itself, so that an assignment to it is seen
    if copy and not elsewhere and wanted is x.dtype:
        return positive(x) if x.dtype.kind != "b" else x.copy()
    return astype(x, wanted, device=device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Matrix:
    """A Matrix from any object with `__dlpack__`. Its elements are always copied, on the device where CUDA holds them there.

    Shapes: of the object.
    Dtypes: any.
    Gradient: g of a Matrix; none of anything else.
    Raises: CopyError, an ArgumentError, for `copy=False` where elements must move; DTypeError for a dtype `oa` does not
    have.

    >>> oa.matrix.from_dlpack(np.arange(3, dtype=np.int32), device=engine).tolist()
    [0, 1, 2]
    """
    if isinstance(x, Matrix):
        return _again(x, None, device, copy)
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(
            f"matrix.from_dlpack: x is {shown(x)}, without __dlpack__; see oa.matrix.asarray for lists and numbers"
        )
    if copy is False:
        raise CopyError(
            "matrix.from_dlpack: copy=False, but elements are always copied into the engine's memory"
        )
    engine = engine_of(None, device)
    if (near := _near(engine, x)) is not None:
        return near
    held, own = _on_host(x)
    return from_numpy(engine, held, dtype=own)


def _near(engine: Any, x: Any) -> Matrix | None:
    """A copy made on the device of what another library holds there; None where it holds it elsewhere."""
    kind, ordinal = map(int, x.__dlpack_device__())
    if kind != lending.CUDA or ordinal != engine.cuda_ordinal():
        return None
    spec, storage, layout = lending.borrowed(engine, x)
    made: Matrix = engine.stored_value(spec, storage, Matrix, layout)
    return made


def _on_host(x: Any) -> tuple[np.ndarray[Any, Any], DType | None]:
    """The producer's elements as a NumPy array, a view where the producer lends one; of bfloat16 as float32, and the dtype."""
    kind, index = x.__dlpack_device__()
    if int(kind) not in _HOSTS:
        raise ArgumentError(
            f"matrix.from_dlpack: the {type(x).__name__} is on device ({int(kind)}, {index}); copy it to the host first"
        )
    lent = Lent(x)
    try:
        found = np.from_dlpack(lent)
    except RuntimeError as error:  # what NumPy says of a dtype that it does not have
        raise DTypeError(
            f"matrix.from_dlpack: {error}; convert the {type(x).__name__} to another dtype first"
        ) from None
    return (widened(found), bfloat16) if lent.is_bfloat16 else (found, None)


#: DLPack's numbers of devices whose memory the host reads: CPU, pinned for CUDA, pinned for ROCm, CUDA managed.
_HOSTS = (1, 3, 11, 13)

__all__ = ["asarray", "from_dlpack"]
