"""An interrupt at any line of what the engine does: a step has happened as a whole or not at all, and work goes on."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa._vk import counts
from tests.conftest import CONFIGURATIONS
from tests.device.vk_rig import add_kernel

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = str(Path(oa.__file__).parent)
#: Where an object of Vulkan is made and not known to its device yet: see `test_an_interrupt_behind_a_creating_call`.
VULKAN = str(Path(oa.__file__).parent / "_vk")

#: Finalisers: what is raised in one is reported by Python and goes no further.
FINALISERS = frozenset({"__del__", "forget", "__hash__", "__eq__"})


def interrupted(line: int, function: Callable[[], object]) -> bool:
    """Run with a KeyboardInterrupt raised at that line of the package, counted as they are run; False when there are fewer.

    Lines of `oa._vk` and of finalisers do not count.
    """
    left = line

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        code = frame.f_code
        file = code.co_filename
        if not file.startswith(PACKAGE) or file.startswith(VULKAN) or code.co_name in FINALISERS:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def lines(step: int, function: Callable[[int], bool]) -> Iterator[int]:
    """Every `step`-th line until there are no more; at least a few must have been interrupted."""
    line = 1
    while function(line):
        yield line
        line += step
    assert line > 20, "the interrupts never came"


def whole(full: bool) -> int:
    """All lines with --all, else every third."""
    return 1 if full else 3


def test_a_replay_happens_as_a_whole_or_not_at_all(engine: Any, full: bool) -> None:
    in_place = oa.State(engine, m.zeros(engine, (64,), dtype="int32"))
    apart = oa.State(engine, m.zeros(engine, (64,), dtype="int32"))
    draws = oa.State(engine, m.zeros(engine, (64,)))

    def step() -> Any:
        in_place.assign(in_place.value + 1)
        apart.assign(m.flip(apart.value) + 1)
        draws.assign(m.uniform(engine, (64,)))
        return in_place.value * 1

    plan = engine.capture(step)
    assert len(plan._plan.in_place) >= 1
    engine.rng_state = (5, 0)
    engine.submit(plan)
    done = 1
    for _ in lines(whole(full), lambda line: interrupted(line, lambda: engine.submit(plan))):
        drawn = engine.rng_state[1]
        assert drawn in (done, done + 1)
        done = drawn
        assert set(in_place.value.tolist()) == set(apart.value.tolist()) == {done}
        assert set(plan.outputs.tolist()) <= {done, done - 1}
    engine.submit(plan)
    last = engine.rng_state[1]
    assert set(in_place.value.tolist()) == set(apart.value.tolist()) == set(plan.outputs.tolist()) == {last}
    engine.rng_state = (5, last - 1)
    assert np.array_equal(draws.value.to_numpy(), m.uniform(engine, (64,)).to_numpy())


def test_the_first_run_of_a_plan_may_be_interrupted(engine: Any, full: bool) -> None:
    cell, expected = oa.State(engine, m.zeros(engine, (64,))), [0]

    def once(line: int) -> bool:
        factor = float(line % 97)

        def step() -> None:
            cell.assign(cell.value * 1.0 + m.full(engine, (64,), factor) * 0.0 + 1.0)

        plan = engine.capture(step)
        hit = interrupted(line, lambda: engine.submit(plan))
        if hit:
            now = cell.value.tolist()[0]
            assert now in (expected[0], expected[0] + 1)
            expected[0] = int(now)
        engine.submit(plan)
        expected[0] += 1 if hit else 2
        assert set(cell.value.tolist()) == {expected[0]}
        return hit

    for _ in lines(7 * whole(full), once):
        pass


def test_pending_work_survives_an_interrupted_flush(engine: Any, full: bool) -> None:
    cell = oa.State(engine, m.zeros(engine, (64,), dtype="int32"))
    done = 0

    def once(line: int) -> bool:
        nonlocal done
        cell.assign(cell.value + 1)
        other = cell.value * 2
        hit = interrupted(line, engine.flush)
        done += 1
        assert set(other.tolist()) == {2 * done}
        assert set(cell.value.tolist()) == {done}
        return hit

    for _ in lines(whole(full), once):
        pass


def test_new_work_may_be_interrupted_while_it_is_lowered(engine: Any, full: bool) -> None:
    number = 0

    def once(line: int) -> bool:
        nonlocal number
        number += 1
        x = m.from_numpy(engine, np.arange(number + 8, dtype=np.float32))
        y = m.sum(m.softmax(x) * 0.0 + x)
        hit = interrupted(line, engine.flush)
        assert y.item() == sum(range(number + 8))
        return hit

    for _ in lines(401 if full else 1201, once):
        pass


def test_transfers_may_be_interrupted(engine: Any, full: bool) -> None:
    busy = m.ones(engine, (1 << 18,))
    plan = engine.capture(lambda: m.sum(m.tanh(m.exp(-busy * busy))))
    fixed = np.arange(5000, dtype=np.float32)

    def up(line: int) -> bool:
        engine.submit(plan)
        hit = interrupted(line, lambda: m.from_numpy(engine, fixed))
        assert np.array_equal(m.from_numpy(engine, fixed + line).to_numpy(), fixed + line)
        return hit

    def down(line: int) -> bool:
        value = m.from_numpy(engine, fixed + line) + 0.0
        engine.submit(plan)
        hit = interrupted(line, value.to_numpy)
        assert np.array_equal(value.to_numpy(), fixed + line)
        return hit

    for function in (up, down):
        for _ in lines(whole(full), function):
            pass


def test_a_failed_capture_by_interrupt_leaves_nothing(engine: Any, full: bool) -> None:
    x, cell = m.ones(engine, (16,)), oa.State(engine, m.zeros(engine, (16,)))
    engine.rng_state = (1, 7)

    def step() -> Any:
        cell.assign(cell.value + x + m.uniform(engine, (16,)))
        return m.sum(cell.value)

    for _ in lines(307 * whole(full), lambda line: interrupted(line, lambda: engine.capture(step))):
        assert not engine.is_recording and engine.rng_state == (1, 7)
        assert set(cell.value.tolist()) == {0.0}
        assert set((x * 3.0).tolist()) == {3.0}


CREATING = {
    "CreateBuffer": lambda d: d.buffer(64),
    "AllocateMemory": lambda d: d.buffer(64),
    "MapMemory": lambda d: d.buffer(64, "upload"),
    "CreateSemaphore": lambda d: d.timeline(),
    "CreatePipelineCache": lambda d: d.pipeline_cache(),
    "CreateDescriptorPool": lambda d: d.descriptor_pool(2, 2),
    "CreateQueryPool": lambda d: d.query_pool(4),
    "AllocateCommandBuffers": lambda d: d.commands(),
    "CreatePipelineLayout": lambda d: add(d),
    "CreateShaderModule": lambda d: add(d),
    "CreateComputePipelines": lambda d: add(d),
}


def add(device: Any) -> Any:
    addressing = device.profile.addressing
    return device.pipeline(add_kernel(addressing), buffers=2, addressing=addressing, name="add")


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("call", CREATING)
def test_an_interrupt_behind_a_creating_call(call: str, configuration: str, device_name: str) -> None:
    """What the driver has made when the interrupt comes is destroyed: nothing is left, and the layer says nothing."""
    profile, addressing = CONFIGURATIONS[configuration]
    before = counts()
    with oa.Engine(device=device_name, profile=profile, addressing=addressing) as engine:
        device = engine.device
        during = counts()
        plain = getattr(device.functions, call)

        def made_and_interrupted(*arguments: Any) -> None:
            assert plain(*arguments) == 0
            raise KeyboardInterrupt

        setattr(device.functions, call, made_and_interrupted)
        try:
            with pytest.raises(KeyboardInterrupt):
                CREATING[call](device)
        finally:
            setattr(device.functions, call, plain)
        layouts = {"set_layout", "pipeline_layout"}  # kept by the device for the next pipeline
        assert {k: n for k, n in counts().items() if k not in layouts} == {
            k: n for k, n in during.items() if k not in layouts
        }
        CREATING[call](device).close()
        assert (m.ones(engine, (3,)) + 1.0).tolist() == [2.0] * 3
    assert counts() == before


WAITS = {
    "event": "engine.submit(plan).wait()",
    "engine": "engine.submit(plan); engine.wait()",
    "reading": "engine.submit(plan); plan.outputs.item()",
    "event with a time": "engine.submit(plan).wait(timeout=100.0)",
}

WAIT = """
import os, signal, sys, threading
import oa
from oa import matrix as m
with oa.Engine() as engine:
    x = m.ones(engine, (384, 384))
    def work():
        y = x
        for _ in range(12):
            y = m.matmul(y, x) * 0.001
        return m.sum(y)
    plan = engine.capture(work)
    first = engine.submit(plan).wait() and plan.outputs.item()
    caught = 0
    for delay in (0.02, 0.11, 0.2):
        threading.Timer(delay, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            while True:
                WAIT
        except KeyboardInterrupt:
            caught += 1
        engine.submit(plan)
        assert plan.outputs.item() == first
    print(caught, "interrupts")
"""


@pytest.mark.parametrize("how", WAITS)
def test_ctrl_c_ends_a_wait(how: str, device_name: str) -> None:
    code = textwrap.dedent(WAIT).replace("WAIT", WAITS[how])
    env = {**os.environ, "OA_DEVICE": device_name, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "3 interrupts\n", "")


def test_a_plan_is_saved_as_a_whole_or_not_at_all_and_loading_leaves_nothing(
    any_engine: Any, tmp_path: Path, full: bool
) -> None:
    engine = any_engine
    x, cell = m.ones(engine, (64,)), oa.State(engine, m.zeros(engine, (64,)))

    def step() -> Any:
        cell.assign(cell.value + x)
        return cell.value * 2.0

    plan = engine.capture(step)
    path = plan.save(tmp_path / "plan.oap", values=True)
    content = path.read_bytes()
    for _ in lines(37 if full else 101, lambda k: interrupted(k, lambda: plan.save(path, values=True))):
        assert path.read_bytes() == content
        assert [p.name for p in tmp_path.iterdir()] == ["plan.oap"], "nothing temporary is left"
    gc.collect()
    engine.trim()
    before = last = engine.memory.allocated
    for _ in lines(101 * whole(full), lambda k: interrupted(k, lambda: engine.load_plan(path))):
        gc.collect()
        engine.trim()
        held = engine.memory.allocated
        # `oa._run.ranges`: an interrupt inside the cutting of a range may lose that range. Nothing else of a loading may stay.
        assert held <= last + 256 and held <= before + 4 * 256
        last = held
    loaded = engine.load_plan(path)
    engine.submit(loaded)
    assert set(loaded.outputs.tolist()) == {2.0}
