"""SPIR-V numbers: opcodes, enumerants and the table of primitive machine operations.

Numbers are those of the SPIR-V 1.5 specification and of the GLSL.std.450 extended instruction set.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from oa._kernel.emit.types import Ty

MAGIC = 0x07230203
VERSION_1_5 = 0x00010500

# Module structure.
OP_EXT_INST_IMPORT, OP_EXT_INST, OP_MEMORY_MODEL, OP_ENTRY_POINT, OP_EXECUTION_MODE = 11, 12, 14, 15, 16
OP_CAPABILITY, OP_DECORATE, OP_MEMBER_DECORATE = 17, 71, 72
# Types and constants.
OP_TYPE_VOID, OP_TYPE_BOOL, OP_TYPE_INT, OP_TYPE_FLOAT, OP_TYPE_VECTOR = 19, 20, 21, 22, 23
OP_TYPE_ARRAY, OP_TYPE_RUNTIME_ARRAY, OP_TYPE_STRUCT, OP_TYPE_POINTER, OP_TYPE_FUNCTION = 28, 29, 30, 32, 33
OP_CONSTANT_TRUE, OP_CONSTANT_FALSE, OP_CONSTANT = 41, 42, 43
# Functions, memory, composites.
OP_FUNCTION, OP_FUNCTION_PARAMETER, OP_FUNCTION_END, OP_FUNCTION_CALL = 54, 55, 56, 57
OP_VARIABLE, OP_LOAD, OP_STORE, OP_ACCESS_CHAIN = 59, 61, 62, 65
OP_COMPOSITE_CONSTRUCT, OP_COMPOSITE_EXTRACT = 80, 81
OP_TYPE_IMAGE, OP_IMAGE_FETCH = 25, 95
OP_BITCAST, OP_UMUL_EXTENDED, OP_SELECT, OP_CONTROL_BARRIER = 124, 151, 169, 224
# Control flow.
OP_SHUFFLE_XOR = 346
OP_PHI, OP_LOOP_MERGE, OP_SELECTION_MERGE, OP_LABEL = 245, 246, 247, 248
OP_BRANCH, OP_BRANCH_CONDITIONAL, OP_RETURN, OP_RETURN_VALUE = 249, 250, 253, 254

CAPABILITY_SHADER, CAPABILITY_PHYSICAL_STORAGE_BUFFER, CAPABILITY_PRESERVE_NAN = 1, 5347, 4466
CAPABILITY_INT64, CAPABILITY_FLOAT64, CAPABILITY_SAMPLED_BUFFER = 11, 10, 46
CAPABILITY_SUBGROUP, CAPABILITY_SUBGROUP_SHUFFLE = 61, 65
MODEL_LOGICAL, MODEL_PHYSICAL_STORAGE_BUFFER_64, MODEL_GLSL450 = 0, 5348, 1
MODEL_GL_COMPUTE, MODE_LOCAL_SIZE, MODE_PRESERVE_NAN = 5, 17, 4461
DECORATION_BLOCK, DECORATION_ARRAY_STRIDE, DECORATION_BUILTIN = 2, 6, 11
DECORATION_ALIASED, DECORATION_NON_WRITABLE, DECORATION_NON_READABLE = 20, 24, 25
DECORATION_BINDING, DECORATION_DESCRIPTOR_SET, DECORATION_OFFSET, DECORATION_NO_CONTRACTION = 33, 34, 35, 42
CLASS_INPUT, CLASS_WORKGROUP, CLASS_FUNCTION, CLASS_PUSH_CONSTANT = 1, 4, 7, 9
CLASS_UNIFORM_CONSTANT, CLASS_UNIFORM, CLASS_STORAGE_BUFFER, CLASS_PHYSICAL_STORAGE_BUFFER = 0, 2, 12, 5349
DIM_BUFFER, SAMPLED = 5, 1
MEMORY_ALIGNED = 2
SCOPE_WORKGROUP, SCOPE_SUBGROUP = 2, 3
SEMANTICS_WORKGROUP_ACQUIRE_RELEASE = 0x8 | 0x100

#: Kernel inputs: name -> (BuiltIn number, is a vector of three).
BUILTINS: dict[str, tuple[int, bool]] = {
    "num_groups": (24, True),
    "group_id": (26, True),
    "local_id": (27, True),
    "global_id": (28, True),
    "local_index": (29, False),
    "subgroup_id": (40, False),
    "subgroup_lane": (41, False),
}


_FLOAT = frozenset((Ty.F32, Ty.F64))
_INT = frozenset((Ty.I32, Ty.U32, Ty.I64, Ty.U64))
_SIGNED = frozenset((Ty.I32, Ty.I64))
_UNSIGNED = frozenset((Ty.U32, Ty.U64))
_BOOL = frozenset((Ty.BOOL,))
_F32, _I32, _U32 = frozenset((Ty.F32,)), frozenset((Ty.I32,)), frozenset((Ty.U32,))


class Op(NamedTuple):
    """One primitive operation. `code` is an opcode, or the number of a GLSL.std.450 instruction if `ext`."""

    code: int
    arity: int
    operands: frozenset[Ty]
    result: Ty | None = None  #: None: the type of the first operand
    ext: bool = False
    exact: bool = False  #: carries NoContraction
    commutative: bool = False
    shift: bool = False  #: the second operand may be of the other integer type


def _ops() -> dict[str, Op]:
    ops = {
        "fadd": Op(129, 2, _FLOAT, exact=True),
        "fsub": Op(131, 2, _FLOAT, exact=True),
        "fmul": Op(133, 2, _FLOAT, exact=True),
        "fdiv": Op(136, 2, _FLOAT, exact=True),
        "fneg": Op(127, 1, _FLOAT, exact=True),
        "ffma": Op(50, 3, _FLOAT, ext=True),
        "iadd": Op(128, 2, _INT, commutative=True),
        "isub": Op(130, 2, _INT),
        "imul": Op(132, 2, _INT, commutative=True),
        "ineg": Op(126, 1, _INT),
        "sdiv": Op(135, 2, _SIGNED),
        "srem": Op(138, 2, _SIGNED),
        "udiv": Op(134, 2, _UNSIGNED),
        "urem": Op(137, 2, _UNSIGNED),
        "umin": Op(38, 2, _UNSIGNED, ext=True, commutative=True),
        "umax": Op(41, 2, _UNSIGNED, ext=True, commutative=True),
        "shl": Op(196, 2, _INT, shift=True),
        "shr_u": Op(194, 2, _INT, shift=True),
        "shr_s": Op(195, 2, _INT, shift=True),
        "and": Op(199, 2, _INT, commutative=True),
        "or": Op(197, 2, _INT, commutative=True),
        "xor": Op(198, 2, _INT, commutative=True),
        "not": Op(200, 1, _INT),
        "land": Op(167, 2, _BOOL, commutative=True),
        "lor": Op(166, 2, _BOOL, commutative=True),
        "leq": Op(164, 2, _BOOL, commutative=True),
        "lne": Op(165, 2, _BOOL, commutative=True),
        "lnot": Op(168, 1, _BOOL),
        "f2i": Op(110, 1, _F32, Ty.I32),
        "f2u": Op(109, 1, _F32, Ty.U32),
        "i2f": Op(111, 1, _I32, Ty.F32),
        "u2f": Op(112, 1, _U32, Ty.F32),
    }
    for name, code in (("ftrunc", 3), ("frint", 2), ("ffloor", 8), ("fceil", 9), ("fsqrt", 31)):
        ops[name] = Op(code, 1, _FLOAT, ext=True)
    # Ordered comparisons; fne alone is unordered, so that NaN != NaN.
    for name, code in (("feq", 180), ("fne", 183), ("flt", 184), ("fgt", 186), ("fle", 188), ("fge", 190)):
        ops[name] = Op(code, 2, _FLOAT, Ty.BOOL, exact=True)
    for name, code in (("ieq", 170), ("ine", 171)):
        ops[name] = Op(code, 2, _INT, Ty.BOOL, commutative=True)
    for name, code in (("ugt", 172), ("sgt", 173), ("uge", 174), ("sge", 175)):
        ops[name] = Op(code, 2, _INT, Ty.BOOL)
    for name, code in (("ult", 176), ("slt", 177), ("ule", 178), ("sle", 179)):
        ops[name] = Op(code, 2, _INT, Ty.BOOL)
    return ops


#: Conversions between kinds, any widths: (from, to) -> opcode. "s", "u" and "f" are signed, unsigned and floating.
CONVERSIONS: dict[tuple[str, str], int] = {
    ("f", "u"): 109, ("f", "s"): 110, ("s", "f"): 111, ("u", "f"): 112, ("u", "u"): 113, ("s", "s"): 114, ("f", "f"): 115,
}  # fmt: skip

#: The primitive operations that are one SPIR-V instruction each.
OPS: dict[str, Op] = _ops()

#: GLSL.std.450 instructions that the emitter may use: exact by the Vulkan specification, or corrected by the
#: prelude (square root) or asked for by name (fma). No transcendental is among them.
ALLOWED_EXT = frozenset(op.code for op in OPS.values() if op.ext)


def string_words(text: str) -> list[int]:
    """A literal string: UTF-8, NUL terminated, padded to whole words."""
    raw = text.encode() + b"\0"
    raw += b"\0" * (-len(raw) % 4)
    return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]


def encode(words: Sequence[int]) -> bytes:
    """The words as little-endian bytes."""
    packed = array("I", words)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
