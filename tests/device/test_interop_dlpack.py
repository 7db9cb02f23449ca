"""DLPack through the host: capsules of both kinds out, any producer's arrays in, and torch both ways where it is installed."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa._schema.dtype import ALL

SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 3, 4)]


class Versioned(ctypes.Structure):
    """The head of a DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    ]


class Producer:
    """An object of another library: nothing but the two methods."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Old(Producer):
    """A producer from before versions and devices could be asked for."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()


def capsule_name(capsule: Any) -> bytes:
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(get(capsule))


def test_capsules_of_both_kinds(any_engine: Any) -> None:
    x = m.ones(any_engine, (2, 3))
    assert capsule_name(x.__dlpack__(dl_device=(1, 0))) == b"dltensor"
    assert capsule_name(x.__dlpack__(dl_device=(1, 0), max_version=(0, 8))) == b"dltensor"
    capsule = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True)
    assert capsule_name(capsule) == b"dltensor_versioned"
    point = ctypes.pythonapi.PyCapsule_GetPointer
    point.restype, point.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    head = Versioned.from_address(point(capsule, b"dltensor_versioned"))
    assert head.major == 1 and not head.flags & 1, "the copy belongs to the consumer, who may write to it"


@pytest.mark.parametrize("dtype", [d.name for d in ALL if d.name != "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numpy_in_both_directions(any_engine: Any, shape: tuple[int, ...], dtype: str) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    x = m.from_dlpack(array, device=any_engine)
    back = np.from_dlpack(x, device="cpu")
    assert (x.dtype.name, x.shape) == (dtype, shape) and back.dtype == array.dtype
    assert np.array_equal(back, array) and back.flags.writeable
    back[...] = 0
    assert np.array_equal(x.to_numpy(), array), "what a consumer writes does not reach the value"


def test_views(any_engine: Any) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = m.from_numpy(any_engine, array)
    for view in (lambda a: a[:, ::-1], lambda a: a[1], lambda a: a[..., ::2]):
        assert np.array_equal(np.from_dlpack(view(x), device="cpu"), view(array))
        assert np.array_equal(m.from_dlpack(view(array), device=any_engine).to_numpy(), view(array))
    assert np.array_equal(
        np.from_dlpack(m.permute_dims(x, (2, 0, 1)), device="cpu"), array.transpose(2, 0, 1)
    )
    assert np.array_equal(m.from_dlpack(array.T, device=any_engine).to_numpy(), array.T)


def test_odd_strides_of_axes_of_one(any_engine: Any) -> None:
    array = np.arange(4, dtype=np.float32)
    for strides in ((12345 * 4, 4), (0, 4), (-64, 4)):
        odd = np.lib.stride_tricks.as_strided(array, (1, 4), strides)
        for make in (m.from_dlpack, m.asarray):
            assert make(odd, device=any_engine).tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert np.from_dlpack(m.from_numpy(any_engine, array)[None, ::-1], device="cpu").tolist() == [
        [3.0, 2.0, 1.0, 0.0]
    ]


def test_a_view_outlives_value_and_engine(device_name: str) -> None:
    with oa.Engine(device=device_name) as engine:
        x = m.arange(engine, 6)
        lent, read = np.from_dlpack(x, device="cpu"), x.to_numpy()[::2]
        del x
    del engine
    gc.collect()
    assert lent.tolist() == [0, 1, 2, 3, 4, 5] and read.tolist() == [0, 2, 4]


def test_read_only_producers(any_engine: Any) -> None:
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = False
    x = m.from_dlpack(array, device=any_engine)
    x[0] = 9.0
    assert x.tolist() == [9.0, 1.0, 2.0] and array.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("kind", [Producer, Old])
def test_other_producers(any_engine: Any, kind: type[Producer]) -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    for make in (m.from_dlpack, m.asarray):
        x = make(kind(array), device=any_engine)
        assert x.engine is any_engine and np.array_equal(x.to_numpy(), array)
        array[0, 0] += 1
        assert x[0, 0].item() == array[0, 0] - 1, "a copy: what the producer writes later does not reach it"


def test_refusals(any_engine: Any) -> None:
    with pytest.raises(
        oa.errors.ArgumentError, match=r"Producer is on device \(2, 99\); copy it to the host"
    ):
        m.from_dlpack(Producer(np.ones(2), (2, 99)), device=any_engine)
    with pytest.raises(oa.errors.CopyError, match="copy=False"):
        m.from_dlpack(np.ones(2), device=any_engine, copy=False)
    with pytest.raises(oa.errors.CopyError, match="copy=False"):
        np.from_dlpack(m.ones(any_engine, 2), device="cpu", copy=False)


def test_copies(any_engine: Any) -> None:
    array = np.arange(4, dtype=np.float32)
    x = m.from_dlpack(array, device=any_engine)
    assert m.asarray(x, copy=False) is x
    for twin in (copy.copy(x), copy.deepcopy(x), copy.deepcopy([x])[0], m.from_dlpack(x), m.asarray(x)):
        twin[0] = 9.0
        assert x.tolist() == array.tolist() and twin.engine is any_engine
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(x[::-1], protocol))
        assert found.tolist() == array[::-1].tolist() and found.dtype is oa.float32


# -- torch


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [d.name for d in ALL if d.name != "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_torch_in_both_directions(any_engine: Any, torch: Any, shape: tuple[int, ...], dtype: str) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    tensor = torch.from_numpy(array)
    x = m.from_dlpack(tensor, device=any_engine)
    back = torch.from_dlpack(x).cpu()  # a view of device memory where CUDA reaches it
    assert (x.dtype.name, x.shape) == (dtype, shape)
    assert back.dtype is tensor.dtype and back.shape == tensor.shape and torch.equal(back, tensor)
    assert torch.equal(torch.asarray(x).cpu(), tensor)
    back.zero_()
    assert np.array_equal(x.to_numpy(), array)


def test_torch_views(any_engine: Any, torch: Any) -> None:
    tensor = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    for view in (
        lambda t: t.permute(2, 0, 1),
        lambda t: t[:, 1:, ::2],
        lambda t: t[1],
        lambda t: t.expand(5, 2, 3, 4),
    ):
        x = m.from_dlpack(view(tensor), device=any_engine)
        assert np.array_equal(x.to_numpy(), view(tensor).numpy())
    odd = torch.as_strided(tensor, (1, 24), (999, 1))
    assert m.from_dlpack(odd, device=any_engine).shape == (1, 24)
    x = m.from_numpy(any_engine, tensor.numpy())
    assert torch.equal(torch.from_dlpack(x[:, ::-1]).cpu(), tensor.flip(1))
    assert torch.equal(torch.from_dlpack(m.permute_dims(x, (2, 0, 1))).cpu(), tensor.permute(2, 0, 1))


def test_torch_refusals(any_engine: Any, torch: Any) -> None:
    with pytest.raises(BufferError, match="gradient"):
        m.from_dlpack(torch.ones(2, requires_grad=True), device=any_engine)
    assert m.from_dlpack(torch.ones(2, dtype=torch.complex64), device=any_engine).tolist() == [1, 1]


def test_a_matrix_is_no_buffer(any_engine: Any) -> None:
    """torch.asarray takes an object with a buffer before one with DLPack, and reads it as float32 whatever its dtype."""
    with pytest.raises(TypeError):
        memoryview(m.arange(3, device=any_engine))
