"""What a device can do at best, for comparing what it does with: figures from `profiles/rooflines.toml`."""

from __future__ import annotations

from dataclasses import dataclass

from oa._device.profile import table
from oa._device.snapshot import Snapshot


@dataclass(frozen=True)
class Roofline:
    """The best that a device reaches: bytes and float32 operations a second, and seconds that each dispatch takes at least.

    `source` says where the figures are from.

    Example:
        >>> roof = Roofline(bytes=1e9, operations=1e10, dispatch=0.0, source="a guess")
        >>> roof.seconds(2_000_000, 1_000_000)
        0.002
        >>> roof.bound(2_000_000, 1_000_000)
        'memory'
    """

    bytes: float
    operations: float
    dispatch: float = 0.0
    source: str = ""

    def seconds(self, moved: int, operations: int) -> float:
        """The least time for so many bytes and operations in one dispatch."""
        return max(moved / self.bytes, operations / self.operations, self.dispatch)

    def bound(self, moved: int, operations: int) -> str:
        """What takes that time: "memory", "arithmetic" or "dispatch"."""
        times = {
            "memory": moved / self.bytes,
            "arithmetic": operations / self.operations,
            "dispatch": self.dispatch,
        }
        return max(times, key=lambda name: times[name])


def roofline(snapshot: Snapshot, cores: int) -> Roofline | None:
    """The roofline of a device, None where no figures are known. `cores` are those that a software device may use."""
    figures = table("rooflines")
    core = figures["core"]
    if snapshot.driver_id in core["drivers"]:
        count = max(1, cores)
        source = f"{core['source']}, times {count}"
        return Roofline(core["bytes"] * count, core["operations"] * count, core["dispatch"], source)
    name = snapshot.name.lower()
    for entry in figures["device"]:
        if entry["name"].lower() in name:
            return Roofline(entry["bytes"], entry["operations"], entry["dispatch"], entry["source"])
    return None
