"""Submission to a queue, and timeline semaphores."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from oa._vk import constants as c
from oa._vk.api import NULL, created, destroyed, new
from oa._vk.cdef import ffi
from oa._vk.handle import Handle, create

if TYPE_CHECKING:
    from oa._vk.device import VulkanDevice

#: An unbounded wait returns to Python this often (nanoseconds), so that Ctrl-C is answered.
_SLICE = 100_000_000

_NO_FENCE = 0
_FD = c.VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT


class Queue:
    """A device queue with its command pool. Structures for submission are made once and grown when needed."""

    def __init__(self, device: VulkanDevice, family: int) -> None:
        self._device = device
        self.family = family
        handle = ffi.new("VkQueue *")
        device.functions.GetDeviceQueue(device.handle, family, 0, handle)
        self.handle = handle[0]
        info = new(
            "VkCommandPoolCreateInfo",
            flags=c.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
            queueFamilyIndex=family,
        )
        self.pool = create(device, "CommandPool", info)
        created("command_pool")
        self._submit = device.functions.QueueSubmit2
        self._info = new("VkSubmitInfo2")
        self._signal = new("VkSemaphoreSubmitInfo", stageMask=c.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT)
        self._info.pSignalSemaphoreInfos = self._signal
        self._room_commands(4)
        self._room_waits(4)
        #: A submission of one command buffer that waits for nothing: what most are.
        self._one, self._entry = new("VkSubmitInfo2"), new("VkCommandBufferSubmitInfo")
        self._one.commandBufferInfoCount, self._one.pCommandBufferInfos = 1, self._entry
        self._one.signalSemaphoreInfoCount, self._one.pSignalSemaphoreInfos = 1, self._signal
        self._recorded: Any = None  #: the handle in `_entry`
        self._signalled: Any = None  #: the timeline in `_signal`

    def _room_commands(self, count: int) -> None:
        self._commands = ffi.new("VkCommandBufferSubmitInfo[]", count)
        for entry in self._commands:
            entry.sType = c.STRUCTURE_TYPE["VkCommandBufferSubmitInfo"]
        self._info.pCommandBufferInfos = self._commands

    def _room_waits(self, count: int) -> None:
        self._waits = ffi.new("VkSemaphoreSubmitInfo[]", count)
        for entry in self._waits:
            entry.sType = c.STRUCTURE_TYPE["VkSemaphoreSubmitInfo"]
            entry.stageMask = c.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT
        self._info.pWaitSemaphoreInfos = self._waits

    def submit(
        self, commands: Sequence[Any], wait: Sequence[tuple[Any, int]], signal: tuple[Any, int] | None
    ) -> None:
        """One vkQueueSubmit2."""
        if signal is not None:
            timeline, value = signal
            if timeline is not self._signalled:
                self._signal.semaphore, self._signalled = timeline.handle, timeline
            self._signal.value = value
            if len(commands) == 1 and not wait:
                recorded = commands[0].handle
                if recorded is not self._recorded:
                    self._entry.commandBuffer = self._recorded = recorded
                self._done(self._submit(self.handle, 1, self._one, _NO_FENCE))
                return
        if len(commands) > len(self._commands):
            self._room_commands(2 * len(commands))
        if len(wait) > len(self._waits):
            self._room_waits(2 * len(wait))
        info, entries = self._info, self._commands
        for index, recorded in enumerate(commands):
            entries[index].commandBuffer = recorded.handle
        for index, (timeline, value) in enumerate(wait):
            entry = self._waits[index]
            entry.semaphore = timeline.handle
            entry.value = value
        info.commandBufferInfoCount = len(commands)
        info.waitSemaphoreInfoCount = len(wait)
        info.signalSemaphoreInfoCount = 0 if signal is None else 1
        self._done(self._submit(self.handle, 1, info, _NO_FENCE))

    def _done(self, code: int) -> None:
        if code:
            self._device.check(code, "submitting work")

    def close(self) -> None:
        """Destroy the command pool."""
        self._device.functions.DestroyCommandPool(self._device.handle, self.pool, NULL)
        destroyed("command_pool")


class VulkanTimeline(Handle):
    """A timeline semaphore: a number that submissions raise. `value` and `wait` may be called from any thread."""

    __slots__ = ("_read", "_wait")
    kind, what = "semaphore", "Semaphore"

    def __init__(self, device: VulkanDevice, exportable: bool = False) -> None:
        self._read = device.functions.GetSemaphoreCounterValue
        self._wait = device.functions.WaitSemaphores
        timeline = new("VkSemaphoreTypeCreateInfo", semaphoreType=c.VK_SEMAPHORE_TYPE_TIMELINE)
        outside = new("VkExportSemaphoreCreateInfo", handleTypes=_FD)
        if exportable:
            timeline.pNext = outside
        super().__init__(device, create(device, self.what, new("VkSemaphoreCreateInfo", pNext=timeline)))

    def export(self) -> int:
        """A new file descriptor of the semaphore, made with `exportable`; whoever imports it closes it."""
        info = new("VkSemaphoreGetFdInfoKHR", semaphore=self.handle, handleType=_FD)
        found = ffi.new("int *")
        code = self._device.functions.GetSemaphoreFdKHR(self._device.handle, info, found)
        self._device.check(code, "exporting a timeline")
        return int(found[0])

    def value(self) -> int:
        """The value reached so far."""
        self._device.require_open()
        found = ffi.new("uint64_t *")
        code = self._read(self._device.handle, self.handle, found)
        if code:
            self._device.check(code, "reading a timeline")
        return int(found[0])

    def wait(self, value: int, timeout_ns: int | None = None) -> bool:
        """Wait until the timeline reaches `value`; False when `timeout_ns` passed first. Other Python threads run meanwhile."""
        device = self._device
        device.require_open()
        semaphore = ffi.new("VkSemaphore *", self.handle)
        target = ffi.new("uint64_t *", value)
        info = new("VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=semaphore, pValues=target)
        deadline = None if timeout_ns is None else monotonic_ns() + max(0, timeout_ns)
        while True:
            left = _SLICE if deadline is None else max(0, min(_SLICE, deadline - monotonic_ns()))
            code = self._wait(device.handle, info, left)
            if code != c.VK_TIMEOUT:
                if code:
                    device.check(code, "waiting for a timeline")
                return True
            if deadline is not None and monotonic_ns() >= deadline:
                return False
