"""Captured plans: inputs and binding, State cells, outputs that are inputs or views, the random stream, failures, memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.errors import (
    ArgumentError,
    CaptureError,
    DTypeError,
    EngineMismatch,
    OutOfMemory,
    PoisonedValue,
    ShapeError,
)


def vector(engine: Any, *values: float) -> Any:
    return m.from_numpy(engine, np.array(values, np.float32))


def cell(engine: Any, *values: float) -> oa.State:
    return oa.State(engine, vector(engine, *values))


def run(engine: Any, plan: Any, times: int = 1) -> Any:
    for _ in range(times):
        engine.submit(plan)
    return plan.outputs


# -- inputs and binding


def test_inputs_are_what_the_function_touched_and_a_bound_value_takes_a_place(engine: Any) -> None:
    x, c = vector(engine, 1, 2), cell(engine, 10, 20)
    plan = engine.capture(lambda: x * 2.0 + c.value)
    assert [i is v for i, v in zip(plan.inputs, (x, c))] == [True, True]
    assert run(engine, plan).tolist() == [12, 24]
    y = vector(engine, 5, 6)
    plan.bind(x, y)
    assert plan.inputs[0] is y
    assert run(engine, plan).tolist() == [20, 32]
    plan.bind(0, x + 1.0)  # a pending value, by position
    assert run(engine, plan).tolist() == [14, 26]
    plan.bind(x, x)  # the captured value goes on naming its place
    assert run(engine, plan).tolist() == [12, 24]


def test_a_bound_value_lives_exactly_as_long_as_it_is_bound(engine: Any) -> None:
    x = vector(engine, 1, 2)
    plan = engine.capture(lambda: x + 1.0)  # noqa: F821 (deleted below)
    captured = weakref.ref(x._value.storage)
    y = vector(engine, 5, 6)
    bound = weakref.ref(y._value.storage)
    plan.bind(x, y)
    del y
    assert bound() is not None and run(engine, plan).tolist() == [6, 7]
    plan.bind(x, vector(engine, 7, 8))
    assert bound() is None
    del x
    assert captured() is None, "a value that another has replaced is not kept"
    assert run(engine, plan).tolist() == [8, 9]
    plan.bind(0, vector(engine, 0, 0))
    assert run(engine, plan).tolist() == [1, 1]


def test_a_temporary_inside_the_function_is_an_input_too(engine: Any) -> None:
    plan = engine.capture(lambda: vector(engine, 1, 2) * 3.0)
    gc.collect()
    assert run(engine, plan).tolist() == [3, 6]
    assert plan.inputs[0].tolist() == [1, 2]


def test_a_value_that_lies_otherwise_is_copied_into_the_order_that_was_captured(engine: Any) -> None:
    x = m.from_numpy(engine, np.zeros((2, 3), np.float32))
    plan = engine.capture(lambda: x + 1.0)
    other = np.arange(6, dtype=np.float32).reshape(3, 2)
    plan.bind(x, m.transpose(m.from_numpy(engine, other)))
    assert run(engine, plan).tolist() == (other.T + 1).tolist()
    rows = m.from_numpy(engine, np.arange(12, dtype=np.float32).reshape(4, 3))
    plan.bind(x, rows[1:3])
    assert run(engine, plan).tolist() == [[4, 5, 6], [7, 8, 9]]


def test_an_input_captured_as_a_view_takes_only_its_own_kind(engine: Any) -> None:
    base = m.from_numpy(engine, np.arange(6, dtype=np.float32).reshape(2, 3))
    x, y = m.transpose(base), m.transpose(base * 10.0)
    engine.flush()
    plan = engine.capture(lambda: x + 1.0)
    assert run(engine, plan).tolist() == [[1, 4], [2, 5], [3, 6]]
    plan.bind(x, y)
    assert run(engine, plan).tolist() == [[1, 31], [11, 41], [21, 51]]
    with pytest.raises(ArgumentError, match=r"x\.copy\(\)"):
        plan.bind(x, m.from_numpy(engine, np.zeros((3, 2), np.float32)))
    assert run(engine, plan).tolist() == [[1, 31], [11, 41], [21, 51]]


def test_what_does_not_fit_is_refused_and_changes_nothing(engine: Any) -> None:
    x, c = vector(engine, 1, 2), cell(engine, 0, 0)
    plan = engine.capture(lambda: x + c.value)
    with oa.Engine(device=engine.device.snapshot.uuid) as other:
        for error, slot, value in (
            (ShapeError, x, vector(engine, 1, 2, 3)),
            (DTypeError, x, m.from_numpy(engine, np.zeros(2, np.int32))),
            (EngineMismatch, x, vector(other, 1, 2)),
            (ArgumentError, x, [1.0, 2.0]),
            (ArgumentError, x, plan.outputs if plan.outputs.is_ready else c),
            (ArgumentError, c, x),
            (ArgumentError, 1, x),
            (ArgumentError, 2, x),
            (ArgumentError, -1, x),
            (ArgumentError, vector(engine, 1, 2), x),
            (ArgumentError, "x", x),
        ):
            with pytest.raises(error):
                plan.bind(slot, value)
    assert run(engine, plan).tolist() == [1, 2]


def test_an_output_and_views_of_it_cannot_be_bound_to_the_plan(engine: Any) -> None:
    x = vector(engine, 1, 2, 3, 4)
    plan = engine.capture(lambda: x + 1.0)
    with pytest.raises(CaptureError, match="not been submitted"):
        plan.bind(x, plan.outputs)
    run(engine, plan)
    view = m.flip(plan.outputs)
    engine.flush()
    for alias in (plan.outputs, view):
        with pytest.raises(ArgumentError, match=r"value\.copy\(\)"):
            plan.bind(x, alias)
    plan.bind(x, plan.outputs.copy())
    assert run(engine, plan, 2).tolist() == [3, 4, 5, 6]


# -- outputs


def test_outputs_keep_the_structure_and_may_repeat_inputs_and_views(engine: Any) -> None:
    x, y, c = vector(engine, 1, 2, 3, 4), vector(engine, 5, 6, 7, 8), cell(engine, 9, 9, 9, 9)

    def function(a: Any) -> Any:
        total = a + 1.0
        return {"same": a, "view": a[1:3], "cell": c.value, "sum": (total, [total, total[::2]]), "none": None}

    plan = engine.capture(function, x)
    for value, want in ((x, np.arange(1.0, 5.0)), (y, np.arange(5.0, 9.0))):
        plan.bind(x, value)
        c.assign(value * 2.0)
        out = run(engine, plan)
        assert out["same"].tolist() == want.tolist()
        assert out["view"].tolist() == want[1:3].tolist()
        assert out["cell"].tolist() == (2 * want).tolist()
        assert out["sum"][0].tolist() == out["sum"][1][0].tolist() == (want + 1).tolist()
        assert out["sum"][1][1].tolist() == (want + 1)[::2].tolist()
        assert out["none"] is None


def test_a_run_overwrites_outputs_but_not_what_was_taken_from_them(engine: Any) -> None:
    c, held = cell(engine, 0, 0), cell(engine, -1, -1)

    def step() -> Any:
        c.assign(c.value + 1.0)
        return c.value * 10.0

    plan = engine.capture(step)
    out = run(engine, plan)
    held.assign(out)
    view, copy, pending = out[1:], out.copy(), out + 0.5
    engine.flush()
    assert run(engine, plan).tolist() == [20, 20] and plan.outputs is out
    assert (held.value.tolist(), view.tolist(), copy.tolist()) == ([10, 10], [10], [10, 10])
    assert pending.tolist() == [10.5, 10.5]
    assert run(engine, plan).tolist() == [30, 30]
    assert held.value.tolist() == [10, 10]


def test_outputs_stay_where_they_are_while_nobody_else_holds_them(engine: Any) -> None:
    x = vector(engine, 1, 2)
    plan = engine.capture(lambda: (x + 1.0, x * 2.0))
    run(engine, plan)
    before = [out._value.storage.place for out in plan.outputs]
    run(engine, plan, 5)
    assert [out._value.storage.place for out in plan.outputs] == before
    assert plan.diagnostics["rebinds"] == 0


def test_the_output_of_one_plan_is_the_input_of_another(engine: Any) -> None:
    c = cell(engine, 1, 1)

    def step() -> Any:
        c.assign(c.value * 2.0)
        return c.value + 0.0

    first = engine.capture(step)
    run(engine, first)
    second = engine.capture(lambda: first.outputs + 100.0)
    for want in (102, 104, 108):
        assert run(engine, second).tolist() == [want, want]
        run(engine, first)


def test_values_that_escape_the_capture_say_so(engine: Any) -> None:
    x, c, box = vector(engine, 1, 2), cell(engine, 5, 6), []

    def function() -> Any:
        box.extend([x + 1.0, c.value])
        c.assign(box[0] * 2.0)
        return box[0] + c.value

    plan = engine.capture(function)
    with pytest.raises(PoisonedValue, match="not one of its outputs"):
        box[0].to_numpy()
    with pytest.raises(PoisonedValue, match="not one of its outputs"):
        (box[0] + 1.0).to_numpy()
    with pytest.raises(CaptureError, match="not been submitted"):
        plan.outputs.to_numpy()
    assert box[1].tolist() == [5, 6], "what a cell held before stays readable"
    assert run(engine, plan).tolist() == [6, 9]
    assert c.value.tolist() == [4, 6]
    assert box[1].tolist() == [5, 6]


# -- State cells


def test_a_cell_is_carried_and_the_last_assignment_counts(engine: Any) -> None:
    c = cell(engine, 1, 2)

    def step() -> Any:
        c.assign(c.value + 1.0)
        seen = c.value
        c.assign(seen * 2.0)
        return seen

    plan = engine.capture(step)
    assert c.value.tolist() == [1, 2], "a capture runs nothing"
    assert run(engine, plan).tolist() == [2, 3]
    assert c.value.tolist() == [4, 6]
    assert run(engine, plan).tolist() == [5, 7]
    c.assign(vector(engine, 0, 0))
    assert run(engine, plan).tolist() == [1, 1]
    assert c.value.tolist() == [2, 2]


def test_a_cell_that_is_only_read_follows_at_each_run(engine: Any) -> None:
    c = cell(engine, 1, 2)
    plan = engine.capture(lambda: c.value + 1.0)
    assert run(engine, plan).tolist() == [2, 3]
    c.assign(c.value * 10.0)  # pending when the plan is submitted
    assert run(engine, plan).tolist() == [11, 21]
    assert c.value.tolist() == [10, 20]


def test_cells_assigned_from_outside_from_each_other_and_from_themselves(engine: Any) -> None:
    a, b, c, d = (cell(engine, k, k) for k in range(4))
    outside = vector(engine, 7, 7)

    def step() -> None:
        x, y = a.value, b.value
        a.assign(y)
        b.assign(x)
        c.assign(outside)
        d.assign(d.value)

    plan = engine.capture(step)
    for want in ((1, 0), (0, 1), (1, 0)):
        run(engine, plan)
        assert (a.value.tolist(), b.value.tolist()) == ([want[0]] * 2, [want[1]] * 2)
    assert (c.value.tolist(), d.value.tolist()) == ([7, 7], [3, 3])
    plan.bind(outside, vector(engine, 8, 8))
    run(engine, plan)
    assert c.value.tolist() == [8, 8] and outside.tolist() == [7, 7]


def test_two_cells_given_one_value_part_again(engine: Any) -> None:
    a, b = cell(engine, 1), cell(engine, 2)

    def step() -> Any:
        total = a.value + b.value
        a.assign(total)
        b.assign(total)
        return total

    plan = engine.capture(step)
    run(engine, plan)
    assert a.value.tolist() == b.value.tolist() == plan.outputs.tolist() == [3]
    b.assign(vector(engine, 10))
    run(engine, plan)
    assert a.value.tolist() == b.value.tolist() == [13]


def test_an_old_value_keeps_what_it_saw(engine: Any) -> None:
    c = cell(engine, 0, 0)

    def step() -> None:
        c.assign(c.value + 1.0)

    plan = engine.capture(step)
    seen = []
    for _ in range(6):
        seen.append(c.value)
        seen.append(c.value[1:])
        engine.submit(plan)
    engine.flush()
    assert [s.tolist() for s in seen[::2]] == [[k, k] for k in range(6)]
    assert [s.tolist() for s in seen[1::2]] == [[k] for k in range(6)]
    assert c.value.tolist() == [6, 6]


def test_a_cell_may_hold_a_view(engine: Any) -> None:
    base = m.from_numpy(engine, np.arange(6, dtype=np.float32).reshape(2, 3))
    c = oa.State(engine, m.transpose(base))
    d = oa.State(engine, m.broadcast_to(vector(engine, 1), (3, 2)))
    engine.flush()

    def step() -> Any:
        c.assign(c.value + d.value)
        return c.value * 1.0

    plan = engine.capture(step)
    want = np.arange(6, dtype=np.float32).reshape(2, 3).T
    for k in range(3):
        assert run(engine, plan).tolist() == (want + k + 1).tolist()
    c.assign(m.transpose(base))
    assert run(engine, plan).tolist() == (want + 1).tolist()
    assert base.tolist() == want.T.tolist()


def test_a_cell_may_hold_an_output_of_the_plan_that_reads_it(engine: Any) -> None:
    c = cell(engine, 1, 2)
    plan = engine.capture(lambda: c.value * 2.0)
    for k in range(1, 4):
        c.assign(run(engine, plan))
        assert c.value.tolist() == [2.0**k, 2.0 ** (k + 1)]


# -- random stream


def test_draws_follow_the_eager_stream(engine: Any) -> None:
    def draw() -> Any:
        return m.uniform(engine, (3,)) + m.normal(engine, (3,))

    engine.rng_state = (7, 5)
    eager = [draw().tolist() for _ in range(5)]
    engine.rng_state = (7, 5)
    plan = engine.capture(draw)
    assert engine.rng_state == (7, 5), "a capture draws nothing"
    replayed = [run(engine, plan).tolist() for _ in range(2)]
    replayed.append(draw().tolist())
    replayed += [run(engine, plan).tolist() for _ in range(2)]
    assert replayed == eager and len({tuple(r) for r in eager}) == 5
    assert engine.rng_state == (7, 15)
    engine.rng_state = (8, 5)  # another seed: the plan follows it
    other = run(engine, plan).tolist()
    engine.rng_state = (8, 5)
    assert draw().tolist() == other != eager[0]
    engine.rng_state = (7, 0xFFFFFFFF)  # the counter wraps alike
    wrapped = draw().tolist()
    engine.rng_state = (7, 0xFFFFFFFF)
    assert run(engine, plan).tolist() == wrapped and engine.rng_state == (7, 1)


# -- failures


def failing(engine: Any, what: str, c: oa.State, x: Any, box: list[Any]) -> Any:
    box.append(x + 1.0)
    c.assign(c.value + m.uniform(engine, (2,)))
    match what:
        case "exception":
            raise KeyError("mine")
        case "read recorded":
            return box[0].to_numpy()
        case "read stored":
            return x.tolist()
        case "read cell":
            return c.value.item() if c.value.size == 1 else c.value.to_numpy()
        case "truth":
            return bool(m.sum(x) > 0)
        case "swallowed":
            try:
                box[0].to_numpy()
            except CaptureError:
                return box[0]
        case "nested":
            return engine.capture(lambda: x)
        case "random state":
            engine.rng_state = (1, 1)
        case "wrong result":
            return "text"
        case "nothing":
            return 3


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("exception", KeyError),
        ("read recorded", CaptureError),
        ("read stored", CaptureError),
        ("read cell", CaptureError),
        ("truth", CaptureError),
        ("swallowed", CaptureError),
        ("nested", CaptureError),
        ("random state", CaptureError),
        ("wrong result", ArgumentError),
        ("nothing", ArgumentError),
    ],
)
def test_a_failed_capture_restores_everything(engine: Any, what: str, error: type[Exception]) -> None:
    x, c, box = vector(engine, 1, 2), cell(engine, 5, 6), []
    engine.rng_state = (3, 4)
    pending = x * 3.0
    with pytest.raises(error):
        engine.capture(failing, engine, what, c, x, box)
    assert not engine.is_recording
    assert engine.rng_state == (3, 4)
    assert c.value.tolist() == [5, 6] and pending.tolist() == [3, 6]
    with pytest.raises(PoisonedValue):
        box[0].to_numpy()
    plan = engine.capture(lambda: c.value + x)
    assert run(engine, plan).tolist() == [6, 8]


def test_capturing_nothing_is_refused(engine: Any) -> None:
    with pytest.raises(CaptureError, match="computes nothing"):
        engine.capture(lambda: None)


def test_printing_inside_a_capture_reads_nothing(engine: Any) -> None:
    x, c, said = vector(engine, 1, 2), cell(engine, 1, 2), []

    def function() -> Any:
        said.extend([repr(x), repr(c.value), repr(x + 1.0), repr(c)])
        return x + c.value

    plan = engine.capture(function)
    assert all("captured" in text for text in said[:3])
    assert run(engine, plan).tolist() == [2, 4]


def test_a_submission_that_fails_changes_nothing(engine: Any) -> None:
    c = oa.State(engine, m.zeros(engine, (1 << 20,)))
    engine.wait()

    def step() -> Any:
        c.assign(c.value + m.uniform(engine, (1 << 20,)))
        return m.sum(c.value)

    plan = engine.capture(step)
    engine.rng_state = (1, 0)
    first = run(engine, plan).item()
    held = [c.value]
    engine.memory_limit = engine.memory.reserved
    try:
        with pytest.raises(OutOfMemory):
            for _ in range(64):
                state = engine.rng_state
                engine.submit(plan)
                held.append(c.value)
        assert engine.rng_state == state and c.value is held[-1]
    finally:
        engine.memory_limit = None
    assert held[1].to_numpy().sum(dtype=np.float64) >= 0 and plan.outputs.item() >= first
    before = c.value.to_numpy()
    run(engine, plan)
    engine.rng_state = state
    assert np.array_equal(c.value.to_numpy(), before + m.uniform(engine, (1 << 20,)).to_numpy())


# -- several runs at once, and what a run takes


def test_runs_in_flight_do_not_disturb_each_other(engine: Any) -> None:
    c, x = oa.State(engine, m.zeros(engine, (50_000,))), m.ones(engine, (50_000,))
    y = x * 2.0
    engine.flush()

    def step() -> Any:
        c.assign(c.value * 2.0 + x)
        return m.sum(c.value)

    plan = engine.capture(step)
    want = 0.0
    events = []
    for k in range(12):
        plan.bind(x, y if k % 2 else x)
        events.append(engine.submit(plan))
        want = want * 2.0 + (2.0 if k % 2 else 1.0)
    assert events[-1].wait() and all(e.done for e in events)
    assert set(c.value.tolist()) == {want}


def test_diagnostics_count_this_plan_alone(engine: Any) -> None:
    x = m.from_numpy(engine, np.ones((4, 8), np.float32))
    plan = engine.capture(lambda: m.matmul(m.softmax(x, axis=-1), m.transpose(x)))
    before = plan.diagnostics
    assert before["dispatches"] >= 2 and before["barriers"] >= 1 and before["arena_bytes"] > 0
    assert [before[k] for k in ("recordings", "submissions", "rebinds", "cache_hits")] == [0, 0, 0, 0]
    for _ in range(10):
        engine.submit(plan).wait()
    after = plan.diagnostics
    assert (after["recordings"], after["submissions"], after["rebinds"]) == (1, 10, 0)
    assert after["cache_hits"] == 9
    other = engine.capture(lambda: x + 1.0)
    run(engine, other)
    assert plan.diagnostics == after and other.diagnostics["submissions"] == 1
    for _ in range(20):  # more bindings than recordings are kept for
        plan.bind(x, m.from_numpy(engine, np.ones((4, 8), np.float32)) + 0.0)
        engine.submit(plan).wait()
    rebound = plan.diagnostics
    assert rebound["submissions"] == 30
    if engine.device.profile.addressing == "address":
        assert rebound["recordings"] <= 3


def test_a_dropped_plan_leaves_nothing(engine: Any) -> None:
    from oa._vk import counts

    x, c = vector(engine, 1, 2), cell(engine, 0, 0)

    def once() -> None:
        def step() -> Any:
            c.assign(c.value + x)
            return c.value * 2.0

        plan = engine.capture(step)
        engine.submit(plan)
        engine.submit(plan)

    gc.collect()  # plans of other tests, which the next wait lays to rest
    once()
    engine.wait()
    before, memory = counts(), engine.memory.allocated
    gc.disable()
    try:
        for _ in range(20):
            once()
            engine.wait()
        assert counts() == before
        assert engine.memory.allocated == memory
    finally:
        gc.enable()
