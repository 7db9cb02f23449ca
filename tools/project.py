"""What the tools share: the repository's root, its settings and its Python files."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


@cache
def settings() -> dict[str, Any]:
    """The table `tool.oa` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["oa"]
    return table


def files(*patterns: str, root: Path = ROOT) -> list[Path]:
    """Files under `root` that match the glob patterns and are not ignored by git, sorted.

    Untracked files count: a check has to see a file before it is committed. Outside a git checkout nothing is ignored.
    """
    found = sorted({path for pattern in patterns for path in root.glob(pattern) if path.is_file()})
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return [path for path in found if "__pycache__" not in path.parts]
    known = set(listing.split("\0"))
    return [path for path in found if path.relative_to(root).as_posix() in known]


def module_name(path: Path, root: Path = ROOT) -> str:
    """`oa/_run/pool.py` -> `oa._run.pool`; a package's `__init__.py` has the package's name."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
