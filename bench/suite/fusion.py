"""Memory-bound work as few kernels: normalisations both ways, a pointwise chain, AdamW, beside eager and compiled PyTorch.

Each row is device time, by timestamps or events, as bandwidth over the bytes that the work must move: every input read once,
every result written once. The ceiling is our own copy kernel in the same run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.measure import interleave
from bench.report import Report, Row

SHAPES, QUICK_SHAPES = ((8192, 4096), (32768, 1024)), ((64, 256),)
CHAIN, QUICK_CHAIN = 1 << 28, 1 << 18
PARAMETERS, QUICK_PARAMETERS = 124_000_000, 100_000
EPS = 1e-5


@dataclass(frozen=True)
class Case:
    """One piece of work: arrays in, our function of matrices, PyTorch's of tensors, and how many arrays it must move."""

    name: str
    arrays: tuple[np.ndarray[Any, Any], ...]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    moved: float  #: arrays of the first one's size that are read or written


def run(options: argparse.Namespace) -> list[Report]:
    """All rows."""
    import oa
    from bench.device import describe

    rounds = 3 if options.quick else 9
    with oa.Engine(device=options.device) as engine:
        report = Report("fusion", describe(engine))
        if _torch() is None:
            report.notes.append("PyTorch sees no CUDA device: no peer was measured")
        elements = QUICK_CHAIN if options.quick else CHAIN
        copy = measure(engine, _copy(elements), rounds, None)
        report.add(copy)
        ceiling = copy.values["oa"].median
        cases = [
            _chain(elements),
            *(c for s in (QUICK_SHAPES if options.quick else SHAPES) for c in _rows(s)),
        ]
        cases.append(_adamw(QUICK_PARAMETERS if options.quick else PARAMETERS))
        for case in cases:
            report.add(measure(engine, case, rounds, ceiling))
    return [report]


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def measure(engine: Any, case: Case, rounds: int, ceiling: float | None) -> Row:
    """One case, ours replayed, theirs eager and compiled."""
    from bench.device import device_us
    from oa import matrix

    inputs = [matrix.from_numpy(engine, a) for a in case.arrays]
    plan = engine.capture(lambda: case.ours(*inputs))
    gigabytes = case.moved * case.arrays[0].nbytes / 1e9

    timed = device_us(engine, lambda: engine.submit(plan), 10)
    candidates = {"oa": lambda: gigabytes * 1e6 / timed()}
    torch = _torch()
    wanted: list[np.ndarray[Any, Any]] | None = None
    if torch is not None:
        tensors = [torch.from_numpy(a).cuda() for a in case.arrays]
        doubles = [t.double() if t.is_floating_point() else t for t in tensors]
        wanted = [t.float().cpu().numpy() for t in _flat(case.theirs(*doubles))]
        del doubles
        compiled = torch.compile(case.theirs)
        for name, call in (("torch", case.theirs), ("torch.compile", compiled)):
            candidates[name] = _torch_rate(call, tensors, gigabytes)
    values = interleave(candidates, rounds)
    error = None
    if wanted is not None:
        error = max(_error(m.to_numpy(), w) for m, w in zip(_flat(plan.outputs), wanted))
    dispatches = plan.diagnostics["dispatches"]
    name = f"{case.name} ({dispatches} dispatches)"
    return Row(
        name, "GB/s", values, "higher", error, "against float64", ceiling, "our copy" if ceiling else ""
    )


def _torch_rate(call: Callable[..., Any], tensors: list[Any], gigabytes: float) -> Callable[[], float]:
    from bench.peers.torch_device import device_us as torch_us

    timed = torch_us(lambda: call(*tensors), 10)
    return lambda: gigabytes * 1e6 / timed()


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _error(ours: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> float:
    return float(np.linalg.norm(ours - exact) / np.linalg.norm(exact))


def _normal(*shape: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _copy(elements: int) -> Case:
    return Case("copy, 1 GiB", (_normal(elements, seed=1),), lambda x: x.copy(), lambda x: x.clone(), 2)


def _chain(elements: int) -> Case:
    """Twelve pointwise operations on one array."""

    def ours(x: Any) -> Any:
        from oa import matrix as m

        y = m.relu(x * 2.0 + 1.0) - x
        y = m.maximum(y * y, 0.5) * x + 3.0
        return m.minimum(m.abs(y - 1.0) * 0.25, 4.0) + x

    def theirs(x: Any) -> Any:
        import torch

        y = torch.relu(x * 2.0 + 1.0) - x
        y = torch.clamp(y * y, min=0.5) * x + 3.0
        return torch.clamp(torch.abs(y - 1.0) * 0.25, max=4.0) + x

    return Case("chain of 12 pointwise operations, 1 GiB", (_normal(elements, seed=2),), ours, theirs, 2)


def _rows(shape: tuple[int, int]) -> Sequence[Case]:
    x, g = _normal(*shape, seed=3), _normal(*shape, seed=4)
    w, b = _normal(shape[1], seed=5), _normal(shape[1], seed=6)
    size = "x".join(map(str, shape))
    targets = np.random.default_rng(7).integers(0, shape[1], shape[0]).astype(np.int32)
    return (
        Case(f"softmax {size}", (x,), _softmax, _torch_softmax, 2),
        Case(f"softmax forward and backward {size}", (x, g), _both(_softmax), _torch_both(_torch_softmax), 4),
        Case(f"layer norm {size}", (x, w, b), _layer_norm, _torch_layer_norm, 2),
        Case(
            f"layer norm forward and backward {size}",
            (x, g, w, b), _both(_layer_norm), _torch_both(_torch_layer_norm), 4,
        ),
        Case(f"RMS norm {size}", (x, w), _rms_norm, _torch_rms_norm, 2),
        Case(f"cross entropy forward and backward {size}", (x, targets), _cross_entropy, _torch_cross_entropy, 2),
    )  # fmt: skip


def _softmax(x: Any) -> Any:
    from oa import matrix

    return matrix.softmax(x, axis=-1)


def _torch_softmax(x: Any) -> Any:
    return x.softmax(-1)


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    from oa.ml.functional import layer_norm

    return layer_norm(x, w, b, EPS)


def _torch_layer_norm(x: Any, w: Any, b: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, EPS)


def _rms_norm(x: Any, w: Any) -> Any:
    from oa import matrix

    return x * matrix.rsqrt(matrix.mean(x * x, axis=-1, keepdims=True) + EPS) * w


def _torch_rms_norm(x: Any, w: Any) -> Any:
    import torch

    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def _both(function: Callable[..., Any]) -> Callable[..., Any]:
    """Result and gradients with respect to every operand, for the cotangent that comes second."""

    def call(x: Any, g: Any, *more: Any) -> Any:
        from oa import ml

        with ml.GradientTape() as tape:
            tape.watch([x, *more])
            y = function(x, *more)
        return (y, *tape.gradient(y, [x, *more], seed=g))

    return call


def _torch_both(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, g: Any, *more: Any) -> Any:
        import torch

        inputs = [t.detach().requires_grad_() for t in (x, *more)]
        y = function(*inputs)
        return (y.detach(), *torch.autograd.grad(y, inputs, g))

    return call


def _cross_entropy(x: Any, targets: Any) -> Any:
    from oa import ml

    with ml.GradientTape() as tape:
        tape.watch(x)
        loss = ml.cross_entropy(x, targets)
    return tape.gradient(loss, x)


def _torch_cross_entropy(x: Any, targets: Any) -> Any:
    import torch

    own = x.detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(own, targets.long())
    return torch.autograd.grad(loss, own)[0]


def _adamw(count: int) -> Case:
    """One update of parameters and moments from a gradient: four arrays read, three written."""
    p, m, v, g = (_normal(count, seed=s) for s in (8, 9, 10, 11))

    def update(sqrt: Callable[[Any], Any]) -> Callable[..., Any]:
        def call(p: Any, m: Any, v: Any, g: Any) -> Any:
            m = m * 0.9 + g * 0.1
            v = v * 0.999 + g * g * 0.001
            return p - (m * (1 / 0.19) / (sqrt(v * (1 / 0.002)) + 1e-8) + p * 0.01) * 1e-3, m, v

        return call

    def ours(*values: Any) -> Any:
        from oa import matrix

        return update(matrix.sqrt)(*values)

    def theirs(*values: Any) -> Any:
        import torch

        return update(torch.sqrt)(*values)

    return Case(f"AdamW over {count / 1e6:g} M parameters", (p, m, np.abs(v), g), ours, theirs, 7)
