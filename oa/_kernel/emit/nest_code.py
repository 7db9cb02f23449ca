"""The body of a nest: evaluating its scalar operations, addresses and memory accesses at one point of the iteration space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oa._kernel.emit.ir import Buffer, Builder, Ty, Value
from oa._kernel.emit.nest import Address, Instr, Nest, Target
from oa._kernel.emit.scalar import emit_op
from oa._schema.dtype import DType, as_dtype

REGISTER = {"float32": Ty.F32, "int32": Ty.I32, "uint32": Ty.U32, "uint8": Ty.U32, "bool": Ty.BOOL}
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
            return b.bitcast(REGISTER[instr.dtype], value)
        if instr.op == "const":
            bits = int(instr.attr or 0)
            return (
                b.const(Ty.BOOL, bool(bits)) if instr.dtype == "bool" else b.bits(REGISTER[instr.dtype], bits)
            )
        if instr.op == "param":
            return b.word(int(instr.attr or 0), REGISTER[instr.dtype])
        ins = tuple(as_dtype(self.nest.code[a].dtype) for a in instr.args)
        return emit_op(b, instr.op, as_dtype(instr.dtype), ins, [self.values[a] for a in instr.args])


def load(b: Builder, instr: Instr, index: Value) -> Value:
    """One element as a register value."""
    dtype = as_dtype(instr.dtype)
    if dtype.itemsize == 4:
        return b.bitcast(REGISTER[instr.dtype], b.load(instr.buffer, index))
    word = b.load(instr.buffer, b.op("shr_u", index, b.const(Ty.U32, 2)))
    shift = b.op("shl", b.op("and", index, b.const(Ty.U32, 3)), b.const(Ty.U32, 3))
    return _byte(b, dtype, b.op("shr_u", word, shift))


def _byte(b: Builder, dtype: DType, word: Value) -> Value:
    byte = b.op("and", word, b.const(Ty.U32, 255))
    return b.op("ine", byte, b.const(Ty.U32, 0)) if dtype.name == "bool" else byte


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
    word = b.load(instr.buffer, quad)
    return [_byte(b, dtype, b.op("shr_u", word, b.const(Ty.U32, 8 * k))) for k in range(4)]


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


def pack_bytes(b: Builder, values: Sequence[Value]) -> Value:
    """Four sub-word values as one word, the first lowest."""
    total: Value | None = None
    for k, value in enumerate(values):
        byte = b.select(value, b.const(Ty.U32, 1), b.const(Ty.U32, 0)) if value.ty is Ty.BOOL else value
        shifted = b.op("shl", byte, b.const(Ty.U32, 8 * k)) if k else byte
        total = shifted if total is None else b.op("or", total, shifted)
    assert total is not None
    return total
