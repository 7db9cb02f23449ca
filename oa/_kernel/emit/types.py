"""Register types, values and buffers of the structured IR."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Ty(Enum):
    """A register type. `order` is its dense index, for tables."""

    F32 = ("f32", 0, 32)
    I32 = ("i32", 1, 32)
    U32 = ("u32", 2, 32)
    BOOL = ("bool", 3, 1)
    F64 = ("f64", 4, 64)
    I64 = ("i64", 5, 64)
    U64 = ("u64", 6, 64)

    def __init__(self, label: str, order: int, bits: int) -> None:
        self.label = label
        self.order = order
        self.bits = bits
        self.is_float = label[0] == "f"
        self.is_signed = label[0] == "i"
        self.is_wide = bits == 64
        self.kind = {"f": "f", "i": "s", "u": "u", "b": "b"}[label[0]]  #: float, signed, unsigned or bool

    # Members are singletons: the identity hash is valid and several times faster than Enum's.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.label

    @property
    def is_int(self) -> bool:
        return self.label[0] in "iu"

    @property
    def unsigned(self) -> Ty:
        """The unsigned integer of the same width."""
        return Ty.U64 if self.is_wide else Ty.U32

    @property
    def signed(self) -> Ty:
        """The signed integer of the same width."""
        return Ty.I64 if self.is_wide else Ty.I32

    @property
    def floating(self) -> Ty:
        """The float of the same width."""
        return Ty.F64 if self.is_wide else Ty.F32


class Value:
    """One SSA value.

    `const` is the bit pattern of a constant, else None. `source` is (operation name, arguments) for a value
    made by `Builder.op`, so that integer identities can look one step back.
    """

    __slots__ = ("const", "id", "source", "ty")

    def __init__(
        self, id: int, ty: Ty, const: int | None = None, source: tuple[str, tuple[Value, ...]] | None = None
    ) -> None:
        self.id = id
        self.ty = ty
        self.const = const
        self.source = source

    def __repr__(self) -> str:
        return f"%{self.id}:{self.ty.label}" + ("" if self.const is None else f"={self.const:#x}")


class Var:
    """A mutable variable of the function in which it was made."""

    __slots__ = ("id", "ty")

    def __init__(self, id: int, ty: Ty) -> None:
        self.id = id
        self.ty = ty


class Buffer(NamedTuple):
    """How the kernel uses one bound buffer.

    access: "r", "w" or "rw"; loads from an "r" buffer are shared by common-subexpression elimination.
    width: 1, 2 or 4, the element of the buffer in 32-bit words; 2 is one 64-bit integer, which a device that reads memory lane
        by lane fetches as fast as one word (needs shaderInt64).
    aliased: another buffer of the kernel may be the same memory.
    """

    access: str
    width: int = 1
    aliased: bool = False
