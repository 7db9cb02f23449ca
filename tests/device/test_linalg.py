"""oa.matrix.linalg against NumPy in float64: values, orthogonality, stacks, empty and singular matrices, gradients, capture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.matrix import linalg

SHAPES = [(1, 1), (2, 2), (5, 3), (3, 5), (6, 6), (3, 4, 5), (2, 1, 4, 4)]
SQUARE = [shape for shape in SHAPES if shape[-1] == shape[-2]]
EPS = {"float32": 2.0**-23, "float64": 2.0**-52}
DTYPES = list(EPS)


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def wide(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x).astype(np.float64)


def orthonormal(x: np.ndarray[Any, Any], eps: float) -> bool:
    return bool(np.abs(np.swapaxes(x, -1, -2) @ x - np.eye(x.shape[-1])).max(initial=0) <= 32 * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_svd(any_engine: Any, shape: tuple[int, ...], dtype: str) -> None:
    a, eps, k = random(shape, dtype), EPS[dtype], min(shape[-2:])
    want = np.linalg.svd(wide(a), compute_uv=False)
    x = m.from_numpy(any_engine, a)
    for full in (True, False):
        u, s, vh = (wide(v) for v in linalg.svd(x, full_matrices=full))
        assert [v.shape for v in (u, s, vh)] == [v.shape for v in np.linalg.svd(a, full_matrices=full)]
        assert np.abs(s - want).max() <= 8 * eps * want.max()
        assert orthonormal(u, eps) and orthonormal(np.swapaxes(vh, -1, -2), eps)
        assert np.abs((u[..., :k] * s[..., None, :]) @ vh[..., :k, :] - a).max() <= 16 * eps * want.max()
    assert np.array_equal(wide(linalg.svdvals(x)), s)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_svd_of_a_matrix_without_full_rank(any_engine: Any, rank: int) -> None:
    a = (random((5, rank), "float32") @ random((rank, 4), "float32")).astype(np.float32)
    x = m.from_numpy(any_engine, a)
    u, s, vh = (wide(v) for v in linalg.svd(x))
    assert orthonormal(u, EPS["float32"]) and orthonormal(vh.T, EPS["float32"])
    assert np.abs((u[:, :4] * s) @ vh - a).max() <= 1e-5
    assert linalg.matrix_rank(x).item() == rank


def test_singular_values_small_beside_others(any_engine: Any) -> None:
    """Columns of different sizes: each value is right in its own size, as of Jacobi iterations it is."""
    a = random((6, 4), "float32") * np.float32([1e-6, 1.0, 1e6, 1e-9])
    s = wide(linalg.svdvals(m.from_numpy(any_engine, a)))
    want = np.linalg.svd(wide(a), compute_uv=False)
    assert np.all(np.abs(s - want) <= 1e-5 * want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eigh(any_engine: Any, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    both = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
    w, v = (wide(r) for r in linalg.eigh(m.from_numpy(any_engine, a)))
    want = np.linalg.eigvalsh(wide(both))
    bound = 32 * EPS[dtype] * np.abs(both).sum(axis=-1).max()
    assert np.abs(w - want).max() <= bound and orthonormal(v, EPS[dtype])
    assert np.abs(both @ v - v * w[..., None, :]).max() <= bound
    assert np.array_equal(wide(linalg.eigvalsh(m.from_numpy(any_engine, a))), w)


def test_eigenvalues_of_opposite_sign(any_engine: Any) -> None:
    w, v = linalg.eigh(m.from_list(any_engine, [[0.0, 1.0], [1.0, 0.0]]))
    assert np.allclose(w.to_numpy(), [-1, 1], atol=1e-6)
    assert np.allclose(np.abs(v.to_numpy()), math.sqrt(0.5), atol=1e-6)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(any_engine: Any, shape: tuple[int, ...], dtype: str, mode: Any) -> None:
    a, eps = random(shape, dtype), EPS[dtype]
    q, r = (wide(v) for v in linalg.qr(m.from_numpy(any_engine, a), mode=mode))
    want_q, want_r = np.linalg.qr(wide(a), mode=mode)
    assert q.shape == want_q.shape and r.shape == want_r.shape
    assert orthonormal(q, eps) and np.array_equal(r, np.triu(r))
    assert np.abs(q @ r - a).max() <= 16 * eps * np.abs(want_r).max()
    assert np.abs(r - want_r).max() <= 64 * eps * np.abs(want_r).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_equations_and_determinants(any_engine: Any, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype) + 3 * np.eye(shape[-1], dtype=dtype)
    b = random((shape[-1], 2), dtype, seed=1)
    x, eps = m.from_numpy(any_engine, a), EPS[dtype]
    bound = 64 * eps * np.linalg.cond(wide(a)).max()
    for got, want in (
        (linalg.solve(x, m.from_numpy(any_engine, b)), np.linalg.solve(wide(a), wide(b))),
        (linalg.inv(x), np.linalg.inv(wide(a))),
        (linalg.pinv(x), np.linalg.pinv(wide(a))),
        (linalg.det(x), np.linalg.det(wide(a))),
        (linalg.slogdet(x).logabsdet, np.linalg.slogdet(wide(a))[1]),
    ):
        assert got.shape == want.shape and got.dtype.name == dtype
        assert np.abs(wide(got) - want).max() <= bound * max(np.abs(want).max(), 1)
    assert np.array_equal(wide(linalg.slogdet(x).sign), np.linalg.slogdet(wide(a))[0])
    definite = a @ np.swapaxes(a, -1, -2)
    lower = wide(linalg.cholesky(m.from_numpy(any_engine, definite)))
    assert np.array_equal(lower, np.tril(lower))
    assert np.abs(lower @ np.swapaxes(lower, -1, -2) - definite).max() <= 64 * eps * np.abs(definite).max()
    upper = wide(linalg.cholesky(m.from_numpy(any_engine, definite), upper=True))
    assert np.array_equal(upper, np.swapaxes(lower, -1, -2))


def test_rows_are_exchanged(any_engine: Any) -> None:
    a = np.float32([[0, 2, 1], [1, 0, 0], [3, 0, 1]])
    x = m.from_numpy(any_engine, a)
    assert np.allclose(linalg.det(x).item(), np.linalg.det(a))
    assert np.allclose(
        linalg.solve(x, m.ones(any_engine, 3)).to_numpy(), np.linalg.solve(a, np.ones(3)), atol=1e-6
    )


def test_singular(any_engine: Any) -> None:
    ones = m.ones(any_engine, (2, 2))
    assert not np.isfinite(linalg.inv(ones).to_numpy()).any()
    assert linalg.det(ones).item() == 0.0
    assert [v.item() for v in linalg.slogdet(ones)] == [0.0, -math.inf]
    assert np.isnan(linalg.cholesky(-ones).to_numpy()).any()
    assert np.allclose(linalg.pinv(ones).to_numpy(), 0.25, atol=1e-6)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 3)], ids=str)
def test_matrix_norm(any_engine: Any, shape: tuple[int, ...], ord: Any) -> None:
    a = random(shape, "float32")
    for keepdims in (False, True):
        got = linalg.matrix_norm(m.from_numpy(any_engine, a), ord=ord, keepdims=keepdims).to_numpy()
        want = np.linalg.matrix_norm(wide(a), ord=ord, keepdims=keepdims)
        assert got.shape == want.shape and np.allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, -1, math.inf, -math.inf])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)], ids=str)
def test_vector_norm(any_engine: Any, axis: Any, ord: float) -> None:
    a = random((3, 2, 4), "float32")
    for keepdims in (False, True):
        got = linalg.vector_norm(
            m.from_numpy(any_engine, a), axis=axis, ord=ord, keepdims=keepdims
        ).to_numpy()
        want = np.linalg.vector_norm(wide(a), axis=axis, ord=ord, keepdims=keepdims)
        assert got.shape == want.shape and np.allclose(got, want, rtol=1e-5)


def test_norms_do_not_overflow(any_engine: Any) -> None:
    assert linalg.vector_norm(m.from_list(any_engine, [3e30, 4e30])).item() == np.float32(5e30)
    assert np.isclose(linalg.vector_norm(m.from_list(any_engine, [3e-30, 4e-30])).item(), 5e-30)
    assert linalg.vector_norm(m.from_list(any_engine, [math.inf, 1.0])).item() == math.inf
    assert np.allclose(linalg.svdvals(m.full(any_engine, (2, 2), 1e30)).to_numpy(), [2e30, 0])


def test_products_and_diagonals(any_engine: Any) -> None:
    a, b = random((2, 3), "float32"), random((2, 3), "float32", seed=1)
    x, y = m.from_numpy(any_engine, a), m.from_numpy(any_engine, b)
    assert np.allclose(linalg.cross(x, y).to_numpy(), np.cross(a, b), atol=1e-6)
    assert np.allclose(linalg.cross(x.T, y.T, axis=-2).to_numpy(), np.cross(a, b).T, atol=1e-6)
    assert np.allclose(linalg.cross(x, y[0]).to_numpy(), np.cross(a, b[0]), atol=1e-6)
    assert np.array_equal(linalg.outer(x[0], y[1]).to_numpy(), np.outer(a[0], b[1]))
    for offset in range(-3, 4):
        assert np.array_equal(linalg.diagonal(x, offset=offset).to_numpy(), np.diagonal(a, offset))
        assert np.allclose(linalg.trace(x, offset=offset).item(), np.trace(a, offset))
    square = random((3, 3), "float32")
    for n in (-2, 0, 1, 5):
        got = linalg.matrix_power(m.from_numpy(any_engine, square), n).to_numpy()
        assert np.allclose(got, np.linalg.matrix_power(wide(square), n), rtol=1e-3, atol=1e-4)


def test_empty(any_engine: Any) -> None:
    for shape in ((0, 0), (3, 0), (0, 3), (0, 2, 2)):
        x, a = m.zeros(any_engine, shape), np.zeros(shape, np.float32)
        for full in (True, False):
            got = linalg.svd(x, full_matrices=full)
            assert [v.shape for v in got] == [v.shape for v in np.linalg.svd(a, full_matrices=full)]
        for mode in ("reduced", "complete"):
            assert [v.shape for v in linalg.qr(x, mode=mode)] == [v.shape for v in np.linalg.qr(a, mode=mode)]
        assert linalg.pinv(x).shape == np.linalg.pinv(a).shape
        assert linalg.diagonal(x).shape == np.linalg.diagonal(a).shape
    none = m.zeros(any_engine, (0, 0))
    assert linalg.det(none).item() == 1.0 and linalg.inv(none).shape == linalg.cholesky(none).shape == (0, 0)
    assert linalg.solve(none, m.zeros(any_engine, (0, 2))).shape == (0, 2)


def test_gradients(any_engine: Any) -> None:
    a = random((4, 4), "float32") + 2 * np.eye(4, dtype=np.float32)
    u, _, vh = np.linalg.svd(wide(a))
    inverse = np.linalg.inv(wide(a)).T
    cases: list[tuple[Any, np.ndarray[Any, Any]]] = [
        (lambda x: m.sum(linalg.svdvals(x)), u @ vh),
        (lambda x: linalg.slogdet(x).logabsdet, inverse),
        (lambda x: linalg.det(x), np.linalg.det(wide(a)) * inverse),
        (lambda x: m.sum(linalg.inv(x)), -inverse @ np.ones((4, 4)) @ inverse),
        (
            lambda x: m.sum(linalg.solve(x, m.ones(x.engine, 4))),
            -np.outer(inverse.sum(1), np.ones(4) @ inverse),
        ),
    ]
    for function, want in cases:
        x = m.from_numpy(any_engine, a)
        with oa.ml.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        assert np.allclose(tape.gradient(y, x).to_numpy(), want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("ord", [1, 2, 3, 4.5])
def test_gradient_of_a_norm(any_engine: Any, ord: float) -> None:
    """sign(x) (|x| / r)^(ord - 1), and 0 where the norm is 0 instead of NaN."""
    a = np.float32([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [1e30, 1e30, -1e29]])
    x = m.from_numpy(any_engine, a)
    with oa.ml.GradientTape() as tape:
        tape.watch(x)
        # Only squares are kept from overflowing.
        loss = m.sum(linalg.vector_norm(x if ord == 2 else x[:2], axis=1, ord=ord))
    got = tape.gradient(loss, x).to_numpy()
    rows = slice(None) if ord == 2 else slice(0, 2)
    r = np.sum(np.abs(wide(a)) ** ord, axis=1, keepdims=True) ** (1 / ord)
    want = np.sign(a) * (np.abs(wide(a)) / np.where(r == 0, 1, r)) ** (ord - 1)
    assert np.allclose(got[rows], want[rows], atol=1e-6)


def test_captured(any_engine: Any) -> None:
    """Inside a capture nothing is read; the iterations are unrolled, and the result is as good."""
    a = random((3, 2), "float32")
    x = m.from_numpy(any_engine, a)
    plan = any_engine.capture(lambda v: (linalg.svd(v, full_matrices=False), linalg.qr(v)), x)
    any_engine.submit(plan)
    (u, s, vh), (q, r) = plan.outputs
    assert np.allclose((u.to_numpy() * s.to_numpy()) @ vh.to_numpy(), a, atol=1e-5)
    assert np.allclose(q.to_numpy() @ r.to_numpy(), a, atol=1e-5)


def test_refusals(any_engine: Any) -> None:
    x, numbers = m.ones(any_engine, (2, 3)), m.ones(any_engine, (2, 2), dtype=oa.int32)
    wrong: list[tuple[Any, Any, str]] = [
        (lambda: linalg.svd(m.ones(any_engine, 3)), oa.errors.ShapeError, r"linalg\.svd: x has shape \(3,\)"),
        (lambda: linalg.inv(x), oa.errors.ShapeError, r"linalg\.inv: x has shape \(2, 3\).*square"),
        (lambda: linalg.det(numbers), oa.errors.DTypeError, r"linalg\.det: int32.*astype"),
        (
            lambda: linalg.eigh(m.ones(any_engine, (2, 2), dtype=oa.float16)),
            oa.errors.DTypeError,
            r"linalg\.eigh: float16",
        ),
        (
            lambda: linalg.solve(m.ones(any_engine, (2, 2)), m.ones(any_engine, 3)),
            oa.errors.ShapeError,
            r"linalg\.solve",
        ),
        (lambda: linalg.qr(x, mode="raw"), oa.errors.ArgumentError, r"linalg\.qr: mode 'raw'"),  # type: ignore[arg-type]
        (lambda: linalg.matrix_norm(x, ord=3), oa.errors.ArgumentError, r"linalg\.matrix_norm: ord 3"),
        (
            lambda: linalg.cross(x, m.ones(any_engine, (2, 2))),
            oa.errors.ShapeError,
            r"linalg\.cross: axis -1",
        ),
        (lambda: linalg.outer(x, x), oa.errors.ShapeError, r"linalg\.outer"),
    ]
    for call, kind, text in wrong:
        with pytest.raises(kind, match=text):
            call()
