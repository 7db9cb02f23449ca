"""Cumulative sums: `family` chooses the kernels of the pack that add up along an axis on a device."""
