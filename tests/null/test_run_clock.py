"""Time: values, waiting, events from other threads, the end of an engine, device loss and forks."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from oa._run.clock import DEPTH, Clock, Event
from oa.errors import DeviceLost, EngineClosed, ForkedProcess
from tests.null.run_fakes import FakeDevice


def submitted(clock: Clock, count: int = 1) -> int:
    return [clock.submit((), f"work {clock.submitted + 1}") for _ in range(count)][-1]


def test_values_count_up_and_complete() -> None:
    device = FakeDevice(auto=False)
    clock = Clock(device)
    assert [submitted(clock), submitted(clock)] == [1, 2]
    assert (clock.submitted, clock.completed, clock.retire()) == (2, 0, 0)
    assert not clock.wait(1, timeout=0)
    device.finish(1)
    assert clock.wait(1, timeout=0) and clock.completed == 1
    device.finish(2)
    assert clock.retire() == 2
    assert clock.wait(99), "a value not submitted yet means the last one"
    clock.close()
    assert not +device.live


def test_a_refused_submission_takes_no_value() -> None:
    device = FakeDevice()
    clock = Clock(device)
    device.fail("submit", lambda: ValueError("no"))
    with pytest.raises(ValueError):
        submitted(clock)
    assert submitted(clock) == 1


def test_room_keeps_a_fixed_number_in_flight() -> None:
    device = FakeDevice()
    clock = Clock(device)
    for _ in range(10):
        clock.room()
        submitted(clock)
        assert clock.submitted - device.finished <= DEPTH
    assert device.finished == 10 - DEPTH


def test_idle_runs_only_when_nothing_is_left() -> None:
    device = FakeDevice(auto=False)
    clock = Clock(device)
    ran: list[int] = []
    clock.idle = lambda: ran.append(clock.completed)
    submitted(clock, 2)
    device.finish(1)
    clock.wait(1)
    assert not ran
    device.finish(2)
    clock.wait(2)
    assert ran == [2]


def test_events_wait_in_any_thread_and_hold_back_close() -> None:
    device = FakeDevice(auto=False)
    clock = Clock(device)
    event = Event(clock, submitted(clock))
    assert not event.done and not event.wait(timeout=0.001)
    results: list[Any] = []
    inside = threading.Event()

    class Slow:
        def wait(self, value: int, timeout_ns: int | None = None) -> bool:
            inside.set()
            return finished.wait(5)

        def value(self) -> int:
            return device.finished

        def close(self) -> None:
            results.append("closed")

    finished = threading.Event()
    clock._timeline.close()
    clock._timeline = Slow()  # type: ignore[assignment]
    waiter = threading.Thread(target=lambda: results.append(event.wait(5)))
    waiter.start()
    assert inside.wait(5)
    closer = threading.Thread(target=clock.close)
    closer.start()
    assert not results
    finished.set()
    waiter.join(5)
    closer.join(5)
    assert sorted(map(str, results)) == ["True", "closed"] and results[-1] == "closed"
    assert event.done


def test_events_after_close_are_done_and_use_is_refused() -> None:
    device = FakeDevice()
    clock = Clock(device)
    event = Event(clock, submitted(clock))
    clock.close()
    clock.close()
    assert event.done and event.wait()
    with pytest.raises(EngineClosed):
        clock.check()


@pytest.mark.parametrize("call", ("submit", "wait", "value"))
def test_a_lost_device_is_named_with_what_ran(call: str) -> None:
    device = FakeDevice(auto=False)
    clock = Clock(device)
    event = Event(clock, submitted(clock))
    device.finish(1)
    clock.retire()
    submitted(clock)
    device.fail(call, lambda: DeviceLost("VK_ERROR_DEVICE_LOST"))
    with pytest.raises(DeviceLost, match="work 2") as caught:
        submitted(clock) if call == "submit" else clock.wait(2, 1) if call == "wait" else clock.retire()
    assert "work 1" not in str(caught.value), "what had finished is not named"
    with pytest.raises(DeviceLost, match="work 2"):
        clock.check()
    with pytest.raises(DeviceLost):
        Event(clock, 2).wait()
    assert event.done
    clock.close()
    assert not +device.live
    with pytest.raises(DeviceLost):
        Event(clock, 2).wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_may_neither_use_nor_free() -> None:
    from oa._run.pool import Pool

    device = FakeDevice()
    clock = Clock(device)
    pool = Pool(device, clock)
    storage = pool.allocate(100)
    event = Event(clock, submitted(clock))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for use in (clock.check, event.wait, lambda: pool.allocate(70_000), lambda: clock.wait(1)):
                try:
                    use()
                except ForkedProcess:
                    continue
                os._exit(2)
            del storage
            before = dict(+device.live)
            pool.close()
            clock.close()
            code = 0 if dict(+device.live) == before else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert clock.wait(1)
    pool.close()
    clock.close()
