"""Fewer loop dimensions: neighbouring ones become one where every index steps through both as through one.

`rename` cannot merge a coefficient pair by itself: when dimensions d and d+1 (extent n) merge, each index has
coefficient(d) = n * coefficient(d+1), so the term of d vanishes and that of d+1 covers both.
"""

from __future__ import annotations

from collections.abc import Iterable

from oa._lower.index import Dim, Ix, Quotient, Remainder
from oa._schema.spec import Shape


def _coefficients(ix: Ix) -> dict[int, int]:
    return {a.axis: c for a, c in ix.terms if isinstance(a, Dim)}


def _nested(ix: Ix, pinned: set[int]) -> None:
    """Dimensions inside quotients and remainders, which must keep their identity."""
    for atom, _ in ix.terms:
        if isinstance(atom, (Quotient, Remainder)):
            for inner, _ in atom.value.terms:
                if isinstance(inner, Dim):
                    pinned.add(inner.axis)
            _nested(atom.value, pinned)


def collapse(extents: Shape, groups: tuple[range, ...], indices: Iterable[Ix]) -> tuple[list[list[int]], ...]:
    """For each group of dimensions, runs of dimensions that become one, outermost first. Extents of 1 belong to no run."""
    pinned: set[int] = set()
    tables = []
    for ix in indices:
        _nested(ix, pinned)
        tables.append(_coefficients(ix))
    result = []
    for group in groups:
        runs: list[list[int]] = []
        for axis in group:
            if extents[axis] == 1:
                continue
            if runs and axis not in pinned and _mergeable(runs[-1][-1], axis, extents, tables, pinned):
                runs[-1].append(axis)
            else:
                runs.append([axis])
        result.append(runs)
    return tuple(result)


def _mergeable(
    outer: int, inner: int, extents: Shape, tables: list[dict[int, int]], pinned: set[int]
) -> bool:
    if outer in pinned:
        return False
    return all(t.get(outer, 0) == t.get(inner, 0) * extents[inner] for t in tables)
