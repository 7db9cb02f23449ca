"""Pass `expand`: composites become their bodies, complex values pairs of real ones, equal nodes one; the unwanted goes."""

from __future__ import annotations

from collections.abc import Sequence

from oa._graph.graph import Graph
from oa._lower.base import BaseGraph, BaseNode, Ref
from oa._lower.pairs import append


def expand(graph: Graph) -> BaseGraph:
    """The base graph of a semantic graph; order is kept."""
    base = BaseGraph(graph.inputs)
    outs: list[Ref] = []
    for node in graph.nodes:
        inputs = [outs[o] if o >= 0 else o for o in node.inputs]
        outs.extend(_append(base, node.instance, inputs, node.source))
    base.roots = [outs[r] for r in graph.roots]
    return prune(base)


def _append(base: BaseGraph, instance: object, inputs: Sequence[Ref], source: int) -> list[Ref]:
    template = instance.template  # type: ignore[attr-defined]
    if template is None:
        return [append(base, instance, tuple(inputs), source)]  # type: ignore[arg-type]
    outs: list[Ref] = []
    for node in template.graph.nodes:
        inner = [outs[o] if o >= 0 else inputs[-o - 1] for o in node.inputs]
        outs.extend(_append(base, node.instance, inner, source))
    return [outs[r] for r in template.graph.roots]


def prune(base: BaseGraph) -> BaseGraph:
    """The same graph without the nodes that no root needs, renumbered in order."""
    wanted = [False] * len(base.nodes)
    stack = [r for r in base.roots if r >= 0]
    while stack:
        ref = stack.pop()
        if not wanted[ref]:
            wanted[ref] = True
            stack.extend(r for r in base.nodes[ref].inputs if r >= 0)
    if all(wanted):
        return base
    place: dict[Ref, Ref] = {}
    kept = BaseGraph(base.inputs)
    for ref, node in enumerate(base.nodes):
        if wanted[ref]:
            place[ref] = len(kept.nodes)
            inputs = tuple([place[r] if r >= 0 else r for r in node.inputs])
            kept.nodes.append(
                BaseNode(node.kind, node.spec, inputs, node.params, node.body, node.name, node.sources)
            )
    kept.roots = [place[r] if r >= 0 else r for r in base.roots]
    return kept
