"""Readable structured IR, printed from the encoded words: what is shown is what the driver gets."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from oa._kernel.emit import spirv as sp

_NAMES = {op.code: name for name, op in sp.OPS.items() if not op.ext}
_EXT_NAMES = {op.code: name for name, op in sp.OPS.items() if op.ext}
_NAMES.update({
    sp.OP_SELECT: "select", sp.OP_BITCAST: "bitcast", sp.OP_LOAD: "load", sp.OP_ACCESS_CHAIN: "at",
    sp.OP_COMPOSITE_EXTRACT: "lane", sp.OP_COMPOSITE_CONSTRUCT: "vector", sp.OP_UMUL_EXTENDED: "umul",
    sp.OP_PHI: "phi", sp.OP_FUNCTION_CALL: "call", sp.OP_IMAGE_FETCH: "fetch",
})  # fmt: skip
_TYPES = {
    sp.OP_TYPE_BOOL: "bool",
    sp.OP_TYPE_VOID: "void",
    sp.OP_TYPE_STRUCT: "block",
    sp.OP_TYPE_IMAGE: "image",
}
_CLASSES = {sp.CLASS_INPUT: "input", sp.CLASS_PUSH_CONSTANT: "pushed", sp.CLASS_WORKGROUP: "workgroup"}
#: Operands that are literal numbers, not ids: opcode -> index of the first one.
_LITERALS = {sp.OP_COMPOSITE_EXTRACT: 1, sp.OP_LOAD: 1}


def instructions(words: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """(opcode, operands) of each instruction of a module."""
    place = 5
    while place < len(words):
        length = words[place] >> 16
        yield words[place] & 0xFFFF, words[place + 1 : place + length]
        place += length


class _Printer:
    """Names ids in order of appearance and indents by structure."""

    def __init__(self, functions: Mapping[int, str]) -> None:
        self.lines: list[str] = []
        self.names = {made: f"@{name}" for made, name in functions.items()}
        self.types: dict[int, str] = {}
        self.fresh = self.variables = 0
        self.depth = 0
        self.merges: list[int] = []
        self.pending: str | None = None  # a merge instruction waits for its branch

    def name(self, made: int) -> str:
        found = self.names.get(made)
        if found is None:
            found = self.names[made] = f"%{self.fresh}"
            self.fresh += 1
        return found

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def declaration(self, opcode: int, operands: Sequence[int]) -> bool:
        """Types, constants and variables at module scope; False if the instruction is none."""
        if opcode == sp.OP_TYPE_INT:
            self.types[operands[0]] = f"{'i' if operands[2] else 'u'}{operands[1]}"
        elif opcode == sp.OP_TYPE_FLOAT:
            self.types[operands[0]] = f"f{operands[1]}"
        elif opcode == sp.OP_TYPE_VECTOR:
            self.types[operands[0]] = f"{self.types[operands[1]]}x{operands[2]}"
        elif opcode == sp.OP_TYPE_POINTER:
            self.types[operands[0]] = f"{self.types.get(operands[2], 'block')}*"
        elif opcode in _TYPES:
            self.types[operands[0]] = _TYPES[opcode]
        elif opcode == sp.OP_CONSTANT:
            pattern = sum(word << 32 * k for k, word in enumerate(operands[2:]))
            self.names[operands[1]] = _constant(self.types[operands[0]], pattern)
        elif opcode in (sp.OP_CONSTANT_TRUE, sp.OP_CONSTANT_FALSE):
            self.names[operands[1]] = "true" if opcode == sp.OP_CONSTANT_TRUE else "false"
        elif opcode == sp.OP_VARIABLE and not self.depth:
            self.names[operands[1]] = f"${_CLASSES.get(operands[2], 'buffer')}{self.variables}"
            self.variables += 1
        else:
            return False
        return True

    def structure(self, opcode: int, operands: Sequence[int]) -> bool:
        """Control flow and functions; False if the instruction is neither."""
        if opcode == sp.OP_FUNCTION:
            self.line(f"function {self.name(operands[1])} -> {self.types[operands[0]]} {{")
            self.depth += 1
        elif opcode == sp.OP_FUNCTION_END:
            self.depth -= 1
            self.line("}")
        elif opcode == sp.OP_FUNCTION_PARAMETER:
            self.line(f"parameter {self.name(operands[1])}: {self.types[operands[0]]}")
        elif opcode in (sp.OP_SELECTION_MERGE, sp.OP_LOOP_MERGE):
            self.merges.append(operands[0])
            self.pending = "if" if opcode == sp.OP_SELECTION_MERGE else "while"
        elif opcode == sp.OP_BRANCH_CONDITIONAL:
            self.line(f"{self.pending} {self.name(operands[0])} {{")
            self.depth += 1
        elif opcode == sp.OP_LABEL:
            self.label(operands[0])
        elif opcode not in (sp.OP_BRANCH, sp.OP_RETURN):
            return False
        return True

    def label(self, made: int) -> None:
        if self.merges and made == self.merges[-1]:
            self.merges.pop()
            self.depth -= 1
            self.line(f"}} {self.name(made)}")
        else:
            self.line(f"{self.name(made)}:")

    def statement(self, opcode: int, operands: Sequence[int]) -> None:
        if opcode == sp.OP_STORE:
            self.line(f"store {self.name(operands[0])} <- {self.name(operands[1])}")
        elif opcode == sp.OP_CONTROL_BARRIER:
            self.line("barrier")
        elif opcode == sp.OP_RETURN_VALUE:
            self.line(f"return {self.name(operands[0])}")
        elif opcode == sp.OP_VARIABLE:
            self.line(f"var {self.name(operands[1])}: {self.types[operands[0]][:-1]}")
        else:
            kind, made, rest = self.types[operands[0]], operands[1], list(operands[2:])
            name = _NAMES.get(opcode, f"op{opcode}")
            if opcode == sp.OP_EXT_INST:
                name, rest = _EXT_NAMES[rest[1]], rest[2:]
            cut = _LITERALS.get(opcode, len(rest))
            words = [self.name(x) for x in rest[:cut]]
            if opcode == sp.OP_COMPOSITE_EXTRACT:
                words += [str(x) for x in rest[cut:]]
            self.line(f"{self.name(made)} = {name} {kind} {' '.join(words)}")


def _constant(kind: str, pattern: int) -> str:
    if kind in ("f32", "f64"):
        value = _as_float(kind, pattern)
        return f"{value!r}{'f' if kind == 'f32' else ''}" if value == value else f"nan:{pattern:#x}"
    bits = int(kind[1:])
    if kind[0] == "i":
        return str(pattern - (pattern >> bits - 1 << bits))
    return f"{pattern}u"


def _as_float(kind: str, pattern: int) -> float:
    packed, unpacked = ("<I", "<f") if kind == "f32" else ("<Q", "<d")
    return float(struct.unpack(unpacked, struct.pack(packed, pattern))[0])


def print_module(words: Sequence[int], functions: Mapping[int, str]) -> str:
    """The functions of a module, one instruction a line. `functions` names the function ids."""
    printer = _Printer(functions)
    for opcode, operands in instructions(words):
        if printer.declaration(opcode, operands) or (not printer.depth and opcode != sp.OP_FUNCTION):
            continue
        if not printer.structure(opcode, operands):
            printer.statement(opcode, operands)
    return "\n".join(printer.lines) + "\n"
