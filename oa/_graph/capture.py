"""What a capture keeps while its function runs: operations, cells read and assigned, random draws."""

from __future__ import annotations

import weakref
from typing import Any

from oa._graph.node import Batch, Value
from oa._graph.state import State
from oa._schema.value import Typed
from oa.errors import OaError

#: What a scalar of a random key stands for beside a number: a word of the seed. Draws are numbers from 0.
LOW_SEED, HIGH_SEED = -1, -2


class CaptureBatch(Batch):
    """A batch that also keeps the user's objects of what it reads: `handles[k]` of external number k."""

    __slots__ = ("handles",)

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[Typed | None] = []

    def external(self, value: Value) -> int:
        """The ordinal of a value made outside this batch."""
        found = super().external(value)
        if len(self.externals) > len(self.handles):
            self.handles.append(value.handle())
        return found


class Capture:
    """The open capture of an engine."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.batch = CaptureBatch()
        #: Scalars that belong to the random stream, by identity, and what each is: a draw's number or a word of the seed.
        self.random: dict[int, tuple[Value, int]] = {}
        self.draws = 0
        self.read: dict[State, Typed] = {}
        self.assigned: dict[State, Typed] = {}
        self.failure: OaError | None = None

    def random_key(self, low: Value, high: Value, draw: Value) -> None:
        """Take note of a draw's key: seed and draw number follow the engine's at each run of the plan."""
        for value, meaning in ((low, LOW_SEED), (high, HIGH_SEED), (draw, self.draws)):
            self.random[id(value)] = (value, meaning)
        self.draws += 1

    def repeat(self, value: Value, again: Value) -> None:
        """`again` is another operand for the number `value`, and follows the random stream as that does."""
        if id(value) in self.random:
            self.random[id(again)] = (again, self.random[id(value)][1])

    def read_cell(self, cell: State) -> Typed:
        """The cell's value inside the capture: what was assigned, else an input that follows the cell at each run."""
        found = self.assigned.get(cell)
        if found is None:
            found = self.read.get(cell)
        if found is None:
            held = cell._held._value
            if held.storage is None:
                raise self.engine._unusable(held)
            value = Value(held.spec)
            value.storage, value.layout = held.storage, held.layout
            found = self.read[cell] = type(cell._held)(self.engine, value)
            value.handle = weakref.ref(found)
        return found

    def assign_cell(self, cell: State, value: Typed) -> None:
        """The cell's value for the rest of the capture, and its new value at each run."""
        self.assigned[cell] = value

    def fail(self, error: OaError) -> OaError:
        """Remember why the capture cannot succeed, even when the function swallows the exception."""
        self.failure = error
        return error
