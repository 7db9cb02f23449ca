"""Objects made from a device: creation, counting, and closing once, from wherever it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from oa._vk.api import NULL, created, destroyed
from oa._vk.cdef import ffi

if TYPE_CHECKING:
    from oa._vk.device import VulkanDevice


def create(device: VulkanDevice, what: str, info: Any) -> int:
    """Run `vkCreate<what>` and return the new handle. `info` is the create-info structure."""
    handle = ffi.new(f"Vk{what} *")
    try:
        code = getattr(device.functions, f"Create{what}")(device.handle, info, NULL, handle)
    except BaseException:  # an interrupt, which Python raises when the driver has returned
        if handle[0]:
            getattr(device.functions, f"Destroy{what}")(device.handle, handle[0], NULL)
        raise
    device.check(code, f"creating a Vulkan {what}")
    return int(handle[0])


class Handle:
    """A Vulkan object of a device, counted as `kind` while it lives; `vkDestroy<what>` ends it."""

    __slots__ = ("_device", "handle")
    kind: ClassVar[str]
    what: ClassVar[str]

    def __init__(self, device: VulkanDevice, handle: int) -> None:
        self._device = device
        self.handle: Any = handle
        created(self.kind)
        device.adopt(self)

    def close(self) -> None:
        """Destroy the object; nothing submitted may still use it. Closing twice does nothing."""
        if self.handle:
            self._device.release(self)
            self.handle = 0

    def destroy(self) -> None:
        """The Vulkan side of `close`."""
        device = self._device
        getattr(device.functions, f"Destroy{self.what}")(device.handle, self.handle, NULL)
        destroyed(self.kind)
