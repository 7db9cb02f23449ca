"""Why a kernel ends where it does: what keeps two clusters of a finished fusion apart, in words. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from oa._lower import epilogue
from oa._lower.base import Ref
from oa._lower.fuse import MAX_MEMBERS, Cluster, Fusion
from oa._lower.route import WHOLE

#: By kind of the one that reads, and of the one that is read.
_READS = {
    **dict.fromkeys(WHOLE, "sorting and adding up read whole values from memory"),
    "matmul": "a matrix product reads its operands from memory",
    "concat": "a concatenation writes each part by a dispatch of its own",
}
_IS_READ = {
    **dict.fromkeys(WHOLE, "its kernels, compiled ahead of time, store what they compute"),
    "concat": "a concatenation is whole only after all of its dispatches",
    "partial": "the first stage of a long reduction ends with its chunk",
}


@dataclass(frozen=True)
class Boundary:
    """Cluster `before` makes `value`, which cluster `after` reads from memory, for this reason."""

    before: int
    after: int
    value: Ref
    reason: str


def boundaries(fusion: Fusion, replaced: Collection[Ref] = ()) -> list[Boundary]:
    """One entry for each pair of clusters of which one reads the other, in order. Values `replaced` take another's place."""
    number = {id(c): k for k, c in enumerate(fusion.clusters)}
    found: dict[tuple[int, int], Boundary] = {}
    for after, cluster in enumerate(fusion.clusters):
        for ref in cluster.members:
            for edge in fusion.edges[ref]:
                if edge.source < 0 or fusion.cluster_of[edge.source] is cluster:
                    continue
                before = fusion.cluster_of[edge.source]
                pair = number[id(before)], after
                if pair not in found:
                    found[pair] = Boundary(*pair, edge.source, obstacle(fusion, before, cluster, replaced))
    return [found[pair] for pair in sorted(found)]


def obstacle(fusion: Fusion, a: Cluster, b: Cluster, replaced: Collection[Ref] = ()) -> str:
    """Why `b`, which reads `a`, is not one kernel with it: the first condition of the pass that does not hold."""
    if not fusion.enabled:
        return "fusion is switched off"
    if b.kind in _READS or a.kind in _IS_READ:
        return _READS.get(b.kind) or _IS_READ[a.kind]
    if a.kind == "matmul":
        return _after_product(fusion, a, b, replaced)
    members = len(a.members) + len(b.members)
    if members > MAX_MEMBERS:
        return f"together they have {members} operations, a kernel at most {MAX_MEMBERS}"
    inside = set(a.members)
    if any(e.coords is None and e.source in inside for r in b.members for e in fusion.edges[r]):
        return "it reads elements that are known only when it runs"
    if a.axes is None and b.axes is not None and not fusion._worth_repeating(a, b):
        return "its passes over a row would compute again what is stored all the same"
    ways = fusion._combinations(a, b)
    if not ways:
        return _differing(a, b)
    fitting = [way for way in ways if fusion._edges_fit(a, b, way)]
    if not fitting:
        return "it reads other elements than those it computes"
    binding = [way for way in fitting if fusion.fits_device(way)]
    if not binding:
        return _unbindable(fusion, fitting[0])
    if fusion.path_around(a, b):
        return "a third dispatch reads the one and is read by the other"
    return "each had grown with other neighbours when the pass met the two"


def _after_product(fusion: Fusion, product: Cluster, b: Cluster, replaced: Collection[Ref]) -> str:
    """Why what reads a product is not computed where the product's kernel stores."""
    if b.kind != "map":
        return "a reduction of a product has a kernel of its own"
    if len(product.members) > 1:
        return "the product's kernel has taken what follows elsewhere already"
    if epilogue._place(fusion, product.members[0], b.members) is None:
        return "it reads other elements of the product than those it computes"
    if any(r in replaced for r in fusion.outputs(b)):
        return "its result is computed in the place of the value that it replaces"
    if fusion.path_around(product, b):
        return "a third dispatch reads the one and is read by the other"
    return f"together they bind more than {fusion.max_buffers} buffers, or the pass is left out"


def _differing(a: Cluster, b: Cluster) -> str:
    if a.axes is not None and b.axes is not None and a.space == b.space:
        return f"they reduce over different axes, {a.axes} and {b.axes}"
    return f"they visit different shapes, {a.space} and {b.space}"


def _unbindable(fusion: Fusion, merged: Cluster) -> str:
    if merged.axes is not None and any(
        fusion.base.nodes[r].spec.dtype.itemsize < 4 for r in fusion.outputs(merged)
    ):
        return "a row kernel writes no elements of less than 32 bits"
    return f"together they bind more than {fusion.max_buffers} buffers"
