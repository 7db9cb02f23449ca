"""docs/demands.md names tests that exist, and the rows that it has to have."""

from __future__ import annotations

import ast
import re

from tools.project import ROOT, parse

PAGE = ROOT / "docs" / "demands.md"
#: Marked rows of the areas correctness, dtype, memory and interop, and the inputs of these.
ROWS = (
    "B2 B4 B6 B8 B10 B12 B14 B16 B18 B20 B22 D15 D16 D18 D19 D21 D23 D26 D27 D28 D29 D30 D31 D32 D33 D34 D35 D36 D37 D38 D43 D44"
    " D45 S1 S2 S5"
).split()


def rows() -> dict[str, list[str]]:
    """Row -> the tests named for it."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"[BDS]\d+(, [BDS]\d+)*", cells[0]):
            for row in cells[0].split(", "):
                found[row] = re.findall(r"`([^`]+)`", cells[2])
    return found


def test_no_row_is_missing_or_without_a_test() -> None:
    found = rows()
    assert set(ROWS) <= set(found)
    assert all(found.values())


def test_every_test_named_exists() -> None:
    for row, names in rows().items():
        for name in names:
            path, _, function = name.partition("::")
            tree = parse(ROOT / "tests" / path)
            defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert function in defined, f"{row}: {name}"
