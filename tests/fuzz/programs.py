"""Random programs of matrix operations, each step said in `oa` and in NumPy.

Values are small whole numbers, so that float32 arithmetic on them is exact and every answer must be equal bit by bit (but for
the sign of zeros). With `smooth=True` functions that round take part too; such programs are compared with themselves only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oa import matrix as m
from tests.oracle import matrix as oracle

Array = np.ndarray[Any, Any]
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9)
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
        self.program.answers = list(self.program.inputs)

    def _pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        wanted = int(self._pick((0, 1, 1, 2, 2, 2, 3, 3, 4))) if rank is None else rank
        found: tuple[int, ...] = ()
        for _ in range(wanted):
            found = (
                *found,
                int(self._pick([e for e in EXTENTS if e * np.prod(found, dtype=int) <= LARGEST])),
            )
        return found

    def _input(self) -> Array:
        shape = self.shape()
        kind = self._pick(("float32", "float32", "float32", "int32", "uint8", "bool"))
        low = 0 if kind in ("uint8", "bool") else -8
        return self.rng.integers(low, 2 if kind == "bool" else 9, shape).astype(kind)

    def grow(self, count: int) -> Program:
        """A program of about `count` steps, with every unread result and a few others wanted."""
        while len(self.program.steps) < count:
            maker = self._pick(_MAKERS + (_SMOOTH if self.smooth else []))
            maker(self)
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
                if np.prod(shape, dtype=int) <= LARGEST and len(shape) <= 6:
                    found.append(k)
        return self._pick(found) if found else None

    def add(
        self, name: str, operands: Sequence[int], ours: Callable[..., Any], theirs: Callable[..., Any]
    ) -> int:
        answer = np.asarray(theirs(*(self.program.answers[o] for o in operands)))
        if answer.dtype.kind == "f":
            answer = answer.astype(np.float32)
        self.program.steps.append(Step(name, tuple(operands), ours, theirs))
        self.program.answers.append(answer)
        at = len(self.program.answers) - 1
        big = (
            answer.size
            and answer.dtype.kind in "fiu"
            and not self.smooth
            and np.max(np.abs(answer.astype(np.float64))) > CEILING
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


def _unary(g: Generator) -> None:
    name = g._pick(
        [
            "negative",
            "abs",
            "square",
            "relu",
            "floor",
            "ceil",
            "trunc",
            "round",
            "copy",
            "sign",
            "bitwise_invert",
        ]
    )
    answer = oracle.POINTWISE[name]
    at = g.any_of(answer.kinds)
    if at is not None:
        g.add(name, [at], getattr(m, name), answer.function)


def _binary(g: Generator) -> None:
    name = g._pick(
        ["add", "subtract", "multiply", "maximum", "minimum", "add", "multiply", "bitwise_xor", "bitwise_and"]
    )
    answer = oracle.POINTWISE[name]
    at = g.any_of(answer.kinds)
    other = g.partner(at) if at is not None else None
    if at is not None and other is not None:
        g.add(name, [at, other], getattr(m, name), answer.function)


def _number(g: Generator) -> None:
    at = g.any_of("if")
    if at is None:
        return
    name, value = g._pick(["add", "subtract", "multiply", "maximum"]), int(g.rng.integers(-4, 5))
    number: Any = float(value) if g.program.answers[at].dtype.kind == "f" else value
    answer = oracle.POINTWISE[name].function
    if g.rng.random() < 0.5:
        g.add(
            name,
            [at],
            lambda x: getattr(m, name)(x, number),
            lambda x: answer(x, np.asarray(number, x.dtype)),
        )
    else:
        g.add(
            name,
            [at],
            lambda x: getattr(m, name)(number, x),
            lambda x: answer(np.asarray(number, x.dtype), x),
        )


def _compare(g: Generator) -> None:
    name = g._pick(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
    at = g.any_of("iuf")
    other = g.partner(at) if at is not None else None
    if at is not None and other is not None:
        g.add(name, [at, other], getattr(m, name), oracle.POINTWISE[name].function)


def _where(g: Generator) -> None:
    at = g.any_of()
    other = g.partner(at) if at is not None else None
    if at is None or other is None:
        return
    shape = np.broadcast_shapes(g.program.answers[at].shape, g.program.answers[other].shape)
    fits = [
        k
        for k, c in enumerate(g.program.answers)
        if c.dtype.kind == "b"
        and c.ndim <= len(shape)
        and all(e in (1, s) for e, s in zip(c.shape[::-1], shape[::-1]))
    ]
    if fits:
        g.add("where", [g._pick(fits), at, other], m.where, oracle.where.function)


def _cast(g: Generator) -> None:
    at = g.any_of()
    if at is not None:
        dtype = g._pick(["float32", "int32", "uint8", "uint32", "bool"])
        g.add(f"astype {dtype}", [at], lambda x: m.astype(x, dtype), lambda x: oracle.cast(x, dtype))


def _reduce(g: Generator) -> None:
    name = g._pick(["sum", "sum", "max", "min", "argmax", "argmin", "any", "all", "max"])
    answer, kinds, several = oracle.REDUCTIONS[name]
    at = g.any_of(kinds, least=1)
    if at is None:
        return
    rank, keepdims = g.program.answers[at].ndim, bool(g.rng.integers(2))
    axes = tuple(sorted(int(a) for a in g.rng.permutation(rank)[: int(g.rng.integers(1, rank + 1))]))
    axis: Any = axes if several and len(axes) > 1 else axes[0]
    if g.rng.random() < 0.15:
        axis = None
    g.add(
        f"{name} {axis} {keepdims}",
        [at],
        lambda x: getattr(m, name)(x, axis=axis, keepdims=keepdims),
        lambda x: answer(x, axis, keepdims),
    )


def _reshape(g: Generator) -> None:
    at = g.any_of()
    if at is None:
        return
    rest, shape = int(g.program.answers[at].size), []
    while rest > 1 and len(shape) < 4:
        divisors = [d for d in range(2, rest + 1) if rest % d == 0]
        shape.append(int(g._pick(divisors)))
        rest //= shape[-1]
    if rest > 1:
        shape.append(rest)
    if g.rng.random() < 0.3:
        shape.insert(int(g.rng.integers(len(shape) + 1)), 1)
    g.add(f"reshape {shape}", [at], lambda x: m.reshape(x, tuple(shape)), lambda x: x.reshape(shape))


def _permute(g: Generator) -> None:
    at = g.any_of(least=2)
    if at is not None:
        axes = tuple(int(a) for a in g.rng.permutation(g.program.answers[at].ndim))
        g.add(f"permute {axes}", [at], lambda x: m.permute_dims(x, axes), lambda x: x.transpose(axes))


def _slice(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    key: list[slice] = []
    for extent in g.program.answers[at].shape:
        start = int(g.rng.integers(extent))
        stop = int(g.rng.integers(start, extent)) + 1
        step = int(g._pick((1, 1, 1, 2, 3)))
        back = g.rng.random() < 0.25
        key.append(slice(stop - 1, start - 1 if start else None, -step) if back else slice(start, stop, step))
    g.add(f"slice {key}", [at], lambda x: x[tuple(key)], lambda x: x[tuple(key)])


def _broadcast(g: Generator) -> None:
    at = g.any_of()
    if at is None:
        return
    shape = tuple(int(g._pick(EXTENTS)) if e == 1 else e for e in g.program.answers[at].shape)
    shape = ((int(g._pick((1, 2, 3))),) if g.rng.random() < 0.4 and len(shape) < 4 else ()) + shape
    if np.prod(shape, dtype=int) <= LARGEST:
        g.add(
            f"broadcast {shape}",
            [at],
            lambda x: m.broadcast_to(x, shape),
            lambda x: np.broadcast_to(x, shape),
        )


def _concat(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    x = g.program.answers[at]
    axis = int(g.rng.integers(x.ndim))
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    same = [
        k
        for k, y in enumerate(g.program.answers)
        if y.dtype == x.dtype and y.ndim == x.ndim and y.shape[:axis] + y.shape[axis + 1 :] == rest
    ]
    parts = [at, *(g._pick(same) for _ in range(int(g.rng.integers(1, 4))))]
    if sum(g.program.answers[k].size for k in parts) <= LARGEST:
        g.add(f"concat {axis}", parts, lambda *p: m.concat(p, axis), lambda *p: np.concatenate(p, axis))


def _take(g: Generator) -> None:
    at, where = g.any_of(least=1), g.any_of("i")
    if at is None or where is None:
        return
    x, index = g.program.answers[at], g.program.answers[where]
    axis = int(g.rng.integers(x.ndim))
    if index.size * x.size // x.shape[axis] <= LARGEST and index.ndim + x.ndim - 1 <= 6:
        float_ok = x.dtype.kind != "f" or np.all((index < x.shape[axis]) & (index >= -x.shape[axis]))
        if float_ok:
            g.add(
                f"take {axis}",
                [at, where],
                lambda a, i: m.take(a, i, axis=axis),
                lambda a, i: oracle.take(a, i, axis),
            )


def _gather(g: Generator) -> None:
    at = g.any_of("iub", least=1)
    if at is None:
        return
    x = g.program.answers[at]
    axis = int(g.rng.integers(x.ndim))
    fits = [
        k
        for k, i in enumerate(g.program.answers)
        if i.dtype == np.int32
        and i.ndim == x.ndim
        and all(a == b for n, (a, b) in enumerate(zip(i.shape, x.shape)) if n != axis)
    ]
    if fits:
        g.add(
            f"gather {axis}",
            [at, g._pick(fits)],
            lambda a, i: m.gather(a, i, axis=axis),
            lambda a, i: oracle.gather(a, i, axis),
        )


def _product(g: Generator) -> None:
    at = g.any_of("f", least=2)
    if at is None:
        return
    x = g.program.answers[at]
    if x.ndim <= 4 and x.size // x.shape[-1] * x.shape[-2] <= LARGEST:
        if g.rng.random() < 0.5:
            g.add(
                "x xT", [at], lambda a: m.matmul(a, m.transpose(a, -1, -2)), lambda a: oracle.mat_mul_nt(a, a)
            )
        else:
            g.add(
                "xT x",
                [at],
                lambda a: m.matmul(m.transpose(a, -1, -2), a),
                lambda a: oracle.matmul(np.swapaxes(a, -1, -2), a),
            )


def _smooth_unary(g: Generator) -> None:
    name = g._pick(
        [
            "exp",
            "tanh",
            "sigmoid",
            "erf",
            "sin",
            "gelu",
            "silu",
            "sqrt",
            "softmax",
            "log_softmax",
            "logsumexp",
        ]
    )
    at = g.any_of("f", least=1 if "soft" in name or "sum" in name else 0)
    if at is not None:
        # The answer only keeps shapes and dtypes going.
        shapes = {"logsumexp": lambda x: x[..., 0]}.get(name, lambda x: x)
        g.add(name, [at], getattr(m, name), shapes)


def _smooth_scale(g: Generator) -> None:
    at = g.any_of("f")
    if at is not None:
        g.add("scale", [at], lambda x: x * 0.1 + 0.3, lambda x: x)


def _mean(g: Generator) -> None:
    at = g.any_of("f", least=1)
    if at is not None:
        name = g._pick(["mean", "var", "std"])
        axis = int(g.rng.integers(g.program.answers[at].ndim))
        g.add(
            name,
            [at],
            lambda x: getattr(m, name)(x, axis=axis, keepdims=True),
            lambda x: oracle.mean_of(x, axis, True),
        )


_MAKERS = [
    _unary, _unary, _binary, _binary, _binary, _number, _number, _compare, _where, _where, _cast, _reduce, _reduce, _reduce,
    _reshape, _permute, _slice, _broadcast, _concat, _take, _gather, _product,
]  # fmt: skip
_SMOOTH = [_smooth_unary, _smooth_unary, _smooth_unary, _smooth_scale, _smooth_scale, _mean]
