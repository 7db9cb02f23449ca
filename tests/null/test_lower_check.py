"""The plan checker rejects every plan with a barrier less, a barrier more, or values on top of each other; and colouring."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oa import matrix as m
from oa._lower import check, passes
from oa._lower.memory import ALIGNMENT, Interval, colour
from oa._lower.plan import Access, Barrier, Dispatch, Plan, Space
from oa.errors import InternalError
from tests.fuzz.wide import grown
from tests.null.lower_rig import PROFILES, Recorder, lowered, profile


class Proof:
    """A plan with what the checker is told about it."""

    def __init__(self, plan: Plan, identities: Any, parents: Any, device: str) -> None:
        self.plan, self.identities, self.parents, self.device = plan, identities, parents, device

    def check(self, plan: Plan | None = None, identities: Any = None) -> None:
        passes.prove(plan or self.plan, identities or self.identities, self.parents, profile(self.device))


def proven(function: Callable[[Recorder], Any], device: str) -> Proof:
    found: list[Proof] = []
    plain = passes.prove

    def watch(plan: Plan, identities: Any, parents: Any, _: Any) -> None:
        found.append(Proof(plan, identities, parents, device))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "prove", watch)
        lowered(function, device)
    assert passes.prove is plain
    return found[0]


def layers(e: Recorder) -> Any:
    """Products, reductions and what stands between them: a plan with levels and scratch."""
    x = e.input(33, 65)
    for _ in range(3):
        h = m.matmul(m.tanh(x), e.input(65, 65))
        x = m.softmax(h, axis=0) + m.mean(m.matmul(h, e.input(65, 65)), axis=0)
    return x


def sums(e: Recorder) -> Any:
    x = e.input(7, 5000)
    long = [m.sum(x * float(k), axis=1) for k in range(3)]
    return [a + b for a, b in pairwise(long)], m.concat([*long, m.max(x, axis=1)])


CASES = {"layers": layers, "sums": sums}


@pytest.fixture(params=[(c, d) for c in CASES for d in PROFILES], ids=lambda p: f"{p[0]}-{p[1]}")
def proof(request: pytest.FixtureRequest) -> Proof:
    case, device = request.param
    found = proven(CASES[case], device)
    found.check()
    return found


def rejected(proof: Proof, plan: Plan, identities: Any = None) -> bool:
    try:
        proof.check(plan, identities)
    except InternalError:
        return True
    return False


def test_a_missing_barrier_is_found(proof: Proof) -> None:
    steps = proof.plan.steps
    barriers = [k for k, s in enumerate(steps) if isinstance(s, Barrier)]
    assert barriers
    for k in barriers:
        assert rejected(proof, dataclasses.replace(proof.plan, steps=steps[:k] + steps[k + 1 :])), k


def test_a_needless_barrier_is_found(proof: Proof) -> None:
    steps = proof.plan.steps
    for k in range(len(steps) + 1):
        assert rejected(proof, dataclasses.replace(proof.plan, steps=(*steps[:k], Barrier(), *steps[k:]))), k


def with_operand(plan: Plan, number: int, at: int, **changes: Any) -> Plan:
    """The plan with fields of one operand of one dispatch changed."""
    steps, seen = list(plan.steps), -1
    for k, step in enumerate(steps):
        if isinstance(step, Dispatch):
            seen += 1
            if seen == number:
                operands = list(step.operands)
                operands[at] = dataclasses.replace(operands[at], **changes)
                steps[k] = dataclasses.replace(step, operands=tuple(operands))
    return dataclasses.replace(plan, steps=tuple(steps))


def scratch_values(proof: Proof) -> dict[int, list[tuple[int, int]]]:
    """Scratch value -> where it is an operand: (dispatch, operand)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for d, dispatch in enumerate(proof.plan.dispatches()):
        for k, operand in enumerate(dispatch.operands):
            if operand.space is Space.SCRATCH:
                found.setdefault(proof.identities[d][k], []).append((d, k))
    return found


def test_values_on_top_of_each_other_are_found(proof: Proof) -> None:
    """Any two scratch values alive together, put at one offset."""
    values = scratch_values(proof)
    dispatches = list(proof.plan.dispatches())
    tried = 0
    for a, at_a in values.items():
        for b, at_b in values.items():
            alive = at_a[0][0] < at_b[-1][0] and at_b[0][0] < at_a[-1][0]
            if a == b or not alive or proof.parents.get(a) == b or proof.parents.get(b) == a:
                continue
            tried += 1
            offset = dispatches[at_b[0][0]].operands[at_b[0][1]].offset
            plan = proof.plan
            for d, k in at_a:
                plan = with_operand(plan, d, k, offset=offset)
            assert rejected(proof, plan), f"value {a} on {b}"
    assert tried or len(values) < 2


def test_a_read_elsewhere_is_found(proof: Proof) -> None:
    plan = proof.plan
    for d, dispatch in enumerate(plan.dispatches()):
        for k, operand in enumerate(dispatch.operands):
            if operand.space is Space.SCRATCH and Access.READ in operand.access:
                assert rejected(proof, with_operand(plan, d, k, offset=operand.offset + ALIGNMENT))
                assert rejected(proof, with_operand(plan, d, k, size=operand.size + 16))


def test_what_lies_outside_is_found(proof: Proof) -> None:
    plan = proof.plan
    first = next(plan.dispatches())
    assert rejected(proof, with_operand(plan, 0, 0, offset=1 << 40))
    assert rejected(proof, with_operand(plan, 0, 0, offset=first.operands[0].offset + 4))
    inputs = [k for k, o in enumerate(first.operands) if o.space is Space.INPUT]
    assert rejected(proof, with_operand(plan, 0, inputs[0], access=Access.WRITE))
    limits = profile(proof.device).limits
    for groups in ((limits.max_groups[0] + 1, 1, 1), (0, 1, 1)):
        steps = (dataclasses.replace(first, groups=groups), *plan.steps[1:])
        assert rejected(proof, dataclasses.replace(plan, steps=steps))
    steps = (dataclasses.replace(first, words=first.words[:-1]), *plan.steps[1:])
    assert rejected(proof, dataclasses.replace(plan, steps=steps))


def test_the_wrong_order_is_found(proof: Proof) -> None:
    """The last dispatch first: it reads what is not there yet."""
    dispatches = list(proof.plan.dispatches())
    order = [len(dispatches) - 1, *range(len(dispatches) - 1)]
    steps: list[Any] = []
    for number in order:
        steps += [dispatches[number], Barrier()]
    assert rejected(
        proof, dataclasses.replace(proof.plan, steps=tuple(steps[:-1])), [proof.identities[k] for k in order]
    )


@pytest.mark.parametrize("device", PROFILES)
def test_random_programs_prove(device: str, full: bool) -> None:
    """Lowering proves each plan itself; here each barrier is taken away in turn as well."""
    for seed in range(400 if full else 30):
        program = grown(seed, False, 1 + seed % 40)

        def function(e: Recorder, program: Any = program) -> Any:
            values = program.run([e.like(x) for x in program.inputs])
            return [values[k] for k in program.wanted]

        proof = proven(function, device)
        proof.check()
        steps = proof.plan.steps
        for k, step in enumerate(steps):
            if isinstance(step, Barrier):
                plan = dataclasses.replace(proof.plan, steps=steps[:k] + steps[k + 1 :])
                with pytest.raises(InternalError):
                    check.check_order(plan)


_intervals = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 12), st.integers(0, 6)), min_size=0, max_size=40
).map(lambda rows: [Interval(k, size, first, first + length) for k, (size, first, length) in enumerate(rows)])


@given(_intervals)
def test_colouring(wanted: list[Interval]) -> None:
    """Values alive together do not overlap, offsets are aligned, and the arena is no larger than all values one after another."""
    offsets, total = colour(wanted)
    rounded = {i.ref: -(-i.size // ALIGNMENT) * ALIGNMENT for i in wanted}
    assert set(offsets) == {i.ref for i in wanted}
    for a in wanted:
        assert offsets[a.ref] % ALIGNMENT == 0
        assert offsets[a.ref] + rounded[a.ref] <= total
        for b in wanted:
            together = a.ref < b.ref and a.first <= b.last and b.first <= a.last
            if together:
                apart = (
                    offsets[a.ref] + rounded[a.ref] <= offsets[b.ref]
                    or offsets[b.ref] + rounded[b.ref] <= offsets[a.ref]
                )
                assert apart
    at_once = [sum(rounded[i.ref] for i in wanted if i.first <= t <= i.last) for t in range(20)]
    assert max(at_once, default=0) <= total <= sum(rounded.values())
