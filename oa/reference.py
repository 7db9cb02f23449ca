"""What each public operation is, for `oa ops` and docs/ops/: read off signatures, docstrings and declarations.

A docstring's first paragraph is the formula. Sections start with "Shapes:", "Dtypes:", "Gradient:" or "Raises:" (or a sentence
"Raises ...") and go on to the next one or the end of the paragraph. What a declaration knows need not be written: the dtypes
and errors of elementwise operations, and the gradients that follow from scalar expressions.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from oa._schema import derivative
from oa._schema import scalar as sc
from oa._schema.dtype import ALL, CAPABILITIES, DType, bool_, float32
from oa._schema.op import Operation
from oa._schema.scalar import Scalar
from oa._schema.spec import spec
from oa.errors import ArgumentError

#: Packages whose public functions are described.
DOMAINS = ("matrix", "matrix.linalg", "ml")
SECTIONS = ("Shapes", "Dtypes", "Gradient", "Raises")

#: What the first words of a "Dtypes:" section may be, and the dtype kinds that they name.
KINDS = {
    "any": "biufc",
    "any real": "biuf",
    "numeric": "iufc",
    "real": "iuf",
    "floating-point": "f",
    "floating-point and complex": "fc",
    "complex": "c",
    "floating-point of 32 bits or more": "f",
    "signed and floating-point": "if",
    "integer": "iu",
    "integer and bool": "biu",
    "bool": "b",
}
_NAMES = {kinds: name for name, kinds in reversed(KINDS.items())}

#: Headings of the index, by the module that defines a function.
AREAS = {
    "create": "Creation",
    "interop": "Creation",
    "random": "Random",
    "chance": "Random",
    "distributions": "Random",
    "initial": "Random",
    "elementwise": "Elementwise",
    "several": "Elementwise",
    "special": "Elementwise",
    "reduce": "Reductions",
    "statistics": "Statistics",
    "scan": "Cumulative",
    "products": "Products",
    "contraction": "Products",
    "linalg": "Linear algebra",
    "normalise": "Normalisation",
    "shape": "Shape",
    "manipulate": "Shape",
    "grid": "Shape",
    "indexing": "Indexing",
    "subscript": "Indexing",
    "search": "Searching",
    "sorting": "Sorting",
    "sets": "Sets",
    "routing": "Classes and experts",
    "dtypes": "Dtypes and devices",
    "namespace": "Dtypes and devices",
    "functional": "Machine learning",
}


@dataclass(frozen=True)
class Entry:
    """One public operation. `kinds` are NumPy kind letters of the operands accepted, "" where none are taken."""

    name: str
    area: str
    signature: str
    formula: str
    notes: str
    shapes: str
    dtypes: str
    gradient: str
    raises: str
    example: str
    kinds: str

    @property
    def summary(self) -> str:
        """The first sentence of the formula."""
        return re.split(r"(?<=[.:]) (?=[A-Z])", self.formula)[0]

    def missing(self) -> list[str]:
        """The parts that a page needs and that nothing supplies."""
        needed = ("formula", *(s.lower() for s in SECTIONS), "example")
        return [part for part in needed if not getattr(self, part)]

    def devices(self) -> dict[str, tuple[str, ...]]:
        """The accepted dtypes by the capabilities that a device must have for them; the key "" is every device."""
        found: dict[str, list[str]] = {}
        alone = re.search(r"of these (\w+) alone", self.dtypes)
        for dtype in ALL:
            if alone and dtype.name != alone[1]:
                continue
            narrow = dtype.bits < 32 and "of 32 bits or more" in self.dtypes
            if dtype.kind in self.kinds and not narrow and f"but for {dtype.name}" not in self.dtypes:
                found.setdefault(" and ".join(sorted(CAPABILITIES.get(dtype, ()))), []).append(dtype.name)
        return {needs: tuple(names) for needs, names in sorted(found.items())}

    def as_dict(self) -> dict[str, Any]:
        """For `oa ops --json`."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "kinds"}
        return {**plain, "devices": {needs or "every": names for needs, names in self.devices().items()}}

    def text(self) -> str:
        """For a terminal."""
        parts = [f"{self.name}{self.signature}", self.formula, self.notes]
        parts += [f"{s}: {getattr(self, s.lower())}" for s in SECTIONS if getattr(self, s.lower())]
        return "\n\n".join(part for part in (*parts, self.example) if part)


def functions(domain: str = "matrix") -> dict[str, Callable[..., Any]]:
    """The operations of a domain, by name: of `ml` the public functions of `oa.ml.functional`, of others all public ones.

    What a namespace takes over from the one that holds it is described there alone.
    """
    module = importlib.import_module(f"oa.{domain}")
    outer = domain.rpartition(".")[0]
    there = functions(outer) if outer else {}
    found = {name: getattr(module, name) for name in sorted(module.__all__) if name not in there}
    only = f"oa.{domain}.functional" if domain == "ml" else ""
    return {
        n: f
        for n, f in found.items()
        if isinstance(f, FunctionType) and inspect.unwrap(f).__module__.startswith(only)
    }


def entries(word: str = "") -> list[Entry]:
    """All operations whose name, area or formula contains `word`, by name."""
    found = [entry(f"{domain}.{name}", f) for domain in DOMAINS for name, f in functions(domain).items()]
    word = word.lower()
    return [e for e in found if word in f"{e.name} {e.area} {e.formula}".lower()]


def chosen(name: str) -> tuple[list[Entry], bool]:
    """The one operation of that name, with or without its domain, or all that the word fits; and whether it is the one.

    Raises ArgumentError where nothing fits.
    """
    wanted = name.removeprefix("oa.")
    for domain in DOMAINS:
        bare = wanted.removeprefix(f"{domain}.").removeprefix("linalg.")
        function = functions(domain).get(bare)
        if function is not None:
            return [entry(f"{domain}.{bare}", function)], True
    found = entries(wanted)
    if not found:
        raise ArgumentError(f"no operation has {name!r} in its name, area or formula; `oa ops` lists all")
    return found, False


def entry(name: str, function: Callable[..., Any]) -> Entry:
    """The description of one function."""
    text, example = _split_example(inspect.getdoc(function) or "")
    formula, notes, said = _sections(text)
    said = {**_known(function), **said}
    leading = re.split(r"[;.,]", said["Dtypes"])[0].strip()
    module = inspect.unwrap(function).__module__.rpartition(".")[2]
    return Entry(
        name=name,
        area=AREAS.get(module, module.replace("_", " ").capitalize()),
        signature=_signature(function),
        formula=formula,
        notes=notes,
        shapes=said["Shapes"],
        dtypes=said["Dtypes"],
        gradient=said["Gradient"],
        raises=said["Raises"],
        example=example,
        kinds=KINDS.get(leading, ""),
    )


def _split_example(doc: str) -> tuple[str, str]:
    found = re.search(r"^ *>>> ", doc, re.MULTILINE)
    if found is None:
        return doc, ""
    before = re.sub(r"\s*(Example:)?\s*\Z", "", doc[: found.start()])
    return before, textwrap.dedent(doc[found.start() :]).rstrip()


def _sections(text: str) -> tuple[str, str, dict[str, str]]:
    """(formula, other paragraphs, sections) of a docstring without its example."""
    said: dict[str, str] = {}
    plain = []
    for paragraph in re.split(r"\n\s*\n", text):
        pieces = re.split(rf"(?:^|(?<=\n)|(?<=\. ))(?=(?:{'|'.join(SECTIONS)}): |Raises )", paragraph)
        for piece in filter(None, map(str.strip, pieces)):
            head = re.match(rf"({'|'.join(SECTIONS)}):?\s+", piece)
            if head:
                body = " ".join(piece[head.end() :].split())
                said[head[1]] = f"{said[head[1]]} {body}" if head[1] in said else body
            else:
                plain.append(piece if piece.startswith("Args:") else " ".join(piece.split()))
    return (plain[0] if plain else ""), "\n\n".join(plain[1:]), said


def _signature(function: Callable[..., Any]) -> str:
    """As it is written, with bare annotations."""
    text = str(inspect.signature(function))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


# -- what declarations know


def _known(function: Callable[..., Any]) -> dict[str, str]:
    """The sections that follow from the declaration of an elementwise operation."""
    operation = getattr(function, "operation", None)
    empty = dict.fromkeys(SECTIONS, "")
    if not isinstance(operation, Operation) or operation.form != "expression":
        return empty
    kinds = _NAMES[operation.kinds]
    several = len(operation.operands) > 1
    promoted = "; operands are promoted to their common dtype" if several else ""
    refusals = [] if operation.kinds == "biufc" else ["DTypeError for other dtypes"]
    if several:
        refusals += ["DTypeError where dtypes have no common one", "ShapeError where shapes do not broadcast"]
    refusals.append("ArgumentError for what is neither a Matrix nor a Python number")
    return {
        "Shapes": "operands broadcast." if several else "any; the result has it too.",
        "Dtypes": f"{kinds}{promoted}.",
        "Gradient": gradient(operation),
        "Raises": f"{'; '.join(refusals)}.",
    }


def gradient(operation: Operation) -> str:
    """For each operand of an elementwise operation what of the cotangent g of the result r flows back to it."""
    if "f" not in operation.kinds:
        return "none: the operands are not floating-point."
    dtypes: list[DType] = [bool_ if n in operation.exclude else float32 for n in operation.operands]
    body = operation.infer(tuple(spec(d, ()) for d in dtypes), {}).body
    if body is None or not body.dtype.is_float:
        return "none: the result is not floating-point."
    count = len(dtypes)
    flowing = []
    for k, name in enumerate(operation.operands):
        found = derivative.vjp(body, sc.arg(count, body.dtype), {k}).get(k)
        if found is not None:
            names = {
                body: "r",
                **{sc.arg(i, d): n for i, (d, n) in enumerate(zip(dtypes, operation.operands))},
            }
            flowing.append(f"{name}: {_infix(found, {**names, sc.arg(count, body.dtype): 'g'})}")
    return "; ".join(flowing) + "." if flowing else "0 everywhere."


_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
#: How tightly each sign binds; what binds less than its place asks for gets brackets.
_TIGHT = {"add": 2, "sub": 2, "mul": 3, "div": 3}


def _infix(node: Scalar, names: dict[Scalar, str], tight: int = 0) -> str:
    if node in names:
        return names[node]
    if node.op == "const":
        return f"{sc.from_pattern(node.attr, node.dtype):.6g}"
    if node.op in _SIGNS:
        own = _TIGHT.get(node.op, 1)
        left, right = node.args
        text = f"{_infix(left, names, own)} {_SIGNS[node.op]} {_infix(right, names, own + 1)}"
        return f"({text})" if own < tight else text
    if node.op == "neg":
        return f"-{_infix(node.args[0], names, 4)}"
    if node.op == "cast":
        return _infix(node.args[0], names, tight)
    return f"{node.op}({', '.join(_infix(a, names) for a in node.args)})"


__all__ = [
    "AREAS",
    "DOMAINS",
    "KINDS",
    "SECTIONS",
    "Entry",
    "chosen",
    "entries",
    "entry",
    "functions",
    "gradient",
]
