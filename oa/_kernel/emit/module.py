"""The module around a kernel: ids, interned types and constants, decorations, interface, final layout."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from oa._kernel.emit import spirv as sp
from oa._kernel.emit.types import Ty, Value
from oa.errors import InternalError

_PACK_FLOAT = struct.Struct("<f").pack
_PACK_DOUBLE = struct.Struct("<d").pack


def float_pattern(value: float) -> int:
    """The float32 bit pattern nearest to `value`; values beyond the range become infinities."""
    try:
        raw = _PACK_FLOAT(value)
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000
    return int.from_bytes(raw, "little")


class Module:
    """Declarations of one SPIR-V module. Everything is interned: equal requests give equal ids."""

    def __init__(self) -> None:
        self._next = 1
        self._interned: dict[tuple[object, ...], int] = {}
        self._scalars = [0] * len(Ty)  # ids of the register types, 0 until used
        self._constants: dict[tuple[int, int], Value] = {}
        self._declarations: list[int] = []  # types, constants and global variables, in order of first use
        self._decorations: list[int] = []
        self._exact: list[int] = []  # results decorated NoContraction
        self._interface: list[int] = []
        self._functions: list[list[int]] = []
        self._capabilities = [sp.CAPABILITY_SHADER]
        self._memory_model = (sp.MODEL_LOGICAL, sp.MODEL_GLSL450)
        self._glsl = 0

    def _id(self) -> int:
        fresh = self._next
        self._next = fresh + 1
        return fresh

    def _type(self, opcode: int, *operands: int) -> int:
        """Declare a type once."""
        key = (opcode, *operands)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = self._id()
            self._declarations += (len(operands) + 2 << 16 | opcode, found, *operands)
        return found

    def _scalar(self, ty: Ty) -> int:
        found = self._scalars[ty.order]
        if not found:
            if ty.is_wide:
                self._need(sp.CAPABILITY_FLOAT64 if ty.is_float else sp.CAPABILITY_INT64)
            if ty.is_float:
                found = self._type(sp.OP_TYPE_FLOAT, ty.bits)
            elif ty.is_int:
                found = self._type(sp.OP_TYPE_INT, ty.bits, int(ty.is_signed))
            else:
                found = self._type(sp.OP_TYPE_BOOL)
            self._scalars[ty.order] = found
        return found

    def _need(self, capability: int) -> None:
        if capability not in self._capabilities:
            self._capabilities.append(capability)

    def _vector(self, length: int) -> int:
        return self._type(sp.OP_TYPE_VECTOR, self._scalar(Ty.U32), length)

    def _pointer(self, storage: int, pointee: int) -> int:
        return self._type(sp.OP_TYPE_POINTER, storage, pointee)

    def _decorate(self, target: int, *operands: int) -> None:
        self._decorations += (len(operands) + 2 << 16 | sp.OP_DECORATE, target, *operands)

    def _decorate_member(self, target: int, member: int, *operands: int) -> None:
        self._decorations += (len(operands) + 3 << 16 | sp.OP_MEMBER_DECORATE, target, member, *operands)

    def _runtime_array(self, element: int, stride: int) -> int:
        key = ("runtime array", element)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = self._id()
            self._declarations += (3 << 16 | sp.OP_TYPE_RUNTIME_ARRAY, found, element)
            self._decorate(found, sp.DECORATION_ARRAY_STRIDE, stride)
        return found

    def _block(self, members: Sequence[tuple[int, int]], *access: int) -> int:
        """A Block structure of (type, byte offset) members; `access` decorations go on every member."""
        key = ("block", *members, access)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = self._id()
            types = [kind for kind, _ in members]
            self._declarations += (len(members) + 2 << 16 | sp.OP_TYPE_STRUCT, found, *types)
            self._decorate(found, sp.DECORATION_BLOCK)
            for index, (_, offset) in enumerate(members):
                self._decorate_member(found, index, sp.DECORATION_OFFSET, offset)
                for decoration in access:
                    self._decorate_member(found, index, decoration)
        return found

    def _global(self, storage: int, pointee: int) -> int:
        """A module-scope variable, part of the entry point's interface."""
        made = self._id()
        pointer = self._pointer(storage, pointee)
        self._declarations += (4 << 16 | sp.OP_VARIABLE, pointer, made, storage)
        self._interface.append(made)
        return made

    def _extended(self) -> int:
        if not self._glsl:
            self._glsl = self._id()
        return self._glsl

    def bits(self, ty: Ty, pattern: int) -> Value:
        """The constant of type `ty` with the bits of `pattern` (for BOOL: non-zero is true)."""
        if ty is Ty.BOOL:
            pattern = 1 if pattern else 0
        key = (ty.order, pattern)
        found = self._constants.get(key)
        if found is None:
            if not 0 <= pattern < 1 << ty.bits:
                raise InternalError(f"constant pattern {pattern:#x} does not fit {ty.bits} bits")
            kind = self._scalar(ty)
            made = self._id()
            if ty is Ty.BOOL:
                opcode = sp.OP_CONSTANT_TRUE if pattern else sp.OP_CONSTANT_FALSE
                self._declarations += (3 << 16 | opcode, kind, made)
            elif ty.is_wide:
                self._declarations += (
                    5 << 16 | sp.OP_CONSTANT, kind, made, pattern & 0xFFFFFFFF, pattern >> 32,
                )  # fmt: skip
            else:
                self._declarations += (4 << 16 | sp.OP_CONSTANT, kind, made, pattern)
            found = self._constants[key] = Value(made, ty, pattern)
        return found

    def const(self, ty: Ty, value: int | float | bool) -> Value:
        """A constant, bit-exact including -0.0, NaN and infinities; integers wrap modulo their width."""
        if ty is Ty.F32:
            return self.bits(ty, float_pattern(value))
        if ty is Ty.F64:
            return self.bits(ty, int.from_bytes(_PACK_DOUBLE(value), "little"))
        if ty is Ty.BOOL:
            return self.bits(ty, bool(value))
        return self.bits(ty, int(value) & (1 << ty.bits) - 1)

    def _layout(self, entry: int, local_size: tuple[int, int, int]) -> list[int]:
        """All words of the module in the order that the specification prescribes."""
        words = [sp.MAGIC, sp.VERSION_1_5, 0, self._next, 0]
        for capability in self._capabilities:
            words += (2 << 16 | sp.OP_CAPABILITY, capability)
        if self._glsl:
            name = sp.string_words("GLSL.std.450")
            words += (len(name) + 2 << 16 | sp.OP_EXT_INST_IMPORT, self._glsl, *name)
        words += (3 << 16 | sp.OP_MEMORY_MODEL, *self._memory_model)
        main = sp.string_words("main")
        words.append(len(main) + len(self._interface) + 3 << 16 | sp.OP_ENTRY_POINT)
        words += (sp.MODEL_GL_COMPUTE, entry, *main, *self._interface)
        words += (6 << 16 | sp.OP_EXECUTION_MODE, entry, sp.MODE_LOCAL_SIZE, *local_size)
        if sp.CAPABILITY_PRESERVE_NAN in self._capabilities:
            words += (4 << 16 | sp.OP_EXECUTION_MODE, entry, sp.MODE_PRESERVE_NAN, 32)
        words += self._decorations
        for made in self._exact:
            words += (3 << 16 | sp.OP_DECORATE, made, sp.DECORATION_NO_CONTRACTION)
        words += self._declarations
        for function in self._functions:
            words += function
        return words
