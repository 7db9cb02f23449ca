"""From a loop nest to its kernel, built once."""

from __future__ import annotations

from oa._kernel.emit import nest_map, nest_row
from oa._kernel.emit.nest import Nest, Target
from oa._kernel.pack import Kernel
from oa._schema.interning import Recent

#: Kernels of plans that are gone are kept for the next one that needs them, up to this many.
CAPACITY = 1024

_KERNELS: Recent[tuple[Nest, Target], Kernel] = Recent(CAPACITY)


def compile_nest(nest: Nest, target: Target) -> Kernel:
    """The kernel of a nest, built on first use."""
    found = _KERNELS.get((nest, target))
    if found is None:
        emit = nest_map.emit if nest.schedule.kind == "flat" else nest_row.emit
        found = _KERNELS[nest, target] = emit(nest, target)
    return found
