"""`./run` in any POSIX shell, from any folder. Set-up itself is proved by every run of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.project import ROOT

COMMANDS = ("demo", "test", "check", "bench", "kernels", "docs")
SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]


def run(
    *arguments: str, folder: Path = ROOT, shell: str = "sh", **environment: str
) -> subprocess.CompletedProcess[str]:
    words = [shell, "sh"] if shell == "busybox" else [shell]
    return subprocess.run(
        [*words, str(ROOT / "run"), *arguments],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_explained(shell: str, tmp_path: Path) -> None:
    done = run(folder=tmp_path, shell=shell)
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"  {command}" in done.stdout


def test_an_unknown_command_is_an_error() -> None:
    done = run("tset")
    assert done.returncode == 1
    assert "no such command: tset" in done.stderr


def test_arguments_reach_the_program_from_any_folder(tmp_path: Path) -> None:
    done = run("check", "no such check", folder=tmp_path, OA_PYTHON=sys.executable)
    assert done.returncode == 2
    assert "no such check: no such check" in done.stderr


def test_a_given_python_is_used_as_it_is(tmp_path: Path) -> None:
    done = run("bench", folder=tmp_path, OA_PYTHON=sys.executable)
    assert done.returncode == 0
    assert "overhead" in done.stdout


def test_the_demo_knows_through_which_door_it_was_started(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$OA_RUN" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    done = run("demo", "--steps", "2", folder=tmp_path, OA_PYTHON=str(python))
    assert done.stdout.splitlines()[::2] == [str(ROOT / "run"), "--steps"]
    done = subprocess.run(
        ["sh", "run", "demo"],
        cwd=ROOT,
        env={**os.environ, "OA_PYTHON": str(python)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[0] == "./run"


def test_ci_runs_the_tests_and_nothing_less() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == 'exec ./run test "$@"'
