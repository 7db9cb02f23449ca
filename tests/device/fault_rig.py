"""Work that asks a device for everything, for tests in which something is refused."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np

import oa
from oa import matrix as m

SIDE = 192


class Scene:
    """Work that asks for memory in every way; `step` says how far it came."""

    def __init__(self, engine: Any, folder: Path) -> None:
        self.engine, self.step = engine, ""
        x = m.from_numpy(engine, np.ones((SIDE, SIDE), np.float32))
        self.saved = engine.capture(lambda: m.matmul(x, x) + x).save(folder / "plan.oap", values=True)

    def run(self) -> list[bytes]:
        """All of it; the results' bits."""
        engine = self.engine
        rng = np.random.default_rng(3)
        data = rng.normal(size=(SIDE, SIDE)).astype(np.float32) / 16
        self.step = "upload"
        x, w = m.from_numpy(engine, data), m.from_numpy(engine, data[::-1].copy())
        self.step = "eager"
        y = m.exp(x) * 2.0 + w
        engine.flush()
        self.step = "scratch"
        total = m.sum(m.matmul(m.matmul(m.matmul(x, w), w), w))
        engine.flush()
        self.step = "cell"
        cell = oa.State(engine, w)
        cell.assign(cell.value * 0.5)
        engine.flush()
        self.step = "capture"

        def advance() -> Any:
            cell.assign(m.tanh(m.matmul(cell.value, x)))
            return m.softmax(cell.value + y, axis=1)

        plan = engine.capture(advance)
        self.step = "submit"
        engine.submit(plan)
        self.step = "bind"
        plan.bind(x, x * 0.25)
        self.step = "submit again"
        engine.submit(plan)
        self.step = "load"
        loaded = engine.load_plan(self.saved)
        self.step = "submit loaded"
        engine.submit(loaded)
        self.step = "download"
        found = [v.to_numpy().tobytes() for v in (y, total, cell.value, plan.outputs, loaded.outputs)]
        self.step = "done"
        return found


def settled(engine: Any) -> int:
    """Bytes in use once all that is kept for reuse is given back."""
    gc.collect()
    engine.trim()
    return int(engine.memory.allocated)
