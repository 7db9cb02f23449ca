"""The logical device: opened with exactly the capabilities of a profile, maker of every other object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oa import errors
from oa._device import Profile, Snapshot
from oa._device.features import BY_NAME
from oa._vk import api
from oa._vk import constants as c
from oa._vk.api import NULL, Functions, ProcessBound, Strings, created, destroyed, failure, new
from oa._vk.cdef import ffi
from oa._vk.command import VulkanCommands
from oa._vk.handle import Handle
from oa._vk.memory import VulkanBuffer, budget, preference
from oa._vk.pipeline import Layouts, VulkanDescriptorPool, VulkanPipeline, VulkanPipelineCache
from oa._vk.probe import chain
from oa._vk.query import VulkanQueryPool
from oa._vk.queue import Queue, VulkanTimeline
from oa._vk.validate import CheckedCommands

if TYPE_CHECKING:
    from oa._vk.instance import Adapter
    from oa._vk.interface import Commands

#: Extension entry points of the compat profile; core names under strict.
_SYNC2 = {f"vk{n}": f"vk{n}KHR" for n in ("QueueSubmit2", "CmdPipelineBarrier2", "CmdWriteTimestamp2")}
_OPTIONAL = ("vkGetPipelineExecutablePropertiesKHR", "vkGetPipelineExecutableStatisticsKHR", "vkSetDebugUtilsObjectNameEXT",
             "vkGetBufferDeviceAddress", "vkGetMemoryFdKHR", "vkGetSemaphoreFdKHR")  # fmt: skip


class VulkanDevice(ProcessBound):
    """An open device. Not thread-safe except where a method says so; `oa._vk.interface.Device` is its contract."""

    def __init__(self, adapter: Adapter, profile: Profile) -> None:
        super().__init__()
        self.adapter = adapter
        self.profile = profile
        self.snapshot: Snapshot = adapter.snapshot()
        self.lost = False
        self.closed = False
        self._busy = False  #: something was submitted; drivers without hardware crash when waited for
        self.validating = adapter.connection.validation
        self._children: dict[int, Handle] = {}
        self._preferences: dict[str, list[int]] = {}
        if profile.api > adapter.connection.api:
            raise errors.Unsupported(
                f"the {profile.name} profile needs Vulkan {profile.api[0]}.{profile.api[1]}, the instance was opened as "
                f"{adapter.connection.api[0]}.{adapter.connection.api[1]}"
            )
        family = compute_family(self.snapshot)
        self.handle = self._create(family)
        created("device")
        find = adapter.connection.functions.GetDeviceProcAddr
        try:
            self.functions = Functions(
                lambda name: ffi.cast("void *", find(self.handle, name)),
                c.DEVICE_COMMANDS,
                spelling=_SYNC2 if profile.api < (1, 3) else None,
                optional=_OPTIONAL,
            )
            self.layouts = Layouts(self)
            self._compute = Queue(self, family)
            self.queues = {"compute": self._compute}
        except BaseException:
            ffi.cast("PFN_vkDestroyDevice", find(self.handle, b"vkDestroyDevice"))(self.handle, NULL)
            destroyed("device")
            raise
        adapter.instance.devices.append(self)

    def _create(self, family: int) -> Any:
        made = chain(_feature_structures(self.profile))
        base = made["VkPhysicalDeviceFeatures2"]
        for name in self.profile.features:
            capability = BY_NAME.get(name)
            if capability is not None:
                structure = made[capability.structure]
                setattr(structure.features if structure is base else structure, capability.member, 1)
        priority = ffi.new("float[]", [1.0])
        queue = new(
            "VkDeviceQueueCreateInfo", queueFamilyIndex=family, queueCount=1, pQueuePriorities=priority
        )
        extensions = Strings(list(self.profile.extensions))
        info = new(
            "VkDeviceCreateInfo",
            pNext=base,
            queueCreateInfoCount=1,
            pQueueCreateInfos=queue,
            enabledExtensionCount=len(self.profile.extensions),
            ppEnabledExtensionNames=extensions.pointer,
        )
        handle = ffi.new("VkDevice *")
        code = self.adapter.connection.functions.CreateDevice(self.adapter.handle, info, NULL, handle)
        self.check(code, f"opening {self.snapshot.name} with the {self.profile.name} profile")
        return handle[0]

    # What the other modules of this package share.

    def check(self, code: int, what: str, *, requested: int = 0) -> None:
        """Raise the error of a failed VkResult, noting a lost device."""
        if code < 0:
            if code == c.VK_ERROR_DEVICE_LOST:
                self.lost = True
            raise failure(code, what, requested=requested)

    def adopt(self, child: Handle) -> None:
        """Remember an object so that closing the device closes it too."""
        self._children[id(child)] = child

    def release(self, child: Handle) -> None:
        """Forget an object and destroy it, unless this is a forked child, where the parent owns it."""
        self._children.pop(id(child), None)
        if not self.foreign and not self.closed:
            child.destroy()

    def require_open(self) -> None:
        """Raise unless the device can take work in this process."""
        self.require_own_process("the device")
        if self.closed:
            raise errors.EngineClosed("the device is closed: make a new Engine")
        if self.lost:
            raise errors.DeviceLost("the device was lost earlier: make a new Engine")

    def memory_preference(self, kind: str) -> list[int]:
        """Memory types for a kind of buffer, the best first."""
        found = self._preferences.get(kind)
        if found is None:
            found = self._preferences[kind] = preference(self.snapshot, kind)
        return found

    def queue(self, name: str) -> Queue:
        """A queue by name. This profile has one, "compute"."""
        try:
            return self.queues[name]
        except KeyError:
            raise errors.ArgumentError(
                f"queue: got {name!r}, wanted one of {', '.join(self.queues)}"
            ) from None

    # The interface.

    @property
    def timestamp_period(self) -> float:
        """Nanoseconds a timestamp tick."""
        return self.profile.limits.timestamp_period

    def buffer(self, size: int, memory: str = "device", exportable: bool = False) -> VulkanBuffer:
        """A buffer of at least `size` bytes in "device", "upload" or "download" memory; see `VulkanBuffer.export`."""
        self.require_open()
        return VulkanBuffer(self, size, memory, exportable)

    def pipeline_cache(self, data: bytes = b"") -> VulkanPipelineCache:
        """A pipeline cache, filled with what `PipelineCache.data()` once gave; the driver ignores foreign data."""
        self.require_open()
        return VulkanPipelineCache(self, data)

    def pipeline(
        self,
        kernel_words: bytes,
        *,
        buffers: int,
        addressing: str,
        cache: Any = None,
        subgroup_size: int | None = None,
        name: str = "",
        texels: tuple[int, ...] = (),
    ) -> VulkanPipeline:
        """A compute pipeline from SPIR-V words with entry point "main"; `texels` as in `oa._kernel.pack.Kernel`."""
        self.require_open()
        return VulkanPipeline(self, kernel_words, buffers, addressing, cache, subgroup_size, name, texels)

    def descriptor_pool(self, sets: int, buffers: int) -> VulkanDescriptorPool:
        """Room for `sets` descriptor sets of at most `buffers` bound buffers each, besides the argument block."""
        self.require_open()
        return VulkanDescriptorPool(self, sets, buffers)

    def commands(self, queue: str = "compute") -> Commands:
        """A command buffer for a queue; recording is checked when the validation layer is loaded."""
        self.require_open()
        made = VulkanCommands(self, self.queue(queue))
        return CheckedCommands(made, self.profile) if self.validating else made

    def timeline(self, exportable: bool = False) -> VulkanTimeline:
        """A timeline semaphore, at 0, that another API may import with `exportable`."""
        self.require_open()
        return VulkanTimeline(self, exportable)

    def query_pool(self, count: int) -> VulkanQueryPool:
        """Room for `count` timestamps."""
        self.require_open()
        return VulkanQueryPool(self, count)

    def submit(
        self,
        commands: Sequence[Any],
        *,
        queue: str = "compute",
        wait: Sequence[tuple[Any, int]] = (),
        signal: tuple[Any, int] | None = None,
    ) -> None:
        """Queue recorded commands: after each `wait` timeline reaches its value; then `signal` is set to its own."""
        if self.closed or self.lost or api.process != self.pid:
            self.require_open()
        if self.validating:
            for recorded in commands:
                recorded.require_submittable()
        self._busy = True
        if queue == "compute":
            self._compute.submit(commands, wait, signal)
        else:
            self.queue(queue).submit(commands, wait, signal)

    def wait_idle(self) -> None:
        """Wait until the device has done everything submitted."""
        self.require_open()
        if self._busy:
            self.check(self.functions.DeviceWaitIdle(self.handle), "waiting for the device")

    def memory_budget(self) -> list[tuple[int, int, int]]:
        """(size, budget, usage) of each memory heap, in bytes."""
        self.require_open()
        return budget(self)

    def close(self) -> None:
        """Wait for the device, destroy everything made from it, then itself. Does nothing in a forked child."""
        if self.closed:
            return
        if not self.foreign:
            if self._busy and not self.lost:
                self.functions.DeviceWaitIdle(self.handle)
            for child in reversed(list(self._children.values())):
                child.close()
            for queue in self.queues.values():
                queue.close()
            self.layouts.close()
            self.functions.DestroyDevice(self.handle, NULL)
            destroyed("device")
            self.adapter.instance.devices.remove(self)
        self._children.clear()
        self.closed = True

    def __repr__(self) -> str:
        return f"<device {self.snapshot.name} {self.profile.name}+{self.profile.addressing}>"


def compute_family(snapshot: Snapshot) -> int:
    """The queue family for everything: the first with compute."""
    return next(i for i, family in enumerate(snapshot.queue_families) if "compute" in family.operations)


def _feature_structures(profile: Profile) -> list[str]:
    """The structures that enable a profile's capabilities, the base structure first; none more than needed."""
    needed = {BY_NAME[name].structure for name in profile.features if name in BY_NAME}
    return ["VkPhysicalDeviceFeatures2", *sorted(needed - {"VkPhysicalDeviceFeatures2"})]
