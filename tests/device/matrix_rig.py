"""How the matrix tests place operands in memory, and the ways in which they run a function: alone, fused, captured, replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oa import matrix as m

Array = np.ndarray[Any, Any]

#: How an operand lies in memory. All but the first are views of larger or differently ordered storage.
LAYOUTS = ("plain", "transposed", "offset", "strided", "negative", "pending")
MODES = ("fused", "captured", "replayed")


def some(entries: Sequence[Any], turn: int, full: bool, count: int = 4) -> list[Any]:
    """All entries with --all, else a few in a row, which ones decided by `turn`."""
    return (
        list(entries)
        if full
        else [entries[(turn + k) % len(entries)] for k in range(min(count, len(entries)))]
    )


def place(engine: Any, array: Array, layout: str) -> Any:
    """A Matrix equal to `array`, laid out as asked. Views are stored ones, but for "pending", which runs with its consumer."""
    if layout == "plain" or array.ndim == 0:
        return m.from_numpy(engine, array)
    if layout == "transposed":
        made = m.transpose(m.from_numpy(engine, np.ascontiguousarray(array.T)))
    elif layout == "offset":
        padded = np.pad(array, [(1, 2)] * array.ndim, mode="reflect" if min(array.shape) > 2 else "constant")
        made = m.from_numpy(engine, padded)[tuple(slice(1, -2) for _ in array.shape)]
    elif layout == "strided":
        spread = np.zeros([2 * e + 1 for e in array.shape], array.dtype)
        spread[tuple(slice(1, None, 2) for _ in array.shape)] = array
        made = m.from_numpy(engine, spread)[tuple(slice(1, None, 2) for _ in array.shape)]
    else:
        made = m.flip(m.from_numpy(engine, np.ascontiguousarray(np.flip(array))))
    if layout != "pending":
        engine.flush()
    return made


def untouched(x: Any) -> Any:
    """x computed twice over without changing a bit: a neighbour to fuse with."""
    if x.dtype.kind in "ifc":
        return m.negative(m.negative(x))
    if x.dtype.kind == "b":
        return m.logical_not(m.logical_not(x))
    return (x ^ 90) ^ 90


def with_neighbours(function: Callable[..., Any], operands: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The function between neighbours: (its result, other values computed from it)."""
    result = function(*(untouched(x) for x in operands))
    others = [untouched(result)]
    if result.ndim and result.size and result.dtype.kind not in "bc":
        others.append(m.max(result, axis=-1))
    return result, others


def run(
    engine: Any, mode: str, function: Callable[..., Any], operands: Sequence[Any], others: Sequence[Any]
) -> Array:
    """The function's result in a mode. `others` are values of the same shapes and layouts that a replay starts from."""
    if mode == "fused":
        result, neighbours = with_neighbours(function, operands)
        found = result.to_numpy()
        check_neighbours(found, neighbours)
        return np.asarray(found)
    if mode == "captured":
        plan = engine.capture(lambda: function(*operands))
        engine.submit(plan)
        return np.asarray(plan.outputs.to_numpy())
    plan = engine.capture(lambda: function(*others))
    engine.submit(plan)
    for old, new in zip(others, operands):
        plan.bind(old, new)
    engine.submit(plan)
    engine.submit(plan)
    return np.asarray(plan.outputs.to_numpy())


def check_neighbours(found: Array, neighbours: Sequence[Any]) -> None:
    """What was computed beside the result agrees with it."""
    copy, *rest = (n.to_numpy() for n in neighbours)
    assert np.array_equal(copy, found, equal_nan=found.dtype.kind in "fc")
    for top in rest:
        assert np.array_equal(top, np.max(found, axis=-1), equal_nan=found.dtype.kind == "f")
