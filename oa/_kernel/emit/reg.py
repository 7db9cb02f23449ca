"""Registers with Python operators: the notation of the scalar operations and of the safe-maths prelude."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from oa._kernel.emit.types import Ty, Value

if TYPE_CHECKING:
    from oa._kernel.emit.ir import Builder

Operand = Union["Reg", int, float]


class Reg:
    """A value with the builder that holds it. Python numbers become constants of the other operand's type.

    On floats the operators are the primitive float operations, on integers the wrapping ones (`>>` is arithmetic on signed
    types and logical on unsigned ones), on BOOL `&`, `|` and `~` are logical. Comparisons go by the type's sign.
    """

    __slots__ = ("b", "v")

    def __init__(self, b: Builder, v: Value) -> None:
        self.b = b
        self.v = v

    def _value(self, other: Operand) -> Value:
        return other.v if isinstance(other, Reg) else self.b.const(self.v.ty, other)

    def _op(self, name: str, other: Operand) -> Reg:
        return Reg(self.b, self.b.op(name, self.v, self._value(other)))

    def _arith(self, name: str, other: Operand) -> Reg:
        return self._op(("f" if self.v.ty.is_float else "i") + name, other)

    def _compare(self, name: str, other: Operand) -> Reg:
        ty = self.v.ty
        return self._op(("f" if ty.is_float else "s" if ty.is_signed else "u") + name, other)

    def __add__(self, other: Operand) -> Reg:
        return self._arith("add", other)

    def __sub__(self, other: Operand) -> Reg:
        return self._arith("sub", other)

    def __mul__(self, other: Operand) -> Reg:
        return self._arith("mul", other)

    def __rsub__(self, other: int | float) -> Reg:
        return Reg(self.b, self._value(other)) - self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Reg:
        return Reg(self.b, self.b.op("fneg" if self.v.ty.is_float else "ineg", self.v))

    def __and__(self, other: Operand) -> Reg:
        return self._op("land" if self.v.ty is Ty.BOOL else "and", other)

    def __or__(self, other: Operand) -> Reg:
        return self._op("lor" if self.v.ty is Ty.BOOL else "or", other)

    def __xor__(self, other: Operand) -> Reg:
        return self._op("lne" if self.v.ty is Ty.BOOL else "xor", other)

    def __invert__(self) -> Reg:
        return Reg(self.b, self.b.op("lnot" if self.v.ty is Ty.BOOL else "not", self.v))

    def __lshift__(self, other: Operand) -> Reg:
        return self._op("shl", other)

    def __rshift__(self, other: Operand) -> Reg:
        return self._op("shr_s" if self.v.ty.is_signed else "shr_u", other)

    def __lt__(self, other: Operand) -> Reg:
        return self._compare("lt", other)

    def __le__(self, other: Operand) -> Reg:
        return self._compare("le", other)

    def __gt__(self, other: Operand) -> Reg:
        return self._compare("gt", other)

    def __ge__(self, other: Operand) -> Reg:
        return self._compare("ge", other)

    def eq(self, other: Operand) -> Reg:
        """Equality (ordered for floats)."""
        ty = self.v.ty
        return self._op("feq" if ty.is_float else "leq" if ty is Ty.BOOL else "ieq", other)

    def ne(self, other: Operand) -> Reg:
        """Inequality (true for NaN)."""
        ty = self.v.ty
        return self._op("fne" if ty.is_float else "lne" if ty is Ty.BOOL else "ine", other)

    def one(self, name: str) -> Reg:
        """A primitive operation on this register alone."""
        return Reg(self.b, self.b.op(name, self.v))

    def two(self, name: str, other: Operand) -> Reg:
        """A primitive operation on this register and another."""
        return self._op(name, other)

    def where(self, a: Operand, b: Operand) -> Reg:
        """`a` where this condition holds, else `b`; one of them is a register."""
        like = a if isinstance(a, Reg) else b
        if not isinstance(like, Reg):
            raise TypeError("where: one of the choices must be a register")
        return Reg(self.b, self.b.select(self.v, like._value(a), like._value(b)))

    @property
    def u(self) -> Reg:
        """The bits as an unsigned integer."""
        return Reg(self.b, self.b.bitcast(self.v.ty.unsigned, self.v))

    @property
    def i(self) -> Reg:
        """The bits as a signed integer."""
        return Reg(self.b, self.b.bitcast(self.v.ty.signed, self.v))

    @property
    def f(self) -> Reg:
        """The bits as a float."""
        return Reg(self.b, self.b.bitcast(self.v.ty.floating, self.v))

    def to(self, ty: Ty) -> Reg:
        """The number as another type; see `Builder.convert`."""
        return Reg(self.b, self.b.convert(ty, self.v))

    def like(self, value: int | float) -> Reg:
        """A constant of this register's type."""
        return Reg(self.b, self.b.const(self.v.ty, value))

    def magnitude(self) -> Reg:
        """Absolute value of a float, by clearing the sign bit."""
        return (self.u & (1 << self.v.ty.bits - 1) - 1).f

    def signed_like(self, other: Reg) -> Reg:
        """This non-negative float with the sign of `other`."""
        return (self.u | (other.u & 1 << self.v.ty.bits - 1)).f


def horner(x: Reg, coefficients: tuple[float, ...]) -> Reg:
    """c0 + x (c1 + x (c2 + ...)); two operations a coefficient."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total
