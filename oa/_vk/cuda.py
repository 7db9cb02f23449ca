"""CUDA's driver library as far as sharing needs it: exported Vulkan memory and semaphores imported, copies and waits on streams.

`libcuda.so.1` comes with NVIDIA's driver. It is opened when sharing is first asked for and never otherwise; nothing of the CUDA
toolkit is used. Layouts and names are those of the CUDA driver API reference, 12.x.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from oa.errors import OutOfMemory, Unsupported

_LIBRARY = "libcuda.so.1"
_MEMORY_FD, _TIMELINE_FD = 1, 9  # CUexternalMemoryHandleType, CUexternalSemaphoreHandleType
_OUT_OF_MEMORY = 2
#: What to do where sharing is impossible.
HOST_WAY = "go through the host instead: np.asarray(x), oa.matrix.from_numpy(engine, tensor.cpu().numpy())"


class _Handle(ctypes.Union):
    _fields_ = [("fd", c_int), ("room", c_void_p * 2)]


class _MemoryHandle(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC."""

    _fields_ = [
        ("type", c_int),
        ("handle", _Handle),
        ("size", c_uint64),
        ("flags", c_uint),
        ("reserved", c_uint * 16),
    ]


class _MemoryRange(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = [("offset", c_uint64), ("size", c_uint64), ("flags", c_uint), ("reserved", c_uint * 16)]


class _SemaphoreHandle(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC."""

    _fields_ = [("type", c_int), ("handle", _Handle), ("flags", c_uint), ("reserved", c_uint * 16)]


class _Fence(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS and _WAIT_PARAMS, which differ in parts that are 0 here."""

    _fields_ = [("value", c_uint64), ("others", c_uint64 * 8), ("flags", c_uint), ("reserved", c_uint * 16)]


_COMMANDS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetUuid": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuCtxSynchronize": (),
    "cuImportExternalMemory": (POINTER(c_void_p), POINTER(_MemoryHandle)),
    "cuExternalMemoryGetMappedBuffer": (POINTER(c_uint64), c_void_p, POINTER(_MemoryRange)),
    "cuDestroyExternalMemory": (c_void_p,),
    "cuMemFree_v2": (c_uint64,),
    "cuImportExternalSemaphore": (POINTER(c_void_p), POINTER(_SemaphoreHandle)),
    "cuDestroyExternalSemaphore": (c_void_p,),
    "cuSignalExternalSemaphoresAsync": (POINTER(c_void_p), POINTER(_Fence), c_uint, c_void_p),
    "cuWaitExternalSemaphoresAsync": (POINTER(c_void_p), POINTER(_Fence), c_uint, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
}


class Cuda:
    """The primary context, which torch and CuPy use too, of the CUDA device with a Vulkan device's UUID.

    `ordinal` is CUDA's number of the device. The context stays retained as long as the process lives. Raises Unsupported
    without the library, without that device, or where CUDA answers with an error.
    """

    def __init__(self, uuid: str) -> None:
        self.pid = os.getpid()
        try:
            library = ctypes.CDLL(_LIBRARY)
            self._calls = {name: getattr(library, name) for name in _COMMANDS}
        except (OSError, AttributeError) as error:
            raise Unsupported(f"sharing with CUDA needs {_LIBRARY} ({error}); {HOST_WAY}") from None
        for name, types in _COMMANDS.items():
            self._calls[name].argtypes = types
        self._call("cuInit", 0)
        found = self.devices()
        if uuid not in found:
            raise Unsupported(
                f"sharing with CUDA: none of its devices is {uuid}, it sees {', '.join(found) or 'none'}; {HOST_WAY}"
            )
        self.ordinal = found.index(uuid)
        number = c_int()
        self._call("cuDeviceGet", byref(number), self.ordinal)
        self._context = c_void_p()
        self._call("cuDevicePrimaryCtxRetain", byref(self._context), number)

    def devices(self) -> list[str]:
        """UUIDs of the devices that CUDA sees, as 32 hexadecimal digits, by ordinal."""
        count, number, found = c_int(), c_int(), []
        self._call("cuDeviceGetCount", byref(count))
        for ordinal in range(count.value):
            raw = (ctypes.c_ubyte * 16)()
            self._call("cuDeviceGet", byref(number), ordinal)
            self._call("cuDeviceGetUuid", raw, number)
            found.append(bytes(raw).hex())
        return found

    def _call(self, name: str, *args: Any) -> None:
        code = self._calls[name](*args)
        if code:
            said = c_char_p()
            self._calls["cuGetErrorName"](code, byref(said))
            what = f"sharing with CUDA: {name} answered {(said.value or b'').decode() or code}"
            if code == _OUT_OF_MEMORY:
                raise OutOfMemory(what)
            raise Unsupported(f"{what}; {HOST_WAY}")

    @contextmanager
    def _current(self) -> Iterator[None]:
        """The context on top of whatever the thread has."""
        self._call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def memory(self, fd: int, allocated: int, size: int) -> CudaMemory:
        """Exported memory of `allocated` bytes, whose first `size` are mapped. Takes the descriptor over."""
        handle = _MemoryHandle(type=_MEMORY_FD, size=allocated)
        handle.handle.fd = fd
        made, pointer = c_void_p(), c_uint64()
        with self._current():
            try:
                self._call("cuImportExternalMemory", byref(made), byref(handle))
            except BaseException:
                os.close(fd)
                raise
            try:
                span = _MemoryRange(size=size)
                self._call("cuExternalMemoryGetMappedBuffer", byref(pointer), made, byref(span))
            except BaseException:
                self._call("cuDestroyExternalMemory", made)
                raise
        return CudaMemory(self, made, pointer.value)

    def semaphore(self, fd: int) -> CudaSemaphore:
        """An exported timeline semaphore. Takes the descriptor over."""
        handle = _SemaphoreHandle(type=_TIMELINE_FD)
        handle.handle.fd = fd
        made = c_void_p()
        with self._current():
            try:
                self._call("cuImportExternalSemaphore", byref(made), byref(handle))
            except BaseException:
                os.close(fd)
                raise
        return CudaSemaphore(self, made)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy bytes between device addresses, in the stream's order."""
        with self._current():
            self._call("cuMemcpyDtoDAsync_v2", target, source, size, stream)

    def synchronize(self) -> None:
        """Wait for everything that the context was given, on any stream."""
        with self._current():
            self._call("cuCtxSynchronize")

    def fence(self, command: str, semaphore: Any, value: int, stream: int) -> None:
        """Signal or wait for a semaphore's value in the stream's order."""
        with self._current():
            self._call(
                f"cu{command}ExternalSemaphoresAsync", byref(semaphore), byref(_Fence(value=value)), 1, stream
            )

    def free(self, steps: Sequence[tuple[str, Any]]) -> None:
        """Run what frees something, once no stream uses it. Nothing in a forked child."""
        if self.pid == os.getpid():
            with self._current():
                self._call("cuCtxSynchronize")
                for name, argument in steps:
                    self._call(name, argument)


class CudaMemory:
    """Vulkan memory as CUDA sees it, from `pointer` on; it lives as long as this object, whatever Vulkan frees."""

    __slots__ = ("_cuda", "_handle", "pointer")

    def __init__(self, cuda: Cuda, handle: Any, pointer: int) -> None:
        self._cuda, self._handle, self.pointer = cuda, handle, pointer

    def __del__(self) -> None:
        self._cuda.free((("cuMemFree_v2", self.pointer), ("cuDestroyExternalMemory", self._handle)))


class CudaSemaphore:
    """A Vulkan timeline that streams wait for and signal."""

    __slots__ = ("_cuda", "_handle")

    def __init__(self, cuda: Cuda, handle: Any) -> None:
        self._cuda, self._handle = cuda, handle

    def wait(self, value: int, stream: int) -> None:
        """Hold the stream back until the timeline reaches `value`."""
        self._cuda.fence("Wait", self._handle, value, stream)

    def signal(self, value: int, stream: int) -> None:
        """Set the timeline to `value` when the stream gets there."""
        self._cuda.fence("Signal", self._handle, value, stream)

    def close(self) -> None:
        """Free the import; the timeline stays."""
        self._cuda.free((("cuDestroyExternalSemaphore", self._handle),))


__all__ = ["HOST_WAY", "Cuda", "CudaMemory", "CudaSemaphore"]
