"""Pass `fuse`: which nodes share a kernel.

A *map* cluster computes values of one shape at the same element. A *row* cluster has a full shape and reduced axes: its members
are reductions over those axes, element-level nodes of the full shape, and row-level nodes with one value a row. Some nodes are
`inline`: cheap, or used once under another index; every consumer computes them for itself and they are never stored.

Two clusters merge along an edge when every edge between them reads the very element (or row) being computed and no path leads
from one to the other through a third. Fusion never changes a bit: each node is computed by the same expression either way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from oa._lower.base import BaseGraph, BaseNode, Ref, body_work
from oa._lower.index import Coords, Data, Ix, broadcast_coords, dims, substitute, through
from oa._lower.recompute import recompute
from oa._lower.route import WHOLE, view_source
from oa._lower.siblings import merge_siblings
from oa._schema import scalar as sc
from oa._schema.dtype import uint32
from oa._schema.spec import Shape

MAX_MEMBERS = 64
MAX_INLINE_DEPTH = 24
#: Operations up to which a node with one operand is recomputed rather than stored for several consumers.
CHEAP_OPERATIONS = 3
#: Of what such a node reads too: halves of halves, multiplied again and again, would double at every step.
MOST_REPEATED = 16
#: A gather that reads less than one in so many elements of pointwise work computes what it reads.
GATHER_FRACTION = 8
NOTHING: frozenset[Ref] = frozenset()
_INLINE_CONSUMERS = frozenset({"pointwise", "reduce", "partial", "take", "along", "pad", "concat", "pair"})
#: What reads operands otherwise than element by element.
_ELSEWHERE = frozenset({"concat", "matmul", "pad"}) | WHOLE
_ELEMENTWISE = frozenset({"pointwise", "take", "along", "pad", "pair"})


class Edge(NamedTuple):
    """A node that another reads, through views and inline nodes; `coords` None means at elements unknown before run time, or,
    where a view stands for a value computed later (`oa.ml.checkpoint`), that it is only waited for."""

    source: Ref
    coords: Coords | None


@dataclass(eq=False)
class Cluster:
    """Nodes that become one kernel. `axes` None: a map over `space`. `row_members` hold one value a row."""

    kind: str
    space: Shape
    axes: tuple[int, ...] | None
    members: list[Ref]
    row_members: set[Ref] = field(default_factory=set)
    after: set[int] = field(default_factory=set)  #: clusters that read this one

    def expected(self, ref: Ref, base: BaseGraph) -> Coords | None:
        """At which element of `ref` a member reads it when it reads its own element or row."""
        if ref in self.row_members:
            return row_coords(base.nodes[ref].spec.shape, self.space, self.axes or ())
        return dims(self.space)


@lru_cache(maxsize=4096)
def row_coords(shape: Shape, space: Shape, axes: tuple[int, ...]) -> Coords | None:
    """Coordinates of a row-level value in terms of the full space, None if the shapes do not correspond."""
    identity = dims(space)
    kept = [identity[k] for k, e in enumerate(space) if k not in axes and e != 1]
    extents = [e for k, e in enumerate(space) if k not in axes and e != 1]
    if [e for e in shape if e != 1] != extents:
        return None
    left = iter(kept)
    return tuple(dims((1,))[0] if e == 1 else next(left) for e in shape)


def _operations(node: BaseNode) -> int:
    return sum(1 for n in body_work(node.body) if n.op not in ("arg", "const"))


def iteration_shape(base: BaseGraph, node: BaseNode) -> Shape:
    """The shape whose elements a node visits."""
    return base.spec(node.inputs[0]).shape if node.kind in ("reduce", "partial") else node.spec.shape


#: Stands for the index that a gather reads: known only at run time, so equal to nothing else.
GATHERED = Ix(0, ((Data(sc.scalar("gathered", uint32)), 1),))


def operand_coords(base: BaseGraph, node: BaseNode, coords: Coords) -> list[Coords | None]:
    """For each operand, the element read when `node` visits the element at `coords` of its iteration shape."""
    if node.kind in ("take", "along"):
        axis = node.params[0]
        shape = base.spec(node.inputs[1]).shape
        rank = len(shape) if node.kind == "take" else 1
        index = coords[axis : axis + rank] if node.kind == "take" else broadcast_coords(shape, coords)
        return [(*coords[:axis], GATHERED, *coords[axis + rank :]), index]
    if node.kind in _ELSEWHERE:
        return [None] * len(node.inputs)
    return [broadcast_coords(base.spec(r).shape, coords) for r in node.inputs]


class Fusion:
    """The working state of the pass; `clusters` is its result, in an order that respects dependencies."""

    def __init__(
        self,
        base: BaseGraph,
        max_buffers: int,
        tuning: str,
        enabled: bool = True,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.base = base
        self.max_buffers = max_buffers
        self.tuning = tuning
        self.enabled = enabled
        self.stored = {view_source(base, r)[0] for r in base.roots}
        self.direct = self._direct_uses()
        self.inline = self._inline()
        self.recomputes = self._gathers_that_recompute()
        self.pointwise = frozenset(r for r, n in enumerate(base.nodes) if n.kind == "pointwise")
        self.again: dict[
            Ref, frozenset[Ref]
        ] = {}  #: what is computed again by its readers, with the nodes on the way
        #: By node, what its kernel has to follow although it does not read it.
        self.waits: dict[Ref, set[Ref]] = {}
        self.edges: dict[Ref, list[Edge]] = {}
        self.consumers: dict[Ref, set[Ref]] = {}
        self.cluster_of: dict[Ref, Cluster] = {}
        for ref in self._live():
            self._start(ref, base.nodes[ref])
        if enabled:
            for ref in list(self.cluster_of):
                self._join(ref)
            if "recompute" not in without:
                recompute(self)
            if "siblings" not in without:
                merge_siblings(self)
        self.clusters = self.ordered()

    # -- what is recomputed by its consumers

    def _direct_uses(self) -> list[list[tuple[Ref, bool, bool]]]:
        """For each node its consumers behind views: (consumer, reads its own element, visits more elements than there are)."""
        uses: list[list[tuple[Ref, bool, bool]]] = [[] for _ in self.base.nodes]
        for ref, node in enumerate(self.base.nodes):
            if node.kind == "view":
                continue
            shape = iteration_shape(self.base, node)
            visited = math.prod(shape)
            for operand, coords in zip(node.inputs, operand_coords(self.base, node, dims(shape))):
                source, at = view_source(self.base, operand, coords, None if coords is None else shape)
                if source < 0:
                    continue
                made = self.base.nodes[source].spec
                identity = coords is not None and made.shape == shape and at == dims(shape)
                uses[source].append((ref, identity, visited > made.size))
        return uses

    def _inline(self) -> list[bool]:
        flags: list[bool] = []
        depth: list[int] = []
        leaves: list[frozenset[Ref]] = []  # the stored values that a consumer would read for this node
        work: list[int] = []  # the operations that each of its readers would compute
        for ref, node in enumerate(self.base.nodes):
            below = max((depth[r] for r in node.inputs if r >= 0), default=0)
            operands = node.inputs[:1] if node.kind == "view" else node.inputs
            below_it = [leaves[r] if r >= 0 else self._input_leaf(r) for r in operands]
            read = below_it[0] if len(below_it) == 1 else NOTHING.union(*below_it)
            chosen = (
                node.kind in _ELEMENTWISE
                and below < MAX_INLINE_DEPTH
                and self._wants_inline(ref, node, len(read), sum(work[r] for r in node.inputs if r >= 0))
            )
            flags.append(chosen)
            through_it = chosen or node.kind == "view"
            depth.append(below + int(chosen) if through_it else 0)
            leaves.append(read if through_it else frozenset((ref,)))
            repeated = sum(work[r] for r in node.inputs if r >= 0)
            work.append((repeated + _operations(node) if chosen else repeated) if through_it else 0)
        return flags

    def _input_leaf(self, ref: Ref) -> frozenset[Ref]:
        return frozenset() if self.base.inputs[-ref - 1].is_scalar else frozenset((ref,))

    def _wants_inline(self, ref: Ref, node: BaseNode, tensors: int, below: int) -> bool:
        uses = self.direct[ref]
        if ref in self.stored or any(self.base.nodes[c].kind not in _INLINE_CONSUMERS for c, _, _ in uses):
            return False
        work = body_work(node.body)
        cheap = node.kind in ("pointwise", "pad") and all(n.op in sc.CHEAP for n in work)
        if tensors == 0 and (cheap or self._costs_less_than_a_dispatch(node)):
            return True
        if not self.enabled:
            return False
        if len(uses) == 1:
            consumer, identity, expands = uses[0]
            kind = self.base.nodes[consumer].kind
            return not expands and (not identity or kind in ("partial", "concat"))
        operations = _operations(node)
        few = operations <= CHEAP_OPERATIONS and operations + below <= MOST_REPEATED
        return cheap and tensors <= 1 and few and not any(i for _, i, _ in uses)

    def _costs_less_than_a_dispatch(self, node: BaseNode) -> bool:
        """Whether a number that follows from numbers alone is computed by each invocation that needs it: on a CPU it is not."""
        return self.enabled and self.tuning != "cpu" and node.kind == "pointwise" and node.spec.size == 1

    def _gathers_that_recompute(self) -> set[Ref]:
        """Gathers that read so few elements of what pointwise nodes make that they compute those for themselves."""
        if not self.enabled:
            return set()
        gathers = [(r, n) for r, n in enumerate(self.base.nodes) if n.kind in ("take", "along")]
        return {r for r, n in gathers if n.spec.size * GATHER_FRACTION <= self.base.spec(n.inputs[0]).size}

    # -- edges between stored nodes

    def _live(self) -> list[Ref]:
        """Nodes that are stored or lead to one that is, in order, their edges found on the way."""
        wanted = [r for r in self.stored if r >= 0]
        while wanted:
            ref = wanted.pop()
            if ref not in self.edges:
                self.edges[ref] = self._sources(ref, self.base.nodes[ref])
                wanted.extend(e.source for e in self.edges[ref] if e.source >= 0)
        return sorted(self.edges)

    def _start(self, ref: Ref, node: BaseNode) -> None:
        edges = self.edges[ref]
        for edge in edges:
            if edge.source >= 0:
                self.consumers.setdefault(edge.source, set()).add(ref)
        if node.kind == "reduce":
            cluster = Cluster("row", iteration_shape(self.base, node), node.params[1], [ref], {ref})
        else:
            kind = "map" if node.kind in _ELEMENTWISE else node.kind
            if node.kind == "concat" and node.spec.dtype.itemsize < 4:
                kind = "map"
            cluster = Cluster(kind, node.spec.shape, None, [ref])
        self.cluster_of[ref] = cluster

    def _sources(self, ref: Ref, node: BaseNode) -> list[Edge]:
        space = iteration_shape(self.base, node)
        found: dict[Edge, None] = {}
        # (value, element read, nodes on the way that the reader computes)
        stack = self._operands(ref, node, dims(space), NOTHING)
        while stack:
            at, coords, expand = stack.pop()
            while at >= 0 and self.base.nodes[at].kind == "view":
                view = self.base.nodes[at]
                coords = None if coords is None else through(view.params[0], coords, space)
                at = view.inputs[0]
                for token in view.inputs[1:]:
                    self.waits.setdefault(ref, set()).update(self._computed(token))
            if at >= 0 and self.computed_by_reader(at, expand):
                stack.extend(self._operands(at, self.base.nodes[at], coords, expand))
            elif at >= 0 or not self.base.inputs[-at - 1].is_scalar:
                found[Edge(at, coords)] = None
        for late in self.waits.get(ref, ()):
            found[Edge(late, None)] = None
        return list(found)

    def _computed(self, token: Ref) -> set[Ref]:
        """The values in kernels of their own that a value follows from, or itself."""
        found: set[Ref] = set()
        stack = [token]
        while stack:
            at = stack.pop()
            if at >= 0 and (self.base.nodes[at].kind == "view" or self.inline[at]):
                stack.extend(self.base.nodes[at].inputs)
            elif at >= 0:
                found.add(at)
        return found

    def operand_coords(self, node: BaseNode, coords: Coords) -> list[Coords | None]:
        """For each operand of `node`, the element read at `coords`."""
        return operand_coords(self.base, node, coords)

    def computed_by_reader(self, ref: Ref, expand: frozenset[Ref]) -> bool:
        """Whether a reader computes the node for itself; `expand` are nodes that this reader computes besides inline ones."""
        return self.inline[ref] or ref in expand

    def _operands(
        self, ref: Ref, node: BaseNode, coords: Coords | None, expand: frozenset[Ref]
    ) -> list[tuple[Ref, Coords | None, frozenset[Ref]]]:
        if coords is None:
            return [(r, None, expand) for r in node.inputs]
        where = operand_coords(self.base, node, coords)
        return [
            (r, c, self.pointwise if k == 0 and ref in self.recomputes else expand)
            for k, (r, c) in enumerate(zip(node.inputs, where))
        ]

    # -- merging

    def _join(self, ref: Ref) -> None:
        for edge in self.edges[ref]:
            if edge.source < 0:
                continue
            a, b = self.cluster_of[edge.source], self.cluster_of[ref]
            if a is not b and edge.coords is not None:
                self._try_merge(a, b)

    def _try_merge(self, a: Cluster, b: Cluster) -> None:
        if a.kind not in ("map", "row") or b.kind not in ("map", "row"):
            return
        if len(a.members) + len(b.members) > MAX_MEMBERS:
            return
        if a.axes is None and b.axes is not None and not self._worth_repeating(a, b):
            return
        for merged in self._combinations(a, b):
            if self._edges_fit(a, b, merged) and self.fits_device(merged) and not self.path_around(a, b):
                for ref in merged.members:
                    self.cluster_of[ref] = merged
                return

    def _worth_repeating(self, a: Cluster, b: Cluster) -> bool:
        """Whether a row kernel may compute what comes before it and is stored all the same: each of its passes does so again.

        On a device whose loads cost little against memory, yes, unless a transcendental would be repeated; on a CPU no.
        """
        inside = {*a.members, *b.members}
        stored = [r for r in a.members if r in self.stored or self.consumers.get(r, set()) - inside]
        if not stored:
            return True
        return self.tuning != "cpu" and not any(self._is_heavy(self.base.nodes[r]) for r in a.members)

    def _is_heavy(self, node: BaseNode) -> bool:
        return any(n.op not in sc.CHEAP for n in body_work(node.body))

    def _combinations(self, a: Cluster, b: Cluster) -> list[Cluster]:
        """The ways in which the two could be one cluster, shapes considered and edges not."""
        members = sorted(a.members + b.members)
        rows = a.row_members | b.row_members
        if a.axes is None and b.axes is None:
            return [Cluster("map", a.space, None, members)] if a.space == b.space else []
        if a.axes is not None and b.axes is not None:
            same = a.space == b.space and a.axes == b.axes
            return [Cluster("row", a.space, a.axes, members, rows)] if same else []
        row, flat = (a, b) if a.axes is not None else (b, a)
        found = []
        if flat.space == row.space:
            found.append(Cluster("row", row.space, row.axes, members, rows))
        if row_coords(flat.space, row.space, row.axes or ()) is not None:
            found.append(Cluster("row", row.space, row.axes, members, rows | set(flat.members)))
        return found

    def _edges_fit(self, a: Cluster, b: Cluster, merged: Cluster) -> bool:
        inside = set(a.members)
        for ref in b.members:
            for edge in self.edges[ref]:
                if edge.source not in inside:
                    continue
                if edge.coords is None:
                    return False
                coords = edge.coords
                if ref in merged.row_members and self.base.nodes[ref].kind != "reduce":
                    own = merged.expected(ref, self.base)
                    if own is None:
                        return False
                    coords = tuple(substitute(c, own) for c in coords)
                if coords != merged.expected(edge.source, self.base):
                    return False
        return True

    def outputs(self, cluster: Cluster) -> list[Ref]:
        """Members that must be stored: wanted outside the graph or read by another cluster."""
        inside = set(cluster.members)
        return [r for r in cluster.members if r in self.stored or self.consumers.get(r, set()) - inside]

    def space_of(self, ref: Ref) -> Shape:
        """The shape whose elements a node visits."""
        return iteration_shape(self.base, self.base.nodes[ref])

    def depends(self, a: Cluster, b: Cluster) -> bool:
        """Whether `b` reads something that follows from `a`."""
        last = max(b.members)
        seen = {id(a)}
        stack = [a]
        while stack:
            for ref in stack.pop().members:
                for consumer in self.consumers.get(ref, ()):
                    following = self.cluster_of[consumer]
                    if following is b:
                        return True
                    if id(following) not in seen and min(following.members) <= last:
                        seen.add(id(following))
                        stack.append(following)
        return False

    def fits_device(self, merged: Cluster) -> bool:
        """Whether the device binds what the merged kernel would read and write, and its invocations own whole words."""
        inside = set(merged.members)
        reads = {e.source for r in merged.members for e in self.edges[r]} - inside
        outputs = self.outputs(merged)
        if merged.axes is not None and any(self.base.nodes[r].spec.dtype.itemsize < 4 for r in outputs):
            return False  # a row kernel's invocations do not own whole words of sub-word results
        return len(reads) + len(outputs) <= self.max_buffers

    def path_around(self, a: Cluster, b: Cluster) -> bool:
        """Whether some third cluster lies between the two."""
        inside = set(a.members)
        between = {
            id(c): c
            for r in a.members
            for o in self.consumers.get(r, ())
            if o not in inside
            for c in [self.cluster_of[o]]
        }
        between.pop(id(b), None)
        last = max(b.members)
        return any(min(c.members) <= last and self.depends(c, b) for c in between.values())

    def ordered(self) -> list[Cluster]:
        """Clusters so that each follows what it reads."""
        order: list[Cluster] = []
        state: dict[int, int] = {}
        for first in self.cluster_of.values():
            stack = [first]
            while stack:
                cluster = stack[-1]
                if state.get(id(cluster)) == 2:
                    stack.pop()
                    continue
                if state.get(id(cluster)) == 1:
                    state[id(cluster)] = 2
                    order.append(cluster)
                    stack.pop()
                    continue
                state[id(cluster)] = 1
                for ref in cluster.members:
                    for edge in self.edges[ref]:
                        if edge.source >= 0:
                            before = self.cluster_of[edge.source]
                            if before is not cluster and id(before) not in state:
                                stack.append(before)
        return order
