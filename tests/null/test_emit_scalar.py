"""The scalar table: each operation on each dtype validates in both addressings and means what the array API says."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oa._kernel.emit import prelude, scalar_float, scalar_int
from oa._kernel.emit import spirv as sp
from oa._kernel.emit.ir import Buffer, Builder
from oa._kernel.emit.scalar import REGISTER, emit_op
from oa._kernel.emit.types import Ty, Value
from oa._schema import scalar as schema
from oa._schema.dtype import ALL, DType, as_dtype, bool_, float32, int32, uint8, uint32
from oa.errors import InternalError
from tests.null.emit_rig import listing, validate
from tests.null.test_emit_interpreter import DTYPE, Array, NumpyBuilder

ADDRESSINGS = ("address", "descriptor")
TRUST = (frozenset(), frozenset(("ffma",)), frozenset(("fdiv", "fsqrt")))
BINARY = frozenset(
    "add sub mul div min max floordiv mod pow atan2 hypot copysign band bor bxor shl shr umulhi".split()
)
BINARY |= schema.COMPARISONS
NAMES = sorted(
    {*prelude.UNARY, *prelude.BINARY, *scalar_float.OPERATIONS, *scalar_int._SHARED, *scalar_int._BOOL}
    | {"shl", "shr", "umulhi", "bitcast_u32", "bitcast_f32", "where", "cast", "philox"}
    | schema.COMPARISONS
)


def operands(name: str, dtype: DType) -> tuple[DType, ...]:
    """Operand dtypes of an operation over `dtype`."""
    if name == "where":
        return bool_, dtype, dtype
    if name == "philox":
        return (uint32,) * 4
    return (dtype,) * (2 if name in BINARY else 1)


def outs(name: str, ins: tuple[DType, ...]) -> list[DType]:
    return list(ALL) if name == "cast" else [schema.result_dtype(name, list(ins))]


def emit(name: str, out: DType, ins: tuple[DType, ...], addressing: str, trusted: frozenset[str]) -> bytes:
    """A kernel that applies one operation to plain words."""
    b = Builder(name, (64, 1, 1), addressing, [Buffer("w")], trusted=trusted)
    args = [b.word(k, REGISTER[d.name]) for k, d in enumerate(ins)]
    value = emit_op(b, name, out, ins, args)
    assert value.ty is REGISTER[out.name]
    if value.ty is Ty.BOOL:
        value = b.select(value, b.const(Ty.U32, 1), b.const(Ty.U32, 0))
    b.store(0, b.builtin("global_id"), b.bitcast(Ty.U32, value))
    return b.finish()


def defined(name: str, dtype: DType) -> bool:
    """Whether the table has the operation on this dtype."""
    fixed = {"philox": "uint32", "umulhi": "uint32", "bitcast_u32": "float32", "bitcast_f32": "uint32"}
    if name in fixed:
        return dtype.name == fixed[name]
    if name in schema.COMPARISONS or name in ("where", "cast"):
        return True
    if dtype is float32:
        return name in prelude.UNARY or name in prelude.BINARY or name in scalar_float.OPERATIONS
    return scalar_int.operation(name, dtype.name) is not None


CASES = [(name, dtype) for name in NAMES for dtype in ALL if defined(name, dtype)]


@pytest.mark.whole
@pytest.mark.parametrize("name,dtype", CASES, ids=lambda x: x if isinstance(x, str) else x.name)
def test_validates(name: str, dtype: DType, tmp_path: Path) -> None:
    """Accepted by spirv-val, and of the extended instructions only those that are exact or corrected."""
    ins = operands(name, dtype)
    for out in outs(name, ins):
        for addressing, trusted in zip((*ADDRESSINGS, "descriptor"), TRUST, strict=True):
            words = emit(name, out, ins, addressing, trusted)
            validate(words, tmp_path)
            used = {rest[3] for code, rest in listing(words) if code == sp.OP_EXT_INST}
            assert used <= sp.ALLOWED_EXT, f"GLSL.std.450 instructions {used - sp.ALLOWED_EXT}"
            assert words == emit(name, out, ins, addressing, trusted)


def test_no_transcendental_instruction_is_allowed() -> None:
    """GLSL.std.450 13 to 30 are the trigonometric, exponential and logarithmic ones, 32 is InverseSqrt."""
    assert not sp.ALLOWED_EXT & {*range(13, 31), 32}
    assert {1, 3, 8, 9, 31, 50} >= sp.ALLOWED_EXT - {2}


def test_every_schema_operation_is_emitted() -> None:
    """No name that the schema can produce is missing for float32."""
    leaves = {"arg", "const", "word", "dim", "element", "index", "param", "load"}
    for name in (schema.CHEAP | schema.FLOAT_ONLY | schema.PREDICATES | schema.COMPARISONS) - leaves:
        assert any(defined(name, dtype) for dtype in ALL), name
    for name in schema.FLOAT_ONLY:
        assert defined(name, float32), name


def test_an_operation_without_meaning_is_refused() -> None:
    b = Builder("test", (1, 1, 1), "descriptor", [])
    with pytest.raises(InternalError, match="exp is not defined for int32"):
        emit_op(b, "exp", int32, (int32,), [b.word(0, Ty.I32)])
    with pytest.raises(InternalError, match="shl is not defined for bool"):
        emit_op(b, "shl", bool_, (bool_, bool_), [b.word(0, Ty.BOOL)] * 2)


def apply(name: str, out: DType, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The operation on arrays through the NumPy builder; raises where it relies on something undefined."""
    b = NumpyBuilder()
    ins = tuple(as_dtype(a.dtype) for a in arrays)
    args: Sequence[Any] = [
        Array(REGISTER[d.name], a.astype(DTYPE[REGISTER[d.name]])) for d, a in zip(ins, arrays, strict=True)
    ]
    builder: Any = b
    value: Value | Any = emit_op(builder, name, out, ins, args)
    assert value.ty is REGISTER[out.name]
    if out is uint8:
        assert value.data.max(initial=0) <= 255
    return np.broadcast_to(value.data, arrays[0].shape).astype(out.numpy)


EDGES = np.array(
    [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, -32, 255, 256, 65535, 65536, 46341, -46341, 2**31 - 1, 2**31 - 2]
    + [-(2**31), -(2**31) + 1, 123456789, -987654321, 2**30, -(2**30)],
    np.int64,
)


def grids(dtype: DType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All pairs of uint8, of bool, or of the edge values."""
    if dtype is uint8:
        line = np.arange(256, dtype=np.uint8)
    elif dtype is bool_:
        line = np.array([False, True])
    else:
        line = (EDGES & 0xFFFFFFFF).astype(np.uint32).view(dtype.numpy)
    a, b = np.meshgrid(line, line, indexing="ij")
    return a.ravel(), b.ravel()


def _floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def _modulo(a: int, b: int) -> int:
    return a % b if b else 0


def _power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 32)
    return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)


INTEGER: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": _floor_divide, "mod": _modulo,
    "pow": _power, "band": operator.and_, "bor": operator.or_, "bxor": operator.xor, "min": min, "max": max,
    "neg": operator.neg, "abs": abs, "square": lambda a: a * a, "bnot": operator.invert,
    "sign": lambda a: (a > 0) - (a < 0),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [uint8, int32, uint32], ids=lambda d: d.name)
@pytest.mark.parametrize("name", INTEGER)
def test_integer_operations(name: str, dtype: DType) -> None:
    """Exact modulo 2^width: every pair of uint8, every pair of edge values otherwise."""
    a, b = grids(dtype)
    arrays = (a, b) if name in BINARY else (a,)
    want = [
        INTEGER[name](*(int(v) for v in row)) & (256**dtype.itemsize - 1) for row in zip(*arrays, strict=True)
    ]
    got = apply(name, dtype, *arrays)
    assert np.array_equal(got, np.array(want, np.uint64).astype(np.uint32).view(np.int32).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [uint8, int32, uint32], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["shl", "shr"])
def test_shifts(name: str, dtype: DType) -> None:
    """By the width or more, or a negative count: 0, or the sign for a signed shift right."""
    a, count = grids(dtype)
    width = dtype.bits
    want = []
    for x, n in zip(a.tolist(), count.tolist(), strict=True):
        n = width if n < 0 else min(n, width)
        value = x << n if name == "shl" else x >> n
        want.append(value & (2**width - 1))
    got = apply(name, dtype, a, count)
    assert np.array_equal(
        got.view(f"u{dtype.itemsize}"), np.array(want, np.uint64).astype(f"u{dtype.itemsize}")
    )


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("name", sorted(schema.COMPARISONS))
def test_comparisons(name: str, dtype: DType) -> None:
    if dtype is float32:
        line = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38], np.float32)
        a, b = (g.ravel() for g in np.meshgrid(line, line))
    else:
        a, b = grids(dtype)
    assert np.array_equal(apply(name, bool_, a, b), getattr(operator, name)(a, b))


@pytest.mark.parametrize("name", ["band", "bor", "bxor", "min", "max", "bnot"])
def test_bool_operations(name: str) -> None:
    a, b = grids(bool_)
    want = {
        "band": a & b, "bor": a | b, "bxor": a ^ b, "min": a & b, "max": a | b, "bnot": ~a,
    }[name]  # fmt: skip
    assert np.array_equal(apply(name, bool_, *((a,) if name == "bnot" else (a, b))), want)


FLOATS = np.array(
    [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.99,
        1.0,
        -1.0,
        1.5,
        2.5,
        -2.5,
        254.5,
        255.0,
        255.9,
        256.0,
        300.0,
        2**24 + 2,
        2**31 - 128,
    ]
    + [
        2.0**31,
        -(2.0**31),
        -(2.0**31) - 256,
        2.0**32 - 256,
        2.0**32,
        1e20,
        -1e20,
        np.inf,
        -np.inf,
        np.nan,
        1e-40,
    ],
    np.float32,
)


@pytest.mark.parametrize("target", [int32, uint32, uint8, bool_], ids=lambda d: d.name)
def test_float_to_integer_saturates(target: DType) -> None:
    got = apply("cast", target, FLOATS)
    if target is bool_:
        assert np.array_equal(got, FLOATS != 0)
        return
    info = np.iinfo(target.numpy)
    with np.errstate(invalid="ignore"):
        want = np.clip(np.nan_to_num(np.trunc(FLOATS.astype(np.float64)), nan=0.0), info.min, info.max)
    assert np.array_equal(got, want.astype(target.numpy))


@pytest.mark.parametrize("source", [bool_, uint8, int32, uint32], ids=lambda d: d.name)
@pytest.mark.parametrize("target", ALL, ids=lambda d: d.name)
def test_integer_casts_wrap(source: DType, target: DType) -> None:
    values = grids(source)[0]
    assert np.array_equal(apply("cast", target, values), values.astype(target.numpy))


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Equal, with the sign of zeros, NaN equal to NaN."""
    return ((got == want) & (np.signbit(got) == np.signbit(want))) | (np.isnan(got) & np.isnan(want))


def pairs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    nan = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    line = np.concatenate([FLOATS, -FLOATS, nan])
    a, b = np.meshgrid(line, line)
    return a.ravel(), b.ravel()


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_propagate_nan_and_order_zeros(name: str) -> None:
    a, b = pairs()
    smaller = (a < b) | ((a == b) & np.signbit(a))
    want = np.where(smaller, a, b) if name == "min" else np.where(smaller, b, a)
    want = np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), want)
    assert same(apply(name, float32, a, b), want).all()
    numpy: Any = NumpyBuilder()
    for constant in (0.0, -0.0, 1.0, -1.0, np.inf, np.nan):  # a constant operand takes a shorter way
        got = emit_op(numpy, name, float32, (float32,) * 2, [Array(Ty.F32, a), numpy.const(Ty.F32, constant)])
        whole = np.full_like(a, constant)
        assert same(got.data, apply(name, float32, a, whole)).all(), constant


@pytest.mark.parametrize(
    "name",
    [
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "abs",
        "neg",
        "sign",
        "floor",
        "ceil",
        "trunc",
        "round",
        "square",
    ],
)
def test_float_operations(name: str) -> None:
    x = pairs()[0]
    function: Any = {
        "neg": operator.neg, "round": np.rint, "sign": lambda v: np.where(v == 0, np.float32(0), np.sign(v)),
    }.get(name) or getattr(np, name)  # fmt: skip
    with np.errstate(all="ignore"):
        want = function(x)
    out = bool_ if name in schema.PREDICATES else float32
    got = apply(name, out, x)
    assert np.array_equal(got, want) if out is bool_ else same(got, want).all()


def test_copysign() -> None:
    a, b = pairs()
    assert np.array_equal(apply("copysign", float32, a, b).view(np.uint32), np.copysign(a, b).view(np.uint32))


def test_where_and_bitcasts() -> None:
    a, b = pairs()
    cond = np.arange(a.size) % 3 == 0
    assert np.array_equal(
        apply("where", float32, cond, a, b).view(np.uint32), np.where(cond, a, b).view(np.uint32)
    )
    bits = apply("bitcast_u32", uint32, a)
    assert np.array_equal(bits, a.view(np.uint32))
    assert np.array_equal(apply("bitcast_f32", float32, bits).view(np.uint32), a.view(np.uint32))


def test_high_word_of_a_product() -> None:
    a, b = grids(uint32)
    want = (a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)
    assert np.array_equal(apply("umulhi", uint32, a, b), want)
