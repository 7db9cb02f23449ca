"""The pack file: its format, its refusals, and the committed one against the families' recipes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oa._device.features import BY_NAME
from oa._kernel.matmul import variants
from oa._kernel.pack import ADDRESSINGS, Kernel, Pack, Recipe, default, encode
from oa.errors import FileFormatError, InternalError
from tools.kernels_spirv import reflect

ROOT = Path(__file__).resolve().parent.parent.parent

kernels = st.lists(
    st.builds(
        Kernel,
        name=st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=12),
        words=st.binary(min_size=4, max_size=64).map(lambda b: b[: len(b) // 4 * 4]),
        buffers=st.integers(0, 16),
        arg_words=st.integers(0, 64),
        addressing=st.sampled_from(ADDRESSINGS),
        local_size=st.tuples(*(st.integers(1, 1024),) * 3),
        subgroup_size=st.sampled_from((None, 4, 8, 64)),
        shared_bytes=st.integers(0, 1 << 16),
        capabilities=st.sampled_from(((), ("Int64",), ("Float16", "Int64"))),
    ),
    unique_by=lambda k: (k.name, k.addressing),
    max_size=6,
)


def fields(kernel: Kernel) -> tuple[object, ...]:
    return tuple(getattr(kernel, name) for name in Kernel.__dataclass_fields__)


@given(kernels)
def test_what_goes_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory, given_kernels: list[Kernel]
) -> None:
    path = tmp_path_factory.mktemp("pack") / "p"
    data = encode(given_kernels)
    assert data == encode(reversed(given_kernels))
    path.write_bytes(data)
    pack = Pack(path)
    assert len(pack) == len(given_kernels)
    assert pack.names() == tuple(sorted({k.name for k in given_kernels}))
    for kernel in given_kernels:
        found = pack.kernel(kernel.name, kernel.addressing)
        assert fields(found) == fields(kernel)
        assert found is pack.kernel(kernel.name, kernel.addressing)


def example(name: str = "k", words: bytes = b"\x03\x02\x23\x07") -> Kernel:
    return Kernel(name, words, 2, 5, "address", (64, 1, 1))


def test_words_are_aligned(tmp_path: Path) -> None:
    data = encode([example("a", b"abcd"), example("b", b"efgh")])
    assert data.index(b"abcd") % 16 == data.index(b"efgh") % 16 == 0


def test_equality_is_by_what_a_pipeline_is_made_from() -> None:
    assert example("a") == example("b")
    assert hash(example("a")) == hash(example("b"))
    assert example("a") != example("a", b"\x03\x02\x23\x08")
    assert example().digest != Kernel("k", example().words, 2, 5, "address", (32, 1, 1)).digest
    assert (
        example().digest != Kernel("k", example().words, 2, 5, "address", (64, 1, 1), subgroup_size=8).digest
    )


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(InternalError, match="same name"):
        encode([example(), example()])


def test_unknown_addressing_is_refused() -> None:
    with pytest.raises(InternalError, match="'magic'"):
        Kernel("k", b"", 0, 0, "magic", (1, 1, 1))


@pytest.mark.parametrize("keep", [0, 3, 15, 40, -1])
def test_a_cut_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "p"
    path.write_bytes(encode([example("a", bytes(32))])[:keep])
    with pytest.raises(FileFormatError, match=r"kernel pack p: .*\./run kernels"):
        Pack(path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(b"PK\x03\x04" + bytes(60))
    with pytest.raises(FileFormatError, match="does not start with"):
        Pack(path)


def test_a_missing_kernel_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(encode([example()]))
    with pytest.raises(InternalError, match="'k' for 'descriptor'"):
        Pack(path).kernel("k", "descriptor")


def recipes() -> Iterator[Recipe]:
    yield from variants.RECIPES


def test_committed_pack_holds_every_recipe_and_nothing_else() -> None:
    from tools.kernels import addressings
    from tools.kernels import recipes as all_recipes

    known = all_recipes()
    assert set(recipes()) <= set(known)
    assert default().names() == tuple(r.name for r in known)
    assert len(default()) == sum(len(addressings(r)) for r in known)


@pytest.mark.parametrize("addressing", ADDRESSINGS)
def test_committed_kernels_are_what_they_say(addressing: str) -> None:
    names = {
        "Int64": "int64",
        "Float16": "float16",
        "Float64": "float64",
        "PhysicalStorageBufferAddresses": "bda",
    }
    for name in default().names():
        if (name, addressing) not in default():
            continue
        kernel = default().kernel(name, addressing)
        assert kernel.digest == kernel.compute_digest()
        shape = reflect(kernel.words)
        assert shape.local_size == kernel.local_size
        assert shape.shared_bytes == kernel.shared_bytes
        assert shape.capabilities == kernel.capabilities
        expected = set(range(kernel.buffers + 1)) if addressing == "descriptor" else set()
        assert shape.bindings == expected, name
        assert ("PhysicalStorageBufferAddresses" in kernel.capabilities) == (addressing == "address")
        for capability in kernel.capabilities:
            # Texel buffers and subgroup operations are of Vulkan's core.
            core = capability == "SampledBuffer" or capability.startswith("GroupNonUniform")
            known = core or names[capability] in BY_NAME
            assert known, f"{name} needs {capability}, which no profile can name"


def test_argument_words_are_numbered_alike() -> None:
    """problem.slang and the family name the same words at the same places."""
    text = (ROOT / "oa/_kernel/matmul/problem.slang").read_text(encoding="utf-8")
    found = {
        name.lower(): int(value)
        for line in re.findall(r"^static const uint (.*);$", text, re.MULTILINE)
        for name, value in re.findall(r"(\w+) = (\d+)", line)
    }
    assert found == {name: place for place, name in enumerate(variants.WORDS)}


def test_importing_the_reader_opens_nothing() -> None:
    code = "import sys, oa._kernel.pack as p; assert not p._DEFAULT; print('numpy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stdout) == (0, "False\n"), ran.stderr
