"""Free ranges of numbered blocks: best fit, coalescing. Arithmetic only, no memory behind it.

Every free range carries the timeline value of its last use: the device may reuse it at once (one queue, in order), the host
may not write it before that value has passed.

An interrupt between any two statements may lose a range, but never breaks anything: `_starts` alone says what is free, it
changes in one statement, and the other tables are hints that are looked up in it.
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
        self._starts: dict[int, dict[int, tuple[int, int]]] = {}  # block -> start -> (size, last use)
        self._order: list[tuple[int, int, int]] = []  # (size, block, offset), sorted: best fit is a bisection
        self._ends: dict[int, dict[int, int]] = {}  # block -> end -> start
        self._sizes: dict[int, int] = {}

    @property
    def free(self) -> int:
        """Bytes in all free ranges."""
        return sum(size for starts in self._starts.values() for size, _ in starts.values())

    @property
    def largest(self) -> int:
        """Size of the largest free range, 0 when there is none. Any thread may ask."""
        return next(
            (size for size, block, start in reversed(self._order) if self._is_free(block, start, size)), 0
        )

    def _is_free(self, block: int, start: int, size: int) -> bool:
        found = self._starts.get(block, {}).get(start)
        return found is not None and found[0] == size

    def add(self, block: int, size: int) -> None:
        """Take in a new block, free from end to end."""
        self._starts[block] = {}
        self._ends[block] = {}
        self._sizes[block] = size
        self._insert(block, 0, size, 0)

    def remove(self, block: int) -> None:
        """Forget a block that is free from end to end."""
        size = self._sizes.pop(block)
        self._erase(block, 0, size)
        del self._starts[block], self._ends[block]

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
        index = bisect_left(self._order, (size, -1, -1))
        stop = index + (1 if idle_at is None else _IDLE_SCAN)
        while index < min(len(self._order), stop):
            length, block, offset = self._order[index]
            if not self._is_free(block, offset, length):
                del self._order[index]  # what an interrupt left behind
                continue
            last = self._starts[block][offset][1]
            if idle_at is None or last <= idle_at:
                self._erase(block, offset, length)
                if length > size:
                    self._insert(block, offset + size, length - size, last)
                return block, offset, last
            index += 1
        return None

    def take_block(self, block: int) -> tuple[int, int, int]:
        """(block, 0, last use) of a block that is free from end to end, taken as a whole."""
        size, last = self._starts[block][0]
        self._erase(block, 0, size)
        return block, 0, last

    def give(self, block: int, offset: int, size: int, last: int) -> None:
        """Return a range; it merges with its free neighbours, keeping the later of their last uses."""
        starts = self._starts[block]
        after = starts.get(offset + size)
        if after is not None:
            self._erase(block, offset + size, after[0])
            size += after[0]
            last = max(last, after[1])
        start = self._ends[block].get(offset)
        before = None if start is None else starts.get(start)
        if start is not None and before is not None and start + before[0] == offset:
            self._erase(block, start, before[0])
            offset, size, last = start, before[0] + size, max(last, before[1])
        self._insert(block, offset, size, last)

    def _insert(self, block: int, offset: int, size: int, last: int) -> None:
        insort(self._order, (size, block, offset))
        self._ends[block][offset + size] = offset
        self._starts[block][offset] = (size, last)

    def _erase(self, block: int, offset: int, size: int) -> None:
        del self._starts[block][offset]
        self._ends[block].pop(offset + size, None)
        index = bisect_left(self._order, (size, block, offset))
        if self._order[index : index + 1] == [(size, block, offset)]:
            del self._order[index]
