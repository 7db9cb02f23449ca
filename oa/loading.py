"""Plans from files: everything in a file is checked before any of it is used, then it is a captured plan like any other."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oa import planfile
from oa._graph.graph import Input
from oa._graph.node import Value
from oa._graph.state import State
from oa._graph.views import Layout, contiguous
from oa._kernel.pack import Kernel
from oa._lower.check import check_bounds, check_order
from oa._lower.memory import input_slot, padded
from oa._lower.passes import Binding, Program, digest
from oa._lower.plan import Plan, ScalarWord, Space
from oa._schema.dtype import as_dtype
from oa._schema.spec import MAX_RANK, Spec, spec
from oa._schema.value import Typed
from oa._version import __version__
from oa.errors import ArgumentError, DTypeError, EngineMismatch, FileFormatError, InternalError, ShapeError
from oa.plan import CapturedPlan, Slot
from oa.planfile import malformed
from oa.saving import SavedPlan, cell_of, plan_of


@dataclass(frozen=True)
class Parameter:
    """What a loaded plan reads or advances: an input (`kind` "input") or a State cell ("cell"); whether something is bound."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    bound: bool


class LoadedPlan(CapturedPlan):
    """A plan from a file, made by `engine.load_plan`. It runs like the captured one, once everything that it reads is bound.

    `parameters` lists that by name. Values and cells that were saved with the plan are bound already.
    """

    def __init__(self, engine: Any, path: Path) -> None:
        data, sections = planfile.read(path)
        saved: SavedPlan = planfile.decode(SavedPlan, data)
        _check_maker(saved, engine)
        plan = _plan(saved, sections, engine)
        self.engine = engine
        self._graph, self._owned, self._carried = None, frozenset(), ()
        self._profile = engine._programs.profile
        self._plan = plan
        self._program = Program(plan, saved.results, tuple(range(len(plan.inputs))), (), None)
        _check_results(saved, plan)
        self._nodes = ()
        self._scalars, self._draws = list(saved.words), saved.draws
        self._saved = saved
        self._whole = False  #: everything is bound
        self._input_names = {k: v.name for k, v in enumerate(saved.values)}
        self._cell_names = {k: c.name for k, c in enumerate(saved.cells)}
        self._all_cells: list[State | None] = [None] * len(saved.cells)
        self._slots = [Slot(_spec(v.dtype, v.shape), v.layout, 0, None, None, None) for v in saved.values]
        self._facades = [_facade(saved.cells[c].facade) for c in saved.assigned]
        self.outputs = self._outputs_of(saved)
        self._keep(follows=any(v.cell is not None for v in saved.values))
        self._bind_saved(saved, sections)

    def _outputs_of(self, saved: SavedPlan) -> Any:
        """The values that the plan writes, in the shape in which the captured function returned them."""
        handles: list[Typed] = []
        for found in saved.returned:
            value = Value(_spec(found.dtype, found.shape))
            value.plan = self._plan
            handles.append(_facade(found.facade)(self.engine, value))
            value.handle = weakref.ref(handles[-1])
        self._roots = [handle._value for handle in handles]
        left = iter(handles)
        tree = _built(saved.tree, left, 0)
        if next(left, None) is not None:
            malformed("it returns more values than it says")
        return tree

    # -- binding

    @property
    def parameters(self) -> list[Parameter]:
        """What the plan reads or advances, in order: inputs that are values, then cells."""
        found = [
            Parameter(v.name, "input", v.dtype, v.shape, s.value is not None)
            for v, s in zip(self._saved.values, self._slots)
            if v.cell is None
        ]
        cells = zip(self._saved.cells, self._all_cells)
        return found + [Parameter(c.name, "cell", c.dtype, c.shape, held is not None) for c, held in cells]

    @property
    def inputs(self) -> list[Any]:
        """What each input is now: a State cell, the value bound there, or None."""
        found = []
        for k, slot in enumerate(self._slots):
            empty = slot.cell is None and slot.value is None
            found.append(None if empty else self._input(k))
        return found

    def bind(self, slot: Any, value: Any) -> None:
        """Use `value` from the next submission on: a State cell where the plan follows one, else a value as for a captured plan.

        Args:
            slot: a name or position among `parameters`.
            value: of the plan's engine, shape and dtype. A cell (or a parameter that stands for one) is read and advanced at each
                run, and has one place in the plan.

        Raises:
            ArgumentError, EngineMismatch, ShapeError, DTypeError: as for `CapturedPlan.bind`.
        """
        self.engine._check()
        known = self.parameters
        if isinstance(slot, str):
            found = [k for k, p in enumerate(known) if p.name == slot]
            if not found:
                names = ", ".join(p.name for p in known)
                raise ArgumentError(
                    f"plan.bind: the plan has no parameter {slot!r}; it has {names or 'none'}"
                )
            slot = found[0]
        if isinstance(slot, int) and not isinstance(slot, bool) and 0 <= slot < len(known):
            values = [k for k, v in enumerate(self._saved.values) if v.cell is None]
            if slot >= len(values):
                self._bind_cell(slot - len(values), value)
                return
            slot = values[slot]
        super().bind(slot, value)

    def _bind_cell(self, number: int, cell: Any) -> None:
        saved, found = self._saved.cells[number], cell_of(cell)
        if found is None:
            raise ArgumentError(
                f"plan.bind: {saved.name!r} is a State cell; got {type(cell).__name__}: bind oa.State(engine, value)"
            )
        cell = found
        if cell.engine is not self.engine:
            raise EngineMismatch("plan.bind: the cell belongs to another engine than the plan")
        if cell.shape != saved.shape:
            raise ShapeError(f"plan.bind: the cell has shape {cell.shape}; {saved.name!r} has {saved.shape}")
        if cell.dtype.name != saved.dtype:
            raise DTypeError(f"plan.bind: the cell is {cell.dtype.name}; {saved.name!r} is {saved.dtype}")
        if any(held is cell for k, held in enumerate(self._all_cells) if k != number):
            raise ArgumentError(
                "plan.bind: the cell has another place in the plan already; each place wants its own"
            )
        self._all_cells[number] = cell
        for slot, value in zip(self._slots, self._saved.values):
            if value.cell == number:
                slot.cell = cell
        if all(self._all_cells[k] is not None for k in self._saved.assigned):
            self._cells = [c for k in self._saved.assigned if (c := self._all_cells[k]) is not None]

    def _bind_saved(self, saved: SavedPlan, sections: list[bytes]) -> None:
        """Bind what the file holds."""
        self._cells = []
        for k, cell in enumerate(saved.cells):
            if cell.elements is not None:
                array = _elements(sections, cell.elements, _spec(cell.dtype, cell.shape))
                made = self.engine.upload(_spec(cell.dtype, cell.shape), array, _facade(cell.facade))
                self._bind_cell(k, State(self.engine, made))
        for k, value in enumerate(saved.values):
            if value.elements is not None and value.cell is None:
                slot = self._slots[k]
                array = _elements(sections, value.elements, slot.spec)
                slot.bound = self._stored(array, slot, self._plan.inputs[k].size, _facade(value.facade))
                slot.value = slot.bound._value

    def _stored(self, array: np.ndarray[Any, Any], slot: Slot, size: int, facade: type[Typed]) -> Any:
        """A value on the device that lies in memory as the captured one did."""
        if slot.layout == contiguous(slot.spec.shape):
            return self.engine.upload(slot.spec, array, facade)
        whole = np.zeros(size // array.itemsize, array.dtype)
        if array.size:
            strides = [s * array.itemsize for s in slot.layout.strides]
            np.lib.stride_tricks.as_strided(whole[slot.layout.offset :], array.shape, strides)[...] = array
        storage = self.engine._transfer.create(whole.view(np.uint8))
        return self.engine.stored_value(slot.spec, storage, facade, slot.layout)

    def _complete(self) -> None:
        """ArgumentError unless everything is bound; what is bound once stays so."""
        if self._whole:
            return
        if missing := [p.name for p in self.parameters if not p.bound]:
            raise ArgumentError(
                f"the plan was loaded from a file and nothing is bound to {', '.join(missing)}: plan.bind(name, value) first"
            )
        self._whole = True


# -- checks


def _check_maker(saved: SavedPlan, engine: Any) -> None:
    """Kernels are made for one device, driver and addressing, and plans by one version of the package."""
    profile, device = engine._programs.profile, saved.device
    if saved.oa != __version__:
        malformed(f"it was saved by oa {saved.oa}, this is {__version__}")
    for what, have, want in (
        ("device or driver", profile.fingerprint, device.fingerprint),
        ("profile", profile.name, device.profile),
        ("addressing", profile.addressing, device.addressing),
    ):
        if have != want:
            shown = f"{want}, this engine has {have}"
            if what == "device or driver":
                shown = f"{device.name} [{want}], this engine's is {engine.device.snapshot.name} [{have}]"
            malformed(f"it was made for {what} {shown}")
    if lacking := sorted(set(device.features) - profile.features):
        malformed(f"it was made with {', '.join(lacking)}, which this engine does not use")


def _plan(saved: SavedPlan, sections: list[bytes], engine: Any) -> Plan:
    """The plan, proved as far as a plan alone can be."""
    profile = engine._programs.profile
    kernels = [_kernel(data, sections) for data in saved.kernels]
    if any(k.addressing != profile.addressing for k in kernels):
        malformed("a kernel has another addressing than the plan")
    plan = plan_of(saved, kernels, tuple(_section(sections, k) for k in saved.constants))
    limits = profile.limits
    for dispatch in plan.dispatches():
        for o in dispatch.operands:
            held = {Space.INPUT: plan.inputs, Space.OUTPUT: plan.outputs, Space.CONSTANT: plan.constants}
            count = 1 if o.space is Space.SCRATCH else len(held[o.space])
            if o.access not in (1, 2, 3) or not 0 <= o.index < count or o.offset < 0 or o.size < 0:
                malformed(f"an operand of {dispatch.label} is none")
        for w in dispatch.words:
            slot = w.slot if isinstance(w, ScalarWord) else 0
            if not 0 <= slot < max(plan.scalars, 1) or (isinstance(w, int) and not 0 <= w < 1 << 32):
                malformed(f"an argument word of {dispatch.label} is none")
    try:
        check_order(plan)
        check_bounds(plan, limits.shared_bytes, limits.max_groups, limits.max_invocations)
    except InternalError as cause:
        raise FileFormatError(f"plan file: its plan proves wrong: {cause}") from cause
    if digest(replace(plan, digest="")) != plan.digest:
        malformed("its plan is not the one that it names")
    return plan


def _kernel(data: Any, sections: list[bytes]) -> Kernel:
    found = planfile.decode_fields(Kernel, data, words=int)
    found["words"] = _section(sections, found["words"])
    try:
        kernel = Kernel(**found)
    except InternalError as cause:
        raise FileFormatError(f"plan file: {cause}") from cause
    if kernel.compute_digest() != kernel.digest or len(kernel.words) % 4:
        malformed(f"kernel {kernel.name} is not the one that it names")
    return kernel


def _section(sections: list[bytes], number: int) -> bytes:
    if not 0 <= number < len(sections):
        malformed("it names a part that is not there")
    return sections[number]


def _elements(sections: list[bytes], number: int, wanted: Spec) -> np.ndarray[Any, Any]:
    data = _section(sections, number)
    if len(data) != wanted.nbytes:
        malformed(f"it holds {len(data)} bytes of elements, wanted {wanted.nbytes}")
    return np.frombuffer(data, wanted.dtype.numpy).reshape(wanted.shape)


def _spec(dtype: str, shape: tuple[int, ...]) -> Spec:
    if len(shape) > MAX_RANK or any(extent < 0 for extent in shape):
        malformed(f"it holds the shape {shape}")
    try:
        return spec(as_dtype(dtype), shape)
    except DTypeError as cause:
        raise FileFormatError(f"plan file: {cause}") from cause


def _check_results(saved: SavedPlan, plan: Plan) -> None:
    """Every value lies inside the storage that is bound for it, and every number names something."""
    cells, results = len(saved.cells), saved.results
    if len(saved.values) != len(plan.inputs) or len(saved.words) != plan.scalars or plan.scratch_bytes < 0:
        malformed("inputs, scalars or scratch do not fit the plan")
    if len(results) != len(saved.returned) + len(saved.assigned) or any(
        not 0 <= c < cells for c in saved.assigned
    ):
        malformed("results do not fit the plan")
    if len(set(saved.assigned)) != len(saved.assigned):
        malformed("two results go to one cell")
    for value, slot in zip(saved.values, plan.inputs):
        if value.cell is not None and not 0 <= value.cell < cells:
            malformed("an input names a cell that is not there")
        found = _spec(value.dtype, value.shape)
        if value.cell is not None and value.layout != contiguous(value.shape):
            malformed("a cell that the plan reads does not lie in order")
        _check_layout(value.layout, found, slot.size)
    for cell in saved.cells:
        _spec(cell.dtype, cell.shape)
    for output, source in plan.in_place:
        if not (0 <= output < len(plan.outputs) and 0 <= source < len(plan.inputs)):
            malformed("a result takes the place of an input that is not there")
    specs = [_spec(r.dtype, r.shape) for r in saved.returned]
    specs += [_spec(saved.cells[c].dtype, saved.cells[c].shape) for c in saved.assigned]
    for wanted, binding in zip(specs, results):
        _check_binding(binding, wanted, plan)


def _check_binding(binding: Binding, wanted: Spec, plan: Plan) -> None:
    slots = plan.inputs if binding.from_input else plan.outputs
    if not 0 <= binding.index < len(slots):
        malformed("a result lies in a storage that is not there")
    _check_layout(binding.layout, wanted, slots[binding.index].size)


def _check_layout(layout: Layout, wanted: Spec, size: int) -> None:
    if len(layout.strides) != len(wanted.shape) or layout.offset < 0:
        malformed("a value's layout does not fit its shape")
    low = layout.offset + sum((e - 1) * s for e, s in zip(wanted.shape, layout.strides) if s < 0 and e > 0)
    if low < 0 or input_slot(Input(wanted, layout)).size > padded(size):
        malformed("a value lies outside its storage")


def _facade(name: str) -> type[Typed]:
    for kind in _kinds(Typed):
        if kind.__name__ == name and kind.__module__.partition(".")[0] == "oa":
            return kind
    malformed(f"it holds values of kind {name!r}, which this oa does not know")


def _kinds(kind: type[Typed]) -> Iterator[type[Typed]]:
    for found in kind.__subclasses__():
        yield found
        yield from _kinds(found)


def _built(tree: Any, left: Iterator[Typed], depth: int) -> Any:
    """What the function returned, made of the values that are left."""
    if tree is None:
        return None
    if tree == "value":
        found = next(left, None)
        if found is None:
            malformed("it returns fewer values than it says")
        return found
    if depth < 64 and isinstance(tree, list) and tree and isinstance(tree[-1], list):
        parts = [_built(part, left, depth + 1) for part in tree[-1]]
        if tree[:-1] == ["tuple"]:
            return tuple(parts)
        if tree[:-1] == ["list"]:
            return parts
        if len(tree) == 3 and tree[0] == "dict" and isinstance(tree[1], list) and len(tree[1]) == len(parts):
            return dict(zip(planfile.decode(tuple[str, ...], tree[1]), parts))
    malformed("the shape of what it returns is none")
