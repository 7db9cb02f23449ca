"""DLPack on the device: capsules of memory that CUDA's libraries share, and copies on the device of what theirs hold.

Structures and numbers are those of DLPack 1.0 (dlpack.h).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from oa._graph.views import Layout, contiguous
from oa._schema.dtype import ALL, DType, bfloat16
from oa._schema.spec import Spec, contiguous_strides, spec
from oa.errors import ArgumentError, DTypeError

if TYPE_CHECKING:
    from oa.engine import Engine

#: DLPack's numbers of the host and of CUDA's devices.
HOST, CUDA = 1, 2
_READ_ONLY, _COPIED = 1, 2
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_LEGACY_DEFAULT = 1  # the stream that None means and that copies are made on


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", c_int32),
        ("ordinal", c_int32),
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_KINDS = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


def _function(name: str, result: Any, *types: Any) -> Any:
    found = ctypes.PYFUNCTYPE(result, *types)((name, ctypes.pythonapi))
    return found


_new_capsule = _function("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, _Deleter)
_name_of = _function("PyCapsule_GetName", c_char_p, c_void_p)
_pointer_of = _function("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)

#: What consumers hold, by the address of its structure: the structure, its extents and strides, and the loan.
_HELD: dict[int, tuple[Any, ...]] = {}


@_Deleter
def _drop(address: int | None) -> None:
    """The deleter of a managed tensor; any thread."""
    _HELD.pop(address or 0, None)


@_Deleter
def _drop_unused(capsule: int | None) -> None:
    """The destructor of a capsule: one that nobody has renamed was never consumed."""
    name = _name_of(capsule)
    if name in _KINDS:
        _drop(_pointer_of(capsule, name))


# Consumers may drop tensors while the interpreter ends: what they call then must still be there.
for _kept in (_drop, _drop_unused):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


def stream_of(stream: Any) -> int:
    """The handle of the consumer's stream: None means the legacy default stream, -1 no ordering on a stream."""
    if stream is None:
        return _LEGACY_DEFAULT
    if isinstance(stream, bool) or not isinstance(stream, int) or stream == 0 or stream < -1:
        raise ArgumentError(
            f"__dlpack__: stream is {stream!r}; wanted None, -1, 1 (CUDA's legacy default stream), 2 (the default stream of"
            " the thread) or a stream's handle; 0 says too little"
        )
    return stream


def lent(x: Any, *, stream: Any, max_version: tuple[int, int] | None, copied: bool) -> Any:
    """The capsule of a Matrix in device memory, read-only but for a copy of the consumer's own."""
    engine, handle = x._engine, stream_of(stream)
    engine.materialize(x._value)
    if any(s < 0 for s in (x._value.layout or contiguous(x.shape)).strides):  # torch takes none
        x = x.copy()
    loan = engine.lend(x._value, handle)
    layout = x._value.layout or contiguous(x.shape)
    versioned = max_version is not None and max_version[0] >= 1
    made: Any = _Versioned() if versioned else _Managed()
    rank = len(x.shape)
    extents, strides = (c_int64 * max(1, rank))(*x.shape), (c_int64 * max(1, rank))(*layout.strides)
    dtype = x.dtype
    made.tensor = _Tensor(
        data=loan.pointer + layout.offset * dtype.itemsize if x.size else None,
        device=CUDA,
        ordinal=engine.cuda_ordinal(),
        rank=rank,
        code=_BFLOAT if dtype is bfloat16 else _CODES[dtype.kind],
        bits=dtype.bits,
        lanes=1,
        shape=ctypes.cast(extents, POINTER(c_int64)),
        strides=ctypes.cast(strides, POINTER(c_int64)),
    )
    made.deleter = ctypes.cast(_drop, c_void_p)
    if versioned:
        made.major, made.flags = 1, _COPIED if copied else _READ_ONLY
    address = ctypes.addressof(made)
    _HELD[address] = (made, extents, strides, loan)
    try:
        return _new_capsule(address, b"dltensor_versioned" if versioned else b"dltensor", _drop_unused)
    except BaseException:
        _drop(address)
        raise


def borrowed(engine: Engine, x: Any) -> tuple[Spec, Any, Layout]:
    """Spec, storage and layout of a copy on the device of what another library holds there."""
    try:
        capsule = x.__dlpack__(stream=_LEGACY_DEFAULT, max_version=(1, 0))
    except TypeError:  # a producer from before versions
        capsule = x.__dlpack__(stream=_LEGACY_DEFAULT)
    name = _name_of(id(capsule))
    if name not in _KINDS:
        raise ArgumentError(f"matrix.from_dlpack: the {type(x).__name__} gave no unused DLPack capsule")
    tensor = _KINDS[name].from_address(_pointer_of(id(capsule), name)).tensor
    if (tensor.device, tensor.ordinal) != (CUDA, engine.cuda_ordinal()):
        raise ArgumentError(
            f"matrix.from_dlpack: the elements are on device ({tensor.device}, {tensor.ordinal}), the engine's is"
            f" ({CUDA}, {engine.cuda_ordinal()}); copy them to the host first"
        )
    found = spec(_dtype(tensor, x), tuple(tensor.shape[: tensor.rank]))
    item = found.dtype.itemsize
    strides = list(tensor.strides[: tensor.rank]) if tensor.strides else list(contiguous_strides(found.shape))
    strides = [s if e > 1 else 0 for s, e in zip(strides, found.shape)]
    if not found.size:
        return found, engine.borrow(0, 0, capsule), contiguous(found.shape)
    low = sum((e - 1) * s for e, s in zip(found.shape, strides) if s < 0)
    high = sum((e - 1) * s for e, s in zip(found.shape, strides) if s > 0)
    start = (tensor.data or 0) + tensor.byte_offset + low * item
    storage = engine.borrow(start, (high - low + 1) * item, capsule)
    return found, storage, Layout(-low, tuple(strides))


def _dtype(tensor: Any, x: Any) -> DType:
    for dtype in ALL:
        code = _BFLOAT if dtype is bfloat16 else _CODES[dtype.kind]
        if (tensor.code, tensor.bits, tensor.lanes) == (code, dtype.bits, 1):
            return dtype
    raise DTypeError(
        f"matrix.from_dlpack: the {type(x).__name__} has DLPack's dtype code {tensor.code} of {tensor.bits} bits, which oa"
        " lacks; convert it to another dtype first"
    )


__all__ = ["CUDA", "HOST", "borrowed", "lent", "stream_of"]
