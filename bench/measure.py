"""Timing: warm, on random data, candidates taking turns in one run, medians with their spread."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Spread:
    """What repeated measurements of one thing gave, in the unit of its row."""

    median: float
    low: float  #: tenth percentile
    high: float  #: ninetieth percentile
    least: float
    greatest: float
    count: int

    def json(self) -> dict[str, float]:
        """As plain data."""
        return asdict(self)


def spread(values: Sequence[float]) -> Spread:
    """Median and the range of the middle eighty percent."""
    ordered = sorted(values)
    last = len(ordered) - 1
    low, high = ordered[round(0.1 * last)], ordered[round(0.9 * last)]
    return Spread(statistics.median(ordered), low, high, ordered[0], ordered[-1], len(ordered))


def installed() -> dict[str, str]:
    """The environment of a process that finds its modules compiled, as installed ones are, whatever this process was told."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def host_seconds(call: Callable[[], object]) -> float:
    """Wall-clock seconds of one call, garbage collection kept out."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    finally:
        if enabled:
            gc.enable()


def host_us(call: Callable[[], object], number: int) -> Callable[[], float]:
    """A measurement: microseconds of `call` in the mean of `number` calls in a row."""

    def loop() -> None:
        for _ in range(number):
            call()

    return lambda: host_seconds(loop) / number * 1e6


def interleave(
    candidates: Mapping[str, Callable[[], float]], rounds: int, warm: int = 2
) -> dict[str, Spread]:
    """Each measurement `rounds` times, candidates taking turns so that the machine's moods meet all alike."""
    for _ in range(warm):
        for measure in candidates.values():
            measure()
    values: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, measure in candidates.items():
            values[name].append(measure())
    return {name: spread(found) for name, found in values.items()}
