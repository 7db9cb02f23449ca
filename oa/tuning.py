"""Tuning: the candidates of each choice are run alone on the device, the fastest that computes the same is kept.

Every candidate gets small whole numbers, whose sums and products are exact in any order: the results must then be equal to
the bit, although candidates may add in different orders and round differently on other data.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from oa import _device
from oa._device.tuned import Tuned
from oa._kernel.pack import default
from oa._lower.passes import Program
from oa._run.profiler import Profiler
from oa._run.tune import Record, Trial, TuningFile
from oa._schema.dtype import as_dtype
from oa._version import __version__
from oa.config import CONFIG
from oa.errors import DeviceLost, OaError
from oa.tunable import Decision, decisions, unfit, variant_of

if TYPE_CHECKING:
    from oa._graph.graph import Graph
    from oa._run.clock import Clock
    from oa._run.executor import Executor
    from oa._run.pool import Pool, Storage
    from oa._run.transfer import Transfer

#: Timed runs of a candidate after one that is not: at least, and while they have not taken so many seconds together.
_LEAST_RUNS, _MOST_RUNS, _ENOUGH = 3, 20, 0.1
#: Variants whose other ranges of k are tried too.
_FINALISTS = 2
#: One candidate is preferred to an earlier one, the cost model's being the first, only when it takes less than this part of its
#: time: what is within the noise changes no choice.
_MARGIN = 0.97

#: Called with the candidate and how many of how many were tried.
Progress = Callable[[str, int, int], None]


class Tuning:
    """The measured choices of one engine: loaded when it opens, added to when asked."""

    def __init__(
        self,
        device: Any,
        pool: Pool,
        transfer: Transfer,
        executor: Executor,
        clock: Clock,
        *,
        ignored: bool = False,
    ) -> None:
        self._device, self._pool, self._transfer = device, pool, transfer
        self._executor, self._clock = executor, clock
        profile: _device.Profile = device.profile
        self.file = TuningFile(CONFIG.cache_dir, identity(profile))
        self.records = {} if ignored else self.file.load()
        self.active = CONFIG.tune and not ignored  #: tune what a plan needs before it is first lowered
        if self.file.note and not CONFIG.quiet:
            sys.stderr.write(f"oa: {self.file.note}\n")

    @property
    def tuned(self) -> Tuned:
        """What the device profile is to know."""
        return Tuned({key: record.choice for key, record in self.records.items()})

    def tune_graph(self, graph: Graph, profile: _device.Profile) -> bool:
        """Measure what lowering the graph has to choose and no record says; whether there was anything."""
        found = [self.tune(decision, profile) for decision in decisions(graph, profile)]
        if any(found):
            self.file.save(self.records)
        return any(found)

    def tune(
        self, decision: Decision, profile: _device.Profile, progress: Progress | None = None
    ) -> Record | None:
        """Measure one choice, from scratch; None when nothing could be measured. The caller saves the file."""
        trials: dict[str, Trial] = {}
        answer: list[bytes] = []
        with _Trials(self, decision, profile) as bench:
            for number, stage in enumerate(decision.stages()):
                if number:
                    stage = _finalists(stage, trials.values())
                for candidate in stage:
                    if progress is not None:
                        progress(candidate, len(trials), len(decision.candidates))
                    trials[candidate] = bench.trial(candidate, answer)
        timed = [t for t in trials.values() if t.ns is not None]
        if not timed:
            return None
        best = timed[0]
        for trial in timed[1:]:
            assert trial.ns is not None and best.ns is not None
            if trial.ns < best.ns * (_MARGIN if best is timed[0] else 1.0):
                best = trial
        made = Record(decision.key, best.choice, tuple(trials.values()))
        self.records[decision.key] = made
        return made


def identity(profile: _device.Profile) -> dict[str, str]:
    """What measured choices belong to: device and driver, how kernels reach memory, and the kernels themselves."""
    texels = "-texels" if profile.texels else ""
    return {
        "device": profile.fingerprint,
        "addressing": profile.addressing + texels,
        "kernels": f"{default().digest(profile.addressing)[:16]}-{__version__}",
    }


def _finalists(stage: list[str], trials: Iterable[Trial]) -> list[str]:
    """Of the candidates, those of the variants that were fastest so far."""
    timed = sorted((t for t in trials if t.ns is not None), key=lambda t: t.ns or 0.0)
    best = {variant_of(t.choice) for t in timed[:_FINALISTS]}
    return [c for c in stage if variant_of(c) in best]


class _Trials:
    """Inputs and outputs of one decision's graph, on which its candidates run."""

    def __init__(self, tuning: Tuning, decision: Decision, profile: _device.Profile) -> None:
        self._tuning, self._decision, self._profile = tuning, decision, profile
        self._inputs: list[Storage] = []
        self._outputs: list[Storage] = []

    def __enter__(self) -> _Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._inputs.clear()
        self._outputs.clear()

    def trial(self, candidate: str, answer: list[bytes]) -> Trial:
        """Run a candidate, unless its kernels say that the device cannot; `answer` is what the first one computed."""
        try:
            program = self._decision.program(candidate, self._profile)
            if why := unfit(program, self._profile, candidate):
                return Trial(candidate, None, why)
            self._allocate(program)
            found = self._results(program)
            if not answer:
                answer.extend(found)
            elif found != answer:
                return Trial(candidate, None, "its results differ from those of the first")
            return Trial(candidate, self._time(program))
        except DeviceLost:
            raise
        except OaError as problem:
            return Trial(candidate, None, str(problem))

    def _allocate(self, program: Program) -> None:
        pool, transfer = self._tuning._pool, self._tuning._transfer
        if not self._inputs:
            rng, signs = np.random.default_rng(1), self._decision.key.startswith("reduce prod")
            for slot in program.plan.inputs:
                storage = pool.allocate(slot.size, host=True)
                transfer.upload(storage, _numbers(slot.dtype, slot.size, rng, signs).view(np.uint8))
                self._inputs.append(storage)
            self._outputs = [pool.allocate(slot.size) for slot in program.plan.outputs]

    def _results(self, program: Program) -> list[bytes]:
        for storage in self._outputs:
            self._tuning._transfer.fill(storage, 0, storage.size // 4 * 4, 0xFFFFFFFF)
        self._tuning._executor.run(program.plan, self._inputs, self._outputs)
        download = self._tuning._transfer.download
        found = []
        for storage, slot in zip(self._outputs, program.plan.outputs):
            dtype, count = as_dtype(slot.dtype), int(np.prod(slot.shape, dtype=np.int64))
            found.append(bytes(download(storage, 0, count * dtype.itemsize)))
        return found

    def _time(self, program: Program) -> float:
        """The least of several times on the device, in nanoseconds; on the host where the device keeps none."""
        executor, clock = self._tuning._executor, self._tuning._clock
        stamped = bool(self._tuning._device.timestamp_period)
        times: list[float] = []
        spent = 0.0
        while len(times) < _LEAST_RUNS or (len(times) < _MOST_RUNS and spent < _ENOUGH):
            profiler = Profiler() if stamped else None
            start = time.perf_counter()
            clock.wait(executor.run(program.plan, self._inputs, self._outputs, timing=profiler))
            wall = time.perf_counter() - start
            device = sum(row.ns for row in profiler.rows()) if profiler is not None else 0.0
            times.append(device or wall * 1e9)
            spent += wall
        return min(times[1:])


def _numbers(dtype: str, size: int, rng: np.random.Generator, signs: bool) -> np.ndarray[Any, Any]:
    """Whole numbers from -2 to 2 in `size` bytes of the dtype, or with `signs` -1 and 1: exact in any order."""
    found = as_dtype(dtype)
    count = size // found.itemsize
    low, high = (0, 2) if found.kind == "b" else (0, 3) if found.kind == "u" else (-2, 3)
    numbers = 1 - 2 * rng.integers(0, 2, count) if signs else rng.integers(low, high, count)
    if found.name == "bfloat16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(found.numpy)
