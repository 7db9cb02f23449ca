"""Captured plans: recording a function once, and running it again with other values in its inputs."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oa._graph.batching import wanted
from oa._graph.capture import HIGH_SEED, LOW_SEED, Capture
from oa._graph.graph import Graph, Input, freeze
from oa._graph.node import Value, line_of, number_of, standing_for
from oa._graph.ownership import holders
from oa._graph.state import State
from oa._graph.views import Layout, contiguous
from oa._run.pool import Storage
from oa._schema import scalar as sc
from oa._schema.copying import copy_instance
from oa._schema.spec import Spec
from oa._schema.value import Typed
from oa.audit import audit
from oa.config import CONFIG
from oa.errors import ArgumentError, CaptureError, DTypeError, EngineMismatch, ShapeError
from oa.inspection import Inspectable, path_of

if TYPE_CHECKING:
    from oa._inspect.subject import Subject


def capture(
    engine: Any, function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any] | None = None
) -> CapturedPlan:
    """Record `function(*args, **named)`; see `Engine.capture`."""
    engine._check()
    if engine._capture is not None:
        raise CaptureError("engine.capture inside a capture: captures do not nest; call the function instead")
    engine.flush()
    found = Capture(engine)
    outer, engine._batch, engine._capture = engine._batch, found.batch, found
    try:
        result = function(*args, **(named or {}))
        if found.failure is not None:
            raise found.failure
        return CapturedPlan(engine, found, result)
    finally:
        engine._capture, engine._batch = None, outer
        error = CaptureError("the value was recorded inside a capture and is not one of its outputs")
        engine._poison([v for v in wanted(found.batch) if v.plan is None], error)
        for node in found.batch.nodes:  # what is left of the graph must not keep its values alive
            node.inputs = node.outputs = ()


def _recorded(engine: Any, found: Capture, result: Any) -> Any:
    """The result with copies, made by the plan, of values that the function returned as it found them."""
    if isinstance(result, Typed):
        if result._engine is not engine:
            raise EngineMismatch("engine.capture: the function returned a value of another engine")
        return result if result._value.batch is found.batch else _copied(engine, result)
    if isinstance(result, (tuple, list)):
        make = getattr(type(result), "_make", type(result))  # named tuples are made their own way
        return make([_recorded(engine, found, part) for part in result])
    if isinstance(result, dict):
        return {k: _recorded(engine, found, part) for k, part in result.items()}
    if result is None:
        return None
    raise ArgumentError(
        f"engine.capture: the function returned a {type(result).__name__};"
        " wanted oa values, or tuples, lists or dicts of them"
    )


def _matrices(result: Any) -> list[Typed]:
    """The values in a result made of tuples, lists and dictionaries."""
    if isinstance(result, Typed):
        return [result]
    parts = result.values() if isinstance(result, dict) else result or ()
    return [m for part in parts for m in _matrices(part)]


def _copied(engine: Any, handle: Typed) -> Typed:
    """A copy, recorded now, of a value made elsewhere."""
    made: Typed = engine.record(copy_instance(handle._value.spec), (handle._value,), type(handle))
    return made


@dataclass
class Slot:
    """One stored input: what was captured there, and what is there now: a State cell, or the value that is bound."""

    spec: Spec
    layout: Layout
    serial: int  #: of the captured value, which need not live on
    cell: State | None
    bound: Typed | None
    value: Value | None  #: of `bound`, whatever is assigned to the object


class CapturedPlan(Inspectable):
    """A recorded function, to be run with `engine.submit(plan)`.

    `outputs` has the shape of what the function returned; each run overwrites its values, `.copy()` detaches one, and a view or
    State cell that took one keeps what it saw. Inputs are the stored values that the function touched, State cells among them: a
    cell is read and advanced at each run. `bind(slot, value)` puts another value in the place of an input, the slot being the
    value that was captured (or its position in `inputs`).
    """

    def __init__(self, engine: Any, found: Capture, result: Any) -> None:
        self.engine = engine
        self.outputs = _recorded(engine, found, result)
        self._roots = [handle._value for handle in _matrices(self.outputs)]
        self._cells = list(found.assigned)
        finals = [
            handle if handle._value.batch is found.batch else _copied(engine, handle)
            for handle in found.assigned.values()
        ]
        roots = [*self._roots, *(handle._value for handle in finals)]
        if not roots:
            raise CaptureError(
                "engine.capture: the function computes nothing: no value returned, no cell assigned"
            )
        self._lower(found, roots)
        self._facades = [type(handle) for handle in finals]
        self._nodes = tuple(found.batch.nodes)
        for value in self._roots:
            value.plan, value.batch, value.node = self._plan, None, None

    def _lower(self, found: Capture, roots: list[Value]) -> None:
        cells = {id(handle._value): cell for cell, handle in found.read.items()}
        externals = found.batch.externals
        graph = freeze(found.batch, roots)
        # Cells are read in row-major order: what one holds when the plan runs is brought into it.
        inputs = tuple(
            Input(i.spec, contiguous(i.spec.shape)) if id(v) in cells else i
            for i, v in zip(graph.inputs, externals)
        )
        first = len(self._roots)
        owned = frozenset(range(first, len(roots)))
        number = {cells[id(v)]: k for k, v in enumerate(externals) if id(v) in cells}
        carried = tuple((first + k, number[c]) for k, c in enumerate(self._cells) if c in number)
        self._graph: Graph | None = replace(graph, inputs=inputs)
        self._owned, self._carried = owned, carried
        self._program = self.engine._programs.lower(self._graph, owned=owned, carried=carried)
        self._profile = self.engine._programs.profile  # with what lowering has measured
        self._plan = self._program.plan
        self._slots: list[Slot] = []
        for k in self._program.stored_inputs:
            value, layout = externals[k], inputs[k].layout
            assert layout is not None
            cell = cells.get(id(value))
            bound = found.batch.handles[k]
            if bound is None:
                bound = Typed(self.engine, value)
            held = (bound, value) if cell is None else (None, None)
            self._slots.append(Slot(value.spec, layout, number_of(value), cell, *held))
        self._scalars: list[tuple[int, int | None]] = []  # bits, or what of the random stream it is
        for k in self._program.scalar_inputs:
            value = externals[k]
            assert value.number is not None
            meaning = found.random.get(id(value), (value, None))[1]
            self._scalars += [(word, meaning) for word in sc.words_of(value.number, value.spec.dtype)]
        self._draws = found.draws
        self._keep(follows=any(slot.cell is not None for slot in self._slots))

    def _keep(self, follows: bool) -> None:
        """What a run needs to know; `follows`: some input is a cell."""
        #: Output slots that `outputs` keeps from run to run: how many values lie in each.
        self._kept: dict[int, int] = {}
        for binding in self._program.results[: len(self._roots)]:
            if not binding.from_input:
                self._kept[binding.index] = self._kept.get(binding.index, 0) + 1
        self._storages: list[Storage | None] = [None] * len(self._plan.outputs)
        #: Holders of each of `_storages` while nobody else has them: the list itself and the values.
        self._own = [1 + self._kept.get(k, 0) for k in range(len(self._storages))]
        results = self._program.results
        #: The scalars of a plan of which nothing changes from run to run but what is bound: no cell, no draw, no output that is
        #: an input. None for other plans.
        self._fixed: tuple[int, ...] | None = None
        if not (
            follows
            or self._draws
            or not self._plan.steps
            or len(results) > len(self._roots)
            or any(binding.from_input for binding in results)
            or any(meaning is not None for _, meaning in self._scalars)
        ):
            self._fixed = tuple([bits for bits, _ in self._scalars])
        self._settled = False  #: the values of `outputs` lie in `_storages`

    # -- inputs

    @property
    def inputs(self) -> list[Any]:
        """What each input is now: a State cell, or the value bound there."""
        return [self._input(k) for k in range(len(self._slots))]

    def _input(self, position: int) -> Any:
        slot = self._slots[position]
        return slot.cell if slot.value is None else standing_for(slot.value, slot.bound)

    def bind(self, slot: Any, value: Typed) -> None:
        """Use `value` where `slot` was captured, from the next submission on. The plan keeps it until another is bound.

        Args:
            slot: a value that the captured function read, or its position in `inputs`.
            value: of the same engine, shape and dtype, sharing no storage with an output of the plan.

        Raises:
            ArgumentError: no such input, a State cell (assign the cell instead), an alias of an output, or an input that was
                captured as a view with gaps and a value that lies otherwise in memory.
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
        place = self._slots[self._position(slot)]
        if not isinstance(value, Typed):
            raise ArgumentError(f"plan.bind: got {type(value).__name__}; wanted an oa value")
        if value._engine is not self.engine:
            raise EngineMismatch("plan.bind: the value belongs to another engine than the plan")
        want, have = place.spec, value._value
        if have.spec.shape != want.shape:
            raise ShapeError(f"plan.bind: the value has shape {have.spec.shape}; the input has {want.shape}")
        if have.spec.dtype is not want.dtype:
            raise DTypeError(
                f"plan.bind: the value is {have.spec.dtype.name}; the input is {want.dtype.name}:"
                f" cast it with .astype(oa.{want.dtype.name})"
            )
        self.engine.materialize(have)
        if have.plan is self._plan or any(have.storage is s for s in self._storages):
            raise ArgumentError(
                "plan.bind: the value shares storage with an output of the plan; bind value.copy()"
            )
        if have.layout != place.layout and place.layout != contiguous(want.shape):
            raise ArgumentError(
                "plan.bind: the input was captured as a view and the value lies otherwise in memory;"
                " capture the function on x.copy(), whose place any value can take"
            )
        self._put(place, value)

    def _put(self, place: Slot, value: Typed) -> None:
        """Bind a value that fits and is stored, as a copy where it lies otherwise in memory."""
        if value._value.layout != place.layout:
            value = _copied(self.engine, value)
            self.engine.flush()
        place.bound, place.value = value, value._value

    def _position(self, slot: Any) -> int:
        if isinstance(slot, State):
            raise ArgumentError(
                "plan.bind: the input is a State cell, which the plan follows; assign the cell instead"
            )
        if isinstance(slot, int) and 0 <= slot < len(self._slots):
            position = slot
        else:
            serial = slot._value.serial if isinstance(slot, Typed) else 0
            found = [k for k, s in enumerate(self._slots) if serial and s.serial == serial]
            if not found:
                raise ArgumentError(
                    f"plan.bind: no input was captured from this value; the plan has {len(self._slots)} inputs,"
                    " see plan.inputs"
                )
            position = found[0]
        if self._slots[position].cell is not None:
            raise ArgumentError(
                "plan.bind: the input is a State cell, which the plan follows; assign the cell instead"
            )
        return position

    # -- running

    def _submit(self) -> int:
        """Run once; called by the engine with nothing pending."""
        storages, scalars = self._storages, self._fixed
        if scalars is None or not self._settled or holders(tuple(storages)) != self._own:
            return self._advance()
        engine = self.engine
        for root in self._roots:
            root.host = None
        inputs = [slot.value.storage for slot in self._slots]  # type: ignore[union-attr]
        value: int = engine._executor.run(self._plan, inputs, storages, scalars, timing=engine._profiler)
        if engine._profiler is not None:
            engine._lines[self._plan.digest, value] = self._nodes
        return value

    def _advance(self) -> int:
        """Run once, whatever has to be done for it: outputs made, cells advanced, draws counted."""
        engine, plan = self.engine, self._plan
        self._settled = False
        self._complete()
        self._settle()
        taken = self._taken()
        inputs = self._inputs()
        outputs = self._outputs({output: inputs[source] for output, source in taken.items()})
        scalars = self._scalar_words()
        if CONFIG.check:
            audit(engine, self._program, inputs, scalars, self._line)
        finals = self._finals(inputs, outputs)
        before = ([c._held for c in self._cells], [(r.storage, r.layout) for r in self._roots], engine._draws)
        last_use = outputs[0].last_use if outputs else 0
        try:
            # Before the submission, so that an interrupt leaves either all of the step or nothing of it.
            self._publish(inputs, outputs, finals, (engine._draws + self._draws) & 0xFFFFFFFF)
            if not plan.steps:
                return int(engine._clock.submitted)
            value: int = engine._executor.run(plan, inputs, outputs, scalars, timing=engine._profiler)
        except BaseException:
            if not engine._executor.was_submitted(outputs, last_use):
                self._restore(*before)
            raise
        if engine._profiler is not None:
            engine._lines[plan.digest, value] = self._nodes
        self._settled = True
        return value

    def _complete(self) -> None:
        """Refuse to run while something is not bound; of a captured plan everything is."""

    def _settle(self) -> None:
        """See to it that cells have values, in row-major order."""
        copied = False
        for slot in self._slots:
            if slot.cell is not None:
                held = slot.cell._held
                self.engine.materialize(held._value)
                if held._value.layout != slot.layout:
                    slot.cell._held, copied = _copied(self.engine, held), True
        if copied:
            self.engine.flush()

    def _taken(self) -> dict[int, int]:
        """Outputs that take the storage of the cell whose value they replace: the plan allows it and nobody else holds it."""
        found = {}
        for output, source in self._plan.in_place:
            cell = self._slots[source].cell
            if cell is not None:
                counts = holders((cell._held, cell._held._value, cell._held._value.storage))
                if counts == [1, 1, 1]:
                    found[output] = source
        return found

    def _inputs(self) -> list[Storage]:
        values = [slot.value if slot.cell is None else slot.cell._held._value for slot in self._slots]
        return [value.storage for value in values if value is not None]

    def _outputs(self, taken: dict[int, Storage]) -> list[Storage]:
        """The storages to write. Those of `outputs` stay the same, but for what a view or cell holds by now."""
        pool = self.engine._pool
        found: list[Storage] = []
        for k, need in enumerate(self._plan.outputs):
            if k not in self._kept:
                found.append(taken[k] if k in taken else pool.allocate(need.size))
                continue
            if self._storages[k] is None or holders((self._storages[k],))[0] > 1 + self._kept[k]:
                self._storages[k] = pool.allocate(need.size)
            storage = self._storages[k]
            assert storage is not None
            found.append(storage)
        return found

    def _scalar_words(self) -> list[int]:
        seed, draws = self.engine.rng_state
        words = {LOW_SEED: seed & 0xFFFFFFFF, HIGH_SEED: seed >> 32}
        return [
            bits if meaning is None else words[meaning] if meaning < 0 else (draws + meaning) & 0xFFFFFFFF
            for bits, meaning in self._scalars
        ]

    def _finals(self, inputs: list[Storage], outputs: list[Storage]) -> list[Typed]:
        """The new values of the assigned cells."""
        found = []
        for facade, binding, cell in zip(
            self._facades, self._program.results[len(self._roots) :], self._cells
        ):
            value = Value(cell._held._value.spec)
            value.storage = (inputs if binding.from_input else outputs)[binding.index]
            value.layout = binding.layout
            handle = facade(self.engine, value)
            value.handle = weakref.ref(handle)
            found.append(handle)
        return found

    def _publish(
        self, inputs: list[Storage], outputs: list[Storage], finals: list[Typed], draws: int
    ) -> None:
        for root, binding in zip(self._roots, self._program.results):
            root.storage = (inputs if binding.from_input else outputs)[binding.index]
            root.layout, root.host = binding.layout, None
        for cell, handle in zip(self._cells, finals):
            cell._held = handle
        self.engine._draws = draws

    def _restore(
        self, finals: list[Typed], roots: list[tuple[Storage | None, Layout | None]], draws: int
    ) -> None:
        """Take back what `_publish` did."""
        for root, (storage, layout) in zip(self._roots, roots):
            root.storage, root.layout = storage, layout
        for cell, handle in zip(self._cells, finals):
            cell._held = handle
        self.engine._draws = draws

    # -- files

    #: Names of inputs and cells by number, where a file gave them.
    _input_names: Mapping[int, str] = {}
    _cell_names: Mapping[int, str] = {}

    def save(
        self, path: str | os.PathLike[str], names: Mapping[str, Any] | None = None, values: bool = False
    ) -> Path:
        """Write the plan with its kernels to a file that `engine.load_plan` reads, in any process; return the path.

        Args:
            path: replaced as a whole, or left as it was.
            names: what inputs and State cells are called in the file: oa values, cells, a model's named parameters. Those that an
                optimiser keeps in one cell give it the name of the first. Others are called in0, in1, ... and cell0, cell1, ...
            values: keep the present elements of inputs and cells in the file too, so that the loaded plan runs as it is. By
                default they are not, and whoever loads the plan binds its own.

        A named tuple that the function returned is loaded as a tuple. The random stream is not part of a plan: draws follow the
        loading engine's seed and count.

        Raises:
            ArgumentError: a name for what is neither cell nor value, one name for two things, or a returned dict whose keys are
                no strings.

        Example:
            >>> x, w = oa.matrix.ones(engine, (2,)), oa.State(engine, oa.matrix.full(engine, (2,), 3.0))
            >>> plan = engine.capture(lambda: x * w.value)
            >>> path = plan.save(folder / "plan.oap", names={"x": x, "w": w})
            >>> again = engine.load_plan(path)
            >>> [(p.name, p.kind) for p in again.parameters]
            [('x', 'input'), ('w', 'cell')]
            >>> again.bind("x", oa.matrix.full(engine, (2,), 5.0))
            >>> again.bind("w", w)
            >>> engine.submit(again).wait()
            True
            >>> again.outputs.tolist()
            [15.0, 15.0]
        """
        from oa.saving import save

        self.engine._check()
        self.engine.flush()
        if names is not None and not isinstance(names, Mapping):
            raise ArgumentError(
                f"plan.save: names is a {type(names).__name__}; wanted a dict from names to cells and values"
            )
        if not isinstance(values, bool):
            raise ArgumentError(f"plan.save: values is {str(values)[:60]!r}; wanted True or False")
        return save(self, path_of(path, "plan.save"), names, values)

    # -- looking inside

    @property
    def diagnostics(self) -> dict[str, int]:
        """What one run does (dispatches, barriers, arena bytes, inputs, outputs), and what all runs so far took: recordings
        made, submissions, rebinds, and submissions that found a recording with their buffers (cache hits)."""
        plan = self._plan
        dispatches = sum(1 for _ in plan.dispatches())
        return {
            "dispatches": dispatches,
            "barriers": len(plan.steps) - dispatches,
            "arena_bytes": plan.scratch_bytes,
            "inputs": len(plan.inputs),
            "outputs": len(plan.outputs),
            **self.engine._executor.counts(plan),
        }

    def show(self) -> str:
        """The plan as text: slots, dispatches with their kernels and operands, barriers."""
        text: str = self._plan.text()
        return text

    def _subject(self) -> Subject:
        from oa._inspect.subject import Subject

        return Subject(
            self._plan,
            self._graph,
            self._profile,
            self.engine.device.snapshot.name,
            self.engine.roofline,
            self._line,
            self._owned,
            self._carried,
        )

    def _line(self, node: int) -> str:
        """The user's line of an operation, "" where it is not known."""
        return line_of(self._nodes[node].where) if node < len(self._nodes) else ""

    def __repr__(self) -> str:
        d = self.diagnostics
        return (
            f"<CapturedPlan {self._plan.digest}: {d['dispatches']} dispatches, {d['barriers']} barriers,"
            f" {d['inputs']} inputs, {d['outputs']} outputs, {len(self._cells)} carried cells>"
        )


__all__ = ["CapturedPlan", "capture"]
