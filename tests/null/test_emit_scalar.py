"""The scalar table: each operation on each dtype validates in both addressings and means what the array API says."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oa._kernel.emit import bfloat, half, prelude, scalar_float, scalar_int
from oa._kernel.emit import spirv as sp
from oa._kernel.emit.ir import Buffer, Builder
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.scalar import REGISTER, emit_op
from oa._kernel.emit.types import Ty, Value
from oa._schema import scalar as schema
from oa._schema.dtype import (
    ALL,
    FLOATING,
    SIGNED,
    UNSIGNED,
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    uint32,
)
from oa.errors import InternalError
from tests.null.emit_rig import listing, validate
from tests.null.test_emit_interpreter import DTYPE, Array, NumpyBuilder
from tests.oracle.bfloat import rounded, widened

ADDRESSINGS = ("address", "descriptor")
#: Kernels see complex numbers as pairs of reals.
REAL = tuple(d for d in ALL if not d.is_complex)
#: The dtypes that NumPy has.
HELD = tuple(d for d in REAL if d is not bfloat16)
TRUST = (frozenset(), frozenset(("ffma",)), frozenset(("fdiv", "fsqrt")))
BINARY = frozenset(
    "add sub mul div min max floordiv mod pow atan2 hypot copysign band bor bxor shl shr umulhi".split()
)
BINARY |= schema.COMPARISONS
NAMES = sorted(
    {*prelude.UNARY, *prelude.BINARY, *scalar_float.OPERATIONS, *scalar_int._SHARED, *scalar_int._BOOL}
    | {
        "shl",
        "shr",
        "umulhi",
        "bitcast_u32",
        "bitcast_f32",
        "bitcast_u64",
        "bitcast_f64",
        "where",
        "cast",
        "philox",
    }
    | schema.COMPARISONS
)


def operands(name: str, dtype: DType) -> tuple[DType, ...]:
    """Operand dtypes of an operation over `dtype`."""
    if name == "where":
        return bool_, dtype, dtype
    if name == "philox":
        return (uint32,) * 4
    if name == "fma":
        return (dtype,) * 3
    return (dtype,) * (2 if name in BINARY else 1)


def outs(name: str, ins: tuple[DType, ...]) -> list[DType]:
    return list(REAL) if name == "cast" else [schema.result_dtype(name, list(ins))]


def emit(name: str, out: DType, ins: tuple[DType, ...], addressing: str, trusted: frozenset[str]) -> bytes:
    """A kernel that applies one operation to plain words."""
    b = Builder(name, (64, 1, 1), addressing, [Buffer("w"), Buffer("w", 2)], trusted=trusted)
    args = [
        (b.word64 if REGISTER[d.name].is_wide else b.word)(2 * k, REGISTER[d.name]) for k, d in enumerate(ins)
    ]
    value = emit_op(b, name, out, ins, args)
    assert value.ty is REGISTER[out.name]
    if value.ty is Ty.BOOL:
        value = b.select(value, b.const(Ty.U32, 1), b.const(Ty.U32, 0))
    if value.ty.is_wide:
        b.store64(1, b.builtin("global_id"), b.bitcast(Ty.U64, value))
    else:
        b.store(0, b.builtin("global_id"), b.bitcast(Ty.U32, value))
    return b.finish()


def defined(name: str, dtype: DType) -> bool:
    """Whether the table has the operation on this dtype."""
    fixed = {
        "philox": "uint32", "umulhi": "uint32", "bitcast_u32": "float32", "bitcast_f32": "uint32", "bitcast_u64": "float64",
        "bitcast_f64": "uint64",
    }  # fmt: skip
    if name in fixed:
        return dtype.name == fixed[name]
    if name in schema.COMPARISONS or name in ("where", "cast"):
        return True
    if dtype.is_float:
        return prelude.has(name, REGISTER[dtype.name]) or name in scalar_float.OPERATIONS
    return scalar_int.operation(name, dtype.name) is not None


CASES = [(name, dtype) for name in NAMES for dtype in REAL if defined(name, dtype)]


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
    """GLSL.std.450 13 to 30 are the trigonometric, exponential and logarithmic ones, 32 is InverseSqrt; 38 and 41: UMin, UMax."""
    assert not sp.ALLOWED_EXT & {*range(13, 31), 32}
    assert {1, 3, 8, 9, 31, 38, 41, 50} >= sp.ALLOWED_EXT - {2}


def test_every_schema_operation_is_emitted() -> None:
    """No name that the schema can produce is missing for float32."""
    leaves = {"arg", "const", "word", "dim", "element", "index", "param", "load"}
    for name in (schema.CHEAP | schema.FLOAT_ONLY | schema.PREDICATES | schema.COMPARISONS) - leaves:
        assert any(defined(name, dtype) for dtype in REAL), name
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
    if out.is_integer and value.data.size:
        info = np.iinfo(out.numpy)
        assert info.min <= int(value.data.min()) and int(value.data.max()) <= info.max
    return np.broadcast_to(value.data, arrays[0].shape).astype(out.numpy)


EDGES = np.array(
    [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, -32, 255, 256, 65535, 65536, 46341, -46341, 2**31 - 1, 2**31 - 2]
    + [-(2**31), -(2**31) + 1, 123456789, -987654321, 2**30, -(2**30)],
    np.int64,
)


def grids(dtype: DType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All pairs of uint8, of bool, or of the edge values."""
    if dtype.itemsize == 1 and dtype is not bool_:
        line = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    elif dtype is bool_:
        line = np.array([False, True])
    else:
        line = EDGES.astype(dtype.numpy)
        if dtype.itemsize == 8:
            line = np.concatenate(
                [line, np.array([2**63 - 1, -(2**63), 2**62, 2**33 + 1, -(2**53) - 1]).astype(dtype.numpy)]
            )
        elif dtype.is_float:
            line = line[np.isfinite(line)]
    a, b = np.meshgrid(line, line, indexing="ij")
    return a.ravel(), b.ravel()


def _floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def _modulo(a: int, b: int) -> int:
    return a % b if b else 0


def _power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)


INTEGER: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": _floor_divide, "mod": _modulo,
    "pow": _power, "band": operator.and_, "bor": operator.or_, "bxor": operator.xor, "min": min, "max": max,
    "neg": operator.neg, "abs": abs, "square": lambda a: a * a, "bnot": operator.invert,
    "sign": lambda a: (a > 0) - (a < 0),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED], ids=lambda d: d.name)
@pytest.mark.parametrize("name", INTEGER)
def test_integer_operations(name: str, dtype: DType) -> None:
    """Exact modulo 2^width: every pair of bytes, every pair of edge values otherwise."""
    a, b = grids(dtype)
    arrays = (a, b) if name in BINARY else (a,)
    want = [
        INTEGER[name](*(int(v) for v in row)) & (256**dtype.itemsize - 1) for row in zip(*arrays, strict=True)
    ]
    got = apply(name, dtype, *arrays)
    assert np.array_equal(got, np.array(want, np.uint64).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED], ids=lambda d: d.name)
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


@pytest.mark.parametrize("dtype", HELD, ids=lambda d: d.name)
@pytest.mark.parametrize("name", sorted(schema.COMPARISONS))
def test_comparisons(name: str, dtype: DType) -> None:
    if dtype.is_float:
        with np.errstate(over="ignore"):
            line = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38]).astype(dtype.numpy)
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


@pytest.mark.parametrize("source", FLOATING, ids=lambda d: d.name)
@pytest.mark.parametrize("target", [*SIGNED, *UNSIGNED, bool_], ids=lambda d: d.name)
def test_float_to_integer_saturates(source: DType, target: DType) -> None:
    more = [
        2.0**63,
        -(2.0**63),
        2.0**64,
        9.3e18,
        -128.5,
        -129.0,
        127.5,
        32767.5,
        -32768.5,
        65535.5,
        4503599627370497.5,
    ]
    with np.errstate(over="ignore"):
        given = np.concatenate([FLOATS.astype(np.float64), more]).astype(source.numpy)
    got = apply("cast", target, given)
    if target is bool_:
        assert np.array_equal(got, given != 0)
        return
    info = np.iinfo(target.numpy)
    want = [
        0 if x != x else info.max if x > info.max else info.min if x < info.min else int(x)
        for x in given.tolist()
    ]
    assert np.array_equal(got, np.array(want, target.numpy))


@pytest.mark.parametrize("source", [bool_, *SIGNED, *UNSIGNED], ids=lambda d: d.name)
@pytest.mark.parametrize("target", HELD, ids=lambda d: d.name)
def test_integer_casts_wrap(source: DType, target: DType) -> None:
    values = grids(source)[0]
    with np.errstate(over="ignore"):
        assert np.array_equal(apply("cast", target, values), values.astype(target.numpy))


def halves() -> np.ndarray[Any, Any]:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def test_every_half_is_packed_and_unpacked() -> None:
    """All 2^16 patterns: to a register and back, NaN as the quiet one."""
    bits = halves().view(np.uint16).astype(np.uint32)
    b: Any = NumpyBuilder()
    wide = half.unpacked(Reg(b, Array(Ty.U32, bits)))
    assert same(wide.v.data, halves().astype(np.float32)).all()
    back = half.packed(wide).v.data
    nan = np.isnan(halves())
    assert np.array_equal(back[~nan], bits[~nan]) and np.all((back[nan] & 0x7FFF) == 0x7E00)


def test_every_bfloat_is_packed_and_unpacked() -> None:
    """All 2^16 patterns, NaNs with their payloads."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    b: Any = NumpyBuilder()
    wide = bfloat.unpacked(Reg(b, Array(Ty.U32, bits)))
    assert np.array_equal(wide.v.data.view(np.uint32), bits << 16)
    assert np.array_equal(bfloat.packed(wide).v.data, bits)


def test_rounding_to_bfloat() -> None:
    """Ties, neighbours of ties, subnormals and overflow, from float32 and from float64."""
    every = widened(np.arange(1 << 16, dtype=np.uint16))
    with np.errstate(all="ignore"):
        line = np.sort(every[np.isfinite(every)].astype(np.float64))
        ties = (line[1:] + line[:-1]) / 2
        ends = [3.3961775e38, 3.3961776e38, 3.4e38, 1e300, np.inf, np.nan]
        given = np.concatenate([line, ties, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), ends])
        for x in (given, given.astype(np.float32)):
            b: Any = NumpyBuilder()
            wide = Reg(b, Array(Ty.F64 if x.dtype == np.float64 else Ty.F32, x))
            got = half.from_double(wide, bfloat.rounded) if x.dtype == np.float64 else bfloat.rounded(wide)
            assert same(got.v.data, rounded(x)).all()


def test_rounding_to_half() -> None:
    """Ties, neighbours of ties, subnormals and overflow, from float32 and from float64."""
    with np.errstate(all="ignore"):
        line = np.sort(halves()[np.isfinite(halves())].astype(np.float64))
        ties = (line[1:] + line[:-1]) / 2
        ends = [65519.99, 65520.0, 1e9, np.inf, np.nan]
        given = np.concatenate([line, ties, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), ends])
        given = np.concatenate([given, -given])
        assert same(apply("cast", float16, given), given.astype(np.float16)).all()
        single = given.astype(np.float32)
        assert same(apply("cast", float16, single), single.astype(np.float16)).all()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "sqrt", "square"])
def test_half_arithmetic_is_correctly_rounded(name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (halves()[rng.integers(0, 1 << 16, 1 << 14)] for _ in range(2))
    arrays = (a, b) if name in BINARY else (a,)
    function: Any = {"sub": np.subtract, "div": np.divide, "mul": np.multiply}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        want = function(*(x.astype(np.float64) for x in arrays)).astype(np.float16)
    assert same(apply(name, float16, *arrays), want).all()


@pytest.mark.parametrize("target", FLOATING, ids=lambda d: d.name)
@pytest.mark.parametrize("source", FLOATING, ids=lambda d: d.name)
def test_float_casts_round(source: DType, target: DType) -> None:
    with np.errstate(over="ignore"):
        given = FLOATS.astype(source.numpy)
        assert same(apply("cast", target, given), given.astype(target.numpy)).all()


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Equal, with the sign of zeros, NaN equal to NaN."""
    return ((got == want) & (np.signbit(got) == np.signbit(want))) | (np.isnan(got) & np.isnan(want))


def pairs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    nan = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    line = np.concatenate([FLOATS, -FLOATS, nan])
    a, b = np.meshgrid(line, line)
    return a.ravel(), b.ravel()


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_propagate_nan_and_order_zeros(name: str, dtype: DType) -> None:
    with np.errstate(invalid="ignore"):
        a, b = (x.astype(dtype.numpy) for x in pairs())
    smaller = (a < b) | ((a == b) & np.signbit(a))
    want = np.where(smaller, a, b) if name == "min" else np.where(smaller, b, a)
    want = np.where(np.isnan(a) | np.isnan(b), np.nan, want)
    assert same(apply(name, dtype, a, b), want).all()
    numpy: Any = NumpyBuilder()
    for constant in (0.0, -0.0, 1.0, -1.0, np.inf, np.nan):  # a constant operand takes a shorter way
        ty = REGISTER[dtype.name]
        got = emit_op(numpy, name, dtype, (dtype,) * 2, [Array(ty, a), numpy.const(ty, constant)])
        whole = np.full_like(a, constant)
        assert same(got.data, apply(name, dtype, a, whole)).all(), constant


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
@pytest.mark.parametrize("dtype", FLOATING, ids=lambda d: d.name)
def test_float_operations(name: str, dtype: DType) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        x = pairs()[0].astype(dtype.numpy)
    function: Any = {
        "neg": operator.neg, "round": np.rint, "sign": lambda v: np.where(v == 0, v.dtype.type(0), np.sign(v)),
    }.get(name) or getattr(np, name)  # fmt: skip
    with np.errstate(all="ignore"):
        want = function(x)
    out = bool_ if name in schema.PREDICATES else dtype
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
