"""Sorting: `family` chooses the kernels of the pack that put rows of keys in order on a device."""
