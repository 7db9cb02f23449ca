"""Random programs of 1 to 60 operations: right against NumPy, and the same bits fused, cut, captured and replayed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.programs import Programs
from tests.conftest import CONFIGURATIONS
from tests.fuzz.campaign import length
from tests.fuzz.programs import Array, Program
from tests.fuzz.wide import grown
from tests.oracle.compare import same_bits

BLOCK = 10
#: Blocks of ten programs; every tenth block without --all.
BLOCKS = [pytest.param(k, marks=pytest.mark.slow if k % 10 else ()) for k in range(100)]


def programs(block: int, smooth: bool) -> list[tuple[int, Program]]:
    seeds = [block * BLOCK + k + (1_000_000 if smooth else 0) for k in range(BLOCK)]
    return [(seed, grown(seed, smooth, length(seed))) for seed in seeds]


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
        assert value.shape == want.shape and value.dtype == want.dtype, (
            f"seed {seed}, value {k}\n{program.text()}"
        )
        assert np.array_equal(value, want, equal_nan=want.dtype.kind == "f"), (
            f"seed {seed}, value {k}: {value} wanted {want}\n{program.text()}"
        )


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
                assert same_bits(one, other), (
                    f"seed {seed}: {name} changes value {k}: {one} {other}\n{program.text()}"
                )


@pytest.fixture(scope="module")
def engines(device_name: str) -> Iterator[list[Any]]:
    """One engine in each configuration."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(oa.Engine(device_name, profile=profile, addressing=addressing))
            for profile, addressing in CONFIGURATIONS.values()
        ]


@pytest.mark.parametrize("block", [pytest.param(k, marks=pytest.mark.slow if k else ()) for k in range(10)])
@pytest.mark.parametrize("smooth", [False, True], ids=["exact", "smooth"])
def test_configurations_agree(engines: list[Any], block: int, smooth: bool) -> None:
    """Strict with addresses, strict with descriptors and compat give the same bits."""
    for seed, program in programs(block + 500, smooth):
        first, *others = [read(program, program.run(upload(engine, program))) for engine in engines]
        if not smooth:
            check_answers(seed, program, first)
        for number, found in enumerate(others, 1):
            for k, one, other in zip(program.wanted, first, found):
                assert same_bits(one, other), (
                    f"seed {seed}: configuration {number} changes value {k}\n{program.text()}"
                )
