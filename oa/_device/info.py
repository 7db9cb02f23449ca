"""What a user is told about a device: `oa.devices()` and `oa devices`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from oa._device.profile import plan, vendor_name
from oa._device.select import lacks, usable
from oa._device.snapshot import Snapshot


@dataclass(frozen=True)
class DeviceInfo:
    """One device, as listed by `oa.devices()`. `index`, `uuid` and any part of `name` are what `Engine(device=...)` takes."""

    index: int
    name: str
    vendor: str
    kind: str  #: "discrete", "integrated", "virtual", "cpu" or "other"
    software: bool
    uuid: str
    pci: str
    driver: str
    api: str
    memory: int  #: bytes of device-local memory
    usable: bool
    profile: str  #: the profile that would be used, "" when not usable
    addressing: str
    capabilities: tuple[str, ...]
    lacks: tuple[str, ...]  #: what keeps it from being usable

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def describe(index: int, snapshot: Snapshot) -> DeviceInfo:
    """The user's view of one device."""
    fits = usable(snapshot)
    profile = plan(snapshot) if fits else None
    uuid = snapshot.uuid
    return DeviceInfo(
        index=index,
        name=snapshot.name,
        vendor=vendor_name(snapshot.vendor_id),
        kind=snapshot.kind,
        software=profile.software if profile else snapshot.kind == "cpu",
        uuid="-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])) if uuid else "",
        pci=snapshot.pci,
        driver=" ".join(filter(None, (snapshot.driver_name, snapshot.driver_info))),
        api=".".join(map(str, snapshot.api)),
        memory=snapshot.memory,
        usable=fits,
        profile=profile.name if profile else "",
        addressing=profile.addressing if profile else "",
        capabilities=tuple(sorted(profile.features if profile else snapshot.features)),
        lacks=tuple(lacks(snapshot)),
    )


def to_json(devices: Sequence[DeviceInfo]) -> str:
    """A JSON array of devices."""
    return json.dumps([device.as_dict() for device in devices], indent=1)
