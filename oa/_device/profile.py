"""How `oa` uses one device: a pure function of its snapshot and of the profile files beside this module."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from oa._device.features import PASSIVE, extension_of
from oa._device.snapshot import Snapshot
from oa._device.tuned import UNTUNED, Tuned
from oa.errors import ArgumentError, Unsupported

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FOLDER = Path(__file__).with_name("profiles")
PROFILES = ("strict", "compat")
ADDRESSINGS = ("address", "descriptor")
#: "stable": every operation rounds as documented, alone and fused alike. "deterministic": besides, nothing that was measured
#: decides, so that another run or machine of the kind has the same bits. "fast": the passes of `oa._lower.fast` may round
#: otherwise.
NUMERICS = ("stable", "deterministic", "fast")
#: Limits that a driver does not report count as unlimited.
UNREPORTED = 1 << 62


@dataclass(frozen=True)
class Limits:
    """Limits that lowering and execution respect: sizes in bytes, `timestamp_period` in nanoseconds a tick."""

    max_groups: tuple[int, int, int]
    max_local: tuple[int, int, int]
    max_invocations: int
    shared_bytes: int
    max_storage_range: int
    max_allocation: int
    subgroup_size: int
    subgroup_min: int
    subgroup_max: int
    push_bytes: int
    storage_buffers: int  #: in one descriptor set of one compute stage
    offset_alignment: int  #: of storage-buffer bindings
    uniform_alignment: int  #: of uniform-buffer bindings, which argument blocks are with descriptors
    timestamp_period: float


@dataclass(frozen=True)
class Profile:
    """What is enabled on a device and how kernels address memory. Made by `plan`; read by lowering, `_vk` and `_run`."""

    name: str  #: "strict" or "compat"
    addressing: str  #: "address" or "descriptor"
    software: bool
    vendor: str
    features: frozenset[str]
    extensions: tuple[str, ...]
    limits: Limits
    unified_memory: bool  #: the host reads and writes device memory at full speed
    fingerprint: str  #: 16 hexadecimal digits: vendor, device, driver version, UUIDs
    tuning: str  #: "cpu" or "gpu"
    api: tuple[int, int]  #: the Vulkan version that the device is used as
    trusted: frozenset[str] = (
        frozenset()
    )  #: native operations seen to round correctly: "fdiv", "fsqrt", "ffma"
    texels: bool = False  #: kernels read what they only read as uniform texel buffers (`_texels`)
    numeric: str = "stable"  #: one of NUMERICS
    tuned: Tuned = UNTUNED  #: measured choices, which go before those of the cost models


@cache
def table(name: str) -> Mapping[str, Any]:
    """The parsed `profiles/<name>.toml`."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def is_software(snapshot: Snapshot) -> bool:
    """True when the device computes on the CPU."""
    rule = table("devices")["software"]
    return snapshot.kind in rule["kinds"] or snapshot.driver_id in rule["drivers"]


def vendor_name(vendor_id: int) -> str:
    """Short vendor name, such as "nvidia"; the hexadecimal id when it is not in the table."""
    names = {int(key, 0): str(value) for key, value in table("devices")["vendors"].items()}
    return names.get(vendor_id, f"0x{vendor_id:04x}")


def fingerprint(snapshot: Snapshot) -> str:
    """Digest that changes with the device or its driver: the key of everything cached per device."""
    parts = (
        snapshot.vendor_id,
        snapshot.device_id,
        snapshot.driver_id,
        snapshot.driver_version,
        snapshot.driver_info,
    )
    text = "/".join(map(str, (*parts, snapshot.uuid, snapshot.driver_uuid, snapshot.cache_uuid)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def quirks(snapshot: Snapshot) -> dict[str, str]:
    """Capabilities that the device offers and `oa` does not use, with the reason."""
    rules = [rule for rule in table("devices")["quirks"] if rule["driver"] == snapshot.driver_id]
    return {str(name): str(rule["reason"]) for rule in rules for name in rule["without"]}


def missing(snapshot: Snapshot, profile: str) -> list[str]:
    """What a device lacks for a profile, in words; empty when it fits."""
    rule = table(profile)
    need = (int(rule["api"][0]), int(rule["api"][1]))
    lacks = []
    if snapshot.api[:2] < need:
        lacks.append(f"Vulkan {need[0]}.{need[1]} (it has {snapshot.api[0]}.{snapshot.api[1]})")
    lacks += [name for name in rule["required"] if not _available(snapshot, name, need)]
    if not any("compute" in family.operations for family in snapshot.queue_families):
        lacks.append("a compute queue")
    return lacks


def _available(snapshot: Snapshot, name: str, api: tuple[int, int]) -> bool:
    extension = extension_of(name, api)
    present = name in snapshot.features and name not in quirks(snapshot)
    return present and (extension is None or extension in snapshot.extensions)


def plan(
    snapshot: Snapshot,
    profile: str | None = None,
    addressing: str | None = None,
    *,
    extra: Iterable[str] = (),
) -> Profile:
    """Decide how a device is used.

    `profile` None takes "strict" where the device allows it, else "compat"; `addressing` None takes the device's preference.
    `extra` names capabilities wanted besides the profile's, for example "pipeline_statistics" in the compile tests.
    Raises Unsupported, naming what the device lacks, and ArgumentError for an unknown profile or addressing.
    """
    if profile is not None and profile not in PROFILES:
        raise ArgumentError(f"profile: got {profile!r}, wanted one of {', '.join(PROFILES)} or None")
    if addressing is not None and addressing not in ADDRESSINGS:
        raise ArgumentError(f"addressing: got {addressing!r}, wanted one of {', '.join(ADDRESSINGS)} or None")
    name = profile or ("compat" if missing(snapshot, "strict") else "strict")
    if lacks := missing(snapshot, name):
        hint = ""
        if profile and not all(missing(snapshot, p) for p in PROFILES):
            hint = "; leave profile out to use what the device has"
        raise Unsupported(f"{snapshot.name} lacks {', '.join(lacks)}, needed by the {name} profile{hint}")
    rule = table(name)
    api = (int(rule["api"][0]), int(rule["api"][1]))
    shared = table("devices")["cuda"]
    sharing = shared["wanted"] if snapshot.driver_id in shared["drivers"] else ()
    wanted = (*rule["required"], *rule["wanted"], *sharing, *extra)
    features = {feature for feature in wanted if _available(snapshot, feature, api)}
    if absent := [feature for feature in extra if feature not in features]:
        raise Unsupported(f"{snapshot.name} lacks {', '.join(absent)}")
    software = is_software(snapshot)
    addressing = addressing or _addressing(rule["addressing"], software, "bda" in features)
    if addressing == "address" and "bda" not in features:
        reason = quirks(snapshot).get("bda")
        lacks_what = f"cannot be trusted with addresses ({reason})" if reason else "lacks bufferDeviceAddress"
        raise Unsupported(f"{snapshot.name} {lacks_what}, needed by addressing='address'; use 'descriptor'")
    extensions = {e for f in features if (e := extension_of(f, api)) is not None}
    if "VK_KHR_portability_subset" in snapshot.extensions:
        extensions.add("VK_KHR_portability_subset")
    return Profile(
        name=name,
        addressing=addressing,
        software=software,
        vendor=vendor_name(snapshot.vendor_id),
        features=frozenset(features) | (snapshot.features & PASSIVE),
        extensions=tuple(sorted(extensions)),
        limits=limits(snapshot),
        unified_memory=_unified(snapshot),
        fingerprint=fingerprint(snapshot),
        tuning="cpu" if software else "gpu",
        api=api,
        texels=software and addressing == "descriptor" and _texels(snapshot),
    )


def _texels(snapshot: Snapshot) -> bool:
    """True where texel buffers can cover every binding, read word by word.

    Software devices read storage buffers lane by lane, with a branch and a bounds check each; texel fetches are gathers: 4 to 5
    times as fast on Mesa's llvmpipe 22.3.
    """
    return snapshot.limit("maxStorageBufferRange") <= 4 * snapshot.limit("maxTexelBufferElements")


def _addressing(preferred: str, software: bool, bda: bool) -> str:
    if software:
        preferred = str(table("devices")["software"]["addressing"])
    return preferred if bda else "descriptor"


def _unified(snapshot: Snapshot) -> bool:
    best = {"device_local", "host_visible", "host_coherent", "host_cached"}
    return any(best <= memory.properties for memory in snapshot.memory_types)


def limits(snapshot: Snapshot) -> Limits:
    """The limits of a device in the form that lowering reads."""
    largest_heap = max((heap.size for heap in snapshot.heaps if heap.device_local), default=UNREPORTED)
    period = snapshot.limits.get("timestampPeriod", 0.0)
    return Limits(
        max_groups=snapshot.limit3("maxComputeWorkGroupCount"),
        max_local=snapshot.limit3("maxComputeWorkGroupSize"),
        max_invocations=snapshot.limit("maxComputeWorkGroupInvocations"),
        shared_bytes=snapshot.limit("maxComputeSharedMemorySize"),
        max_storage_range=snapshot.limit("maxStorageBufferRange"),
        max_allocation=min(
            largest_heap,
            snapshot.limit("maxMemoryAllocationSize", UNREPORTED),
            snapshot.limit("maxBufferSize", UNREPORTED),
        ),
        subgroup_size=snapshot.subgroup.size,
        subgroup_min=snapshot.subgroup.minimum,
        subgroup_max=snapshot.subgroup.maximum,
        push_bytes=snapshot.limit("maxPushConstantsSize"),
        storage_buffers=min(
            snapshot.limit("maxPerStageDescriptorStorageBuffers"),
            snapshot.limit("maxDescriptorSetStorageBuffers"),
        ),
        offset_alignment=snapshot.limit("minStorageBufferOffsetAlignment"),
        uniform_alignment=snapshot.limit("minUniformBufferOffsetAlignment"),
        timestamp_period=0.0 if isinstance(period, tuple) else float(period),
    )
