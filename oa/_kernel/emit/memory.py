"""Memory outside a kernel: its argument block and the bound buffers, in both addressings."""

from __future__ import annotations

from collections.abc import Sequence

from oa._kernel.emit import spirv as sp
from oa._kernel.emit.frame import Frame
from oa._kernel.emit.types import Buffer, Ty, Value
from oa.errors import InternalError


class Memory(Frame):
    """The part of `Builder` that reads arguments and reads and writes buffers."""

    # --- argument block and buffers -------------------------------------------------------------------------

    def _argument_block(self) -> int:
        """Id of the block: a pointer read in the prologue (address), or the uniform buffer at binding 0 (descriptor)."""
        if self._block_base:
            return self._block_base
        if self.addressing == "descriptor":
            self._block_base = self._uniform_block()
            return self._block_base
        zero = self.bits(Ty.U32, 0).id
        self._capabilities.append(sp.CAPABILITY_PHYSICAL_STORAGE_BUFFER)
        self._memory_model = (sp.MODEL_PHYSICAL_STORAGE_BUFFER_64, sp.MODEL_GLSL450)
        members = [(self._buffer_pointer(b), 8 * k) for k, b in enumerate(self.buffers)]
        members.append((self._runtime_array(self._scalar(Ty.U32), 4), 8 * len(self.buffers)))
        pushed = self._pointer(
            sp.CLASS_PHYSICAL_STORAGE_BUFFER, self._block(members, sp.DECORATION_NON_WRITABLE)
        )
        variable = self._global(sp.CLASS_PUSH_CONSTANT, self._block([(pushed, 0)]))
        pointer = self._pointer(sp.CLASS_PUSH_CONSTANT, pushed)
        chain, self._block_base = self._id(), self._id()
        self._prologue += (
            5 << 16 | sp.OP_ACCESS_CHAIN, pointer, chain, variable, zero,
            4 << 16 | sp.OP_LOAD, pushed, self._block_base, chain,
        )  # fmt: skip
        return self._block_base

    def _uniform_block(self) -> int:
        """The variable of the argument block: an array of four-word vectors whose length `_close_block` sets."""
        length, array = self._id(), self._id()
        vector = self._vector(4)
        self._declarations += (4 << 16 | sp.OP_CONSTANT, self._scalar(Ty.U32), length, 1)
        self._block_length = len(self._declarations) - 1
        self._declarations += (4 << 16 | sp.OP_TYPE_ARRAY, array, vector, length)
        self._decorate(array, sp.DECORATION_ARRAY_STRIDE, 16)
        variable = self._global(sp.CLASS_UNIFORM, self._block([(array, 0)]))
        self._decorate(variable, sp.DECORATION_DESCRIPTOR_SET, 0)
        self._decorate(variable, sp.DECORATION_BINDING, 0)
        return variable

    def _close_block(self) -> None:
        """The uniform block is as long as the words that were read."""
        if self._block_length:
            self._declarations[self._block_length] = -(-(2 * len(self.buffers) + self.arg_words) // 4)

    def _buffer_pointer(self, buffer: Buffer) -> int:
        """The pointer type of a bound buffer under "address"."""
        block = self._buffer_block(buffer, access=True)
        return self._pointer(sp.CLASS_PHYSICAL_STORAGE_BUFFER, block)

    def _buffer_block(self, buffer: Buffer, access: bool) -> int:
        element = self._word_type(buffer.width)
        array = self._runtime_array(element, 4 * buffer.width)
        if access and buffer.access != "rw" and not buffer.aliased:
            only = sp.DECORATION_NON_WRITABLE if buffer.access == "r" else sp.DECORATION_NON_READABLE
            return self._block([(array, 0)], only)
        return self._block([(array, 0)])

    def _bound(self, binding: int, block: int, access: str, aliased: bool = False) -> int:
        """A storage-buffer variable of set 0."""
        variable = self._global(sp.CLASS_STORAGE_BUFFER, block)
        self._decorate(variable, sp.DECORATION_DESCRIPTOR_SET, 0)
        self._decorate(variable, sp.DECORATION_BINDING, binding)
        if aliased:
            self._decorate(variable, sp.DECORATION_ALIASED)
        elif access == "r":
            self._decorate(variable, sp.DECORATION_NON_WRITABLE)
        elif access == "w":
            self._decorate(variable, sp.DECORATION_NON_READABLE)
        return variable

    def word(self, index: int, ty: Ty = Ty.U32) -> Value:
        """Plain word `index` of the argument block as `ty` (BOOL: not zero), read at the kernel's start."""
        self._main_only("word")
        found = self._words_read.get((index, ty))
        if found is not None:
            return found
        self.arg_words = max(self.arg_words, index + 1)
        if ty is Ty.U32:
            raw = self._read_word(index)
            value = Value(raw, ty)
        else:
            raw = self.word(index).id
            value = Value(self._id(), ty)
            if ty is Ty.BOOL:
                zero = self.bits(Ty.U32, 0).id
                self._prologue += (5 << 16 | sp.OPS["ine"].code, self._scalar(ty), value.id, raw, zero)
            else:
                self._prologue += (4 << 16 | sp.OP_BITCAST, self._scalar(ty), value.id, raw)
                value.source = ("bitcast", (self.word(index),))
        self._words_read[index, ty] = value
        return value

    def _read_word(self, index: int) -> int:
        base = self._argument_block()
        u32 = self._scalar(Ty.U32)
        count = len(self.buffers)
        if self.addressing == "descriptor":
            return self._read_uniform(2 * count + index)
        chain, made = self._id(), self._id()
        pointer = self._pointer(sp.CLASS_PHYSICAL_STORAGE_BUFFER, u32)
        member, element = self.bits(Ty.U32, count).id, self.bits(Ty.U32, index).id
        self._prologue += (
            6 << 16 | sp.OP_ACCESS_CHAIN, pointer, chain, base, member, element,
            6 << 16 | sp.OP_LOAD, u32, made, chain, sp.MEMORY_ALIGNED, 4,
        )  # fmt: skip
        return made

    def _read_uniform(self, place: int) -> int:
        """Word `place` of the uniform block, read in the prologue."""
        base, u32 = self._argument_block(), self._scalar(Ty.U32)
        chain, made = self._id(), self._id()
        pointer = self._pointer(sp.CLASS_UNIFORM, u32)
        zero, vector, lane = (self.bits(Ty.U32, k).id for k in (0, place // 4, place % 4))
        self._prologue += (
            7 << 16 | sp.OP_ACCESS_CHAIN, pointer, chain, base, zero, vector, lane,
            4 << 16 | sp.OP_LOAD, u32, made, chain,
        )  # fmt: skip
        return made

    def _buffer_base(self, buffer: int) -> int:
        """Id of the pointer to, or of the variable for, a bound buffer."""
        found = self._pointers.get(buffer)
        if found is not None:
            return found
        self._main_only("a buffer access")
        if not 0 <= buffer < len(self.buffers):
            raise InternalError(f"buffer {buffer} of {len(self.buffers)}")
        use = self.buffers[buffer]
        if self._reads_texels(buffer):
            found = self._texel_image(buffer)
        elif self.addressing == "descriptor":
            found = self._bound(buffer + 1, self._buffer_block(use, access=False), use.access, use.aliased)
        else:
            base = self._argument_block()
            held = self._buffer_pointer(use)
            pointer = self._pointer(sp.CLASS_PHYSICAL_STORAGE_BUFFER, held)
            chain, found = self._id(), self._id()
            self._prologue += (
                5 << 16 | sp.OP_ACCESS_CHAIN, pointer, chain, base, self.bits(Ty.U32, buffer).id,
                6 << 16 | sp.OP_LOAD, held, found, chain, sp.MEMORY_ALIGNED, 8,
            )  # fmt: skip
        self._pointers[buffer] = found
        return found

    def _texel_image(self, buffer: int) -> int:
        """Id of the image of a buffer that is read as texels."""
        self._need(sp.CAPABILITY_SAMPLED_BUFFER)
        # Depth, arrayed and multisampled are 0; the format is that of the view.
        image = self._type(sp.OP_TYPE_IMAGE, self._scalar(Ty.U32), sp.DIM_BUFFER, 0, 0, 0, sp.SAMPLED, 0)
        variable = self._global(sp.CLASS_UNIFORM_CONSTANT, image)
        self._decorate(variable, sp.DECORATION_DESCRIPTOR_SET, 0)
        self._decorate(variable, sp.DECORATION_BINDING, buffer + 1)
        made = self._id()
        self._prologue += (4 << 16 | sp.OP_LOAD, image, made, variable)
        return made

    def _fetch(self, buffer: int, index: Value, width: int) -> int:
        """Id of the four-word vector that holds the element at `index`, for buffers that are read as texels."""
        self._require_access(buffer, index, width, "r")
        image, made = self._buffer_base(buffer), self._id()
        self._code += (5 << 16 | sp.OP_IMAGE_FETCH, self._vector(4), made, image, index.id)
        return made

    def _reads_texels(self, buffer: int) -> bool:
        return 0 <= buffer < len(self.texels) and self.texels[buffer] > 0

    def _require_access(self, buffer: int, index: Value, width: int, access: str) -> None:
        self._main_only("a buffer access")
        if not 0 <= buffer < len(self.buffers):
            raise InternalError(f"buffer {buffer} of {len(self.buffers)}")
        use = self.buffers[buffer]
        if use.width != width or access not in use.access:
            raise InternalError(f"buffer {buffer} is {use}, used with access {access!r} and width {width}")
        if index.ty is not Ty.U32:
            raise InternalError(f"buffer {buffer}: index is {index.ty}, wanted u32")

    def _element(self, buffer: int, index: Value, width: int, access: str) -> tuple[int, tuple[int, ...]]:
        """Pointer to one element and the memory operands of its access."""
        self._require_access(buffer, index, width, access)
        base = self._buffer_base(buffer)
        address = self.addressing == "address"
        storage = sp.CLASS_PHYSICAL_STORAGE_BUFFER if address else sp.CLASS_STORAGE_BUFFER
        element = self._word_type(width)
        key = ("element", buffer, index.id)
        found = self._known.get(key)
        if found is None:
            made = self._id()
            self._code.append(6 << 16 | sp.OP_ACCESS_CHAIN)
            self._code += (self._pointer(storage, element), made, base, self.bits(Ty.U32, 0).id, index.id)
            found = self._remember(key, Value(made, Ty.U32))
        return found.id, ((sp.MEMORY_ALIGNED, 4 * width) if address else ())

    def _word_type(self, width: int) -> int:
        """The element type of a buffer."""
        if width == 2:
            return self._scalar(Ty.U64)
        return self._scalar(Ty.U32) if width == 1 else self._vector(4)

    def load(self, buffer: int, index: Value) -> Value:
        """The u32 word at word `index` of a buffer of width 1."""
        key = ("load", buffer, index.id)
        found = self._known.get(key)
        if found is None:
            kind = self._scalar(Ty.U32)
            if self._reads_texels(buffer):
                whole, made = self._fetch(buffer, index, 1), self._id()
                self._code += (5 << 16 | sp.OP_COMPOSITE_EXTRACT, kind, made, whole, 0)
            else:
                pointer, operands = self._element(buffer, index, 1, "r")
                made = self._id()
                self._code += (len(operands) + 4 << 16 | sp.OP_LOAD, kind, made, pointer, *operands)
            found = Value(made, Ty.U32)
            if self.buffers[buffer].access == "r":
                self._remember(key, found)
        return found

    def load4(self, buffer: int, index4: Value) -> tuple[Value, ...]:
        """The four u32 words at 16-byte `index4` of a buffer of width 4."""
        return self._load_wide(buffer, index4, 4)

    def load2(self, buffer: int, index2: Value) -> tuple[Value, ...]:
        """The two u32 words at 8-byte `index2` of a buffer of width 2."""
        return self._load_wide(buffer, index2, 2)

    def load64(self, buffer: int, index: Value) -> Value:
        """The u64 at 8-byte `index` of a buffer of width 2."""
        key = ("load64", buffer, index.id)
        found = self._known.get(key)
        if found is None:
            kind = self._scalar(Ty.U64)
            if self._reads_texels(buffer):
                low, high = self.load2(buffer, index)
                pair, made = self._id(), self._id()
                self._code += (
                    5 << 16 | sp.OP_COMPOSITE_CONSTRUCT, self._vector(2), pair, low.id, high.id,
                    4 << 16 | sp.OP_BITCAST, kind, made, pair,
                )  # fmt: skip
            else:
                pointer, operands = self._element(buffer, index, 2, "r")
                made = self._id()
                self._code += (len(operands) + 4 << 16 | sp.OP_LOAD, kind, made, pointer, *operands)
            found = Value(made, Ty.U64)
            if self.buffers[buffer].access == "r":
                self._remember(key, found)
        return found

    def store64(self, buffer: int, index: Value, value: Value) -> None:
        """Write one u64 at 8-byte `index` of a buffer of width 2."""
        if value.ty is not Ty.U64:
            raise InternalError(f"store64: value is {value.ty}, wanted u64")
        pointer, operands = self._element(buffer, index, 2, "w")
        self._code += (len(operands) + 3 << 16 | sp.OP_STORE, pointer, value.id, *operands)

    def word64(self, index: int, ty: Ty) -> Value:
        """Plain words `index` (low) and `index + 1` (high) of the argument block as a 64-bit `ty`."""
        low, high = self.word(index), self.word(index + 1)
        found = self._wide_words.get((index, ty))
        if found is None:
            pair, made = self._id(), self._id()
            self._prologue += (
                5 << 16 | sp.OP_COMPOSITE_CONSTRUCT, self._vector(2), pair, low.id, high.id,
                4 << 16 | sp.OP_BITCAST, self._scalar(ty), made, pair,
            )  # fmt: skip
            found = self._wide_words[index, ty] = Value(made, ty)
        return found

    def _load_wide(self, buffer: int, index: Value, width: int) -> tuple[Value, ...]:
        keys = [("load", width, buffer, index.id, lane) for lane in range(width)]
        first = self._known.get(keys[0])
        if first is not None:
            return first, *(self._known[key] for key in keys[1:])
        u32 = self._scalar(Ty.U32)
        if self._reads_texels(buffer):
            whole = self._fetch(buffer, index, width)
        else:
            pointer, operands = self._element(buffer, index, width, "r")
            whole = self._id()
            kind = self._word_type(width)
            self._code += (len(operands) + 4 << 16 | sp.OP_LOAD, kind, whole, pointer, *operands)
            if width == 2:
                pair, whole = whole, self._id()
                self._code += (4 << 16 | sp.OP_BITCAST, self._vector(2), whole, pair)
        lanes = tuple(Value(self._id(), Ty.U32) for _ in range(width))
        for lane, value in enumerate(lanes):
            self._code += (5 << 16 | sp.OP_COMPOSITE_EXTRACT, u32, value.id, whole, lane)
        if self.buffers[buffer].access == "r":
            for key, value in zip(keys, lanes, strict=True):
                self._remember(key, value)
        return lanes

    def store(self, buffer: int, index: Value, value: Value) -> None:
        """Write one u32 word."""
        if value.ty is not Ty.U32:
            raise InternalError(f"store: value is {value.ty}, wanted u32")
        pointer, operands = self._element(buffer, index, 1, "w")
        self._code += (len(operands) + 3 << 16 | sp.OP_STORE, pointer, value.id, *operands)

    def store4(self, buffer: int, index4: Value, values: Sequence[Value]) -> None:
        """Write four u32 words as one vector."""
        self._store_wide(buffer, index4, values, 4)

    def store2(self, buffer: int, index2: Value, values: Sequence[Value]) -> None:
        """Write two u32 words as one 64-bit integer."""
        self._store_wide(buffer, index2, values, 2)

    def _store_wide(self, buffer: int, index: Value, values: Sequence[Value], width: int) -> None:
        if len(values) != width or any(v.ty is not Ty.U32 for v in values):
            raise InternalError(f"store: values are {[v.ty for v in values]}, wanted {width} u32")
        pointer, operands = self._element(buffer, index, width, "w")
        whole = self._id()
        self._code += (
            width + 3 << 16 | sp.OP_COMPOSITE_CONSTRUCT,
            self._vector(width),
            whole,
            *(v.id for v in values),
        )
        if width == 2:
            pair, whole = whole, self._id()
            self._code += (4 << 16 | sp.OP_BITCAST, self._word_type(2), whole, pair)
        self._code += (len(operands) + 3 << 16 | sp.OP_STORE, pointer, whole, *operands)
