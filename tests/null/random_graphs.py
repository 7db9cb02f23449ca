"""Random graphs of float32 operations by seed, for tests that lower and never run: the same for a seed whatever else changes.

They hold what passes decide about: chains with several readers, broadcasting, views, reductions over any axis, long ones too,
products with what follows them, gathers, concatenations, random values.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from oa import matrix as m

_ONE: tuple[Callable[[Any], Any], ...] = (
    m.exp, m.tanh, m.sqrt, m.abs, m.relu, m.gelu, m.sigmoid, m.log1p, m.sin, m.square, lambda x: x * 0.5 + 1.0, lambda x: x / 3.0,
)  # fmt: skip
_TWO: tuple[Callable[[Any, Any], Any], ...] = (
    m.add, m.subtract, m.multiply, m.maximum, m.divide, lambda a, b: m.where(a > b, a, b), lambda a, b: a * b + a,
)  # fmt: skip
_REDUCE: tuple[Callable[..., Any], ...] = (m.sum, m.mean, m.max, m.min, m.var)
_ROWS = (m.softmax, m.log_softmax)
#: Lengths of rows: short, odd, a vector's multiple, longer than a group keeps in registers, cut into chunks.
_LENGTHS = (3, 7, 16, 33, 64, 257, 512, 1000, 4096, 20_000)


def random_graph(seed: int, steps: int = 0) -> Callable[[Any], list[Any]]:
    """What records the graph of a seed on a recorder; its results are wanted. About `steps` operations, by default 3 to 24."""

    def record(e: Any) -> list[Any]:
        rng = random.Random(seed)
        length, rows = rng.choice(_LENGTHS), rng.choice((1, 2, 5, 32, 300))
        values = [e.input(rows, length), e.input(rows, length), e.input(length), e.input(rows, 1)]
        for _ in range(steps or rng.randint(3, 24)):
            values.append(_step(rng, e, values))
        wanted = values[4:]
        return [values[-1], *rng.sample(wanted, min(len(wanted), rng.randint(0, 3)))]

    return record


def _step(rng: random.Random, e: Any, values: list[Any]) -> Any:
    a = rng.choice(values[-6:])
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(_ONE)(a)
    if kind < 0.55:
        return rng.choice(_TWO)(a, _fitting(rng, values, a))
    if a.ndim and kind < 0.7:
        return rng.choice(_REDUCE)(a, axis=rng.randrange(a.ndim), keepdims=rng.random() < 0.7)
    if a.ndim and kind < 0.78:
        return rng.choice(_ROWS)(a, axis=-1)
    if a.ndim == 2 and kind < 0.88:
        w = e.input(a.shape[1], rng.choice((1, 8, 24, 64, 130)))
        made = m.matmul(a, w)
        return rng.choice(_ONE)(made + e.input(w.shape[1])) if rng.random() < 0.6 else made
    return _moved(rng, e, a)


def _fitting(rng: random.Random, values: list[Any], a: Any) -> Any:
    """An earlier value that broadcasts with `a`."""
    shapes = [v for v in values if all(x == y or 1 in (x, y) for x, y in zip(v.shape[::-1], a.shape[::-1]))]
    return rng.choice(shapes)


def _moved(rng: random.Random, e: Any, a: Any) -> Any:
    """Views, a concatenation, a gather, or something random of the same shape."""
    if not a.ndim:
        return a + m.uniform(a.engine, ())
    kind = rng.randrange(6)
    if kind == 0 and a.ndim == 2:
        return m.transpose(a)
    if kind == 1:
        return a[::-1] * 2.0
    if kind == 2:
        return m.concat([a, m.tanh(a)], axis=-1)
    if kind == 3:
        return m.take(a, e.input(5, dtype="int32"), axis=a.ndim - 1)
    if kind == 4:
        return m.reshape(a, (a.size,))
    return a + m.normal(a.engine, a.shape)
