"""From a loop nest to its kernel, built once."""

from __future__ import annotations

from oa._kernel.emit import nest_map, nest_row
from oa._kernel.emit.nest import Nest
from oa._kernel.pack import Kernel

_KERNELS: dict[tuple[Nest, str], Kernel] = {}


def compile_nest(nest: Nest, addressing: str) -> Kernel:
    """The kernel of a nest, built on first use."""
    found = _KERNELS.get((nest, addressing))
    if found is None:
        emit = nest_map.emit if nest.schedule.kind == "flat" else nest_row.emit
        found = _KERNELS[nest, addressing] = emit(nest, addressing)
    return found
