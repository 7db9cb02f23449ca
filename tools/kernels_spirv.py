"""Read from a SPIR-V module what the kernel pack records: local size, workgroup memory, capabilities, bindings."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = 0x07230203
_FUNCTION, _DONT_INLINE = 54, 2
_CAPABILITY, _EXECUTION_MODE, _DECORATE, _VARIABLE = 17, 16, 71, 59
_BOOL, _INT, _FLOAT, _VECTOR, _MATRIX, _ARRAY, _STRUCT, _POINTER, _CONSTANT = (
    20,
    21,
    22,
    23,
    24,
    28,
    30,
    32,
    43,
)
_LOCAL_SIZE, _BINDING, _WORKGROUP = 17, 33, 4

#: Capabilities by number (SPIR-V specification, section Capability); others are shown as numbers.
_NAMES = {
    1: "Shader", 9: "Float16", 10: "Float64", 11: "Int64", 22: "Int16", 39: "Int8", 46: "SampledBuffer", 61: "GroupNonUniform",
    62: "GroupNonUniformVote", 63: "GroupNonUniformArithmetic", 64: "GroupNonUniformBallot", 65: "GroupNonUniformShuffle",
    66: "GroupNonUniformShuffleRelative", 67: "GroupNonUniformClustered", 68: "GroupNonUniformQuad",
    4433: "StorageBuffer16BitAccess", 4448: "StorageBuffer8BitAccess", 5345: "VulkanMemoryModel",
    5347: "PhysicalStorageBufferAddresses", 6022: "CooperativeMatrixKHR",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What `reflect` found. `capabilities` leaves out Shader and is sorted."""

    local_size: tuple[int, int, int]
    shared_bytes: int
    capabilities: tuple[str, ...]
    bindings: frozenset[int]


def instructions(words: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(opcode, operands) of each instruction of a little endian module."""
    values = struct.unpack(f"<{len(words) // 4}I", words)
    if not values or values[0] != _MAGIC:
        raise ValueError("not a little endian SPIR-V module")
    place = 5
    while place < len(values):
        length, opcode = values[place] >> 16, values[place] & 0xFFFF
        yield opcode, values[place + 1 : place + length]
        place += length


class _Types:
    """Sizes in bytes of the types that workgroup variables have, tightly packed."""

    def __init__(self) -> None:
        self.size: dict[int, int] = {}
        self.constants: dict[int, int] = {}
        self.targets: dict[int, int] = {}

    def add(self, opcode: int, words: tuple[int, ...]) -> None:
        if opcode == _CONSTANT:
            self.constants[words[1]] = words[2]
        elif opcode == _POINTER:
            self.targets[words[0]] = words[2]
        elif opcode == _BOOL:
            self.size[words[0]] = 4
        elif opcode in (_INT, _FLOAT):
            self.size[words[0]] = words[1] // 8
        elif opcode in (_VECTOR, _MATRIX):
            self.size[words[0]] = self.size[words[1]] * words[2]
        elif opcode == _ARRAY:
            self.size[words[0]] = self.size.get(words[1], 0) * self.constants[words[2]]
        elif opcode == _STRUCT:
            self.size[words[0]] = sum(self.size.get(member, 0) for member in words[1:])


def unmark(words: bytes) -> tuple[bytes, list[int]]:
    """The module with every function free to be inlined, and the ids of those that were not."""
    values = list(struct.unpack(f"<{len(words) // 4}I", words))
    found: list[int] = []
    place = 5
    while place < len(values):
        if values[place] & 0xFFFF == _FUNCTION and values[place + 3] & _DONT_INLINE:
            found.append(values[place + 2])
            values[place + 3] = 0
        place += values[place] >> 16
    return struct.pack(f"<{len(values)}I", *values), found


def reflect(words: bytes) -> Shape:
    """The shape of a module with one compute entry point."""
    types = _Types()
    capabilities: set[str] = set()
    bindings: set[int] = set()
    local_size, shared = (0, 0, 0), 0
    for opcode, operands in instructions(words):
        if opcode == _CAPABILITY:
            capabilities.add(_NAMES.get(operands[0], str(operands[0])))
        elif opcode == _EXECUTION_MODE and operands[1] == _LOCAL_SIZE:
            local_size = (operands[2], operands[3], operands[4])
        elif opcode == _DECORATE and operands[1] == _BINDING:
            bindings.add(operands[2])
        elif opcode == _VARIABLE and operands[2] == _WORKGROUP:
            shared += types.size[types.targets[operands[0]]]
        else:
            types.add(opcode, operands)
    return Shape(local_size, shared, tuple(sorted(capabilities - {"Shader"})), frozenset(bindings))
