"""The generated Vulkan declarations, and how results become errors."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from oa import errors
from oa._device.features import CAPABILITIES, FLOAT_CONTROLS
from oa._vk import api
from oa._vk import constants as c
from oa._vk.cdef import ffi
from tools.gen_vk import NAMES, ROOT, read_names


def test_importing_opens_no_library() -> None:
    code = "import oa._vk, oa._vk.device, sys; print('libvulkan' in open('/proc/self/maps').read())"
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.strip() == "False", ran.stderr


def test_the_list_is_sorted_and_without_repetition() -> None:
    for section, names in read_names(NAMES).items():
        if section != "exports":
            assert names == sorted(set(names)), section


def test_every_listed_name_is_declared() -> None:
    names = read_names(NAMES)
    for section in ("global", "instance", "device"):
        commands = names[f"commands.{section}"]
        assert tuple(commands) == getattr(c, f"{section.upper()}_COMMANDS")
        for command in commands:
            assert ffi.typeof(f"PFN_{command}").kind == "function"
    for structure in names["structs"]:
        assert ffi.typeof(structure).kind == "struct"
    for constant in names["constants"]:
        assert isinstance(getattr(c, constant), int)


def test_sizes_of_known_structures() -> None:
    """Figures from the Vulkan headers on 64-bit platforms."""
    sizes = {
        "VkPhysicalDeviceLimits": 504,
        "VkPhysicalDeviceFeatures": 220,
        "VkMemoryBarrier2": 48,
        "VkSubmitInfo2": 64,
    }
    if ffi.sizeof("void *") == 8:
        assert {name: ffi.sizeof(name) for name in sizes} == sizes


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda capability: capability.name)
def test_capabilities_name_real_members(capability) -> None:  # type: ignore[no-untyped-def]
    made = api.new(capability.structure)
    target = made.features if capability.structure == "VkPhysicalDeviceFeatures2" else made
    assert getattr(target, capability.member) == 0
    assert made.sType == c.STRUCTURE_TYPE[capability.structure] != 0


def test_float_controls_name_real_members() -> None:
    made = api.new("VkPhysicalDeviceFloatControlsProperties")
    assert all(getattr(made, control.member) == 0 for control in FLOAT_CONTROLS)


@pytest.mark.skipif(
    importlib.util.find_spec("vulkan_object") is None, reason="needs the package vulkan-object"
)
def test_the_generator_notices_drift(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from tools import gen_vk

    monkeypatch.setattr(gen_vk, "OUT", tmp_path)
    monkeypatch.setattr(gen_vk, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["gen_vk"])
    assert gen_vk.main() == 0
    for name in ("cdef.py", "constants.py"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (ROOT / "oa" / "_vk" / name).read_text(
            encoding="utf-8"
        )
    monkeypatch.setattr(sys, "argv", ["gen_vk", "--check"])
    assert gen_vk.main() == 0
    (tmp_path / "constants.py").write_text("stale", encoding="utf-8")
    assert gen_vk.main() == 1
    bad = tmp_path / "names.txt"
    bad.write_text(NAMES.read_text(encoding="utf-8") + "[structs]\nVkNoSuchThing\n", encoding="utf-8")
    monkeypatch.setattr(gen_vk, "NAMES", bad)
    with pytest.raises(SystemExit, match="VkNoSuchThing"):
        gen_vk.main()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-1, errors.OutOfMemory),
        (-2, errors.OutOfMemory),
        (-4, errors.DeviceLost),
        (-9, errors.DriverNotFound),
        (-10, errors.OutOfMemory),
        (-3, errors.VulkanError),
        (-1000069000, errors.VulkanError),
        (-12345, errors.VulkanError),
    ],
)
def test_results_become_errors(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind) as said:
        api.check(code, "doing something")
    assert str(said.value).startswith("doing something")
    if isinstance(said.value, errors.VulkanError):
        assert said.value.code == code
        assert said.value.name == api.result_name(code)


def test_successes_pass() -> None:
    for code in (0, 1, 2, 5):
        api.check(code, "doing something")


def test_out_of_memory_carries_the_size() -> None:
    said = api.failure(-2, "allocating", requested=123)
    assert isinstance(said, errors.OutOfMemory)
    assert said.requested == 123
    assert "123 bytes" in str(said)


def test_a_missing_command_is_named() -> None:
    def nothing(name: bytes) -> object:
        return ffi.NULL

    with pytest.raises(errors.DriverNotFound, match="vkCmdDispatch"):
        api.Functions(nothing, ["vkCmdDispatch"])
    made = api.Functions(nothing, ["vkCmdDispatch"], optional=["vkCmdDispatch"])
    with pytest.raises(errors.Unsupported, match="vkCmdDispatch"):
        made.CmdDispatch  # noqa: B018


def test_spelling_chooses_the_entry_point() -> None:
    asked = []

    def find(name: bytes) -> object:
        asked.append(name)
        return ffi.cast("void *", 16)

    api.Functions(find, ["vkQueueSubmit2", "vkCmdDispatch"], spelling={"vkQueueSubmit2": "vkQueueSubmit2KHR"})
    assert asked == [b"vkQueueSubmit2KHR", b"vkCmdDispatch"]
