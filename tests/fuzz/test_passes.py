"""Differential tests of the passes: random graphs on a device have the same bits with each pass left out alone, and with all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from oa import matrix as m
from oa._lower.passes import PASSES
from tests.null.random_graphs import random_graph

#: Graphs in a block; without --all one block runs.
BLOCK = 12
SUBSETS = [(), *((p,) for p in PASSES), PASSES]


class Inputs:
    """A device's engine that gives a recorded graph its inputs: the same for the same call, gentle numbers."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.number = engine, 0

    def input(self, *shape: int, dtype: str = "float32") -> Any:
        self.number += 1
        rng = np.random.default_rng((self.number, *shape))
        if dtype == "int32":
            return m.from_numpy(self.engine, rng.integers(-1, 1, shape).astype(np.int32))
        return m.from_numpy(self.engine, (rng.random(shape) + 0.25).astype(np.float32))


@contextmanager
def left_out(engine: Any, passes: tuple[str, ...]) -> Iterator[None]:
    programs = engine._programs
    own, programs.without = programs.without, frozenset(passes)
    programs._known.clear()
    try:
        yield
    finally:
        programs.without = own
        programs._known.clear()


def results(engine: Any, function: Callable[[Any], list[Any]], passes: tuple[str, ...]) -> list[bytes]:
    """The graph's results; where the random numbers start is the same each time."""
    engine.rng_state = (5, 0)
    with left_out(engine, passes):
        made = function(Inputs(engine))
        return [v.to_numpy().tobytes() for v in made]


@pytest.mark.parametrize("block", [pytest.param(k, marks=pytest.mark.slow if k else ()) for k in range(20)])
def test_each_pass_alone_and_all_together(any_engine: Any, block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        function = random_graph(seed)
        wanted = results(any_engine, function, ())
        for passes in SUBSETS[1:]:
            assert results(any_engine, function, passes) == wanted, f"seed {seed} without {', '.join(passes)}"
