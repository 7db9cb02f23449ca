"""Holds files, functions and the package to the sizes in pyproject.toml, so that the code stays readable in one sitting.

    python -m tools.sizes [--table]

A code line holds code: blank lines, comments and docstrings are free. Generated files are not counted.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.layers import component
from tools.project import ROOT, files, module_name, parse, settings

#: What is held to the limits on files and functions.
PLACES = ("oa", "tests", "tools", "bench", "tutorials", "examples")

_SPACE = frozenset({
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING
})  # fmt: skip


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def code_lines(source: str) -> int:
    """Lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SPACE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(source)))


def long_functions(path: Path, limit: int) -> Iterator[tuple[int, str, int]]:
    """(line, name, length) of each function longer than the limit, docstring not counted."""
    tree = parse(path)
    free = docstring_lines(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            length = len(span) - len(free.intersection(span))
            if length > limit:
                yield node.lineno, node.name, length


def check_files(root: Path, sizes: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(violations, files above the aim) among all sources."""
    found: list[str] = []
    above: list[str] = []
    for path in files(*(f"{place}/**/*{end}" for place in PLACES for end in (".py", ".slang")), root=root):
        where = path.relative_to(root).as_posix()
        if where in sizes["generated"]:
            continue
        length = len(path.read_text(encoding="utf-8").splitlines())
        if length > sizes["file_lines"]:
            found.append(f"{where}: {length} lines, at most {sizes['file_lines']}")
        elif length > sizes["file_lines_aim"]:
            above.append(f"{where}: {length} lines, aim under {sizes['file_lines_aim']}")
        if path.suffix == ".py":
            for line, name, count in long_functions(path, sizes["function_lines"]):
                found.append(f"{where}:{line}: {name} has {count} lines, at most {sizes['function_lines']}")
    return found, above


def package_sizes(root: Path, layers: Mapping[str, float], generated: list[str]) -> dict[str, int]:
    """Code lines of each component of the package."""
    totals: dict[str, int] = {}
    for path in files("oa/**/*.py", root=root):
        if path.relative_to(root).as_posix() not in generated:
            part = component(module_name(path, root), layers) or "?"
            totals[part] = totals.get(part, 0) + code_lines(path.read_text(encoding="utf-8"))
    return totals


def main() -> int:
    """Print violations, and with --table the size of each component; 1 if there are violations."""
    parser = argparse.ArgumentParser(description="sizes of files, functions and the package")
    parser.add_argument("--table", action="store_true", help="print the code lines of each component")
    options = parser.parse_args()
    table = settings()
    sizes, layers = table["sizes"], table["layers"]
    found, above = check_files(ROOT, sizes)
    totals = package_sizes(ROOT, layers, sizes["generated"])
    whole = sum(totals.values())
    core = sum(lines for part, lines in totals.items() if layers.get(part, 9) <= 4)
    if whole > sizes["package_lines"]:
        found.append(f"the package has {whole} code lines, at most {sizes['package_lines']}")
    if core > sizes["core_lines"]:
        found.append(f"layers 0 to 4 have {core} code lines, at most {sizes['core_lines']}")
    if options.table:
        for part, lines in sorted(totals.items(), key=lambda item: (layers.get(item[0], 9), item[0])):
            print(f"{layers.get(part, '?'):>3}  {part:<14} {lines:>6}")
        print(f"    {'layers 0 to 4':<14} {core:>6}\n    {'package':<14} {whole:>6}")
        print("\n".join(above))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
