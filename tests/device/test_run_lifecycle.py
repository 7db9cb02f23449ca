"""The ends of things on a real device: no memory, closing with work in flight, forks, and a process that just exits."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from oa._run.clock import Event
from oa.errors import AllocationLimit, EngineClosed, ForkedProcess, OutOfMemory
from tests.conftest import CONFIGURATIONS
from tests.device.run_kernels import chain, chained, rig

COUNT = 3000


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_too_large_and_out_of_memory_leave_a_usable_engine(device_name: str, configuration: str) -> None:
    with rig(device_name, *CONFIGURATIONS[configuration]) as run:
        with pytest.raises(AllocationLimit):
            run.pool.allocate(run.pool.max_size + 1)
        run.pool.limit = 24 << 20
        held = [run.pool.allocate(6 << 20) for _ in range(2)]
        with pytest.raises(OutOfMemory) as caught:
            run.pool.allocate(20 << 20)
        assert caught.value.requested == 20 << 20 and str(24 << 20)[:2] in str(caught.value)
        held.clear()
        data = np.arange(COUNT, dtype=np.uint32)
        source, target = run.array(data), run.pool.allocate(4 * COUNT)
        run.executor.run(chain(run.addressing, COUNT, 3), [source], [target])
        assert (run.read(target, COUNT) == chained(data, 3)).all()


def test_closing_waits_for_what_is_in_flight(device_name: str) -> None:
    with rig(device_name, None, None) as run:
        plan = chain(run.addressing, 200_000, 10)
        source, target = run.array(np.arange(200_000, dtype=np.uint32)), run.pool.allocate(800_000)
        events = [Event(run.clock, run.executor.run(plan, [source], [target])) for _ in range(3)]
        run.close()
        assert all(event.done for event in events)
        for use in (
            lambda: run.executor.run(plan, [source], [target]),
            lambda: run.transfer.download(target, 0, 4),
            lambda: run.pool.allocate(1),
        ):
            with pytest.raises(EngineClosed):
                use()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_told_so_and_frees_nothing(device_name: str) -> None:
    with rig(device_name, None, None) as run:
        data = np.arange(COUNT, dtype=np.uint32)
        plan = chain(run.addressing, COUNT, 2)
        source, target = run.array(data), run.pool.allocate(4 * COUNT)
        event = Event(run.clock, run.executor.run(plan, [source], [target]))
        child = os.fork()
        if child == 0:
            wrong = 0
            try:
                for use in (
                    lambda: run.executor.run(plan, [source], [target]),
                    lambda: run.transfer.download(target, 0, 4),
                    lambda: run.transfer.upload(source, data),
                    lambda: run.pool.allocate(10),
                    event.wait,
                ):
                    try:
                        use()
                        wrong += 1
                    except ForkedProcess:
                        continue
                del source, target, plan
                run.close()
            except BaseException:
                wrong = 99
            finally:
                os._exit(wrong)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (run.read(target, COUNT) == chained(data, 2)).all()


EXIT = """
    import sys, threading
    import numpy as np
    from tests.device.run_kernels import chain, rig
    from oa._run.clock import Event

    how = sys.argv[1]
    context = rig(sys.argv[2], None, None)
    run = context.__enter__()
    plan = chain(run.addressing, 200_000, 10)
    source, target = run.array(np.arange(200_000, dtype=np.uint32)), run.pool.allocate(800_000)
    events = [Event(run.clock, run.executor.run(plan, [source], [target])) for _ in range(3)]
    if how == "dropped":
        del run, source, target, plan
    elif how == "cycle":
        source_cycle = [run, source, target]
        source_cycle.append(source_cycle)
        del run, source, target, source_cycle
    elif how == "thread":
        threading.Thread(target=events[-1].wait, daemon=True).start()
    elif how == "closed late":
        run.close()
        del events, target
    print("end of work", how)
"""


@pytest.mark.parametrize("how", ("held", "dropped", "cycle", "thread", "closed late"))
def test_exit_with_work_pending_never_crashes(device_name: str, how: str) -> None:
    root = Path(__file__).parent.parent.parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "OA_VALIDATE": "",
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(EXIT), how, device_name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=root,
    )
    assert (done.returncode, done.stdout) == (0, f"end of work {how}\n"), done.stderr
    assert not done.stderr
