"""The graph that the passes work on: single-result nodes of the few kinds that lowering knows.

kind        params                          meaning
pointwise   ()                              `instance.body` at each element, operands broadcast
view        (View,)                         operand 0 under another index; not before operand 1 where there is one
reduce      (name, axes)                    over `axes`, which stay with extent 1
partial     (name, axes, chunks, length)    one result per chunk of `length` along the flattened `axes`, as a last axis
take        (axis,)                         operand 0 at operand 1's indices along `axis`
along       (axis,)                         operand 0 where operand 1 gives the index along `axis`, element by element
pad         (starts, steps)                 operand at `starts + steps * index` (steps > 0), 0 elsewhere
concat      (axis,)                         operands one after the other
order       (bits,)                         int32 indices that sort each row of (rows, n) unsigned numbers below 2^bits stably
inverse     ()                              the inverse of a permutation in each row
positions   (fill,)                         where inclusive counts grow, by 0 or 1 at a place, as many as there are, then `fill`
scan        ()                              inclusive sums along the middle one of three axes
pair        (unique?,)                      a complex value from its real and imaginary parts; only ever a root
matmul      () or ("nt",)                   matrices in the last two axes, equal batch axes before them; nt: (m, k) by (n, k)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from oa._graph.graph import Input
from oa._schema.op import Instance
from oa._schema.scalar import Scalar, topological
from oa._schema.spec import Spec

Ref = int  #: a node's position (>= 0) or graph input number `-ref - 1` (< 0)


@lru_cache(maxsize=4096)
def body_work(body: Scalar | None) -> tuple[Scalar, ...]:
    """The scalar operations of a node's body, operands first; none for a node without one."""
    return () if body is None else tuple(topological([body]))


@dataclass(eq=False, slots=True)
class BaseNode:
    """One base operation, never changed once made. `sources` are positions of the user's nodes that it stands for."""

    kind: str
    spec: Spec
    inputs: tuple[Ref, ...]
    params: tuple[Any, ...]
    body: Scalar | None
    name: str
    sources: tuple[int, ...]


@dataclass
class BaseGraph:
    """Nodes in topological order with common sub-expressions shared, and the wanted ones."""

    inputs: tuple[Input, ...]
    nodes: list[BaseNode] = field(default_factory=list)
    roots: list[Ref] = field(default_factory=list)
    _known: dict[Any, Ref] = field(default_factory=dict)
    #: What `route.view_source` and `route.address` found of whole values; nodes are added and never changed.
    behind: dict[Ref, Any] = field(default_factory=dict)
    addresses: dict[Ref, Any] = field(default_factory=dict)

    def spec(self, ref: Ref) -> Spec:
        """Spec of a node or an input."""
        return self.nodes[ref].spec if ref >= 0 else self.inputs[-ref - 1].spec

    def add(
        self,
        kind: str,
        spec: Spec,
        inputs: tuple[Ref, ...],
        params: tuple[Any, ...] = (),
        body: Scalar | None = None,
        name: str = "",
        source: int = 0,
    ) -> Ref:
        """Append a node, or return the one that computes the same."""
        key = (kind, spec, inputs, params, body)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            self.nodes.append(BaseNode(kind, spec, inputs, params, body, name or kind, (source,)))
        return found

    def forget(self) -> None:
        """No node will be added: what finds equal ones is not needed any more."""
        self._known.clear()

    def add_instance(self, instance: Instance, inputs: tuple[Ref, ...], source: int) -> Ref:
        """Append a node for a non-composite instance."""
        return self.add(
            instance.op.kind,
            instance.outs[0],
            inputs,
            instance.params,
            instance.body,
            instance.op.name,
            source,
        )

    def uses(self) -> list[int]:
        """How many consumers each node has, wanted nodes counted once more."""
        counts = [0] * len(self.nodes)
        for node in self.nodes:
            for ref in node.inputs:
                if ref >= 0:
                    counts[ref] += 1
        for ref in self.roots:
            if ref >= 0:
                counts[ref] += 1
        return counts

    def text(self) -> str:
        """One line a node, deterministic."""
        lines = []
        for k, node in enumerate(self.nodes):
            names = ", ".join(f"n{r}" if r >= 0 else f"in{-r - 1}" for r in node.inputs)
            extra = f" {node.params}" if node.params else ""
            body = f" = {node.body!r}" if node.body is not None else ""
            lines.append(f"n{k}: {node.spec!r} {node.kind}{extra} {node.name}({names}){body}")
        return "\n".join(lines) + "\nroots " + " ".join(f"n{r}" for r in self.roots)
