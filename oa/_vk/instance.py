"""The Vulkan instance: opening it through the loader or straight through drivers, its adapters, validation messages."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oa import errors
from oa._device import Profile, Snapshot
from oa._vk import constants as c
from oa._vk import loader
from oa._vk.api import (
    NULL,
    Functions,
    ProcessBound,
    Strings,
    check,
    created,
    destroyed,
    enumerate_all,
    new,
    text,
)
from oa._vk.cdef import ffi
from oa._vk.device import VulkanDevice
from oa._vk.probe import record

if TYPE_CHECKING:
    from oa._vk.interface import Device

#: Vulkan version asked for at instance creation: what the strict profile is written against.
API = (1, 3)
VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
DEBUG_UTILS = "VK_EXT_debug_utils"
PORTABILITY = "VK_KHR_portability_enumeration"
#: Read by the validation layer at instance creation: synchronization validation across submissions has no API switch.
_LAYER_ENABLES = "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT"
_OPTIONAL = ("vkCreateDebugUtilsMessengerEXT", "vkDestroyDebugUtilsMessengerEXT",
             "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")  # fmt: skip


def open_instance(
    *, validation: bool = False, library: str | None = None, api: tuple[int, int] = API
) -> Instance:
    """Open Vulkan.

    `validation` loads the Khronos validation layer, synchronization validation included, which writes to `Instance.messages`;
    `library` names the loader library instead of the usual ones; `api` is the version asked for: (1, 2) is a compat instance.
    Without a loader, or where it finds no driver, each driver named by a manifest is opened directly. Raises DriverNotFound,
    with what to do, when there is nothing to open, and Unsupported when validation is asked for and its layer is not installed.
    """
    found = loader.open_loader(library)
    messages: list[str] = []
    if found is not None:
        try:
            return Instance([Connection(found, api, validation, messages)], messages)
        except errors.DriverNotFound:
            if validation or library or loader.overridden() is not None or not loader.extra_manifests():
                raise
    elif validation:
        raise errors.Unsupported(
            "validation needs the Vulkan loader (libvulkan.so.1), which is not installed"
        )
    return _open_directly(api, messages)


def _open_directly(api: tuple[int, int], messages: list[str]) -> Instance:
    """Every driver named by a manifest, without the loader."""
    manifests = loader.manifests()
    if loader.overridden() is None:
        manifests += [m for m in loader.extra_manifests() if m not in manifests]
    opened, problems = [], []
    for manifest in manifests:
        try:
            opened.append(Connection(loader.open_driver(manifest), api, False, messages))
        except errors.OaError as problem:
            problems.append(str(problem))
    if not opened:
        raise errors.DriverNotFound(explain(problems))
    return Instance(opened, messages)


def explain(problems: list[str]) -> str:
    """Why no driver can be used, and what to type."""
    override = loader.overridden()
    if override is not None:
        return (
            f"no Vulkan driver: {override[0]}={override[1]} replaces the search for drivers and names none that works"
            f"{_listed(problems)}; type: unset {override[0]} (or point it at a driver manifest, *.json); `oa doctor` says more"
        )
    if any("static TLS block" in problem for problem in problems):
        return (
            f"the Vulkan driver found no room for its thread-local variables{_listed(problems)}: libraries loaded before it took "
            "what there is; make the oa.Engine before importing them, or start Python with "
            "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536"
        )
    return f"no Vulkan driver was found{_listed(problems)}; type: {loader.install_command()} ; `oa doctor` says more"


def _listed(problems: list[str]) -> str:
    return f" ({'; '.join(problems)})" if problems else ""


class Connection:
    """One VkInstance: through the loader (then it is the only one), or of one driver opened directly."""

    def __init__(
        self, library: loader.Library, api: tuple[int, int], validation: bool, messages: list[str]
    ) -> None:
        self.library = library
        self.validation = validation
        self._messenger: Any = None
        entry = Functions(self._finder(NULL), c.GLOBAL_COMMANDS, optional=("vkEnumerateInstanceVersion",))
        self.version = self._version(entry)
        if self.version < (1, 2):
            raise errors.DriverNotFound(
                f"{library.path} speaks Vulkan {self.version[0]}.{self.version[1]}, wanted 1.2: update the loader or driver"
            )
        self.api = min(api, self.version)
        self._callback = _message_callback(messages) if validation else None
        self.handle = self._create(entry)
        created("instance")
        try:
            self.functions = Functions(self._finder(self.handle), c.INSTANCE_COMMANDS, optional=_OPTIONAL)
            if validation:
                self._open_messenger()
        except BaseException:
            destroy = library.lookup(self.handle, b"vkDestroyInstance")
            ffi.cast("PFN_vkDestroyInstance", destroy)(self.handle, NULL)
            destroyed("instance")
            raise

    def _finder(self, instance: Any) -> Callable[[bytes], Any]:
        return lambda name: self.library.lookup(instance, name)

    @staticmethod
    def _version(entry: Functions) -> tuple[int, int]:
        if "EnumerateInstanceVersion" not in vars(entry):
            return (1, 0)
        packed = ffi.new("uint32_t *")
        check(entry.EnumerateInstanceVersion(packed), "asking for the Vulkan version")
        return (packed[0] >> 22 & 0x7F, packed[0] >> 12 & 0x3FF)

    def _create(self, entry: Functions) -> Any:
        extensions = {
            text(e.extensionName)
            for e in enumerate_all(
                lambda n, a: entry.EnumerateInstanceExtensionProperties(NULL, n, a),
                "VkExtensionProperties",
                "listing instance extensions",
            )
        }
        wanted = [PORTABILITY] if PORTABILITY in extensions else []
        layers, chain, keep = [], NULL, []
        if self.validation:
            _require_layer(entry)
            layers.append(VALIDATION_LAYER)
            wanted.append(DEBUG_UTILS)
            enables = ffi.new(
                "VkValidationFeatureEnableEXT[]",
                [c.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT],
            )
            chain = new(
                "VkValidationFeaturesEXT", enabledValidationFeatureCount=1, pEnabledValidationFeatures=enables
            )
            keep = [enables, chain]
        layer_names, extension_names = Strings(layers), Strings(wanted)
        application = new("VkApplicationInfo", apiVersion=self.api[0] << 22 | self.api[1] << 12)
        info = new(
            "VkInstanceCreateInfo",
            pNext=chain,
            flags=c.VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR if PORTABILITY in wanted else 0,
            pApplicationInfo=application,
            enabledLayerCount=len(layers),
            ppEnabledLayerNames=layer_names.pointer,
            enabledExtensionCount=len(wanted),
            ppEnabledExtensionNames=extension_names.pointer,
        )
        handle = ffi.new("VkInstance *")
        with _layer_settings(self.validation):
            code = entry.CreateInstance(info, NULL, handle)
        del keep
        if code == c.VK_ERROR_INCOMPATIBLE_DRIVER and not self.library.direct:
            raise errors.DriverNotFound(
                explain([f"{m.path}: {m.problem}" for m in loader.manifests() if m.problem])
            )
        check(code, "creating the Vulkan instance")
        return handle[0]

    def _open_messenger(self) -> None:
        info = new(
            "VkDebugUtilsMessengerCreateInfoEXT",
            messageSeverity=c.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT
            | c.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
            messageType=c.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
            | c.VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
            pfnUserCallback=ffi.cast("void *", self._callback),
        )
        handle = ffi.new("VkDebugUtilsMessengerEXT *")
        check(
            self.functions.CreateDebugUtilsMessengerEXT(self.handle, info, NULL, handle),
            "opening the validation messages",
        )
        self._messenger = handle[0]
        created("messenger")

    def close(self) -> None:
        """Destroy the instance."""
        if self._messenger:
            self.functions.DestroyDebugUtilsMessengerEXT(self.handle, self._messenger, NULL)
            self._messenger = None
            destroyed("messenger")
        if self.handle is not None:
            self.functions.DestroyInstance(self.handle, NULL)
            self.handle = None
            destroyed("instance")


class _layer_settings:
    """Sets the layer's own environment variable while the instance is created, keeping what the user set."""

    def __init__(self, active: bool) -> None:
        self._active = active
        self._before: str | None = None

    def __enter__(self) -> None:
        if self._active:
            self._before = os.environ.get("VK_LAYER_ENABLES")
            os.environ["VK_LAYER_ENABLES"] = ",".join(filter(None, (self._before, _LAYER_ENABLES)))

    def __exit__(self, *_: object) -> None:
        if self._active:
            if self._before is None:
                os.environ.pop("VK_LAYER_ENABLES", None)
            else:
                os.environ["VK_LAYER_ENABLES"] = self._before


def _layers(entry: Functions) -> set[str]:
    rows = enumerate_all(
        entry.EnumerateInstanceLayerProperties, "VkLayerProperties", "listing instance layers"
    )
    return {text(row.layerName) for row in rows}


def has_validation(library: loader.Library) -> bool:
    """True when the Khronos validation layer is installed."""
    entry = Functions(lambda name: library.lookup(NULL, name), ("vkEnumerateInstanceLayerProperties",))
    return VALIDATION_LAYER in _layers(entry)


def _require_layer(entry: Functions) -> None:
    if VALIDATION_LAYER not in _layers(entry):
        raise errors.Unsupported(
            f"validation needs the layer {VALIDATION_LAYER}, which is not installed; "
            "on Debian or Ubuntu type: sudo apt-get install -y vulkan-validationlayers"
        )


def _message_callback(messages: list[str]) -> Any:
    """A C callback that appends each validation message to a list. It may run on any thread of the driver."""

    def receive(severity: int, kinds: int, data: Any, user: Any) -> int:
        messages.append(text(data.pMessage))
        return 0

    signature = "VkBool32(*)(int32_t, VkFlags, const VkDebugUtilsMessengerCallbackDataEXT *, void *)"
    return ffi.callback(signature, receive, 0)


class Instance(ProcessBound):
    """Vulkan, opened. `messages` collects what the validation layer says."""

    def __init__(self, connections: list[Connection], messages: list[str]) -> None:
        super().__init__()
        self.connections = connections
        self.messages = messages
        self.devices: list[Device] = []  #: open devices, closed before the instance is
        self.closed = False

    @property
    def library(self) -> str:
        """The loader library, or the drivers opened without one."""
        return ", ".join(connection.library.path for connection in self.connections)

    @property
    def direct(self) -> bool:
        """True when drivers were opened without the loader."""
        return self.connections[0].library.direct

    def adapters(self) -> list[Adapter]:
        """The physical devices, in the loader's order."""
        self._require_open()
        found = []
        for connection in self.connections:
            handles = enumerate_all(
                lambda n, a, own=connection: own.functions.EnumeratePhysicalDevices(own.handle, n, a),  # type: ignore[misc]
                "VkPhysicalDevice",
                "listing Vulkan devices",
            )
            found += [Adapter(self, connection, handle) for handle in handles]
        return found

    def close(self) -> None:
        """Close every open device, then destroy the instance. Does nothing when closed already or in a forked child."""
        if not self.closed and not self.foreign:
            for device in list(self.devices):
                device.close()
            for connection in self.connections:
                connection.close()
        self.closed = True

    def _require_open(self) -> None:
        self.require_own_process("the Vulkan instance")
        if self.closed:
            raise errors.EngineClosed("the Vulkan instance is closed: make a new Engine")


class Adapter:
    """One physical device of an instance."""

    def __init__(self, instance: Instance, connection: Connection, handle: Any) -> None:
        self.instance = instance
        self.connection = connection
        self.handle = handle
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """What the device says about itself; read once."""
        if self._snapshot is None:
            self._snapshot = record(self.connection.functions, self.handle, self.connection.api)
        return self._snapshot

    def open(self, profile: Profile) -> Device:
        """Open the device with exactly the capabilities of a profile planned from this adapter's snapshot."""
        return VulkanDevice(self, profile)
