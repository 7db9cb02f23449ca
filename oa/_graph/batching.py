"""Batches as a whole: which values are wanted, cutting, and putting a failed batch together again."""

from __future__ import annotations

from collections.abc import Iterable

from oa._graph.node import Batch, Node, Value


def wanted(batch: Batch) -> list[Value]:
    """Pending values that somebody outside the batch can still ask for, in order."""
    return [
        v
        for node in batch.nodes
        for v in node.outputs
        if (handle := v.handle()) is not None and (handle._value is v or v.kept)
    ]


def carried(batch: Batch, roots: list[Value]) -> tuple[tuple[int, int], ...]:
    """Pairs (position in `roots`, number of the external) of State cells that go from an old value to a new one."""
    if not batch.carried:
        return ()
    position = {id(v): k for k, v in enumerate(roots)}
    return tuple(
        (position[id(new)], -batch.external(old) - 1) for new, old in batch.carried if id(new) in position
    )


def rebuild(nodes: Iterable[Node]) -> Batch:
    """A new batch of these nodes, their values kept. Inputs must be stored, numbers, or made by earlier nodes of the list."""
    batch = Batch()
    for node in nodes:
        batch.adopt(node)
    return batch


def halves(batch: Batch, roots: list[Value]) -> tuple[list[Node], list[Value], list[Node], list[Value]]:
    """Two halves of a batch: nodes and wanted values of each; the first half's include what the second reads."""
    middle = len(batch.nodes) // 2
    first, second = batch.nodes[:middle], batch.nodes[middle:]
    made = {id(v) for node in first for v in node.outputs}
    crossing = {id(v) for node in second for v in node.inputs if id(v) in made}
    asked = {id(v) for v in roots}
    first_roots = [v for node in first for v in node.outputs if id(v) in asked or id(v) in crossing]
    second_roots = [v for node in second for v in node.outputs if id(v) in asked]
    return first, first_roots, second, second_roots
