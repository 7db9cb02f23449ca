"""Every matrix multiplication kernel builds without spills for AMD GPUs: RADV's compiler, without a card."""

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
from oa._kernel.matmul.variants import REDUCE, REGISTERS, TILES, VECTORS
from oa._kernel.pack import default
from oa._vk import open_instance
instance = open_instance()
adapter = instance.adapters()[0]
profile = plan(adapter.snapshot(), "strict", sys.argv[1], extra=["pipeline_statistics"])
device = adapter.open(profile)
found = {}
for variant in (*REGISTERS, *TILES, *VECTORS, REDUCE):
    k = default().kernel(variant.name, sys.argv[1])
    pipeline = device.pipeline(k.words, buffers=k.buffers, addressing=k.addressing, name=k.name)
    found[k.name] = pipeline.statistics()
    pipeline.close()
device.close(); instance.close()
print(json.dumps([adapter.snapshot().name, found]))
"""


@pytest.mark.skipif(not RADV, reason="Mesa's RADV is not installed")
@pytest.mark.parametrize("family", ["polaris10", "vega10", "navi21", "gfx1100"])
@pytest.mark.parametrize("addressing", ["address", "descriptor"])
def test_no_spills(family: str, addressing: str) -> None:
    env = {**os.environ, "RADV_FORCE_FAMILY": family, "VK_ICD_FILENAMES": RADV[0], "PYTHONPATH": str(ROOT)}
    env.pop("VK_DRIVER_FILES", None)
    ran = subprocess.run(
        [sys.executable, "-c", CODE, addressing], capture_output=True, text=True, env=env, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    name, found = json.loads(ran.stdout)
    assert family.upper() in name
    for kernel, statistics in found.items():
        assert statistics["VGPRs"] > 0, kernel
        assert statistics["Spilled VGPRs"] == statistics["Spilled SGPRs"] == 0, f"{kernel}: {statistics}"
        assert statistics.get("Scratch size", 0) == 0, f"{kernel}: {statistics}"
