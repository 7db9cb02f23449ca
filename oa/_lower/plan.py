"""What a lowered graph is: kernels, operands and order, as data without handles.

Everything left of a `Plan` knows operations and no Vulkan; everything right of it (`oa._run`) knows buffers, argument words and
barriers and no operations. A plan is immutable and can be printed, compared and replayed with other buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from oa._kernel.pack import Kernel

__all__ = [
    "Access",
    "Barrier",
    "Cost",
    "Dispatch",
    "Kernel",
    "Operand",
    "Plan",
    "ScalarWord",
    "Slot",
    "Space",
    "Step",
]


class Access(IntFlag):
    """How a dispatch touches an operand."""

    READ = 1
    WRITE = 2


class Space(IntEnum):
    """What an operand's storage is: who provides it and how long it lives."""

    INPUT = 0  #: bound at each run
    OUTPUT = 1  #: bound at each run, written by the plan
    SCRATCH = 2  #: a range of the queue's one scratch arena; its content means nothing between runs
    CONSTANT = 3  #: owned by the plan, written once


@dataclass(frozen=True)
class Operand:
    """A range of bound storage: `offset` and `size` in bytes, `offset` a multiple of 256. SCRATCH has index 0 only.

    Writes with one `part` number (not 0) touch disjoint elements of the range and need no order among themselves.
    """

    space: Space
    index: int
    offset: int
    size: int
    access: Access
    part: int = 0


@dataclass(frozen=True)
class ScalarWord:
    """An argument word replaced at each run by `scalars[slot]`, a raw 32-bit pattern.

    Before slots are given, `slot` is the number of a graph input and `half` tells the words of a 64-bit one apart, low first.
    """

    slot: int
    half: int = 0


@dataclass(frozen=True)
class Cost:
    """What a dispatch must at least do: bytes read (each element that it reads once) and written, scalar operations computed
    (a fused multiply-add is two)."""

    read: int = 0
    written: int = 0
    operations: int = 0


#: What is not known to take anything.
NO_COST = Cost()


@dataclass(frozen=True)
class Dispatch:
    """One kernel over one grid. `operands` are the kernel's buffers in binding order, `words` its plain argument words.

    `nodes` are positions of the user's operations, `label` names them, `cost` is what the work must at least take.
    """

    kernel: Kernel
    groups: tuple[int, int, int]
    operands: tuple[Operand, ...]
    words: tuple[int | ScalarWord, ...]
    nodes: tuple[int, ...] = ()
    label: str = ""
    cost: Cost = NO_COST


@dataclass(frozen=True)
class Barrier:
    """Writes of all earlier dispatches become visible to, and finish before, the later ones."""


Step = Dispatch | Barrier


@dataclass(frozen=True)
class Slot:
    """What is bound at a position: `size` in bytes is the least allocation, padding included."""

    dtype: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Plan:
    """An ordered list of dispatches and barriers over numbered inputs, outputs, constants and one scratch arena."""

    steps: tuple[Step, ...]
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    in_place: tuple[tuple[int, int], ...] = ()  #: (output, input whose storage it may take)
    scalars: int = 0
    constants: tuple[bytes, ...] = ()
    scratch_bytes: int = 0
    digest: str = ""

    def dispatches(self) -> Iterator[Dispatch]:
        """The dispatches in order, without the barriers."""
        return (step for step in self.steps if isinstance(step, Dispatch))

    def text(self) -> str:
        """The plan as lines, the same for equal plans: what to read, diff and save."""
        lines = [f"plan {self.digest or '-'}: {self.scalars} scalars, {self.scratch_bytes} scratch bytes"]
        lines += [_slot(f"in{i}", slot) for i, slot in enumerate(self.inputs)]
        lines += [_slot(f"out{i}", slot) for i, slot in enumerate(self.outputs)]
        lines += [f"  const{i}: {len(data)} bytes" for i, data in enumerate(self.constants)]
        lines += [f"  out{out} may take in{source}" for out, source in self.in_place]
        number = 0
        for step in self.steps:
            if isinstance(step, Barrier):
                lines.append("  ---- barrier")
            else:
                lines.append(_dispatch(number, step))
                number += 1
        return "\n".join(lines) + "\n"


def _slot(name: str, slot: Slot) -> str:
    shape = ", ".join(map(str, slot.shape))
    return f"  {name}: {slot.dtype} ({shape}) {slot.size} bytes"


_SPACE = {Space.INPUT: "in", Space.OUTPUT: "out", Space.SCRATCH: "scratch", Space.CONSTANT: "const"}
_ACCESS = {Access.READ: "r", Access.WRITE: "w", Access.READ | Access.WRITE: "rw"}


def _operand(operand: Operand) -> str:
    index = "" if operand.space is Space.SCRATCH else str(operand.index)
    where = f"{operand.offset}:{operand.offset + operand.size}"
    part = f" part {operand.part}" if operand.part else ""
    return f"{_ACCESS[operand.access]} {_SPACE[operand.space]}{index}[{where}]{part}"


def _dispatch(number: int, step: Dispatch) -> str:
    operands = ", ".join(map(_operand, step.operands))
    words = " ".join(f"s{w.slot}" if isinstance(w, ScalarWord) else str(w) for w in step.words)
    groups = "x".join(map(str, step.groups))
    label = f" # {step.label}" if step.label else ""
    return f"  {number}: {step.kernel.name} <{groups}> ({operands}) [{words}]{label}"
