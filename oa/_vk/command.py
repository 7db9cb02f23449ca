"""Recording command buffers. This is the hot path: function pointers and argument structures are bound once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oa._vk import constants as c
from oa._vk.api import destroyed, new
from oa._vk.cdef import ffi
from oa._vk.handle import Handle
from oa.errors import ArgumentError

if TYPE_CHECKING:
    from oa._vk.device import VulkanDevice
    from oa._vk.queue import Queue

_COMPUTE = c.VK_PIPELINE_BIND_POINT_COMPUTE
_NO_OFFSETS: Any = ffi.NULL
_STAGE = c.VK_SHADER_STAGE_COMPUTE_BIT
_SHADER = c.VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT
_TRANSFER = c.VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT
_SHADER_WRITE = c.VK_ACCESS_2_SHADER_WRITE_BIT
_SHADER_ANY = c.VK_ACCESS_2_SHADER_READ_BIT | c.VK_ACCESS_2_SHADER_WRITE_BIT
_TRANSFER_WRITE = c.VK_ACCESS_2_TRANSFER_WRITE_BIT
_TRANSFER_ANY = c.VK_ACCESS_2_TRANSFER_READ_BIT | c.VK_ACCESS_2_TRANSFER_WRITE_BIT

#: Barriers by name: (source stages, source accesses, destination stages, destination accesses).
BARRIERS = {
    "compute": (_SHADER, _SHADER_WRITE, _SHADER, _SHADER_ANY),
    "all": (_SHADER | _TRANSFER, _SHADER_WRITE | _TRANSFER_WRITE, _SHADER | _TRANSFER, _SHADER_ANY | _TRANSFER_ANY),
    "host": (_SHADER | _TRANSFER, _SHADER_WRITE | _TRANSFER_WRITE, c.VK_PIPELINE_STAGE_2_HOST_BIT,
             c.VK_ACCESS_2_HOST_READ_BIT),
}  # fmt: skip


def _dependency(source: int, written: int, target: int, used: int) -> tuple[Any, Any]:
    """A VkDependencyInfo with one memory barrier, and that barrier, which the caller keeps alive."""
    barrier = new(
        "VkMemoryBarrier2",
        srcStageMask=source,
        srcAccessMask=written,
        dstStageMask=target,
        dstAccessMask=used,
    )
    return new("VkDependencyInfo", memoryBarrierCount=1, pMemoryBarriers=barrier), barrier


#: Immutable, so shared by every command buffer of the process.
_DEPENDENCIES = {name: _dependency(*masks) for name, masks in BARRIERS.items()}


class VulkanCommands(Handle):
    """One primary command buffer. Reusable: `begin` starts it afresh, and a recording may be submitted again once the device is
    done with its earlier submission.

    `barrier(kind)`: "compute" orders kernels' writes before kernels; "all" orders kernels and copies before kernels and copies;
    "host" makes what kernels and copies wrote readable by the host once the timeline says so.
    """

    __slots__ = (
        "_barrier2", "_bind", "_bind_sets", "_bound", "_compute", "_copy", "_dispatch", "_fill", "_pool", "_push",
        "_region", "_reset_queries", "_set", "_stamp", "_word",
    )  # fmt: skip
    kind = "command_buffer"

    def __init__(self, device: VulkanDevice, queue: Queue) -> None:
        vk = device.functions
        level = c.VK_COMMAND_BUFFER_LEVEL_PRIMARY
        info = new("VkCommandBufferAllocateInfo", commandPool=queue.pool, level=level, commandBufferCount=1)
        handle = ffi.new("VkCommandBuffer *")
        try:
            code = vk.AllocateCommandBuffers(device.handle, info, handle)
        except BaseException:  # an interrupt
            if handle[0]:
                vk.FreeCommandBuffers(device.handle, queue.pool, 1, handle)
            raise
        device.check(code, "allocating a command buffer")
        self._pool = queue.pool  # first: from the next line on the device may destroy the object
        super().__init__(device, handle[0])
        self._bind, self._push, self._dispatch = vk.CmdBindPipeline, vk.CmdPushConstants, vk.CmdDispatch
        self._bind_sets, self._barrier2 = vk.CmdBindDescriptorSets, vk.CmdPipelineBarrier2
        self._copy, self._fill = vk.CmdCopyBuffer, vk.CmdFillBuffer
        self._stamp, self._reset_queries = vk.CmdWriteTimestamp2, vk.CmdResetQueryPool
        self._word = ffi.new("uint64_t *")
        self._set, self._region = ffi.new("VkDescriptorSet *"), ffi.new("VkBufferCopy *")
        self._compute = _DEPENDENCIES["compute"][0]
        self._bound: Any = None

    def begin(self, one_time: bool = False) -> None:
        """Start recording, dropping what was recorded before.

        `one_time` promises at most one submission; without it the buffer may be submitted again while pending.
        """
        many = c.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
        usage = c.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT if one_time else many
        info = new("VkCommandBufferBeginInfo", flags=usage)
        self._device.check(
            self._device.functions.BeginCommandBuffer(self.handle, info), "starting a recording"
        )
        self._bound = None

    def end(self) -> None:
        """Finish recording."""
        self._device.check(self._device.functions.EndCommandBuffer(self.handle), "finishing a recording")

    def reset(self) -> None:
        """Drop the recording and give its memory back to the pool."""
        self._device.check(self._device.functions.ResetCommandBuffer(self.handle, 0), "resetting a recording")
        self._bound = None

    def dispatch_address(self, pipeline: Any, block_address: int, groups: tuple[int, int, int]) -> None:
        """Run a kernel whose argument block lies at a device address."""
        handle = self.handle
        if pipeline is not self._bound:
            self._bind(handle, _COMPUTE, pipeline.handle)
            self._bound = pipeline
        word = self._word
        word[0] = block_address
        self._push(handle, pipeline.layout, _STAGE, 0, 8, word)
        self._dispatch(handle, *groups)

    def dispatch_descriptor(self, pipeline: Any, descriptor_set: int, groups: tuple[int, int, int]) -> None:
        """Run a kernel whose argument block is at binding 0 of the set."""
        handle = self.handle
        if pipeline is not self._bound:
            self._bind(handle, _COMPUTE, pipeline.handle)
            self._bound = pipeline
        bound = self._set
        bound[0] = descriptor_set
        self._bind_sets(handle, _COMPUTE, pipeline.layout, 0, 1, bound, 0, _NO_OFFSETS)
        self._dispatch(handle, *groups)

    def bind(self, pipeline: Any) -> None:
        """Make a pipeline current."""
        self._bind(self.handle, _COMPUTE, pipeline.handle)
        self._bound = pipeline

    def push(self, pipeline: Any, data: bytes) -> None:
        """Set the push constants: a multiple of four bytes."""
        self._push(self.handle, pipeline.layout, _STAGE, 0, len(data), ffi.from_buffer(data))

    def descriptors(self, pipeline: Any, descriptor_set: int) -> None:
        """Make a descriptor set current."""
        self._set[0] = descriptor_set
        self._bind_sets(self.handle, _COMPUTE, pipeline.layout, 0, 1, self._set, 0, _NO_OFFSETS)

    def dispatch(self, x: int, y: int = 1, z: int = 1) -> None:
        """Run the current pipeline over a grid of groups."""
        self._dispatch(self.handle, x, y, z)

    def barrier(self, kind: str = "compute") -> None:
        """Order what comes after behind what came before; see the class for the kinds."""
        if kind == "compute":
            self._barrier2(self.handle, self._compute)
        elif kind in _DEPENDENCIES:
            self._barrier2(self.handle, _DEPENDENCIES[kind][0])
        else:
            raise ArgumentError(f"barrier: got {kind!r}, wanted one of {', '.join(_DEPENDENCIES)}")

    def copy(self, source: Any, source_offset: int, target: Any, target_offset: int, size: int) -> None:
        """Copy `size` bytes between buffers, offsets in bytes; ranges of one buffer must not overlap."""
        region = self._region
        region.srcOffset, region.dstOffset, region.size = source_offset, target_offset, size
        self._copy(self.handle, source.handle, target.handle, 1, region)

    def fill(self, buffer: Any, offset: int, size: int, word: int) -> None:
        """Fill `size` bytes with a 32-bit pattern; offset and size are multiples of four."""
        self._fill(self.handle, buffer.handle, offset, size, word)

    def reset_queries(self, pool: Any, first: int, count: int) -> None:
        """Make timestamps writable again."""
        self._reset_queries(self.handle, pool.handle, first, count)

    def timestamp(self, pool: Any, index: int) -> None:
        """Write a timestamp once everything recorded before is done."""
        self._stamp(self.handle, c.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, pool.handle, index)

    def destroy(self) -> None:
        """The Vulkan side of `close`."""
        device = self._device
        pointer = ffi.new("VkCommandBuffer *", self.handle)
        device.functions.FreeCommandBuffers(device.handle, self._pool, 1, pointer)
        destroyed(self.kind)
