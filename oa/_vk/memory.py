"""Buffers: one VkBuffer over one VkDeviceMemory each. Sub-allocation is the engine's business."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oa._device import Snapshot
from oa._vk import constants as c
from oa._vk.api import NULL, created, destroyed, failure, new
from oa._vk.cdef import ffi
from oa._vk.handle import Handle, create
from oa.errors import AllocationLimit, ArgumentError, Unsupported

if TYPE_CHECKING:
    from oa._vk.device import VulkanDevice

KINDS = ("device", "upload", "download")
#: Kernels may read and write whole 16-byte vectors up to the rounded end.
GRANULE = 16
_USAGE = (
    c.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | c.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | c.VK_BUFFER_USAGE_TRANSFER_DST_BIT
)
_FD = c.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
_COHERENT = frozenset(("host_visible", "host_coherent"))


def preference(snapshot: Snapshot, kind: str) -> list[int]:
    """Memory types that serve a kind of buffer, the best first.

    "device" is device-local, host-visible where that costs no capacity (the type's heap is the largest device-local one), so
    that uploads can go straight in; "upload" is host-coherent, uncached and outside device memory where there is a choice;
    "download" is host-coherent and cached.
    """
    largest = max((heap.size for heap in snapshot.heaps if heap.device_local), default=0)
    scored = []
    for index, memory in enumerate(snapshot.memory_types):
        has = memory.properties
        if has & {"protected", "lazily_allocated", "device_coherent", "device_uncached", "rdma_capable"}:
            continue
        local, visible = "device_local" in has, has >= _COHERENT
        cached = "host_cached" in has
        heap = snapshot.heaps[memory.heap].size
        if kind == "device":
            if local:
                scored.append((heap < largest, not visible, not cached, index))
        elif visible:
            tie = (cached, local) if kind == "upload" else (not cached, local)
            scored.append((False, *tie, index))
    return [row[-1] for row in sorted(scored)]


class VulkanBuffer(Handle):
    """Storage that kernels, copies and, where `map` is not None, the host can reach.

    `size` is in bytes, rounded up to 16; `address` is 0 without buffer device addresses; `map` is a writable memoryview that
    dies with the buffer, so nothing may use a view of it after `close`; `flags` names the memory's properties.
    """

    __slots__ = ("_memory", "address", "allocated", "flags", "map", "size")
    kind, what = "buffer", "Buffer"

    def __init__(self, device: VulkanDevice, size: int, memory: str, exportable: bool = False) -> None:
        if memory not in KINDS:
            raise ArgumentError(f"memory: got {memory!r}, wanted one of {', '.join(KINDS)}")
        limit = device.profile.limits.max_allocation
        if size > limit:
            raise AllocationLimit(
                f"a buffer of {size} bytes was asked for; {device.snapshot.name} allows {limit} in one allocation: "
                "split the data",
                requested=size,
                largest=limit,
            )
        self.size = max(GRANULE, -(-size // GRANULE) * GRANULE)
        self.map: memoryview | None = None
        self.address = 0
        self._memory = 0
        addressed = "bda" in device.profile.features
        usage = _USAGE | (c.VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT if addressed else 0)
        if device.profile.addressing == "descriptor":
            usage |= c.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT
        if device.profile.texels:
            usage |= c.VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT
        info = new("VkBufferCreateInfo", size=self.size, usage=usage, sharingMode=c.VK_SHARING_MODE_EXCLUSIVE)
        outside = new("VkExternalMemoryBufferCreateInfo", handleTypes=_FD)
        if exportable:
            info.pNext = outside
        super().__init__(device, create(device, self.what, info))
        vk = device.functions
        try:
            self.flags = self._allocate(memory, addressed, exportable)
            device.check(
                vk.BindBufferMemory(device.handle, self.handle, self._memory, 0),
                "binding a buffer to its memory",
            )
            if self.flags >= _COHERENT:
                self.map = self._mapped()
            if addressed:
                which = new("VkBufferDeviceAddressInfo", buffer=self.handle)
                self.address = vk.GetBufferDeviceAddress(device.handle, which)
        except BaseException:
            self.close()
            raise

    def _allocate(self, kind: str, addressed: bool, exportable: bool) -> frozenset[str]:
        """Take memory from the first preferred type that has room; returns its property names."""
        device, vk = self._device, self._device.functions
        need = ffi.new("VkMemoryRequirements *")
        vk.GetBufferMemoryRequirements(device.handle, self.handle, need)
        flags = new("VkMemoryAllocateFlagsInfo", flags=c.VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT)
        types = [i for i in device.memory_preference(kind) if need.memoryTypeBits >> i & 1]
        if not types:
            raise Unsupported(f"{device.snapshot.name} has no memory for {kind} buffers")
        outside = new("VkExportMemoryAllocateInfo", handleTypes=_FD)
        self.allocated = int(need.size)
        memory = ffi.new("VkDeviceMemory *")
        code = 0
        for index in types:
            info = new("VkMemoryAllocateInfo", allocationSize=need.size, memoryTypeIndex=index)
            info.pNext = flags if addressed else NULL
            if exportable:
                outside.pNext, info.pNext = info.pNext, outside
            try:
                code = vk.AllocateMemory(device.handle, info, NULL, memory)
            except BaseException:  # an interrupt
                if memory[0]:
                    vk.FreeMemory(device.handle, memory[0], NULL)
                raise
            if code == 0:
                self._memory = memory[0]
                created("memory")
                return device.snapshot.memory_types[index].properties
            if code not in (c.VK_ERROR_OUT_OF_DEVICE_MEMORY, c.VK_ERROR_OUT_OF_HOST_MEMORY):
                break
        device.check(code, f"allocating a {kind} buffer", requested=self.size)
        raise failure(code, f"allocating a {kind} buffer", requested=self.size)

    def _mapped(self) -> memoryview:
        pointer = ffi.new("void **")
        vk, device = self._device.functions, self._device
        device.check(vk.MapMemory(device.handle, self._memory, 0, self.size, 0, pointer), "mapping a buffer")
        return memoryview(ffi.buffer(pointer[0], self.size))

    def export(self) -> int:
        """A new file descriptor of the memory, made with `exportable`; the caller, or the API that imports it, closes it.

        What imported it keeps the memory alive when the buffer is closed.
        """
        info = new("VkMemoryGetFdInfoKHR", memory=self._memory, handleType=_FD)
        found = ffi.new("int *")
        self._device.check(
            self._device.functions.GetMemoryFdKHR(self._device.handle, info, found), "exporting memory"
        )
        return int(found[0])

    def close(self) -> None:
        """Free the buffer and its memory. The device must be done with it."""
        self.map = None
        super().close()
        self.address = 0

    def destroy(self) -> None:
        """The Vulkan side of `close`."""
        super().destroy()
        if self._memory:  # freeing mapped memory unmaps it
            self._device.functions.FreeMemory(self._device.handle, self._memory, NULL)
            destroyed("memory")
            self._memory = 0

    def __repr__(self) -> str:
        return f"<buffer {self.size} bytes {'+'.join(sorted(self.flags))}>"


def budget(device: VulkanDevice) -> list[tuple[int, int, int]]:
    """(size, budget, usage) of each heap in bytes; without VK_EXT_memory_budget the budget is the size and usage 0."""
    heaps = device.snapshot.heaps
    if "memory_budget" not in device.profile.features:
        return [(heap.size, heap.size, 0) for heap in heaps]
    figures: Any = new("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
    info = new("VkPhysicalDeviceMemoryProperties2", pNext=figures)
    device.adapter.connection.functions.GetPhysicalDeviceMemoryProperties2(device.adapter.handle, info)
    return [(heap.size, figures.heapBudget[i], figures.heapUsage[i]) for i, heap in enumerate(heaps)]
