"""The immutable graph that lowering sees: instances wired by ordinals, with no handles and no storage."""

from __future__ import annotations

from dataclasses import dataclass

from oa._graph.node import Batch, Value
from oa._graph.views import Layout
from oa._schema.op import Instance
from oa._schema.spec import Spec


@dataclass(frozen=True)
class Input:
    """A value from outside: stored (with a layout) or a Python number passed as data."""

    spec: Spec
    layout: Layout | None

    @property
    def is_scalar(self) -> bool:
        """Whether the value is a Python number, passed in the argument block."""
        return self.layout is None


@dataclass(frozen=True)
class GraphNode:
    """An instance and the ordinals of its inputs: >= 0 a node output, < 0 input number `-ordinal - 1`."""

    instance: Instance
    inputs: tuple[int, ...]
    source: int  #: position of the user's node it came from


@dataclass(frozen=True)
class Graph:
    """Nodes in order. Output ordinals count node outputs from 0; `roots` are the ordinals wanted outside."""

    inputs: tuple[Input, ...]
    nodes: tuple[GraphNode, ...]
    roots: tuple[int, ...]

    def text(self) -> str:
        """One line a node, deterministic."""
        lines = [
            f"in{k}: {i.spec!r} {'scalar' if i.is_scalar else i.layout}" for k, i in enumerate(self.inputs)
        ]
        ordinal = 0
        for node in self.nodes:
            names = ", ".join(f"v{o}" if o >= 0 else f"in{-o - 1}" for o in node.inputs)
            outs = ", ".join(f"v{ordinal + k}: {s!r}" for k, s in enumerate(node.instance.outs))
            ordinal += len(node.instance.outs)
            lines.append(f"{outs} = {node.instance.op.name}({names})")
        lines.append("roots " + ", ".join(f"v{r}" for r in self.roots))
        return "\n".join(lines)


def freeze(batch: Batch, roots: list[Value]) -> Graph:
    """The graph of a batch, with the given pending values wanted."""
    inputs = tuple(Input(v.spec, None if v.number is not None else v.layout) for v in batch.externals)
    nodes = []
    for position, node in enumerate(batch.nodes):
        ordinals = tuple(v.ordinal if v.batch is batch else batch.external(v) for v in node.inputs)
        nodes.append(GraphNode(node.instance, ordinals, position))
    return Graph(inputs, tuple(nodes), tuple(v.ordinal for v in roots))


def key(batch: Batch, roots: list[Value], carried: tuple[tuple[int, int], ...] = ()) -> tuple[object, ...]:
    """Everything that decides the plan, compared exactly: nodes and wiring, externals, which values are wanted, and which of
    them replace which external (`batching.carried`)."""
    externals = tuple((v.spec.id, v.layout if v.number is None else None) for v in batch.externals)
    return (tuple(batch.key), externals, tuple(v.ordinal for v in roots), carried)
