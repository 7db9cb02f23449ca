"""Fresh processes: importing, opening an engine, the first result, `oa doctor`; with an empty cache and with a filled one."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench.measure import installed, spread
from bench.report import Report, Row
from tools.project import ROOT

#: What each process does after the imports; every part is timed on its own, in milliseconds.
CODE = """
import json, sys, time
import numpy
clock, parts = time.perf_counter, {}
start = clock()
import oa
engine_class, matrix = oa.Engine, oa.matrix
parts["import"] = clock() - start
start = clock()
engine = engine_class(device=sys.argv[1])
parts["engine"] = clock() - start
x = matrix.from_numpy(engine, numpy.ones((64, 64), numpy.float32))
w = matrix.from_numpy(engine, numpy.ones((64, 64), numpy.float32))
start = clock()
value = matrix.softmax(matrix.matmul(x, w) * 0.5, axis=1).to_numpy()
parts["result"] = clock() - start
if sys.argv[2]:
    start = clock()
    plan = engine.load_plan(sys.argv[2])
    engine.submit(plan).wait()
    parts["loaded"] = clock() - start
start = clock()
engine.close()
parts["close"] = clock() - start
print(json.dumps({name: 1e3 * seconds for name, seconds in parts.items()}))
"""

_NAMES = {
    "import": "import oa, oa.Engine and oa.matrix, beyond NumPy",
    "engine": "open an engine",
    "result": "first result: product, softmax, read back",
    "loaded": "first result of a plan from a file",
    "close": "close the engine",
    "whole": "whole process, Python and NumPy too",
    "doctor": "oa doctor, whole process",
}


def run(options: argparse.Namespace) -> list[Report]:
    """Cold means an empty cache directory for each process; warm one that a process before it has filled."""
    import oa
    from bench.device import describe

    with tempfile.TemporaryDirectory(prefix="oa-bench-") as folder:
        with oa.Engine(device=options.device) as engine:
            report = Report("startup", describe(engine))
            saved = save_plan(engine, folder)
        rounds = 3 if options.quick else 11
        for state in ("cold", "warm"):
            for row in rows(options.device, folder, saved, state, rounds):
                report.add(row)
    return [report]


def save_plan(engine: Any, folder: str) -> str:
    """A plan for the processes to load."""
    from oa import matrix

    x = matrix.ones(engine, (64, 64))
    plan = engine.capture(lambda: matrix.softmax(matrix.matmul(x, x) * 0.25, axis=1))
    return str(plan.save(os.path.join(folder, "plan.oap"), values=True))


def rows(device: str, folder: str, saved: str, state: str, rounds: int) -> list[Row]:
    """All parts of a process in one state of the cache."""
    warm = os.path.join(folder, "warm")
    found: dict[str, list[float]] = {name: [] for name in _NAMES}
    if state == "warm":
        start_process(device, saved, warm)
    for number in range(rounds):
        cache = warm if state == "warm" else os.path.join(folder, f"cold{number}")
        whole, parts = start_process(device, saved, cache)
        found["whole"].append(whole)
        for name, value in parts.items():
            found[name].append(value)
        cache = warm if state == "warm" else os.path.join(folder, f"doctor{number}")
        found["doctor"].append(_timed([sys.executable, "-m", "oa", "doctor"], cache)[0])
    return [Row(f"{_NAMES[name]}, {state}", "ms", {"oa": spread(values)}) for name, values in found.items()]


def start_process(device: str, saved: str, cache: str) -> tuple[float, dict[str, float]]:
    """Milliseconds of a whole process, and of its parts."""
    whole, output = _timed([sys.executable, "-c", CODE, device, saved], cache)
    parts: dict[str, float] = json.loads(output.splitlines()[-1])
    return whole, parts


def _timed(command: list[str], cache: str) -> tuple[float, str]:
    environment = {**installed(), "OA_CACHE_DIR": cache, "OA_QUIET": "1"}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command[:3])} ended with status {done.returncode}: {done.stderr[-2000:]}"
        )
    return 1e3 * seconds, done.stdout
