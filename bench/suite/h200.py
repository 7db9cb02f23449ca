"""A GPU beside eager PyTorch on the same card: copy and pointwise bandwidth, matmul."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import interleave
from bench.report import Report, Row

#: float32 elements of the bandwidth rows: 1 GiB, or 4 MiB with --quick.
ELEMENTS, QUICK_ELEMENTS = 1 << 28, 1 << 20
SIZES, QUICK_SIZES = (1024, 2048, 4096), (128, 256)


def run(options: argparse.Namespace) -> list[Report]:
    """All rows; PyTorch's where it sees a CUDA device."""
    import oa
    from bench.device import describe

    rounds = 3 if options.quick else 15
    with oa.Engine(device=options.device) as engine:
        report = Report("h200", describe(engine))
        peer = _torch()
        if peer is None:
            report.notes.append("PyTorch sees no CUDA device: no peer was measured")
        elements = QUICK_ELEMENTS if options.quick else ELEMENTS
        copy = bandwidth(engine, peer, "copy", elements, rounds, ceiling=None)
        report.add(copy)
        report.add(bandwidth(engine, peer, "relu(a * b + c)", elements, rounds, copy.values["oa"].median))
        for size in QUICK_SIZES if options.quick else SIZES:
            report.add(product(engine, peer, size, rounds))
    return [report]


def _torch() -> Any:
    """The PyTorch peer's module, or None without PyTorch or its device."""
    try:
        from bench.peers import torch_device
    except ImportError:
        return None
    return torch_device if torch_device.available() else None


def _rate(measure: Callable[[], float], work: float) -> Callable[[], float]:
    """Units of work a microsecond, from a measurement in microseconds."""
    return lambda: work / measure()


def bandwidth(engine: Any, peer: Any, what: str, elements: int, rounds: int, ceiling: float | None) -> Row:
    """Gigabytes a second read and written once: every operand in, the result out."""
    from bench.device import device_us
    from oa import matrix

    rng = np.random.default_rng(3)
    hosts = [rng.random(elements, np.float32) - np.float32(0.5) for _ in range(1 if what == "copy" else 3)]
    ours = [matrix.from_numpy(engine, host) for host in hosts]
    if what == "copy":
        kept: list[Any] = []

        def call() -> object:
            kept[:] = [ours[0].copy()]
            return kept[0]

        exact = hosts[0].astype(np.float64)
    else:
        kept = []

        def call() -> object:
            kept[:] = [matrix.relu(ours[0] * ours[1] + ours[2])]
            return kept[0]

        exact = np.maximum(hosts[0].astype(np.float64) * hosts[1] + hosts[2], 0.0)
    gigabytes = (len(hosts) + 1) * elements * 4 / 1e9
    candidates = {"oa": _rate(device_us(engine, call, 5), gigabytes * 1e6)}
    if peer is not None:
        candidates |= _torch_bandwidth(peer, hosts, what, gigabytes)
    values = interleave(candidates, rounds)
    error = _error(kept[0].to_numpy(), exact)
    size = f"{elements * 4 / 2**20:g} MiB"
    return Row(
        f"{what}, {size} an operand", "GB/s", values, "higher", error, "against float64",
        ceiling, "our copy" if ceiling else "",
    )  # fmt: skip


def _torch_bandwidth(
    peer: Any, hosts: list[np.ndarray[Any, Any]], what: str, gigabytes: float
) -> dict[str, Callable[[], float]]:
    import torch

    theirs = [torch.from_numpy(host).cuda() for host in hosts]
    out = torch.empty_like(theirs[0])
    if what == "copy":
        calls = {"torch": lambda: out.copy_(theirs[0])}
    else:
        calls = {"torch": lambda: torch.relu(theirs[0] * theirs[1] + theirs[2])}
    return {name: _rate(peer.device_us(call, 5), gigabytes * 1e6) for name, call in calls.items()}


def product(engine: Any, peer: Any, size: int, rounds: int) -> Row:
    """float32 matmul of two square matrices, in TFLOP/s."""
    from bench.device import device_us
    from oa import matrix

    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    x, y = matrix.from_numpy(engine, a), matrix.from_numpy(engine, b)
    kept: list[Any] = []

    def call() -> object:
        kept[:] = [matrix.matmul(x, y)]
        return kept[0]

    tera = 2.0 * size**3 / 1e12
    candidates = {"oa": _rate(device_us(engine, call, 10), tera * 1e6)}
    if peer is not None:
        candidates |= _torch_product(peer, a, b, tera)
    values = interleave(candidates, rounds)
    error = _error(kept[0].to_numpy(), _exact_product(peer, a, b))
    return Row(f"matmul float32 {size}x{size}x{size}", "TFLOP/s", values, "higher", error, "against float64")


def _torch_product(
    peer: Any, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tera: float
) -> dict[str, Callable[[], float]]:
    import torch

    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()

    def timed(tf32: bool) -> Callable[[], float]:
        measure = peer.device_us(lambda: torch.matmul(x, y), 10)

        def run_in_mode() -> float:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            try:
                return tera * 1e6 / float(measure())
            finally:
                torch.backends.cuda.matmul.allow_tf32 = False

        return run_in_mode

    return {"torch": timed(False), "torch tf32": timed(True)}


def _exact_product(peer: Any, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if peer is None:
        return np.matmul(a.astype(np.float64), b.astype(np.float64))
    import torch

    product = torch.from_numpy(a).cuda().double() @ torch.from_numpy(b).cuda().double()
    return np.asarray(product.cpu().numpy())


def _error(ours: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> float:
    return float(np.linalg.norm(ours - exact) / np.linalg.norm(exact))
