"""Every sorting and scanning kernel beside NumPy, in both addressings, at the edges of its tile: exact but for float sums.

The bound of those. A sum of pairs carries its rounding errors and loses only what they round: within a chain of n additions each
of the n errors is itself added with a relative error of u = 2^-24, so that

    |computed - exact| <= u |exact| + n u^2 sum |x|     (Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26, 2005, with their gamma)

to first order; twice the second term covers the rest for n < 2^20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from bench.lab.runner import Runner, runner
from oa._kernel.scanning import family as scanning
from oa._kernel.scanning import variants as scans
from oa._kernel.sorting import family, variants
from oa._kernel.sorting.family import Choice, Problem
from oa._kernel.sorting.variants import Radix, Row

CONFIGURATIONS = {"address": ("strict", "address"), "descriptor": ("strict", "descriptor")}
GUARD = 0xDEADBEEF
BEHIND = 16


@pytest.fixture(scope="module", params=list(CONFIGURATIONS))
def device(request: pytest.FixtureRequest, device_name: str) -> Iterator[Runner]:
    profile, addressing = CONFIGURATIONS[request.param]
    with runner(device_name, profile, addressing) as made:
        yield made


def words_after(
    device: Runner,
    launches: Sequence[Any],
    scratch: Mapping[str, int],
    given: Mapping[str, Any],
    result: str,
    count: int,
) -> np.ndarray[Any, Any]:
    """The words of the result; that nothing was written behind them is checked."""
    buffers = {name: device.upload(data) for name, data in given.items()}
    buffers |= {name: device.scratch(size) for name, size in scratch.items()}
    buffers[result] = device.upload(np.full(count + BEHIND, GUARD, np.uint32))
    device.run(launches, buffers)
    found = device.download(buffers[result], count + BEHIND).view(np.uint32).copy()
    for buffer in buffers.values():
        buffer.close()
    assert (found[count:] == GUARD).all(), f"{launches[-1].kernel.name} wrote behind its result"
    return found[:count]


def check_order(device: Runner, problem: Problem, choice: Choice, values: int, seed: int = 0) -> None:
    rng = np.random.default_rng([seed, problem.rows, problem.n])
    keys = rng.integers(0, values, (problem.rows, problem.n), dtype=np.uint64)
    launches, scratch = family.dispatches(problem, choice, device.profile, family.default())
    data = keys if problem.words == 2 else keys.astype(np.uint32)
    found = words_after(device, launches, scratch, {"keys": data}, "order", keys.size)
    want = np.argsort(keys, axis=1, kind="stable")
    assert np.array_equal(found.reshape(keys.shape), want), launches[-1].kernel.name


ROWS = {v.recipe.name: v for v in (*variants.LANES, *variants.COUNTED, *variants.ROWS)}
PASSES = {v.scatter.name: v for v in (*variants.SERIAL, *variants.ALONE, *variants.TILES)}


def able(device: Runner, variant: Row | Radix) -> None:
    if not family.runs(variant, device.profile):
        pytest.skip("the device cannot run it")


@pytest.mark.parametrize("name", list(ROWS))
def test_rows(device: Runner, name: str) -> None:
    """1, 2, primes, one less than fits and what fits; one row, several workgroups of them; all equal, many ties, none."""
    variant = ROWS[name]
    able(device, variant)
    for n in sorted({1, 2, 3, 7, 13, variant.most // 2 + 1, variant.most - 1, variant.most}):
        if n <= variant.most:
            for rows, values in ((1, 1 << 32 * variant.words), (5, 4), (131, 1 << 32)):
                check_order(device, Problem(rows if n < 600 else 3, n, 32 * variant.words, variant.words),
                            Choice(variant), min(values, (1 << 64) - 1))  # fmt: skip


@pytest.mark.parametrize("name", list(PASSES))
def test_passes(device: Runner, name: str) -> None:
    """One key, one less, as many and one more than a tile, several tiles, many rows; keys of 1, 8, 19 and all bits; ties."""
    variant = PASSES[name]
    able(device, variant)
    tile = variant.tile or 512
    for rows, n in ((1, 1), (1, 2), (1, tile - 1), (1, tile), (1, tile + 1), (7, 333), (2, 3 * tile + 5)):
        for bits, values in ((1, 2), (8, 3), (19, 1 << 19), (32 * variant.words, 1 << 32 * variant.words)):
            problem = Problem(rows, n, bits, variant.words)
            choice = family.tiled(problem, variant, device.profile.tuning)
            check_order(device, problem, choice, min(values, (1 << 64) - 1))


def test_order_of_words(device: Runner) -> None:
    """The high word of a key decides before the low one, in every kind of kernel."""
    keys = np.array([[1 << 32, 5, (1 << 32) + 1, 0, (1 << 63), (1 << 32), 4, (1 << 64) - 1]], np.uint64)
    for variant in (*ROWS.values(), *PASSES.values()):
        if variant.words == 2 and family.runs(variant, device.profile):
            problem = Problem(1, keys.size, 64, 2)
            choice = Choice(variant) if isinstance(variant, Row) else family.tiled(problem, variant, "cpu")
            launches, scratch = family.dispatches(problem, choice, device.profile, family.default())
            found = words_after(device, launches, scratch, {"keys": keys}, "order", keys.size)
            assert found.tolist() == np.argsort(keys[0], kind="stable").tolist()


def test_many_tiles(device: Runner) -> None:
    """More tiles than one invocation adds up: the long scan."""
    variant = variants.TILES[-2]
    able(device, variant)
    problem = Problem(1, 300 * variant.tile + 11, 8)
    check_order(device, problem, family.tiled(problem, variant, "gpu"), 256)
    kernel = family.default().kernel(variant.scan_long.name, device.profile.addressing)
    lines, tiles = 5 << variant.bits, 700
    counts = np.random.default_rng(1).integers(0, 9, (lines, tiles)).astype(np.uint32)
    words = (lines, lines, 5, 0, tiles, 0, 0, 0, 0)
    launch = family.Launch(kernel, (lines, 1, 1), ("counts", "totals"), ("rw", "w"), words)
    totals = words_after(device, [launch], {}, {"counts": counts}, "totals", lines)
    assert np.array_equal(totals, counts.sum(1))


def test_more_rows_than_one_dimension_of_workgroups(device: Runner) -> None:
    """70,000 workgroups where a dimension holds 65,535 at least: rows of a workgroup each."""
    problem = Problem(70_000 * 64, 2, 32)
    check_order(device, problem, Choice(variants.LANES[1]), 6)


@pytest.mark.parametrize(("rows", "n"), [(1, 1), (1, 1000), (130, 77)])
def test_inverse(device: Runner, rows: int, n: int) -> None:
    order = np.argsort(np.random.default_rng(n).random((rows, n)), axis=1).astype(np.uint32)
    found = words_after(
        device, family.invert(rows, n, device.profile), {}, {"order": order}, "result", rows * n
    )
    assert np.array_equal(found.reshape(rows, n), np.argsort(order, axis=1))


@pytest.mark.parametrize(("n", "size"), [(1, 1), (500, 100), (500, 900), (64, 64)])
def test_positions(device: Runner, n: int, size: int) -> None:
    flags = np.random.default_rng(n).integers(0, 2, n)
    counts = np.cumsum(flags).astype(np.uint32)
    launches = family.positions(n, size, -7, device.profile)
    found = words_after(device, launches, {}, {"counts": counts}, "result", size).view(np.int32)
    want = np.full(size, -7)
    places = np.flatnonzero(flags)[:size]
    want[: places.size] = places
    assert np.array_equal(found, want)


SCANS = {s.stages[0].name: s for group in (scans.TEXELS, scans.SERIAL, scans.TILES) for s in group.values()}
DTYPE = {"f32": "float32", "f64": "float64", "u32": "uint32", "u64": "uint64"}


def scanned(device: Runner, problem: scanning.Problem, choice: scanning.Choice, x: Any) -> Any:
    launches, size = scanning.dispatches(problem, choice, device.profile, scanning.default())
    found = words_after(device, launches, {"sums": size}, {"x": x}, "y", x.nbytes // 4)
    return found.view(x.dtype).reshape(x.shape)


@pytest.mark.parametrize("name", list(SCANS))
def test_scans(device: Runner, name: str) -> None:
    """One element, around a chunk and a tile, several, lines before and after the axis."""
    scan = SCANS[name]
    dtype = DTYPE[scan.kind]
    needed = {"f64": {"float64", "int64"}, "u64": {"int64"}}.get(scan.kind, set())
    texels = any(any(r.texels) for r in scan.stages)
    if not needed <= device.profile.features or (texels and not device.profile.texels):
        pytest.skip("the device cannot run it")
    tile = scan.tile or 512
    afters = (1,) if scan.tile else (1, 3)
    for before, extent in (
        (1, 1),
        (1, 2),
        (3, tile - 1),
        (1, tile),
        (2, tile + 1),
        (1, 5 * tile + 3),
        (130, 9),
    ):
        for after in afters:
            rng = np.random.default_rng([before, extent, after])
            shape = (before, extent, after)
            if scan.kind[0] == "f":
                x = rng.standard_normal(shape).astype(dtype)
            else:
                x = rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
            problem = scanning.Problem(*shape, dtype)
            got = scanned(device, problem, scanning.chunked(problem, scan, device.profile.tuning), x)
            if scan.kind[0] == "u":
                assert np.array_equal(got, np.cumsum(x, axis=1, dtype=dtype))
                continue
            check_sums(got, x)


def check_sums(got: Any, x: Any) -> None:
    """Against sums in a wider type; in float64, whose wider type may be itself, against the weaker bound of plain addition."""
    if x.dtype == np.float32:
        exact, u = np.cumsum(x.astype(np.float64), axis=1), 2.0**-24
        bound = u * np.abs(exact) + 2 * x.shape[1] * u * u * np.cumsum(np.abs(x.astype(np.float64)), axis=1)
    else:
        exact, u = np.cumsum(x.astype(np.longdouble), axis=1), 2.0**-53
        bound = 2 * np.log2(x.shape[1] + 1) * u * np.cumsum(np.abs(x), axis=1)
    assert (np.abs(got - exact) <= bound).all()


@pytest.mark.parametrize("name", [n for n, s in SCANS.items() if s.kind == "f32"])
def test_scans_of_special_values(device: Runner, name: str) -> None:
    """Infinities stay, opposite ones and NaN make NaN from there on, the sign of a leading zero is kept."""
    scan = SCANS[name]
    if any(any(r.texels) for r in scan.stages) and not device.profile.texels:
        pytest.skip("the device cannot run it")
    n = 2 * (scan.tile or 600)
    x = np.ones((4, n, 1), np.float32)
    x[0, 5], x[1, 7], x[1, n - 3], x[2, n // 2], x[3, 0] = np.inf, np.inf, -np.inf, np.nan, -0.0
    problem = scanning.Problem(4, n, 1, "float32")
    got = scanned(device, problem, scanning.chunked(problem, scan, device.profile.tuning), x)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(got, np.cumsum(x, axis=1), equal_nan=True)
    assert np.signbit(got[3, 0, 0])
