"""Every matrix multiplication kernel against float64, in both addressings, with guard words around each result.

The bound. One result is a sum of k products. A kernel rounds each product (or fuses it with the addition) and each
addition, in an order of its own; whatever the order, a term passes through at most k roundings, so that with u = 2^-24

    gamma = k u / (1 - k u),      |computed - exact| <= gamma * sum |a| |b|

(Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1). Splitting k adds up parts, which the k
roundings already count: in any tree over k terms a term passes through fewer than k additions, and one product. Products
that underflow may be flushed: each adds at most 2^-126.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from bench.lab.runner import Runner, runner
from oa._kernel.matmul import choose, family
from oa._kernel.matmul.family import Problem, plan
from oa._kernel.matmul.variants import LANES, REGISTERS, TILES, VECTORS, Variant

GUARD = np.float32(-7.25)
CONFIGURATIONS = {"address": ("strict", "address"), "descriptor": ("strict", "descriptor")}


@pytest.fixture(scope="module", params=list(CONFIGURATIONS))
def device(request: pytest.FixtureRequest, device_name: str) -> Iterator[Runner]:
    profile, addressing = CONFIGURATIONS[request.param]
    with runner(device_name, profile, addressing) as made:
        yield made


@dataclass
class Case:
    """Operands in memory as a problem describes them. Elements that no operand has are NaN in A and B and guards in C."""

    problem: Problem
    a: np.ndarray[Any, Any]
    b: np.ndarray[Any, Any]
    memory: dict[str, np.ndarray[Any, Any]]
    c_index: np.ndarray[Any, Any]


def places(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray[Any, Any]:
    """Element indices of a strided array."""
    grids = np.meshgrid(*(np.arange(s) for s in shape), indexing="ij", sparse=True)
    return offset + sum(g * s for g, s in zip(grids, strides, strict=True)) + np.zeros(shape, int)


def case(
    m: int, n: int, k: int, *, batch: tuple[int, int] = (1, 1), layout: str = "nn", pad: int = 0, offset: int = 0,
    c_pad: int = 0, seed: int = 0,
) -> Case:  # fmt: skip
    """Dense operands with rows (or columns) `pad` elements apart from one another; `layout` as n(ormal) or t(ransposed)."""
    rng = np.random.default_rng(seed)
    b0, b1 = batch
    a = rng.standard_normal((b0, b1, m, k), dtype=np.float32)
    b = rng.standard_normal((b0, b1, k, n), dtype=np.float32)
    a_row, a_col = (k + pad, 1) if layout[0] == "n" else (1, m + pad)
    b_row, b_col = (n + pad, 1) if layout[1] == "n" else (1, k + pad)
    a_size, b_size, c_size = max(a_row * m, a_col * k), max(b_row * k, b_col * n), (n + c_pad) * m
    problem = Problem(
        m, n, k, batch,
        (a_row, a_col, b1 * a_size, a_size), (b_row, b_col, b1 * b_size, b_size), (n + c_pad, b1 * c_size, c_size),
        offset, offset, 8 + offset,
    )  # fmt: skip
    return fill(problem, a, b)


def fill(problem: Problem, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Case:
    memory = {}
    for name, value, strides, offset in (
        ("a", a, problem.a_strides, problem.a_offset),
        ("b", b, problem.b_strides, problem.b_offset),
    ):
        index = places(value.shape, (*strides[2:], *strides[:2]), offset)
        memory[name] = np.full(index.max() + 9, np.nan, np.float32)
        memory[name][index] = value
    row, *rest = problem.c_strides
    c_index = places((*problem.batch, problem.m, problem.n), (*rest, row, 1), problem.c_offset)
    memory["c"] = np.full(c_index.max() + 9, GUARD, np.float32)
    return Case(problem, a, b, memory, c_index)


def check(device: Runner, made: Case, dtype: str = "float32") -> None:
    launches, scratch = plan(made.problem, dtype, device.profile)
    buffers = {name: device.upload(data) for name, data in made.memory.items()}
    buffers["partial"] = device.scratch(scratch)
    device.run(launches, buffers)
    found = device.download(buffers["c"], made.memory["c"].size).copy()
    for buffer in buffers.values():
        buffer.close()
    a, b, k = made.a.astype(np.float64), made.b.astype(np.float64), made.problem.k
    gamma = k * 2.0**-24 / (1 - k * 2.0**-24)
    bound = gamma * (np.abs(a) @ np.abs(b)) + k * 2.0**-126
    error = np.abs(found[made.c_index] - a @ b)
    assert (error <= bound).all(), (
        f"{[launch.kernel.name for launch in launches]}: {np.nanmax(error / bound)} of the bound"
    )
    found[made.c_index] = GUARD
    assert (found == GUARD).all(), f"{launches[0].kernel.name} wrote outside its result"


def only(monkeypatch: pytest.MonkeyPatch, variant: Variant) -> None:
    """Make the family take one variant, in ranges of k as it would choose them."""

    def chosen(problem: Problem, profile: Any) -> choose.Choice:
        return choose.Choice(variant, False, *choose.ranges(variant, problem, profile.tuning))

    monkeypatch.setattr(family, "choose", chosen)


def edge_sizes(variant: Variant) -> list[tuple[int, int, int]]:
    """1, primes, and one less, as much and one more than a tile; k around a slice."""
    tm, tn, s = variant.tile_m, variant.tile_n, max(variant.slice, 4)
    sizes = [
        (1, 1, 1),
        (7, 5, 3),
        (tm, tn, 2 * s),
        (tm - 1, tn + 1, s + 1),
        (tm + 1, 2 * tn - 1, 2 * s - 1),
        (13, 2 * tn + 3, 17),
    ]
    if variant.tile_n == 1:
        return [(max(1, m), 1, k) for m, _, k in sizes] + [(3, 1, 1000)]
    return [(max(1, m), max(1, n), k) for m, n, k in sizes]


LAYOUTS = {(0, 0): "nn", (1, 2): "nn", (1, 1): "nt", (2, 2): "tn", (1, 0): "nn", (2, 0): "tn", (0, 2): "nn"}
ALL = {v.name: v for v in (*REGISTERS, *LANES, *TILES, *VECTORS)}


@pytest.mark.parametrize("name", list(ALL))
def test_variant(device: Runner, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each kernel at the edges of its tile, in the layout it is for, single and batched."""
    variant = ALL[name]
    limits = device.profile.limits
    if variant.recipe.subgroup_size and not choose.has_lanes(device.profile):
        pytest.skip("the device has no subgroups of 8")
    if variant.shared_bytes > limits.shared_bytes or variant.invocations > limits.max_invocations:
        pytest.skip("the device has too little workgroup memory or too few invocations")
    only(monkeypatch, variant)
    width = max(variant.width, variant.c)
    for seed, (m, n, k) in enumerate(edge_sizes(variant)):
        n = n if variant.c == 1 else -(-n // variant.c) * variant.c
        layout = LAYOUTS[variant.a, variant.b]
        # The stride between rows is what must be a multiple of the width; make it so with padding.
        long_a, long_b = (k if layout[0] == "n" else m), (n if layout[1] == "n" else k)
        made = case(
            m, n, k, batch=(1, 1 + seed % 2), layout=layout, offset=width * (seed % 3), c_pad=variant.c
        )
        a_pad, b_pad = -long_a % width, -long_b % width
        made = padded(made, layout, a_pad, b_pad)
        assert choose.fits(variant, made.problem)
        check(device, made)


def padded(made: Case, layout: str, a_pad: int, b_pad: int) -> Case:
    """The case with rows of A and B further apart."""
    p, (_, b1) = made.problem, made.problem.batch
    a_row, a_col = (p.k + a_pad, 1) if layout[0] == "n" else (1, p.m + a_pad)
    b_row, b_col = (p.n + b_pad, 1) if layout[1] == "n" else (1, p.k + b_pad)
    a_size, b_size = max(a_row * p.m, a_col * p.k), max(b_row * p.k, b_col * p.n)
    wide = replace(
        p, a_strides=(a_row, a_col, b1 * a_size, a_size), b_strides=(b_row, b_col, b1 * b_size, b_size)
    )
    return fill(wide, made.a, made.b)


@pytest.fixture(params=["cpu", "gpu"])
def tuned(device: Runner, request: pytest.FixtureRequest) -> Iterator[Runner]:
    """The device with the family's choices for software devices, and for GPUs."""
    own = device.profile
    device.profile = replace(own, tuning=request.param)
    yield device
    device.profile = own


SHAPES = (
    (1, 1, 1),
    (1, 97, 64),
    (97, 1, 64),
    (31, 29, 37),
    (64, 97, 64),
    (65, 63, 66),
    (64, 64, 64),
    (17, 130, 5),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("pad", [0, 1, 4])
def test_chosen(tuned: Runner, shape: tuple[int, int, int], layout: str, pad: int) -> None:
    """What the family chooses by itself."""
    check(tuned, case(*shape, layout=layout, pad=pad, c_pad=pad, offset=pad))


def test_two_batch_dimensions(tuned: Runner) -> None:
    """The heads of an attention: batch strides that are not in the order of the memory."""
    made = case(24, 20, 12, batch=(3, 5))
    p = made.problem
    heads = replace(
        p,
        a_strides=(5 * 12, 1, 24 * 5 * 12, 12),
        b_strides=(1, 5 * 12, 20 * 5 * 12, 12),
        c_strides=(5 * 20, 24 * 5 * 20, 20),
    )
    check(tuned, fill(heads, made.a, made.b))


def test_broadcast_batch(tuned: Runner) -> None:
    """A stride of 0 repeats an operand."""
    made = case(9, 16, 8, batch=(2, 3))
    a, b = made.a, np.broadcast_to(made.b[:1, :1], made.b.shape)
    shared = replace(made.problem, b_strides=(*made.problem.b_strides[:2], 0, 0))
    check(tuned, fill(shared, a, np.ascontiguousarray(b)))


def test_negative_strides(tuned: Runner) -> None:
    """A reversed view."""
    made = case(6, 10, 11)
    p = made.problem
    turned = replace(p, a_strides=(-p.a_strides[0], -1, 0, 0), a_offset=6 * 11 - 1)
    check(tuned, fill(turned, made.a, made.b))


@pytest.mark.parametrize("shape", [(3, 5, 2048), (20, 60, 2050), (1, 40, 3000), (40, 1, 3001)], ids=str)
@pytest.mark.parametrize("layout", ["nn", "tn"])
def test_split_k(tuned: Runner, shape: tuple[int, int, int], layout: str) -> None:
    """Small results of long sums take two stages."""
    made = case(*shape, layout=layout, batch=(1, 1), c_pad=3)
    launches, scratch = plan(made.problem, "float32", tuned.profile)
    assert len(launches) == 2 and scratch > 0
    check(tuned, made)


def test_split_k_of_a_batch(tuned: Runner) -> None:
    check(tuned, case(5, 6, 1030, batch=(2, 2), c_pad=1, offset=4))


def test_infinity_stays_in_its_row(tuned: Runner) -> None:
    """What lies beyond the edge is neither multiplied with 0 nor stored."""
    made = case(33, 66, 19, pad=1)
    made.a[0, 0, 4, 7] = np.inf
    made.b[0, 0, 7, :] = np.abs(made.b[0, 0, 7, :]) + 1
    made = fill(made.problem, made.a, made.b)
    launches, _ = plan(made.problem, "float32", tuned.profile)
    buffers = {name: tuned.upload(data) for name, data in made.memory.items()}
    tuned.run(launches, buffers)
    found = tuned.download(buffers["c"], made.memory["c"].size)[made.c_index][0, 0]
    assert np.isposinf(found[4]).all()
    assert np.isfinite(np.delete(found, 4, axis=0)).all()
    for buffer in buffers.values():
        buffer.close()


def test_same_bits_again(tuned: Runner) -> None:
    """Two runs, and a run on other storage, agree bit for bit."""
    made = case(64, 48, 1000, layout="tn")
    results = []
    for _ in range(2):
        launches, scratch = plan(made.problem, "float32", tuned.profile)
        buffers = {name: tuned.upload(data) for name, data in made.memory.items()} | {
            "partial": tuned.scratch(scratch)
        }
        tuned.run(launches, buffers)
        results.append(tuned.download(buffers["c"], made.memory["c"].size).tobytes())
        for buffer in buffers.values():
            buffer.close()
    assert results[0] == results[1]


def test_folded_grid(tuned: Runner) -> None:
    """More workgroups than fit along x, and some to spare in the last row."""
    own = tuned.profile
    tuned.profile = replace(own, limits=replace(own.limits, max_groups=(3, 1000, 1)))
    made = case(70, 68, 24, batch=(2, 5))
    launches, _ = plan(made.problem, "float32", tuned.profile)
    assert launches[0].groups[1] > 1
    check(tuned, made)
    tuned.profile = own
