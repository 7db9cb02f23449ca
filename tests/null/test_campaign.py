"""The record of fuzzing campaigns: seeds used once, none of the tests', and what joins and overlaps."""

from __future__ import annotations

from typing import Any

from tests.fuzz import campaign


def row(first: int, count: int, commit: str = "a") -> dict[str, Any]:
    return {"first": first, "count": count, "operations": 5 * count, "device": "d", "commit": commit}


def test_the_committed_record_uses_each_seed_once() -> None:
    ranges = campaign.read(campaign.RECORD)
    assert ranges and not campaign.overlap(ranges)
    assert all(
        r["first"] >= campaign.FIRST and r["count"] > 0 and r["commit"] and r["device"] for r in ranges
    )
    assert not any(r["commit"].endswith("+") for r in ranges), "tested with changes that no commit holds"


def test_ranges_that_follow_each_other_join() -> None:
    found = campaign.joined([row(20, 10), row(0, 10), row(10, 10), row(40, 0), row(30, 5, "b")])
    assert [(r["first"], r["count"], r["operations"]) for r in found] == [(0, 30, 150), (30, 5, 25)]


def test_overlap_is_found() -> None:
    assert campaign.overlap([row(0, 10), row(5, 2)])
    assert not campaign.overlap([row(0, 10), row(10, 2)])


def test_a_program_depends_on_its_seed_alone() -> None:
    for seed in (0, 3, 10_000_010):
        (one, smooth), (other, _) = campaign.made(seed), campaign.made(seed)
        assert smooth == (seed % 4 == 3)
        assert one.text() == other.text()
        assert len(one.steps) == len(other.steps) > 0


def test_a_difference_is_told() -> None:
    program, _ = campaign.made(4)
    answers = [program.answers[k] for k in program.wanted]
    assert not campaign.difference(program, answers)
    assert campaign.difference(program, [a.reshape(*a.shape, 1) for a in answers])
