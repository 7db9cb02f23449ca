"""SciPy with array API dispatch, unmodified, on oa arrays: results stay on the engine and are NumPy's.

SCIPY_ARRAY_API has to be set before SciPy is imported, so the calls run in a process of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.project import ROOT

pytest.importorskip("scipy")
pytest.importorskip("array_api_compat")

SCRIPT = Path(__file__).parent / "run_scipy.py"


def test_scipy_runs_unmodified(device_name: str, full: bool) -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT), "OA_VALIDATE": "0"}
    command = [sys.executable, str(SCRIPT), device_name, "float32", *(["float64"] if full else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    assert {name.partition(".")[0] for name in found} == {"special", "stats", "signal"}
    wrong = {name: text for name, text in found.items() if text}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
