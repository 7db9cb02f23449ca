"""All checks that need no device, two at a time.

    python -m tools.check [NAMES]

Prints one line a check and the first lines of each that fails; exit status 1 if any does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tools.project import ROOT

#: A user's file, strictly; with a cache of its own, since options differ from those of the package.
USER_TYPES = (
    *("--strict", "--warn-unused-ignores", "--follow-imports=silent"),
    *("--cache-dir", ".mypy_cache/user", "tests/types/user_code.py"),
)
#: Lines shown of a check that fails.
OUTPUT_LINES = 40
#: git's name for a tree without files: a difference from it shows every line of every file.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@dataclass(frozen=True)
class Check:
    """One check: a command that succeeds when all is well."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True)
class Outcome:
    """What a check came to."""

    check: Check
    status: int
    output: str
    seconds: float


def checks() -> list[Check]:
    """The checks, longest first, so that the shorter ones fill the second core."""
    python = sys.executable
    found = [
        Check("types", [python, "-m", "mypy"]),
        Check("user types", [python, "-m", "mypy", *USER_TYPES]),
        Check("kernels", [python, "-m", "tools.pack_sum"]),
        Check("vulkan", [python, "-m", "tools.gen_vk", "--check"]),
        Check("docs", [python, "-m", "tools.docs", "--check"]),
        Check("format", [python, "-m", "ruff", "format", "--check", "--output-format", "concise", "."]),
        Check("lint", [python, "-m", "ruff", "check", "--quiet", "--output-format", "concise", "."]),
        Check("layers", [python, "-m", "tools.layers"]),
        Check("sizes", [python, "-m", "tools.sizes"]),
        Check("shell", ["sh", "-n", "run"]),
    ]
    if (ROOT / ".git").exists():
        # Against the empty tree, so that committed lines are held to it as well as changed ones.
        found.append(Check("white space", ["git", "diff", "--check", EMPTY_TREE]))
    return found


def perform(check: Check) -> Outcome:
    """Run one check."""
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        check.command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(check, done.returncode, done.stdout, time.perf_counter() - start)


def main() -> int:
    """Run all checks, or those named."""
    every = checks()
    parser = argparse.ArgumentParser(
        description="format, lint, types, layers, sizes, generated files, white space"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(check.name for check in every))
    names = parser.parse_args().names
    unknown = set(names) - {check.name for check in every}
    if unknown:
        parser.error(f"no such check: {', '.join(sorted(unknown))}")
    chosen = [check for check in every if not names or check.name in names]
    failed = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for outcome in pool.map(perform, chosen):
            good = outcome.status == 0
            failed += not good
            print(
                f"{'ok' if good else 'FAILED':<7}{outcome.check.name:<12}{outcome.seconds:6.1f} s", flush=True
            )
            if not good:
                lines = outcome.output.rstrip().splitlines()
                print("\n".join(lines[:OUTPUT_LINES]), flush=True)
                if len(lines) > OUTPUT_LINES:
                    print(
                        f"... and {len(lines) - OUTPUT_LINES} lines more: ./run check {outcome.check.name}",
                        flush=True,
                    )
    print(f"{failed} of {len(chosen)} checks failed" if failed else f"{len(chosen)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
