"""What flows through a plan: its values, who makes and reads them, levels and lifetimes. All of it from the plan alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from oa._lower.plan import Access, Barrier, Dispatch, Operand, Plan, Space

#: Scratch ranges start at and are multiples of this many bytes.
ALIGNMENT = 256


@dataclass
class Flowing:
    """A value of a plan: bytes `offset` to `offset + size` of its storage, written by dispatches `made` and read by `read`."""

    name: str
    space: Space
    index: int
    offset: int
    size: int
    part: int = 0
    made: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    def overlaps(self, operand: Operand) -> bool:
        """Whether a dispatch's operand touches bytes of the value."""
        if (self.space, self.index) != (operand.space, operand.index):
            return False
        return self.offset < operand.offset + operand.size and operand.offset < self.offset + self.size


@dataclass(frozen=True)
class Flow:
    """The values in order of their making, inputs and constants first; for each dispatch the values read and written."""

    values: list[Flowing]
    reads: list[list[Flowing]]
    writes: list[list[Flowing]]
    levels: list[int]  #: by dispatch: one more than the highest level of what it reads
    stretches: list[int]  #: by dispatch: how many barriers come before it

    @property
    def depth(self) -> int:
        """The number of levels."""
        return max(self.levels, default=-1) + 1


@dataclass(frozen=True)
class Lifetime:
    """A scratch value, needed from level `first` to level `last`, both included."""

    value: Flowing
    first: int
    last: int

    @property
    def size(self) -> int:
        """Bytes of the arena that it takes."""
        return -(-self.value.size // ALIGNMENT) * ALIGNMENT


_NAME = {Space.INPUT: "in", Space.OUTPUT: "out", Space.SCRATCH: "s", Space.CONSTANT: "const"}


class _Walk:
    """The values found so far; `live` are those that a later dispatch may read, by storage."""

    def __init__(self, plan: Plan) -> None:
        self.values: list[Flowing] = []
        self.live: dict[tuple[Space, int], list[Flowing]] = {}
        self.scratch = 0
        for k, slot in enumerate(plan.inputs):
            self._add(Flowing(f"in{k}", Space.INPUT, k, 0, slot.size))
        for k, data in enumerate(plan.constants):
            self._add(Flowing(f"const{k}", Space.CONSTANT, k, 0, len(data)))

    def _add(self, value: Flowing) -> Flowing:
        self.values.append(value)
        self.live.setdefault((value.space, value.index), []).append(value)
        return value

    def read(self, operand: Operand) -> list[Flowing]:
        """The values that an operand reads."""
        return [v for v in self.live.get((operand.space, operand.index), ()) if v.overlaps(operand)]

    def write(self, operand: Operand) -> Flowing:
        """The value that an operand writes: a new one, or one of which other parts were written before."""
        key = operand.space, operand.index
        held = self.live.setdefault(key, [])
        if operand.part:
            for value in held:
                if value.part == operand.part:
                    stop = max(value.offset + value.size, operand.offset + operand.size)
                    value.offset = min(value.offset, operand.offset)
                    value.size = stop - value.offset
                    return value
        held[:] = [v for v in held if not v.overlaps(operand)]
        name = f"{_NAME[operand.space]}{operand.index}"
        if operand.space is Space.SCRATCH:
            name, self.scratch = f"s{self.scratch}", self.scratch + 1
        return self._add(
            Flowing(name, operand.space, operand.index, operand.offset, operand.size, operand.part)
        )


def flow(plan: Plan) -> Flow:
    """The flow of values through a plan."""
    walk = _Walk(plan)
    reads: list[list[Flowing]] = []
    writes: list[list[Flowing]] = []
    stretches: list[int] = []
    levels: list[int] = []
    stretch = 0
    for step in plan.steps:
        if isinstance(step, Barrier):
            stretch += 1
            continue
        number = len(levels)
        found = _unique([v for o in step.operands if o.access & Access.READ for v in walk.read(o)])
        made = _unique([walk.write(o) for o in step.operands if o.access & Access.WRITE])
        levels.append(max((levels[d] + 1 for v in found for d in v.made), default=0))
        for value in found:
            value.read.append(number)
        for value in made:
            value.made.append(number)
        reads.append(found)
        writes.append(made)
        stretches.append(stretch)
    return Flow(walk.values, reads, writes, levels, stretches)


def _unique(values: list[Flowing]) -> list[Flowing]:
    return list({id(v): v for v in values}.values())


def lifetimes(found: Flow) -> list[Lifetime]:
    """When each scratch value is needed."""
    made = []
    for value in found.values:
        if value.space is Space.SCRATCH:
            at = [found.levels[d] for d in (*value.made, *value.read)]
            made.append(Lifetime(value, min(at), max(at)))
    return made


def live_bytes(found: list[Lifetime], depth: int) -> list[int]:
    """Bytes of scratch values alive at each level: the highest is what any arena must at least hold."""
    totals = [0] * depth
    for life in found:
        for level in range(life.first, life.last + 1):
            totals[level] += life.size
    return totals


def dispatches(plan: Plan) -> list[Dispatch]:
    """The dispatches in order."""
    return list(plan.dispatches())
