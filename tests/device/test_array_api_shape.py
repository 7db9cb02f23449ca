"""Manipulation, creation and products of the array API standard beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.oracle.compare import same_bits
from tests.oracle.inputs import values

Array = np.ndarray[Any, Any]


def made(engine: Any, dtype: str, shape: tuple[int, ...], seed: int = 0) -> tuple[Any, Array]:
    array = values(dtype, shape, np.random.default_rng([seed, *shape]))
    return m.from_numpy(engine, array), array


def check(got: Any, want: Any) -> None:
    found = got.to_numpy()
    assert same_bits(found, np.asarray(want)), (found, want)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
def test_rearranging(engine: Any, dtype: str) -> None:
    x, n = made(engine, dtype, (3, 4, 5))
    check(m.moveaxis(x, 0, -1), np.moveaxis(n, 0, -1))
    check(m.moveaxis(x, (0, 2), (2, 0)), np.moveaxis(n, (0, 2), (2, 0)))
    check(m.roll(x, 7), np.roll(n, 7))
    check(m.roll(x, (1, -2), axis=(0, 2)), np.roll(n, (1, -2), axis=(0, 2)))
    check(m.roll(x, 3, axis=-1), np.roll(n, 3, axis=-1))
    check(m.tile(x, (2, 1, 3)), np.tile(n, (2, 1, 3)))
    check(m.tile(x, (2, 2, 1, 1)), np.tile(n, (2, 2, 1, 1)))
    check(m.tile(x, 2), np.tile(n, 2))
    check(m.tile(x, (0, 1, 2)), np.tile(n, (0, 1, 2)))
    check(m.stack(m.unstack(x, axis=1), axis=1), n)
    check(m.expand_dims(x, (0, -1)), np.expand_dims(n, (0, -1)))
    check(m.matrix_transpose(x), np.swapaxes(n, -1, -2))
    check(x.mT, np.swapaxes(n, -1, -2))
    for got, want in zip(m.broadcast_arrays(x[:, :1], x[0]), np.broadcast_arrays(n[:, :1], n[0])):
        check(got, want)
    assert m.broadcast_shapes((1, 5), (4, 1), ()) == (4, 5)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_pad(engine: Any, mode: str) -> None:
    x, n = made(engine, "float32", (3, 4))
    for width in (2, (1, 3), ((1, 2), (0, 9)), ((4, 0), (0, 0))):
        check(m.pad(x, width, mode), np.pad(n, width, mode))  # type: ignore[call-overload]
    check(m.pad(x.astype("bool"), 1, constant_values=True), np.pad(n != 0, 1, constant_values=True))
    check(m.pad(x, 1, constant_values=-0.0), np.pad(n, 1, constant_values=-0.0))


def test_concatenation_promotes(engine: Any) -> None:
    a, b = m.from_list(engine, [1, 2], dtype="uint8"), m.from_list(engine, [-3])
    check(m.concat([a, b]), np.array([1, 2, -3], np.int32))
    check(m.stack([a, a.astype("uint32")]), np.array([[1, 2], [1, 2]], np.uint32))
    with pytest.raises(oa.errors.DTypeError, match=r"concat: int32 and float32"):
        m.concat([b, m.ones(engine, 1)])


def test_creation(engine: Any) -> None:
    check(m.arange(engine, 2, 11, 3), np.arange(2, 11, 3, np.int32))
    check(m.arange(5, stop=-4, step=-2, device=engine), np.arange(5, -4, -2, np.int32))
    check(m.arange(0.5, 3.0, 0.5, device=engine), np.arange(0.5, 3.0, 0.5, np.float32))
    check(
        m.linspace(engine, -1.0, 2.0, 7, endpoint=False),
        np.linspace(-1, 2, 7, endpoint=False, dtype=np.float32),
    )
    check(m.eye(engine, 3, 4, k=-1), np.eye(3, 4, -1, np.float32))
    check(m.full(shape=2, fill_value=7, device=engine), np.full(2, 7, np.int32))
    assert m.empty((2, 3), dtype="uint8", device=engine).shape == (2, 3)
    x, n = made(engine, "float32", (2, 4, 3))
    check(m.full_like(x, 2.5), np.full_like(n, 2.5))
    check(m.empty_like(x, dtype="bool"), np.zeros(n.shape, bool))
    for k in (-2, 0, 1, 9):
        check(m.tril(x, k=k), np.tril(n, k))
        check(m.triu(x, k=k), np.triu(n, k))
    for indexing in ("xy", "ij"):
        found = m.meshgrid(x[0, 0], x[0, :, 0], x[:, 0, 0], indexing=indexing)
        for got, want in zip(found, np.meshgrid(n[0, 0], n[0, :, 0], n[:, 0, 0], indexing=indexing)):
            check(got, want)


def test_asarray(engine: Any) -> None:
    check(m.asarray(3, device=engine), np.array(3, np.int32))
    check(m.asarray([[True], [False]], device=engine), np.array([[True], [False]]))
    check(m.asarray([1.5, 2], device=engine), np.array([1.5, 2], np.float32))
    x = m.ones(engine, 2)
    check(m.asarray([x, x * 2]), np.array([[1, 1], [2, 2]], np.float32))
    check(m.asarray(x, dtype="int32", copy=True), np.ones(2, np.int32))
    assert m.asarray(x).device is engine
    check(m.asarray(memoryview(np.arange(3, dtype=np.uint8)), device=engine), np.arange(3, dtype=np.uint8))
    with pytest.raises(oa.errors.ArgumentError, match="copy=False"):
        m.asarray([1], device=engine, copy=False)
    with pytest.raises(oa.errors.ArgumentError, match="another dtype"):
        m.asarray(x, dtype="int32", copy=False)


EINSUM = [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,kj", [(2, 3), (4, 3)]), ("ii->i", [(3, 3)]), ("ii", [(4, 4)]), ("ij->ji", [(2, 3)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]), ("bi,bj->bij", [(2, 3), (2, 4)]), ("i,j,k->kij", [(2,), (3,), (4,)]),
    ("ijk->j", [(2, 3, 4)]), ("ij,ij->", [(2, 3), (2, 3)]), ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
    ("iij,jk->k", [(3, 3, 2), (2, 4)]), ("i...->...", [(2, 3, 4)]), ("ij,jk,kl->il", [(2, 3), (3, 1), (1, 5)]),
]  # fmt: skip


@pytest.mark.parametrize(("subscripts", "shapes"), EINSUM)
def test_einsum(any_engine: Any, subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    pairs = [made(any_engine, "float32", s, k) for k, s in enumerate(shapes)]
    got = m.einsum(subscripts, *(x for x, _ in pairs)).to_numpy()
    wide = [n.astype(np.float64) for _, n in pairs]
    bound = np.einsum(subscripts, *map(np.abs, wide)) * 2.0**-18
    want = np.einsum(subscripts, *wide)
    assert got.shape == want.shape
    assert np.all(np.abs(got - want) <= bound)


def test_products(engine: Any) -> None:
    (x, n), (y, k) = made(engine, "float32", (2, 3, 4)), made(engine, "float32", (3, 4, 5), 1)
    for axes in (2, 0, 1, ((1, 2), (0, 1)), ((2, 1), (1, 0)), ((1,), (0,))):
        if axes == 1:
            got, want = m.tensordot(x, y[0], axes=1), np.tensordot(n, k[0], 1)
        else:
            got, want = m.tensordot(x, y, axes=axes), np.tensordot(n, k, axes)
        assert np.allclose(got.to_numpy(), want, rtol=1e-5, atol=1e-2)
    assert np.allclose(m.vecdot(x, x[0], axis=-1).to_numpy(), np.sum(n * n[0], -1), rtol=1e-5)
    assert np.allclose(m.vecdot(x, x, axis=-2).to_numpy(), np.sum(n * n, -2), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint8"])
def test_integer_products(engine: Any, dtype: str) -> None:
    (a, p), (b, q) = made(engine, dtype, (2, 3, 4)), made(engine, dtype, (4, 5))
    with np.errstate(all="ignore"):
        check(m.matmul(a, b), np.matmul(p, q))
        check(a[0] @ b[:, 0], np.matmul(p[0], q[:, 0]))
        check(m.vecdot(a, a), np.sum(p * p, -1, dtype=p.dtype))
        check(m.einsum("bij,jk->ik", a, b), np.einsum("bij,jk->ik", p, q))
    check(m.matmul(a.astype("uint8"), b), np.matmul(p.astype("uint8").astype(dtype), q))


def test_refusals(any_engine: Any) -> None:
    x = m.ones(any_engine, (2, 3))
    with pytest.raises(oa.errors.AxisError, match="moveaxis"):
        m.moveaxis(x, (0, 0), (0, 1))
    with pytest.raises(oa.errors.ArgumentError, match="none of constant"):
        m.pad(x, 1, "mirror")
    with pytest.raises(oa.errors.ArgumentError, match="pad_width"):
        m.pad(x, -1)
    with pytest.raises(oa.errors.ShapeError, match="nothing to repeat"):
        m.pad(m.ones(any_engine, (0,)), 1, "edge")
    with pytest.raises(oa.errors.ShapeError, match=r"tensordot: axes .* equal extents"):
        m.tensordot(x, x, axes=1)
    with pytest.raises(oa.errors.ShapeError, match="label j is 3 and 2"):
        m.einsum("ij,jk->ik", x, x)
    with pytest.raises(oa.errors.ArgumentError, match="each output label once"):
        m.einsum("ij->ik", x)
    with pytest.raises(oa.errors.ShapeError, match="axis -1 is 2, wanted 3 or 1"):
        m.broadcast_shapes((3,), (2,))
    with pytest.raises(oa.errors.ArgumentError, match=r"matrix\.full.*missing a required argument"):
        m.full(any_engine, (2,))
    with pytest.raises(oa.errors.DTypeError, match=r"300 does not fit uint8 \[0, 255\]"):
        m.add(x.astype("uint8"), 300)
    with pytest.raises(oa.errors.ShapeError, match="rank 1"):
        m.tril(x[0])
