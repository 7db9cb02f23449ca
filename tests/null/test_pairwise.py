"""The slice of the test matrix covers what it promises, and stays small and stable."""

from __future__ import annotations

import itertools

from tests.pairwise import cover, pairs


def matrix(*extents: int) -> list[dict[str, int]]:
    return [
        {f"axis{axis}": value for axis, value in enumerate(row)}
        for row in itertools.product(*(range(extent) for extent in extents))
    ]


def test_every_pair_is_covered_by_a_small_part() -> None:
    rows = matrix(20, 5, 3, 4)
    chosen = cover(rows, seed=1)
    assert set().union(*(pairs(rows[index]) for index in chosen)) == set().union(*map(pairs, rows))
    assert 100 <= len(chosen) <= 130  # 100 pairs of the two largest axes; all 1,200 rows are the whole matrix


def test_one_or_two_axes_are_kept_whole() -> None:
    assert cover(matrix(4), seed=0) == list(range(4))
    assert cover(matrix(4, 5), seed=0) == list(range(20))
    assert cover([], seed=0) == []


def test_explicit_cases_are_no_matrix() -> None:
    # Several names in one parametrize share an index, so each case holds a pair of its own.
    rows = [{"a": index, "b": index, "c": index} for index in range(30)]
    assert cover(rows, seed=0) == list(range(30))


def test_the_seed_decides() -> None:
    rows = matrix(6, 6, 6)
    assert cover(rows, seed=3) == cover(rows, seed=3)
    assert cover(rows, seed=3) != cover(rows, seed=4)
