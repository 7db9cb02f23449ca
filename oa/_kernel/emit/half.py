"""float16 in float32 registers: every float16 is a float32, and an operation in float32 rounded once more is the float16 one.

(24 significant bits are more than twice 11 and two: the double rounding of +, -, *, / and the square root is innocuous.)
"""

from __future__ import annotations

from collections.abc import Callable

from oa._kernel.emit.reg import Reg
from oa._kernel.emit.types import Ty

_NORMAL = 2.0**-14  #: the least normal float16; below it they are multiples of 2^-24
_INF = 0x7F800000


def rounded(x: Reg) -> Reg:
    """The float16 nearest to a float32, ties to even; from 65520 on it is infinite."""
    size = x.u & 0x7FFFFFFF
    tie = (size >> 13) & 1
    cut = (size + tie + 0xFFF) & 0xFFFFE000
    cut = (cut >= 0x47800000).where(_INF, cut)  # 65536
    small = ((size.f + 0.5) - 0.5).u  # neighbours between 1/2 and 1 are 2^-24 apart
    found = (size < 0x38800000).where(small, (size > _INF).where(size, cut))
    return (found | (x.u & 0x80000000)).f


def from_double(x: Reg, narrowed: Callable[[Reg], Reg] = rounded) -> Reg:
    """The float16, or what `narrowed` makes of a float32, nearest to a float64: a bit that float32 loses stays visible as an
    odd last bit."""
    near = x.to(Ty.F32)
    back = near.to(Ty.F64)
    bits = near.u
    toward_zero = (back.magnitude() > x.magnitude()).where(bits - 1, bits)
    return narrowed((back.ne(x) & (near.magnitude() < float("inf"))).where(toward_zero | 1, bits).f)


def unpacked(h: Reg) -> Reg:
    """The float32 of the low 16 bits of a word."""
    size = h & 0x7FFF
    normal = (size << 13) + (112 << 23)
    special = (size << 13) | _INF
    small = ((size & 0x3FF).one("u2f") * 2.0**-24).u
    found = (size >= 0x7C00).where(special, (size < 0x400).where(small, normal))
    return (found | ((h & 0x8000) << 16)).f


def packed(x: Reg) -> Reg:
    """The 16 bits of a float32 that is a float16."""
    size = x.u & 0x7FFFFFFF
    small = (x.magnitude() < _NORMAL).where(x.magnitude() * 2.0**24, 0.0).one("f2u")
    normal = (size >> 13) - (112 << 10)
    special = (size > _INF).where(size.like(0x7E00), 0x7C00)
    found = (size >= _INF).where(special, (size < 0x38800000).where(small, normal))
    return found | ((x.u >> 16) & 0x8000)
