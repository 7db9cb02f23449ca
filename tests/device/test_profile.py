"""Profiles on a device: cost and roofline of each dispatch, time by the user's lines, a trace that viewers open."""

from __future__ import annotations

import inspect
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa._run.profiler import Profiler, Row


@pytest.fixture
def engine_with_timestamps(any_engine: Any) -> Any:
    if not any_engine.device.timestamp_period:
        pytest.skip("the device's compute queue has no timestamps")
    return any_engine


def here(offset: int = 0) -> str:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno + offset}"


def test_every_row_has_its_cost_and_time_is_charged_to_the_users_lines(engine_with_timestamps: Any) -> None:
    engine = engine_with_timestamps
    x = m.from_numpy(engine, np.ones((64, 64), np.float32))
    with engine.profile() as p:
        product, line = m.matmul(x, x), here()
        y, other = m.tanh(product), here()
        y.to_numpy()
        plan = engine.capture(lambda: m.sum(x, axis=1))
        captured = here(-1)
        engine.submit(plan).wait()
    rows = p.rows()
    assert all(row.cost.read and row.cost.written for row in rows)
    totals = {t.label: t for t in p.line_totals()}
    assert set(totals) == {line, other, captured}
    assert sum(t.ns for t in totals.values()) == pytest.approx(sum(row.ns for row in rows))
    assert line in p.lines() and "line" in p.lines().splitlines()[0]


def test_what_the_roofline_allows_beside_what_was_reached(engine_with_timestamps: Any) -> None:
    engine = engine_with_timestamps
    x = m.from_numpy(engine, np.ones(1 << 16, np.float32))
    with engine.profile() as p:
        m.exp(x).to_numpy()
    (row,) = p.rows()
    p.roofline = oa.Roofline(bytes=1e9, operations=1e15)
    assert p.least(row) == pytest.approx((row.cost.read + row.cost.written) * 1.0)
    (total,) = p.totals()
    assert total.least == p.least(row) and "of roof" in p.table()
    if row.ns:
        assert total.fraction == pytest.approx(p.least(row) / row.ns)
    p.roofline = None
    assert p.totals()[0].fraction is None and "of roof" not in p.table()


def test_without_a_profile_nothing_is_kept(engine_with_timestamps: Any) -> None:
    engine = engine_with_timestamps
    with engine.profile():
        m.ones(engine, (8,)).to_numpy()
    assert not engine._lines
    (m.ones(engine, (8,)) + 1.0).to_numpy()
    assert not engine._lines and engine._profiler is None


def test_the_trace_is_what_viewers_of_the_format_ask_for(engine_with_timestamps: Any, tmp_path: Path) -> None:
    """The Trace Event Format: an object with `traceEvents`; complete events with name, ts and dur in microseconds, pid, tid."""
    engine = engine_with_timestamps
    x = m.from_numpy(engine, np.ones((32, 32), np.float32))
    with engine.profile() as p:
        m.matmul(m.exp(x), x).to_numpy()
    data = json.loads(p.write_trace(tmp_path / "trace.json").read_text(encoding="utf-8"))
    events = data["traceEvents"]
    assert data["displayTimeUnit"] in ("ms", "ns")
    assert {e["ph"] for e in events} == {"M", "X"}
    complete = [e for e in events if e["ph"] == "X"]
    assert len(complete) == len(p.rows())
    for e in complete:
        assert isinstance(e["name"], str) and e["name"]
        assert e["ts"] >= 0 and e["dur"] >= 0 and isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert e["args"]["bytes read"] > 0 and "test_profile.py:" in e["args"]["lines"]
        if p.roofline is not None and e["dur"]:
            assert e["args"]["roofline fraction"] > 0 and e["args"]["bound by"] in (
                "memory",
                "arithmetic",
                "dispatch",
            )
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(complete))


def test_a_row_without_a_cost_has_no_fraction() -> None:
    p = Profiler(None, oa.Roofline(1e9, 1e9))
    assert p.least(Row("a", "k", (), "d", 1, 0.0, 5.0)) is None
    assert p.table().splitlines()[-1].split() == ["all", "0", "0.0"]
