"""Capsules of device memory, both ways, on any device: CUDA's side is a stand-in whose device memory is the host's."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa._schema.dtype import ALL
from oa.matrix import lending

SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 3, 4)]


class Loan:
    """Elements of a value in host memory."""

    def __init__(self, data: np.ndarray[Any, Any], live: list[int]) -> None:
        self.data, self.pointer, self.live = data, data.ctypes.data, live
        live.append(id(self))

    def __del__(self) -> None:
        self.live.remove(id(self))


class Tensor:
    """What a consumer makes of a capsule: here it keeps it as it is, and gives it on as a producer."""

    def __init__(self, x: Any, **how: Any) -> None:
        self.device, self.capsule = x.__dlpack_device__(), x.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        assert stream == 1
        return self.capsule


@pytest.fixture
def near(any_engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine that takes itself for CUDA's device 5; `live` and `streams` say what was lent."""
    live: list[int] = []
    streams: list[int] = []

    def lend(value: Any, stream: int) -> Loan:
        any_engine.materialize(value)
        streams.append(stream)
        return Loan(any_engine._transfer.download(value.storage, 0, value.storage.size), live)

    def borrow(source: int, size: int, keep: Any) -> Any:
        data = np.frombuffer(ctypes.string_at(source, size), np.uint8) if size else np.zeros(16, np.uint8)
        return any_engine._transfer.create(np.ascontiguousarray(data))

    monkeypatch.setattr(any_engine, "_cuda_ordinal", 5)
    monkeypatch.setattr(any_engine, "lend", lend)
    monkeypatch.setattr(any_engine, "borrow", borrow)
    any_engine.live_loans, any_engine.streams_seen = live, streams
    yield any_engine
    del any_engine.live_loans, any_engine.streams_seen


@pytest.mark.parametrize("dtype", [d.name for d in ALL])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("version", [None, (1, 0)], ids=str)
def test_there_and_back(near: Any, shape: tuple[int, ...], dtype: str, version: Any) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("float32")
    if not near.supports(dtype):
        pytest.skip(f"the device lacks {dtype}")
    x = m.from_numpy(near, array, dtype=dtype)
    assert x.__dlpack_device__() == (2, 5)
    back = m.from_dlpack(Tensor(x, max_version=version), device=near)
    assert (back.dtype, back.shape) == (x.dtype, x.shape) and back.tolist() == x.tolist()
    assert m.asarray(Tensor(x, max_version=version), device=near).tolist() == x.tolist()


def test_views(near: Any) -> None:
    x = m.from_numpy(near, np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    for view in (
        lambda a: a[:, ::-1],
        lambda a: a[1],
        lambda a: a[..., ::2],
        lambda a: m.permute_dims(a, (2, 0, 1)),
        lambda a: m.broadcast_to(a[:, :1], (2, 3, 4)),
    ):
        want = view(x)
        assert m.from_dlpack(Tensor(want), device=near).tolist() == want.tolist()


def test_loans_end_with_what_holds_them(near: Any) -> None:
    x = m.ones(near, (2, 3))
    unused = x.__dlpack__(max_version=(1, 0))
    assert len(near.live_loans) == 1
    del unused
    gc.collect()
    assert not near.live_loans, "a capsule that nobody consumed gives its loan back"
    used = x.__dlpack__()
    pointer, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    managed = lending._Managed.from_address(pointer(used, b"dltensor"))
    rename(used, b"used_dltensor")
    del used
    gc.collect()
    assert len(near.live_loans) == 1, "the consumer has it now"
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))
    gc.collect()
    assert not near.live_loans


def test_streams_and_flags(near: Any) -> None:
    x = m.ones(near, 3)
    for stream in (None, -1, 1, 2, 12345):
        x.__dlpack__(stream=stream)
    assert near.streams_seen == [1, -1, 1, 2, 12345]
    for wrong in (0, -2, "1", True):
        with pytest.raises(oa.errors.ArgumentError, match="stream is"):
            x.__dlpack__(stream=wrong)
    for copy, flags in ((None, 1), (False, 1), (True, 2)):
        capsule = x.__dlpack__(max_version=(1, 1), copy=copy)
        address = lending._pointer_of(id(capsule), b"dltensor_versioned")
        head = lending._Versioned.from_address(address)
        assert (head.major, head.flags) == (1, flags)


def test_the_host_can_be_asked_for(near: Any) -> None:
    x = m.arange(4, device=near)
    assert np.from_dlpack(Host(x)).tolist() == [0, 1, 2, 3]
    with pytest.raises(oa.errors.CopyError, match="copy=False"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(oa.errors.ArgumentError, match=r"the value is on \(2, 5\)"):
        x.__dlpack__(dl_device=(2, 4))


class Host:
    """A value asked for on the host."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **how: Any) -> Any:
        return self.x.__dlpack__(**{**how, "dl_device": (1, 0)})


def test_refusals(near: Any) -> None:
    class Elsewhere(Tensor):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 6)

    with pytest.raises(oa.errors.ArgumentError, match=r"device \(2, 6\)"):
        m.from_dlpack(Elsewhere(m.ones(near, 2)), device=near)
    with pytest.raises(oa.errors.CopyError, match="copy=False"):
        m.from_dlpack(Tensor(m.ones(near, 2)), device=near, copy=False)
