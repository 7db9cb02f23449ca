"""What in a graph can be tuned: for each choice the key that it is kept under, what may be chosen, and a graph to try it on.

A choice depends on operation, dtype, shape and device, never on neighbours, so it is tried alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oa._graph.graph import Graph, GraphNode, Input
from oa._graph.views import Layout, contiguous
from oa._kernel.matmul import choose
from oa._kernel.matmul.problem import Problem
from oa._kernel.matmul.variants import Variant
from oa._lower.base import BaseGraph, BaseNode, Ref
from oa._lower.expand import expand
from oa._lower.kernels import _problem
from oa._lower.passes import lower
from oa._lower.route import _TWO_STAGE, chunk_candidates, chunk_key, is_trailing, route
from oa._lower.rows import Rows, row_candidates, schedule_text
from oa._schema import scalar as sc
from oa._schema.dtype import DType
from oa._schema.op import Inference, Instance, Operation
from oa._schema.spec import Shape, Spec, spec
from oa.errors import InternalError

if TYPE_CHECKING:
    from oa._device import Profile
    from oa._lower.passes import Program

#: Kinds of choices, by the first word of their keys.
KINDS = {
    "matmul": "tile and ranges of k of a product",
    "reduce": "chunks of a reduction",
    "rows": "how a row is shared",
}
#: Registers that an invocation may hold on any device, and those of all invocations of a workgroup.
MOST_REGISTERS, MOST_OF_A_GROUP = 255, 65536


@dataclass(frozen=True)
class Decision:
    """A choice to make: the candidates as text, the cost model's first, and the graph to try them on."""

    key: str
    candidates: tuple[str, ...]
    graph: Graph

    def stages(self) -> list[list[str]]:
        """The candidates in the order to try them: one of each variant, then, of the fastest, the other ways to run it."""
        if not self.key.startswith("matmul"):
            return [list(self.candidates)]
        first: dict[str, str] = {}
        for candidate in self.candidates:
            first.setdefault(variant_of(candidate), candidate)
        return [list(first.values()), [c for c in self.candidates if c not in first.values()]]

    def program(self, candidate: str, profile: Profile) -> Program:
        """The graph lowered with one candidate, and for all else what the profile says."""
        from_models = type(profile.tuned)({self.key: candidate})
        return lower(self.graph, replace(profile, tuned=from_models))


def variant_of(candidate: str) -> str:
    """A product's candidate without its ranges of k."""
    return candidate.rpartition(" ")[0]


def decisions(graph: Graph, profile: Profile) -> Iterator[Decision]:
    """What lowering a graph for a device has to choose, each key once; what has one candidate is none."""
    seen: set[str] = set(profile.tuned)
    expanded = expand(graph)
    for node in expanded.nodes:
        if node.kind == "reduce":
            yield from _new(seen, _chunks(expanded, node, profile))
    base = route(expanded, replace(profile, tuned=type(profile.tuned)({})))
    for node in base.nodes:
        if node.spec.size == 0:
            continue
        if node.kind == "matmul" and node.spec.dtype.name == "float32":
            yield from _new(seen, product(_problem(base, node)[0], node.spec.dtype, profile))
        elif node.kind == "reduce":
            operand = base.spec(node.inputs[0])
            yield from _new(seen, rows(operand.shape, node.params[1], operand.dtype, profile))


def keys(graph: Graph, profile: Profile) -> list[str]:
    """What the choices in a graph are kept under, each once."""
    return [decision.key for decision in decisions(graph, profile)]


def _new(seen: set[str], found: Decision | None) -> Iterator[Decision]:
    if found is not None and len(found.candidates) > 1 and found.key not in seen:
        seen.add(found.key)
        yield found


def product(problem: Problem, dtype: DType, profile: Profile) -> Decision:
    """Which variant computes a product."""
    p = problem
    shapes: tuple[Shape, Shape, Shape] = ((p.m, p.k), (p.k, p.n), (p.m, p.n))
    if p.batch != (1, 1):
        shapes = tuple((*p.batch, *s) for s in shapes)  # type: ignore[assignment]
    ins = tuple(spec(dtype, s) for s in shapes[:2])
    inputs = []
    for given, (row, column, *batch), offset in (
        (ins[0], p.a_strides, p.a_offset),
        (ins[1], p.b_strides, p.b_offset),
    ):
        strides = (*(batch if len(given.shape) > 2 else ()), row, column)
        inputs.append(Input(given, Layout(offset, strides)))
    out = spec(dtype, shapes[2])
    graph = Graph(tuple(inputs), (_node("matmul", ins, Inference((out,)), (-1, -2), 0),), (0,))
    found = tuple(choose.text(c) for c in choose.candidates(problem, profile))
    return Decision(choose.key(problem, dtype.name), found, graph)


def _chunks(base: BaseGraph, node: BaseNode, profile: Profile) -> Decision | None:
    name, axes = node.params
    operand = base.spec(node.inputs[0])
    if name not in _TWO_STAGE or node.spec.dtype.itemsize < 4 or not operand.size:
        return None
    return chunks(name, operand, axes, profile)


def chunks(name: str, operand: Spec, axes: tuple[int, ...], profile: Profile) -> Decision:
    """Into how many chunks a reduction is cut."""
    found = tuple(map(str, chunk_candidates(operand.shape, axes, profile.tuning)))
    return Decision(chunk_key(name, operand, axes), found, _reduction(name, operand, axes))


def _reduction(name: str, operand: Spec, axes: tuple[int, ...]) -> Graph:
    shape = tuple(1 if k in axes else e for k, e in enumerate(operand.shape))
    made = Inference((spec(operand.dtype, shape),), (name, axes))
    inputs = (Input(operand, contiguous(operand.shape)),)
    return Graph(inputs, (_node("reduce", (operand,), made, (-1,), 0),), (0,))


def rows(shape: Shape, axes: tuple[int, ...], dtype: DType, profile: Profile) -> Decision | None:
    """How the rows of a kernel are shared: tried on x - max(x), which like a softmax goes through each row twice."""
    if dtype.itemsize != 4 or 0 in shape:
        return None
    length = 1
    for a in axes:
        length *= shape[a]
    items = spec(dtype, shape).size // length
    inner = next((shape[a] for a in reversed(axes) if shape[a] != 1), 1)
    rows = Rows(items, length, inner, is_trailing(shape, axes), False)
    operand = spec(dtype, shape)
    kept = spec(dtype, tuple(1 if k in axes else e for k, e in enumerate(shape)))
    top = _node("reduce", (operand,), Inference((kept,), ("max", axes)), (-1,), 0)
    body = sc.apply("sub", sc.arg(0, dtype), sc.arg(1, dtype))
    less = _node("pointwise", (operand, kept), Inference((operand,), (), body), (-1, 0), 1)
    graph = Graph((Input(operand, contiguous(shape)),), (top, less), (1,))
    found = tuple(schedule_text(s) for s in row_candidates(rows, profile))
    return Decision(rows.key, found, graph)


def _never() -> None:
    raise InternalError("made to be measured, not to be called")


def _node(
    kind: str, ins: tuple[Spec, ...], made: Inference, inputs: tuple[Ref, ...], place: int
) -> GraphNode:
    operation = Operation(f"matrix.{kind}", kind, _never, tuple("ab"[: len(ins)]), {})
    return GraphNode(Instance(operation, ins, {}, made), inputs, place)


def unfit(program: Program, profile: Profile, candidate: str = "") -> str:
    """Why the device could not run a program well, from what is known of its kernels without a pipeline; "" when it can."""
    limits = profile.limits
    for dispatch in program.plan.dispatches():
        kernel = dispatch.kernel
        invocations = kernel.local_size[0] * kernel.local_size[1] * kernel.local_size[2]
        if kernel.shared_bytes > limits.shared_bytes:
            return f"{kernel.shared_bytes} bytes of workgroup memory, the device has {limits.shared_bytes}"
        if invocations > limits.max_invocations:
            return f"{invocations} invocations a workgroup, the device has {limits.max_invocations}"
        size = kernel.subgroup_size
        if size is not None and not limits.subgroup_min <= size <= limits.subgroup_max:
            return f"subgroups of {size}, the device has {limits.subgroup_min} to {limits.subgroup_max}"
    variant = choose.VARIANTS.get(candidate.partition(" ")[0])
    return "" if variant is None or profile.tuning == "cpu" else spills(variant)


def spills(variant: Variant) -> str:
    """Why a variant of a product would spill registers to memory on a GPU, from its tile; "" where it would not."""
    held = variant.registers
    if held > MOST_REGISTERS or held * variant.invocations > MOST_OF_A_GROUP:
        return f"{held} registers an invocation, {variant.invocations} invocations: it would spill"
    return ""
