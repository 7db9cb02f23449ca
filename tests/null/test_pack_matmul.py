"""Which matrix multiplication kernels are chosen, on paper: within the limits, each element once, always the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oa._device import Profile, plan
from oa._kernel.matmul import choose, family
from oa._kernel.matmul.problem import Problem
from oa._kernel.matmul.variants import LANES, REGISTERS, TILES, VECTORS, WORDS
from oa.errors import InternalError, Unsupported
from tests.null.device_fixtures import card, snapshot


def poor(profile: Profile) -> Profile:
    """The least that a device may have."""
    limits = replace(
        profile.limits,
        max_groups=(65535, 65535, 65535),
        max_invocations=256,
        shared_bytes=16384,
        subgroup_size=64,
    )
    return replace(profile, limits=limits, features=frozenset())


LAVAPIPE = plan(snapshot("lavapipe-22.3"))
#: The same device where storage is read lane by lane.
STORAGE = replace(LAVAPIPE, texels=False)
SWIFTSHADER = plan(snapshot("swiftshader"))
CARD = plan(card())
PROFILES = {
    "lavapipe": LAVAPIPE,
    "swiftshader": SWIFTSHADER,
    "card": CARD,
    "poor card": poor(CARD),
    "poor cpu": poor(SWIFTSHADER),
}
VARIANTS = {v.name: v for v in (*REGISTERS, *LANES, *TILES, *VECTORS)}

extents = st.one_of(st.sampled_from((1, 2, 16, 63, 64, 65, 128, 1000)), st.integers(1, 300))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    m, n, k = draw(extents), draw(extents), draw(st.one_of(extents, st.sampled_from((2048, 5000))))
    batch = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    pad, offset = draw(st.sampled_from((0, 1, 2, 4))), draw(st.sampled_from((0, 1, 2, 4)))
    a_row, a_col = (k + pad, 1) if draw(st.booleans()) else (1, m + pad)
    b_row, b_col = (n + pad, 1) if draw(st.booleans()) else (1, k + pad)
    a, b, c = max(a_row * m, a_col * k), max(b_row * k, b_col * n), m * (n + pad)
    return Problem(
        m, n, k, batch,
        (a_row, a_col, a * batch[1], a), (b_row, b_col, b * batch[1], b), (n + pad, c * batch[1], c),
        offset, offset, offset,
    )  # fmt: skip


@pytest.mark.parametrize("name", list(PROFILES))
@given(problem=problems())
def test_choice_fits_problem_and_device(name: str, problem: Problem) -> None:
    profile = PROFILES[name]
    launches, scratch = family.plan(problem, "float32", profile)
    assert (launches, scratch) == family.plan(problem, "float32", profile)
    limits = profile.limits
    for launch in launches:
        kernel = launch.kernel
        assert kernel.addressing == profile.addressing
        assert kernel.buffers == len(launch.operands) == len(launch.access)
        assert len(launch.words) == kernel.arg_words == len(WORDS)
        assert np.prod(kernel.local_size) <= limits.max_invocations
        assert kernel.shared_bytes <= limits.shared_bytes
        assert all(1 <= g <= most for g, most in zip(launch.groups, limits.max_groups))
        assert (
            kernel.subgroup_size is None or limits.subgroup_min <= kernel.subgroup_size <= limits.subgroup_max
        )
        assert "Int64" not in kernel.capabilities or "int64" in profile.features
    choice = choose.choose(problem, profile)
    assert choose.fits(choice.variant, problem.transposed() if choice.transposed else problem)
    assert launches[-1].operands[-1] == "c" and launches[-1].access[-1] == "w"
    assert (len(launches) == 2) == (scratch > 0) == (choice.splits > 1)


def decode(words: dict[str, int], group: tuple[int, int]) -> tuple[int, int, int, int, int] | None:
    """`work` of problem.slang: (tile row, tile column, batch0, batch1, range of k)."""
    i = group[0] + group[1] * words["groups_x"]
    if i >= words["groups"]:
        return None
    found = []
    for extent in ("tiles_n", "tiles_m", "batch1", "batch0"):
        i, r = divmod(i, words[extent])
        found.append(r)
    return (found[1], found[0], found[3], found[2], i)


@settings(max_examples=30)
@given(problem=problems(), name=st.sampled_from(list(PROFILES)))
def test_every_element_and_every_k_once(problem: Problem, name: str) -> None:
    launches, _ = family.plan(problem, "float32", PROFILES[name])
    choice = choose.choose(problem, PROFILES[name])
    seen = problem.transposed() if choice.transposed else problem
    words = dict(zip(WORDS, launches[0].words))
    tiles = [
        decode(words, (x, y)) for y in range(launches[0].groups[1]) for x in range(launches[0].groups[0])
    ]
    work = [t for t in tiles if t is not None]
    assert len(work) == len(set(work)) == words["groups"]
    rows = {t[0] for t in work}
    columns = {t[1] for t in work}
    assert (max(rows) + 1) * choice.variant.tile_m >= seen.m > max(rows) * choice.variant.tile_m
    assert (max(columns) + 1) * choice.variant.tile_n >= seen.n > max(columns) * choice.variant.tile_n
    assert len(work) == len(rows) * len(columns) * seen.batch[0] * seen.batch[1] * choice.splits
    chunk = words["chunk"]
    assert (choice.splits - 1) * chunk < seen.k <= choice.splits * chunk
    assert choice.splits == 1 or chunk % choice.variant.slice == 0


def dense(m: int, n: int, k: int, batch: int = 1) -> Problem:
    return Problem(m, n, k, (1, batch), (k, 1, 0, m * k), (n, 1, 0, k * n), (n, 0, m * n))


def named(problem: Problem, profile: Profile) -> str:
    return choose.choose(problem, profile).variant.name.removeprefix("matmul.")


def test_layouts_take_their_kernels() -> None:
    square = dense(2048, 2048, 2048)
    turned_a = replace(square, a_strides=(1, 2048, 0, 0))
    turned_b = replace(square, b_strides=(1, 2048, 0, 0))
    odd = replace(square, a_strides=(2049, 1, 0, 0))
    assert named(square, CARD) == "tiles_128x128x16_nn"
    assert named(turned_a, CARD) == "tiles_128x128x16_tn"
    assert named(turned_b, CARD) == "tiles_128x128x16_nt"
    assert named(odd, CARD) == "tiles_128x64x8_any"
    assert named(square, poor(CARD)) == "tiles_128x128x8_nn"
    assert named(square, STORAGE) == "lanes_64x64_nn"
    assert named(turned_a, STORAGE) == "lanes_64x64_tn"
    assert named(turned_b, STORAGE) == "lanes_64x64_nt"
    assert named(replace(square, b_strides=(2049, 1, 0, 0)), STORAGE) == "lanes_32x64_nx_ragged"
    assert named(square, SWIFTSHADER) == "registers_8x8"


def test_small_problems_take_small_tiles() -> None:
    assert named(dense(64, 64, 64), CARD) == "tiles_32x32x16_nn"
    assert named(dense(1024, 1024, 1024), CARD) == "tiles_64x64x16_nn"
    assert named(dense(64, 16, 64, 128), STORAGE) == "lanes_64x16_nn"
    assert named(dense(10, 64, 64), STORAGE) == "lanes_16x64_nn"
    assert named(dense(500, 1, 500), CARD) == "vector_rows_8x32"
    assert named(dense(1, 500, 500), CARD) == "vector_columns_64x4"
    assert choose.choose(dense(1, 500, 500), CARD).transposed
    assert named(dense(1, 500, 500), STORAGE) == "lanes_8x64_nn"
    assert named(dense(500, 1, 500), STORAGE) == "lanes_8x64_nt"
    assert choose.choose(dense(500, 1, 500), STORAGE).transposed
    apart = replace(dense(500, 1, 500), c_strides=(2, 0, 0))
    assert not choose.choose(apart, STORAGE).transposed
    assert named(dense(500, 1, 500), SWIFTSHADER) == "registers_4x1"


@pytest.mark.parametrize(
    ("problem", "kernel"),
    [
        (dense(2048, 2048, 2048), "16x32_nn"),
        (replace(dense(2048, 2048, 2048), a_strides=(1, 2048, 0, 0)), "16x32_tn"),
        (replace(dense(2048, 2048, 2048), b_strides=(1, 2048, 0, 0)), "16x32_nt"),
        (replace(dense(2048, 2048, 2048), b_strides=(2049, 1, 0, 0)), "8x32_nx"),
        (replace(dense(2048, 2048, 2048), a_strides=(2049, 1, 0, 0)), "8x32_xn"),
        (dense(64, 16, 64, 128), "16x16_nn"),
        (dense(8, 32, 64), "8x32_nn"),
        (dense(2048, 103, 64), "8x32_nx_ragged"),
        (dense(3, 3, 3), "8x8_any_ragged"),
    ],
)
def test_software_devices_that_read_texels(problem: Problem, kernel: str) -> None:
    assert LAVAPIPE.texels
    assert named(problem, LAVAPIPE) == f"texels_{kernel}"


def test_grid_at_the_limit_of_groups() -> None:
    """One row of workgroups up to the limit, then more rows with as few to spare as can be."""
    most = CARD.limits.max_groups[0]
    small = replace(CARD, limits=replace(CARD.limits, max_groups=(100, 3, 1)))
    assert most >= 65535
    for batch, grid in ((99, (99, 1, 1)), (100, (100, 1, 1)), (101, (51, 2, 1)), (300, (100, 3, 1))):
        launches, _ = family.plan(dense(8, 8, 8, batch), "float32", small)
        assert launches[0].groups == grid
    with pytest.raises(Unsupported, match="301 workgroups"):
        family.plan(dense(8, 8, 8, 301), "float32", small)


def test_spans_at_the_limit_of_indices() -> None:
    for rows, fine in ((1 << 16, True), ((1 << 16) + 1, False)):
        problem = Problem(rows, 4, 4, (1, 1), (1 << 16, 1, 0, 0), (4, 1, 0, 0), (4, 0, 0))
        if fine:
            family.plan(problem, "float32", CARD)
        else:
            with pytest.raises(Unsupported, match=f"spans {(1 << 32) + 4} elements"):
                family.plan(problem, "float32", CARD)


def test_negative_strides_become_words_modulo_32_bits() -> None:
    problem = replace(dense(4, 4, 4), a_strides=(-4, -1, 0, 0), a_offset=15)
    launches, _ = family.plan(problem, "float32", LAVAPIPE)
    words = dict(zip(WORDS, launches[0].words))
    assert words["a_row"] == (1 << 32) - 4 and words["a_col"] == (1 << 32) - 1


def test_refusals() -> None:
    with pytest.raises(Unsupported, match="float64"):
        family.plan(dense(4, 4, 4), "float64", CARD)
    with pytest.raises(InternalError, match="at least 1"):
        family.plan(dense(4, 0, 4), "float32", CARD)
    with pytest.raises(ValueError, match="no adjacent columns"):
        dense(2, 2, 2).transposed()


def test_split_scratch_holds_every_part() -> None:
    problem = dense(30, 20, 4000, 2)
    launches, scratch = family.plan(problem, "float32", CARD)
    first, second = (dict(zip(WORDS, launch.words)) for launch in launches)
    assert first["c_split"] == 2 * 30 * 20 == second["a_col"]
    assert second["k"] * first["c_split"] * 4 == scratch
    assert (first["c_row"], first["c_batch1"]) == (20, 600)
    assert (second["c_row"], second["c_batch1"]) == (20, 600)
