"""bfloat16 in float32 registers: a bfloat16 is a float32 whose last 16 bits are 0, and operations round to one once more.

(24 significant bits are more than twice 8 and two, as for float16.)
"""

from __future__ import annotations

from oa._kernel.emit.reg import Reg

_INF = 0x7F800000
_QUIET = 0x400000


def rounded(x: Reg) -> Reg:
    """The bfloat16 nearest to a float32, ties to even; a NaN stays one."""
    bits = x.u
    near = bits + 0x7FFF + ((bits >> 16) & 1)
    found = ((bits & 0x7FFFFFFF) > _INF).where(bits | _QUIET, near)
    return (found & 0xFFFF0000).f


def unpacked(h: Reg) -> Reg:
    """The float32 of the low 16 bits of a word."""
    return (h << 16).f


def packed(x: Reg) -> Reg:
    """The 16 bits of a float32 that is a bfloat16."""
    return x.u >> 16
