"""Captured plans: recording a function once, and running it again with other values in its inputs."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from oa._graph.batching import wanted
from oa._graph.graph import freeze
from oa._graph.node import Batch, Value
from oa._graph.state import State
from oa._run.pool import Storage
from oa._schema import scalar as sc
from oa._schema.call import at_user_line
from oa._schema.copying import copy_instance
from oa._schema.value import Typed
from oa.errors import ArgumentError, CaptureError, DTypeError, EngineMismatch, OaError, ShapeError


class Capture:
    """What a capture keeps while its function runs."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.batch = Batch()
        self.draws: dict[int, tuple[Value, int]] = {}
        self.read: dict[State, Typed] = {}
        self.assigned: dict[State, Typed] = {}
        self.failure: OaError | None = None

    def draw(self, value: Value) -> int:
        """The draw's number relative to the plan's first; the plan adds where the stream stands at each run."""
        number = len(self.draws)
        self.draws[id(value)] = (value, number)
        return number

    def read_cell(self, cell: State) -> Typed:
        """The cell's value inside the capture: what was assigned, else an input that follows the cell at each run."""
        found = self.assigned.get(cell) or self.read.get(cell)
        if found is None:
            held = cell._held
            if held._value.batch is not None or held._value.storage is None:
                raise self.engine._unusable(held._value)
            value = Value(held._value.spec)
            value.storage, value.layout = held._value.storage, held._value.layout
            found = self.read[cell] = type(held)(self.engine, value)
            value.handle = weakref.ref(found)
        return found

    def assign_cell(self, cell: State, value: Typed) -> None:
        """The cell's value for the rest of the capture, and its new value at each run."""
        self.read_cell(cell)
        self.assigned[cell] = value

    def fail(self, error: OaError) -> None:
        """Remember why the capture cannot succeed, even when the function swallows the exception."""
        self.failure = error


def capture(engine: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> CapturedPlan:
    """Record `function(*args)`; see `Engine.capture`."""
    engine._check()
    if engine._capture is not None:
        raise at_user_line(
            CaptureError("engine.capture inside a capture: captures do not nest; call the function instead")
        )
    engine.flush()
    found = Capture(engine)
    outer, engine._batch, engine._capture = engine._batch, found.batch, found
    try:
        result = function(*args)
        if found.failure is not None:
            raise found.failure
        engine._capture, engine._batch = None, outer
        return CapturedPlan(engine, found, result)
    finally:
        engine._capture, engine._batch = None, outer
        error = CaptureError("the value was recorded inside a capture and is not one of its outputs")
        engine._poison([v for v in wanted(found.batch) if v.plan is None], error)


def _matrices(result: Any) -> list[Typed]:
    """The values in a result made of tuples, lists and dictionaries."""
    if isinstance(result, Typed):
        return [result]
    if isinstance(result, (tuple, list)):
        return [m for part in result for m in _matrices(part)]
    if isinstance(result, dict):
        return [m for part in result.values() for m in _matrices(part)]
    if result is None:
        return []
    raise ArgumentError(
        f"engine.capture: the function returned a {type(result).__name__}; wanted oa values, or tuples, lists or dicts of them"
    )


class CapturedPlan:
    """A recorded function, to be run with `engine.submit(plan)`.

    `outputs` has the shape of what the function returned; each run overwrites its values, `.copy()` detaches one. Inputs are the
    stored values that the function touched, State cells among them: a cell is read and advanced at each run. `bind(slot, value)`
    puts another value in the place of an input, the slot being the value that was captured (or its position in `inputs`).
    """

    def __init__(self, engine: Any, found: Capture, result: Any) -> None:
        self.engine = engine
        self.outputs = result
        self._batch = found.batch
        outputs = _matrices(result)
        self._cells = list(found.assigned)
        finals = [found.assigned[c] for c in self._cells]
        self._roots: list[Value] = []
        owned: set[int] = set()
        self._passed: list[tuple[Value, Value]] = []
        for handle in outputs:
            self._add_root(handle)
        for handle in finals:
            if handle._value.batch is not found.batch:
                handle = _copied(engine, found, handle)
            owned.add(len(self._roots))
            self._roots.append(handle._value)
        if not self._roots:
            raise at_user_line(
                CaptureError(
                    "engine.capture: the function computes nothing: no value returned, no cell assigned"
                )
            )
        self._keep = (outputs, finals)
        self._program = engine._programs.lower(freeze(found.batch, self._roots), owned=frozenset(owned))
        self._first_cell = len(self._roots) - len(self._cells)
        self._bind_inputs(found)
        self._owned_slots = {
            self._program.results[self._first_cell + k].index for k in range(len(self._cells))
        }
        self._fixed: dict[int, Storage] = {}
        for value in self._roots[: self._first_cell]:
            value.plan, value.batch, value.node = self, None, None
        self.submissions = 0

    def _add_root(self, handle: Typed) -> None:
        value = handle._value
        if value.batch is self._batch:
            self._roots.append(value)
        elif value.storage is None:
            raise self.engine._unusable(value)

    def _bind_inputs(self, found: Capture) -> None:
        by_value = {id(handle._value): cell for cell, handle in found.read.items()}
        externals = self._batch.externals
        self._sources: list[State | Value] = []
        self._cell_inputs: set[int] = set()
        for position, k in enumerate(self._program.stored_inputs):
            cell = by_value.get(id(externals[k]))
            if cell is not None:
                self._cell_inputs.add(position)
            self._sources.append(cell if cell is not None else externals[k])
        self._captured = [externals[k] for k in self._program.stored_inputs]
        self._bound: list[Any] = [None if isinstance(s, State) else s for s in self._sources]
        self._scalars: list[tuple[int, bool]] = []
        for k in self._program.scalar_inputs:
            value = externals[k]
            relative = id(value) in found.draws
            number = value.number
            assert number is not None
            self._scalars.append((sc.bit_pattern(number, value.spec.dtype), relative))
        self._draws = len(found.draws)

    # -- inputs

    @property
    def inputs(self) -> list[Any]:
        """What each input is now: a State cell, or the value bound there."""
        return [s if isinstance(s, State) else b.handle() for s, b in zip(self._sources, self._bound)]

    def bind(self, slot: Any, value: Typed) -> None:
        """Use `value` where `slot` was captured, from the next submission on.

        Args:
            slot: a value that the captured function read, or its position in `inputs`.
            value: of the same engine, shape, dtype and memory layout, and sharing no storage with an output.

        Raises:
            ArgumentError: no such input, a State cell (assign the cell instead), or an alias of an output.
            EngineMismatch, ShapeError, DTypeError: the value does not fit.

        Example:
            >>> x, y = oa.matrix.ones(engine, (2,)), oa.matrix.full(engine, (2,), 5.0)
            >>> y.to_numpy().tolist()
            [5.0, 5.0]
            >>> plan = engine.capture(lambda: x + 1.0)
            >>> plan.bind(x, y)
            >>> engine.submit(plan).wait()
            True
            >>> plan.outputs.tolist()
            [6.0, 6.0]
        """
        self.engine._check()
        position = self._position(slot)
        if not isinstance(value, Typed):
            raise ArgumentError(f"plan.bind: got {type(value).__name__}; wanted an oa value")
        if value._engine is not self.engine:
            raise EngineMismatch("plan.bind: the value belongs to another engine than the plan")
        want, have = self._captured[position], value._value
        if have.spec.shape != want.spec.shape:
            raise ShapeError(
                f"plan.bind: the value has shape {have.spec.shape}; the input has {want.spec.shape}"
            )
        if have.spec.dtype is not want.spec.dtype:
            raise DTypeError(
                f"plan.bind: the value is {have.spec.dtype.name}; the input is {want.spec.dtype.name}"
            )
        self.engine.materialize(have)
        if have.layout != want.layout:
            raise ArgumentError(
                "plan.bind: the value is a view with another memory layout; bind value.copy()"
            )
        if any(have.storage is s for s in self._fixed.values()) or have.plan is self:
            raise ArgumentError(
                "plan.bind: the value shares storage with an output of the plan; bind value.copy()"
            )
        self._bound[position] = have
        self._keep = (
            (*self._keep, value) if len(self._keep) < 64 else (*self._keep[:2], *self._bound_handles(), value)
        )

    def _bound_handles(self) -> tuple[Any, ...]:
        return tuple(b.handle() for b in self._bound if b is not None)

    def _position(self, slot: Any) -> int:
        if isinstance(slot, int) and 0 <= slot < len(self._sources):
            position = slot
        else:
            value = getattr(slot, "_value", None)
            found = [k for k, v in enumerate(self._captured) if value is not None and v is value]
            if not found:
                if isinstance(slot, State):
                    raise ArgumentError(
                        "plan.bind: the input is a State cell, which the plan follows; assign the cell"
                    )
                raise ArgumentError(
                    f"plan.bind: no input was captured from this value; the plan has {len(self._sources)} inputs, see plan.inputs"
                )
            position = found[0]
        if position in self._cell_inputs:
            raise ArgumentError(
                "plan.bind: the input is a State cell, which the plan follows; assign the cell instead"
            )
        return position

    # -- running

    def _submit(self) -> int:
        engine = self.engine
        inputs = []
        for source, bound, want in zip(self._sources, self._bound, self._captured):
            if isinstance(source, State):
                inputs.append(self._cell_storage(source, want))
            else:
                if bound.storage is None:
                    engine.materialize(bound)
                inputs.append(bound.storage)
        plan = self._program.plan
        outputs = []
        for slot, need in enumerate(plan.outputs):
            if slot in self._owned_slots:
                outputs.append(engine._pool.allocate(need.size))
            else:
                if slot not in self._fixed:
                    self._fixed[slot] = engine._pool.allocate(need.size)
                outputs.append(self._fixed[slot])
        base = engine._draws
        scalars = [(p + base) & 0xFFFFFFFF if relative else p for p, relative in self._scalars]
        if plan.steps:
            value = engine._executor.run(plan, inputs, outputs, scalars, timing=engine._profiler)
            if engine._profiler is not None:
                engine._lines[plan.digest, value] = tuple(self._batch.nodes)
        else:
            value = engine._clock.submitted
        engine._draws = (base + self._draws) & 0xFFFFFFFF
        self._publish(inputs, outputs)
        self.submissions += 1
        return int(value)

    def _cell_storage(self, cell: State, want: Value) -> Storage:
        value = cell._held._value
        if value.storage is None:
            self.engine.materialize(value)
        if value.layout != want.layout:
            raise CaptureError(
                "engine.submit: a State cell holds a view with another memory layout; assign value.copy()"
            )
        storage: Storage = value.storage
        return storage

    def _publish(self, inputs: list[Storage], outputs: list[Storage]) -> None:
        for number, (root, binding) in enumerate(zip(self._roots, self._program.results)):
            storage = (inputs if binding.from_input else outputs)[binding.index]
            if number < self._first_cell:
                root.storage, root.layout = storage, binding.layout
                continue
            cell = self._cells[number - self._first_cell]
            value = Value(root.spec)
            value.storage, value.layout = storage, binding.layout
            handle = type(cell._held)(self.engine, value)
            value.handle = weakref.ref(handle)
            cell._held = handle

    # -- looking inside

    @property
    def diagnostics(self) -> dict[str, int]:
        """What one run does: dispatches, barriers, arena bytes; and how often it was submitted."""
        plan = self._program.plan
        dispatches = sum(1 for _ in plan.dispatches())
        return {
            "dispatches": dispatches,
            "barriers": len(plan.steps) - dispatches,
            "arena_bytes": plan.scratch_bytes,
            "inputs": len(plan.inputs),
            "outputs": len(plan.outputs),
            "submissions": self.submissions,
        }

    def show(self) -> str:
        """The plan as text: slots, dispatches with their kernels and operands, barriers."""
        text: str = self._program.plan.text()
        return text

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"<CapturedPlan {self._program.plan.digest}: {d['dispatches']} dispatches, {d['barriers']} barriers,"
            f" {d['inputs']} inputs, {d['outputs']} outputs, {len(self._cells)} carried cells>"
        )


def _copied(engine: Any, found: Capture, handle: Typed) -> Typed:
    """A value from outside the capture, assigned to a cell inside it, as a result of the plan."""
    outer_batch, outer_capture = engine._batch, engine._capture
    engine._batch, engine._capture = found.batch, found
    try:
        made: Typed = engine.record(copy_instance(handle._value.spec), (handle._value,), type(handle))
        return made
    finally:
        engine._batch, engine._capture = outer_batch, outer_capture


__all__ = ["CapturedPlan", "capture"]
