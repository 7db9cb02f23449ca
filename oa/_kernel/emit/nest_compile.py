"""From a loop nest to its kernel, built once."""

from __future__ import annotations

from oa._kernel.emit import nest_map, nest_row
from oa._kernel.emit.nest import Nest
from oa._kernel.pack import Kernel
from oa._schema.interning import Recent

#: Kernels of plans that are gone are kept for the next one that needs them, up to this many.
CAPACITY = 1024

_KERNELS: Recent[tuple[Nest, str, frozenset[str]], Kernel] = Recent(CAPACITY)


def compile_nest(nest: Nest, addressing: str, trusted: frozenset[str] = frozenset()) -> Kernel:
    """The kernel of a nest, built on first use; `trusted` as in `Builder`."""
    key = (nest, addressing, trusted)
    found = _KERNELS.get(key)
    if found is None:
        emit = nest_map.emit if nest.schedule.kind == "flat" else nest_row.emit
        found = _KERNELS[key] = emit(nest, addressing, trusted)
    return found
