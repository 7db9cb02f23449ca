"""Free ranges of numbered blocks: best fit, coalescing. Arithmetic only, no memory behind it.

Every free range carries the timeline value of its last use: the device may reuse it at once (one queue, in order), the host
may not write it before that value has passed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

__all__ = ["Ranges"]

#: Candidates looked at when a range must be idle, before the caller is told there is none.
_IDLE_SCAN = 32


class Ranges:
    """The free ranges of any number of blocks, never adjacent, never overlapping."""

    def __init__(self) -> None:
        self._order: list[tuple[int, int, int]] = []  # (size, block, offset), sorted: best fit is a bisection
        self._starts: dict[int, dict[int, tuple[int, int]]] = {}  # block -> start -> (size, last use)
        self._ends: dict[int, dict[int, int]] = {}  # block -> end -> start
        self._sizes: dict[int, int] = {}
        self.free = 0  #: bytes in all free ranges

    @property
    def largest(self) -> int:
        """Size of the largest free range, 0 when there is none."""
        return self._order[-1][0] if self._order else 0

    def add(self, block: int, size: int) -> None:
        """Take in a new block, free from end to end."""
        self._starts[block] = {}
        self._ends[block] = {}
        self._sizes[block] = size
        self._insert(block, 0, size, 0)

    def remove(self, block: int) -> None:
        """Forget a block that is free from end to end."""
        self._erase(block, 0)
        del self._starts[block], self._ends[block], self._sizes[block]

    def whole(self) -> Iterator[tuple[int, int]]:
        """(block, last use) of each block that is free from end to end."""
        for block, size in self._sizes.items():
            found = self._starts[block].get(0)
            if found is not None and found[0] == size:
                yield block, found[1]

    def take(self, size: int, idle_at: int | None = None) -> tuple[int, int, int] | None:
        """(block, offset, last use) of the smallest range that holds `size`, cut to it; None when there is none.

        With `idle_at`, only ranges last used at or before that value.
        """
        first = bisect_left(self._order, (size, -1, -1))
        for index in range(first, min(len(self._order), first + (1 if idle_at is None else _IDLE_SCAN))):
            length, block, offset = self._order[index]
            last = self._starts[block][offset][1]
            if idle_at is None or last <= idle_at:
                self._erase(block, offset)
                if length > size:
                    self._insert(block, offset + size, length - size, last)
                return block, offset, last
        return None

    def take_block(self, block: int) -> tuple[int, int, int]:
        """(block, 0, last use) of a block that is free from end to end, taken as a whole."""
        last = self._starts[block][0][1]
        self._erase(block, 0)
        return block, 0, last

    def give(self, block: int, offset: int, size: int, last: int) -> None:
        """Return a range; it merges with its free neighbours, keeping the later of their last uses."""
        starts, ends = self._starts[block], self._ends[block]
        after = starts.get(offset + size)
        if after is not None:
            self._erase(block, offset + size)
            size += after[0]
            last = max(last, after[1])
        before = ends.get(offset)
        if before is not None:
            length, used = starts[before]
            self._erase(block, before)
            offset, size, last = before, size + length, max(last, used)
        self._insert(block, offset, size, last)

    def _insert(self, block: int, offset: int, size: int, last: int) -> None:
        insort(self._order, (size, block, offset))
        self._starts[block][offset] = (size, last)
        self._ends[block][offset + size] = offset
        self.free += size

    def _erase(self, block: int, offset: int) -> None:
        size, _ = self._starts[block].pop(offset)
        del self._ends[block][offset + size]
        del self._order[bisect_left(self._order, (size, block, offset))]
        self.free -= size
