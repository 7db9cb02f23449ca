"""Composites: their bodies run once per instance on abstract values, giving a template that lowering splices in."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from oa._graph.graph import Graph, GraphNode, Input
from oa._graph.node import Batch, Value
from oa._graph.views import contiguous
from oa._schema import call
from oa._schema import scalar as sc
from oa._schema.dtype import Weak
from oa._schema.interning import Recent
from oa._schema.op import INSTANCES, Inference, Instance, Operation
from oa._schema.spec import Spec
from oa._schema.value import Typed
from oa.errors import ArgumentError, InternalError


@dataclass(frozen=True)
class Template:
    """A composite's body as a graph whose inputs are its operands, in order."""

    graph: Graph


class Tracer:
    """Records a composite's body. Values have specs and no storage; reading one is an error."""

    is_recording = True
    warn_on_sync = False

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.batch = Batch()
        self._constants: dict[tuple[int, int], Value] = {}

    def __repr__(self) -> str:
        return f"<tracing {self.operation.name}>"

    def record(self, instance: Instance, values: tuple[Value, ...], facade: type[Typed]) -> Any:
        """Append one node to the template."""
        made = self.batch.append(instance, values, (call.record.__code__, 0))
        handles = [facade(self, v) for v in made]
        return handles[0] if len(handles) == 1 else tuple(handles)

    def scalar_value(self, spec: Spec, number: Weak) -> Value:
        """A Python number inside a composite is a constant of its template."""
        pattern = sc.bit_pattern(number, spec.dtype)
        found = self._constants.get((spec.id, pattern))
        if found is None:
            record = Operation(
                f"constant<{sc.text(sc.const(number, spec.dtype))}>", "pointwise", _constant, (), {}
            )
            body = sc.const(number, spec.dtype)
            instance = _CONSTANTS.get((spec.id, pattern))
            if instance is None:
                instance = _CONSTANTS[spec.id, pattern] = Instance(
                    record, (), {}, Inference((spec,), (), body)
                )
            found = self._constants[spec.id, pattern] = self.batch.append(
                instance, (), (_constant.__code__, 0)
            )[0]
        return found

    def __getattr__(self, name: str) -> Any:
        raise ArgumentError(
            f"{self.operation.name}: a composite's body may only call operations; it asked for engine.{name}"
        )


def _constant() -> None:
    raise InternalError("a constant has no function")


_CONSTANTS: Recent[tuple[int, int], Instance] = Recent(INSTANCES)


def trace(
    operation: Operation, specs: tuple[Spec, ...], attrs: dict[str, Any], key: Any, facade: type[Typed]
) -> Instance:
    """The instance of a composite for these operand specs and attributes."""
    tracer = Tracer(operation)
    operands = []
    for spec in specs:
        value = Value(spec)
        value.layout = contiguous(spec.shape)
        tracer.batch.external(value)
        handle = facade(tracer, value)
        value.handle = weakref.ref(handle)
        operands.append(handle)
    result = operation.function(*operands, **attrs)
    results = result if isinstance(result, tuple) else (result,)
    roots = []
    for r in results:
        if r._value.batch is not tracer.batch:
            raise InternalError(f"{operation.name}: a composite must not return its operand unchanged")
        roots.append(r._value)
    batch = tracer.batch
    inputs = tuple(Input(v.spec, v.layout) for v in batch.externals)
    nodes = tuple(
        GraphNode(
            n.instance, tuple(v.ordinal if v.batch is batch else batch.external(v) for v in n.inputs), k
        )
        for k, n in enumerate(batch.nodes)
    )
    instance = Instance(operation, specs, attrs, Inference(tuple(v.spec for v in roots)))
    instance.template = Template(Graph(inputs, nodes, tuple(v.ordinal for v in roots)))
    operation.cache[key] = instance
    return instance
