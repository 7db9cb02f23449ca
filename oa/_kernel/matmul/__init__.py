"""Matrix multiplication: `family` chooses the kernels of the pack that compute a problem on a device."""
