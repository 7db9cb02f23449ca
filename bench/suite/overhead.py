"""Host time of an eager operation, a replayed dispatch, a submission and a lowering, with and without LP_NUM_THREADS=0."""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import Spread, host_seconds, host_us, installed, interleave, spread
from bench.report import Report, Row
from tools.project import ROOT

#: Operations in one batch of the eager rows, dispatches in the plan of the replay rows, nodes of the graph that is lowered.
BATCH, DISPATCHES, NODES = 100, 100, 1000


def imports(rounds: int) -> list[Row]:
    """Importing in a fresh process, beyond what NumPy takes by itself."""
    rows = []
    for name, code in (
        ("import oa", "import oa"),
        ("import oa, and all that an engine needs", "import oa; oa.Engine; oa.matrix"),
    ):
        timed = f"import numpy, time; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
        command = [sys.executable, "-c", timed]
        seconds = [
            float(
                subprocess.run(
                    command, cwd=ROOT, env=installed(), capture_output=True, text=True, check=True
                ).stdout
            )
            for _ in range(rounds + 1)
        ]
        rows.append(
            Row(f"{name}, beyond NumPy", "ms", {"oa": spread([1e3 * value for value in seconds[1:]])})
        )
    return rows


def run(options: argparse.Namespace) -> list[Report]:
    """Measure in two child processes, since a driver reads LP_NUM_THREADS once."""
    reports: list[Report] = []
    for threads in (None, "0"):
        environment = {name: value for name, value in os.environ.items() if name != "LP_NUM_THREADS"}
        if threads is not None:
            environment["LP_NUM_THREADS"] = threads
        command = [sys.executable, "-m", "bench.suite.overhead", options.device, str(int(options.quick))]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        report = Report("overhead", found["device"])
        suffix = " (LP_NUM_THREADS=0)" if threads == "0" else " (driver's threads)"
        if not found["software"]:
            suffix = ""
        for row in found["rows"]:
            values = {name: Spread(**value) for name, value in row["values"].items()}
            report.add(
                Row(row["name"] + suffix, row["unit"], values, error=row["error"], error_of=row["error_of"])
            )
        reports.append(report)
        if threads is None:
            for row in imports(5 if options.quick else 15):
                report.add(row)
        if not found["software"]:
            break  # the variable means nothing to other drivers
    return reports


def child(device: str, quick: bool) -> None:
    """All rows in this process; the last line of the output holds them as JSON."""
    import oa
    from bench.device import describe

    rounds = 5 if quick else 25
    with oa.Engine(device=device) as engine:
        rows = [
            eager(engine, rounds),
            record_only(engine, rounds),
            eager_step(engine, rounds),
            eager_read(engine, rounds),
            replay(engine, rounds),
            *submit(engine, rounds),
            *lowering(engine, max(3, rounds // 3)),
            *sizes(engine, max(3, rounds // 3)),
        ]
        result = {
            "device": describe(engine),
            "software": engine.device.profile.software,
            "rows": [row.json() for row in rows],
        }
    print(json.dumps(result))


def operands() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two random arrays of the size at which only overhead is left."""
    rng = np.random.default_rng(7)
    return rng.random((2, 3), np.float32), rng.random((2, 3), np.float32) * 1e-3


def peers(number: int) -> dict[str, Callable[[], float]]:
    """The same addition in NumPy and, where installed, PyTorch on the CPU."""
    a, b = operands()
    found = {"numpy": host_us(lambda: np.add(a, b), number)}
    try:
        import torch
    except ImportError:
        return found
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    found["torch cpu"] = host_us(lambda: torch.add(ta, tb), number)
    return found


def eager(engine: Any, rounds: int) -> Row:
    """Recording, looking up and submitting a batch that was seen before, for each operation in it."""
    from oa import matrix

    a, b = operands()
    x, y = matrix.from_numpy(engine, a), matrix.from_numpy(engine, b)
    last = x

    def batch() -> None:
        nonlocal last
        z = x
        for _ in range(BATCH):
            z = matrix.add(z, y)
        last = z
        engine.flush()

    once = host_us(batch, 10)

    def measure() -> float:
        engine.wait()
        return once() / BATCH

    values = interleave({"oa": measure, **peers(BATCH * 10)}, rounds)
    error, of = _error(last.to_numpy(), a.astype(np.float64) + BATCH * b.astype(np.float64))
    return Row("eager add 2x3, cached batch", "us", values, error=error, error_of=of)


def record_only(engine: Any, rounds: int) -> Row:
    """The part of the row above that is spent in the call itself."""
    from oa import matrix

    a, b = operands()
    x, y = matrix.from_numpy(engine, a), matrix.from_numpy(engine, b)
    call = host_us(lambda: matrix.add(x, y), BATCH * 10)

    def measure() -> float:
        engine.wait()
        return call()

    return Row("eager add 2x3, recording alone", "us", interleave({"oa": measure}, rounds))


def eager_step(engine: Any, rounds: int) -> Row:
    """A training step of a small Transformer block, forward, gradients, AdamW and flush, for each operation that it records."""
    from oa import matrix, ml

    block = ml.TransformerBlock(engine, 16, 2)
    optimizer = ml.AdamW(block.parameters(), lr=1e-3)
    x = matrix.uniform(engine, (1, 8, 16), seed=5)
    flush, recorded = engine.flush, 0

    def counted() -> None:
        nonlocal recorded
        recorded = len(engine._batch.nodes)
        flush()

    def step() -> None:
        with ml.GradientTape() as tape:
            loss = matrix.mean(matrix.square(block(x)))
        optimizer.step(tape.gradient(loss, optimizer.parameters))

    step()  # makes the optimiser's state
    engine.flush = counted
    step()
    del engine.flush
    once = host_us(step, 3)

    def measure() -> float:
        engine.wait()
        return once() / recorded

    name = f"eager training step of a Transformer block, each of its {recorded} operations"
    return Row(name, "us", interleave({"oa": measure}, rounds))


def eager_read(engine: Any, rounds: int) -> Row:
    """One operation whose result is read at once: nothing to amortise over."""
    from oa import matrix

    a, b = operands()
    x, y = matrix.from_numpy(engine, a), matrix.from_numpy(engine, b)
    call = host_us(lambda: matrix.add(x, y).to_numpy(), 50)
    error, of = _error(matrix.add(x, y).to_numpy(), a.astype(np.float64) + b)
    return Row(
        "eager add 2x3, read at once", "us", interleave({"oa": call}, rounds), error=error, error_of=of
    )


def replay(engine: Any, rounds: int) -> Row:
    """A captured chain of products that cannot be fused, submitted and waited for, for each dispatch in it."""
    from oa import matrix

    rng = np.random.default_rng(11)
    a = rng.random((4, 4), np.float32)
    b = np.linalg.qr(rng.normal(size=(4, 4)))[0].astype(np.float32)
    x, y = matrix.from_numpy(engine, a), matrix.from_numpy(engine, b)

    def chain() -> Any:
        z = x
        for _ in range(DISPATCHES):
            z = matrix.matmul(z, y)
        return z

    plan = engine.capture(chain)
    dispatches = plan.diagnostics["dispatches"]
    whole = host_us(lambda: engine.submit(plan).wait(), 10)
    values = interleave({"oa": lambda: whole() / dispatches}, rounds)
    exact = a.astype(np.float64) @ np.linalg.matrix_power(b.astype(np.float64), DISPATCHES)
    error, of = _error(plan.outputs.to_numpy(), exact)
    return Row("replay of a captured plan, each of its dispatches", "us", values, error=error, error_of=of)


def submit(engine: Any, rounds: int) -> list[Row]:
    """Plans of one dispatch and of 1,000: the call that submits each, and until the small one is done."""
    from oa import matrix

    a, _ = operands()
    x, y = matrix.from_numpy(engine, a), matrix.full(engine, (4, 4), 0.25)

    def products() -> Any:
        z = y
        for _ in range(1000):
            z = matrix.matmul(z, y)
        return z

    plan, long = engine.capture(lambda: matrix.exp(x)), engine.capture(products)
    rows = []
    for what, captured, count in (
        ("one dispatch", plan, 20 * rounds),
        ("1,000 dispatches", long, 4 * rounds),
    ):
        wall, own = calls(engine, captured, count)
        rows.append(Row(f"submit of a captured plan of {what}, the call alone", "us", {"oa": wall}))
        rows.append(
            Row(f"submit of a captured plan of {what}, its thread's processor time", "us", {"oa": own})
        )
    both = interleave({"oa": host_us(lambda: engine.submit(plan).wait(), 20)}, rounds)
    error, of = _error(plan.outputs.to_numpy(), np.exp(a.astype(np.float64)))
    return [*rows, Row("replay of a captured plan, one dispatch", "us", both, error=error, error_of=of)]


def calls(engine: Any, plan: Any, count: int) -> tuple[Spread, Spread]:
    """Microseconds of `engine.submit(plan)` in a loop that waits for each run: by the clock, and what the thread itself ran.

    They differ where the driver's own thread takes the processor from the caller that woke it, as lavapipe's does.
    """
    wall, own = [], []
    gc.collect()
    gc.disable()
    try:
        for _ in range(count + count // 4):
            engine.wait()
            ran, start = time.thread_time(), time.perf_counter()
            engine.submit(plan)
            wall.append((time.perf_counter() - start) * 1e6)
            own.append((time.thread_time() - ran) * 1e6)
    finally:
        gc.enable()
    return spread(wall[count // 4 :]), spread(own[count // 4 :])


def lowering(engine: Any, rounds: int) -> list[Row]:
    """A graph of 1,000 nodes that was never seen, its kernels known; and the same graph again."""
    from oa import matrix

    def graph(rows: int) -> Any:
        x = matrix.full(engine, (rows, 8), 0.5)
        w = matrix.full(engine, (8, 8), 0.125)
        nodes = 2
        while nodes < NODES:
            x = matrix.tanh(matrix.add(matrix.matmul(x, w), x))
            x = x - matrix.mean(x, axis=-1, keepdims=True)
            nodes += 5
        return x

    def flush_ms(rows: int) -> float:
        result = graph(rows)
        seconds = host_seconds(engine.flush)
        engine.wait()
        del result
        return seconds * 1e3

    flush_ms(17)  # makes the kernels
    new, again = [], []
    for number in range(rounds):
        new.append(flush_ms(18 + number))
        again.append(flush_ms(18 + number))
    return [
        Row("flush of a new graph of 1,000 nodes, kernels known", "ms", {"oa": spread(new)}),
        Row("flush of the same graph again", "ms", {"oa": spread(again)}),
    ]


def sizes(engine: Any, rounds: int) -> list[Row]:
    """A Transformer block over batches of sizes that its family has not seen, and of one that it has."""
    from oa import matrix, ml

    block = ml.TransformerBlock(engine, 32, 4)
    family = engine.family(lambda x: matrix.mean(matrix.square(block(x))))

    def call_ms(batch: int) -> float:
        x = matrix.uniform(engine, (batch, 16, 32), seed=1)
        engine.wait()
        seconds = host_seconds(lambda: family(x))
        engine.wait()
        return seconds * 1e3

    call_ms(8)  # makes the kernels
    made = engine.diagnostics["pipelines"]
    new = [call_ms(9 + number) for number in range(rounds)]
    made = engine.diagnostics["pipelines"] - made
    again = [call_ms(8) * 1e3 for _ in range(rounds)]
    nodes = len(family.plans[-1]._graph.nodes)
    return [
        Row(
            f"first run of a family of {nodes} operations at a new size, {made} pipelines made",
            "ms",
            {"oa": spread(new)},
        ),
        Row("call of that family at a known size", "us", {"oa": spread(again)}),
    ]


def _error(ours: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> tuple[float, str]:
    return float(np.linalg.norm(ours - exact) / np.linalg.norm(exact)), "against float64"


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2] == "1")
