"""The demo's training step, replayed and eager, beside PyTorch: its CUDA graph and torch.compile, or two threads of a CPU."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import Spread, interleave
from bench.report import Report, Row

#: The threads that PyTorch gets on a CPU: those of the machine that the aim names.
CPU_THREADS = 2


def run(options: argparse.Namespace) -> list[Report]:
    """One row: milliseconds a step, all candidates from the same initial values and batches."""
    import oa
    from bench.device import describe

    with oa.Engine(device=options.device) as engine:
        report = Report("step", describe(engine))
        peer = _peer(engine)
        if peer is None:
            report.notes.append("no PyTorch for this kind of device: no peer was measured")
        report.add(training(engine, peer, 3 if options.quick else 15, quick=options.quick))
    return [report]


def _peer(engine: Any) -> str | None:
    """PyTorch's device of the kind of the engine's, or None."""
    try:
        import torch
    except ImportError:
        return None
    if engine.device.profile.software:
        torch.set_num_threads(min(CPU_THREADS, os.cpu_count() or 1))
        return "cpu"
    return "cuda" if torch.cuda.is_available() else None


def training(engine: Any, peer: str | None, rounds: int, quick: bool) -> Row:
    """Forward, backward, clipping, schedule, AdamW, and the choice of the batch on the device."""
    from tutorials.char_transformer import Corpus, Recipe, Trainer, batch_starts

    recipe, corpus = Recipe(steps=4000), Corpus()
    starts = batch_starts(recipe, len(corpus.train))
    steps, compared = (2, 3) if quick or peer == "cpu" else (20, 10)
    ours = Trainer(engine, recipe, corpus)
    initial = {name: value.value.to_numpy() for name, value in ours.model.named_parameters().items()}
    plan = engine.capture(ours.step)
    losses = []
    for _ in range(compared):
        engine.submit(plan)
        losses.append(plan.outputs.item())

    candidates: dict[str, Callable[[], float]] = {
        "oa": lambda: wall_ms(lambda: engine.submit(plan), engine.wait, steps),
        "oa eager": lambda: wall_ms(ours.step, engine.wait, steps),
    }
    error, of = None, "losses of the first steps: PyTorch absent"
    if peer is not None:
        reference, more = _torch(peer, recipe, corpus, initial, starts, steps, compared)
        candidates |= more
        error = float(np.max(np.abs(np.subtract(losses, reference))))
        of = f"greatest difference of the first {compared} losses from PyTorch's"
    values: dict[str, Spread] = interleave(candidates, rounds)
    return Row("training step of the demo", "ms", values, error=error, error_of=of)


def wall_ms(call: Callable[[], object], wait: Callable[[], object], steps: int) -> float:
    """Milliseconds on the clock of one step, all its device work included."""
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        call()
    wait()
    return (time.perf_counter() - start) / steps * 1e3


def _torch(
    device: str, recipe: Any, corpus: Any, initial: dict[str, Any], starts: Any, steps: int, compared: int
) -> tuple[list[float], dict[str, Callable[[], float]]]:
    """PyTorch's first losses, and a measurement of each way to run its step."""
    import torch

    from bench.peers import torch_language_model as peer
    from tests.oracle.twin import Recipe as TwinRecipe

    shape = TwinRecipe(
        len(corpus.symbols), recipe.context, recipe.width, recipe.heads, recipe.layers,
        steps=recipe.steps, peak=recipe.peak, warmup=recipe.warmup,
    )  # fmt: skip
    text = torch.from_numpy(corpus.train.astype(np.int64)).to(device)
    table = torch.from_numpy(starts.astype(np.int64)).to(device)
    along = torch.arange(recipe.context + 1, device=device)

    def stepper(run: Any) -> Callable[[], torch.Tensor]:
        def step() -> torch.Tensor:
            window = text[table[run.steps % len(table)][:, None] + along]
            return run.step(window[:, :-1], window[:, 1:])

        return step

    ways = {"torch": stepper(peer.Training(shape, initial, device))}
    if device == "cuda":
        ways["torch fused AdamW"] = stepper(peer.Training(shape, initial, device, fused=True))
        ways["torch CUDA graph"] = stepper(peer.Graphed(shape, initial, device))
        ways["torch.compile reduce-overhead"] = stepper(peer.Compiled(shape, initial, device, fused=True))
    losses = [float(ways["torch"]()) for _ in range(compared)]
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    return losses, {
        name: (lambda step=step: wall_ms(step, wait, steps))  # type: ignore[misc]
        for name, step in ways.items()
    }
