"""No barrier of a real plan can go: without any one of them both the plan checker and the Khronos layer find a hazard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LAYER = "VkLayer_khronos_validation.json"
FOLDERS = (
    "/usr/share/vulkan/explicit_layer.d",
    "/usr/local/share/vulkan/explicit_layer.d",
    "/etc/vulkan/explicit_layer.d",
)


@pytest.mark.skipif(
    not os.environ.get("VK_LAYER_PATH") and not any((Path(f) / LAYER).exists() for f in FOLDERS),
    reason="the Khronos validation layer is not installed",
)
def test_every_barrier_is_missed_by_the_checker_and_by_the_layer() -> None:
    env = {**os.environ, "OA_VALIDATE": "1", "PYTHONPATH": str(ROOT)}
    script = Path(__file__).with_name("without_barriers.py")
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["replays"][0] >= 3, "the optimiser's cells are updated in place"
    assert found["replays"][1] == [] and found["whole"] == ["", []]
    assert found["barriers"] == len(found["without"]) > 10
    for number, (checker, layer) in enumerate(found["without"]):
        assert "without a barrier" in checker, number
        assert any("SYNC-HAZARD" in message for message in layer), number
