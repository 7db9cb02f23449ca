"""Recorded snapshots by name, for tests that need a device's description and no device."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import pytest

from oa._device import MemoryHeap, MemoryType, Snapshot

FOLDER = Path(__file__).resolve().parent.parent / "snapshots"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
SOFTWARE = ("lavapipe-22.3", "swiftshader")


@cache
def snapshot(name: str) -> Snapshot:
    """The snapshot in `tests/snapshots/<name>.json`."""
    return Snapshot.from_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@cache
def card(name: str = "radv-navi21") -> Snapshot:
    """A recorded device as it would be with hardware: RADV without a card reports no memory and no timestamps.

    16 GiB of device memory, of which 256 MiB are host-visible, as on a card without a resizable window.
    """
    host = frozenset(("host_visible", "host_coherent"))
    return dataclasses.replace(
        snapshot(name),
        heaps=(MemoryHeap(16 << 30, True), MemoryHeap(32 << 30, False), MemoryHeap(256 << 20, True)),
        memory_types=(
            MemoryType(frozenset(("device_local",)), 0),
            MemoryType(host | {"device_local"}, 2),
            MemoryType(host, 1),
            MemoryType(host | {"host_cached"}, 1),
        ),
        limits={**snapshot(name).limits, "timestampPeriod": 10.0},
    )


def package_tool(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make `name` the only program on the path."""
    tool = folder / name
    tool.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(folder))
