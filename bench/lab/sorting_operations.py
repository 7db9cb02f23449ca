"""What `sorting_lab.py` measures beside PyTorch and CuPy: whole operations of `oa`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.lab.runner import Array
from bench.measure import interleave

Calls = dict[str, Callable[..., Any]]

_SORT: Calls = {
    "oa": lambda m, x: m.sort(x),
    "torch": lambda t, x: t.sort(x).values,
    "cupy": lambda c, x: c.sort(x),
    "numpy": lambda p, x: p.sort(x),
}
_ARGSORT: Calls = {
    "oa": lambda m, x: m.argsort(x),
    "torch": lambda t, x: t.argsort(x, stable=True),
    "cupy": lambda c, x: c.argsort(x),
    "numpy": lambda p, x: p.argsort(x, kind="stable"),
}
_SUM: Calls = {
    "oa": lambda m, x: m.cumulative_sum(x),
    "torch": lambda t, x: t.cumsum(x, 0, dtype=x.dtype),
    "cupy": lambda c, x: c.cumsum(x, dtype=x.dtype),
    "numpy": lambda p, x: p.cumsum(x, dtype=np.float64).astype(x.dtype),
}
_UNIQUE: Calls = {
    "oa": lambda m, x: m.unique_values(x),
    "torch": lambda t, x: t.unique(x),
    "cupy": lambda c, x: c.unique(x),
    "numpy": lambda p, x: p.unique(x),
}
_NONZERO: Calls = {
    "oa": lambda m, x: m.nonzero(x)[0],
    "torch": lambda t, x: t.nonzero(x)[:, 0],
    "cupy": lambda c, x: c.nonzero(x)[0],
    "numpy": lambda p, x: p.nonzero(x)[0],
}


def _topk(k: int) -> Calls:
    return {
        "oa": lambda m, x: m.topk(x, k)[0],
        "torch": lambda t, x: t.topk(x, k).values,
        "cupy": lambda c, x: -c.sort(c.partition(-x, k)[:k]),
        "numpy": lambda p, x: -p.sort(p.partition(-x, k)[:k]),
    }


def operations(n: int) -> Iterator[tuple[str, Array, Calls]]:
    """Name, operand, and the operation in each library."""
    rng = np.random.default_rng(3)
    data = {
        "float32": rng.standard_normal(n, dtype=np.float32),
        "int32": rng.integers(-(1 << 31), 1 << 31, n).astype(np.int32),
        "uint8": rng.integers(0, 256, n, dtype=np.uint8),
        "int64": rng.integers(-(1 << 62), 1 << 62, n),
    }
    for dtype, x in data.items():
        yield f"sort {dtype}", x, _SORT
        yield f"argsort {dtype}", x, _ARGSORT
    for k in (10, 100, 1000):
        yield f"topk {k} float32", data["float32"], _topk(k)
    few = (data["int32"] % 1000).astype(np.int32)
    yield "cumulative_sum int32", few % 100, _SUM
    yield "cumulative_sum float32", few.astype(np.float32) % 3, _SUM
    yield "unique int32", few, _UNIQUE
    yield "nonzero int32", few % 2, _NONZERO


def _host_ms(call: Callable[[], Any], wait: Callable[[], Any]) -> Callable[[], float]:
    def measure() -> float:
        wait()
        start = time.perf_counter()
        call()
        wait()
        return (time.perf_counter() - start) * 1e3

    return measure


Peer = tuple[Any, Callable[[Array], Any], Callable[[], Any]]


def peers() -> dict[str, Peer]:
    """By name: module, how an array gets to its device, and how to wait for that; of those that see a CUDA device."""
    found: dict[str, Peer] = {}
    try:
        import torch

        if torch.cuda.is_available():
            found["torch"] = (torch, lambda a: torch.from_numpy(a).cuda(), torch.cuda.synchronize)
    except ImportError:
        print("PyTorch is not installed")
    try:
        import cupy

        if cupy.cuda.is_available():
            found["cupy"] = (cupy, cupy.asarray, cupy.cuda.Device().synchronize)
    except ImportError:
        print("CuPy is not installed")
    return found


def beside(device: str, n: int, only: str, rounds: int) -> list[dict[str, Any]]:
    """Whole operations, a row each, candidates taking turns."""
    import oa
    from bench.device import device_us
    from oa import matrix

    rows = []
    others = peers()
    with oa.Engine(device=device) as engine:
        for name, x, calls in operations(n):
            if only not in name:
                continue
            want = calls["numpy"](np, x)
            mine = matrix.from_numpy(engine, x)
            kept: list[Any] = []

            def ours(call: Any = calls["oa"], mine: Any = mine, kept: list[Any] = kept) -> None:
                kept[:] = [call(matrix, mine)]

            ours()
            right = bool(np.array_equal(kept[0].to_numpy(), want))
            inner = device_us(engine, ours, 3)
            candidates: dict[str, Callable[[], float]] = {"oa": lambda inner=inner: inner() / 1e3}  # type: ignore[misc]
            candidates["oa, host clock"] = _host_ms(
                ours, lambda kept=kept: [engine.flush(), [k[:1].tolist() for k in kept]]
            )
            for peer, (module, put, wait) in others.items():
                given = put(x)
                candidates[peer] = _host_ms(lambda c=calls[peer], m=module, g=given: c(m, g), wait)
            for label, found in interleave(candidates, rounds).items():
                row = {"what": name, "by": label, "ms": found.median, "least": found.least, "right": right}
                rows.append(row)
                print(
                    f"{name:24} {label:16} {found.median:10.4f} ms (least {found.least:.4f})  {'right' if right else 'WRONG'}",
                    flush=True,
                )
    return rows
