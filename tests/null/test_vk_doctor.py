"""`oa doctor` and the rest of the command line, where there is nothing to find."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oa import _doctor
from oa.__main__ import main
from oa._device import describe
from oa._doctor import Driver, Problem, Report, advise, examine, line
from oa._vk import loader
from tests.null.device_fixtures import card, package_tool, snapshot
from tools.gen_vk import ROOT


def report(**fields: Any) -> Report:
    """A report of a machine without anything, then changed."""
    empty = Report("0", "3", "Linux", "", "", (), False, (), None, "auto")
    return dataclasses.replace(empty, **fields)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")}
    command = [sys.executable, "-m", "oa", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**env, **environment}, cwd=ROOT)


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
def test_the_variable_that_hides_drivers_is_named(variable: str) -> None:
    told = run("doctor", **{variable: "/nonexistent"})
    assert told.returncode == 1
    assert f"PROBLEM: {variable}=/nonexistent replaces the search" in told.stdout
    assert f"type: unset {variable}" in told.stdout
    assert ("older spelling" in told.stdout) == (variable == "VK_ICD_FILENAMES")
    assert told.stderr == ""
    machine = run("doctor", "--json", **{variable: "/nonexistent"})
    data = json.loads(machine.stdout)
    assert machine.returncode == 1
    assert not data["usable"]
    assert data["override"] == f"{variable}=/nonexistent"
    assert data["problems"][0] == {
        "what": data["problems"][0]["what"], "remedy": f"unset {variable}", "blocking": True
    }  # fmt: skip
    listed = run("devices", **{variable: "/nonexistent"})
    assert listed.returncode == 1
    assert listed.stderr.startswith("oa: no Vulkan driver")
    assert "Traceback" not in listed.stderr


def first(made: Report, fault: str = "") -> Problem:
    return advise(made, fault)[0]


def test_remedies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package_tool(tmp_path, monkeypatch, "dnf")
    monkeypatch.setattr(_doctor.glob, "glob", lambda pattern: [])
    bare = first(report())
    assert bare == Problem(
        "no Vulkan loader and no Vulkan driver are installed",
        "sudo dnf install -y vulkan-loader mesa-vulkan-drivers",
        True,
    )
    assert first(report(loader="libvulkan.so.1")).what == "no Vulkan driver is installed"
    works, broken = (
        Driver("a.json", "a.so", "1.3", ""),
        Driver("b.json", "b.so", "1.3", "libLLVM.so: not found"),
    )
    assert first(report(drivers=(works,)), "it said no").what == "it said no"
    assert Problem("b.json: libLLVM.so: not found", "", False) in advise(report(drivers=(works, broken)))
    old = dataclasses.replace(card(), api=(1, 1, 0))
    assert first(report(drivers=(works,), devices=(describe(0, old),))).what == "no device has what oa needs"
    hidden = report(override="VK_DRIVER_FILES=/x.json", drivers=(works,))
    assert "find no device here" in first(hidden).what


def test_a_wrong_request_lists_the_valid_ones() -> None:
    found = (describe(0, snapshot("lavapipe-22.3")),)
    said = first(report(devices=found, requested="gpu"), "no hardware device is present")
    assert said == Problem("no hardware device is present", "", True)


def test_hardware_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_doctor.sys, "platform", "linux")
    monkeypatch.setattr(loader, "extra_manifests", list)
    software = report(devices=(describe(0, snapshot("lavapipe-22.3")),))
    hints = _doctor._hardware_hints(software, ["/dev/nvidia0"])
    assert "NVIDIA_DRIVER_CAPABILITIES" in hints[0].remedy
    extra = loader.Manifest("/usr/local/nvidia/icd.json", "x.so")
    monkeypatch.setattr(loader, "extra_manifests", lambda: [extra])
    assert (
        _doctor._hardware_hints(software, ["/dev/nvidia0"])[0].remedy
        == "export VK_DRIVER_FILES=/usr/local/nvidia/icd.json"
    )
    closed = _doctor._hardware_hints(software, ["/dev/dri/renderD999"])
    assert "render" in closed[0].remedy
    hardware = report(devices=(describe(0, card()),))
    assert _doctor._hardware_hints(hardware, ["/dev/nvidia0", "/dev/dri/renderD999"]) == []
    assert _doctor._hardware_hints(software, []) == []


def test_text_names_the_device_taken() -> None:
    found = (describe(0, snapshot("lavapipe-22.3")), describe(1, dataclasses.replace(card(), api=(1, 1, 0))))
    text = report(devices=found, chosen=0).text()
    assert "-> 0  llvmpipe" in text
    assert "unusable: lacks Vulkan 1.2" in text
    assert text.endswith("takes llvmpipe (LLVM 15.0.6, 256 bits).")
    assert "computes on the CPU" in advise(report(devices=found, chosen=0, loader="x"))[0].what
    assert "opened directly" in advise(report(devices=found, chosen=0))[0].what
    assert "16.2 GiB" in line(describe(0, card()))


def test_examine_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "")
    monkeypatch.setattr(loader, "LOADERS", ("libnothing-like-it.so.1",))
    made = examine()
    assert not made.usable
    assert made.loader == ""
    assert made.problems[0].remedy == "unset VK_DRIVER_FILES"
    assert json.loads(json.dumps(made.as_dict()))["devices"] == []


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status in ((["--version"], 0), (["--help"], 0), ([], 2), (["nonsense"], 2)):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == status
    assert "doctor" in capsys.readouterr().out
