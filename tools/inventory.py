"""docs/inventory.json: how far `oa` covers the matrix names of the system description, listed in tools/inventory.txt.

A name is `present` when what stands for it exists in `oa`, `documented` when that has a page in docs/ops/ or a docstring,
`tested` when some test uses it and `device` when one of a tier that runs on a Vulkan device does.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oa
from tools.project import ROOT, files, parse

LIST = ROOT / "tools" / "inventory.txt"
PAGE = ROOT / "docs" / "inventory.json"
COLUMNS = ("present", "tested", "documented", "device")

#: The tiers whose tests run on a device.
DEVICE_TIERS = ("device", "model", "fuzz", "attacks")
#: What tests call the modules of operations.
_MODULES = frozenset({"m", "matrix", "ml", "oam", "xp"})


def names() -> dict[str, str]:
    """Each name of the list and what stands for it, "-" for nothing."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" = ", 1) for line in lines if line and not line.startswith("#"))


def _resolve(where: str) -> Any:
    found: Any = oa
    for part in where.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            return None
        found = getattr(found, part, None)
    return found


def used(path: Path) -> Iterator[str]:
    """The operations that a test file names: attributes of a module of operations, imports, and strings that select one."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute):
            value = node.value
            owner = (
                value.attr
                if isinstance(value, ast.Attribute)
                else value.id
                if isinstance(value, ast.Name)
                else ""
            )
            if owner in _MODULES or owner in ("engine", "e"):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("oa."):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def rows() -> list[dict[str, Any]]:
    """One record a name."""
    importlib.import_module("oa.core")
    by_tier: dict[str, set[str]] = {}
    for path in files("tests/**/*.py"):
        # Tables of oracles are what the device tier runs through.
        tier = path.relative_to(ROOT / "tests").parts[0] if path.name.startswith("test_") else "device"
        by_tier.setdefault(tier, set()).update(used(path))
    tested = set().union(*by_tier.values())
    on_device = set().union(*(by_tier.get(tier, set()) for tier in DEVICE_TIERS))
    found = []
    for name, where in names().items():
        thing = None if where == "-" else _resolve(where)
        bare = where.rpartition(".")[2]
        found.append(
            {
                "name": name,
                "oa": None if where == "-" else where,
                "present": thing is not None,
                "tested": thing is not None and bare in tested,
                "documented": thing is not None and bool(inspect.getdoc(thing)),
                "device": thing is not None and bare in on_device,
            }
        )
    return found


def text() -> str:
    """The file: counts first, then one line a name."""
    found = rows()
    count = {"names": len(found), **{c: sum(row[c] for row in found) for c in COLUMNS}}
    body = ",\n".join(f"  {json.dumps(row)}" for row in found)
    return f'{{\n "count": {json.dumps(count)},\n "names": [\n{body}\n ]\n}}\n'
