"""Time on one queue: every submission signals the next value of one timeline semaphore, so "is it finished?" is a comparison.

Invariants: `completed <= submitted`; a value is handed out only by a submission that the driver took; values complete in order.
`completed` is what was last seen, not what is true now: `retire` asks the driver.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from oa._vk.interface import Device
from oa.errors import ArgumentError, DeviceLost, EngineClosed, ForkedProcess, OaError

__all__ = ["DEPTH", "Clock", "Event"]

#: Submissions in flight at most: the host waits rather than running further ahead.
DEPTH = 3

#: A wait asks the driver in slices of this many nanoseconds, so that Ctrl-C is served between two of them.
_SLICE = 100_000_000
#: Seconds from which a timeout is none.
_LONGEST = 1e9


class Clock:
    """The timeline of a device's compute queue, and the one place that submits to it."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.submitted = 0  #: value of the last submission
        self.completed = 0  #: greatest value seen finished
        self.refusal: Callable[[], OaError] | None = (
            None  #: makes the error that every use now ends in, once there is one
        )
        self.idle: Callable[[], None] | None = (
            None  #: called by `wait` in the owner's thread when nothing is left in flight
        )
        self._recent: deque[tuple[int, str]] = deque(maxlen=DEPTH)
        self._timeline = device.timeline()
        self._lock = threading.Condition()
        self._waiters = 0
        self._idled = 0  # the last value that `idle` was called for
        self._closed = False
        _CLOCKS.add(self)

    def check(self) -> None:
        """Raise when the engine is closed, its device is lost, or this is a forked child."""
        if self.refusal is not None:
            raise self.refusal()

    def submit(self, commands: Sequence[Any], what: str) -> int:
        """Submit recorded commands and return the value that says they have finished.

        `what` names them if the device is lost.
        """
        value = self.submitted + 1
        try:
            self.device.submit(commands, signal=(self._timeline, value))
            self.submitted = value
        except DeviceLost as cause:
            self._recent.append((value, what))
            raise self.lost(cause) from cause
        except OaError:
            raise
        except BaseException:  # an interrupt, perhaps between the driver's return and the line after it
            self._find_out(value)
            raise
        self._recent.append((value, what))
        return value

    def signal(self, timeline: Any, value: int) -> None:
        """Set another timeline once everything submitted so far has finished."""
        self.check()
        try:
            self.device.submit((), signal=(timeline, value))
        except DeviceLost as cause:
            raise self.lost(cause) from cause

    def follow(self, timeline: Any, value: int, what: str) -> int:
        """Let whatever is submitted from now on wait for another timeline; return the value that says it was reached."""
        self.check()
        self.room()
        mine = self.submitted + 1
        try:
            self.device.submit((), wait=((timeline, value),), signal=(self._timeline, mine))
        except DeviceLost as cause:
            raise self.lost(cause) from cause
        self.submitted = mine
        self._recent.append((mine, what))
        return mine

    def _find_out(self, value: int) -> None:
        """Let the driver say whether `value` was submitted: waiting for everything is the only way to ask."""
        try:
            self.device.wait_idle()
            if self._timeline.value() >= value:
                self.submitted = value
        except DeviceLost as cause:
            raise self.lost(cause) from cause

    def room(self) -> None:
        """Wait until fewer than `DEPTH` submissions are in flight."""
        if self.submitted - self.completed >= DEPTH and self.submitted - self.retire() >= DEPTH:
            self.wait(self.submitted - DEPTH + 1)

    def retire(self) -> int:
        """Ask the driver how far it is; return `completed`."""
        if self.completed != self.submitted:
            self.check()
            try:
                value = self._timeline.value()
            except DeviceLost as cause:
                raise self.lost(cause) from cause
            # A lost device may report any value: never past what was submitted.
            self.completed = max(self.completed, min(value, self.submitted))
        return self.completed

    def wait(self, value: int, timeout: float | None = None) -> bool:
        """Wait for a value, at most `timeout` seconds; False when it did not come. One not submitted yet means the last."""
        value = min(value, self.submitted)
        if value > self.completed:
            self.check()
            if not self._await(value, timeout):
                return False
            self.completed = max(self.completed, value)
        if self.completed == self.submitted > self._idled and self.idle is not None and self.refusal is None:
            self._idled = self.submitted
            self.idle()
        return True

    def wait_elsewhere(self, value: int, timeout: float | None = None) -> bool:
        """`wait` for any thread: it changes nothing but holds back `close` until it has returned."""
        with self._lock:
            if value <= self.completed:
                return True
            self.check()
            self._waiters += 1
        try:
            return self._await(value, timeout)
        finally:
            with self._lock:
                self._waiters -= 1
                self._lock.notify_all()

    def _await(self, value: int, timeout: float | None) -> bool:
        forever = timeout is None or timeout > _LONGEST
        deadline = None if timeout is None or forever else time.monotonic_ns() + int(timeout * 1e9)
        while True:
            left = _SLICE if deadline is None else max(0, min(_SLICE, deadline - time.monotonic_ns()))
            try:
                if self._timeline.wait(value, left):
                    return True
            except DeviceLost as cause:
                raise self.lost(cause) from cause
            if deadline is not None and time.monotonic_ns() >= deadline:
                return False

    def lost(self, cause: BaseException) -> DeviceLost:
        """The error for a lost device, naming what was in flight. From here on every use ends in it."""
        running = [what for value, what in self._recent if value > self.completed] or [
            "nothing of this engine"
        ]
        message = (
            f"the device was lost ({cause}) while this ran: {'; '.join(running)}. "
            "Wanted: commands that finish. Make a new engine; if it happens again, run with OA_VALIDATE=1 and report it."
        )
        self.refusal = lambda: DeviceLost(message)
        return DeviceLost(message)

    @property
    def forked(self) -> bool:
        """Whether this is the child of a fork, where nothing may be used or freed."""
        return self.refusal is _forked

    def settle(self) -> bool:
        """Wait for everything submitted before closing something; False when the device is lost and nothing more will run."""
        if self.refusal is None:
            try:
                self.wait(self.submitted)
            except DeviceLost:
                return False  # `refusal` says so from now on, also to events that will never finish
        return self.refusal is None

    def close(self) -> None:
        """Wait for everything submitted, let waiting threads return, and free the timeline. Does nothing in a forked child."""
        if self._closed or self.forked:
            return
        self.settle()
        with self._lock:
            self._closed = True
            if self.refusal is None:
                self.refusal = _closed
            while self._waiters:
                self._lock.wait()
        self._timeline.close()


class Event:
    """When a submission finishes. May be waited for and asked from any thread, also after the engine is closed.

    Example: `event = engine.submit(plan); event.wait(timeout=1.0)`.
    """

    __slots__ = ("_clock", "_finished", "_value")

    def __init__(self, clock: Clock, value: int) -> None:
        self._clock = clock
        self._value = value
        self._finished = False

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it has finished, at most `timeout` seconds; True when it has.

        Raises DeviceLost or ForkedProcess, and ArgumentError for a timeout that is no number of seconds.
        """
        if timeout is not None and not (isinstance(timeout, (int, float)) and timeout >= 0):
            raise ArgumentError(
                f"Event.wait: timeout is {timeout!r}; wanted None or a number of seconds of 0 or more"
            )
        if not self._finished:
            self._finished = self._clock.wait_elsewhere(self._value, timeout)
        return self._finished

    @property
    def done(self) -> bool:
        """Whether it has finished; never blocks."""
        return self.wait(0.0)

    def __repr__(self) -> str:
        return f"<Event {self._value} {'done' if self._finished else 'pending'}>"


def _closed() -> OaError:
    return EngineClosed("the engine is closed, wanted an open one: make a new `oa.Engine()`")


def _forked() -> OaError:
    return ForkedProcess(
        "this engine belongs to the parent of a forked process (got a use in the child): "
        "make an engine in the child, or start workers with the 'spawn' method"
    )


def _after_fork() -> None:
    """In the child the driver's threads and locks are gone: mark every clock, free nothing."""
    for clock in list(_CLOCKS):
        clock.refusal = _forked
        clock._lock = threading.Condition()
        clock._waiters = 0


_CLOCKS: weakref.WeakSet[Clock] = weakref.WeakSet()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
