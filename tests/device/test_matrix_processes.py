"""Life cycles of whole processes: exits with work pending, forks, orders of destruction; the specification's examples."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(code: str, device: str, *, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter on the tests' device."""
    environment = {**os.environ, "OA_DEVICE": device, "PYTHONFAULTHANDLER": "1"}
    return subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore:This process:DeprecationWarning",
            "-c",
            textwrap.dedent(code),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


HEAD = """
import gc, os, sys, threading
import oa, oa.core as oac, oa.matrix as oam
"""

QUIET = {
    "pending work": "engine = oa.Engine(); x = oam.ones(engine, (1000,)) * 2.0",
    "submitted work": "engine = oa.Engine(); x = oam.ones(engine, (1 << 20,)) * 2.0; engine.flush()",
    "submitted plan": "engine = oa.Engine(); x = oam.ones(engine, (9,)); p = engine.capture(lambda: x + 1.0); engine.submit(p)",
    "engine dropped first": "engine = oa.Engine(); x = oam.ones(engine, (9,)) + 1.0; del engine; gc.collect(); x.to_numpy()",
    "value after close": "engine = oa.Engine(); x = oam.ones(engine, (9,)) + 1.0; engine.close(); del engine, x; gc.collect()",
    "default engine": "x = oam.ones((2, 2)) + 1.0; x.to_numpy(); y = x * 2.0",
    "cycle": "engine = oa.Engine(); x = oam.ones(engine, (9,)) + 1.0; box = [x]; box.append(box); del x, box, engine",
    "error at exit": "engine = oa.Engine()\nwith engine:\n    x = oam.ones(engine, (3,))\n    y = x + 1.0",
    "thread's engine": """
def work():
    with oa.Engine() as own:
        assert (oam.ones(own, (3,)) + 1.0).tolist() == [2.0] * 3
thread = threading.Thread(target=work); thread.start(); thread.join()
engine = oa.Engine(); y = oam.ones(engine, (3,)) + 1.0
""",
    "thread's engine left open": """
def work():
    engine = oa.Engine()
    kept.append(oam.ones(engine, (3,)) + 1.0)
kept = []
thread = threading.Thread(target=work); thread.start(); thread.join()
""",
    "two engines": """
a, b = oa.Engine(), oa.Engine()
x, y = oam.ones(a, (3,)) + 1.0, oam.ones(b, (3,)) + 1.0
y.to_numpy()
a.close()
""",
    "cells and tapes": """
engine = oa.Engine()
cell = oa.State(engine, oam.ones(engine, (3,)))
tape = oa.ml.GradientTape().__enter__()
tape.watch(cell.value)
loss = oam.sum(cell.value * 2.0)
cell.assign(cell.value + 1.0)
""",
    "exit inside a capture": """
engine = oa.Engine()
x = oam.ones(engine, (3,))
engine.capture(lambda: (x + 1.0, sys.exit(0)))
""",
}


@pytest.mark.parametrize("name", QUIET)
def test_exits_quietly(name: str, device_name: str) -> None:
    """No crash, no message, exit code 0, whatever is left behind."""
    done = python(HEAD + textwrap.dedent(QUIET[name]), device_name)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


FORK = """
engine = oa.Engine()
x = oam.ones(engine, (3,))
stored = x + 1.0
stored.to_numpy()
pending = x * 5.0
child = os.fork()
if child == 0:
    code = 1
    try:
        seen = []
        for use in (lambda: x + 1.0, lambda: stored.to_numpy(), lambda: oam.ones(engine, (2,)), engine.flush):
            try:
                use()
            except oa.errors.ForkedProcess as error:
                seen.append("child" in str(error))
        del x, stored, pending
        gc.collect()
        engine.close()
        code = 0 if seen == [True] * 4 else 2
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
assert pending.tolist() == [5.0] * 3
assert (x + 1.0).tolist() == [2.0] * 3
print("parent works")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_refused_and_the_parent_works_on(device_name: str) -> None:
    done = python(HEAD + FORK, device_name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "parent works\n", "")


NORMAL_CHILD_EXIT = """
engine = oa.Engine()
x = oam.ones(engine, (3,)) + 1.0
x.to_numpy()
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert (x + 1.0).tolist() == [3.0] * 3
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_may_exit_in_the_normal_way(device_name: str) -> None:
    done = python(HEAD + NORMAL_CHILD_EXIT, device_name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


#: The examples of the specification, as written.
THREE_LINES = """
import oa

engine = oa.Engine()
one = oa.matrix.ones(engine, [2, 3])
two = oa.matrix.full(engine, [2, 3], 2.0)
total = oa.matrix.add(one, two)

assert total.read_f32() == [3.0] * 6
"""
PREVIEW = """
import oa

engine = oa.Engine()
one = oa.matrix.ones(engine, [2, 3])
two = oa.matrix.full(engine, [2, 3], 2.0)
total = oa.matrix.add(one, two)
assert total.to_list() == [3.0] * 6
"""
ABBREVIATIONS = """
import oa.core as oac
import oa.matrix as oam

engine = oac.Engine()
assert oam.add(oam.ones(engine, [2]), oam.ones(engine, [2])).tolist() == [2.0, 2.0]
"""


@pytest.mark.parametrize(
    "code", [THREE_LINES, PREVIEW, ABBREVIATIONS], ids=["three lines", "preview", "abbreviations"]
)
def test_the_specification_runs_as_written(code: str, device_name: str) -> None:
    done = python(code, device_name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_interrupt_leaves_a_usable_engine(device_name: str) -> None:
    """A KeyboardInterrupt during a wait reaches the user; the next result is right."""
    done = python(
        HEAD
        + """
import signal
engine = oa.Engine()
x = oam.ones(engine, (64, 64))
signal.setitimer(signal.ITIMER_REAL, 0.05)
signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
try:
    while True:
        x = oam.matmul(x, x) * 0.01
        x.to_numpy()
except KeyboardInterrupt:
    pass
assert (oam.ones(engine, (3,)) + 1.0).tolist() == [2.0] * 3
print("works")
""",
        device_name,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "works\n", "")
