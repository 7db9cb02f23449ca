"""Steps of random programs: elementwise, reductions, shapes, look-ups and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from oa import matrix as m
from tests.fuzz.programs import DTYPES, EXTENTS, LARGEST, MOST_AXES, Generator, Maker
from tests.oracle import matrix as oracle


def _unary(g: Generator) -> None:
    name = g.pick(
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
    name = g.pick(
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
    name, value = g.pick(["add", "subtract", "multiply", "maximum"]), int(g.rng.integers(-4, 5))
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
    name = g.pick(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
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
        g.add("where", [g.pick(fits), at, other], m.where, oracle.where.function)


def _cast(g: Generator) -> None:
    at = g.any_of()
    if at is not None:
        dtype = g.pick(DTYPES)
        g.add(f"astype {dtype}", [at], lambda x: m.astype(x, dtype), lambda x: oracle.cast(x, dtype), dtype)


_NEEDS_SOME = ("max", "min", "argmax", "argmin")


def _reduce(g: Generator) -> None:
    name = g.pick(["sum", "sum", "max", "min", "argmax", "argmin", "any", "all", "max"])
    answer, kinds, several = oracle.REDUCTIONS[name]
    at = g.any_of(kinds, least=1)
    if at is None:
        return
    rank, keepdims = g.program.answers[at].ndim, bool(g.rng.integers(2))
    axes = tuple(sorted(int(a) for a in g.rng.permutation(rank)[: int(g.rng.integers(1, rank + 1))]))
    axis: Any = axes if several and len(axes) > 1 else axes[0]
    if g.rng.random() < 0.15:
        axis = None
    reduced = g.program.answers[at].shape if axis is None else [g.program.answers[at].shape[a] for a in axes]
    if name in _NEEDS_SOME and 0 in reduced:
        return
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
    size = int(g.program.answers[at].size)
    rest, shape = size, [] if size else [0]
    while rest > 1 and len(shape) < 6:
        divisors = [d for d in range(2, rest + 1) if rest % d == 0]
        shape.append(int(g.pick(divisors)))
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
        start = int(g.rng.integers(extent)) if extent else 0
        stop = int(g.rng.integers(start, extent)) + 1 if extent else 0
        step = int(g.pick((1, 1, 1, 2, 3)))
        back = g.rng.random() < 0.25
        key.append(
            slice(stop - 1, start - 1 if start else None, -step)
            if back and extent
            else slice(start, stop, step)
        )
    g.add(f"slice {key}", [at], lambda x: x[tuple(key)], lambda x: x[tuple(key)])


def _broadcast(g: Generator) -> None:
    at = g.any_of()
    if at is None:
        return
    shape = tuple(int(g.pick(EXTENTS)) if e == 1 else e for e in g.program.answers[at].shape)
    shape = ((int(g.pick((1, 2, 3))),) if g.rng.random() < 0.4 and len(shape) < MOST_AXES else ()) + shape
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
    parts = [at, *(g.pick(same) for _ in range(int(g.rng.integers(1, 4))))]
    if sum(g.program.answers[k].size for k in parts) <= LARGEST:
        g.add(f"concat {axis}", parts, lambda *p: m.concat(p, axis), lambda *p: np.concatenate(p, axis))


def _take(g: Generator) -> None:
    at, where = g.any_of(least=1), g.any_of("i")
    if at is None or where is None:
        return
    x, index = g.program.answers[at], g.program.answers[where]
    axis = int(g.rng.integers(x.ndim))
    lines = int(np.prod(x.shape[:axis] + x.shape[axis + 1 :], dtype=int))
    if index.size * lines <= LARGEST and index.ndim + x.ndim - 1 <= MOST_AXES:
        g.add(
            f"take {axis}",
            [at, where],
            lambda a, i: m.take(a, i, axis=axis),
            lambda a, i: oracle.take(a, i, axis),
        )


def _gather(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    x = g.program.answers[at]
    axis = int(g.rng.integers(x.ndim))
    fits = [
        k
        for k, i in enumerate(g.program.answers)
        if i.dtype.kind == "i"
        and i.ndim == x.ndim
        and all(a == b for n, (a, b) in enumerate(zip(i.shape, x.shape)) if n != axis)
    ]
    if fits:
        g.add(
            f"gather {axis}",
            [at, g.pick(fits)],
            lambda a, i: m.gather(a, i, axis=axis),
            lambda a, i: oracle.gather(a, i, axis),
        )


def _product(g: Generator) -> None:
    at = g.any_of("f", least=2)
    if at is None:
        return
    x = g.program.answers[at]
    if (
        x.ndim <= 4
        and x.dtype != np.float16
        and x.shape[-1]
        and x.size // x.shape[-1] * x.shape[-2] <= LARGEST
    ):
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
    name = g.pick(
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
        name = g.pick(["mean", "var", "std"])
        axis = int(g.rng.integers(g.program.answers[at].ndim))
        g.add(
            name,
            [at],
            lambda x: getattr(m, name)(x, axis=axis, keepdims=True),
            lambda x: oracle.mean_of(x, axis, True),
        )


BASIC: tuple[Maker, ...] = (
    _unary, _unary, _binary, _binary, _binary, _number, _number, _compare, _where, _where, _cast, _reduce, _reduce, _reduce,
    _reshape, _permute, _slice, _broadcast, _concat, _take, _gather, _product,
)  # fmt: skip
SMOOTH: tuple[Maker, ...] = (_smooth_unary, _smooth_unary, _smooth_unary, _smooth_scale, _smooth_scale, _mean)
