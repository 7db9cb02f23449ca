"""A small part of a test matrix in which every pair of parameter values still meets at least once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Mapping, Sequence

#: One row of a matrix: the value of each axis.
Row = Mapping[str, Hashable]


def pairs(row: Row) -> frozenset[tuple[tuple[str, Hashable], tuple[str, Hashable]]]:
    """All pairs of (axis, value) that a row holds."""
    return frozenset(itertools.combinations(sorted(row.items(), key=lambda item: item[0]), 2))


def cover(rows: Sequence[Row], seed: int) -> list[int]:
    """Indices, ascending, of rows that together hold every pair that any row holds.

    Greedy: rows are visited in an order shuffled by `seed`, best gain first. A matrix of one or two axes is kept whole, since
    each of its rows is a pair of its own.
    """
    if not rows or min(map(len, rows)) < 3:
        return list(range(len(rows)))
    held = [pairs(row) for row in rows]
    missing = set().union(*held)
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    # Gains only shrink as pairs are covered, so a stale gain is an upper bound: look at the best bound, refresh, repeat.
    gains = {index: len(held[index]) for index in order}
    ranked = sorted(order, key=lambda index: -gains[index])
    chosen: list[int] = []
    while missing:
        best, best_gain = -1, 0
        for index in ranked:
            if gains[index] <= best_gain:
                continue
            gains[index] = len(held[index] & missing)
            if gains[index] > best_gain:
                best, best_gain = index, gains[index]
        chosen.append(best)
        missing -= held[best]
        gains[best] = 0
    return sorted(chosen)
