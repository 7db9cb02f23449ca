"""Which outputs may take the storage of the input that they replace, and that the checker proves it by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oa import matrix as m
from oa._lower import passes
from oa._lower.check_in_place import check_in_place
from oa._lower.passes import Program, lower
from oa._lower.plan import Barrier, Dispatch, Plan, Space
from oa.errors import InternalError
from tests.null.emit_rig import validate
from tests.null.lower_rig import PROFILES, Recorder, graph_of, profile


def lowered(function: Callable[[Recorder], Any], name: str, *carried: tuple[int, int]) -> Program:
    """The program of a function; `carried` are pairs of a root and of a stored input, by number."""
    graph = graph_of(function)
    stored = [k for k, given in enumerate(graph.inputs) if not given.is_scalar]
    pairs = tuple((root, stored[number]) for root, number in carried)
    return lower(graph, profile(name), carried=pairs)


def adam(e: Recorder) -> Any:
    """Parameters, moments and a gradient that comes from a product: inputs 0 (p), 1 (x), 2 (m), 3 (v); roots m, v, p."""
    p = e.input(64, 64)
    g = m.matmul(m.transpose(p), e.input(64, 64))
    moment = e.input(64, 64) * 0.9 + g * 0.1
    spread = e.input(64, 64) * 0.99 + g * g * 0.01
    return moment, spread, p - moment / (m.sqrt(spread) + 1e-8)


def kept(*shape: int) -> Callable[[Callable[[Any], Any]], Callable[[Recorder], Any]]:
    def wrap(function: Callable[[Any], Any]) -> Callable[[Recorder], Any]:
        return lambda e: function(e.input(*shape))

    return wrap


LEGAL: dict[str, tuple[Callable[[Recorder], Any], tuple[tuple[int, int], ...]]] = {
    "map": (kept(33)(lambda x: m.tanh(x) + x), ((0, 0),)),
    "broadcast beside it": (lambda e: e.input(6, 5) * 2.0 + e.input(5), ((0, 0),)),
    "bytes": (lambda e: e.input(7, dtype="uint8") + 1, ((0, 0),)),
    "from a copy": (kept(8)(lambda x: m.concat([x[1:], x[:1]]) * 2.0), ((0, 0),)),
    "step of a training": (adam, ((0, 2), (1, 3), (2, 0))),
}

ILLEGAL: dict[str, Callable[[Recorder], Any]] = {
    "transposed": kept(8, 8)(lambda x: x + x.T),
    "reversed": kept(33)(lambda x: m.flip(x) + x),
    "shifted": kept(128)(lambda x: m.concat([x[64:], x[:64]])),
    "row of it": kept(8, 8)(lambda x: x - x[0]),
    "element of it": kept(8)(lambda x: x * x[3]),
    "gathered": lambda e: m.take(x := e.input(8), e.input(8, dtype="int32"), axis=0) + x,
    "normalised": kept(8, 64)(lambda x: m.softmax(x)),
    "product": kept(8, 8)(lambda x: m.matmul(x, x)),
    "of its own product": kept(8, 8)(lambda x: m.matmul(x, x) + x[:, ::-1]),
    "read afterwards": kept(64, 64)(lambda x: (y := x + 1.0, m.matmul(m.matmul(y, y), x))),
    "read at the same time": kept(64, 64)(lambda x: (x + 1.0, m.sum(x.T * 3.0, axis=1))),
    "a view of it wanted": kept(64, 64)(lambda x: (x + 1.0, x[1:])),
    "another shape": kept(4, 4)(lambda x: m.reshape(x, (16,)) + 1.0),
    "another dtype": kept(16)(lambda x: m.astype(x * 2.0, "int32")),
    "itself": kept(16)(lambda x: m.reshape(x, (4, 4))),
    "swapped": lambda e: (m.sqrt(e.input(16)), m.exp(e.input(16))),
}


def pair(case: str) -> tuple[int, int]:
    return (1, 0) if case == "swapped" else (0, 0)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("case", LEGAL)
def test_what_reads_no_other_element_may_work_in_place(case: str, name: str) -> None:
    function, pairs = LEGAL[case]
    program = lowered(function, name, *pairs)
    found = {
        (root, source)
        for output, source in program.plan.in_place
        for root, binding in enumerate(program.results)
        if binding.index == output
    }
    assert found == set(pairs)
    assert all(f"out{o} may take in{i}" in program.plan.text() for o, i in program.plan.in_place)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("case", ILLEGAL)
def test_what_reads_otherwise_may_not(case: str, name: str) -> None:
    assert lowered(ILLEGAL[case], name, pair(case)).plan.in_place == ()


def test_nothing_is_in_place_unless_asked_for() -> None:
    for function, _ in LEGAL.values():
        program = lowered(function, "card")
        assert program.plan.in_place == ()
        assert (
            b"\x14\x00\x00\x00"
            not in b"".join(  # decoration Aliased, in this place of an instruction
                d.kernel.words[i : i + 4]
                for d in program.plan.dispatches()
                for i in range(8, len(d.kernel.words) - 4, 4)
                if d.kernel.words[i - 8 : i - 4] == b"\x47\x00\x03\x00"
            )
        )


@pytest.mark.parametrize("name", PROFILES)
def test_kernels_that_work_in_place_are_valid(name: str, tmp_path: Path) -> None:
    for function, pairs in LEGAL.values():
        for dispatch in lowered(function, name, *pairs).plan.dispatches():
            if dispatch.kernel.name == "map":
                validate(dispatch.kernel.words, tmp_path)


# -- the independent checker


def proofs(function: Callable[[Recorder], Any], name: str, *carried: tuple[int, int]) -> tuple[Plan, Any]:
    """A plan, and the nests that lowering gives the checker."""
    found: list[tuple[Plan, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "check_in_place", lambda plan, nests: found.append((plan, nests)))
        lowered(function, name, *carried)
    return found[0]


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("case", ILLEGAL)
def test_the_checker_rejects_what_the_pass_would_not_allow(case: str, name: str) -> None:
    plan, nests = proofs(ILLEGAL[case], name, pair(case))
    alike = [
        (o, i) for o, out in enumerate(plan.outputs) for i, given in enumerate(plan.inputs) if out == given
    ]
    if case in ("another shape", "another dtype"):
        alike = [(0, 0)]
    rejected = 0
    for both in alike:
        try:
            check_in_place(dataclasses.replace(plan, in_place=(both,)), nests)
        except InternalError:
            rejected += 1
    if case not in ("a view of it wanted", "itself"):  # who else sees the input is not in the plan
        assert alike and rejected >= 1, plan.text()


@pytest.mark.parametrize("name", PROFILES)
def test_the_checker_rejects_damaged_plans(name: str) -> None:
    plan, nests = proofs(adam, name, (0, 2), (1, 3), (2, 0))
    check_in_place(plan, nests)
    assert len(plan.in_place) == 3

    def rejects(changed: Plan, nests: Any = nests) -> None:
        with pytest.raises(InternalError):
            check_in_place(changed, nests)

    steps = list(plan.steps)
    last = max(k for k, step in enumerate(steps) if isinstance(step, Barrier))
    rejects(dataclasses.replace(plan, steps=tuple(s for s in steps if not isinstance(s, Barrier))))
    rejects(dataclasses.replace(plan, steps=(*steps[last:], *steps[:last])), [*nests[1:], nests[0]])
    # a late reader of an input that was taken
    reader = next(d for d in plan.dispatches() if any(o.space is Space.INPUT for o in d.operands))
    rejects(dataclasses.replace(plan, steps=(*steps, Barrier(), reader)), [*nests, None])
    rejects(dataclasses.replace(plan, steps=(*steps, reader)), [*nests, None])
    pairs = plan.in_place
    rejects(dataclasses.replace(plan, in_place=(*pairs, pairs[0])))
    rejects(dataclasses.replace(plan, in_place=((pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1]))))
    rejects(plan, [None] * len(nests))
    for k, nest in enumerate(nests):
        if nest is None or nest.schedule.kind != "flat":
            continue
        plain = tuple(dataclasses.replace(b, aliased=False) for b in nest.buffers)
        serial = dataclasses.replace(nest.schedule, kind="serial")
        for damaged in (dataclasses.replace(nest, buffers=plain), dataclasses.replace(nest, schedule=serial)):
            rejects(plan, [*nests[:k], damaged, *nests[k + 1 :]])
    number = max(k for k, step in enumerate(steps) if isinstance(step, Dispatch))
    writer = steps[number]
    assert isinstance(writer, Dispatch)
    for k, operand in enumerate(writer.operands):
        if operand.space is Space.INPUT or operand.space is Space.OUTPUT:
            operands = list(writer.operands)
            operands[k] = dataclasses.replace(operand, part=1)
            changed = dataclasses.replace(writer, operands=tuple(operands))
            rejects(dataclasses.replace(plan, steps=(*steps[:number], changed, *steps[number + 1 :])))
