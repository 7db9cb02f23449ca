"""What a plan file holds, as data, and how a captured plan becomes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from oa import planfile
from oa._graph.state import State
from oa._graph.views import Layout
from oa._kernel.pack import Kernel
from oa._lower.passes import Binding
from oa._lower.plan import Barrier, Cost, Dispatch, Operand, Plan, ScalarWord, Slot
from oa._schema.value import Typed
from oa._version import __version__
from oa.errors import ArgumentError


@dataclass(frozen=True)
class SavedDevice:
    """What the kernels in the file were made for."""

    name: str
    fingerprint: str
    profile: str
    addressing: str
    features: tuple[str, ...]


@dataclass(frozen=True)
class SavedDispatch:
    """A `Dispatch` whose kernel is a number in the file's list."""

    kernel: int
    groups: tuple[int, int, int]
    operands: tuple[Operand, ...]
    words: tuple[int | ScalarWord, ...]
    nodes: tuple[int, ...]
    label: str
    cost: Cost


@dataclass(frozen=True)
class SavedValue:
    """An input that is a value (`cell` None) or follows cell number `cell`; `elements` is the section that holds what it had."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: Layout
    facade: str
    cell: int | None
    elements: int | None


@dataclass(frozen=True)
class SavedCell:
    """A State cell that the plan reads or assigns."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    facade: str
    elements: int | None


@dataclass(frozen=True)
class SavedOutput:
    """One value of what the captured function returned."""

    dtype: str
    shape: tuple[int, ...]
    facade: str


@dataclass(frozen=True)
class SavedPlan:
    """Everything in the JSON of a plan file."""

    oa: str
    device: SavedDevice
    kernels: tuple[Any, ...]  #: fields of `Kernel`, `words` by section
    steps: tuple[SavedDispatch | Barrier, ...]
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    in_place: tuple[tuple[int, int], ...]
    scalars: int
    constants: tuple[int, ...]
    scratch_bytes: int
    digest: str
    results: tuple[Binding, ...]
    values: tuple[SavedValue, ...]
    cells: tuple[SavedCell, ...]
    assigned: tuple[int, ...]  #: cells in the order of the results that follow those of `returned`
    words: tuple[tuple[int, int | None], ...]  #: scalars: bits, or what of the random stream
    draws: int
    returned: tuple[SavedOutput, ...]
    tree: Any  #: the shape of what the function returned: "value", None, ["tuple" or "list", parts] or ["dict", keys, parts]


class _Sections(list[bytes]):
    """The binary parts; equal ones are kept once."""

    def place(self, data: bytes) -> int:
        """The number of the section that holds `data`."""
        if data not in self:
            self.append(data)
        return self.index(data)


def cell_of(thing: Any) -> State | None:
    """The cell that `thing` is or, as a trainable parameter does, stands for."""
    found = getattr(thing, "_state", thing)
    return found if isinstance(found, State) else None


def save(plan: Any, target: Path, names: Mapping[str, Any] | None, values: bool) -> Path:
    """See `CapturedPlan.save`."""
    sections = _Sections()
    plan._complete()
    called = _Names(plan, names or {})
    cells = called.cells
    kernels = list(dict.fromkeys(d.kernel for d in plan._plan.dispatches()))
    number = {kernel: k for k, kernel in enumerate(kernels)}
    profile, engine, made = plan._profile, plan.engine, plan._plan
    saved = SavedPlan(
        oa=__version__,
        device=SavedDevice(
            engine.device.snapshot.name, profile.fingerprint, profile.name, profile.addressing, tuple(sorted(profile.features))
        ),
        kernels=tuple(_kernel(k, sections) for k in kernels),
        steps=tuple(_step(s, number) for s in made.steps),
        inputs=made.inputs,
        outputs=made.outputs,
        in_place=made.in_place,
        scalars=made.scalars,
        constants=tuple(sections.place(c) for c in made.constants),
        scratch_bytes=made.scratch_bytes,
        digest=made.digest,
        results=plan._program.results,
        values=tuple(_value(plan, k, called, sections, values) for k in range(len(plan._slots))),
        cells=tuple(_cell(plan, c, called, sections, values) for c in cells),
        assigned=tuple(cells.index(c) for c in plan._cells),
        words=tuple(plan._scalars),
        draws=plan._draws,
        returned=tuple(SavedOutput(v.spec.dtype.name, v.spec.shape, f) for v, f in _returned(plan)),
        tree=_tree(plan.outputs),
    )  # fmt: skip
    planfile.write(target, planfile.encode(saved), sections)
    return target


def _kernel(kernel: Kernel, sections: _Sections) -> dict[str, Any]:
    data = {f.name: planfile.encode(getattr(kernel, f.name)) for f in fields(Kernel)}
    return {**data, "words": sections.place(kernel.words)}


def _step(step: Dispatch | Barrier, number: dict[Kernel, int]) -> SavedDispatch | Barrier:
    if isinstance(step, Barrier):
        return step
    return SavedDispatch(
        number[step.kernel], step.groups, step.operands, step.words, step.nodes, step.label, step.cost
    )


def _cells(plan: Any) -> list[Any]:
    """The plan's cells: those read, in the order of the inputs, then those only assigned."""
    read = [slot.cell for slot in plan._slots if slot.cell is not None]
    return list(dict.fromkeys([*read, *plan._cells]))


class _Names:
    """What inputs and cells are called: as the user says, else by their numbers."""

    def __init__(self, plan: Any, given: Mapping[str, Any]) -> None:
        self.cells = _cells(plan)
        self._of_cell: dict[int, str] = {
            id(cell): plan._cell_names.get(k, f"cell{k}") for k, cell in enumerate(self.cells)
        }
        self._of_input = {k: plan._input_names.get(k, f"in{k}") for k in range(len(plan._slots))}
        named: set[int] = set()
        for name, thing in given.items():
            if not isinstance(name, str):
                raise ArgumentError(f"plan.save: names has the key {str(name)[:60]!r}; wanted a str")
            cell = cell_of(thing)
            if cell is not None:
                if id(cell) in self._of_cell and id(cell) not in named:
                    self._of_cell[id(cell)] = name
                    named.add(id(cell))
            elif not isinstance(thing, Typed):
                raise ArgumentError(
                    f"plan.save: names[{name!r}] is a {type(thing).__name__}; wanted a State cell, a parameter or an oa value"
                )
            elif serial := thing._value.serial:
                self._of_input.update({k: name for k, s in enumerate(plan._slots) if s.serial == serial})
        taken = [
            *self._of_cell.values(),
            *(n for k, n in self._of_input.items() if plan._slots[k].cell is None),
        ]
        if twice := sorted({name for name in taken if taken.count(name) > 1}):
            raise ArgumentError(
                f"plan.save: two inputs or cells would be called {twice[0]!r}; give other names"
            )

    def cell(self, cell: State) -> str:
        """The name of a cell."""
        return self._of_cell[id(cell)]

    def slot(self, plan: Any, k: int) -> str:
        """The name of an input."""
        cell = plan._slots[k].cell
        return self._of_input[k] if cell is None else self.cell(cell)


def _value(plan: Any, k: int, names: _Names, sections: _Sections, values: bool) -> SavedValue:
    slot = plan._slots[k]
    cell = None if slot.cell is None else names.cells.index(slot.cell)
    elements = None
    if values and cell is None:
        elements = sections.place(plan.engine.read(slot.value).tobytes())
    facade = "Matrix" if slot.bound is None else type(slot.bound).__name__
    return SavedValue(
        names.slot(plan, k), slot.spec.dtype.name, slot.spec.shape, slot.layout, facade, cell, elements
    )


def _cell(plan: Any, cell: State, names: _Names, sections: _Sections, values: bool) -> SavedCell:
    held, elements = cell._held, None
    if values:
        plan.engine.materialize(held._value)
        elements = sections.place(plan.engine.read(held._value).tobytes())
    return SavedCell(names.cell(cell), cell.dtype.name, cell.shape, type(held).__name__, elements)


def _returned(plan: Any) -> list[tuple[Any, str]]:
    found: list[tuple[Any, str]] = []

    def visit(part: Any) -> None:
        if isinstance(part, Typed):
            found.append((part._value, type(part).__name__))
        elif part is not None:
            for inner in part.values() if isinstance(part, dict) else part:
                visit(inner)

    visit(plan.outputs)
    return found


def _tree(result: Any) -> Any:
    if result is None:
        return None
    if isinstance(result, Typed):
        return "value"
    if isinstance(result, dict):
        if not all(isinstance(key, str) for key in result):
            raise ArgumentError(
                "plan.save: the function returned a dict with keys that are no str, which a file cannot hold"
            )
        return ["dict", list(result), [_tree(part) for part in result.values()]]
    return ["list" if isinstance(result, list) else "tuple", [_tree(part) for part in result]]


def plan_of(saved: SavedPlan, kernels: list[Kernel], constants: tuple[bytes, ...]) -> Plan:
    """The plan in a file, with its kernels found."""
    steps: list[Dispatch | Barrier] = []
    for step in saved.steps:
        if isinstance(step, Barrier):
            steps.append(step)
        elif 0 <= step.kernel < len(kernels):
            rest = {f.name: getattr(step, f.name) for f in fields(step)}
            steps.append(Dispatch(**{**rest, "kernel": kernels[step.kernel]}))
        else:
            planfile.malformed("a dispatch names a kernel that is not there")
    made = Plan(
        tuple(steps),
        saved.inputs,
        saved.outputs,
        saved.in_place,
        saved.scalars,
        constants,
        saved.scratch_bytes,
    )
    return replace(made, digest=saved.digest)
