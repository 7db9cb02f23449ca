"""Random graphs: every plan proves itself with any passes left out, and stays near the least memory."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest

from oa._inspect.flow import flow, lifetimes, live_bytes
from oa._lower.fast import PASSES as FAST
from oa._lower.passes import PASSES, lower
from tests.null.lower_rig import PROFILES, graph_of, profile
from tests.null.random_graphs import random_graph


@pytest.mark.parametrize("where", PROFILES)
def test_plans_prove_whatever_is_left_out(where: str, full: bool) -> None:
    """`lower` runs the independent checker: order, ranges, values in scratch, bounds. All subsets of the passes in turn."""
    subsets = [frozenset(c) for k in range(len(PASSES) + 1) for c in combinations(PASSES, k)]
    for seed in range(400 if full else 24):
        graph = graph_of(random_graph(seed))
        lower(graph, profile(where), without=subsets[seed % len(subsets)])
        lower(graph, profile(where), fused=seed % 2 == 0)


@pytest.mark.parametrize("where", PROFILES)
def test_the_fast_passes_prove_alone_and_together(where: str, full: bool) -> None:
    quick = dataclasses.replace(profile(where), numeric="fast")
    subsets = [frozenset(c) for k in range(len(FAST) + 1) for c in combinations(FAST, k)]
    differing = 0
    for seed in range(200 if full else 16):
        graph = graph_of(random_graph(seed))
        made = [
            lower(graph, quick, without=s).plan.digest
            for s in (subsets[seed % len(subsets)], frozenset(FAST))
        ]
        assert made[1] == lower(graph, profile(where)).plan.digest
        differing += made[0] != made[1]
    assert differing > 3


@pytest.mark.parametrize("where", PROFILES)
def test_arenas_are_within_a_tenth_of_what_lives_at_once(where: str, full: bool) -> None:
    checked = 0
    for seed in range(400 if full else 40):
        plan = lower(graph_of(random_graph(seed)), profile(where)).plan
        found = flow(plan)
        least = max(live_bytes(lifetimes(found), found.depth), default=0)
        assert least <= plan.scratch_bytes <= 1.1 * least, seed
        checked += bool(least)
    assert checked > 10, checked
