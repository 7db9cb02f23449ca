"""Engine-owned policy over one device: memory, time, transfers, execution, pipeline cache, profiling. Knows no operations."""
