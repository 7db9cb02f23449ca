"""Plans' arenas beside their lower bounds, the engine's memory after 10,000 iterations, the peak of the demo's training step."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import spread
from bench.report import Report, Row

#: Iterations of each loop, and before the first look.
ITERATIONS, WARM = 10_000, 500


def run(options: argparse.Namespace) -> list[Report]:
    """All rows in this process, with an engine for each loop."""
    import oa
    from bench.device import describe

    with oa.Engine(device=options.device) as engine:
        report = Report("memory", describe(engine))
        for row in arenas(engine.device.profile, options.quick):
            report.add(row)
    for name, start in LOOPS.items():
        with oa.Engine(device=options.device) as engine:
            for row in growth(engine, name, start, options.quick):
                report.add(row)
    with oa.Engine(device=options.device) as engine:
        report.add(step_peak(engine, options.quick))
    return [report]


# -- arenas


def arenas(profile: Any, quick: bool) -> list[Row]:
    """Every graph of plan replay, lowered for the device: bytes of the arena over the most that is alive at one level."""
    from oa._inspect.flow import flow, lifetimes, live_bytes
    from oa._lower.passes import lower
    from tools.replay import Engine, corpus

    ratios: list[float] = []
    largest = (0, 0, 0, "")
    for number, (name, build) in enumerate(corpus()):
        if quick and number % 10 and name != "demo step":
            continue
        recorder = Engine()
        kept = build(recorder)
        plan = lower(recorder.graph(), profile).plan
        del kept
        found = flow(plan)
        lives = lifetimes(found)
        least = max(live_bytes(lives, found.depth), default=0)
        if not least:
            continue
        ratios.append(plan.scratch_bytes / least)
        largest = max(largest, (plan.scratch_bytes, least, sum(life.size for life in lives), name))
    arena, least, apart, name = largest
    mebibytes = {
        "oa": spread([arena / 2**20]),
        "lower bound": spread([least / 2**20]),
        "nothing shared": spread([apart / 2**20]),
    }
    return [
        Row(f"arena over its lower bound, {len(ratios)} plans", "ratio", {"oa": spread(ratios)}),
        Row(f"largest arena: {name}", "MiB", mebibytes),
    ]


# -- loops


def eager(engine: Any) -> Callable[[], object]:
    """Operations with an upload and a reading."""
    from oa import matrix as m

    x, rows = m.from_numpy(engine, np.ones((64, 64), np.float32)), np.ones((64, 64), np.float32)
    return lambda: m.sum(m.softmax(x * 0.5 + m.from_numpy(engine, rows))).item()


def shapes(engine: Any) -> Callable[[], object]:
    """Batches of sizes that come again and again, in no order."""
    from oa import matrix as m

    sizes = np.random.default_rng(1).integers(1, 200, ITERATIONS + WARM).tolist()
    return lambda: m.sum(m.exp(m.ones(engine, (sizes.pop(), 16)) * 0.5)).item()


def training(engine: Any) -> Callable[[], object]:
    """A captured training step of a small model."""
    from oa import matrix as m
    from oa import ml

    model = ml.Linear(engine, 32, 10)
    optimizer = ml.AdamW(model.parameters(), 1e-3)
    x = m.uniform(engine, (64, 32))
    y = m.zeros(engine, (64,), dtype="int32")

    def step() -> Any:
        with ml.GradientTape() as tape:
            loss = ml.cross_entropy(model(x), y)
        optimizer.step(tape.gradient(loss, optimizer.parameters))
        return loss

    plan = engine.capture(step)
    return lambda: engine.submit(plan)


LOOPS: dict[str, Callable[[Any], Callable[[], object]]] = {
    "eager loop": eager,
    "changing shapes": shapes,
    "captured training": training,
}


def growth(engine: Any, name: str, start: Callable[[Any], Callable[[], object]], quick: bool) -> list[Row]:
    """What a loop adds between its first iterations and its last: device memory reserved, and the process's own."""
    step, iterations, warm = start(engine), ITERATIONS, WARM
    if quick:
        iterations, warm = 200, 50
    for _ in range(warm):
        step()
    first = observe(engine)
    for _ in range(iterations):
        step()
    last = observe(engine)
    what = ("device memory", "resident memory")
    return [
        Row(f"{name}, growth of {w} in {iterations:,} iterations", "KiB", {"oa": spread([(b - a) / 1024])})
        for w, a, b in zip(what, first, last)
    ]


def observe(engine: Any) -> tuple[int, int]:
    """Bytes reserved on the device and resident in the process."""
    engine.wait()
    gc.collect()
    return engine.memory.reserved, resident()


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- the demo


def step_peak(engine: Any, quick: bool) -> Row:
    """Most device memory in use during captured steps of the demo, values and arena together, beside PyTorch's on a GPU."""
    from tutorials.char_transformer import Corpus, Recipe, Trainer

    recipe, corpus = Recipe(steps=4000), Corpus()
    trainer = Trainer(engine, recipe, corpus)
    initial = {name: value.value.to_numpy() for name, value in trainer.model.named_parameters().items()}
    plan = engine.capture(trainer.step)
    for _ in range(2 if quick else 10):
        engine.submit(plan)
    engine.wait()
    values = {"oa": spread([engine.memory.peak / 2**20])}
    theirs = _torch_peak(recipe, corpus, initial)
    if theirs is not None:
        values["torch"] = spread([theirs / 2**20])
    return Row("peak device memory of the demo's training step", "MiB", values)


def _torch_peak(recipe: Any, corpus: Any, initial: dict[str, Any]) -> int | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    from bench.peers.torch_language_model import Training
    from tests.oracle.twin import Recipe as TwinRecipe

    shape = TwinRecipe(
        len(corpus.symbols), recipe.context, recipe.width, recipe.heads, recipe.layers,
        steps=recipe.steps, peak=recipe.peak, warmup=recipe.warmup,
    )  # fmt: skip
    torch.cuda.reset_peak_memory_stats()
    run = Training(shape, initial, "cuda", False)
    text = torch.from_numpy(corpus.train[: recipe.batch * (recipe.context + 1)].astype(np.int64)).cuda()
    window = text.reshape(recipe.batch, recipe.context + 1)
    for _ in range(3):
        run.step(window[:, :-1], window[:, 1:])
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated())
