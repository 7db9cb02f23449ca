"""Whatever goes first, engine, values, plans, events or the process: nothing crashes and nothing stays behind."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def python(code: str, device: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter."""
    env = {**os.environ, "OA_DEVICE": device, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-c", textwrap.dedent(code), *arguments],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


THINGS = """
import gc, os, sys
import numpy as np
import oa
from oa import matrix as m, ml
from oa._vk import counts

def things():
    engine = oa.Engine()
    x = m.from_numpy(engine, np.arange(12, dtype=np.float32).reshape(3, 4))
    cell = oa.State(engine, m.zeros(engine, (3, 4)))
    def step():
        cell.assign(cell.value * 0.5 + x)
        return m.softmax(cell.value), x[1:]
    plan = engine.capture(step)
    event = engine.submit(plan)
    tape = ml.GradientTape()
    with tape:
        tape.watch(x)
        total = m.sum(m.exp(x * 0.1))
    return {"engine": engine, "input": x, "view": plan.outputs[0][1:, ::2], "pending": x + 1.0, "cell": cell, "plan": plan,
            "outputs": plan.outputs, "event": event, "tape": tape, "total": total, "reading": cell.value}
"""

ORDERS = (
    THINGS
    + """
names = list(things())
with things()["engine"]:
    pass
gc.collect()
for order in sys.argv[1:]:
    held = things()
    for word in order.split(","):
        if word == "close":
            next(iter(v for k, v in held.items() if k == "engine"), oa.Engine()).close()
        elif word == "collect":
            gc.collect()
        elif word == "use":
            if "event" in held:
                assert held["event"].wait()
            if "outputs" in held:
                try:
                    assert held["outputs"][1].to_numpy().shape == (2, 4)
                except oa.errors.EngineClosed:
                    continue
        else:
            del held[word]
    assert set(held) <= {"engine"}, held
    held.clear()
    gc.collect()
    oa.Engine().close()  # frees what engines that were only dropped have left
    assert counts() == {}, (order, counts())
print("nothing is left")
"""
)


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_any_order_of_destruction_leaves_nothing(device_name: str, seed: int) -> None:
    rng = random.Random(seed)
    names = "input view pending cell plan outputs event tape total reading".split()
    orders = []
    for number in range(8):
        words = [*names, "use", "collect"]
        if number % 4:
            words.append("close" if number % 2 else "engine")
        rng.shuffle(words)
        orders.append(",".join(words))
    done = python(ORDERS, device_name, *orders)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing is left\n", "")


FORK = (
    THINGS
    + """
held = things()
engine, cell, plan = held["engine"], held["cell"], held["plan"]
def child(number):
    refused = 0
    for use in (lambda: engine.submit(plan), held["pending"].to_numpy, lambda: plan.bind(held["input"], held["input"]),
                lambda: engine.submit(plan).wait(), lambda: cell.assign(held["input"]), engine.trim,
                lambda: m.ones(engine, (2,))):
        try:
            use()
        except oa.errors.ForkedProcess:
            refused += 1
    if number == 1:
        held.clear()
        gc.collect()
    elif number == 2:
        engine.close()
    elif number == 3:
        return refused, "exit"
    return refused, "now"

for number in range(4):
    engine.submit(plan)
    pid = os.fork()
    if pid == 0:
        try:
            refused, how = child(number)
        except BaseException as error:
            print(error, flush=True)
            os._exit(99)
        if how == "exit":
            sys.exit(refused)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7, number
want = np.zeros((3, 4), np.float32)
for _ in range(5):
    want = want * np.float32(0.5) + np.arange(12, dtype=np.float32).reshape(3, 4)
assert np.array_equal(cell.value.to_numpy(), want)
engine.close()
print(counts())
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks_with_work_in_flight(device_name: str) -> None:
    done = python(FORK, device_name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}\n", "")


EXITS = {
    "everything held": "held = things()",
    "everything dropped": "things()",
    "plan outlives engine": "held = things(); plan = held['plan']; held.clear()",
    "closed, values held": "held = things(); held['engine'].close()",
    "in a cycle": "held = things(); held['self'] = held; del held",
    "event waited for by a thread": "import threading; held = things();"
    " threading.Thread(target=held['event'].wait, daemon=True).start()",
    "many submissions": "held = things(); [held['engine'].submit(held['plan']) for _ in range(50)]",
    "error": "held = things(); sys.exit(3)",
}


@pytest.mark.parametrize("how", EXITS)
def test_a_process_just_ends(how: str, device_name: str) -> None:
    done = python(THINGS + EXITS[how], device_name)
    assert (done.returncode, done.stdout, done.stderr) == (3 if how == "error" else 0, "", "")
