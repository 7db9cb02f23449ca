"""Layer 2: kernels. Families compiled ahead, and the emitter that encodes SPIR-V words at run time."""
