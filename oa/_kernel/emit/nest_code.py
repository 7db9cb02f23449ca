"""The body of a nest: evaluating its scalar operations, addresses and memory accesses at one point of the iteration space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oa._kernel.emit import bfloat, half
from oa._kernel.emit.ir import Buffer, Builder, Ty, Value
from oa._kernel.emit.nest import Address, Instr, Nest, Target
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.scalar import REGISTER, emit_op
from oa._schema.dtype import DType, as_dtype

_LEAVES = frozenset({"load", "index", "const", "param", "reduce"})


def builder(nest: Nest, target: Target, name: str) -> Builder:
    """A builder with the nest's buffers and workgroup size."""
    buffers = [Buffer(b.access, b.width, b.aliased) for b in nest.buffers]
    return Builder(
        name,
        (nest.schedule.local, 1, 1),
        target.addressing,
        buffers,
        trusted=target.trusted,
        preserve_nan=target.preserve_nan,
        texels=target.texels,
    )


def linear_group(b: Builder) -> Value:
    """The workgroup's number in a grid that may be folded into two dimensions."""
    return b.op(
        "iadd", b.op("imul", b.builtin("group_id", 1), b.builtin("num_groups", 0)), b.builtin("group_id", 0)
    )


def minimum(b: Builder, a: Value, limit: Value) -> Value:
    """The smaller of two u32."""
    return b.select(b.op("ult", a, limit), a, limit)


def split(b: Builder, nest: Nest, flat: Value, dims: range) -> dict[int, Value]:
    """Indices along `dims` (row-major) of a flat index; the outermost is not reduced modulo its extent."""
    out: dict[int, Value] = {}
    for k in reversed(dims):
        if k == dims.start:
            out[k] = flat
        else:
            extent = b.word(nest.extents[k])
            quotient = b.op("udiv", flat, extent)
            out[k] = b.op("isub", flat, b.op("imul", quotient, extent))
            flat = quotient
    return out


class Point:
    """Evaluates operations at one point: loop indices `dims`, and values that the surrounding loops computed, `known`."""

    def __init__(
        self, b: Builder, nest: Nest, dims: dict[int, Value], known: dict[int, Value] | None = None
    ) -> None:
        self.b = b
        self.nest = nest
        self.dims = dims
        self.values: dict[int, Value] = dict(known or {})

    def run(self, order: Iterable[int]) -> None:
        """Evaluate the operations at these positions, which are in order."""
        for position in order:
            if position not in self.values:
                self.values[position] = self._evaluate(self.nest.code[position])

    def address(self, address: Address) -> Value:
        """An address as a u32 element index."""
        b = self.b
        total: Value | None = None
        for atom, factor in address.terms:
            value = self._atom(atom)
            if factor is not None:
                value = b.op("imul", value, b.word(factor))
            total = value if total is None else b.op("iadd", total, value)
        if address.const is not None:
            const = b.word(address.const)
            total = const if total is None else b.op("iadd", total, const)
        return b.const(Ty.U32, 0) if total is None else total

    def _atom(self, atom: tuple[object, ...]) -> Value:
        if atom[0] == "dim":
            return self.dims[atom[1]]  # type: ignore[index]
        if atom[0] == "val":
            return self.values[atom[1]]  # type: ignore[index]
        inner = self.address(atom[1])  # type: ignore[arg-type]
        return self.b.op("udiv" if atom[0] == "div" else "urem", inner, self.b.word(atom[2]))  # type: ignore[arg-type]

    def _evaluate(self, instr: Instr) -> Value:
        b = self.b
        if instr.op == "load":
            assert instr.address is not None
            return load(b, instr, self.address(instr.address))
        if instr.op == "index":
            assert instr.address is not None
            value = self.address(instr.address)
            return b.convert(REGISTER[instr.dtype], value)
        if instr.op == "const":
            bits = int(instr.attr or 0)
            return (
                b.const(Ty.BOOL, bool(bits)) if instr.dtype == "bool" else b.bits(REGISTER[instr.dtype], bits)
            )
        if instr.op == "param":
            ty = REGISTER[instr.dtype]
            return (b.word64 if ty.is_wide else b.word)(int(instr.attr or 0), ty)
        ins = tuple(as_dtype(self.nest.code[a].dtype) for a in instr.args)
        return emit_op(b, instr.op, as_dtype(instr.dtype), ins, [self.values[a] for a in instr.args])


def load(b: Builder, instr: Instr, index: Value) -> Value:
    """One element as a register value."""
    dtype, ty = as_dtype(instr.dtype), REGISTER[instr.dtype]
    if dtype.itemsize == 8:
        return b.bitcast(ty, b.load64(instr.buffer, index))
    if dtype.itemsize == 4:
        return b.bitcast(ty, b.load(instr.buffer, index))
    step = 3 - dtype.itemsize  # log2 of the elements in a word
    word = b.load(instr.buffer, b.op("shr_u", index, b.const(Ty.U32, step)))
    within = b.op("and", index, b.const(Ty.U32, (1 << step) - 1))
    return _part(b, dtype, b.op("shr_u", word, b.op("shl", within, b.const(Ty.U32, 5 - step))))


def _part(b: Builder, dtype: DType, word: Value) -> Value:
    """The element in the low bits of a word."""
    if dtype.kind == "i":
        up = b.const(Ty.U32, 32 - dtype.bits)
        return b.op("shr_s", b.bitcast(Ty.I32, b.op("shl", word, up)), up)
    low = b.op("and", word, b.const(Ty.U32, (1 << dtype.bits) - 1))
    if dtype.is_float:
        unpacked = bfloat.unpacked if dtype.name == "bfloat16" else half.unpacked
        return unpacked(Reg(b, low)).v
    return b.op("ine", low, b.const(Ty.U32, 0)) if dtype.name == "bool" else low


def run_lanes(b: Builder, lanes: Sequence[Point], order: Iterable[int]) -> None:
    """Evaluate operations at neighbouring points; a vector load serves all of them at once."""
    first = lanes[0]
    for position in order:
        instr = first.nest.code[position]
        if instr.op == "load" and instr.vector:
            if position not in first.values:
                assert instr.address is not None
                for lane, value in zip(
                    lanes, _load_lanes(b, instr, first.address(instr.address), len(lanes))
                ):
                    lane.values[position] = value
        else:
            for lane in lanes:
                lane.run((position,))


def _load_lanes(b: Builder, instr: Instr, index: Value, count: int) -> list[Value]:
    """`count` neighbouring elements (4, or 2 words) from an index that is a multiple of it."""
    dtype = as_dtype(instr.dtype)
    if count == 2:
        words = b.load2(instr.buffer, b.op("shr_u", index, b.const(Ty.U32, 1)))
        return [b.bitcast(REGISTER[instr.dtype], v) for v in words]
    quad = b.op("shr_u", index, b.const(Ty.U32, 2))
    if dtype.itemsize == 4:
        return [b.bitcast(REGISTER[instr.dtype], v) for v in load_quad(b, instr.buffer, quad)]
    found = []
    for place in range(dtype.itemsize):
        at = quad if dtype.itemsize == 1 else _word_of(b, quad, dtype.itemsize, place)
        word = b.load(instr.buffer, at)
        found += [
            _part(b, dtype, b.op("shr_u", word, b.const(Ty.U32, bit))) for bit in range(0, 32, dtype.bits)
        ]
    return found


def _word_of(b: Builder, quad: Value, words: int, place: int) -> Value:
    """Word number `place` of the `words` that four elements take."""
    return b.op("iadd", b.op("imul", quad, b.const(Ty.U32, words)), b.const(Ty.U32, place))


def load_quad(b: Builder, buffer: int, quad: Value) -> tuple[Value, ...]:
    """The four words at 16-byte position `quad`, as one vector or as two pairs by the buffer's width."""
    if b.buffers[buffer].width == 4:
        return b.load4(buffer, quad)
    first = b.op("shl", quad, b.const(Ty.U32, 1))
    return (*b.load2(buffer, first), *b.load2(buffer, b.op("or", first, b.const(Ty.U32, 1))))


def store_lanes(b: Builder, buffer: int, index: Value, words: Sequence[Value]) -> None:
    """Write neighbouring words (4 or 2) at an index that is a multiple of their number."""
    if len(words) == 2:
        b.store2(buffer, b.op("shr_u", index, b.const(Ty.U32, 1)), words)
    else:
        store_quad(b, buffer, b.op("shr_u", index, b.const(Ty.U32, 2)), words)


def store_quad(b: Builder, buffer: int, quad: Value, words: Sequence[Value]) -> None:
    """Write four words at 16-byte position `quad`."""
    if b.buffers[buffer].width == 4:
        b.store4(buffer, quad, words)
        return
    first = b.op("shl", quad, b.const(Ty.U32, 1))
    b.store2(buffer, first, words[:2])
    b.store2(buffer, b.op("or", first, b.const(Ty.U32, 1)), words[2:])


def as_word(b: Builder, value: Value) -> Value:
    """The 32-bit word that stores a value of a four-byte dtype."""
    return b.bitcast(Ty.U32, value)


def store_element(b: Builder, buffer: int, index: Value, value: Value) -> None:
    """Write one element of a dtype of four or eight bytes."""
    if value.ty.is_wide:
        b.store64(buffer, index, b.bitcast(Ty.U64, value))
    else:
        b.store(buffer, index, as_word(b, value))


def store_small(b: Builder, buffer: int, quad: Value, dtype: DType, values: Sequence[Value]) -> None:
    """Write four neighbouring elements of a dtype of one or two bytes, which fill whole words."""
    size = dtype.itemsize
    for place in range(size):
        part = values[place * 4 // size : (place + 1) * 4 // size]
        b.store(buffer, quad if size == 1 else _word_of(b, quad, size, place), _packed(b, dtype, part))


def _packed(b: Builder, dtype: DType, values: Sequence[Value]) -> Value:
    """Sub-word values as one word, the first lowest."""
    total: Value | None = None
    for k, value in enumerate(values):
        if dtype.is_float:
            packed = bfloat.packed if dtype.name == "bfloat16" else half.packed
            bits = packed(Reg(b, value)).v
        elif dtype.kind == "i":
            bits = b.op("and", b.bitcast(Ty.U32, value), b.const(Ty.U32, (1 << dtype.bits) - 1))
        elif value.ty is Ty.BOOL:
            bits = b.select(value, b.const(Ty.U32, 1), b.const(Ty.U32, 0))
        else:
            bits = value
        shifted = b.op("shl", bits, b.const(Ty.U32, dtype.bits * k)) if k else bits
        total = shifted if total is None else b.op("or", total, shifted)
    assert total is not None
    return total
