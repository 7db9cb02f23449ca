"""Random programs of matrix operations, each step said in `oa` and in NumPy.

Values are small whole numbers, so that float arithmetic on them is exact and every answer must be equal bit by bit (but for
the sign of zeros), or NaN where a place outside an axis was asked for. With `smooth=True` functions that round take part too;
such programs are compared with themselves only. The steps to choose from are in makers.py and wide.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oa import matrix as m
from tests.oracle import matrix as oracle

Array = np.ndarray[Any, Any]
Maker = Callable[["Generator"], None]
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9)
RANKS = (0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8)
MOST_AXES = 8
#: float32 most, so that the fast paths get their share.
DTYPES = (
    "float32", "float32", "float32", "float32", "int32", "int32", "uint8", "bool", "float16", "float64", "int64", "int8", "int16",
    "uint16", "uint32", "uint64",
)  # fmt: skip
LARGEST = 700
#: Beyond this magnitude a value is brought back, so that sums and products stay exact.
CEILING = 40


@dataclass
class Step:
    """One operation: what it is called, its operands' positions, and the two ways to compute it."""

    name: str
    operands: tuple[int, ...]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]


@dataclass
class Program:
    """Inputs, then steps; position k is input k, then the results in order. `wanted` are the positions to be read."""

    inputs: list[Array]
    steps: list[Step] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    answers: list[Array] = field(default_factory=list)

    def run(self, inputs: Sequence[Any], after: Callable[[int], None] = lambda _: None) -> list[Any]:
        """All values by `oa`; `after(k)` is called when step k is recorded."""
        values = list(inputs)
        for k, step in enumerate(self.steps):
            values.append(step.ours(*(values[o] for o in step.operands)))
            after(k)
        return values

    def text(self) -> str:
        """One line a step, for reports."""
        lines = [f"{k}: input {x.dtype}{list(x.shape)}" for k, x in enumerate(self.inputs)]
        for k, step in enumerate(self.steps, len(self.inputs)):
            lines.append(
                f"{k}: {step.name}{step.operands} {self.answers[k].dtype}{list(self.answers[k].shape)}"
            )
        return "\n".join([*lines, f"wanted {self.wanted}"])


class Generator:
    """Grows one program."""

    def __init__(self, seed: int, smooth: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.smooth = smooth
        self.program = Program([])
        for _ in range(int(self.rng.integers(1, 5))):
            self.program.inputs.append(self._input())
        self.program.answers = [x.astype(x.dtype.newbyteorder("=")) for x in self.program.inputs]

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """Extents of at most `LARGEST` elements in all; one in thirty shapes has an extent of 0."""
        wanted = int(self.pick(RANKS)) if rank is None else rank
        found: list[int] = []
        for _ in range(wanted):
            found.append(int(self.pick([e for e in EXTENTS if e * np.prod(found, dtype=int) <= LARGEST])))
        if found and self.rng.random() < 0.03:
            found[int(self.rng.integers(len(found)))] = 0
        return tuple(found)

    def _input(self) -> Array:
        """Whole numbers; one in five comes as a view with other strides, or in the other byte order."""
        dtype = np.dtype(self.pick(DTYPES))
        low = 0 if dtype.kind in "ub" else -8
        found = self.rng.integers(low, 2 if dtype.kind == "b" else 9, self.shape()).astype(dtype)
        how = self.rng.random()
        if how < 0.08:
            return found[tuple(slice(None, None, -1) for _ in found.shape)]
        if how < 0.16:
            return np.ascontiguousarray(found.T).T
        return found.astype(dtype.newbyteorder(">")) if how < 0.2 else found

    def grow(self, count: int, makers: Sequence[Maker]) -> Program:
        """A program of about `count` steps, with every unread result and a few others wanted."""
        while len(self.program.steps) < count:
            self.pick(makers)(self)
        used = {o for s in self.program.steps for o in s.operands}
        first = len(self.program.inputs)
        positions = range(first, len(self.program.answers))
        self.program.wanted = [k for k in positions if k not in used or self.rng.random() < 0.15]
        return self.program

    # -- choosing operands and adding steps

    def any_of(self, kinds: str = "biuf", least: int = 0) -> int | None:
        """The position of a recent value of one of these kinds and at least this rank."""
        found = [
            k
            for k, x in enumerate(self.program.answers)
            if x.dtype.kind in kinds and x.ndim >= least and x.size <= LARGEST
        ]
        if not found:
            return None
        return found[-1 - min(int(self.rng.exponential(3.0)), len(found) - 1)]

    def partner(self, at: int) -> int | None:
        """Another value of the same dtype that broadcasts with the one at `at`."""
        x = self.program.answers[at]
        found = []
        for k, y in enumerate(self.program.answers):
            if y.dtype == x.dtype:
                try:
                    shape = np.broadcast_shapes(x.shape, y.shape)
                except ValueError:
                    continue
                if np.prod(shape, dtype=int) <= LARGEST and len(shape) <= MOST_AXES:
                    found.append(k)
        return self.pick(found) if found else None

    def add(
        self,
        name: str,
        operands: Sequence[int],
        ours: Callable[..., Any],
        theirs: Callable[..., Any],
        dtype: str = "",
    ) -> int:
        """Append a step; its answer has `dtype`, floats by default that of the operands."""
        given = [self.program.answers[o] for o in operands]
        with np.errstate(all="ignore"):
            answer = np.asarray(theirs(*given))
            floats = [x.dtype for x in given if x.dtype.kind == "f"]
            if dtype or answer.dtype.kind == "f":
                answer = answer.astype(dtype or (np.result_type(*floats) if floats else np.float32))
        self.program.steps.append(Step(name, tuple(operands), ours, theirs))
        self.program.answers.append(answer)
        at = len(self.program.answers) - 1
        big = (
            answer.dtype.kind in "fiu"
            and not self.smooth
            and np.nanmax(np.abs(answer.astype(np.float64)), initial=0.0) > CEILING
        )
        if big:
            modulus = float(CEILING // 2 + 1) if answer.dtype.kind == "f" else CEILING // 2 + 1
            want = oracle.POINTWISE["remainder"].function
            at = self.add(
                "tame",
                [at],
                lambda x: m.remainder(x, modulus),
                lambda x: want(x, np.asarray(modulus, x.dtype)),
            )
        return at
