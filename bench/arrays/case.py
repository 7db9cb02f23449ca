"""One case: an operation, its inputs by name, and how NumPy, CuPy and PyTorch spell it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """`ours(matrix, *inputs)` beside `numpy(xp, *inputs)`, for NumPy and CuPy alike, and `torch(torch, *inputs)`."""

    name: str  #: the public name, and what sets this case apart after a comma
    inputs: str  #: one letter an input, from `hosts`
    ours: Call
    numpy: Call | None = None
    torch: Call | None = None
    #: What should limit it: "memory", "order" (sorts), "compute", or "latency" of scattered or few accesses.
    bound: str = "memory"
    #: What is compared: the "first" elements or the "whole", both in float64, the whole in the "same" dtype, or "none" of it.
    check: str = "whole"
    exact: Call | None = None  #: the reference where NumPy's call is none
    cupy: bool = False  #: measured with CuPy too, whose kernels are compiled at the first call
    creates: bool = False  #: the input only says how many elements to make


def hosts(count: int) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs, of `count` elements, a square number, unless said otherwise."""
    rng = np.random.default_rng(11)
    side = math.isqrt(count)
    found: dict[str, Any] = {
        "x": rng.standard_normal(count, np.float32),
        "y": rng.standard_normal(count, np.float32),
        "p": rng.random(count, np.float32) * np.float32(9.9) + np.float32(0.1),  # positive
        "u": rng.random(count, np.float32) * np.float32(1.98) - np.float32(0.99),  # inside (-1, 1)
        "a": rng.random(count, np.float32) * np.float32(9.0) + np.float32(1.0),  # 1 and more
        "i": rng.integers(-1000, 1000, count, np.int32),
        "j": rng.integers(1, 31, count, np.int32),  # shifts and divisors
        "b": rng.random(count, np.float32) < np.float32(0.5),
        "c": rng.random(count, np.float32) < np.float32(0.5),
        "k": rng.permutation(count).astype(np.int32),
        "d": rng.integers(0, count, count, np.int32),  # places, some more than once
        "t": np.sort(rng.standard_normal(65536, np.float32)),  # a sorted table of 65,536
        "f": np.arange(100, dtype=np.int32) * 7,  # a hundred integers
        "l": rng.integers(0, side, side, np.int32),  # a column for each row of m
        "e": rng.integers(0, 1024, count // 1024, np.int32),  # classes of one-hot
        "g": np.sort(rng.integers(0, count // 1024, count // 64, np.int32)),  # segments of the rows of r
        "h": rng.permutation(count // 64).astype(np.int32),  # rows of r
        "G": rng.random(count // 64) < 0.5,  # rows of r to keep
        "q": np.stack([rng.permutation(64)[:4] for _ in range(4096)]).astype(
            np.int32
        ),  # 4 of 64 experts, 4,096 tokens
        "o": rng.random((4096, 64)).astype(np.float32) < np.float32(0.06),  # the same as a mask
        "z": np.zeros(64, np.float32),
    }
    found["g"][: count // 1024] = np.arange(count // 1024)
    found["g"].sort()  # no segment is empty
    found["m"], found["w"] = found["x"].reshape(side, side), found["y"].reshape(side, side)
    found["n"] = rng.integers(0, side, (side, side), np.int32)  # columns along the rows of m
    found["r"], found["v"] = found["x"].reshape(-1, 64), found["y"].reshape(-1, 64)
    found["3"], found["4"] = (found[name][: count // 3 * 3].reshape(-1, 3) for name in "xy")
    found["5"] = found["x"].reshape(16, side // 16, side)
    blocks = found["x"].reshape(-1, 16, 16)
    found["S"] = blocks @ blocks.swapaxes(1, 2) + np.eye(16, dtype=np.float32) * np.float32(16)
    found["B"] = blocks
    found["s"] = np.ascontiguousarray(found["x"][:side])
    return found


def error(ours: Any, exact: Any) -> float:
    """||ours - exact|| / ||exact|| of floats, the part of other elements that differ; the greatest of several results."""
    if isinstance(ours, tuple):
        return max(error(one, other) for one, other in zip(ours, exact, strict=True))
    ours, exact = np.asarray(ours), np.asarray(exact)
    if ours.shape != exact.shape:
        return math.inf
    if ours.dtype.kind != "f":
        return float(np.mean(ours != exact)) if ours.size else 0.0
    with np.errstate(invalid="ignore"):
        away = np.where(ours == exact, 0.0, ours.astype(np.float64) - exact)
    finite = np.where(np.isfinite(exact), exact, 0).astype(np.float64)
    norm = float(np.linalg.norm(finite.ravel()))
    return float(np.linalg.norm(away.ravel())) / norm if norm else float(np.max(np.abs(away), initial=0.0))
