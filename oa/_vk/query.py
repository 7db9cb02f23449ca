"""Timestamp queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oa._vk import constants as c
from oa._vk.api import new, result_name
from oa._vk.cdef import ffi
from oa._vk.handle import Handle, create
from oa.errors import Unsupported, VulkanError

if TYPE_CHECKING:
    from oa._vk.device import VulkanDevice


class VulkanQueryPool(Handle):
    """Room for `count` timestamps, in ticks of `Device.timestamp_period` nanoseconds."""

    __slots__ = ("_mask", "count")
    kind, what = "query_pool", "QueryPool"

    def __init__(self, device: VulkanDevice, count: int) -> None:
        bits = device.snapshot.queue_families[device.queue("compute").family].timestamp_bits
        if not bits:
            raise Unsupported(f"{device.snapshot.name} has no timestamps on its compute queue")
        self._mask = (1 << bits) - 1
        self.count = count
        info = new("VkQueryPoolCreateInfo", queryType=c.VK_QUERY_TYPE_TIMESTAMP, queryCount=count)
        super().__init__(device, create(device, self.what, info))

    def read(self, first: int, count: int) -> list[int]:
        """Ticks of `count` timestamps from `first`. Raises VulkanError when one was not yet written."""
        if not count:
            return []
        device = self._device
        ticks = ffi.new("uint64_t[]", count)
        code = device.functions.GetQueryPoolResults(
            device.handle, self.handle, first, count, 8 * count, ticks, 8, c.VK_QUERY_RESULT_64_BIT
        )
        device.check(code, "reading timestamps")
        if code:
            name = result_name(code)
            raise VulkanError(
                f"timestamps {first} to {first + count - 1} are not written yet ({name})",
                code=code,
                name=name,
            )
        return [tick & self._mask for tick in ffi.unpack(ticks, count)]
