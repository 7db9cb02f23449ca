"""What a device can do, as data: recorded snapshots, profiles planned from them, selection by name. No handles, no driver."""

from oa._device.info import DeviceInfo, describe, to_json
from oa._device.profile import Limits, Profile, is_software, missing, plan
from oa._device.roofline import Roofline, roofline
from oa._device.select import choices, select, usable
from oa._device.snapshot import CooperativeMatrix, MemoryHeap, MemoryType, QueueFamily, Snapshot, Subgroup

__all__ = [
    "CooperativeMatrix",
    "DeviceInfo",
    "Limits",
    "MemoryHeap",
    "MemoryType",
    "Profile",
    "QueueFamily",
    "Roofline",
    "Snapshot",
    "Subgroup",
    "choices",
    "describe",
    "is_software",
    "missing",
    "plan",
    "roofline",
    "select",
    "to_json",
    "usable",
]
