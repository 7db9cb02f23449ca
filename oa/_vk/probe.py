"""Recording a device snapshot: every query that planning depends on, turned into data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from oa._device import CooperativeMatrix, MemoryHeap, MemoryType, QueueFamily, Snapshot, Subgroup
from oa._device.features import (
    CAPABILITIES,
    EXTENSION_CAPABILITIES,
    FLOAT_CONTROLS,
    SUBGROUP_OPERATIONS,
    structures,
)
from oa._vk import constants as c
from oa._vk.api import NULL, Functions, enumerate_all, new, pick, text
from oa._vk.cdef import ffi

_KINDS = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
#: Structures of properties: the version that made them core, and the extension that has them before.
_PROPERTIES: tuple[tuple[str, tuple[int, int] | None, str], ...] = (
    ("VkPhysicalDeviceIDProperties", (1, 1), ""),
    ("VkPhysicalDeviceSubgroupProperties", (1, 1), ""),
    ("VkPhysicalDeviceMaintenance3Properties", (1, 1), ""),
    ("VkPhysicalDeviceDriverProperties", (1, 2), "VK_KHR_driver_properties"),
    ("VkPhysicalDeviceFloatControlsProperties", (1, 2), "VK_KHR_shader_float_controls"),
    ("VkPhysicalDeviceSubgroupSizeControlProperties", (1, 3), "VK_EXT_subgroup_size_control"),
    ("VkPhysicalDeviceMaintenance4Properties", (1, 3), "VK_KHR_maintenance4"),
    ("VkPhysicalDevicePCIBusInfoPropertiesEXT", None, "VK_EXT_pci_bus_info"),
)


def flag_names(bits: int, table: Mapping[int, str], prefix: str) -> frozenset[str]:
    """Short lower-case names of the bits that are set: `VK_QUEUE_COMPUTE_BIT` gives "compute"."""
    names = (_short(table.get(1 << shift, f"bit{shift}"), prefix) for shift in range(32) if bits >> shift & 1)
    return frozenset(names)


def _short(name: str, prefix: str) -> str:
    return re.sub(r"_BIT(_[A-Z]+)?$", "", name.removeprefix(prefix)).lower()


def record(functions: Functions, handle: Any, instance_api: tuple[int, int]) -> Snapshot:
    """Read a whole snapshot from a physical device."""
    base = ffi.new("VkPhysicalDeviceProperties *")
    functions.GetPhysicalDeviceProperties(handle, base)
    version = base.apiVersion
    api = (version >> 22 & 0x7F, version >> 12 & 0x3FF, version & 0xFFF)
    usable = min(instance_api, api[:2])
    extensions = {
        text(e.extensionName): int(e.specVersion)
        for e in enumerate_all(
            lambda n, a: functions.EnumerateDeviceExtensionProperties(handle, NULL, n, a),
            "VkExtensionProperties",
            "listing device extensions",
        )
    }
    properties = _properties(functions, handle, usable, extensions)
    subgroup = _subgroup(properties)
    identity = properties.get("VkPhysicalDeviceIDProperties")
    driver = properties.get("VkPhysicalDeviceDriverProperties")
    memory = new("VkPhysicalDeviceMemoryProperties2")
    if usable >= (1, 1):
        functions.GetPhysicalDeviceMemoryProperties2(handle, memory)
    return Snapshot(
        name=text(base.deviceName),
        kind=_KINDS.get(base.deviceType, "other"),
        vendor_id=base.vendorID,
        device_id=base.deviceID,
        uuid=_hex(identity.deviceUUID) if identity else "",
        driver_uuid=_hex(identity.driverUUID) if identity else "",
        cache_uuid=_hex(base.pipelineCacheUUID),
        pci=_pci(properties.get("VkPhysicalDevicePCIBusInfoPropertiesEXT")),
        driver_id=c.DRIVER_ID.get(driver.driverID, str(driver.driverID)) if driver else "",
        driver_name=text(driver.driverName) if driver else "",
        driver_info=text(driver.driverInfo) if driver else "",
        driver_version=base.driverVersion,
        api=api,
        features=_features(functions, handle, usable, extensions, properties) | subgroup_features(subgroup),
        extensions=dict(sorted(extensions.items())),
        limits=_limits(base.limits, properties),
        memory_types=_memory_types(memory.memoryProperties),
        heaps=_heaps(memory.memoryProperties),
        queue_families=_queue_families(functions, handle),
        subgroup=subgroup,
        cooperative_matrices=_cooperative_matrices(functions, handle, extensions),
    )


def _hex(array: Any) -> str:
    return bytes(array).hex()


def _pci(info: Any) -> str:
    if info is None:
        return ""
    return f"{info.pciDomain:04x}:{info.pciBus:02x}:{info.pciDevice:02x}.{info.pciFunction:x}"


def chain(names: Iterable[str]) -> dict[str, Any]:
    """Structures linked through pNext in order; keep the dictionary alive while they are in use."""
    made: dict[str, Any] = {}
    previous = None
    for name in names:
        made[name] = new(name)
        if previous is not None:
            previous.pNext = made[name]
        previous = made[name]
    return made


def _properties(
    functions: Functions, handle: Any, api: tuple[int, int], extensions: Mapping[str, int]
) -> dict[str, Any]:
    if api < (1, 1):
        return {}
    names = [n for n, core, extension in _PROPERTIES if (core and api >= core) or extension in extensions]
    made = chain(["VkPhysicalDeviceProperties2", *names])
    functions.GetPhysicalDeviceProperties2(handle, made["VkPhysicalDeviceProperties2"])
    return made


def _features(
    functions: Functions,
    handle: Any,
    api: tuple[int, int],
    extensions: Mapping[str, int],
    properties: Mapping[str, Any],
) -> frozenset[str]:
    found = {name for name, extension in EXTENSION_CAPABILITIES.items() if extension in extensions}
    if api < (1, 1):
        return frozenset(found)
    made = chain(structures(api, frozenset(extensions)))
    base = made["VkPhysicalDeviceFeatures2"]
    functions.GetPhysicalDeviceFeatures2(handle, base)
    for capability in CAPABILITIES:
        structure = made.get(capability.structure)
        if structure is not None:
            target = structure.features if structure is base else structure
            if getattr(target, capability.member):
                found.add(capability.name)
    controls = properties.get("VkPhysicalDeviceFloatControlsProperties")
    if controls is not None:
        found |= {p.name for p in FLOAT_CONTROLS if getattr(controls, p.member)}
    return frozenset(found)


def _subgroup(properties: Mapping[str, Any]) -> Subgroup:
    info = properties.get("VkPhysicalDeviceSubgroupProperties")
    if info is None:
        return Subgroup(1, 1, 1, frozenset())
    control = properties.get("VkPhysicalDeviceSubgroupSizeControlProperties")
    in_compute = info.supportedStages & c.VK_SHADER_STAGE_COMPUTE_BIT
    operations = flag_names(info.supportedOperations, c.SUBGROUP_FEATURE_FLAG_BITS, "VK_SUBGROUP_FEATURE_")
    return Subgroup(
        size=info.subgroupSize,
        minimum=control.minSubgroupSize if control else info.subgroupSize,
        maximum=control.maxSubgroupSize if control else info.subgroupSize,
        operations=operations if in_compute else frozenset(),
    )


def subgroup_features(subgroup: Subgroup) -> frozenset[str]:
    """Capability names of the subgroup operation classes."""
    return frozenset(f"subgroup_{name}" for name in SUBGROUP_OPERATIONS if name in subgroup.operations)


def _limits(limits: Any, properties: Mapping[str, Any]) -> dict[str, int | float | tuple[int | float, ...]]:
    """All VkPhysicalDeviceLimits by name, and the two maintenance structures' sizes."""
    found: dict[str, int | float | tuple[int | float, ...]] = {}
    for name, _ in ffi.typeof("VkPhysicalDeviceLimits").fields:
        value = getattr(limits, name)
        if isinstance(value, float) and not math.isfinite(value):
            value = 0.0  # a driver without hardware may report an infinite timestamp period
        found[name] = value if isinstance(value, (int, float)) else tuple(value)
    for structure, name in (
        ("VkPhysicalDeviceMaintenance3Properties", "maxMemoryAllocationSize"),
        ("VkPhysicalDeviceMaintenance4Properties", "maxBufferSize"),
    ):
        if structure in properties:
            found[name] = getattr(properties[structure], name)
    return found


def _memory_types(memory: Any) -> tuple[MemoryType, ...]:
    types = pick(memory.memoryTypes, memory.memoryTypeCount)
    return tuple(
        MemoryType(
            flag_names(t.propertyFlags, c.MEMORY_PROPERTY_FLAG_BITS, "VK_MEMORY_PROPERTY_"), t.heapIndex
        )
        for t in types
    )


def _heaps(memory: Any) -> tuple[MemoryHeap, ...]:
    return tuple(
        MemoryHeap(h.size, bool(h.flags & 1)) for h in pick(memory.memoryHeaps, memory.memoryHeapCount)
    )


def _queue_families(functions: Functions, handle: Any) -> tuple[QueueFamily, ...]:
    families = enumerate_all(
        lambda n, a: functions.GetPhysicalDeviceQueueFamilyProperties(handle, n, a),
        "VkQueueFamilyProperties",
        "listing queue families",
    )
    return tuple(
        QueueFamily(
            flag_names(f.queueFlags, c.QUEUE_FLAG_BITS, "VK_QUEUE_"), f.queueCount, f.timestampValidBits
        )
        for f in families
    )


def _cooperative_matrices(
    functions: Functions, handle: Any, extensions: Mapping[str, int]
) -> tuple[CooperativeMatrix, ...]:
    if "VK_KHR_cooperative_matrix" not in extensions:
        return ()
    rows = enumerate_all(
        lambda n, a: functions.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(handle, n, a),
        "VkCooperativeMatrixPropertiesKHR",
        "listing cooperative matrices",
    )

    def component(value: int) -> str:
        return _short(c.COMPONENT_TYPE_KHR.get(value, str(value)), "VK_COMPONENT_TYPE_").removesuffix("_khr")

    return tuple(
        CooperativeMatrix(
            m=r.MSize,
            n=r.NSize,
            k=r.KSize,
            a=component(r.AType),
            b=component(r.BType),
            c=component(r.CType),
            result=component(r.ResultType),
            scope=c.SCOPE_KHR.get(r.scope, str(r.scope))
            .removeprefix("VK_SCOPE_")
            .removesuffix("_KHR")
            .lower(),
            saturating=bool(r.saturatingAccumulation),
        )
        for r in rows
    )
