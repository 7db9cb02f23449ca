"""Register types, values and buffers of the structured IR."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Ty(Enum):
    """A register type. `order` is its dense index, for tables."""

    F32 = ("f32", 0)
    I32 = ("i32", 1)
    U32 = ("u32", 2)
    BOOL = ("bool", 3)

    def __init__(self, label: str, order: int) -> None:
        self.label = label
        self.order = order

    # Members are singletons: the identity hash is valid and several times faster than Enum's.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.label

    @property
    def is_int(self) -> bool:
        return self is Ty.I32 or self is Ty.U32


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
