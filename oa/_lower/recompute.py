"""Pass `recompute`, a part of `fuse`: what costs less to compute again than to store and read is not stored.

A node qualifies when it follows by a few cheap operations from at most one value of its own size that is stored anyway, and
from smaller ones: its readers then read that value instead, and one write of its size is saved. The normalised values of a layer
norm, wanted again by the gradient of its weight, are the usual case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oa._lower.base import Ref, body_work
from oa._lower.index import Coords, dims, substitute, through
from oa._schema import scalar as sc

if TYPE_CHECKING:
    from oa._lower.fuse import Cluster, Edge, Fusion

#: Operations on the way that a reader repeats at most.
MAX_OPERATIONS = 12
_READERS = frozenset({"map", "row", "partial"})


def recompute(fusion: Fusion) -> None:
    """Mark what is computed again, and give its readers the edges that follow."""
    for cluster in dict.fromkeys(fusion.cluster_of.values()):
        for ref in fusion.outputs(cluster):
            if ref not in fusion.stored and fusion.base.nodes[ref].kind == "pointwise":
                _try(fusion, cluster, ref)


def _try(fusion: Fusion, cluster: Cluster, ref: Ref) -> None:
    found = _leaves(fusion, cluster, ref)
    if found is None:
        return
    leaves, inner = found
    readers = fusion.consumers[ref] - set(cluster.members)
    replaced: dict[Ref, list[Edge]] = {}
    for reader in readers:
        if fusion.cluster_of[reader].kind not in _READERS:
            return
        edges = _through(fusion, reader, ref, leaves)
        if edges is None:
            return
        replaced[reader] = edges
    if not _fits(fusion, replaced):
        return
    for reader, edges in replaced.items():
        fusion.edges[reader] = edges
        for edge in edges:
            if edge.source >= 0:
                fusion.consumers.setdefault(edge.source, set()).add(reader)
    fusion.consumers[ref] -= readers
    fusion.again[ref] = frozenset({ref, *inner})


def _leaves(fusion: Fusion, cluster: Cluster, ref: Ref) -> tuple[list[tuple[Ref, Coords]], set[Ref]] | None:
    """What the node follows from, and the nodes on the way; None where it does not qualify."""
    base = fusion.base
    size, shape = base.nodes[ref].spec.size, base.nodes[ref].spec.shape
    leaves: dict[tuple[Ref, Coords], None] = {}
    inner: set[Ref] = set()
    within = set(cluster.members)
    seen: set[tuple[Ref, Coords]] = set()
    operations = 0
    stack: list[tuple[Ref, Coords]] = [(ref, dims(shape))]
    while stack:
        at, coords = stack.pop()
        while at >= 0 and base.nodes[at].kind == "view":
            coords = through(base.nodes[at].params[0], coords, shape)
            at = base.nodes[at].inputs[0]
        if at < 0:
            if not base.inputs[-at - 1].is_scalar:
                leaves[at, coords] = None
            continue
        node = base.nodes[at]
        within |= fusion.again.get(at, frozenset())
        on_the_way = node.spec.size == size and at in within and at not in fusion.stored
        if at == ref or fusion.inline[at] or (node.kind == "pointwise" and on_the_way):
            if (at, coords) in seen:
                continue
            seen.add((at, coords))
            work = body_work(node.body)
            operations += sum(1 for n in work if n.op not in ("arg", "const", "cast"))
            if (
                node.kind != "pointwise"
                or any(n.op not in sc.CHEAP for n in work)
                or operations > MAX_OPERATIONS
            ):
                return None
            inner.add(at)
            for operand, where in zip(node.inputs, fusion.operand_coords(node, coords)):
                if where is None:
                    return None
                stack.append((operand, where))
        else:
            leaves[at, coords] = None
    large = {at for at, _ in leaves if base.spec(at).size * 2 > size}
    return (list(leaves), inner) if len(large) <= 1 and all(_is_stored(fusion, a) for a in large) else None


def _is_stored(fusion: Fusion, ref: Ref) -> bool:
    return ref < 0 or ref in fusion.stored or ref in fusion.outputs(fusion.cluster_of[ref])


def _through(fusion: Fusion, reader: Ref, ref: Ref, leaves: list[tuple[Ref, Coords]]) -> list[Edge] | None:
    """The reader's edges with those to `ref` replaced by edges to what it follows from."""
    edges: dict[Edge, None] = {}
    for edge in fusion.edges[reader]:
        if edge.source != ref:
            edges[edge] = None
        elif edge.coords is None:
            return None
        else:
            for leaf, coords in leaves:
                edges[type(edge)(leaf, tuple(substitute(c, edge.coords) for c in coords))] = None
    return list(edges)


def _fits(fusion: Fusion, replaced: dict[Ref, list[Edge]]) -> bool:
    """Whether every reader's kernel can bind what it now reads."""
    for reader in replaced:
        cluster = fusion.cluster_of[reader]
        inside = set(cluster.members)
        reads = {e.source for r in cluster.members for e in replaced.get(r, fusion.edges[r])} - inside
        if len(reads) + len(fusion.outputs(cluster)) > fusion.max_buffers:
            return False
    return True
