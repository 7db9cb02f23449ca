"""The command line where there is a device."""

from __future__ import annotations

import json

import pytest

from oa.__main__ import main
from oa._doctor import devices, examine


def test_doctor_is_content(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--device", "auto"]) == 0
    assert "Usable: oa.Engine(device='auto') takes" in capsys.readouterr().out
    assert main(["doctor", "--json", "--device", "auto"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["usable"]
    assert data["devices"][data["chosen"]]["usable"]


def test_doctor_refuses_an_unknown_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--device", "no such card"]) == 1
    assert "valid are 'auto'" in capsys.readouterr().out
    assert examine("no such card").chosen is None


def test_devices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    found = devices()
    assert all(device.name in capsys.readouterr().out for device in found[:1])
    assert main(["devices", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["uuid"] for row in rows] == [device.uuid for device in found]
    assert {"name", "vendor", "kind", "uuid", "pci", "driver", "api", "memory", "capabilities"} <= set(
        rows[0]
    )
