"""Runs plans of a real training step with one barrier taken away, under the Khronos validation layer with descriptors.

Prints as JSON how many barriers the plan has, what the layer said of replays in place, what checker and layer said of the whole
plan, and what they said with each barrier taken away.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

import oa
from oa import matrix as m
from oa import ml
from oa._lower.check import check_order
from oa._lower.plan import Barrier, Plan
from oa.errors import InternalError


def training(engine: oa.Engine) -> Any:
    """A step with products, row reductions, a concatenation and an update in place."""
    model = ml.TransformerBlock(engine, 16, 2)
    optimizer = ml.AdamW(model.parameters(), 1e-3, max_norm=1.0)
    x = m.from_numpy(engine, np.random.default_rng(0).normal(size=(2, 8, 16)).astype(np.float32))

    def step() -> Any:
        with ml.GradientTape() as tape:
            loss = m.mean(m.square(model(x)))
        optimizer.step(tape.gradient(loss, optimizer.parameters))
        return loss

    return step


def without(plan: Plan, number: int) -> Plan:
    """The plan without its barrier `number`."""
    places = [k for k, step in enumerate(plan.steps) if isinstance(step, Barrier)]
    steps = plan.steps[: places[number]] + plan.steps[places[number] + 1 :]
    return dataclasses.replace(plan, steps=steps, digest=f"without-{number}")


def checker_says(plan: Plan) -> str:
    """What the independent checker has against a plan."""
    try:
        check_order(plan)
    except InternalError as error:
        return str(error)
    return ""


def main() -> None:
    """Try every barrier."""
    with oa.Engine(device="cpu", profile="strict", addressing="descriptor") as engine:
        messages = engine._instance.messages
        captured = engine.capture(training(engine))
        for _ in range(3):
            engine.submit(captured).wait()
        plan: Plan = captured._plan
        replays = [len(plan.in_place), list(messages)]

        def layer_says(plan: Plan) -> list[str]:
            messages.clear()
            outputs = [engine._pool.allocate(slot.size) for slot in plan.outputs]
            scalars = captured._scalar_words()
            engine._executor.run(plan, captured._inputs(), outputs, scalars)
            engine.wait()
            said = list(messages)
            messages.clear()
            return said

        barriers = sum(isinstance(step, Barrier) for step in plan.steps)
        lesser = [without(plan, number) for number in range(barriers)]
        found = {
            "barriers": barriers,
            "replays": replays,
            "whole": [checker_says(plan), layer_says(plan)],
            "without": [[checker_says(less), layer_says(less)] for less in lesser],
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
