"""Splicing: a compiled kernel whose hook, the function through which its results leave, gets another body.

A family's kernels end in `store(index, row, column, value)`: a function that no optimiser inlined, whose id the pack records.
Here its body becomes whatever is emitted through a `Builder`, which takes up the ids, types and inputs of the compiled module.
The last operand of the compiled kernel, its result, is the hook's alone.

Operands of the new body that the compiled kernel does not know come first in the argument block, so that everything it does know
moves by a constant: the offsets of its block and the numbers of its bindings, all of them decorations.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

from oa._kernel.emit import spirv as sp
from oa._kernel.emit.ir import Builder
from oa._kernel.emit.nest import Target
from oa._kernel.emit.types import Buffer, Ty, Value
from oa._kernel.pack import Kernel
from oa.errors import InternalError

#: Types that a module may hold once only.
_UNIQUE = frozenset((
    sp.OP_TYPE_VOID, sp.OP_TYPE_BOOL, sp.OP_TYPE_INT, sp.OP_TYPE_FLOAT, sp.OP_TYPE_VECTOR, sp.OP_TYPE_IMAGE, sp.OP_TYPE_POINTER,
    sp.OP_TYPE_FUNCTION,
))  # fmt: skip
_ANNOTATIONS = frozenset((sp.OP_DECORATE, sp.OP_MEMBER_DECORATE))
#: Operands of an entry point before its interface: model, function, the name "main" in two words.
_INTERFACE = 4
Instruction = tuple[int, tuple[int, ...]]


def instructions(words: Sequence[int]) -> Iterator[Instruction]:
    """(opcode, operands) of each instruction of a module."""
    place = 5
    while place < len(words):
        length = words[place] >> 16
        yield words[place] & 0xFFFF, tuple(words[place + 1 : place + length])
        place += length


def leading(operands: int, addressing: str) -> int:
    """How many operands stand before the compiled kernel's when a body needs so many more: uniform blocks move by 16 bytes."""
    return operands + operands % 2 if addressing == "descriptor" else operands


class Splice(Builder):
    """Builds the body of the hook of `into`. Buffers are `own`, then those of `into`, of which the last is bound as `result`.

    `place` is the hook's index, row and column, `values` the elements that it is given.
    """

    def __init__(self, into: Kernel, own: Sequence[Buffer], result: Buffer, target: Target) -> None:
        kept = into.buffers - 1
        self.into = into
        self.moved = len(own)
        placeholders = [Buffer("r", width or 1) for width in into.texels[:kept] or (0,) * kept]
        super().__init__(
            into.name, into.local_size, target.addressing, (*own, *placeholders, result), trusted=target.trusted,
            preserve_nan=target.preserve_nan, texels=target.texels,
        )  # fmt: skip
        self.texels = (*self.texels[: self.moved], *(into.texels or (0,) * into.buffers))
        self.arg_words = into.arg_words
        count = len(into.words) // 4
        self._static = struct.unpack(f"<{count}I", into.words)
        self._old = list(instructions(self._static))
        self._next = self._static[3]
        self._entry_label = self._block_id = self._id()
        self._pushed = self._push_type = self._result = 0
        self._members: dict[int, tuple[int, ...]] = {}
        self._adopt()
        parameters = self._open()
        self.place, self.values = parameters[:3], parameters[3:]

    def _adopt(self) -> None:
        """Take up the types and inputs of the compiled module."""
        last = self.into.buffers
        for opcode, operands in self._old:
            if opcode in _UNIQUE:
                self._interned.setdefault((opcode, *operands[1:]), operands[0])
            if opcode in (sp.OP_TYPE_POINTER, sp.OP_TYPE_STRUCT):
                self._members[operands[0]] = operands[1:]
            elif opcode == sp.OP_EXT_INST_IMPORT:
                self._glsl = operands[0]
            elif opcode == sp.OP_VARIABLE and operands[2] == sp.CLASS_PUSH_CONSTANT:
                self._pushed, self._push_type = operands[1], operands[0]
            elif opcode == sp.OP_DECORATE and operands[1:] == (sp.DECORATION_BINDING, last):
                self._result = operands[0]

    def _open(self) -> tuple[Value, ...]:
        """The hook's parameters."""
        body = self._hook()
        kinds = {self._scalar(Ty.U32): Ty.U32, self._scalar(Ty.F32): Ty.F32}
        found: list[Value] = []
        for opcode, operands in body:
            if opcode != sp.OP_FUNCTION_PARAMETER:
                continue
            kind = kinds.get(operands[0])
            if kind is not None:
                found.append(Value(operands[1], kind))
                continue
            width = next(
                n
                for n in (2, 4)
                if self._interned.get((sp.OP_TYPE_VECTOR, self._scalar(Ty.F32), n)) == operands[0]
            )
            for lane in range(width):
                found.append(Value(self._id(), Ty.F32))
                self._prologue += (
                    5 << 16 | sp.OP_COMPOSITE_EXTRACT, self._scalar(Ty.F32), found[-1].id, operands[1], lane,
                )  # fmt: skip
        if [v.ty for v in found[:3]] != [Ty.U32] * 3 or {v.ty for v in found[3:]} != {Ty.F32}:
            raise InternalError(f"kernel {self.into.name}: its hook takes {[v.ty for v in found]}")
        return tuple(found)

    def _hook(self) -> list[Instruction]:
        """The hook as compiled."""
        found: list[Instruction] = []
        for opcode, operands in self._old:
            if found or (opcode == sp.OP_FUNCTION and operands[1] == self.into.hook):
                found.append((opcode, operands))
                if opcode == sp.OP_FUNCTION_END:
                    return found
        raise InternalError(f"kernel {self.into.name} has no function {self.into.hook} to splice into")

    def _argument_block(self) -> int:
        if self._block_base or self.addressing == "descriptor":
            return super()._argument_block()
        members = [(self._buffer_pointer(b), 8 * k) for k, b in enumerate(self.buffers)]
        members.append((self._runtime_array(self._scalar(Ty.U32), 4), 8 * len(self.buffers)))
        block = self._pointer(
            sp.CLASS_PHYSICAL_STORAGE_BUFFER, self._block(members, sp.DECORATION_NON_WRITABLE)
        )
        given = self._compiled_block()[1]
        pointer = self._pointer(sp.CLASS_PUSH_CONSTANT, given)
        chain, loaded, self._block_base = self._id(), self._id(), self._id()
        self._prologue += (
            5 << 16 | sp.OP_ACCESS_CHAIN, pointer, chain, self._pushed, self.bits(Ty.U32, 0).id,
            4 << 16 | sp.OP_LOAD, given, loaded, chain,
            4 << 16 | sp.OP_BITCAST, block, self._block_base, loaded,
        )  # fmt: skip
        return self._block_base

    def _compiled_block(self) -> tuple[int, int]:
        """The structure that the compiled module reads its block as, and with addresses the pointer to it."""
        if self.addressing == "address":
            pointer = self._members[self._members[self._push_type][1]][0]
            return self._members[pointer][1], pointer
        variable = next(
            o[0] for c, o in self._old if c == sp.OP_DECORATE and o[1:] == (sp.DECORATION_BINDING, 0)
        )
        kind = next(o[0] for c, o in self._old if c == sp.OP_VARIABLE and o[1] == variable)
        return self._members[kind][1], 0

    # --- the module -----------------------------------------------------------------------------------------

    def _words(self) -> list[int]:
        if not self._finished:
            self._close_block()
            known = {o[0] for c, o in self._old if c == sp.OP_CAPABILITY}
            words = [*self._static[:5]]
            for capability in self._capabilities:
                words += () if capability in known else (2 << 16 | sp.OP_CAPABILITY, capability)
            self._finished = words + self._spliced()
            for function in self._functions:
                self._finished += function
            self._finished[3] = self._next
        return self._finished

    def _spliced(self) -> list[int]:
        """The compiled module's sections with what is new in each."""
        words: list[int] = []
        block, section, inside = self._compiled_block()[0], 0, False
        for opcode, operands in self._old:
            if section == 0 and opcode == sp.OP_MEMORY_MODEL:
                words += self._import()
            elif section == 0 and (opcode in _ANNOTATIONS or opcode in _UNIQUE):
                words += self._modes() + self._decorations
                for made in self._exact:
                    words += (3 << 16 | sp.OP_DECORATE, made, sp.DECORATION_NO_CONTRACTION)
                section = 1
            elif opcode == sp.OP_FUNCTION:
                words += self._declarations if section == 1 else []
                section, inside = 2, operands[1] == self.into.hook
            if not inside:
                words += self._moved(opcode, operands, block)
            elif opcode == sp.OP_FUNCTION:
                words += (5 << 16 | opcode, *operands)
            elif opcode == sp.OP_FUNCTION_PARAMETER:
                words += (3 << 16 | opcode, *operands)
            elif opcode == sp.OP_FUNCTION_END:
                words += (
                    2 << 16 | sp.OP_LABEL,
                    self._entry_label,
                    *self._variables,
                    *self._prologue,
                    *self._code,
                )
                words += (1 << 16 | sp.OP_RETURN, 1 << 16 | sp.OP_FUNCTION_END)
        return words

    def _import(self) -> list[int]:
        if not self._glsl or any(opcode == sp.OP_EXT_INST_IMPORT for opcode, _ in self._old):
            return []
        name = sp.string_words("GLSL.std.450")
        return [len(name) + 2 << 16 | sp.OP_EXT_INST_IMPORT, self._glsl, *name]

    def _modes(self) -> list[int]:
        if sp.CAPABILITY_PRESERVE_NAN not in self._capabilities:
            return []
        entry = next(o[1] for c, o in self._old if c == sp.OP_ENTRY_POINT)
        return [4 << 16 | sp.OP_EXECUTION_MODE, entry, sp.MODE_PRESERVE_NAN, 32]

    def _moved(self, opcode: int, operands: tuple[int, ...], block: int) -> list[int]:
        """An instruction of the compiled module at its operands' new places, without the result that was the old body's."""
        if opcode == sp.OP_ENTRY_POINT:
            head, interface = operands[:_INTERFACE], operands[_INTERFACE:]
            operands = (*head, *(o for o in interface if o != self._result), *self._interface)
        elif opcode == sp.OP_DECORATE:
            if operands[0] == self._result:
                return []
            if operands[1] == sp.DECORATION_BINDING and operands[2]:
                operands = (*operands[:2], operands[2] + self.moved)
        elif opcode == sp.OP_MEMBER_DECORATE:
            if operands[0] == block and operands[2] == sp.DECORATION_OFFSET:
                operands = (*operands[:3], operands[3] + 8 * self.moved)
        elif opcode == sp.OP_VARIABLE and operands[1] == self._result:
            return []
        return [len(operands) + 1 << 16 | opcode, *operands]

    def kernel(self, arg_words: int) -> Kernel:
        """The whole kernel, which reads so many plain words."""
        return replace(
            self.into, name=f"{self.into.name}+", words=self.finish(), buffers=len(self.buffers), arg_words=arg_words,
            texels=self.bound_texels(), digest="", hook=0,
        )  # fmt: skip
