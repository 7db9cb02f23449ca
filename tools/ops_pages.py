"""The pages of docs/ops/: one an operation and an index, from `oa.reference`."""

from __future__ import annotations

import inspect
from pathlib import Path

from oa.matrix import Matrix
from oa.reference import AREAS, Entry, entries
from tools.project import ROOT

FOLDER = ROOT / "docs" / "ops"

HEAD = "<!-- Written by `./run docs` from the docstring and the declaration of {name}: change them there. -->"

INDEX = """\
# Operations

<!-- Written by `./run docs` from docstrings and declarations. -->

{count} operations. In a gradient g is the cotangent of the result, r the result; floating-point operands alone have one.
Which operation ran on which device: [ledger](../ledger.md). In a terminal: `oa ops`, `oa ops exp`, `oa ops --json`.

The class: [`Matrix`](Matrix.md), with its methods and operators.

Every operation also raises EngineMismatch for operands of two engines, Unsupported for a dtype that the device lacks, and
ArgumentError for arguments that it does not know.
"""


def page(entry: Entry) -> str:
    """The reference page of one operation."""
    parts = [
        f"# {entry.name}",
        HEAD.format(name=f"`oa.{entry.name}`"),
        entry.formula,
        f"```python\noa.{entry.name}{entry.signature}\n```",
        entry.notes,
        f"**Shapes**: {entry.shapes}",
        f"**Dtypes**: {entry.dtypes}",
        _devices(entry),
        f"**Gradient**: {_code(entry.gradient)}",
        f"**Raises**: {entry.raises}",
        f"```pycon\n{entry.example}\n```",
        f"[{entry.area}](README.md#{_anchor(entry.area)})",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _devices(entry: Entry) -> str:
    found = entry.devices()
    if not found:
        return ""
    rows = [
        f"| {f'with {needs}' if needs else 'every'} | {', '.join(names)} |" for needs, names in found.items()
    ]
    return "\n".join(["| device | dtypes of the operands |", "|---|---|", *rows])


def _code(text: str) -> str:
    """Stars of formulas are no emphasis."""
    return text.replace("*", "\\*")


def _anchor(area: str) -> str:
    return area.lower().replace(" ", "-")


#: Operators of a Matrix and the operations that they are.
OPERATORS = {
    "a + b": "add", "a - b": "subtract", "a * b": "multiply", "a / b": "divide", "a // b": "floor_divide", "a % b": "remainder",
    "a ** b": "pow", "a @ b": "matmul", "-a": "negative", "+a": "positive", "abs(a)": "abs", "a == b": "equal",
    "a != b": "not_equal", "a < b": "less", "a <= b": "less_equal", "a > b": "greater", "a >= b": "greater_equal",
    "a & b": "bitwise_and", "a | b": "bitwise_or", "a ^ b": "bitwise_xor", "~a": "bitwise_invert",
    "a << b": "bitwise_left_shift", "a >> b": "bitwise_right_shift", "a[key] = b": "put",
}  # fmt: skip


def members() -> dict[str, str]:
    """Attributes and methods of a Matrix as they are written, and what each is."""
    found = {}
    for name, member in sorted(vars(Matrix).items()):
        if name.startswith("_"):
            continue
        signature = "" if isinstance(member, property) else str(inspect.signature(member)).replace("'", "")
        text = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
        found[f"{name}{signature.replace('(self, ', '(').replace('(self)', '()')}"] = text
    return found


def matrix_page() -> str:
    """The page of the class."""
    rows = [f"| `{_bars(name)}` | {_cell(text)} |" for name, text in members().items()]
    signs = [f"| `{_bars(sign)}` | [`{name}`]({name}.md) |" for sign, name in OPERATORS.items()]
    parts = [
        "# matrix.Matrix",
        HEAD.format(name="`oa.matrix.Matrix`"),
        inspect.getdoc(Matrix) or "",
        "\n".join(["| attribute or method | what it is |", "|---|---|", *rows]),
        "\n".join(["| operator | operation |", "|---|---|", *signs]),
        "`a[key]` takes ints, slices, `...`, None, and integer and bool values, with NumPy's meaning; NumPy's scalars and Python"
        " numbers stand on either side of an operator.",
    ]
    return "\n\n".join(parts) + "\n"


def index(found: list[Entry]) -> str:
    """The operations by area."""
    order = list(dict.fromkeys(AREAS.values()))
    areas = sorted({e.area for e in found}, key=lambda a: (order.index(a) if a in order else len(order), a))
    parts = [INDEX.format(count=len(found))]
    for area in areas:
        rows = [f"| [`{_bare(e)}`]({_bare(e)}.md) | {_cell(e.summary)} |" for e in found if e.area == area]
        parts.append("\n".join([f"## {area}\n", "| operation | what it is |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _bare(entry: Entry) -> str:
    return entry.name.removeprefix("matrix.")


def _cell(text: str) -> str:
    return _bars(text).replace("*", "\\*")


def _bars(text: str) -> str:
    """A bar would end the cell, in code too."""
    return text.replace("|", "\\|")


def pages() -> dict[Path, str]:
    """Every page by its path."""
    found = entries()
    return {
        FOLDER / "README.md": index(found),
        FOLDER / "Matrix.md": matrix_page(),
        **{FOLDER / f"{_bare(e)}.md": page(e) for e in found},
    }


def leftover() -> list[Path]:
    """Pages of operations that are no more."""
    return sorted(set(FOLDER.glob("*.md")) - set(pages()))
