"""The structured-IR builder: every construct validates in both addressings, bytes and text are stable, misuse is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from oa._kernel.emit import spirv as sp
from oa._kernel.emit.ir import Buffer, Builder, Ty, Value
from oa.errors import InternalError
from tests.null.emit_rig import count, listing, validate

ADDRESSINGS = ("address", "descriptor")


def builder(addressing: str = "descriptor", *buffers: Buffer) -> Builder:
    return Builder("test", (64, 1, 1), addressing, buffers or (Buffer("r"), Buffer("w")))


def everything(addressing: str) -> Builder:
    """A kernel with every construct in it."""
    b = Builder(
        "everything",
        (8, 4, 2),
        addressing,
        [Buffer("r", 4), Buffer("r"), Buffer("w"), Buffer("rw", 4), Buffer("w", 4), Buffer("rw")],
    )
    inputs = [
        b.builtin(name, axis)
        for name in ("group_id", "local_id", "global_id", "num_groups")
        for axis in range(3)
    ]
    local = b.builtin("local_index")
    index = b.op("iadd", inputs[6], inputs[9])
    size, scale, flag, signed = b.word(0), b.word(1, Ty.F32), b.word(2, Ty.BOOL), b.word(3, Ty.I32)
    zero, one = b.const(Ty.U32, 0), b.const(Ty.U32, 1)
    array = b.shared(Ty.F32, 64)
    b.function("square", [Ty.F32], Ty.F32, lambda p: b.op("fmul", p[0], p[0]))

    def body(p: list[Value]) -> Value:
        b.function("inner", [Ty.F32, Ty.U32], Ty.F32, lambda q: b.op("fadd", q[0], b.op("u2f", q[1])))
        return b.call("inner", b.call("square", p[0]), b.const(Ty.U32, 3))

    b.function("outer", [Ty.F32], Ty.F32, body)
    with b.if_(b.op("ult", index, size)):
        lanes = b.load4(0, index)
        total = b.var(b.const(Ty.F32, -0.0))
        with b.loop(zero, size, one) as i:
            with b.loop(i, size, b.const(Ty.U32, 2)) as j:
                x = b.bitcast(Ty.F32, b.load(1, j))
                b.set(total, b.op("fadd", b.get(total), b.call("outer", x)))
            with b.if_(b.op("ieq", i, index)):
                b.set(total, b.op("fabs", b.get(total)))
        sum_, other = b.if_else(
            flag, lambda: (b.get(total), b.op("iadd", signed, signed)), lambda: (scale, b.op("not", signed))
        )
        last, product = b.repeat(
            lanes[3], lambda i, a, c: (b.op("iadd", a, i), b.op("umulhi", c, a)), lanes[1], lanes[2]
        )
        b.store(2, index, b.bitcast(Ty.U32, b.op("fmul", sum_, b.op("i2f", other))))
        kept = b.load4(3, index)
        b.store4(3, index, [last, product, kept[0], b.select(flag, kept[1], lanes[0])])
        b.store4(4, index, kept)
        b.store(5, index, b.op("xor", b.load(5, index), one))
    b.shared_store(array, local, scale)
    b.barrier()
    b.store(2, index, b.bitcast(Ty.U32, b.shared_load(array, b.op("xor", local, one))))
    return b


@pytest.mark.parametrize("addressing", ADDRESSINGS)
def test_every_construct_validates(addressing: str, tmp_path: Path) -> None:
    validate(everything(addressing).finish(), tmp_path)


@pytest.mark.parametrize("addressing", ADDRESSINGS)
def test_identical_calls_give_identical_bytes_and_text(addressing: str) -> None:
    first, second = everything(addressing), everything(addressing)
    assert first.finish() == second.finish() == first.finish()
    assert first.text() == second.text()


@pytest.mark.parametrize("addressing", ADDRESSINGS)
def test_every_primitive_operation_validates(addressing: str, tmp_path: Path) -> None:
    b = builder(addressing)
    index = b.builtin("global_id")
    given = {
        Ty.U32: [b.load(0, index), b.load(0, b.op("iadd", index, index)), b.word(0)],
        Ty.I32: [b.word(k, Ty.I32) for k in (1, 2, 3)],
        Ty.F32: [b.word(k, Ty.F32) for k in (4, 5, 6)],
        Ty.BOOL: [b.word(k, Ty.BOOL) for k in (7, 8, 9)],
        Ty.I64: [b.word64(k, Ty.I64) for k in (10, 12, 14)],
        Ty.U64: [b.word64(k, Ty.U64) for k in (10, 12, 14)],
        Ty.F64: [b.word64(k, Ty.F64) for k in (10, 12, 14)],
    }
    for name, op in sp.OPS.items():
        for ty in op.operands:
            made = b.op(name, *given[ty][: op.arity])
            assert made.ty is (op.result or ty)
    for ty in (Ty.F32, Ty.F64):
        assert b.op("fabs", given[ty][0]).ty is ty
    b.op("umulhi", *given[Ty.U32][:2])
    validate(b.finish(), tmp_path)


@pytest.mark.parametrize("addressing", ADDRESSINGS)
def test_wide_numbers(addressing: str, tmp_path: Path) -> None:
    """64-bit registers: constants, conversions between all numbers, memory, workgroup arrays, functions, text."""
    b = builder(addressing, Buffer("r", 2), Buffer("w", 2))
    i = b.builtin("global_id")
    numbers = [ty for ty in Ty if ty is not Ty.BOOL]
    given = {ty: b.word64(2, ty) if ty.is_wide else b.word(1, ty) for ty in numbers}
    for source in numbers:
        for target in numbers:
            assert b.convert(target, given[source]).ty is target
            assert b.convert(target, given[source]) is b.convert(target, given[source])
    found = b.load64(0, i)
    assert found.ty is Ty.U64 and b.load64(0, i) is found
    b.function("twice", [Ty.F64], Ty.F64, lambda p: b.op("fadd", p[0], p[0]))
    twice = b.call("twice", b.bitcast(Ty.F64, found))
    kept = b.shared(Ty.F64, 4)
    b.shared_store(kept, b.const(Ty.U32, 1), b.op("fmul", twice, b.const(Ty.F64, 1 / 3)))
    b.store64(1, i, b.op("iadd", found, b.const(Ty.U64, -1)))
    assert b.shared_bytes == 32
    assert b.const(Ty.I64, -1) is b.bits(Ty.I64, (1 << 64) - 1)
    words = b.finish()
    validate(words, tmp_path)
    used = [rest[0] for code, rest in listing(words) if code == sp.OP_CAPABILITY]
    assert {sp.CAPABILITY_INT64, sp.CAPABILITY_FLOAT64} <= set(used)
    assert "0.3333333333333333" in b.text() and "18446744073709551615u" in b.text()
    for wrong in (
        lambda: b.bitcast(Ty.F32, found),
        lambda: b.op("iadd", found, i),
        lambda: b.store64(1, i, i),
    ):
        with pytest.raises(InternalError):
            wrong()


def test_capabilities_are_only_those_used(tmp_path: Path) -> None:
    def capabilities(b: Builder) -> list[int]:
        b.store(1, b.builtin("global_id"), b.word(0))
        words = b.finish()
        validate(words, tmp_path)
        return [rest[0] for code, rest in listing(words) if code == sp.OP_CAPABILITY]

    assert capabilities(builder("descriptor")) == [sp.CAPABILITY_SHADER]
    assert capabilities(builder("address")) == [sp.CAPABILITY_SHADER, sp.CAPABILITY_PHYSICAL_STORAGE_BUFFER]
    careful = Builder("test", (1, 1, 1), "descriptor", [Buffer("r"), Buffer("w")], preserve_nan=True)
    assert capabilities(careful) == [sp.CAPABILITY_SHADER, sp.CAPABILITY_PRESERVE_NAN]


@pytest.mark.parametrize("addressing", ADDRESSINGS)
def test_pairs_of_words(addressing: str, tmp_path: Path) -> None:
    """Buffers of width 2 hold 64-bit integers, read and written as two words."""
    b = builder(addressing, Buffer("r", 2), Buffer("w", 2), Buffer("rw", 2))
    i = b.builtin("global_id")
    low, high = b.load2(0, i)
    assert b.load2(0, i) == (low, high) and b.load2(2, i) != b.load2(2, i)
    b.store2(1, i, [high, b.op("iadd", low, low)])
    b.store2(2, i, b.load2(2, i))
    words = b.finish()
    validate(words, tmp_path)
    assert [sp.CAPABILITY_INT64] in [rest for code, rest in listing(words) if code == sp.OP_CAPABILITY]
    for wrong in (lambda: b.load4(0, i), lambda: b.load(0, i), lambda: b.store2(1, i, [low])):
        with pytest.raises(InternalError):
            wrong()


def test_access_is_declared(tmp_path: Path) -> None:
    for addressing in ADDRESSINGS:
        words = everything(addressing).finish()
        decorations = [
            rest for code, rest in listing(words) if code in (sp.OP_DECORATE, sp.OP_MEMBER_DECORATE)
        ]
        for wanted in (sp.DECORATION_NON_WRITABLE, sp.DECORATION_NON_READABLE):
            assert any(wanted in rest for rest in decorations)


def test_the_argument_block_is_counted() -> None:
    b = builder()
    assert b.arg_words == 0 and b.shared_bytes == 0
    b.word(4, Ty.F32)
    b.word(2)
    b.shared(Ty.I32, 32)
    assert b.arg_words == 5 and b.shared_bytes == 128


def test_equal_operations_are_one_value() -> None:
    b = builder()
    i, n = b.builtin("global_id"), b.word(0)
    first = b.op("iadd", i, n)
    assert b.op("iadd", n, i) is first, "commutative"
    assert b.op("isub", i, n) is not b.op("isub", n, i)
    assert b.load(0, first) is b.load(0, first), "a buffer that is only read"
    with b.if_(b.op("ult", i, n)):
        assert b.op("iadd", i, n) is first, "known from a dominating region"
        inside = b.op("imul", i, n)
    assert b.op("imul", i, n) is not inside, "a branch does not dominate what follows"


def test_what_may_change_is_read_again() -> None:
    b = Builder("test", (64, 1, 1), "descriptor", [Buffer("rw")])
    i = b.builtin("global_id")
    assert b.load(0, i) is not b.load(0, i)
    variable = b.var(i)
    assert b.get(variable) is not b.get(variable)
    array = b.shared(Ty.U32, 64)
    assert b.shared_load(array, i) is not b.shared_load(array, i)


def test_constants_are_bit_exact_and_shared() -> None:
    b = builder()
    assert b.const(Ty.F32, -0.0) is not b.const(Ty.F32, 0.0)
    assert b.const(Ty.F32, -0.0).const == 0x80000000
    assert b.const(Ty.F32, 1e300).const == 0x7F800000 and b.const(Ty.F32, -1e300).const == 0xFF800000
    assert b.const(Ty.F32, float("nan")) is b.const(Ty.F32, float("nan"))
    assert b.const(Ty.F32, 0.1).const == 0x3DCCCCCD
    assert b.const(Ty.I32, -1).const == 0xFFFFFFFF and b.const(Ty.I32, -1) is not b.const(Ty.U32, -1)
    assert b.bits(Ty.F32, 0x7FA00001).const == 0x7FA00001
    assert b.const(Ty.BOOL, True) is b.const(Ty.BOOL, 7)


def test_float_arithmetic_carries_no_contraction() -> None:
    b = builder()
    x, y = b.word(0, Ty.F32), b.word(1, Ty.F32)
    made = [b.op(name, x, y).id for name in ("fadd", "fsub", "fmul", "fdiv")]
    decorated = {rest[0] for code, rest in listing(b.finish()) if code == sp.OP_DECORATE and rest[1] == 42}
    assert set(made) <= decorated


def test_floats_are_never_folded() -> None:
    b = builder()
    x, zero, one = b.word(0, Ty.F32), b.const(Ty.F32, 0.0), b.const(Ty.F32, 1.0)
    for name, other in (("fadd", zero), ("fmul", one), ("fmul", zero), ("fdiv", one), ("fsub", x)):
        assert b.op(name, x, other) is not x
    assert b.op("fadd", one, one).const is None


INTEGERS = (0, 1, 2, 3, 5, 31, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


@pytest.mark.parametrize("name", [n for n, op in sp.OPS.items() if op.arity == 2 and Ty.U32 in op.operands])
def test_integer_folding_agrees_with_arithmetic(name: str) -> None:
    """Both operands constant: the folded value is the value; one constant: an identity holds for every value."""
    from tests.null.test_emit_interpreter import NumpyBuilder

    b, numpy = builder(), NumpyBuilder()
    for x in INTEGERS:
        for y in INTEGERS:
            if (name in ("shl", "shr_u", "shr_s") and y > 31) or (name in ("udiv", "urem") and y == 0):
                continue
            folded = b.op(name, b.bits(Ty.U32, x), b.bits(Ty.U32, y))
            want = numpy.op(name, numpy.bits(Ty.U32, x), numpy.bits(Ty.U32, y))
            assert folded.const == int(want.data), f"{name} {x:#x} {y:#x}"


def test_index_arithmetic_is_simplified() -> None:
    b = builder()
    i = b.builtin("global_id")
    c = lambda value: b.const(Ty.U32, value)  # noqa: E731
    assert b.op("iadd", i, c(0)) is i and b.op("imul", c(1), i) is i and b.op("isub", i, i).const == 0
    assert b.op("iadd", b.op("iadd", i, c(3)), c(4)) is b.op("iadd", i, c(7))
    quad = b.op("imul", i, c(4))
    for lane in range(4):
        element = b.op("iadd", quad, c(lane))
        assert b.op("and", element, c(3)).const == lane
        assert b.op("shr_u", element, c(2)) is b.op("udiv", quad, c(4))
    assert b.op("urem", i, c(8)) is b.op("and", i, c(7))


def test_text_is_readable_and_stable() -> None:
    b = builder()
    index = b.builtin("global_id")
    with b.if_(b.op("ult", index, b.word(0))):
        x = b.bitcast(Ty.F32, b.load(0, index))
        b.store(1, index, b.bitcast(Ty.U32, b.op("fadd", x, b.const(Ty.F32, 0.5))))
    assert (
        b.text()
        == """\
kernel test local (64, 1, 1) descriptor
  buffer 0: r x1
  buffer 1: w x1
function @main -> void {
  %0:
  %1 = load u32x3 $input0
  %2 = lane u32 %1 0
  %3 = at u32* $buffer1 0u 1u 0u
  %4 = load u32 %3
  %5 = ult bool %2 %4
  if %5 {
    %6:
    %7 = at u32* $buffer2 0u %2
    %8 = load u32 %7
    %9 = bitcast f32 %8
    %10 = fadd f32 %9 0.5f
    %11 = bitcast u32 %10
    %12 = at u32* $buffer3 0u %2
    store %12 <- %11
  } %13
}
"""
    )


def test_what_is_only_read_can_be_read_as_texels() -> None:
    uses = [Buffer("r", 4), Buffer("r", 4, aliased=True), Buffer("rw"), Buffer("w", 4)]
    b = Builder("texels", (64, 1, 1), "descriptor", uses, texels=True)
    index = b.builtin("global_id")
    b.store4(3, index, b.load4(0, index))
    assert b.texels == b.bound_texels() == (4, 0, 0, 0)
    assert (
        b.text()
        == """\
kernel texels local (64, 1, 1) descriptor
  buffer 0: r x4 texels
  buffer 1: r x4 aliased
  buffer 2: rw x1
  buffer 3: w x4
function @main -> void {
  %0:
  %1 = load u32x3 $input0
  %2 = lane u32 %1 0
  %3 = load image $buffer1
  %4 = fetch u32x4 %3 %2
  %5 = lane u32 %4 0
  %6 = lane u32 %4 1
  %7 = lane u32 %4 2
  %8 = lane u32 %4 3
  %9 = at u32x4* $buffer2 0u %2
  %10 = vector u32x4 %5 %6 %7 %8
  store %9 <- %10
}
"""
    )


def test_texels_need_descriptors() -> None:
    with pytest.raises(InternalError, match="descriptor"):
        Builder("texels", (64, 1, 1), "address", [Buffer("r")], texels=True)


def test_misuse_is_refused() -> None:
    b = builder()
    i, x, flag = b.builtin("global_id"), b.word(0, Ty.F32), b.word(1, Ty.BOOL)
    for wrong in (
        lambda: b.op("fadd", x, i),
        lambda: b.op("fadd", x),
        lambda: b.op("nonsense", x),
        lambda: b.op("udiv", b.word(0, Ty.I32), b.word(0, Ty.I32)),
        lambda: b.select(x, i, i),
        lambda: b.select(flag, i, x),
        lambda: b.bitcast(Ty.U32, flag),
        lambda: b.store(0, i, i),
        lambda: b.load(1, i),
        lambda: b.load4(0, i),
        lambda: b.load(2, i),
        lambda: b.load(0, x),
        lambda: b.store(1, i, x),
        lambda: b.builtin("thread"),
        lambda: b.shared(Ty.BOOL, 4),
        lambda: b.set(b.var(i), x),
        lambda: b.call("missing", x),
        lambda: b.if_else(flag, lambda: [i], lambda: [x]),
        lambda: b.function("load", [Ty.U32], Ty.U32, lambda p: b.load(0, p[0])),
        lambda: Builder("test", (1, 1, 1), "pointer", []),
        lambda: Builder("test", (1, 1, 1), "address", [Buffer("read")]),
    ):
        with pytest.raises(InternalError):
            wrong()


def test_functions_are_defined_once(tmp_path: Path) -> None:
    b = builder()
    x = b.word(0, Ty.F32)
    for _ in range(2):
        b.function("twice", [Ty.F32], Ty.F32, lambda p: b.op("fadd", p[0], p[0]))
    assert b.defined("twice") and not b.defined("thrice")
    assert b.call("twice", x) is b.call("twice", x)
    b.store(1, b.builtin("global_id"), b.bitcast(Ty.U32, b.call("twice", x)))
    words = b.finish()
    assert count(words, sp.OP_FUNCTION) == 2 and count(words, sp.OP_FUNCTION_CALL) == 1
    validate(words, tmp_path)
