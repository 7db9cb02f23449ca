"""Nothing grows: Vulkan objects, resident memory, device memory and tables over many iterations of what programs do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CONFIGURATIONS

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = Path(__file__).with_name("workloads.py")
MIB = 1 << 20
WORKLOADS = ("eager", "train", "replay", "drop")
SMALL_TABLES = "new shapes in small tables"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads resident memory from /proc/self/statm"
)


def observed(workload: str, configuration: str, device: str, first: int, last: int) -> dict[str, Any]:
    profile, addressing = CONFIGURATIONS[configuration]
    # The validation layer keeps a state of its own for every object that it sees.
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OA_VALIDATE": "0"}
    command = [
        sys.executable,
        str(SCRIPT),
        workload,
        profile,
        addressing or "",
        device,
        str(first),
        str(last),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def expect_no_growth(found: dict[str, Any]) -> None:
    first, last = found["first"], found["last"]
    assert last["vulkan"] == first["vulkan"]
    assert last["resident"] - first["resident"] <= MIB
    assert (last["allocated"], last["reserved"]) == (first["allocated"], first["reserved"])
    assert last["tables"] == first["tables"]
    assert last["objects"] - first["objects"] < 100
    assert found["closed"] == {}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_iterations_leave_nothing(workload: str, device_name: str) -> None:
    configuration = list(CONFIGURATIONS)[WORKLOADS.index(workload) % 3]
    expect_no_growth(observed(workload, configuration, device_name, 100, 600))


def test_tables_stay_within_their_bounds(device_name: str) -> None:
    found = observed(SMALL_TABLES, "strict-descriptor", device_name, 240, 480)
    first, last = found["first"], found["last"]
    assert last["tables"]["programs"] == first["tables"]["programs"] == 16
    assert max(first["tables"]["kernels"], last["tables"]["kernels"]) <= 16
    assert max(first["vulkan"]["pipeline"], last["vulkan"]["pipeline"]) <= 16 + 8 + 4
    for table in ("scalars", "specs"):
        assert last["tables"][table] <= 1.25 * first["tables"][table]
    assert last["objects"] - first["objects"] < 2000  # without bounds 15,000 more
    assert last["resident"] - first["resident"] <= 2 * MIB  # the driver's compiler takes some


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_ten_thousand_iterations_leave_nothing(workload: str, configuration: str, device_name: str) -> None:
    expect_no_growth(observed(workload, configuration, device_name, 1000, 10_000))
