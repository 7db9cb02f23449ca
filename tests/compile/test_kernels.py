"""Every static kernel and a corpus of emitted ones build without spills for four generations of AMD GPUs, without a card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oa._kernel.pack import default
from oa._vk.loader import manifests

ROOT = Path(__file__).resolve().parent.parent.parent
RADV = [m.path for m in manifests({"HOME": "/nonexistent"}) if "radeon" in m.path and not m.problem]
FAMILIES = ("polaris10", "vega10", "navi21", "gfx1100")
ADDRESS, DESCRIPTOR = ("strict", "address"), ("compat", "descriptor")

pytestmark = pytest.mark.skipif(not RADV, reason="Mesa's RADV is not installed")


def built(family: str, profile: str, addressing: str, least: int = 0) -> dict[str, Any]:
    env = {**os.environ, "RADV_FORCE_FAMILY": family, "VK_ICD_FILENAMES": RADV[0], "OA_VALIDATE": "0"}
    env.pop("VK_DRIVER_FILES", None)
    command = [
        sys.executable,
        "-m",
        "tests.compile.corpus",
        profile,
        addressing,
        f"--least={least}",
        "--json",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert family.upper() in found["device"]
    return found


def expect_registers_to_suffice(found: dict[str, Any], addressing: str) -> None:
    for name, row in found["kernels"].items():
        assert row["VGPRs"] > 0, name
        for what in ("Spilled VGPRs", "Spilled SGPRs", "Scratch size"):
            assert row[what] == 0, f"{name}: {what} {row[what]} with {row['VGPRs']} VGPRs"
    names = set(default().names(addressing))
    assert names & set(found["kernels"]) | set(found["refused"]) == names
    # Those for software devices, and those for whom this one has no subgroups.
    small, other = "subgroups of 8,", "subgroups of 32, the device has 64 to 64"
    assert all(small in why or other in why for why in found["refused"].values())
    assert found["schedules"] == [
        "epilogue", "flat", "group", "group partial", "serial", "serial partial", "tile",
    ]  # fmt: skip
    for part in ("maps", "rows", "epilogues", "demo"):
        assert sum(name.startswith(part) for name in found["kernels"]) >= 10, part


CASES = [(family, ADDRESS if k % 2 else DESCRIPTOR) for k, family in enumerate(FAMILIES)]
OTHERS = [(family, DESCRIPTOR if k % 2 else ADDRESS) for k, family in enumerate(FAMILIES)]


@pytest.mark.parametrize(("family", "how"), CASES)
def test_kernels_build_without_spills(family: str, how: tuple[str, str]) -> None:
    expect_registers_to_suffice(built(family, *how), how[1])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_thousand_emitted_kernels_build_without_spills(family: str) -> None:
    found = built(family, *CASES[FAMILIES.index(family)][1], least=1000)
    expect_registers_to_suffice(found, CASES[FAMILIES.index(family)][1][1])
    assert len(set(found["kernels"]) - set(default().names())) >= 1000


@pytest.mark.slow
@pytest.mark.parametrize(("family", "how"), OTHERS)
def test_kernels_build_without_spills_the_other_way(family: str, how: tuple[str, str]) -> None:
    expect_registers_to_suffice(built(family, *how), how[1])
