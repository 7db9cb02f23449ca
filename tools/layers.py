"""Holds imports inside `oa` to the table of layers in pyproject.toml: who may see whom, no cycles, no late imports.

    python -m tools.layers

Exit status 1 and one line a violation, with file and line.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.project import ROOT, files, module_name, parse, settings


@dataclass(frozen=True)
class Import:
    """One imported module, as a file names it."""

    target: str
    line: int
    late: bool  #: inside a function
    typing: bool  #: under `if TYPE_CHECKING:`


def imports_of(tree: ast.Module, name: str, is_package: bool, known: frozenset[str]) -> list[Import]:
    """All imports of a module; `from p import x` names `p.x` where that is a module of `known`."""
    found: list[Import] = []

    def visit(node: ast.AST, late: bool, typing: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            late = True
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.body:
                visit(child, late, True)
            for child in node.orelse:
                visit(child, late, typing)
            return
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, late, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".") if is_package else name.split(".")[:-1]
                package = package[: len(package) - node.level + 1]
                base = ".".join([*package, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.append(Import(inner if inner in known else base, node.lineno, late, typing))
        for child in ast.iter_child_nodes(node):
            visit(child, late, typing)

    visit(tree, late=False, typing=False)
    return found


def component(module: str, layers: Mapping[str, float]) -> str | None:
    """The longest entry of the table that the module lies in; the bare package holds only its own `__init__`."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in layers and (length > 1 or len(parts) == 1):
            return prefix
    return None


def inside(module: str, prefixes: Sequence[str]) -> bool:
    """Whether the module is one of the prefixes or lies in one."""
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def forbidden(source: str, target: str, table: Mapping[str, Any]) -> str | None:
    """Why module `source` may not import module `target` of the package, or None."""
    layers = table["layers"]
    own, other = component(source, layers), component(target, layers)
    if own is None or other is None:
        return f"{source if own is None else target} is in no layer: add it to tool.oa.layers"
    if own == other:
        return None
    if inside(target, table["never"].get(own, ())):
        return f"{own} never imports {other}"
    only = table["only"].get(own)
    if only is not None and not inside(target, only):
        return f"{own} imports only {', '.join(only)}"
    if layers[other] < layers[own] or other in table["also"].get(own, ()):
        return None
    return f"{own} is layer {layers[own]}, {other} is layer {layers[other]}"


def cycles(edges: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Import cycles between modules, each once, found depth first."""
    state: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        state[module] = 1
        path.append(module)
        for target in edges.get(module, ()):
            if state.get(target) == 1:
                yield [*path[path.index(target) :], target]
            elif target not in state:
                yield from visit(target)
        path.pop()
        state[module] = 2

    for module in sorted(edges):
        if module not in state:
            yield from visit(module)


def violations(root: Path, table: Mapping[str, Any]) -> list[str]:
    """Every violation in the package under `root`, as one line each."""
    paths = {module_name(path, root): path for path in files("oa/**/*.py", root=root)}
    known = frozenset(paths)
    lazy, cffi_users, free = (table["imports"][key] for key in ("lazy", "cffi", "late"))
    found: list[str] = []
    edges: dict[str, list[str]] = {}
    for name, path in paths.items():
        where = path.relative_to(root).as_posix()
        edges[name] = []
        for item in imports_of(parse(path), name, path.name == "__init__.py", known):
            reason = None
            if inside(item.target, ["oa"]):
                reason = forbidden(name, item.target, table)
                if not item.typing and not item.late and item.target != name:
                    edges[name].append(item.target)
            elif inside(item.target, ["cffi", "_cffi_backend"]) and not inside(name, cffi_users):
                reason = f"only {', '.join(cffi_users)} may load cffi"
            if item.late and reason is None and name not in free and not inside(item.target, lazy):
                reason = f"{item.target} is imported inside a function and is not in tool.oa.imports.lazy"
            if reason:
                found.append(f"{where}:{item.line}: {reason}")
    found += [f"import cycle: {' -> '.join(cycle)}" for cycle in cycles(edges)]
    return found


def main() -> int:
    """Print the violations; 1 if there are any."""
    found = violations(ROOT, settings())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
