"""The pipeline cache on disk, and the profiler's reports."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from oa._run.cache import DiskCache
from oa._run.clock import Clock
from oa._run.executor import Executor
from oa._run.pool import Pool
from oa._run.profiler import Profiler, Row
from oa.errors import Unsupported, VulkanError
from tests.null.run_fakes import FakeDevice, profile, small_plan


def test_saved_bytes_come_back_whole(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new" / "folder", "fp")
    assert cache.load() == b""
    for data in (b"", b"x", os.urandom(10_000)):
        assert cache.save(data) and cache.load() == data
    assert [p.name for p in (tmp_path / "new" / "folder" / "pipelines").iterdir()] == ["fp.bin"]
    assert DiskCache(tmp_path / "new" / "folder", "other").load() == b""


def test_damaged_files_are_ignored(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, "fp")
    cache.save(os.urandom(200))
    assert cache.path is not None
    whole = cache.path.read_bytes()
    for size in (0, 1, 15, 16, 47, 48, len(whole) - 1):
        cache.path.write_bytes(whole[:size])
        assert cache.load() == b""
    for at in (0, 20, 60, len(whole) - 1):
        broken = bytearray(whole)
        broken[at] ^= 1
        cache.path.write_bytes(broken)
        assert cache.load() == b""
    cache.path.write_bytes(whole + b"more")
    assert cache.load() == b""


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "pipelines").write_text("a file where the folder should be")
    cache = DiskCache(tmp_path, "fp")
    assert not cache.save(b"x") and cache.load() == b""
    assert not DiskCache(None, "fp").save(b"x") and DiskCache(None, "fp").load() == b""


def executor(device: FakeDevice, directory: Path) -> tuple[Executor, Pool, Clock]:
    clock = Clock(device)
    pool = Pool(device, clock)
    return Executor(device, pool, clock, directory), pool, clock


def test_the_executor_saves_when_idle_and_at_close_and_loads_at_start(tmp_path: Path) -> None:
    file = tmp_path / "pipelines" / "0123456789abcdef.bin"
    runner, pool, clock = executor(FakeDevice(), tmp_path)
    a, b = pool.allocate(1024), pool.allocate(1024)
    first = runner.run(small_plan(), [a], [b])
    assert not file.exists()
    clock.wait(first)
    assert DiskCache(tmp_path, "0123456789abcdef").load() == b"+"
    file.unlink()
    clock.wait(runner.run(small_plan(), [a], [b]))
    runner.close()
    assert not file.exists(), "nothing new was made"

    DiskCache(tmp_path, "0123456789abcdef").save(b"old")
    device = FakeDevice()
    runner, pool, clock = executor(device, tmp_path)
    runner.run(small_plan(), [pool.allocate(1024)], [pool.allocate(1024)])
    runner.close()
    assert DiskCache(tmp_path, "0123456789abcdef").load() == b"old+"


def test_a_driver_that_refuses_the_saved_cache_gets_an_empty_one(tmp_path: Path) -> None:
    DiskCache(tmp_path, "0123456789abcdef").save(b"old")
    device = FakeDevice()
    device.fail("pipeline_cache", lambda: VulkanError("bad data"))
    runner, pool, _ = executor(device, tmp_path)
    runner.run(small_plan(), [pool.allocate(1024)], [pool.allocate(1024)])
    device.fail("cache_data", lambda: VulkanError("no data"))
    runner.close()
    pool.close()
    assert device.live == {**device.live, "pipeline_cache": 0, "pipeline": 0}
    assert DiskCache(tmp_path, "0123456789abcdef").load() == b"old"


def test_totals_table_and_trace(tmp_path: Path) -> None:
    runner, pool, _ = executor(FakeDevice(), tmp_path)
    a, b = pool.allocate(1024), pool.allocate(1024)
    seen: list[Row] = []

    def annotate(row: Row) -> dict[str, str]:
        seen.append(row)
        return {"line": f"demo.py:{row.nodes[0]}"}

    timing = Profiler(annotate)
    for _ in range(2):
        runner.run(small_plan(digest="abc"), [a], [b], timing=timing)
    totals = timing.totals()
    assert [(t.label, t.count, t.ns) for t in totals] == [("step1", 2, 80.0), ("step0", 2, 40.0)]
    assert sum(t.share for t in totals) == pytest.approx(1)
    lines = timing.table().splitlines()
    assert lines[1].split() == ["step1", "2", "0.1", "0.04", "66.7%"] and lines[-1].split() == [
        "all",
        "4",
        "0.1",
    ]
    trace = json.loads(timing.write_trace(tmp_path / "trace.json").read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["dur"]) for e in events] == [("step0", 0.02), ("step1", 0.04)] * 2
    assert events[1]["args"] == {
        "kernel": "k",
        "nodes": [1],
        "plan": "abc",
        "submission": 1,
        "line": "demo.py:1",
    }
    assert events[1]["ts"] == events[0]["ts"] + events[0]["dur"]
    assert len(seen) == 4
    runner.close()


def test_a_profile_of_nothing_and_a_queue_without_timestamps(tmp_path: Path) -> None:
    assert Profiler().rows() == [] and Profiler().table().splitlines()[-1].split() == ["all", "0", "0.0"]
    runner, pool, _ = executor(FakeDevice(profile(timestamp_period=0.0)), tmp_path)
    plan = small_plan()
    with pytest.raises(Unsupported, match="timestamps"):
        runner.run(plan, [pool.allocate(1024)], [pool.allocate(1024)], timing=Profiler())
    runner.close()
