"""Pass `siblings`, a part of `fuse`: clusters that visit the same elements and read a common value share one kernel.

So the value is read once. Neither may depend on the other; all else is as for merging along an edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oa._lower.base import Ref
from oa._lower.index import dims

if TYPE_CHECKING:
    from oa._lower.fuse import Cluster, Fusion


def merge_siblings(fusion: Fusion) -> None:
    """Merge pairs of clusters that read a common value at their own element, in order of the values."""
    readers: dict[Ref, dict[Cluster, None]] = {}
    for cluster in dict.fromkeys(fusion.cluster_of.values()):
        if cluster.kind in ("map", "row", "partial"):
            for ref in cluster.members:
                space = fusion.space_of(ref)
                for edge in fusion.edges[ref]:
                    if edge.coords == dims(space):
                        readers.setdefault(edge.source, {})[cluster] = None
    for source in sorted(readers):
        _merge_group(fusion, list(dict.fromkeys(fusion.cluster_of[c.members[0]] for c in readers[source])))


def _merge_group(fusion: Fusion, clusters: list[Cluster]) -> None:
    by_shape: dict[Any, list[Cluster]] = {}
    for cluster in clusters:
        by_shape.setdefault(_visits(fusion, cluster), []).append(cluster)
    for group in by_shape.values():
        first = group[0]
        for other in group[1:]:
            first = _merged(fusion, first, other) or first


def _visits(fusion: Fusion, cluster: Cluster) -> Any:
    """What two clusters must agree in: elements visited, and for reductions over which axes and in which pieces."""
    if cluster.kind == "partial":
        first = cluster.members[0]
        return cluster.kind, fusion.space_of(first), fusion.base.nodes[first].params[1:]
    return cluster.kind, cluster.space, cluster.axes


def _merged(fusion: Fusion, a: Cluster, b: Cluster) -> Cluster | None:
    if fusion.depends(a, b) or fusion.depends(b, a):
        return None
    rows = a.row_members | b.row_members
    made = type(a)(a.kind, a.space, a.axes, sorted(a.members + b.members), rows)
    if not fusion.fits_device(made):
        return None
    for ref in made.members:
        fusion.cluster_of[ref] = made
    return made
