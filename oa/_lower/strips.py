"""Pass `strips`: a row kernel sums over its rows, too, while it has them.

A sum over the rows of what a row kernel reads or computes, as for the gradient of a norm's weight, is cut into chunks by shape
alone. The row kernel may take one chunk of rows, a strip, after the other, keep a sum for each of its columns in registers, and
write one partial result a column and strip: what the first stage of the sum would have written, added in the same order. So the
rows are read once for both, and no bit depends on whether the pass ran.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from oa._lower.base import Ref
from oa._lower.fuse import Cluster, Fusion
from oa._lower.index import dims
from oa._lower.route import is_trailing
from oa._lower.rows import Rows, row_schedule

if TYPE_CHECKING:
    from oa._device import Profile

#: Registers that an invocation may spend on sums (a float32 sum takes two for each of its elements), and invocations below which
#: a device would idle: a strip is one chain of rows.
MOST_REGISTERS, LEAST_INVOCATIONS = 64, 32768


def strips(fusion: Fusion, profile: Profile) -> None:
    """Let row clusters take the first stages of sums over their rows."""
    if profile.tuning == "cpu":
        return  # rows do not stay in registers there
    for cluster in list(fusion.clusters):
        if cluster.kind != "partial":
            continue
        rows = (c for c in fusion.clusters if c.kind == "row" and fusion.cluster_of[c.members[0]] is c)
        row = next((c for c in rows if _fits(fusion, c, cluster, profile)), None)
        if row is not None:
            made = _joined(row, cluster)
            for ref in made.members:
                fusion.cluster_of[ref] = made
    fusion.clusters = fusion.ordered()


def _joined(row: Cluster, partial: Cluster) -> Cluster:
    return Cluster("row", row.space, row.axes, sorted(row.members + partial.members), row.row_members)


def _fits(fusion: Fusion, row: Cluster, partial: Cluster, profile: Profile) -> bool:
    """Whether the row kernel may, and had better, sum over its rows as the partial cluster does."""
    nodes = fusion.base.nodes
    first = partial.members[0]
    space, (_, over, chunks, _) = fusion.space_of(first), nodes[first].params
    axes = row.axes or ()
    long = {k for k, e in enumerate(space) if e != 1}
    if row.space != space or long & set(axes) & set(over) or not long <= {*axes, *over}:
        return False
    if any(nodes[r].kind == "partial" for r in row.members) or not _shares(fusion, row, partial):
        return False
    if not is_trailing(space, axes) or not _profits(fusion, row, partial, chunks, profile):
        return False
    made = _joined(row, partial)
    legal = fusion._edges_fit(row, partial, made) and fusion.fits_device(made)
    return legal and not fusion.path_around(row, partial) and not fusion.depends(partial, row)


def _shares(fusion: Fusion, row: Cluster, partial: Cluster) -> bool:
    """Whether the two read, or one computes, a common value of their full size."""
    size, known = math.prod(row.space), {*row.members}
    for ref in row.members:
        known |= {e.source for e in fusion.edges[ref]}
    here = dims(row.space)
    found = [e for r in partial.members for e in fusion.edges[r] if e.coords == here]
    return any(e.source in known and fusion.base.spec(e.source).size == size for e in found)


def _profits(fusion: Fusion, row: Cluster, partial: Cluster, chunks: int, profile: Profile) -> bool:
    """Whether rows and sums fit registers, and the strips keep the device busy."""
    axes, space = row.axes or (), row.space
    length = math.prod(space[a] for a in axes)
    inner = next((space[a] for a in reversed(axes) if space[a] != 1), 1)
    schedule = row_schedule(Rows(math.prod(space) // length, length, inner, True, False), profile)
    held = schedule.slots * schedule.vec * sum(_words(fusion, r) for r in partial.members)
    return 0 < held <= MOST_REGISTERS and chunks * schedule.lanes >= LEAST_INVOCATIONS


def _words(fusion: Fusion, ref: Ref) -> int:
    """Registers of one carried sum."""
    node = fusion.base.nodes[ref]
    carries = 2 if node.params[0] == "sum" and node.spec.dtype.is_float else 1
    return carries * (node.spec.dtype.itemsize // 4)
