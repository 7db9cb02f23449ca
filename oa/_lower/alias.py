"""Pass `alias`: a value whose only way on is into a concatenation is computed in its place there, and never copied.

A part qualifies when it is a stored value, whole and in row-major order, that nobody outside wants, and when its bytes in the
result start at a multiple of 256 and end at a multiple of 16: kernels write whole 16-byte vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from oa._lower.base import BaseNode, Ref
from oa._lower.fuse import Fusion
from oa._lower.index import dims, linear
from oa._lower.route import address
from oa._schema.spec import contiguous_strides

_START, _END = 256, 16


@dataclass(frozen=True)
class Alias:
    """The value lies `offset` bytes into the storage of `parent`."""

    parent: Ref
    offset: int


def aliases(fusion: Fusion) -> dict[Ref, Alias]:
    """Where parts of concatenations are computed in place."""
    found: dict[Ref, Alias] = {}
    for cluster in fusion.clusters:
        if cluster.kind == "concat":
            _parts(fusion, cluster.members[0], found)
    return found


def _parts(fusion: Fusion, ref: Ref, found: dict[Ref, Alias]) -> None:
    base = fusion.base
    node = base.nodes[ref]
    axis = node.params[0]
    if math.prod(node.spec.shape[:axis]) != 1:
        return
    start = 0
    for operand in node.inputs:
        part = base.spec(operand)
        source, ix = address(base, operand)
        whole = ix == linear(dims(part.shape), contiguous_strides(part.shape))
        fits = start % _START == 0 and (start + part.nbytes) % _END == 0 and part.nbytes > 0
        if whole and fits and source >= 0 and _eligible(fusion, source, base.nodes[source], part.size, found):
            found[source] = Alias(ref, start)
        start += part.nbytes


def _eligible(fusion: Fusion, source: Ref, node: BaseNode, size: int, found: dict[Ref, Alias]) -> bool:
    stored = source in fusion.cluster_of and source not in fusion.stored and source not in found
    return stored and node.kind != "concat" and node.spec.size == size
