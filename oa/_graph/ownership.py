"""Who else holds an object: what decides whether storage may be written again in place."""

from __future__ import annotations

import sys
from collections.abc import Callable

_UNKNOWN = 1 << 30
_references: Callable[[object], int] = getattr(sys, "getrefcount", lambda _: _UNKNOWN)

# Objects are counted inside a tuple and by `map`, so that nothing depends on what the interpreter keeps on its stack.
_PROBE = [object()]
(_OVERHEAD,) = (count - 1 for count in map(_references, (_PROBE[0],)))


def holders(things: tuple[object, ...]) -> list[int]:
    """How many references each object has beside those of the tuple, which the caller must not hold in variables.

    Where the interpreter does not count references, a number so large that everything counts as held.
    """
    return [count - _OVERHEAD if count < _UNKNOWN else _UNKNOWN for count in map(_references, things)]
