"""Steps of random programs that move, order, scan and scatter elements, and those that pass through bfloat16."""

from __future__ import annotations

import numpy as np

from oa import matrix as m
from tests.fuzz.makers import BASIC, SMOOTH
from tests.fuzz.programs import LARGEST, MOST_AXES, Array, Generator, Maker, Program
from tests.oracle import bfloat, scatter
from tests.oracle import matrix as oracle


def _axis_of(g: Generator, at: int) -> int:
    """An axis of the value, counted from either end."""
    rank = g.program.answers[at].ndim
    return int(g.rng.integers(-rank, rank))


def _descending(x: Array, axis: int) -> Array:
    """Stable order from the greatest, NaN first: that of the reversed line, reversed, its places counted from the other end."""
    back = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.asarray(np.flip(x.shape[axis] - 1 - back, axis))


def _order(x: Array, axis: int, descending: bool) -> Array:
    return _descending(x, axis) if descending else np.argsort(x, axis=axis, kind="stable")


def _sort(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    axis, down = _axis_of(g, at), bool(g.rng.integers(2))
    if g.rng.random() < 0.5:
        g.add(
            f"sort {axis} {down}", [at], lambda x: m.sort(x, axis=axis, descending=down),
            lambda x: np.take_along_axis(x, _order(x, axis, down), axis),
        )  # fmt: skip
    else:
        g.add(
            f"argsort {axis} {down}", [at], lambda x: m.argsort(x, axis=axis, descending=down),
            lambda x: _order(x, axis, down), "int32",
        )  # fmt: skip


def _topk(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    axis = _axis_of(g, at)
    extent = g.program.answers[at].shape[axis]
    count, which = int(g.rng.integers(extent + 1)), int(g.rng.integers(2))
    largest = bool(g.rng.integers(2))

    def theirs(x: Array) -> Array:
        order = np.take(_order(x, axis, largest), np.arange(count), axis)
        return order if which else np.take_along_axis(x, order, axis)

    g.add(
        f"topk {count} {axis} {largest} {which}", [at], lambda x: m.topk(x, count, axis=axis, largest=largest)[which], theirs,
        "int32" if which else g.program.answers[at].dtype.name,
    )  # fmt: skip


def _scan(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    axis, initial, x = _axis_of(g, at), bool(g.rng.integers(2)), g.program.answers[at]
    if g.rng.random() < 0.3 and x.dtype.kind != "b" and x.shape[axis]:
        g.add(f"diff {axis}", [at], lambda x: m.diff(x, axis=axis), lambda x: np.diff(x, axis=axis))
        return
    if x.dtype == np.float16:
        return  # a prefix beyond 2,048 rounds, and how the parts of a prefix are grouped is not said

    def theirs(x: Array) -> Array:
        whole = oracle.sum_of(x[..., :0]).dtype
        found = np.cumsum(x, axis=axis, dtype=whole)
        return (
            np.concatenate([np.zeros_like(np.take(found, [], axis), shape=_one(x, axis)), found], axis)
            if initial
            else found
        )

    g.add(
        f"cumulative_sum {axis} {initial}", [at],
        lambda x: m.cumulative_sum(x, axis=axis, include_initial=initial), theirs,
    )  # fmt: skip


def _one(x: Array, axis: int) -> tuple[int, ...]:
    shape = list(x.shape)
    shape[axis] = 1
    return tuple(shape)


def _move(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    x = g.program.answers[at]
    axis, by = _axis_of(g, at), int(g.rng.integers(-5, 6))
    name = g.pick(["flip", "roll", "tile", "repeat", "pad", "stack", "moveaxis"])
    if name == "flip":
        g.add(f"flip {axis}", [at], lambda x: m.flip(x, axis), lambda x: np.flip(x, axis))
    elif name == "roll":
        g.add(f"roll {by} {axis}", [at], lambda x: m.roll(x, by, axis=axis), lambda x: np.roll(x, by, axis))
    elif name == "moveaxis":
        g.add(f"moveaxis {axis}", [at], lambda x: m.moveaxis(x, axis, 0), lambda x: np.moveaxis(x, axis, 0))
    elif x.size * 2 > LARGEST:
        return
    elif name == "tile":
        times = tuple(2 if k == axis % x.ndim else 1 for k in range(x.ndim))
        g.add(f"tile {times}", [at], lambda x: m.tile(x, times), lambda x: np.tile(x, times))
    elif name == "repeat":
        g.add(f"repeat {axis}", [at], lambda x: m.repeat(x, 2, axis=axis), lambda x: np.repeat(x, 2, axis))
    elif name == "stack" and x.ndim < MOST_AXES:
        g.add(f"stack {axis}", [at, at], lambda *p: m.stack(p, axis), lambda *p: np.stack(p, axis))
    elif name == "pad":
        _pad(g, at, axis % x.ndim)


def _pad(g: Generator, at: int, axis: int) -> None:
    before, after = (int(k) for k in g.rng.integers(0, 3, 2))
    x = g.program.answers[at]
    modes = ["constant", "edge", "wrap", "reflect"] if x.shape[axis] > 2 else ["constant"]
    mode = g.pick(modes)
    widths = [(before, after) if k == axis else (0, 0) for k in range(x.ndim)]
    if x.size + (before + after) * (x.size // max(x.shape[axis], 1)) <= LARGEST:
        g.add(
            f"pad {mode} {widths}", [at], lambda x: m.pad(x, widths, mode), lambda x: np.pad(x, widths, mode)
        )


def _triangle(g: Generator) -> None:
    at = g.any_of(least=2)
    if at is not None:
        name, k = g.pick(["tril", "triu"]), int(g.rng.integers(-3, 4))
        g.add(f"{name} {k}", [at], lambda x: getattr(m, name)(x, k=k), lambda x: getattr(np, name)(x, k))


def _places(g: Generator, shape: tuple[int, ...]) -> int | None:
    """An integer value of this shape, whatever it holds."""
    fits = [k for k, i in enumerate(g.program.answers) if i.dtype.kind == "i" and i.shape == shape]
    return g.pick(fits) if fits else None


def _modes(x: Array) -> list[str]:
    return ["replace"] if x.dtype.kind == "b" else ["replace", "add", "max", "min"]


def _scatter(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    x = g.program.answers[at]
    axis, mode = int(g.rng.integers(x.ndim)), g.pick(_modes(x))
    if g.rng.random() < 0.5:
        places = _places(g, x.shape)
        given = g.pick(
            [k for k, y in enumerate(g.program.answers) if y.shape == x.shape and y.dtype == x.dtype]
        )
        if places is not None:
            g.add(
                f"scatter {mode} {axis}", [at, places, given],
                lambda a, i, y: m.scatter(a, i, y, axis=axis, mode=mode),
                lambda a, i, y: scatter.scatter(a, i, y, axis, mode)[0], x.dtype.name,
            )  # fmt: skip
        return
    places = _places(g, (x.shape[axis],))
    if places is not None:
        g.add(
            f"scatter_rows {mode} {axis}", [at, places],
            lambda a, i: m.scatter_rows(a, i, a, axis=axis, mode=mode),
            lambda a, i: scatter.scatter_rows(a, i, a, axis, mode)[0], x.dtype.name,
        )  # fmt: skip


def _segment(g: Generator) -> None:
    at = g.any_of("iuf", least=1)
    if at is None:
        return
    x = g.program.answers[at]
    ids, count, mode = _places(g, x.shape[:1]), int(g.rng.integers(0, 6)), g.pick(["sum", "max", "min"])
    lines = int(np.prod(x.shape[1:], dtype=int))
    full = (
        ids is not None
        and mode != "sum"
        and len(set(g.program.answers[ids].tolist()) & set(range(count))) < count
    )
    if ids is not None and count * lines <= LARGEST and not full:
        g.add(
            f"segment_{mode} {count}", [at, ids],
            lambda a, i: getattr(m, f"segment_{mode}")(a, i, count),
            lambda a, i: scatter.segments(a, i, count, "add" if mode == "sum" else mode)[0], x.dtype.name,
        )  # fmt: skip


def _hot(g: Generator) -> None:
    at = g.any_of("i")
    if at is not None and g.program.answers[at].ndim < MOST_AXES:
        count = int(g.rng.integers(1, 6))
        if g.program.answers[at].size * count <= LARGEST:
            g.add(
                f"one_hot {count}",
                [at],
                lambda i: m.one_hot(i, count),
                lambda i: oracle.one_hot(i, count),
                "float32",
            )


def _search(g: Generator) -> None:
    at = g.any_of("iuf", least=1)
    other = None if at is None else g.any_of(g.program.answers[at].dtype.kind)
    if at is None or other is None:
        return
    x, v = g.program.answers[at], g.program.answers[other]
    if x.ndim == 1 and x.dtype == v.dtype and not (x.dtype.kind == "f" and np.isnan(v).any()):
        side = g.pick(["left", "right"])
        g.add(
            f"searchsorted {side}", [at, other], lambda a, q: m.searchsorted(m.sort(a), q, side=side),
            lambda a, q: np.searchsorted(np.sort(a), q, side), "int32",
        )  # fmt: skip
    elif x.dtype == v.dtype and x.size * v.size <= LARGEST * 20:
        g.add("isin", [at, other], lambda a, b: m.isin(a, b), lambda a, b: np.isin(a, b))


def _count(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    axis, size = _axis_of(g, at), int(g.rng.integers(0, 9))
    if g.rng.random() < 0.5:
        g.add(
            f"count_nonzero {axis}", [at], lambda x: m.count_nonzero(x, axis=axis), lambda x: np.count_nonzero(x, axis=axis),
            "int32",
        )  # fmt: skip
    else:

        def theirs(x: Array) -> Array:
            found = np.flatnonzero(x)[:size]
            return np.concatenate([found, np.zeros(size - len(found), found.dtype)])

        g.add(
            f"nonzero {size}", [at], lambda x: m.nonzero(m.reshape(x, (-1,)), size=size)[0], theirs, "int32",
        )  # fmt: skip


def _whole_division(g: Generator) -> None:
    at = g.any_of("iu")
    other = g.partner(at) if at is not None else None
    if at is not None and other is not None:
        name = g.pick(["floor_divide", "remainder", "bitwise_left_shift", "bitwise_right_shift"])
        g.add(name, [at, other], getattr(m, name), oracle.POINTWISE[name].function)


def _clip(g: Generator) -> None:
    at = g.any_of("if")
    if at is not None:
        low, high = sorted(int(k) for k in g.rng.integers(-4, 5, 2))
        want = oracle.POINTWISE["clip"].function
        g.add(
            f"clip {low} {high}", [at], lambda x: m.clip(x, low, high),
            lambda x: want(x, np.asarray(low, x.dtype), np.asarray(high, x.dtype)),
        )  # fmt: skip


def _put(g: Generator) -> None:
    at = g.any_of(least=1)
    if at is None:
        return
    extent = g.program.answers[at].shape[0]
    start = int(g.rng.integers(extent + 1))
    key = slice(start, None, 2) if g.rng.random() < 0.5 else slice(None, start)

    def theirs(x: Array) -> Array:
        out = x.copy()
        out[key] = np.asarray(1, x.dtype)
        return out

    g.add(f"put {key}", [at], lambda x: m.put(x, key, x.dtype.name == "bool" or 1), theirs)


def _halves(g: Generator) -> None:
    """A product in bfloat16, which NumPy lacks, between two casts."""
    at = g.any_of("f")
    if at is None or g.program.answers[at].dtype != np.float32:
        return
    number = int(g.rng.integers(-3, 4))
    g.add(
        f"bfloat16 times {number}", [at],
        lambda x: m.astype(m.astype(x, "bfloat16") * number + 1, "float32"),
        lambda x: bfloat.rounded(bfloat.rounded(bfloat.rounded(x) * np.float64(number)).astype(np.float64) + 1.0),
    )  # fmt: skip


WIDE: tuple[Maker, ...] = (
    _sort, _sort, _topk, _scan, _scan, _move, _move, _move, _triangle, _scatter, _scatter, _segment, _hot, _search, _count,
    _whole_division, _clip, _put, _halves,
)  # fmt: skip


def grown(seed: int, smooth: bool, length: int) -> Program:
    """The program of a seed: from every maker, with those that round where it is smooth."""
    return Generator(seed, smooth).grow(length, (*BASIC, *WIDE, *(SMOOTH * 2 if smooth else ())))
