"""Exact integer identities applied while building. Floating-point operations are never folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oa._kernel.emit.types import Ty, Value

if TYPE_CHECKING:
    from oa._kernel.emit.ir import Builder

_ALL = 0xFFFFFFFF


def _signed(x: int) -> int:
    return x - 0x100000000 if x & 0x80000000 else x


#: Values of operations on constant bit patterns. Shifts and divisions are listed only where they are defined.
_EVALUATE: dict[str, Callable[[int, int], int]] = {
    "iadd": lambda a, b: a + b & _ALL,
    "isub": lambda a, b: a - b & _ALL,
    "imul": lambda a, b: a * b & _ALL,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "umin": min,
    "umax": max,
    "shl": lambda a, b: a << b & _ALL,
    "shr_u": lambda a, b: a >> b,
    "shr_s": lambda a, b: _signed(a) >> b & _ALL,
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
    "ieq": lambda a, b: a == b,
    "ine": lambda a, b: a != b,
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
    "slt": lambda a, b: _signed(a) < _signed(b),
    "sle": lambda a, b: _signed(a) <= _signed(b),
    "sgt": lambda a, b: _signed(a) > _signed(b),
    "sge": lambda a, b: _signed(a) >= _signed(b),
}
_SHIFTS = frozenset(("shl", "shr_u", "shr_s"))
_DIVISIONS = frozenset(("udiv", "urem"))
#: Commutative: a constant on the left moves to the right.
_SWAPPED = frozenset(("iadd", "imul", "and", "or", "xor", "umin", "umax", "land", "lor", "leq", "lne"))
_COMPARISONS = frozenset(("ieq", "ine", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"))
#: x op constant == x
_NEUTRAL = {
    ("iadd", 0), ("isub", 0), ("imul", 1), ("and", _ALL), ("or", 0), ("xor", 0), ("shl", 0), ("shr_u", 0),
    ("shr_s", 0), ("udiv", 1), ("sdiv", 1), ("umin", _ALL), ("umax", 0),
    ("land", 1), ("lor", 0), ("leq", 1), ("lne", 0),
}  # fmt: skip
#: x op constant == constant
_ABSORBING = {("imul", 0), ("and", 0), ("or", _ALL), ("umin", 0), ("umax", _ALL), ("land", 0), ("lor", 1)}


def fold(b: Builder, name: str, args: tuple[Value, ...]) -> Value | None:
    """A value equal in every bit to the operation, or None."""
    if len(args) == 1:
        source = args[0].source
        if source is not None and source[0] == name and name in ("not", "lnot", "ineg"):
            return source[1][0]
        return None
    x, y = args
    if y.const is None:
        if x.const is None:
            return b.bits(x.ty, 0) if x is y and name in ("isub", "xor") else None
        return b.op(name, y, x) if name in _SWAPPED else None
    if x.const is not None:
        return _both_constant(b, name, x, y)
    return _constant_right(b, name, x, y, y.const)


def _both_constant(b: Builder, name: str, x: Value, y: Value) -> Value | None:
    evaluate = _EVALUATE.get(name)
    if evaluate is None or x.const is None or y.const is None:
        return None
    if (name in _SHIFTS and y.const > 31) or (name in _DIVISIONS and y.const == 0):
        return None
    return b.bits(Ty.BOOL if name in _COMPARISONS else x.ty, int(evaluate(x.const, y.const)))


def _constant_right(b: Builder, name: str, x: Value, y: Value, c: int) -> Value | None:
    key = (name, c)
    if key in _NEUTRAL:
        return x
    if key in _ABSORBING:
        return y
    if name == "iadd":
        if x.source is not None and x.source[0] == "iadd" and x.source[1][1].const is not None:
            inner, first = x.source[1][0], x.source[1][1].const
            return b.op("iadd", inner, b.bits(y.ty, first + c & _ALL))
    elif name == "imul" or name in _DIVISIONS:
        if c and not c & (c - 1):
            return _power_of_two(b, name, x, c)
    elif name == "shr_u" and c < 32:
        return _drop_low_bits(b, x, c)
    elif name == "and":
        low = _low_bits(x)
        if low is not None and c < 1 << low[0]:
            return b.bits(x.ty, low[1] & c)
    return None


def _power_of_two(b: Builder, name: str, x: Value, c: int) -> Value:
    if name == "urem":
        return b.op("and", x, b.bits(x.ty, c - 1))
    return b.op("shl" if name == "imul" else "shr_u", x, b.bits(Ty.U32, c.bit_length() - 1))


def _low_bits(x: Value) -> tuple[int, int, Value] | None:
    """(k, c, v) if `x` is v * 2^k + c with 0 <= c < 2^k: its low k bits are the constant c."""
    source, add = x.source, 0
    if source is not None and source[0] in ("iadd", "or") and source[1][1].const is not None:
        add = source[1][1].const
        source = source[1][0].source
    if source is None or source[0] != "shl":
        return None
    shift = source[1][1].const
    if shift is None or shift > 31 or add >= 1 << shift:
        return None
    return shift, add, source[1][0]


def _drop_low_bits(b: Builder, x: Value, c: int) -> Value | None:
    """(v * 2^c + small) >> c is v without its c highest bits."""
    low = _low_bits(x)
    if low is None or low[0] != c:
        return None
    return b.op("and", low[2], b.bits(x.ty, _ALL >> c))
