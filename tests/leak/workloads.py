"""What the leak tests repeat, each in a process of its own: `python workloads.py NAME PROFILE ADDRESSING DEVICE FIRST LAST`.

Prints, as JSON, what was there after iteration FIRST and after iteration LAST: live Vulkan objects, resident memory, device
memory, Python objects, entries of the tables that the package keeps.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import oa
from oa import matrix as m
from oa import ml, programs
from oa._kernel.emit import nest_compile
from oa._lower import alike
from oa._run import pipelines
from oa._schema import registry, scalar, spec
from oa._vk import counts

SMALL_TABLES = "new shapes in small tables"

Step = Callable[[], object]


class Model(ml.Module):
    """Two layers with dropout between, so that the random stream takes part."""

    def __init__(self, engine: oa.Engine) -> None:
        self.first = ml.Linear(engine, 4, 8)
        self.dropout = ml.Dropout(0.25)
        self.second = ml.Linear(engine, 8, 3)

    def forward(self, x: Any) -> Any:
        return self.second(self.dropout(m.tanh(self.first(x))))


def eager(engine: oa.Engine) -> Step:
    """A loop of operations with an upload, a reduction, a flush, and now and then a reading."""
    x, rows, seen = m.from_numpy(engine, np.ones((8, 8), np.float32)), np.ones((8, 8), np.float32), [0]

    def step() -> None:
        y = m.softmax(x * 0.5 + m.from_numpy(engine, rows))
        total = m.sum(m.matmul(y, x))
        engine.flush()
        seen[0] += 1
        if seen[0] % 16 == 0:
            total.item()

    return step


def train(engine: oa.Engine) -> Step:
    """A training step: forward, backward, update, all recorded anew."""
    model = Model(engine)
    optimizer = ml.AdamW(model.parameters(), ml.warmup_cosine(1e-2, steps=100, warmup=5), max_norm=1.0)
    targets = m.from_numpy(engine, np.array([0, 1, 2, 1], np.int32))

    def step() -> Any:
        inputs = m.uniform(engine, (4, 4))
        with ml.GradientTape() as tape:
            loss = ml.cross_entropy(model(inputs), targets)
        optimizer.step(tape.gradient(loss, optimizer.parameters))
        return loss

    return step


def replay(engine: oa.Engine) -> Step:
    """A captured training step with State cells and random draws, with a State cell that outlives it."""
    plan, best = engine.capture(train(engine)), oa.State(engine, m.zeros(engine, ()))

    def step() -> None:
        engine.submit(plan)
        best.assign(plan.outputs)

    return step


def drop(engine: oa.Engine) -> Step:
    """A plan captured, submitted, bound, submitted again and dropped."""
    x, y = (m.from_numpy(engine, np.full((8, 8), v, np.float32)) for v in (1.0, 2.0))
    cell = oa.State(engine, m.zeros(engine, (8, 8)))

    def step() -> None:
        def function() -> Any:
            cell.assign(cell.value * 0.5 + m.matmul(x, x))
            return m.softmax(cell.value)

        plan = engine.capture(function)
        engine.submit(plan)
        plan.bind(x, y)
        engine.submit(plan)

    return step


def new_shapes(engine: oa.Engine) -> Step:
    """Shapes never seen before, each with a plan; now and then one of 24 kernels, more than small tables hold."""
    number = [0]
    programs.CAPACITY, pipelines.SPARE, nest_compile._KERNELS.capacity = 16, 8, 16
    alike.known(engine._programs.profile).capacity = 16
    for operation in registry.operations().values():
        operation.cache.capacity = 32

    def step() -> None:
        number[0] += 1
        n = number[0]
        x = m.from_numpy(engine, np.ones((n,), np.float32))
        y = m.softmax(m.reshape(x, (1, n)))
        if n % 4 == 0:
            for bit in range(5):
                y = -y if n // 4 % 24 >> bit & 1 else y * y
        m.sum(y[:, n // 2 :]).item()

    return step


WORKLOADS: dict[str, Callable[[oa.Engine], Step]] = {
    "eager": eager,
    "train": train,
    "replay": replay,
    "drop": drop,
    SMALL_TABLES: new_shapes,
}


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def observe(engine: oa.Engine) -> dict[str, Any]:
    """What is there now, after what is kept for reuse was given back: how much of that there is depends on timing."""
    engine.trim()
    gc.collect()
    tables = {
        "scalars": len(scalar._INTERNED),
        "specs": len(spec._SPECS),
        "kernels": len(nest_compile._KERNELS),
        "programs": engine.diagnostics["programs"],
    }
    return {
        "vulkan": counts(),
        "resident": resident(),
        "allocated": engine.memory.allocated,
        "reserved": engine.memory.reserved,
        "objects": len(gc.get_objects()),
        "tables": tables,
    }


def main(name: str, profile: str, addressing: str, device: str, first: int, last: int) -> None:
    """Run a workload and print both observations."""
    with oa.Engine(device=device, profile=profile, addressing=addressing or None) as engine:
        step, found = WORKLOADS[name](engine), []
        for number in range(1, last + 1):
            step()
            if number in (first, last):
                found.append(observe(engine))
    left = counts()
    print(json.dumps({"first": found[0], "last": found[-1], "closed": left}))


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6]))
