"""OA_CHECK=1: each new plan is also run with every operation in a kernel of its own, and the first that differs is named.

Plans are functions of their inputs, so a plan may be run beside its real submission as often as needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oa._graph.graph import Graph
from oa._graph.node import Value
from oa._lower.passes import Program, lower
from oa._run.pool import Storage
from oa._schema.spec import Spec
from oa.errors import InternalError

Array = np.ndarray[Any, Any]


def audit(
    engine: Any,
    program: Program,
    inputs: Sequence[Storage],
    scalars: Sequence[int],
    line: Callable[[int], str],
) -> None:
    """Compare a program that has not run yet with its operations apart; `line(k)` says where the user recorded node k.

    Raises InternalError naming the first operation, in the order of recording, whose result has other bits.
    """
    graph = engine._programs.unaudited(program)
    if graph is None:
        return
    specs = [spec for node in graph.nodes for spec in node.instance.outs]

    def results(wanted: Sequence[int], fused: bool) -> list[Array]:
        asked = replace(graph, roots=tuple(wanted))
        made = lower(asked, engine._programs.profile, fused=fused, without=engine._programs.without)
        return _run(engine, made, [specs[k] for k in wanted], inputs, scalars)

    roots = [k for k in dict.fromkeys(graph.roots) if k >= 0]
    together = _run(engine, program, [specs[k] for k in graph.roots], inputs, scalars)
    found = dict(zip(graph.roots, together))
    apart = results(roots, False)
    wrong = [k for k, other in zip(roots, apart) if not _same(found[k], other)]
    if not wrong:
        return
    for k in range(len(specs)):
        one, other = results([k], True)[0], results([k], False)[0]
        if not _same(one, other):
            raise _fault(graph, k, one, other, line)
    k = wrong[0]  # alone it is right: what it is fused with here makes the difference
    raise _fault(graph, k, found[k], apart[roots.index(k)], line)


def _run(
    engine: Any, program: Program, specs: Sequence[Spec], inputs: Sequence[Storage], scalars: Sequence[int]
) -> list[Array]:
    """The values of a program's roots."""
    outputs = [engine._pool.allocate(slot.size) for slot in program.plan.outputs]
    if program.plan.steps:
        engine._executor.run(program.plan, inputs, outputs, scalars)
    found = []
    for spec, binding in zip(specs, program.results):
        value = Value(spec)
        value.storage = (inputs if binding.from_input else outputs)[binding.index]
        value.layout = binding.layout
        found.append(engine.read(value))
    return found


def _differing(a: Array, b: Array) -> Array:
    """Where the bits differ; a NaN equals any NaN."""
    if a.dtype.kind != "f":
        return np.asarray(a != b)
    bits = f"u{a.itemsize}"
    return np.asarray((a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b)))


def _same(a: Array, b: Array) -> bool:
    return not _differing(np.atleast_1d(a), np.atleast_1d(b)).any()


def _fault(graph: Graph, ordinal: int, one: Array, other: Array, line: Callable[[int], str]) -> InternalError:
    number = ordinal
    for node in graph.nodes:
        if number < len(node.instance.outs):
            break
        number -= len(node.instance.outs)
    flags = _differing(np.atleast_1d(one), np.atleast_1d(other))
    at = tuple(int(i) for i in np.argwhere(flags)[0]) if one.ndim else ()
    return InternalError(
        f"OA_CHECK: {node.instance!r}, recorded at {line(node.source)}: {int(flags.sum())} of {flags.size} elements change"
        f" when it is fused, the first at {at}: {one[at]!r}, alone {other[at]!r}; please report it with the plan (OA_SHOW=1)"
    )
