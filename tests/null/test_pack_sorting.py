"""Which sorting and scanning kernels are chosen, on paper: within the limits, every key once, always the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oa._device import Profile, plan
from oa._kernel.scanning import family as scanning
from oa._kernel.scanning import variants as scans
from oa._kernel.sorting import family, variants
from oa._kernel.sorting.family import Problem
from oa._kernel.sorting.variants import Radix, Row
from oa.errors import Unsupported
from tests.null.device_fixtures import card, snapshot
from tests.null.test_pack_matmul import poor

LAVAPIPE = plan(snapshot("lavapipe-22.3"))
CARD = plan(card())
PROFILES = {
    "lavapipe": LAVAPIPE,
    "lavapipe without texels": replace(LAVAPIPE, texels=False),
    "swiftshader": plan(snapshot("swiftshader")),
    "card": CARD,
    "poor card": poor(CARD),
}
LENGTHS = (1, 2, 16, 17, 256, 257, 1024, 2048, 2049, 4096, 100_000, 1 << 24)

problems = st.builds(
    Problem,
    st.one_of(st.integers(1, 300), st.sampled_from((65_535, 65_536, 1 << 20))),
    st.one_of(st.integers(1, 300), st.sampled_from(LENGTHS)),
    st.sampled_from((1, 8, 16, 19, 32)),
).filter(lambda p: p.rows * p.n < 1 << 31)


def check_launches(launches: Any, profile: Profile, words: int) -> None:
    limits = profile.limits
    for launch in launches:
        kernel = launch.kernel
        assert kernel.addressing == profile.addressing
        assert kernel.buffers == len(launch.operands) == len(launch.access)
        assert len(launch.words) == kernel.arg_words == words
        assert all(0 <= w < 1 << 32 for w in launch.words)
        assert np.prod(kernel.local_size) <= limits.max_invocations
        assert kernel.shared_bytes <= limits.shared_bytes
        assert all(1 <= g <= most for g, most in zip(launch.groups, limits.max_groups))
        assert np.prod(launch.groups) >= launch.words[0]
        assert not any(kernel.texels) or profile.texels
        if kernel.subgroup_size is not None:
            assert limits.subgroup_min <= kernel.subgroup_size <= limits.subgroup_max


@pytest.mark.parametrize("name", list(PROFILES))
@settings(max_examples=60)
@given(problem=problems, wide=st.booleans())
def test_sorting_fits_problem_and_device(name: str, problem: Problem, wide: bool) -> None:
    if wide:
        problem = replace(problem, bits=2 * problem.bits if problem.bits > 16 else problem.bits, words=2)
    profile = PROFILES[name]
    launches, scratch = family.plan(problem, profile)
    assert (launches, scratch) == family.plan(problem, profile)
    check_launches(launches, profile, len(variants.WORDS))
    named = {o for launch in launches for o in launch.operands}
    assert named == {"keys", "order", *scratch}
    assert launches[-1].operands[-1] == "order"
    choice = family.choose(problem, profile)
    if isinstance(choice.variant, Row):
        assert len(launches) == 1 and problem.n <= choice.variant.most
        return
    passes = -(-problem.bits // choice.variant.bits)
    assert len(launches) == 3 * passes
    assert (choice.tiles - 1) * choice.chunk < problem.n <= choice.tiles * choice.chunk


@settings(max_examples=60)
@given(problem=problems, name=st.sampled_from(list(PROFILES)))
def test_every_pass_reads_what_the_last_one_wrote(problem: Problem, name: str) -> None:
    launches, _ = family.plan(problem, PROFILES[name])
    if len(launches) == 1:
        return
    written: tuple[str, str] = ("keys", "keys")
    for k in range(0, len(launches), 3):
        count, scan, scatter = launches[k : k + 3]
        numbers = dict(zip(variants.WORDS, scatter.words))
        assert numbers["first"] == (k == 0) and numbers["last"] == (k == len(launches) - 3)
        assert count.operands == (written[0], "counts")
        assert scan.operands == ("counts", "totals")
        assert scatter.operands[:4] == (*written, "counts", "totals")
        assert not set(scatter.operands[:2]) & set(scatter.operands[4:]) or numbers["first"]
        written = (scatter.operands[4], scatter.operands[5])
    assert written[1] == "order"


def test_narrow_keys_take_fewer_passes() -> None:
    for name, profile in PROFILES.items():
        digit = 8 if name != "poor card" else 4
        for bits, words in ((8, 1), (16, 1), (19, 1), (32, 1), (64, 2)):
            launches, _ = family.plan(Problem(1, 1 << 20, bits, words), profile)
            assert len(launches) == 3 * -(-bits // digit), name


def test_cards_rank_in_subgroups() -> None:
    choice = family.choose(Problem(1, 1 << 24, 32), CARD)
    assert isinstance(choice.variant, Radix) and choice.variant.subgroup == 32
    assert choice.tiles == (1 << 24) // choice.variant.tile
    without = replace(CARD, features=CARD.features - {"subgroup_ballot"})
    other = family.choose(Problem(1, 1 << 24, 32), without)
    assert isinstance(other.variant, Radix) and other.variant.subgroup == 0


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(Unsupported, match="kernels count to"):
        family.plan(Problem(1 << 16, 1 << 16, 32), CARD)
    with pytest.raises(Unsupported, match="no kernel"):
        scanning.plan(scanning.Problem(1, 5, 1, "float16"), CARD)
    with pytest.raises(Unsupported, match="kernels count to"):
        scanning.plan(scanning.Problem(1 << 12, 1 << 20, 1, "float32"), CARD)


@pytest.mark.parametrize("name", list(PROFILES))
@settings(max_examples=60)
@given(
    before=st.integers(1, 50),
    extent=st.one_of(st.integers(1, 300), st.sampled_from((2047, 2048, 2049, 1 << 20))),
    after=st.sampled_from((1, 1, 2, 77)),
    dtype=st.sampled_from(sorted(scans.DTYPES)),
)
def test_scanning_fits_problem_and_device(
    name: str, before: int, extent: int, after: int, dtype: str
) -> None:
    profile, problem = PROFILES[name], scanning.Problem(before, extent, after, dtype)
    launches, size = scanning.plan(problem, profile)
    assert (launches, size) == scanning.plan(problem, profile)
    check_launches(launches, profile, len(scans.WORDS))
    choice = scanning.choose(problem, profile)
    assert (choice.chunks - 1) * choice.chunk < extent <= choice.chunks * choice.chunk
    assert len(launches) == (1 if choice.chunks == 1 else 3)
    assert (size > 0) == (len(launches) == 3)


def test_the_pack_holds_every_recipe() -> None:
    pack = family.default()
    for recipe in (*family.RECIPES, *scanning.RECIPES):
        for addressing in ("descriptor",) if recipe.texels else ("address", "descriptor"):
            kernel = pack.kernel(recipe.name, addressing)
            assert kernel.buffers == recipe.buffers and kernel.arg_words == recipe.arg_words
            assert kernel.texels == recipe.texels and kernel.subgroup_size == recipe.subgroup_size


@pytest.mark.parametrize("variant", [*variants.LANES, *variants.COUNTED, *variants.ROWS], ids=str)
def test_workgroup_memory_of_rows(variant: Row) -> None:
    found = family.default().kernel(variant.recipe.name, "descriptor")
    assert found.shared_bytes == variant.shared_bytes and found.local_size == (variant.invocations, 1, 1)


@pytest.mark.parametrize(
    "variant", [*variants.SERIAL, *variants.ALONE, *variants.TILES], ids=lambda v: v.scatter.name
)
def test_workgroup_memory_of_passes(variant: Radix) -> None:
    pack = family.default()
    scatter, count = (pack.kernel(r.name, "descriptor") for r in (variant.scatter, variant.count))
    assert scatter.shared_bytes == variant.shared_bytes and count.shared_bytes <= variant.shared_bytes
    assert scatter.local_size == count.local_size == (variant.invocations, 1, 1)
    # Two digits to a word of shift would read across words.
    assert 32 % variant.bits == 0


@pytest.mark.parametrize("kind", list(scans.TILES))
def test_workgroup_memory_of_scans(kind: str) -> None:
    scan = scans.TILES[kind]
    kernels = [scanning.default().kernel(r.name, "descriptor") for r in scan.stages]
    assert max(k.shared_bytes for k in kernels) == scan.shared_bytes
    assert all(k.local_size == (scan.invocations, 1, 1) for k in kernels)
