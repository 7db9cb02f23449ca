"""The layer and size tools find what they are there to find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools import layers, sizes

TABLE: dict[str, Any] = {
    "layers": {
        "oa.errors": 0,
        "oa._schema": 1,
        "oa._device": 1,
        "oa._vk": 3,
        "oa.ml": 5,
        "oa.matrix": 5,
        "oa": 8,
    },
    "only": {"oa._vk": ["oa.errors", "oa._device"]},
    "never": {"oa.ml": ["oa._vk"]},
    "also": {"oa.ml": ["oa.matrix"]},
    "imports": {"lazy": ["rich"], "cffi": ["oa._vk"], "late": ["oa"]},
}


def tree(tmp_path: Path, sources: dict[str, str]) -> Path:
    """A package `oa` under `tmp_path` whose modules, named as `a/b`, hold the given source."""
    for name, source in {"__init__": "", **sources}.items():
        path = tmp_path / "oa" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("errors", "from oa import _schema", "oa.errors is layer 0, oa._schema is layer 1"),
        ("_schema", "import oa._device", "oa._schema is layer 1, oa._device is layer 1"),
        ("_vk", "from oa._schema import x", "oa._vk imports only oa.errors, oa._device"),
        ("ml", "import oa._vk", "oa.ml never imports oa._vk"),
        ("matrix", "from oa.ml import y", "oa.matrix is layer 5, oa.ml is layer 5"),
        ("errors", "from cffi import FFI", "only oa._vk may load cffi"),
        ("matrix", "def f():\n    import oa.errors", "imported inside a function"),
        ("matrix", "def f():\n    import scipy", "imported inside a function"),
        ("stray", "import math", ""),
        ("errors", "import oa.stray", "oa.stray is in no layer"),
        ("errors", "from .ml import z", "oa.errors is layer 0, oa.ml is layer 5"),
    ],
)
def test_each_rule_is_seen(tmp_path: Path, module: str, source: str, reason: str) -> None:
    others = dict.fromkeys(("errors", "_schema", "_device", "_vk", "ml", "matrix", "stray"), "")
    found = layers.violations(tree(tmp_path, {**others, module: source}), TABLE)
    if reason:
        assert len(found) == 1
        assert reason in found[0]
        assert found[0].startswith(f"oa/{module}.py:")
    else:
        assert not found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("_vk", "import cffi\nfrom oa import errors, _device"),
        ("ml", "from oa.matrix import add"),
        ("matrix", "def f():\n    import rich.progress"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, module: str, source: str) -> None:
    others = dict.fromkeys(("errors", "_schema", "_device", "_vk", "ml", "matrix"), "")
    assert layers.violations(tree(tmp_path, {**others, module: source}), TABLE) == []


def test_a_cycle_is_found_unless_it_is_for_types(tmp_path: Path) -> None:
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from oa._schema import c"
    root = tree(tmp_path, {"_schema/b": late, "_schema/c": "import oa._schema.b"})
    assert layers.violations(root, TABLE) == []
    (root / "oa/_schema/b.py").write_text("from oa._schema import c")
    assert layers.violations(root, TABLE) == ["import cycle: oa._schema.b -> oa._schema.c -> oa._schema.b"]


def test_code_lines_leave_out_comments_blank_lines_and_docstrings() -> None:
    source = (
        '"""Doc\nstring."""\n\n# why\nx = (\n    1,\n)\n\n\ndef f():\n    """Doc."""\n    return x  # units\n'
    )
    assert sizes.code_lines(source) == 5


def test_long_functions_are_named(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text(
        'def short():\n    """a\n    b\n    c"""\n    x = 1\n\n\ndef long():\n    x = 1\n    y = 2\n    return x, y\n'
    )
    assert list(sizes.long_functions(path, 3)) == [(8, "long", 4)]
