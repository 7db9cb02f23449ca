"""`oa tune`: measure the choices of a standard list of problems, or of those named, and keep them for this device."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from oa._kernel.matmul.problem import Problem
from oa._run.tune import Record
from oa._schema.dtype import float32
from oa._schema.spec import spec
from oa.engine import Engine
from oa.errors import ArgumentError, Unsupported
from oa.tunable import Decision, chunks, product, rows

#: Sizes m, n, k of products: square ones, a model's layers, heads of attention in a batch, a vector, long sums.
_SQUARES = (64, 256, 512, 1024, 2048, 4096)
_LAYERS = ((8192, 768, 768), (8192, 3072, 768), (8192, 768, 3072), (1024, 128, 384), (512, 4096, 4096))
_BATCHED = ((64, 128, 128, 64), (64, 128, 64, 128), (12, 1024, 64, 1024), (256, 64, 64, 64))
_SPLIT = ((64, 64, 16384), (16, 128, 65536), (256, 256, 32768), (1, 4096, 4096), (4096, 1, 4096))
#: Rows and their lengths of row kernels and reductions, and long sums over few rows and over columns.
_ROWS = ((8192, 4096), (32768, 1024), (8192, 768), (1024, 128), (4096, 50257), (64, 64))
_LONG = (((1, 1 << 24), (1,)), ((8, 1 << 20), (1,)), ((65536, 256), (0,)), ((1 << 20, 16), (0,)))
#: Elements of one operand up to which a software device gets a problem, and multiplications and additions.
_CPU_ELEMENTS, _CPU_WORK = 1 << 22, 1 << 27


@dataclass(frozen=True)
class Case:
    """A problem as the command line names it."""

    name: str
    elements: int  #: of the largest operand
    work: int
    decide: Callable[[Any], Decision | None]


def dense(m: int, n: int, k: int, layout: str, batch: int = 1) -> Problem:
    """A product of dense operands; `layout` says for A and B whether they lie n(ormally) or t(ransposed)."""
    a = (k, 1) if layout[0] == "n" else (1, m)
    b = (n, 1) if layout[1] == "n" else (1, k)
    step = 1 if batch > 1 else 0
    return Problem(
        m, n, k, (1, batch),
        (*a, 0, step * m * k), (*b, 0, step * k * n), (n, 0, step * m * n),
    )  # fmt: skip


def _product(m: int, n: int, k: int, layout: str, batch: int = 1) -> Case:
    name = f"matmul:{f'{batch}x' if batch > 1 else ''}{m}x{n}x{k}:{layout}"
    largest = batch * max(m * k, k * n, m * n)
    return Case(
        name, largest, batch * m * n * k, lambda p: product(dense(m, n, k, layout, batch), float32, p)
    )


def _rows(count: int, length: int) -> Case:
    return Case(
        f"rows:{count}x{length}", count * length, 0, lambda p: rows((count, length), (1,), float32, p)
    )


def _sum(shape: tuple[int, ...], axes: tuple[int, ...]) -> Case:
    name = f"sum:{'x'.join(map(str, shape))}:{','.join(map(str, axes))}"
    return Case(name, math.prod(shape), 0, lambda p: chunks("sum", spec(float32, shape), axes, p))


def standard() -> list[Case]:
    """The problems that are tuned when none are named."""
    layouts = ("nn", "nt", "tn", "tt")
    return [
        *(_product(n, n, n, layout) for n in _SQUARES for layout in layouts),
        *(_product(*sizes, layout) for sizes in _LAYERS for layout in layouts[:3]),
        *(_product(m, n, k, layout, batch) for batch, m, n, k in _BATCHED for layout in layouts[:3]),
        *(_product(*sizes, "nn") for sizes in _SPLIT),
        *(_rows(*sizes) for sizes in _ROWS),
        *(_sum(*case) for case in _LONG),
    ]


def named(text: str) -> Case:
    """A problem by its name: matmul:MxNxK[:nn|nt|tn|tt], matmul:BATCHxMxNxK[:..], rows:COUNTxLENGTH, sum:SHAPE:AXES."""
    kind, _, rest = text.partition(":")
    sizes, _, more = rest.partition(":")
    with contextlib.suppress(ValueError):
        numbers = tuple(int(s) for s in sizes.split("x"))
        if min(numbers) > 0:
            if kind == "matmul" and len(numbers) in (3, 4) and (more or "nn") in ("nn", "nt", "tn", "tt"):
                *batch, m, n, k = numbers
                return _product(m, n, k, more or "nn", *batch)
            if kind == "rows" and len(numbers) == 2 and not more:
                return _rows(*numbers)
            axes = tuple(int(a) for a in more.split(",")) if more else ()
            if (
                kind == "sum"
                and axes
                and len(set(axes)) == len(axes)
                and 0 <= min(axes) <= max(axes) < len(numbers)
            ):
                return _sum(numbers, axes)
    raise ArgumentError(
        f"oa tune: {text!r} is no problem; wanted matmul:MxNxK:nt (nn, nt, tn or tt; BATCHxMxNxK for a batch), rows:COUNTxLENGTH"
        " or sum:SHAPE:AXES, such as matmul:512x512x512:nt, rows:8192x4096, sum:8x1000000:1"
    )


def selected(engine: Engine, problems: list[str]) -> list[Case]:
    """The problems named, or the standard ones that the device is not too small or too slow for."""
    if problems:
        return [named(text) for text in problems]
    profile = engine._programs.profile
    found = [c for c in standard() if 4 * c.elements <= profile.limits.max_storage_range]
    if profile.tuning == "cpu":
        found = [c for c in found if c.elements <= _CPU_ELEMENTS and c.work <= _CPU_WORK]
    return found


@contextlib.contextmanager
def _bar(total: int) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on a terminal that `rich` draws, where it is installed; else nothing."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("tuning", total=total)

        def show(name: str, done: int, _: int) -> None:
            progress.update(task, description=name[:60], completed=done)

        yield show


def tune(engine: Engine, problems: list[str]) -> list[tuple[str, Record]]:
    """Measure, keep, and return (name, record) of every problem in which there is something to choose."""
    if engine.numeric == "deterministic":
        raise Unsupported(
            'oa tune: an engine with numeric="deterministic" uses no measured choice; unset OA_NUMERIC'
        )
    cases = selected(engine, problems)
    found: list[tuple[str, Record]] = []
    profile, tuning = engine._programs.profile, engine._tuning
    with _bar(len(cases)) as show:
        for number, case in enumerate(cases):
            decision = case.decide(profile)
            if decision is None or len(decision.candidates) < 2:
                continue
            name = case.name
            record = tuning.tune(decision, profile, lambda c, *_: show(f"{name}  {c}", number, 0))  # noqa: B023
            if record is not None:
                found.append((name, record))
                tuning.file.save(tuning.records)
    engine._programs.adopt(tuning.tuned)
    return found


def as_dict(engine: Engine, found: list[tuple[str, Record]]) -> dict[str, Any]:
    """What was measured, losers included, as plain data."""
    return {
        "device": engine.device.snapshot.name,
        "file": None if engine._tuning.file.path is None else str(engine._tuning.file.path),
        "problems": [
            {
                "name": name, "key": r.key, "choice": r.choice, "gain": r.gain,
                "trials": [{"choice": t.choice, "ns": t.ns, "why": t.why} for t in r.trials],
            }
            for name, r in found
        ],
    }  # fmt: skip


def table(engine: Engine, found: list[tuple[str, Record]]) -> str:
    """What was measured as a table, and why candidates were rejected."""
    rows = [("problem", "fastest", "us", "of the model's", "tried")]
    rejected: dict[str, int] = {}
    for name, record in found:
        ns = next(t.ns or 0.0 for t in record.trials if t.choice == record.choice)
        first = record.trials[0].choice == record.choice
        part = "the model's" if first else f"{1 / record.gain:.2f}"
        rows.append(
            (name, record.choice.removeprefix("matmul."), f"{ns / 1e3:.1f}", part, str(len(record.trials)))
        )
        for trial in record.trials:
            if trial.ns is None:
                line = f"rejected for {name}: {trial.choice}: {trial.why}"
                rejected[line] = rejected.get(line, 0) + 1
    wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(c.rjust(w) if k in (2, 4) else c.ljust(w) for k, (c, w) in enumerate(zip(row, wide)))
        for row in rows
    ]
    lines += list(rejected)
    path = engine._tuning.file.path
    lines.append(
        f"{len(found)} choices kept in {path}" if path else "nothing was kept: there is no cache folder"
    )
    return "\n".join(line.rstrip() for line in lines)
