"""Time on the device, dispatch by dispatch, from timestamps written between them.

A dispatch's time runs from the end of the one before it to its own end, so times never overlap and add up to the whole: where
independent dispatches run at once, the later one is charged only for what it adds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from oa._lower.plan import Plan
from oa._run.clock import Clock
from oa._run.recording import Recording
from oa.errors import InternalError, Unsupported

__all__ = ["Profiler", "Row", "Total"]


@dataclass(frozen=True)
class Row:
    """One dispatch that ran: times in nanoseconds, `start` since the first timestamp of the profile."""

    label: str
    kernel: str
    nodes: tuple[int, ...]
    plan: str
    submission: int
    start: float
    ns: float


@dataclass(frozen=True)
class Total:
    """All dispatches of one label."""

    label: str
    count: int
    ns: float
    share: float  #: of all device time in the profile, 0 to 1


class Profiler:
    """Collects the timestamps of timed submissions. Give it to `Executor.run(timing=...)`; read it any time after.

    `annotate` may give more to say of a row, such as the user's line: it goes into the trace.
    """

    def __init__(self, annotate: Callable[[Row], Mapping[str, str]] | None = None) -> None:
        self._annotate = annotate
        self._rows: list[Row] = []
        self._waiting: list[Recording] = []
        self._origin: int | None = None

    def expect(self, plan: Plan, recording: Recording, clock: Clock) -> None:
        """A timed recording of `plan` was submitted: read it before it is used again."""
        queries, value = recording.queries, recording.value
        if queries is None:
            raise InternalError("profile: the recording has no timestamps")
        period = clock.device.timestamp_period
        if not period:
            raise Unsupported("profile: this device's compute queue has no timestamps")
        steps = tuple(plan.dispatches())

        def read() -> None:
            recording.unread = None
            self._waiting.remove(recording)
            clock.wait(value)
            ticks = queries.read(0, len(steps) + 1)
            origin = self._origin = ticks[0] if self._origin is None else self._origin
            for step, begin, end in zip(steps, ticks, ticks[1:], strict=False):
                label = step.label or step.kernel.name
                start, ns = (begin - origin) * period, max(0.0, (end - begin) * period)
                self._rows.append(Row(label, step.kernel.name, step.nodes, plan.digest, value, start, ns))

        recording.unread = read
        self._waiting.append(recording)

    def rows(self) -> list[Row]:
        """Every dispatch in order of submission. Waits for those still running."""
        for recording in list(self._waiting):
            if recording.unread is not None:
                recording.unread()
        self._rows.sort(key=lambda row: row.submission)
        return list(self._rows)

    def totals(self) -> list[Total]:
        """Time by label, the largest first."""
        sums: dict[str, tuple[int, float]] = {}
        for row in self.rows():
            count, ns = sums.get(row.label, (0, 0.0))
            sums[row.label] = count + 1, ns + row.ns
        whole = sum(ns for _, ns in sums.values()) or 1.0
        made = [Total(label, count, ns, ns / whole) for label, (count, ns) in sums.items()]
        return sorted(made, key=lambda total: (-total.ns, total.label))

    def table(self) -> str:
        """The totals as text."""
        totals = self.totals()
        width = max([9, *(len(total.label) for total in totals)])
        lines = [f"{'operation':<{width}} {'count':>7} {'total us':>12} {'mean us':>10} {'share':>7}"]
        for total in totals:
            us = total.ns / 1e3
            lines.append(
                f"{total.label:<{width}} {total.count:>7} {us:>12.1f} {us / total.count:>10.2f} {total.share:>7.1%}"
            )
        whole = sum(total.ns for total in totals) / 1e3
        lines.append(f"{'all':<{width}} {sum(total.count for total in totals):>7} {whole:>12.1f}")
        return "\n".join(lines) + "\n"

    def write_trace(self, path: str | Path) -> Path:
        """Write a Chrome trace (chrome://tracing, Perfetto) and return its path."""
        events: list[dict[str, object]] = [
            {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "oa device"}},
            {"ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "compute queue"}},
        ]
        for row in self.rows():
            more = dict(self._annotate(row)) if self._annotate is not None else {}
            events.append(
                {
                    "ph": "X",
                    "pid": 0,
                    "tid": 0,
                    "name": row.label,
                    "cat": "dispatch",
                    "ts": row.start / 1e3,
                    "dur": row.ns / 1e3,
                    "args": {
                        "kernel": row.kernel,
                        "nodes": list(row.nodes),
                        "plan": row.plan,
                        "submission": row.submission,
                        **more,
                    },
                }
            )
        target = Path(path)
        target.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}), encoding="utf-8")
        return target
