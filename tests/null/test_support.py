"""What devices can do: asked with `supports`, refused by name at the call, on recorded devices without a driver."""

from __future__ import annotations

import inspect
import os
import struct
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import oa
from oa import _device, ml
from oa import matrix as m
from oa._kernel.emit import spirv as sp
from oa._schema.dtype import ALL, CAPABILITIES, as_dtype
from oa._vk.null import NullDevice
from oa.engine import Engine
from oa.errors import ArgumentError, DTypeError, Unsupported
from oa.matrix import Matrix
from tests.null.device_fixtures import NAMES, card, snapshot

WIDE = tuple(CAPABILITIES)
NARROW = tuple(d for d in ALL if d not in CAPABILITIES)


def opened(name: str) -> Engine:
    """An Engine on a recorded device that runs no kernel."""
    engine = Engine.__new__(Engine)
    engine._refusal, engine._thread, engine._pid = None, threading.get_ident(), os.getpid()
    engine._instance = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
    one = card(name) if name.startswith("radv") else snapshot(name)  # RADV without a card has no memory
    engine.device = NullDevice(one, _device.plan(one))  # type: ignore[assignment]
    engine._open(0, "stable")
    return engine


@pytest.fixture
def small() -> Iterator[Engine]:
    """SwiftShader: without shaderInt64, shaderFloat64 and shaderFloat16."""
    with opened("swiftshader") as engine:
        yield engine


@pytest.fixture
def large() -> Iterator[Engine]:
    """A device with every capability that a dtype needs."""
    with opened("lavapipe-22.3") as engine:
        yield engine


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_of_recorded_devices(name: str) -> None:
    features = snapshot(name).features
    with opened(name) as engine:
        for dtype in ALL:
            assert engine.supports(dtype) == set(CAPABILITIES.get(dtype, ())).issubset(features), dtype
            assert engine.supports(dtype.name) == engine.supports(dtype.numpy) == engine.supports(dtype)
        listed = m.__array_namespace_info__().dtypes(device=engine)
        assert set(listed) == {d.name for d in ALL if engine.supports(d)} - {"float16", "bfloat16"}


#: What would make a value of a dtype, or compute in it.
MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "from_numpy": lambda e, d: m.from_numpy(e, np.zeros(3, d.numpy)),
    "empty array": lambda e, d: m.from_numpy(e, np.zeros(0, d.numpy)),
    "zeros": lambda e, d: m.zeros(e, (2, 3), dtype=d),
    "number": lambda e, d: m.full(e, (), 1, dtype=d),
    "arange": lambda e, d: m.arange(e, 4, dtype=d),
    "linspace": lambda e, d: m.linspace(e, 0.0, 4.0, 5, dtype=d),
    "astype": lambda e, d: m.ones(e, (3,)).astype(d),
    "astype captured": lambda e, d: e.capture(lambda: m.ones(e, (3,)).astype(d)),
    "sum": lambda e, d: m.sum(m.ones(e, (3,), dtype="int32"), dtype=d),
}


@pytest.mark.parametrize("dtype", WIDE, ids=lambda d: d.name)
@pytest.mark.parametrize("maker", MAKERS)
def test_a_lacking_dtype_is_refused_with_the_cast(
    small: Engine, large: Engine, maker: str, dtype: Any
) -> None:
    cast = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}[dtype.name]
    lacks = CAPABILITIES[dtype][0]
    with pytest.raises(Unsupported, match=rf"{dtype.name}.*SwiftShader.*lacks {lacks}.*oa\.{cast}"):
        MAKERS[maker](small, dtype)
    assert small.diagnostics["submissions"] == 0
    MAKERS[maker](large, dtype)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.name)
@pytest.mark.parametrize("maker", sorted(set(MAKERS) - {"sum", "linspace"}))
def test_other_dtypes_are_not(small: Engine, maker: str, dtype: Any) -> None:
    MAKERS[maker](small, dtype)
    small.flush()


def test_the_line_is_the_users(small: Engine) -> None:
    with pytest.raises(Unsupported, match=r"test_support\.py:\d+\)$"):
        m.zeros(small, (2,), dtype="float64")


def test_intermediate_dtypes_count(small: Engine) -> None:
    """A composite and an expression that compute in float64 and give float32."""
    from oa._schema.declare import composite

    @composite
    def through_double(x: Matrix) -> Matrix:
        """x by way of float64."""
        return m.astype(m.astype(x, "float64") * 2.0, "float32")

    with pytest.raises(Unsupported, match="through_double: float64"):
        through_double(m.ones(small, (2,)))


def test_a_refusal_leaves_the_engine_as_it_was(small: Engine) -> None:
    x = m.ones(small, (4,))
    with pytest.raises(Unsupported):
        x.astype("int64")
    (x + 1.0).to_numpy()
    assert small.diagnostics["submissions"] == 1


def capabilities(words: bytes) -> set[int]:
    """The capabilities that a SPIR-V module declares."""
    code = struct.unpack(f"<{len(words) // 4}I", words)
    found, at = set(), 5
    while at < len(code):
        if code[at] & 0xFFFF == sp.OP_CAPABILITY:
            found.add(code[at + 1])
        at += code[at] >> 16
    return found


@pytest.mark.parametrize("name", ["exp", "sum", "matmul", "sort", "cumulative_sum", "softmax", "take", "pow"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint16", "float32"])
def test_kernels_need_no_capability_that_is_missing(small: Engine, name: str, dtype: str) -> None:
    """Sub-word and half types live in 32-bit registers and words, on any device."""
    pipelines: list[bytes] = []
    plain = small.device.pipeline

    def watched(words: bytes, **named: Any) -> Any:
        pipelines.append(words)
        return plain(words, **named)

    small.device.pipeline = watched  # type: ignore[method-assign]
    x = m.zeros(small, (4, 4), dtype=dtype)
    if not small.supports(dtype, name):
        return
    operands = {"matmul": [x, x], "pow": [x, x], "take": [x, m.zeros(small, (2,), dtype="int32")]}
    more = {"axis": 0} if name in ("take", "cumulative_sum") else {}
    getattr(m, name)(*operands.get(name, [x]), **more).tolist()
    assert pipelines
    for words in pipelines:
        assert not capabilities(words) & {sp.CAPABILITY_INT64, sp.CAPABILITY_FLOAT64, 9, 22, 39}


def test_supports_of_operations(large: Engine, small: Engine) -> None:
    table = {
        "exp": "float16 float32 float64 complex64 complex128 bfloat16",
        "cosh": "float16 float32 float64 complex64 complex128 bfloat16",
        "maximum": " ".join(d.name for d in ALL if d is not oa.bool_ and not d.is_complex),
        "matrix.add": " ".join(d.name for d in ALL if d is not oa.bool_),
        "bitwise_and": " ".join(d.name for d in ALL if not d.is_inexact),
        "uniform": "float32",
        "bernoulli": "bool",
        "integers": "int8 int16 int32 uint8 uint16 uint32",
        "sort": " ".join(d.name for d in ALL if not d.is_complex),
        "unique_values": " ".join(d.name for d in ALL),
        "take": " ".join(d.name for d in ALL),
        "mean": "float16 float32 float64 complex64 complex128 bfloat16",
        "ml.layer_norm": "float16 float32 float64 bfloat16",
    }
    for name, dtypes in table.items():
        found = [d.name for d in ALL if large.supports(d, name)]
        assert found == [d.name for d in ALL if d.name in dtypes.split()], name
        narrow = [d.name for d in ALL if small.supports(d, name)]
        assert narrow == [n for n in found if as_dtype(n) not in CAPABILITIES], name
    assert large.supports(oa.float32, m.exp)
    assert large.supports("float32", ml.layer_norm)


def test_asking_leaves_no_trace(large: Engine) -> None:
    pending = m.ones(large, (3,)) + 1.0
    before, state = large.diagnostics, large.rng_state
    with ml.GradientTape() as tape:
        tape.watch(pending)
        assert large.supports("float32", "normal")
        assert large.supports("float32", "nonzero")
    assert large.rng_state == state
    pending.to_numpy()
    after = large.diagnostics
    assert after["submissions"] == before["submissions"] + 1
    assert after["dispatches"] == before["dispatches"] + 1


def test_questions_that_have_no_answer(large: Engine) -> None:
    for op in ("no_such", "nowhere.exp", "", 3, m):
        with pytest.raises(ArgumentError, match="is no operation"):
            large.supports("float32", op)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cannot try broadcast_shapes"):
        large.supports("float32", "broadcast_shapes")
    with pytest.raises(DTypeError, match="supported ones"):
        large.supports("float8")


#: Functions of the namespace that are about dtypes and shapes, not about elements.
NO_ELEMENTS = frozenset({
    "__array_namespace_info__", "broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type"
})  # fmt: skip


def test_every_operation_can_be_asked_about(large: Engine) -> None:
    for name in m.__all__:
        function = getattr(m, name)
        if inspect.isfunction(function) and name not in NO_ELEMENTS:
            answers = [large.supports(d, name) for d in ("bool", "int32", "float32")]
            assert any(answers), name
