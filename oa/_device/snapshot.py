"""What one Vulkan device said about itself: plain data, recorded once, read without any driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from oa.errors import FileFormatError

#: Version of the JSON form; raised when a field changes its meaning.
FORMAT = 1


@dataclass(frozen=True)
class MemoryType:
    """One memory type: its property names ("device_local", "host_visible", ...) and the heap it takes from."""

    properties: frozenset[str]
    heap: int


@dataclass(frozen=True)
class MemoryHeap:
    """One memory heap, size in bytes."""

    size: int
    device_local: bool


@dataclass(frozen=True)
class QueueFamily:
    """One queue family: what it can do ("compute", "transfer", ...), how many queues, valid timestamp bits (0: none)."""

    operations: frozenset[str]
    count: int
    timestamp_bits: int


@dataclass(frozen=True)
class Subgroup:
    """Subgroup sizes and, where compute shaders have them, the operation classes ("arithmetic", "shuffle", ...)."""

    size: int
    minimum: int
    maximum: int
    operations: frozenset[str]


@dataclass(frozen=True)
class CooperativeMatrix:
    """One supported cooperative-matrix tuple: C(m x n) + A(m x k) B(k x n), types by name, `scope` "subgroup" or other."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    result: str
    scope: str
    saturating: bool


@dataclass(frozen=True)
class Snapshot:
    """A device as data. `Adapter.snapshot()` records one; `to_json` and `from_json` keep it as a file.

    `kind` is "discrete", "integrated", "virtual", "cpu" or "other"; `uuid` 32 hexadecimal digits; `pci` "0000:01:00.0" or "";
    `limits` holds Vulkan's own limit names (VkPhysicalDeviceLimits and the maintenance structures), arrays as tuples.
    """

    name: str
    kind: str
    vendor_id: int
    device_id: int
    uuid: str
    driver_uuid: str
    cache_uuid: str
    pci: str
    driver_id: str
    driver_name: str
    driver_info: str
    driver_version: int
    api: tuple[int, int, int]
    features: frozenset[str]
    extensions: Mapping[str, int]
    limits: Mapping[str, int | float | tuple[int | float, ...]]
    memory_types: tuple[MemoryType, ...]
    heaps: tuple[MemoryHeap, ...]
    queue_families: tuple[QueueFamily, ...]
    subgroup: Subgroup
    cooperative_matrices: tuple[CooperativeMatrix, ...] = ()
    note: str = field(
        default="", compare=False
    )  #: where the snapshot comes from, for snapshots kept as files

    def limit(self, name: str, default: int = 0) -> int:
        """A scalar limit by its Vulkan name; `default` when the device did not report it."""
        value = self.limits.get(name, default)
        if isinstance(value, tuple):
            raise KeyError(f"{name} is a vector of {len(value)}: read snapshot.limits[{name!r}]")
        return int(value)

    def limit3(self, name: str) -> tuple[int, int, int]:
        """A three-vector limit by its Vulkan name; zeros when the device did not report it."""
        value = self.limits.get(name)
        if not isinstance(value, tuple) or len(value) != 3:
            return (0, 0, 0)
        return int(value[0]), int(value[1]), int(value[2])

    @property
    def memory(self) -> int:
        """Bytes of device-local memory."""
        return sum(heap.size for heap in self.heaps if heap.device_local)

    def to_json(self) -> str:
        """Readable, sorted JSON; equal snapshots give equal text."""
        return json.dumps({"format": FORMAT, **_plain(asdict(self))}, indent=1, sort_keys=True) + "\n"

    @staticmethod
    def from_json(text: str) -> Snapshot:
        """The snapshot written by `to_json`. Raises FileFormatError on anything else."""
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise ValueError(f"wanted format {FORMAT}")
            return _snapshot(data)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise FileFormatError(
                f"not a device snapshot: {problem}; record one with `oa devices --json`"
            ) from problem


def _plain(value: Any) -> Any:
    """JSON form: sets become sorted lists, tuples lists."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _snapshot(data: dict[str, Any]) -> Snapshot:
    known = {f.name for f in fields(Snapshot)}
    if unknown := sorted(set(data) - known):
        raise ValueError(f"unknown fields {', '.join(unknown)}")
    major, minor, patch = data["api"]
    return Snapshot(
        **{
            **data,
            "api": (int(major), int(minor), int(patch)),
            "features": frozenset(data["features"]),
            "limits": {k: tuple(v) if isinstance(v, list) else v for k, v in data["limits"].items()},
            "memory_types": tuple(
                MemoryType(frozenset(t["properties"]), t["heap"]) for t in data["memory_types"]
            ),
            "heaps": tuple(MemoryHeap(**h) for h in data["heaps"]),
            "queue_families": tuple(
                QueueFamily(frozenset(q["operations"]), q["count"], q["timestamp_bits"])
                for q in data["queue_families"]
            ),
            "subgroup": Subgroup(
                **{**data["subgroup"], "operations": frozenset(data["subgroup"]["operations"])}
            ),
            "cooperative_matrices": tuple(CooperativeMatrix(**c) for c in data["cooperative_matrices"]),
        }
    )
