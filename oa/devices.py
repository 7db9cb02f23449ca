"""`oa.devices()`: what Vulkan devices this machine has."""

from __future__ import annotations

from oa._device.info import DeviceInfo
from oa._doctor import devices

__all__ = ["DeviceInfo", "devices"]
