"""Answers of scatters and segments, written as loops over the values in their order, floats in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum, "replace": lambda a, b: b
}  # fmt: skip


def _wide(x: Array) -> Array:
    if x.dtype == np.float64:
        return x.astype(np.longdouble)
    return x.astype(np.float64 if x.dtype.kind == "f" else x.dtype)


def scatter_rows(x: Array, indices: Array, rows: Array, axis: int, mode: str) -> tuple[Array, Array]:
    """(the result, the magnitudes that met at each element: summed, or for a product the result's own)."""
    out, given = np.moveaxis(_wide(x).copy(), axis, 0), np.moveaxis(_wide(rows), axis, 0)
    size = np.abs(out.astype(np.float64))
    extent = x.shape[axis]
    with np.errstate(all="ignore"):
        for k, index in enumerate(indices.tolist()):
            index += extent if index < 0 else 0
            if 0 <= index < extent:
                out[index] = _JOIN[mode](out[index], given[k])
                size[index] += np.abs(given[k].astype(np.float64))
    if mode == "multiply":
        size = np.abs(out.astype(np.float64))
    return np.moveaxis(out, 0, axis), np.moveaxis(size, 0, axis)


def scatter(x: Array, indices: Array, given: Array, axis: int, mode: str) -> tuple[Array, Array]:
    """As `scatter_rows`, for each line along the axis by itself."""
    out, size = _wide(x).copy(), np.abs(x.astype(np.float64))
    lines = [e for k, e in enumerate(x.shape) if k != axis]
    for at in np.ndindex(*lines):
        line = (*at[:axis], slice(None), *at[axis:])
        out[line], size[line] = scatter_rows(x[line], indices[line], given[line], 0, mode)
    return out, size


def segments(rows: Array, ids: Array, count: int, mode: str) -> tuple[Array, Array]:
    """Rows of each segment combined; where there are none, the identity, NaN for the mean."""
    kept = (ids >= 0) & (ids < count)
    start: Any = {"add": 0, "mean": 0, "multiply": 1}.get(mode)
    if start is None:
        info: Any = np.iinfo(rows.dtype) if rows.dtype.kind in "iu" else None
        ends = (info.min, info.max) if info is not None else (-np.inf, np.inf)
        start = ends[0] if mode == "max" else ends[1]
    x = np.full((count, *rows.shape[1:]), start, rows.dtype)
    out, size = scatter_rows(x, ids[kept], rows[kept], 0, "add" if mode == "mean" else mode)
    if mode == "mean":
        counts = np.bincount(ids[kept], minlength=count)[:count].reshape(-1, *(1 for _ in rows.shape[1:]))
        with np.errstate(all="ignore"):
            return out / counts, np.nan_to_num(size / counts)
    return out, np.nan_to_num(size)


def gradients(x: Array, indices: Array, rows: Array, seed: Array, mode: str) -> tuple[Array, Array]:
    """Cotangents of x and rows of a rank-1 scatter without ties, one element at a time."""
    extent = x.shape[0]
    dx, drows = np.zeros(extent), np.zeros(rows.shape[0])
    result, _ = scatter_rows(x, indices, rows, 0, mode)
    reach: list[list[int]] = [[] for _ in range(extent)]
    for k, index in enumerate(indices.tolist()):
        if 0 <= index < extent:
            reach[index].append(k)
    for v, own in enumerate(reach):
        if mode == "add":
            dx[v], drows[own] = seed[v], seed[v]
        elif mode == "multiply":
            dx[v] = seed[v] * result[v] / x[v]
            drows[own] = seed[v] * result[v] / rows[own]
        elif mode == "replace":
            if own:
                drows[own[-1]] = seed[v]
            else:
                dx[v] = seed[v]
        elif x[v] == result[v]:
            tied = [k for k in own if rows[k] == result[v]]
            dx[v] = seed[v] * (0.5 if tied else 1.0)
            drows[tied] = seed[v] * 0.5
        else:
            drows[[k for k in own if rows[k] == result[v]]] = seed[v]
    return dx, drows
