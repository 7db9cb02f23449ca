"""The compiler's own statistics of a pipeline, from RADV without a card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oa._vk.loader import manifests

ROOT = Path(__file__).resolve().parent.parent.parent
RADV = [m.path for m in manifests({"HOME": "/nonexistent"}) if "radeon" in m.path and not m.problem]

CODE = """
import json, sys
from oa._device import plan
from oa._vk import counts, open_instance
from tests.device.vk_rig import add_kernel
instance = open_instance(api=(1, 2) if sys.argv[1] == "compat" else (1, 3))
adapter = instance.adapters()[0]
profile = plan(adapter.snapshot(), sys.argv[1], sys.argv[2], extra=["pipeline_statistics"])
device = adapter.open(profile)
pipeline = device.pipeline(add_kernel(sys.argv[2]), buffers=2, addressing=sys.argv[2], name="add")
found = pipeline.statistics()
device.close(); instance.close()
print(json.dumps([adapter.snapshot().name, found, counts()]))
"""


@pytest.mark.skipif(not RADV, reason="Mesa's RADV is not installed")
@pytest.mark.parametrize("family", ["polaris10", "vega10", "navi21", "gfx1100"])
@pytest.mark.parametrize(("profile", "addressing"), [("strict", "address"), ("compat", "descriptor")])
def test_registers_and_spills_are_told(family: str, profile: str, addressing: str) -> None:
    env = {**os.environ, "RADV_FORCE_FAMILY": family, "VK_ICD_FILENAMES": RADV[0], "PYTHONPATH": str(ROOT)}
    env.pop("VK_DRIVER_FILES", None)
    ran = subprocess.run(
        [sys.executable, "-c", CODE, profile, addressing], capture_output=True, text=True, env=env, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    name, found, left = json.loads(ran.stdout)
    assert family.upper() in name
    assert found["VGPRs"] > 0
    assert found["Spilled VGPRs"] == found["Spilled SGPRs"] == 0
    assert left == {}
