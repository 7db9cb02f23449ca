"""Each public operation of oa.matrix at 16 M elements (1 M on a CPU) beside NumPy, or PyTorch and CuPy on the same GPU."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.arrays import CASES
from bench.arrays.case import Case, error, hosts
from bench.measure import host_seconds, interleave
from bench.report import Report, Row, reason

Measure = Callable[[], float]
Timed = tuple[float, Measure]

#: Elements of the inputs: square numbers.
GPU_ELEMENTS, CPU_ELEMENTS, QUICK_ELEMENTS = 1 << 24, 1 << 20, 1 << 16
#: Elements compared where each depends on its own inputs only.
COMPARED = 1 << 16
#: Inputs that are indices: PyTorch's have 64 bits.
INDICES = frozenset("kdnlhge")
#: Seconds that one candidate of one row may take, and that the suite may take before it leaves rows out.
SHARE, DEADLINE = 0.07, 130.0
#: Of the copy kernel's bandwidth, where memory should be the limit; times CuPy's, for what orders; times NumPy's, on a CPU.
COPY_AIM, ORDER_AIM, CPU_AIM = 0.85, 4.0, 20.0


def run(options: argparse.Namespace) -> list[Report]:
    """A row a case: microseconds on the device (on a CPU by the clock), what the copy kernel would need, the peers'."""
    import oa
    from bench.device import describe

    began = time.perf_counter()
    with oa.Engine(device=options.device) as engine:
        software = engine.device.profile.software
        count = QUICK_ELEMENTS if options.quick else CPU_ELEMENTS if software else GPU_ELEMENTS
        arrays = hosts(count)
        report = Report("arrays", {**describe(engine), "elements": f"{count:,} elements"})
        bench = Bench(engine, arrays, [] if software else _gpus(report), quick=options.quick)
        for case in CASES:
            if options.only and case.name.partition(",")[0] not in ("copy", options.only):
                continue
            if not software and time.perf_counter() - began > DEADLINE:
                report.notes.append(f"{case.name}: left out, {DEADLINE:g} s had passed")
                continue
            try:
                report.add(bench.row(case))
            except Exception as fault:  # one operation that fails must not hide the others
                report.notes.append(f"{case.name}: {type(fault).__name__}: {fault}")
                print(report.notes[-1], flush=True)
        report.notes.append(f"{time.perf_counter() - began:.0f} s in all")
        print(report.notes[-1])
    return [report]


def _gpus(report: Report) -> list[str]:
    """The peers that see a CUDA device."""
    found = []
    try:
        import torch

        if torch.cuda.is_available():
            found.append("torch")
    except ImportError:
        report.notes.append("no PyTorch")
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount():
            found.append("cupy")
    except Exception as fault:  # CuPy imports without a driver, and fails in ways of its own
        report.notes.append(f"no CuPy: {fault}")
    return found


class Bench:
    """The inputs on every side, and one row at a time."""

    def __init__(
        self, engine: Any, arrays: Mapping[str, np.ndarray[Any, Any]], peers: list[str], quick: bool
    ):
        from oa import matrix

        self.engine, self.arrays, self.peers, self.quick = engine, arrays, peers, quick
        self.matrix = matrix
        self.software = engine.device.profile.software
        self.sides: dict[str, dict[str, Any]] = {"oa": {}, "torch": {}, "cupy": {}}
        self.bytes_a_us: float | None = None  #: the copy kernel's, once it was measured

    def ours(self, name: str) -> Any:
        """An input as a matrix."""
        if name not in self.sides["oa"]:
            self.sides["oa"][name] = self.matrix.from_numpy(self.engine, self.arrays[name])
        return self.sides["oa"][name]

    def row(self, case: Case) -> Row:
        """Measure and check one case."""
        inputs = [self.ours(name) for name in case.inputs]
        kept: list[Any] = []

        def call() -> object:
            kept[:] = [case.ours(self.matrix, *inputs)]
            return kept[0]

        def waited() -> None:
            call()
            self.engine.flush()
            self.engine.wait()

        candidates = {
            "oa": self.repeated(waited, lambda n: _device_us(self.engine, call, n)),
            "oa wall": self.repeated(waited, lambda n: lambda: host_seconds(_times(waited, n)) / n * 1e6),
        }
        if self.software:  # judged by the clock there, as NumPy is
            candidates = {"oa": candidates["oa wall"], "oa device": candidates["oa"]}
        candidates |= self.others(case)
        slow = max(seconds for seconds, _ in candidates.values()) > SHARE
        rounds = 2 if slow or self.quick else 5
        values = interleave(
            {name: measure for name, (_, measure) in candidates.items()}, rounds, warm=0 if slow else 1
        )
        moved = _nbytes(kept[0]) + (
            0 if case.creates else sum(self.arrays[name].nbytes for name in case.inputs)
        )
        if self.bytes_a_us is None:
            self.bytes_a_us = moved / values["oa"].median
        aim, of = self.aim(case, values, moved)
        return Row(
            case.name, "us", values, error=self.error(case, kept[0]), ceiling=moved / self.bytes_a_us, ceiling_of="our copy",
            aim=aim, aim_of=of, reason=reason("arrays", self.engine.device.snapshot.name, case.name),
        )  # fmt: skip

    def aim(self, case: Case, values: Mapping[str, Any], moved: int) -> tuple[float | None, str]:
        """The longest that the case may take without a reason."""
        if self.software:
            return (CPU_AIM * values["numpy"].median, "20x NumPy") if "numpy" in values else (None, "")
        if case.bound == "order" and "cupy" in values:
            return ORDER_AIM * values["cupy"].median, "4x CuPy"
        if case.bound == "memory" and self.bytes_a_us:
            return moved / self.bytes_a_us / COPY_AIM, "85 % of our copy"
        return None, ""

    @staticmethod
    def repeated(call: Callable[[], object], measure: Callable[[int], Measure]) -> Timed:
        """Seconds of one warm call, and a measurement that repeats it as often as its share of the time allows."""
        call()
        seconds = host_seconds(call)
        return seconds, measure(max(1, min(10, int(SHARE / 6 / max(seconds, 1e-6)))))

    def others(self, case: Case) -> dict[str, Timed]:
        """The peers' measurements: NumPy beside a CPU, PyTorch and CuPy beside a GPU."""
        found: dict[str, Timed] = {}
        if self.software and case.numpy is not None:
            numpy, hosts_ = case.numpy, [self.arrays[name] for name in case.inputs]

            def in_numpy() -> object:
                with np.errstate(all="ignore"):
                    return numpy(np, *hosts_)

            found["numpy"] = self.repeated(
                in_numpy, lambda n: lambda: host_seconds(_times(in_numpy, n)) / n * 1e6
            )
        if "torch" in self.peers and case.torch is not None:
            found["torch"] = self._in_torch(case)
        if "cupy" in self.peers and case.cupy and case.numpy is not None:
            found["cupy"] = self._in_cupy(case)
        return found

    def _in_torch(self, case: Case) -> Timed:
        import torch

        from bench.peers import torch_device

        side = self.sides["torch"]
        for name in case.inputs:
            if name not in side:
                tensor = torch.from_numpy(self.arrays[name]).cuda()
                side[name] = tensor.long() if name in INDICES else tensor
        given = [side[name] for name in case.inputs]
        theirs = case.torch
        assert theirs is not None
        return self.repeated(
            lambda: (theirs(torch, *given), torch.cuda.synchronize()),
            lambda n: torch_device.device_us(lambda: theirs(torch, *given), n),
        )

    def _in_cupy(self, case: Case) -> Timed:
        import cupy

        side = self.sides["cupy"]
        for name in case.inputs:
            if name not in side:
                side[name] = cupy.asarray(self.arrays[name])
        given = [side[name] for name in case.inputs]
        theirs = case.numpy
        assert theirs is not None

        def event_us(number: int) -> Callable[[], float]:
            def measure() -> float:
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                begin.record()
                for _ in range(number):
                    theirs(cupy, *given)
                end.record()
                end.synchronize()
                return float(cupy.cuda.get_elapsed_time(begin, end)) / number * 1e3

            return measure

        return self.repeated(lambda: (theirs(cupy, *given), cupy.cuda.Device().synchronize()), event_us)

    def error(self, case: Case, result: Any) -> float | None:
        """What our result is off the reference by."""
        reference = case.exact or case.numpy
        if case.check == "none" or reference is None:
            return None
        given = [self.arrays[name] for name in case.inputs]
        found: Any = (
            tuple(part.to_numpy() for part in result) if isinstance(result, tuple) else result.to_numpy()
        )
        if case.check == "first":
            given = [array.ravel()[:COMPARED] for array in given]
            found = found[:COMPARED]
        if case.check != "same":
            given = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in given]
        with np.errstate(all="ignore"):
            exact = reference(np, *given)
        return error(found, tuple(exact) if isinstance(result, tuple) else exact)


def _times(call: Callable[[], object], number: int) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(number):
            call()

    return loop


def _device_us(engine: Any, call: Callable[[], object], number: int) -> Callable[[], float]:
    from bench.device import device_us

    return device_us(engine, call, number)


def _nbytes(result: Any) -> int:
    if isinstance(result, tuple):
        return sum(map(_nbytes, result))
    return int(result.size) * int(result.dtype.itemsize)
