"""Gradients of complex values, PyTorch's convention: dL/dx + i dL/dy for a real loss L, first and second, against differences.

The differences are those of the oracle in long double: with steps of 1e-4 truncation is near 1e-8 of the function's third and
fourth derivatives, and rounding is below it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.ml import GradientTape
from tests.oracle.complex import COMPLEX, Array

STEP, NEAR, SECOND = 1e-4, 1e-6, 1e-4
RNG = np.random.default_rng(7)
Z, W, C, E = (RNG.normal(size=4) + 1j * RNG.normal(size=4) for _ in range(4))
V = RNG.normal(size=4)
Pair = tuple[Callable[..., Any], Callable[[Array], Array]]

#: Not differentiable: whole numbers, and answers that are no numbers.
_FLAT = {"round"} | {
    n for n, a in COMPLEX.items() if a.function(*[np.ones(1, complex)] * a.arity).dtype.kind == "b"
}


def _cases() -> dict[str, Pair]:
    """(ours of x and of the engine's constants, the oracle's)."""
    found: dict[str, Pair] = {}
    for name, answer in COMPLEX.items():
        if name in _FLAT:
            continue
        ours, theirs = getattr(m, name), answer.function
        if answer.arity == 1:
            found[name] = (lambda x, k, f=ours: f(x), lambda z, f=theirs: f(z))
        else:
            found[name] = (lambda x, k, f=ours: f(x, k["w"]), lambda z, f=theirs: f(z, W.astype(z.dtype)))
            found[f"{name}, second"] = (
                lambda x, k, f=ours: f(k["w"], x),
                lambda z, f=theirs: f(W.astype(z.dtype), z),
            )
    found |= {
        "real factor": (lambda x, k: x * k["v"], lambda z: z * V),
        "weak number": (lambda x, k: x * 2j + 1.0, lambda z: z * 2j + 1),
        "power of two": (lambda x, k: x**2, lambda z: z * z),
        "complex": (
            lambda x, k: m.complex(m.imag(x) * m.real(x), m.abs(x)),
            lambda z: z.imag * z.real + 1j * abs(z),
        ),
        "where": (
            lambda x, k: m.where(m.real(x) > 0, x * x, k["w"] * x),
            lambda z: np.where(z.real > 0, z * z, W * z),
        ),
        "sum": (lambda x, k: m.sum(x * x), lambda z: np.sum(z * z)),
        "mean": (lambda x, k: m.mean(x * x), lambda z: np.mean(z * z)),
        "prod": (lambda x, k: m.prod(x), lambda z: np.prod(z)),
        "cumulative_sum": (lambda x, k: m.cumulative_sum(x * x), lambda z: np.cumsum(z * z)),
        "cumulative_prod": (lambda x, k: m.cumulative_prod(x), lambda z: np.cumprod(z)),
        "take": (lambda x, k: m.take(x * x, m.from_list(x.engine, [0, 0, 3])), lambda z: (z * z)[[0, 0, 3]]),
        "index": (lambda x, k: (x * x)[::-2], lambda z: (z * z)[::-2]),
        "concat": (lambda x, k: m.concat([x * x, m.conj(x)]), lambda z: np.concatenate([z * z, z.conj()])),
        "pad": (lambda x, k: m.pad(x * x, 1), lambda z: np.pad(z * z, 1)),
        "vecdot": (lambda x, k: m.vecdot(x, x * k["w"]), lambda z: np.sum(z.conj() * z * W)),
        "matmul": (
            lambda x, k: m.matmul(m.reshape(x, (2, 2)), m.reshape(x * x, (2, 2))),
            lambda z: z.reshape(2, 2) @ (z * z).reshape(2, 2),
        ),
        "scatter": (
            lambda x, k: m.scatter(x * x, m.from_list(x.engine, [1, 1]), x[:2], mode="add"),
            lambda z: z * z + np.array([0, 1, 0, 0]) * (z[0] + z[1]),
        ),
    }
    return found


CASES = _cases()


def loss(y: Any, weights: Any, real: Callable[..., Any], total: Callable[..., Any]) -> Any:
    """sum(re(y c)), and of a real result sum(y re(c))."""
    flat = y.reshape(-1)
    c = weights if flat.shape == (4,) else weights[:1]
    return total(real(flat * c))


def differences(function: Callable[[Array], Any], z: Array) -> Array:
    """d function / dx + i d function / dy by central differences."""
    found = np.zeros(z.shape, z.dtype)
    for k in range(z.size):
        for unit in (1, 1j):
            low, high = z.copy(), z.copy()
            low[k] -= STEP * unit
            high[k] += STEP * unit
            found[k] += unit * (function(high) - function(low)) / (2 * STEP)
    return found


def _real(y: Any) -> Any:
    return m.real(y) if y.dtype.is_complex else y


@pytest.mark.parametrize("name", CASES)
def test_against_differences(any_engine: Any, name: str) -> None:
    if not any_engine.supports("complex128"):
        pytest.skip("the device has no complex128")
    ours, theirs = CASES[name]
    held = {"w": m.from_numpy(any_engine, W), "v": m.from_numpy(any_engine, V)}
    c, e, x = (m.from_numpy(any_engine, a) for a in (C, E, Z))

    def wide(z: Array) -> Any:
        return loss(np.asarray(theirs(z)), C.astype(z.dtype), np.real, np.sum)

    with GradientTape(persistent=True) as outer:
        outer.watch(x)
        with GradientTape() as tape:
            tape.watch(x)
            value = loss(ours(x, held), c, _real, m.sum)
        first = tape.gradient(value, x)
        assert first.dtype is oa.complex128
        curved = m.sum(m.real(first * e * m.real(x)))  # depends on x whatever the function
    second = outer.gradient(curved, x)
    z = Z.astype(np.clongdouble)
    want = differences(wide, z)
    scale = max(1.0, float(np.max(np.abs(want))))
    assert np.max(np.abs(first.to_numpy() - want)) <= NEAR * scale, f"{first.tolist()}, wanted {want}"
    want = differences(lambda z: np.sum(np.real(differences(wide, z) * E * z.real)), z)
    scale = max(1.0, float(np.max(np.abs(want))))
    assert np.max(np.abs(second.to_numpy() - want)) <= SECOND * scale, f"{second.tolist()}, wanted {want}"


def test_matrix_products_in_single_precision(any_engine: Any) -> None:
    """The kernels of the matrix family: dA = dC B^H, dB = A^H dC."""
    rng = np.random.default_rng(3)
    a, b, ct = (
        (rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64) for s in ((5, 7), (7, 3), (5, 3))
    )
    x, y = m.from_numpy(any_engine, a), m.from_numpy(any_engine, b)
    with GradientTape() as tape:
        tape.watch([x, y])
        made = m.matmul(x, y)
    left, right = tape.gradient(made, [x, y], seed=m.from_numpy(any_engine, ct))
    assert np.allclose(left.to_numpy(), ct @ b.conj().T, atol=1e-4) and np.allclose(
        right.to_numpy(), a.conj().T @ ct, atol=1e-4
    )


def test_kinks_and_refusals(any_engine: Any) -> None:
    """abs and sign pass 0 at 0; a loss is real."""
    x = m.zeros(any_engine, 2, dtype="complex64")
    for function in (m.abs, m.sign):
        with GradientTape() as tape:
            tape.watch(x)
            y = m.sum(_real(function(x)))
        assert tape.gradient(y, x).tolist() == [0, 0]
    with GradientTape() as tape:
        tape.watch(x)
        y = m.sum(x * x)
    with pytest.raises(oa.errors.TapeError, match=r"complex.*matrix\.real"):
        tape.gradient(y, x)
    r = m.ones(any_engine, 2)
    with GradientTape() as tape:
        tape.watch(r)
        y = m.sum(m.abs(r * (3 + 4j)))
    found = tape.gradient(y, r)
    assert found.dtype is oa.float32 and np.allclose(found.to_numpy(), 5)
