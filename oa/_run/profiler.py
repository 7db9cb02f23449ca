"""Time on the device, dispatch by dispatch, from timestamps written between them.

A dispatch's time runs from the end of the one before it to its own end, so times never overlap and add up to the whole: where
independent dispatches run at once, the later one is charged only for what it adds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from oa._device import Roofline
from oa._lower.plan import NO_COST, Cost, Plan
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
    cost: Cost = NO_COST
    more: Mapping[str, str] = field(default_factory=dict, compare=False)  #: what else is known of it


@dataclass(frozen=True)
class Total:
    """All dispatches of one label."""

    label: str
    count: int
    ns: float
    share: float  #: of all device time in the profile, 0 to 1
    least: float | None = (
        None  #: nanoseconds that the roofline allows for them at best; None where it is not known
    )

    @property
    def fraction(self) -> float | None:
        """The part of what the device could do that was reached, 0 to 1."""
        return None if self.least is None or not self.ns else self.least / self.ns


class Profiler:
    """Collects the timestamps of timed submissions. Give it to `Executor.run(timing=...)`; read it any time after.

    `annotate` may give more to say of a row, such as the user's lines ("lines", separated by "; "): it goes into the trace.
    `roofline` is what the device reaches at best.
    """

    def __init__(
        self,
        annotate: Callable[[Row], Mapping[str, str]] | None = None,
        roofline: Roofline | None = None,
    ) -> None:
        self._annotate = annotate
        self.roofline = roofline
        self._rows: list[Row] = []
        self._waiting: list[Recording] = []
        self._origin: int | None = None
        self._period = 1.0  #: nanoseconds a tick

    def __repr__(self) -> str:
        labels = {row.label for row in self._rows}
        text = f"{len(self._rows)} dispatches of {len(labels)} operations, {sum(r.ns for r in self._rows) / 1e3:.1f} us"
        running = f", {len(self._waiting)} submissions not read yet" if self._waiting else ""
        return f"<oa Profiler: {text}{running}; see .table(), .rows(), .write_trace(path)>"

    def expect(self, plan: Plan, recording: Recording, clock: Clock) -> None:
        """A timed recording of `plan` was submitted: read it before it is used again."""
        queries, value = recording.queries, recording.value
        if queries is None:
            raise InternalError("profile: the recording has no timestamps")
        period = self._period = clock.device.timestamp_period
        if not period:
            raise Unsupported("profile: this device's compute queue has no timestamps")
        steps, annotate = tuple(plan.dispatches()), self._annotate

        def read() -> None:
            recording.unread = None
            self._waiting.remove(recording)
            clock.wait(value)
            ticks = queries.read(0, len(steps) + 1)
            origin = self._origin = ticks[0] if self._origin is None else self._origin
            for step, begin, end in zip(steps, ticks, ticks[1:], strict=False):
                label = step.label or step.kernel.name
                start, ns = (begin - origin) * period, max(0.0, (end - begin) * period)
                row = Row(label, step.kernel.name, step.nodes, plan.digest, value, start, ns, step.cost)
                # Said now: what the engine keeps of the user's lines goes when the profile ends.
                self._rows.append(row if annotate is None else replace(row, more=annotate(row)))

        recording.unread = read
        self._waiting.append(recording)

    def rows(self) -> list[Row]:
        """Every dispatch in order of submission. Waits for those still running."""
        for recording in list(self._waiting):
            if recording.unread is not None:
                recording.unread()
        self._rows.sort(key=lambda row: row.submission)
        return list(self._rows)

    def least(self, row: Row) -> float | None:
        """Nanoseconds that the roofline allows for a row's work at best; None where it is not known."""
        if self.roofline is None or row.cost == NO_COST:
            return None
        return self.roofline.seconds(row.cost.read + row.cost.written, row.cost.operations) * 1e9

    def include(self, inner: Profiler) -> None:
        """Take over what a profile inside this one saw."""
        mine, found = self.rows(), inner.rows()
        if inner._origin is None:
            return
        if self._origin is None:
            self._origin, self._period = inner._origin, inner._period
        shift = (inner._origin - self._origin) * self._period
        self._rows = sorted(
            [*mine, *(replace(row, start=row.start + shift) for row in found)], key=lambda row: row.submission
        )

    def totals(self) -> list[Total]:
        """Time by label, the largest first."""
        return self._totals(lambda row: [row.label])

    def line_totals(self) -> list[Total]:
        """Time by the user's line, the largest first. A dispatch of several lines counts in equal parts for each, what has no
        line under "?"."""
        return self._totals(lambda row: row.more.get("lines", "?").split("; "))

    def _totals(self, names: Callable[[Row], list[str]]) -> list[Total]:
        sums: dict[str, tuple[int, float, float | None]] = {}
        for row in self.rows():
            found, least = names(row), self.least(row)
            for name in found:
                count, ns, known = sums.get(name, (0, 0.0, 0.0))
                best = None if known is None or least is None else known + least / len(found)
                sums[name] = count + 1, ns + row.ns / len(found), best
        whole = sum(ns for _, ns, _ in sums.values()) or 1.0
        made = [Total(name, count, ns, ns / whole, best) for name, (count, ns, best) in sums.items()]
        return sorted(made, key=lambda total: (-total.ns, total.label))

    def table(self) -> str:
        """The totals as text; the last column is the part of the roofline that was reached."""
        return self._table("operation", self.totals())

    def lines(self) -> str:
        """The totals by the user's line as text."""
        return self._table("line", self.line_totals())

    def _table(self, what: str, totals: list[Total]) -> str:
        width = max([9, *(len(total.label) for total in totals)])
        roof = f" {'of roof':>8}" if self.roofline is not None else ""
        lines = [f"{what:<{width}} {'count':>7} {'total us':>12} {'mean us':>10} {'share':>7}{roof}"]
        for total in totals:
            us = total.ns / 1e3
            reached = "" if total.fraction is None else f"{total.fraction:>8.1%}"
            lines.append(
                f"{total.label:<{width}} {total.count:>7} {us:>12.1f} {us / total.count:>10.2f} {total.share:>7.1%}"
                + (f" {reached:>8}" if roof else "")
            )
        whole = sum(total.ns for total in totals) / 1e3
        lines.append(f"{'all':<{width}} {len(self._rows):>7} {whole:>12.1f}")
        return "\n".join(lines) + "\n"

    def _work(self, row: Row) -> dict[str, object]:
        """What a row's work took, for the trace."""
        cost = row.cost
        if cost == NO_COST:
            return {}
        moved = cost.read + cost.written
        found: dict[str, object] = {
            "bytes read": cost.read,
            "bytes written": cost.written,
            "operations": cost.operations,
        }
        least = self.least(row)
        if self.roofline is not None and least is not None and row.ns:
            found["bound by"] = self.roofline.bound(moved, cost.operations)
            found["roofline fraction"] = round(least / row.ns, 4)
        if row.ns:
            found["GB/s"] = round(moved / row.ns, 3)
        return found

    def write_trace(self, path: str | Path) -> Path:
        """Write a Chrome trace (chrome://tracing, Perfetto) and return its path."""
        events: list[dict[str, object]] = [
            {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "oa device"}},
            {"ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "compute queue"}},
        ]
        for row in self.rows():
            more = {**self._work(row), **row.more}
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
