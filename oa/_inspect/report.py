"""Stable reports as plain data: the semantic graph and the executable graph, with the same bytes in every process.

Nothing in them depends on hash seeds, the order of earlier work or the machine's memory: no handles, addresses or counters.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from oa._graph.graph import Graph, Input
from oa._inspect.flow import Flow, Flowing, flow, lifetimes, live_bytes
from oa._inspect.subject import Subject
from oa._kernel.pack import Kernel
from oa._lower.plan import Barrier, Cost, Dispatch, Operand, Plan, ScalarWord, Slot
from oa._schema.op import Instance
from oa._schema.spec import Spec

#: Of the reports' form: the number grows when a reader of an older report would misread a newer one.
VERSION = 1


def report(subject: Subject) -> dict[str, Any]:
    """Both graphs; see `CapturedPlan.report`."""
    found = flow(subject.plan)
    profile = subject.profile
    return {
        "format": "oa.plan.report",
        "version": VERSION,
        "device": {"name": subject.device, "profile": profile.name, "addressing": profile.addressing},
        "semantic": None if subject.graph is None else semantic(subject.graph),
        "executable": executable(subject, found),
    }


def to_json(data: Any) -> str:
    """Plain data as JSON: one text for equal data."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# -- the semantic graph


def semantic(graph: Graph) -> dict[str, Any]:
    """Operations by their schema ids, in the order in which they were recorded."""
    nodes, ordinal = [], 0
    for node in graph.nodes:
        outs = [{"name": f"v{ordinal + k}", **_spec(s)} for k, s in enumerate(node.instance.outs)]
        ordinal += len(node.instance.outs)
        nodes.append(
            {**_instance(node.instance), "inputs": [_ordinal(o) for o in node.inputs], "outputs": outs}
        )
    return {
        "inputs": [_input(k, i) for k, i in enumerate(graph.inputs)],
        "nodes": nodes,
        "roots": [_ordinal(o) for o in graph.roots],
    }


def _ordinal(ordinal: int) -> str:
    return f"v{ordinal}" if ordinal >= 0 else f"in{-ordinal - 1}"


def _spec(spec: Spec) -> dict[str, Any]:
    return {"dtype": spec.dtype.name, "shape": list(spec.shape)}


def _input(number: int, found: Input) -> dict[str, Any]:
    made: dict[str, Any] = {"name": f"in{number}", **_spec(found.spec), "scalar": found.is_scalar}
    if found.layout is not None:
        made |= {"offset": found.layout.offset, "strides": list(found.layout.strides)}
    return made


def _instance(instance: Instance) -> dict[str, Any]:
    made: dict[str, Any] = {"op": instance.op.name}
    if instance.attrs:
        made["attributes"] = {name: plain(value) for name, value in sorted(instance.attrs.items())}
    return made


def plain(value: Any) -> Any:
    """An attribute as data: numbers and text as they are, all else by what it is called."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, slice):
        return {"start": plain(value.start), "stop": plain(value.stop), "step": plain(value.step)}
    return str(getattr(value, "name", type(value).__name__))


# -- the executable graph


def executable(subject: Subject, found: Flow) -> dict[str, Any]:
    """Slots, kernels and dispatches with the values that they exchange."""
    plan = subject.plan
    lives = lifetimes(found)
    kernels = list(dict.fromkeys(d.kernel for d in plan.dispatches()))
    number = {kernel: k for k, kernel in enumerate(kernels)}
    live = live_bytes(lives, max(found.depth, 1))
    return {
        "digest": plan.digest,
        "inputs": [slot_data(s) for s in plan.inputs],
        "outputs": [slot_data(s) for s in plan.outputs],
        "in_place": [list(pair) for pair in plan.in_place],
        "scalars": plan.scalars,
        "constants": [hashlib.sha256(data).hexdigest() for data in plan.constants],
        "scratch": {
            "bytes": plan.scratch_bytes,
            "lower_bound": max(live, default=0),
            "live": live[: found.depth],
        },
        "values": [_value(v) for v in found.values],
        "kernels": [kernel_data(k) for k in kernels],
        "steps": _steps(plan, found, number),
    }


def _steps(plan: Plan, found: Flow, number: dict[Kernel, int]) -> list[Any]:
    steps: list[Any] = []
    dispatch = 0
    for step in plan.steps:
        if isinstance(step, Barrier):
            steps.append("barrier")
            continue
        steps.append(
            {
                **dispatch_data(step, number),
                "level": found.levels[dispatch],
                "reads": [v.name for v in found.reads[dispatch]],
                "writes": [v.name for v in found.writes[dispatch]],
            }
        )
        dispatch += 1
    return steps


def _value(value: Flowing) -> dict[str, Any]:
    return {
        "name": value.name,
        "space": value.space.name.lower(),
        "index": value.index,
        "offset": value.offset,
        "bytes": value.size,
        "made_by": value.made,
        "read_by": value.read,
    }


def slot_data(slot: Slot) -> dict[str, Any]:
    """An input or output position as data."""
    return {"dtype": slot.dtype, "shape": list(slot.shape), "bytes": slot.size}


def kernel_data(kernel: Kernel) -> dict[str, Any]:
    """A kernel as data, its words by their number and digest."""
    rest = {f.name: plain(getattr(kernel, f.name)) for f in fields(Kernel)}
    return {**rest, "words": len(kernel.words) // 4}


def dispatch_data(step: Dispatch, number: dict[Kernel, int]) -> dict[str, Any]:
    """A dispatch as data; scalars that are given at each run are named s0, s1, ..."""
    cost: Cost = step.cost
    return {
        "kernel": number[step.kernel],
        "groups": list(step.groups),
        "operands": [operand_data(o) for o in step.operands],
        "words": [f"s{w.slot}" if isinstance(w, ScalarWord) else w for w in step.words],
        "nodes": list(step.nodes),
        "label": step.label,
        "cost": {"read": cost.read, "written": cost.written, "operations": cost.operations},
    }


def operand_data(operand: Operand) -> dict[str, Any]:
    """An operand as data."""
    made: dict[str, Any] = {
        "space": operand.space.name.lower(),
        "index": operand.index,
        "offset": operand.offset,
        "bytes": operand.size,
        "access": {1: "r", 2: "w", 3: "rw"}[int(operand.access)],
    }
    if operand.part:
        made["part"] = operand.part
    return made
