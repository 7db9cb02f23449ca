"""Snapshots as files, and profiles planned from them."""

from __future__ import annotations

import dataclasses
import json

import pytest

from oa import errors
from oa._device import MemoryHeap, Snapshot, describe, missing, plan, to_json
from oa._device.features import BY_NAME, CAPABILITIES, extension_of, structures
from oa._device.profile import PROFILES, UNREPORTED, table
from tests.null.device_fixtures import FOLDER, NAMES, SOFTWARE, card, snapshot


def test_the_recorded_devices_are_there() -> None:
    assert {"lavapipe-22.3", "swiftshader", "radv-navi21", "radv-gfx1100"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_json_round_trip(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    one = Snapshot.from_json(text)
    assert one.to_json() == text
    assert one.note, "a recorded snapshot says where it comes from"
    assert "Infinity" not in text
    assert "NaN" not in text


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: "not json",
        lambda d: "[]",
        lambda d: "{}",
        lambda d: json.dumps({**d, "format": 99}),
        lambda d: json.dumps({**d, "surprise": 1}),
        lambda d: json.dumps({k: v for k, v in d.items() if k != "name"}),
        lambda d: json.dumps({**d, "api": [1, 3]}),
        lambda d: json.dumps({**d, "heaps": [{"size": 1}]}),
        lambda d: json.dumps({**d, "limits": None}),
        lambda d: json.dumps(d)[:-5],
    ],
)
def test_damaged_json_is_a_format_error(damage) -> None:  # type: ignore[no-untyped-def]
    data = json.loads(snapshot("lavapipe-22.3").to_json())
    with pytest.raises(errors.FileFormatError, match="snapshot"):
        Snapshot.from_json(damage(data))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_recorded_device_fits_both_profiles(name: str, profile: str) -> None:
    one = snapshot(name)
    made = plan(one, profile)
    assert made.name == profile
    assert {"timeline", "sync2"} <= made.features <= one.features
    assert set(made.extensions) <= set(one.extensions)
    assert 0 < made.limits.max_allocation < UNREPORTED
    assert made.limits.storage_buffers >= 4
    assert made.limits.push_bytes >= 8
    assert made.software == (name in SOFTWARE)
    assert made.tuning == ("cpu" if made.software else "gpu")
    assert plan(one, profile) == made, "planning is a pure function"


def test_default_addressing() -> None:
    assert plan(snapshot("radv-navi21")).addressing == "address"
    assert plan(snapshot("radv-navi21"), "compat").addressing == "descriptor"
    assert plan(snapshot("radv-navi21"), addressing="descriptor").addressing == "descriptor"
    assert plan(snapshot("lavapipe-22.3")).addressing == "descriptor"
    assert plan(snapshot("lavapipe-22.3"), "compat", "address").addressing == "address"


def test_capabilities_are_only_those_present() -> None:
    lavapipe, radv = plan(snapshot("lavapipe-22.3")), plan(snapshot("radv-gfx1100"))
    assert "coopmat" not in lavapipe.features
    assert "memory_budget" not in lavapipe.features
    assert "VK_EXT_memory_budget" in radv.extensions
    assert "pipeline_statistics" not in radv.features, "only when asked for"
    asked = plan(snapshot("radv-gfx1100"), extra=["pipeline_statistics"])
    assert "VK_KHR_pipeline_executable_properties" in asked.extensions
    with pytest.raises(errors.Unsupported, match="coopmat"):
        plan(snapshot("lavapipe-22.3"), extra=["coopmat"])


def test_compat_takes_extensions_for_what_strict_has_in_core() -> None:
    assert "VK_KHR_synchronization2" in plan(snapshot("lavapipe-22.3"), "compat").extensions
    assert "VK_KHR_synchronization2" not in plan(snapshot("lavapipe-22.3"), "strict").extensions


def test_a_quirk_takes_a_capability_away() -> None:
    assert "bda" in snapshot("swiftshader").features
    assert "bda" not in plan(snapshot("swiftshader")).features
    with pytest.raises(errors.Unsupported, match="cannot be trusted with addresses"):
        plan(snapshot("swiftshader"), addressing="address")


def without(one: Snapshot, *features: str) -> Snapshot:
    return dataclasses.replace(one, features=one.features - set(features))


def test_a_vulkan_12_device_is_compat() -> None:
    old = dataclasses.replace(snapshot("radv-navi21"), api=(1, 2, 0))
    assert plan(old).name == "compat"
    with pytest.raises(errors.Unsupported, match=r"Vulkan 1\.3 \(it has 1\.2\).*leave profile out"):
        plan(old, "strict")


def test_devices_that_lack_something() -> None:
    old = dataclasses.replace(snapshot("radv-navi21"), api=(1, 1, 0))
    assert missing(old, "compat")[0].startswith("Vulkan 1.2")
    with pytest.raises(errors.Unsupported, match=r"Vulkan 1\.2"):
        plan(old)
    for lacking in ("timeline", "sync2"):
        with pytest.raises(errors.Unsupported, match=lacking):
            plan(without(snapshot("radv-navi21"), lacking))
    no_queue = dataclasses.replace(snapshot("radv-navi21"), queue_families=())
    with pytest.raises(errors.Unsupported, match="compute queue"):
        plan(no_queue)
    no_bda = without(snapshot("radv-navi21"), "bda")
    assert plan(no_bda).addressing == "descriptor"
    with pytest.raises(errors.Unsupported, match="bufferDeviceAddress"):
        plan(no_bda, addressing="address")


def test_portability_devices_enable_their_extension() -> None:
    one = snapshot("radv-navi21")
    mac = dataclasses.replace(one, extensions={**one.extensions, "VK_KHR_portability_subset": 1})
    assert "VK_KHR_portability_subset" in plan(mac).extensions


@pytest.mark.parametrize("bad", [{"profile": "loose"}, {"addressing": "bindless"}])
def test_unknown_names(bad: dict[str, str]) -> None:
    with pytest.raises(errors.ArgumentError, match="wanted one of"):
        plan(snapshot("lavapipe-22.3"), **bad)


def test_limits_are_the_smallest_that_bind() -> None:
    one = snapshot("radv-navi21")

    def allocation(**limits: int) -> int:
        changed = dataclasses.replace(one, limits={**one.limits, **limits}, heaps=(MemoryHeap(1000, True),))
        return plan(changed).limits.max_allocation

    assert allocation(maxMemoryAllocationSize=900, maxBufferSize=800) == 800
    assert allocation(maxMemoryAllocationSize=700, maxBufferSize=800) == 700
    assert allocation(maxMemoryAllocationSize=2000, maxBufferSize=2000) == 1000
    fewer = {k: v for k, v in one.limits.items() if k not in ("maxBufferSize", "timestampPeriod")}
    assert plan(dataclasses.replace(one, limits=fewer)).limits.timestamp_period == 0.0


def test_unified_memory_is_cached_device_memory() -> None:
    assert plan(snapshot("lavapipe-22.3")).unified_memory
    assert not plan(snapshot("radv-navi21")).unified_memory


def test_the_fingerprint_changes_with_device_and_driver() -> None:
    one = snapshot("radv-navi21")
    changes = {
        "driver_version": 1,
        "uuid": "ab" * 16,
        "device_id": 7,
        "driver_info": "Mesa 99",
        "cache_uuid": "cd" * 16,
    }
    seen = {plan(one).fingerprint}
    for field, value in changes.items():
        seen.add(plan(dataclasses.replace(one, **{field: value})).fingerprint)
    assert len(seen) == 1 + len(changes)
    assert plan(dataclasses.replace(one, note="x")).fingerprint in seen
    assert all(len(print_) == 16 for print_ in seen)


def test_vector_limits() -> None:
    one = snapshot("lavapipe-22.3")
    assert one.limit3("maxComputeWorkGroupCount") == (65535, 65535, 65535)
    assert one.limit3("maxNothing") == (0, 0, 0)
    with pytest.raises(KeyError, match="vector"):
        one.limit("maxComputeWorkGroupCount")


def test_profile_files_name_known_capabilities() -> None:
    from oa._device.features import EXTENSION_CAPABILITIES

    known = set(BY_NAME) | set(EXTENSION_CAPABILITIES)
    for profile in PROFILES:
        rule = table(profile)
        assert set(rule["required"]) | set(rule["wanted"]) <= known
    for quirk in table("devices")["quirks"]:
        assert set(quirk["without"]) <= known
        assert quirk["reason"]


def test_structures_are_those_a_device_understands() -> None:
    assert structures((1, 0), frozenset()) == ("VkPhysicalDeviceFeatures2",)
    in_12 = structures((1, 2), frozenset())
    assert "VkPhysicalDeviceTimelineSemaphoreFeatures" in in_12
    assert "VkPhysicalDeviceSynchronization2Features" not in in_12
    assert "VkPhysicalDeviceSynchronization2Features" in structures(
        (1, 2), frozenset(["VK_KHR_synchronization2"])
    )
    assert extension_of("sync2", (1, 2)) == "VK_KHR_synchronization2"
    assert extension_of("sync2", (1, 3)) is None
    assert extension_of("denorm_preserve32", (1, 3)) is None
    assert all(capability.core or capability.extension for capability in CAPABILITIES)


@pytest.mark.parametrize("name", NAMES)
def test_what_users_are_told(name: str) -> None:
    info = describe(3, card(name) if name.startswith("radv") else snapshot(name))
    assert info.index == 3
    assert info.usable
    assert info.lacks == ()
    assert len(info.uuid) == 36
    assert json.loads(to_json([info]))[0]["name"] == snapshot(name).name
    old = describe(0, dataclasses.replace(snapshot(name), api=(1, 1, 0)))
    assert not old.usable
    assert old.lacks
    assert old.profile == ""


def test_a_driver_without_hardware_is_listed_as_unusable() -> None:
    info = describe(0, snapshot("radv-navi21"))
    assert not info.usable
    assert "memory" in info.lacks[0]
    assert plan(snapshot("radv-navi21")).name == "strict", "yet it can be opened, to compile kernels"


def test_memory_types_for_each_kind_of_buffer() -> None:
    from oa._vk.memory import preference

    windowed = card()
    assert preference(windowed, "device") == [0, 1]
    assert preference(windowed, "upload")[0] == 2
    assert preference(windowed, "download")[0] == 3
    # All of the device memory is host-visible: mapping it costs no capacity, so it is preferred.
    whole = dataclasses.replace(
        windowed,
        memory_types=(*windowed.memory_types[:1], dataclasses.replace(windowed.memory_types[1], heap=0)),
    )
    assert preference(whole, "device") == [1, 0]
    assert preference(snapshot("lavapipe-22.3"), "download") == [0]
    odd = dataclasses.replace(windowed.memory_types[0], properties=frozenset(("device_local", "protected")))
    assert preference(
        dataclasses.replace(windowed, memory_types=(odd, *windowed.memory_types)), "device"
    ) == [1, 2]
