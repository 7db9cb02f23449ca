"""`oa`: a GPU-first semantic computing engine for Python on Vulkan."""
