"""What captured plans tell of themselves on a device: text with the user's lines, pictures, reports, in every configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

import oa
from oa import matrix as m
from tools.project import ROOT


def captured(engine: Any) -> Any:
    x = m.from_numpy(engine, np.ones((16, 32), np.float32))
    w = oa.State(engine, m.from_numpy(engine, np.ones((32, 8), np.float32)))

    def step() -> Any:
        y = m.softmax(m.matmul(x, w.value), axis=1)
        w.assign(w.value * 0.5)
        return m.sum(y * m.uniform(engine, (16, 8)))

    return engine.capture(step)


def test_explain_shows_the_users_lines_and_every_dispatch(engine: Any) -> None:
    plan = captured(engine)
    text = plan.explain()
    assert f"{__file__}:" in text
    for number in range(plan.diagnostics["dispatches"]):
        assert any(line.startswith(f"{number}  ") for line in text.splitlines())
    assert engine.device.snapshot.name in text
    assert "roofline 3 GB/s" in plan.explain(oa.Roofline(bytes=3e9, operations=1e9))


def test_looking_runs_nothing_and_changes_nothing(engine: Any, tmp_path: Path) -> None:
    plan = captured(engine)
    before = engine.diagnostics
    plan.explain(), plan.report(), plan.to_json()
    ET.parse(plan.graph(tmp_path / "a.svg"))
    ET.parse(plan.memory_plot(str(tmp_path / "b.svg")))
    assert engine.diagnostics == before
    engine.submit(plan)
    assert np.isfinite(plan.outputs.item())


def test_the_report_is_the_same_before_and_after_running_and_for_another_capture(engine: Any) -> None:
    plan = captured(engine)
    first = plan.to_json()
    engine.submit(plan).wait()
    assert plan.to_json() == first == captured(engine).to_json()
    data = json.loads(first)
    assert data["executable"]["digest"] == plan.report()["executable"]["digest"]
    assert str(ROOT) not in first, "no paths"


CODE = """
import oa
from tests.device.test_inspection import captured
with oa.Engine(device={device!r}) as engine:
    oa.matrix.exp(oa.matrix.ones(engine, ({seed},))).to_numpy()
    print(captured(engine).to_json())
"""


def test_the_report_is_the_same_in_another_process(any_engine: Any, device_name: str) -> None:
    for seed in (3, 17):
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(device=device_name, seed=seed)],
            cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == captured(any_engine).to_json() + "\n"


def test_recompilation_is_counted_and_explained(engine: Any) -> None:
    def run(rows: int) -> None:
        x = m.from_numpy(engine, np.ones((rows, 3), np.float32))
        (m.tanh(x) * 3.0 - x).to_numpy()

    run(5)
    before = engine.diagnostics
    run(5)
    assert engine.diagnostics["lowerings"] == before["lowerings"]
    run(6)
    assert engine.diagnostics["recompilations"] == before["recompilations"] + 1
    assert engine.compilations[-1].changes == ("input 0 has shape (6, 3), had (5, 3)",)


SHOWN = """
import numpy as np, oa
with oa.Engine(device={device!r}) as engine:
    for rows in (5, 5, 6):
        oa.matrix.tanh(oa.matrix.from_numpy(engine, np.ones((rows, 3), np.float32))).to_numpy()
"""


def test_show_prints_each_recompilation_once(device_name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOWN.format(device=device_name)],
        cwd=ROOT, env={**os.environ, "OA_SHOW": "1", "OA_SELFTEST": "0"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "recompiled" in line]
    assert len(said) == 1 and said[0].endswith("input 0 has shape (6, 3), had (5, 3)")
    assert "# tanh" in done.stderr
