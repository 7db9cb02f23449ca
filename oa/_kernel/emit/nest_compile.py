"""From a loop nest to its kernel, built once."""

from __future__ import annotations

from oa._kernel.emit import nest_epilogue, nest_map, nest_row, nest_tile
from oa._kernel.emit.nest import Nest, Target
from oa._kernel.pack import Kernel
from oa._schema.interning import Recent

#: Kernels of plans that are gone are kept for the next one that needs them, up to this many.
CAPACITY = 1024

_MAPS = {"flat": nest_map.emit, "tile": nest_tile.emit}
_KERNELS: Recent[tuple[Nest, Target, Kernel | None], Kernel] = Recent(CAPACITY)


def compile_nest(nest: Nest, target: Target, into: Kernel | None = None) -> Kernel:
    """The kernel of a nest, alone or in the hook of the kernel `into`, built on first use."""
    found = _KERNELS.get((nest, target, into))
    if found is None:
        if into is not None:
            found = nest_epilogue.emit(nest, target, into)
        else:
            found = _MAPS.get(nest.schedule.kind, nest_row.emit)(nest, target)
        _KERNELS[nest, target, into] = found
    return found
