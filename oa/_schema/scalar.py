"""Typed scalar expressions: the hash-consed DAG that pointwise bodies, gradients and fused kernels are made of.

Equal expressions are one object, so common sub-expressions are shared by construction and equality is identity.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from oa._schema.dtype import (
    DType,
    Weak,
    as_complex,
    as_float,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    uint32,
    uint64,
)
from oa._schema.interning import Interned
from oa.errors import InternalError

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
PREDICATES = frozenset({"isnan", "isinf", "isfinite", "signbit"})
#: Operations that cost about one machine instruction; everything else counts as heavy when deciding recomputation.
CHEAP = frozenset(
    "arg const word dim element index param load cast add sub mul fma neg abs min max where eq ne lt le gt ge"
    " band bor bxor bnot shl shr"
    " floor ceil trunc round sign square isnan isinf isfinite signbit copysign bitcast_u32 bitcast_f32"
    " bitcast_u64 bitcast_f64".split()
)
#: Operations defined for floating-point operands only.
FLOAT_ONLY = frozenset(
    "div sqrt rsqrt recip exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh"
    " asinh acosh atanh erf sigmoid hypot copysign".split()
)


class Scalar:
    """One typed scalar operation. Leaves: `arg` (attr: operand number), `const` (attr: 32-bit pattern), `dim` (attr: axis)."""

    __slots__ = ("__weakref__", "args", "attr", "dtype", "id", "op")
    op: str
    dtype: DType
    args: tuple[Scalar, ...]
    attr: Any
    id: int

    def __repr__(self) -> str:
        return text(self)


_INTERNED: Interned[Scalar] = Interned()
_lookup = _INTERNED.lookup


def scalar(op: str, dtype: DType, args: tuple[Scalar, ...] = (), attr: Any = None) -> Scalar:
    """The one node with this operation, dtype, arguments and attribute."""
    key = (op, dtype, args, attr)
    entry = _lookup(key)
    found = None if entry is None else entry()
    if found is None:
        found = Scalar()
        found.op, found.dtype, found.args, found.attr = op, dtype, args, attr
        found.id = _INTERNED.add(key, found)
    return found


def bit_pattern(value: Weak, dtype: DType) -> int:
    """The bits that stand for `value` in a register of `dtype`: 64 for 64-bit dtypes, else the 32 of an argument word.

    Of a complex dtype those of the real part, the imaginary part above them.
    """
    if dtype.is_complex:
        part = dtype.component
        real, imaginary = (value.real, value.imag) if isinstance(value, complex) else (value, 0.0)
        return bit_pattern(real, part) | bit_pattern(imaginary, part) << part.bits
    if isinstance(value, complex):
        raise InternalError(f"the complex number {value} in a register of {dtype.name}")
    if dtype.kind == "f" and isinstance(value, int):
        value = as_float(value)
    if dtype is bfloat16:
        value = _as_bfloat(as_float(value))
    if dtype is float16:
        value = _as_half(float(value))
    if dtype.kind == "f" and dtype.itemsize == 8:
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    if dtype.kind == "f":
        try:
            return int(struct.unpack("<I", struct.pack("<f", float(value)))[0])
        except OverflowError:
            return 0x7F800000 if value > 0 else 0xFF800000
    if dtype is bool_:
        return int(bool(value))
    number = int(value) & (1 << dtype.bits) - 1
    if dtype.kind == "i":
        number -= number >> dtype.bits - 1 << dtype.bits
    return number & (1 << max(dtype.bits, 32)) - 1


def scalar_words(dtype: DType) -> int:
    """How many argument words a Python number takes as an operand of `dtype`."""
    return max(1, dtype.itemsize // 4)


def words_of(value: Weak, dtype: DType) -> list[int]:
    """The argument words of a Python number, low first."""
    bits = bit_pattern(value, dtype)
    return [bits >> 32 * k & 0xFFFFFFFF for k in range(scalar_words(dtype))]


def _as_bfloat(value: float) -> float:
    """The nearest bfloat16."""
    if value == 0 or not math.isfinite(value):
        return value
    step = (
        max(math.frexp(value)[1], -125) - 8
    )  # of the last bit; numbers below 2^-126 are multiples of 2^-133
    found = math.ldexp(round(math.ldexp(value, -step)), step)
    return found if abs(found) < 2.0**128 else math.copysign(math.inf, value)


def _as_half(value: float) -> float:
    """The nearest float16."""
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def parts_of(pattern: int, dtype: DType) -> tuple[int, int]:
    """The patterns of the real and the imaginary part of a complex dtype's."""
    bits = dtype.component.bits
    return pattern & (1 << bits) - 1, pattern >> bits


def from_pattern(pattern: int, dtype: DType) -> Weak:
    """The value that the bits of a register stand for."""
    if dtype.is_complex:
        real, imaginary = (float(from_pattern(p, dtype.component).real) for p in parts_of(pattern, dtype))
        return complex(real, imaginary)
    if dtype.kind == "f":
        packed, unpacked = ("<Q", "<d") if dtype.itemsize == 8 else ("<I", "<f")
        return float(struct.unpack(unpacked, struct.pack(packed, pattern))[0])
    if dtype is bool_:
        return bool(pattern)
    bits = max(dtype.bits, 32)
    return pattern - (pattern >> bits - 1 << bits) if dtype.kind == "i" else pattern


def const(value: Weak, dtype: DType) -> Scalar:
    """A constant; its bits are its identity, so -0.0 and 0.0 differ and NaN equals itself."""
    return scalar("const", dtype, (), bit_pattern(value, dtype))


def arg(index: int, dtype: DType) -> Scalar:
    """Operand number `index` of the operation."""
    return scalar("arg", dtype, (), index)


def dim(axis: int) -> Scalar:
    """The index along `axis` of the element being computed, as int32."""
    return scalar("dim", int32, (), axis)


def cast(value: Scalar, dtype: DType) -> Scalar:
    """`value` in another dtype; no node when it has that dtype already."""
    return value if value.dtype is dtype else scalar("cast", dtype, (value,))


def apply(op: str, *args: Scalar, attr: Any = None) -> Scalar:
    """An operation on typed arguments; the result's dtype follows from the operation."""
    if op == "conj" and (args[0].op == "conj" or not args[0].dtype.is_complex):
        return args[0].args[0] if args[0].op == "conj" else args[0]
    return scalar(op, result_dtype(op, [a.dtype for a in args]), args, attr)


#: Operations whose result on complex operands is one of their parts' dtype.
_TO_REAL = frozenset({"abs", "real_part", "imag_part", "angle"})


def result_dtype(op: str, dtypes: Sequence[DType]) -> DType:
    """Dtype of `op` on operands of `dtypes` (which agree, but for `where`'s condition and `philox`)."""
    if op in COMPARISONS or op in PREDICATES:
        return bool_
    if op == "where":
        return dtypes[1]
    if op in _TO_REAL:
        return dtypes[0].component
    if op == "complex":
        return as_complex(dtypes[0])
    if op in ("philox", "umulhi", "bitcast_u32"):
        return uint32
    if op.startswith("bitcast_"):
        return {"bitcast_f32": float32, "bitcast_u64": uint64, "bitcast_f64": float64}[op]
    return dtypes[0]


def substitute(root: Scalar, leaf: Callable[[Scalar], Scalar | None]) -> Scalar:
    """`root` with each node for which `leaf` returns something replaced by it. Iterative: depth is unbounded."""
    done: dict[Scalar, Scalar] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        new = leaf(node)
        if new is not None:
            done[node] = new
            stack.pop()
            continue
        missing = [a for a in node.args if a not in done]
        if missing:
            stack.extend(missing)
            continue
        args = tuple(done[a] for a in node.args)
        done[node] = node if args == node.args else scalar(node.op, node.dtype, args, node.attr)
        stack.pop()
    return done[root]


def topological(roots: Sequence[Scalar]) -> list[Scalar]:
    """All nodes below `roots`, operands before their users, in a deterministic order."""
    order: list[Scalar] = []
    state: dict[Scalar, bool] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if state.get(node):
            stack.pop()
        elif node in state:
            state[node] = True
            order.append(node)
            stack.pop()
        else:
            state[node] = False
            stack.extend(a for a in reversed(node.args) if a not in state)
    return order


def args_used(root: Scalar) -> set[int]:
    """Operand numbers that the expression reads."""
    return {n.attr for n in topological([root]) if n.op == "arg"}


def text(root: Scalar) -> str:
    """A readable, deterministic form; long expressions are cut."""
    if root.op == "const":
        return repr(from_pattern(root.attr, root.dtype))
    if root.op == "arg":
        return f"x{root.attr}"
    if root.op == "dim":
        return f"i{root.attr}"
    name = f"{root.op}<{root.dtype.name}>" if root.op == "cast" else root.op
    inner = ", ".join(text(a) for a in root.args)
    joined = f"{name}({inner})"
    return joined if len(joined) < 400 else f"{name}(...)"
