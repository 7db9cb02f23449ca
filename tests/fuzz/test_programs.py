"""Random programs of 1 to 60 operations: right against NumPy, and the same bits however they are fused, cut, captured or replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oa import matrix as m
from oa.programs import Programs
from tests.fuzz.programs import Array, Generator, Program
from tests.oracle.compare import same_bits

BLOCK = 10
#: Blocks of ten programs; every tenth block without --all.
BLOCKS = [pytest.param(k, marks=pytest.mark.slow if k % 10 else ()) for k in range(100)]


def length(seed: int) -> int:
    """Most programs are short, one in ten has up to 60 operations: a fault in a short one is sooner found."""
    return 1 + seed * 7 % (60 if seed % 10 == 0 else 11)


def programs(block: int, smooth: bool) -> list[tuple[int, Program]]:
    seeds = [block * BLOCK + k + (1_000_000 if smooth else 0) for k in range(BLOCK)]
    return [(seed, Generator(seed, smooth).grow(length(seed))) for seed in seeds]


def upload(engine: Any, program: Program) -> list[Any]:
    return [m.from_numpy(engine, x) for x in program.inputs]


def read(program: Program, values: list[Any]) -> list[Array]:
    kept = [values[k] for k in program.wanted]
    values.clear()  # what nobody wants is not kept alive, so that fusion may leave it out
    return [v.to_numpy() for v in kept]


def unfused(monkeypatch: pytest.MonkeyPatch) -> None:
    from oa._lower.passes import lower

    def apart(self: Programs, graph: Any, *, owned: frozenset[int] = frozenset(), **_: Any) -> Any:
        return lower(graph, self._profile, fused=False, owned=owned)

    monkeypatch.setattr(Programs, "lower", apart)


def captured(engine: Any, program: Program, inputs: list[Any]) -> list[Array]:
    def function() -> tuple[Any, ...]:
        values = program.run(inputs)
        return tuple(values[k] for k in program.wanted)

    plan = engine.capture(function)
    engine.submit(plan)
    engine.submit(plan)
    return [v.to_numpy() for v in plan.outputs]


def check_answers(seed: int, program: Program, got: list[Array]) -> None:
    for k, value in zip(program.wanted, got):
        want = program.answers[k]
        assert value.shape == want.shape and value.dtype == want.dtype, f"seed {seed}, value {k}\n{program.text()}"
        assert np.array_equal(value, want), f"seed {seed}, value {k}: {value} wanted {want}\n{program.text()}"


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("smooth", [False, True], ids=["exact", "smooth"])
def test_programs(any_engine: Any, block: int, smooth: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused, cut after every few operations, captured and replayed, and each operation in a kernel of its own."""
    engine = any_engine
    for seed, program in programs(block, smooth):
        inputs = upload(engine, program)
        fused = read(program, program.run(inputs))
        if not smooth:
            check_answers(seed, program, fused)

        def cut(k: int, every: int = 2 + seed % 5) -> None:
            if k % every == 0:
                engine.flush()

        ways = {"cut": read(program, program.run(inputs, cut)), "captured": captured(engine, program, inputs)}
        with monkeypatch.context() as patch:
            unfused(patch)
            engine._programs._known.clear()
            ways["unfused"] = read(program, program.run(inputs))
        engine._programs._known.clear()
        for name, found in ways.items():
            for k, one, other in zip(program.wanted, fused, found):
                assert same_bits(one, other), f"seed {seed}: {name} changes value {k}: {one} {other}\n{program.text()}"


@pytest.mark.parametrize("block", [pytest.param(k, marks=pytest.mark.slow if k else ()) for k in range(10)])
def test_configurations_agree(engine: Any, block: int) -> None:
    """The three configurations give the answers of the exact programs."""
    for seed, program in programs(block + 500, smooth=False):
        check_answers(seed, program, read(program, program.run(upload(engine, program))))
