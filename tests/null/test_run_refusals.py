"""Plans, bindings and kernels that cannot run are refused before anything is submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from oa._lower.plan import Access, Dispatch, Plan, Slot, Space
from oa._run.clock import Clock
from oa._run.executor import Executor
from oa._run.pool import Pool
from oa.errors import InternalError, Unsupported
from tests.null.run_fakes import FakeDevice, Rig, kernel, operand, profile, small_plan

ADDRESSINGS = ("address", "descriptor")


@pytest.fixture(params=ADDRESSINGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(request.param)
    yield made
    made.close()
    assert not +made.device.live, made.device.live


def addressing(rig: Rig) -> str:
    return rig.device.profile.addressing


def with_other_addressing(plan: Plan) -> Plan:
    first = plan.steps[0]
    assert isinstance(first, Dispatch)
    return small_plan("descriptor" if first.kernel.addressing == "address" else "address")


def with_step(plan: Plan, **changes: Any) -> Plan:
    step = plan.steps[0]
    assert isinstance(step, Dispatch)
    return replace(plan, steps=(replace(step, **changes), *plan.steps[1:]))


def with_operand(plan: Plan, **changes: Any) -> Plan:
    step = plan.steps[0]
    assert isinstance(step, Dispatch)
    return with_step(plan, operands=(replace(step.operands[0], **changes), *step.operands[1:]))


WRONG: dict[str, tuple[Callable[[Plan], Plan], int, int, tuple[int, ...], str]] = {
    "binding count": (lambda p: p, 1, 0, (), "1 inputs and 0 outputs"),
    "scalar count": (lambda p: p, 1, 1, (1, 2), "got 2 scalars"),
    "addressing": (with_other_addressing, 1, 1, (), "addressing"),
    "buffers": (lambda p: with_step(p, operands=p.steps[0].operands[:1]), 1, 1, (), "got 1 buffers"),
    "words": (lambda p: with_step(p, words=()), 1, 1, (), "0 words"),
    "out of storage": (lambda p: with_operand(p, size=1025), 1, 1, (), "does not lie"),
    "alignment": (lambda p: with_operand(p, offset=16, size=16), 1, 1, (), "does not lie"),
    "no such input": (lambda p: with_operand(p, index=3), 1, 1, (), "does not lie"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_plans_and_bindings_are_refused(rig: Rig, case: str) -> None:
    change, inputs, outputs, scalars, message = WRONG[case]
    plan = change(small_plan(addressing(rig)))
    with pytest.raises(InternalError, match=message):
        rig.executor.run(plan, rig.storages(inputs), rig.storages(outputs), scalars)
    a, b = rig.storages(2)
    assert rig.executor.run(small_plan(addressing(rig)), [a], [b]) == 1


def test_small_storage_and_unplanned_aliases_are_refused(rig: Rig) -> None:
    plan = small_plan(addressing(rig))
    a, b = rig.storages(2)
    (tiny,) = rig.storages(1, 256)
    with pytest.raises(InternalError, match="256 bytes, wanted 1024"):
        rig.executor.run(plan, [tiny], [b])
    rig.executor.run(plan, [a], [a])
    with pytest.raises(InternalError, match="may not overwrite"):
        rig.executor.run(replace(plan, in_place=()), [a], [a])
    slot = Slot("float32", (256,), 1024)
    with pytest.raises(InternalError, match="share one storage"):
        rig.executor.run(replace(plan, outputs=(slot, slot)), [a], [b, b])


LIMITS = {
    "groups": (65536, {}, {}),
    "groups y": ((1, 65536, 1), {}, {}),
    "local size": (1, {"local_size": (1, 1, 65)}, {}),
    "invocations": (1, {"local_size": (32, 32, 2)}, {}),
    "shared memory": (1, {"shared_bytes": 32769}, {}),
}


@pytest.mark.parametrize("case", LIMITS)
def test_what_the_device_cannot_do_is_refused_before_a_pipeline_is_made(rig: Rig, case: str) -> None:
    groups, changes, _ = LIMITS[case]
    k = kernel("big", 2, 0, addressing(rig), **changes)
    step = Dispatch(
        k,
        groups if isinstance(groups, tuple) else (groups, 1, 1),
        (operand(Space.INPUT), operand(Space.OUTPUT, access=Access.WRITE)),
        (),
    )
    slot = Slot("float32", (256,), 1024)
    with pytest.raises(Unsupported, match="this device allows"):
        rig.executor.run(Plan((step,), (slot,), (slot,)), rig.storages(1), rig.storages(1))
    assert rig.device.pipelines == []


@pytest.mark.parametrize("bytes_over", (0, 16))
def test_a_binding_over_the_storage_range(bytes_over: int) -> None:
    device = FakeDevice(profile("descriptor", max_storage_range=4096))
    clock = Clock(device)
    executor = Executor(device, Pool(device, clock), clock)
    k = kernel("k", 1, 0, "descriptor")
    step = Dispatch(k, (1, 1, 1), (operand(Space.SCRATCH, size=4096 + bytes_over),), ())
    plan = Plan((step,), (), (), scratch_bytes=4096 + bytes_over)
    if bytes_over:
        with pytest.raises(Unsupported, match="one binding"):
            executor.run(plan, [], [])
    else:
        executor.run(plan, [], [])
    executor.close()
