"""Generate the Vulkan declarations of `oa` from the Khronos registry.

    python tools/gen_vk.py            write oa/_vk/cdef.py and oa/_vk/constants.py
    python tools/gen_vk.py --check    exit 1 when the committed files differ from what would be written

Input: `tools/vk_names.txt` (the names in use) and vk.xml, from the PyPI package `vulkan-object` or `--xml PATH`.
Output: `cdef.py`, a cffi out-of-line ABI-mode module (no C parser at run time), and `constants.py`, plain integers and tables.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import re
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "tools" / "vk_names.txt"
OUT = ROOT / "oa" / "_vk"
WIDTH = 110
#: Types that the C declarations need no more of than their size.
OPAQUE = {"PFN_vkAllocationFunction", "PFN_vkReallocationFunction", "PFN_vkFreeFunction"}


def read_names(path: Path) -> dict[str, list[str]]:
    """Sections of the list file, in order: `{"commands.global": ["vkCreateInstance", ...], ...}`."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for raw in path.read_text(encoding="utf-8").splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line:
            current.append(line)
    return sections


def for_vulkan(element: ET.Element) -> bool:
    """True unless the element belongs to Vulkan SC only."""
    return "vulkan" in (element.get("api") or "vulkan").split(",")


def c_text(element: ET.Element) -> str:
    """The C declaration spelled by an element's mixed content, comments left out."""
    parts = [element.text or ""]
    for child in element:
        if child.tag != "comment":
            parts.append("".join(child.itertext()))
        parts.append(child.tail or "")
    return " ".join(" ".join(parts).split())


def child_text(element: ET.Element, path: str) -> str:
    """Text of a child that the registry's schema guarantees."""
    child = element.find(path)
    if child is None or child.text is None:
        raise SystemExit(f"vk.xml: <{element.tag}> lacks <{path}>")
    return child.text


class Registry:
    """The parts of vk.xml that matter here, indexed by name."""

    def __init__(self, xml: Path) -> None:
        root = ET.parse(xml).getroot()
        self.types: dict[str, ET.Element] = {}
        self.aliases: dict[str, str] = {}
        for element in root.iterfind("types/type"):
            name = element.get("name") or element.findtext("name") or element.findtext("proto/name")
            if name and for_vulkan(element):
                if element.get("alias"):
                    self.aliases[name] = element.attrib["alias"]
                else:
                    self.types[name] = element
        self.commands: dict[str, ET.Element] = {}
        for element in root.iterfind("commands/command"):
            if not for_vulkan(element):
                continue
            if element.get("alias"):
                self.aliases[element.attrib["name"]] = element.attrib["alias"]
            else:
                self.commands[child_text(element, "proto/name")] = element
        self.values: dict[str, dict[str, int]] = {}
        self.limits: dict[str, str] = {}
        self.wide: set[str] = set()
        self._read_enums(root)

    def _read_enums(self, root: ET.Element) -> None:
        for group in root.iterfind("enums"):
            name = group.attrib["name"]
            if group.get("bitwidth") == "64":
                self.wide.add(name)
            for value in group.iterfind("enum"):
                if group.get("type") == "constants":
                    self.limits[value.attrib["name"]] = (value.get("value") or "").strip("()U")
                elif for_vulkan(value) and value.get("alias") is None:
                    self._add(name, value, None)
        for element in (*root.iterfind("feature"), *root.iterfind("extensions/extension")):
            if not for_vulkan(element) and element.get("supported") is None:
                continue
            for value in element.iterfind("require/enum"):
                if for_vulkan(value) and value.get("extends") and value.get("alias") is None:
                    self._add(value.attrib["extends"], value, element.get("number"))

    def _add(self, group: str, value: ET.Element, extension: str | None) -> None:
        if (offset := value.get("offset")) is not None:
            number = (
                1_000_000_000 + (int(value.get("extnumber") or extension or "0") - 1) * 1000 + int(offset)
            )
            number = -number if value.get("dir") == "-" else number
        elif (bit := value.get("bitpos")) is not None:
            number = 1 << int(bit)
        elif (text := value.get("value")) is not None and not text.startswith("VK_"):
            number = int(text, 0)
        else:
            return
        self.values.setdefault(group, {})[value.attrib["name"]] = number

    def constant(self, name: str) -> int:
        """The value of any enumerant."""
        for group in self.values.values():
            if name in group:
                return group[name]
        raise SystemExit(f"{NAMES.name}: vk.xml has no constant {name}")


@dataclass
class Declarations:
    """C declarations in dependency order, and the structure types met on the way."""

    registry: Registry
    lines: list[str] = field(default_factory=list)
    structure_types: dict[str, int] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def need(self, name: str) -> None:
        """Declare a type and, before it, whatever it is made of."""
        if name in self._done:
            return
        if target := self.registry.aliases.get(name):
            self._done.add(name)
            self.need(target)
            self.lines.append(f"typedef {target} {name};")
            return
        element = self.registry.types.get(name)
        category = element.get("category") if element is not None else None
        if element is None or category is None:
            return
        self._done.add(name)
        if category in ("struct", "union"):
            self._aggregate(name, category, element)
        elif (line := self._scalar(name, category, element)) is not None:
            self.lines.append(line)

    def _scalar(self, name: str, category: str, element: ET.Element) -> str | None:
        if category == "basetype":
            base = element.findtext("type")
            return f"typedef {base} {name};" if base else f"typedef struct {name} {name};"
        if category == "handle":
            # Handles that are not dispatchable are 64-bit numbers on every platform: Python sees plain ints.
            dispatchable = element.findtext("type") == "VK_DEFINE_HANDLE"
            return f"typedef struct {name}_T *{name};" if dispatchable else f"typedef uint64_t {name};"
        if category == "bitmask":
            base = child_text(element, "type")
            self.need(base)
            return f"typedef {base} {name};"
        if category == "enum":
            return f"typedef {'uint64_t' if name in self.registry.wide else 'int32_t'} {name};"
        return f"typedef void *{name};" if category == "funcpointer" else None

    def _aggregate(self, name: str, category: str, element: ET.Element) -> None:
        members = []
        self.lines.append(f"typedef {category} {name} {name};")
        for member in element.iterfind("member"):
            if not for_vulkan(member):
                continue
            self.need(child_text(member, "type"))
            text = re.sub(
                r"\[ *(VK_\w+) *\]", lambda m: f"[{self.registry.limits[m.group(1)]}]", c_text(member)
            )
            members.append(f"  {text.replace('struct ', '')};")
            if kind := member.get("values"):
                self.structure_types[name] = self.registry.constant(kind)
        self.lines.append("\n".join([f"{category} {name} {{", *members, "};"]))

    def command(self, name: str) -> None:
        """Declare `PFN_<name>`, the function pointer type of a command."""
        element = self.registry.commands.get(self.registry.aliases.get(name, name))
        if element is None:
            raise SystemExit(f"{NAMES.name}: vk.xml has no command {name}")
        params = [p for p in element.iterfind("param") if for_vulkan(p)]
        result = child_text(element, "proto/type")
        for wanted in (result, *(child_text(p, "type") for p in params)):
            self.need(wanted)
        self.lines.append(f"typedef {result} (*PFN_{name})({', '.join(map(c_text, params))});")


def wrapped(value: object, indent: str = "") -> str:
    """Source of a nested tuple of byte strings, integers and tuples, broken at `WIDTH` columns."""
    flat = repr(value)
    if len(indent) + len(flat) < WIDTH:
        return flat
    deeper = indent + " "
    if isinstance(value, tuple):
        return "(\n" + "".join(f"{deeper}{wrapped(v, deeper)},\n" for v in value) + indent + ")"
    if isinstance(value, bytes):
        step = (WIDTH - len(deeper) - 4) // 4  # one byte prints as at most four characters
        pieces, start = [], 0
        while start < len(value):
            stop = start + step
            while stop < len(value) and len(repr(value[start : stop + 1])) + len(deeper) < WIDTH:
                stop += 1
            pieces.append(f"{deeper}{value[start:stop]!r}")
            start = stop
        return "(\n" + "\n".join(pieces) + "\n" + indent + ")"
    return flat


def cdef_module(declarations: str) -> str:
    """The text of cdef.py: what cffi writes for out-of-line ABI mode, in lines of readable length."""
    import cffi

    builder = cffi.FFI()
    builder.set_source("oa._vk.cdef", None)
    builder.cdef(declarations)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "cdef.py"
        with contextlib.redirect_stdout(io.StringIO()):
            builder.emit_python_code(str(target))
        tree = ast.parse(target.read_text(encoding="utf-8"))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    if len(calls) != 1:
        raise SystemExit("cffi writes its module in a way that this generator does not know")
    lines = [
        '"""Generated by tools/gen_vk.py from vk.xml and tools/vk_names.txt; do not edit."""',
        "# ruff: noqa",
        "# fmt: off",
    ]
    lines += ["", "import _cffi_backend", "", "ffi = _cffi_backend.FFI(", ' "oa._vk.cdef",']
    for keyword in calls[0].keywords:
        lines.append(f" {keyword.arg}={wrapped(ast.literal_eval(keyword.value), ' ')},")
    return "\n".join([*lines, ")", ""])


def constants_module(registry: Registry, names: dict[str, list[str]], structure_types: dict[str, int]) -> str:
    """The text of constants.py."""
    lines = ['"""Generated by tools/gen_vk.py from vk.xml and tools/vk_names.txt; do not edit."""', ""]
    for name in names["constants"]:
        value = registry.constant(name)
        lines.append(f"{name} = {value}" if value < 10 else f"{name} = 0x{value:X}")

    def table(title: str, rows: Iterator[str], kind: str) -> None:
        lines.extend(["", f"{title}: {kind} = {{", *(f"    {row}," for row in rows), "}"])

    table("STRUCTURE_TYPE", (f'"{n}": {v}' for n, v in sorted(structure_types.items())), "dict[str, int]")
    for enum in names["enums"]:
        title = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.removeprefix("Vk")).upper()
        values = sorted(registry.values[enum].items(), key=lambda item: item[1])
        table(title, (f'{v}: "{n}"' for n, v in values), "dict[int, str]")
    for section in ("global", "instance", "device"):
        rows = names[f"commands.{section}"]
        lines.extend(
            ["", f"{section.upper()}_COMMANDS: tuple[str, ...] = (", *(f'    "{n}",' for n in rows), ")"]
        )
    return "\n".join([*lines, ""])


def find_xml() -> Path:
    """vk.xml inside the installed `vulkan-object` package."""
    spec = importlib.util.find_spec("vulkan_object")
    if spec is None or spec.origin is None:
        raise SystemExit("vk.xml not found: pip install vulkan-object, or give --xml PATH")
    return Path(spec.origin).parent / "vk.xml"


def generate(xml: Path) -> dict[Path, str]:
    """Texts of the generated files by path."""
    names = read_names(NAMES)
    registry = Registry(xml)
    declarations = Declarations(registry)
    for name in names["structs"]:
        if name not in registry.types and name not in registry.aliases:
            raise SystemExit(f"{NAMES.name}: vk.xml has no structure {name}")
        declarations.need(name)
    for section in ("global", "instance", "device"):
        for name in names[f"commands.{section}"]:
            declarations.command(name)
    text = "\n".join([*declarations.lines, *names["exports"]])
    return {
        OUT / "cdef.py": cdef_module(text),
        OUT / "constants.py": constants_module(registry, names, declarations.structure_types),
    }


def main() -> int:
    """Command line; the exit status is 1 when `--check` finds a difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="compare with the committed files and write nothing"
    )
    parser.add_argument(
        "--xml", type=Path, help="vk.xml to read (default: the one in the package vulkan-object)"
    )
    options = parser.parse_args()
    stale = [
        p for p, text in generate(options.xml or find_xml()).items() if not _same(p, text, options.check)
    ]
    for path in stale:
        print(
            f"{path.relative_to(ROOT)} {'is stale: run python tools/gen_vk.py' if options.check else 'written'}"
        )
    return 1 if options.check and stale else 0


def _same(path: Path, text: str, check: bool) -> bool:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return True
    if not check:
        path.write_text(text, encoding="utf-8")
    return False


if __name__ == "__main__":
    sys.exit(main())
