"""A dispatch before memory is planned, and how it names what it works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oa._kernel.emit.nest import Nest
from oa._lower.base import Ref
from oa._lower.nests import Word
from oa._lower.plan import NO_COST, Access, Cost, Kernel


@dataclass(frozen=True)
class Draft:
    """A dispatch before memory is planned. An operand is (stored value, access); `-1 - k` graph inputs, nodes by position.

    `part` marks a dispatch that writes its own part of a value, disjoint from the other parts' (concatenation).
    """

    kernel: Kernel
    groups: tuple[int, int, int]
    operands: tuple[tuple[Ref, Access], ...]
    words: tuple[Word, ...]
    sources: tuple[int, ...]
    label: str
    part: bool = False
    scratch: Mapping[Ref, int] = field(default_factory=dict)  #: bytes of each operand from `PARTIAL` on
    nest: Nest | None = None  #: what an emitted kernel was made from
    replaces: Mapping[Ref, Ref] = field(
        default_factory=dict
    )  #: results that may lie in the place of values it reads
    cost: Cost = NO_COST
    cluster: int = 0  #: position in `Fusion.clusters`


#: From here on operands stand for scratch that only the dispatches of one cluster use.
PARTIAL = 1 << 40
#: So many of them a cluster.
_EACH = 8


def private(cluster: int, place: int) -> Ref:
    """The operand that stands for piece `place` of a cluster's own scratch."""
    return PARTIAL + cluster * _EACH + place


__all__ = ["PARTIAL", "Draft", "private"]
