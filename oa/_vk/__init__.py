"""Mechanism: the one place that calls Vulkan, through cffi in out-of-line ABI mode. It knows no operations and no policy.

Importing this package loads no library; `open_instance` does.
"""

from oa._vk.api import counts
from oa._vk.instance import Adapter, Instance, open_instance

__all__ = ["Adapter", "Instance", "counts", "open_instance"]
