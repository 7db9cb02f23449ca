"""Scalar operations on float32 and float64 registers that are not in the prelude."""

from __future__ import annotations

from collections.abc import Callable

from oa._kernel.emit.exact import INF, divide, sqrt
from oa._kernel.emit.reg import Reg

NAN_BITS = 0x7FC00000
INF_BITS = 0x7F800000
INF_BITS_64 = 0x7FF << 52


def _size(x: Reg) -> Reg:
    """The bits without the sign."""
    return x.u & (1 << x.v.ty.bits - 1) - 1


def _infinity(x: Reg) -> int:
    """The bits of infinity in x's type."""
    return INF_BITS_64 if x.v.ty.is_wide else INF_BITS


def is_nan(x: Reg) -> Reg:
    """By the bits: comparisons of NaN may be optimised away by a driver."""
    return _size(x) > _infinity(x)


def _known_number(x: Reg) -> bool:
    const = x.v.const
    return const is not None and const & (1 << x.v.ty.bits - 1) - 1 <= _infinity(x)


def _extremum(a: Reg, b: Reg, name: str) -> Reg:
    """The larger ("max") or smaller ("min"); NaN if either is, -0 below +0."""
    if _known_number(a) and not _known_number(b):
        a, b = b, a
    loses = a <= b if name == "max" else a >= b
    if _known_number(b) and b.v.const != (1 << b.v.ty.bits - 1 if name == "max" else 0):
        return loses.where(b, a)  # NaN compares false and stays; an equal zero takes the constant, the winner
    value = (loses | is_nan(b)).where(b, a)
    joined = (a.u & b.u if name == "max" else a.u | b.u).f  # equal: the same bits, or zeros of both signs
    return a.eq(b).where(joined, value)


def _negate(x: Reg) -> Reg:
    """By the sign bit: a device that counts denormals as zero would lose them."""
    return (x.u ^ 1 << x.v.ty.bits - 1).f


def _sign(x: Reg) -> Reg:
    signed = x.eq(0.0).where(x.like(0.0), x.like(1.0).signed_like(x))
    return is_nan(x).where(x, signed)


def _trunc(x: Reg) -> Reg:
    """Mesa truncates a double between -1 and 0 to +0: the magnitude's floor keeps the sign."""
    return x.magnitude().one("ffloor").signed_like(x) if x.v.ty.is_wide else x.one("ftrunc")


def _round(x: Reg) -> Reg:
    """Ties to even. Mesa rounds the ties of doubles to zero: adding and subtracting 2^52 rounds them right."""
    if not x.v.ty.is_wide:
        return x.one("frint")
    size, shift = x.magnitude(), 2.0**52
    return (size < shift).where((size + shift) - shift, size).signed_like(x)


def _copysign(x: Reg, y: Reg) -> Reg:
    return (_size(x) | (y.u & 1 << y.v.ty.bits - 1)).f


OPERATIONS: dict[str, Callable[..., Reg]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "fma": lambda a, b, c: Reg(a.b, a.b.op("ffma", a.v, b.v, c.v)),
    "neg": _negate,
    "abs": lambda x: x.magnitude(),
    "square": lambda x: x * x,
    "min": lambda a, b: _extremum(a, b, "min"),
    "max": lambda a, b: _extremum(a, b, "max"),
    "floor": lambda x: x.one("ffloor"),
    "ceil": lambda x: x.one("fceil"),
    "trunc": _trunc,
    "round": _round,
    "sign": _sign,
    "sqrt": sqrt,
    "rsqrt": lambda x: divide(1.0, sqrt(x)),
    "recip": lambda x: divide(1.0, x),
    "isnan": is_nan,
    "isinf": lambda x: _size(x).eq(_infinity(x)),
    "isfinite": lambda x: _size(x) < _infinity(x),
    "signbit": lambda x: x.i < 0,
    "copysign": _copysign,
}

__all__ = ["INF", "NAN_BITS", "OPERATIONS", "is_nan"]
