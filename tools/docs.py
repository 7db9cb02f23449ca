"""Writes the pages of docs/ that are derived from the code, or with --check compares them.

    python -m tools.docs [--check]

`docs/errors.md` lists the classes of `oa.errors`; `docs/benchmarks.md` shows what lies in bench/results/, `docs/ledger.md` what
lies in docs/ledger/; `docs/ops/` has a page an operation, `docs/inventory.json` says what stands for the names of the system
description. Nothing here opens a device.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import oa.core  # noqa: F401  every operation is declared once it is imported
from oa import errors
from oa._schema.registry import operations
from tools import inventory, ops_pages
from tools.project import ROOT

ERRORS_HEAD = """\
# Errors

<!-- Written by `./run docs` from oa/errors.py: change it there. -->

Every error of `oa` is an `oa.errors.OaError`. Each class also derives from the built-in exception that a NumPy user would
catch, so `except ValueError` and `except MemoryError` keep working. A message is a full sentence: what was asked, what was
found, what was wanted, how to mend it.

After any of these the engine stays usable, except after `DeviceLost` and `EngineClosed`.

| class | also is | meaning | carries |
|---|---|---|---|
"""

BENCHMARKS_HEAD = """\
# Benchmarks

<!-- Written by `./run docs` from bench/results/: run `./run bench` to change it. -->

Medians. In brackets: how many times better `oa` is than the other, under 1 is worse. Method and suites: bench/README.md.
"""

LEDGER_HEAD = """\
# Ledger

<!-- Written by `./run docs` from docs/ledger/: run `./run test --all`, or --ledger, to change it. -->

What each operation did on each device in recorded runs of the device tier: `runs on` the named configurations, in tests
against the oracle that all passed; `fails` in a test there; `not run`. Names with an underscore are the primitives behind
public functions. Nothing is called stable before it ran on three vendors' hardware.
"""


def error_classes() -> list[type[errors.OaError]]:
    """The classes in the order of their definition."""
    found = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.OaError)]
    return [c for c in found if c.__module__ == errors.__name__]


def errors_page() -> str:
    """The table of error classes."""
    rows = []
    for kind in error_classes():
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        fields = [
            f"`{name}`"
            for name, parameter in inspect.signature(kind.__init__).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        meaning = " ".join((inspect.getdoc(kind) or "").split())
        rows.append(f"| `{kind.__name__}` | {bases} | {meaning} | {', '.join(fields)} |")
    return ERRORS_HEAD + "\n".join(rows) + "\n"


def benchmarks_page() -> str:
    """One table for each stored report."""
    parts = [BENCHMARKS_HEAD]
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        for report in json.loads(path.read_text(encoding="utf-8")):
            device, host = report["device"], report["host"]
            variables = "".join(f", {name}={value}" for name, value in host["environment"].items())
            inputs = f"; inputs of {device['elements']}" if "elements" in device else ""
            parts.append(
                f"## {report['suite']}: {device['name']}\n\n"
                f"{device['driver']}, {device['profile']} with {device['addressing']} addressing; {host['cores']} cores, "
                f"Python {host['python']}{variables}{inputs}; commit {report['commit']}, {report['date'][:10]}.\n\n"
                "| what | unit | oa | others | error |\n|---|---|---|---|---|\n"
                + "\n".join(map(benchmark_row, report["rows"]))
                + "\n"
            )
    return "\n".join(parts)


def benchmark_row(row: dict[str, Any]) -> str:
    """A stored row as a row of the table: ours, the peers' with how many times better ours is, and the error."""
    ours = row["values"].get("oa", {}).get("median")
    parts = []
    for name, value in row["values"].items():
        if name != "oa":
            ratio = row["ratio"][name]
            parts.append(f"{name} {value['median']:.4g}" + ("" if ratio is None else f" (x{ratio:.2f})"))
    error = "" if row["error"] is None else f"{row['error']:.2g}, {row['error_of']}".rstrip(", ")
    fraction = row.get("fraction")
    reached = "" if fraction is None else f" ({fraction:.0%} of {row['ceiling_of']})"
    remark = f" short of {row['aim_of']}: {row['reason'] or 'no reason recorded'}" if row.get("short") else ""
    return f"| {row['name']} | {row['unit']} | {ours:.4g}{reached} | {'; '.join(parts)} | {error}{remark} |"


def ledger_page() -> str:
    """Operations against the devices with a recorded run of the device tier."""
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "docs" / "ledger").glob("*.json"))
    ]
    parts = [LEDGER_HEAD]
    for record in records:
        parts.append(
            f"- **{record['device']}**: {record['driver']}, commit {record['commit']}, {record['date']}\n"
        )
    titles = [record["device"].partition(" (")[0] for record in records]
    parts.append(f"\n| operation | result | {' | '.join(titles)} |\n|---|---|{'---|' * len(titles)}\n")
    found = [ledger_cells(record["rows"]) for record in records]
    declared = {(name, "") for name in operations()}
    ran = {key for cells in found for key in cells}
    for name, dtype in sorted(ran | {key for key in declared if key[0] not in {name for name, _ in ran}}):
        cells = [row.get((name, dtype), "not run") for row in found]
        parts.append(f"| `{name}` | {dtype} | {' | '.join(cells)} |\n")
    return "".join(parts)


def ledger_cells(rows: list[list[Any]]) -> dict[tuple[str, str], str]:
    """(operation, result dtype) -> what the ledger says of it, from rows of operation, dtype, configuration, passed, failed."""
    found: dict[tuple[str, str], list[list[Any]]] = {}
    for name, dtype, *rest in rows:
        found.setdefault((name, dtype), []).append(rest)
    cells = {}
    for key, counts in found.items():
        failing = [configuration for configuration, _, failed in counts if failed]
        good = ", ".join(sorted(configuration for configuration, _, _ in counts))
        cells[key] = f"fails: {', '.join(failing)}" if failing else f"runs on: {good}"
    return cells


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        ROOT / "docs" / "errors.md": errors_page(),
        ROOT / "docs" / "benchmarks.md": benchmarks_page(),
        ROOT / "docs" / "ledger.md": ledger_page(),
        inventory.PAGE: inventory.text(),
        **ops_pages.pages(),
    }


def main() -> int:
    """Write the pages that changed; with --check only name them, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description="the generated pages of docs/")
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    check = parser.parse_args().check
    stale = []
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    for path in ops_pages.leftover():
        stale.append(path)
        if not check:
            path.unlink()
    for path in stale:
        print(
            f"{path.relative_to(ROOT)} {'is stale: run ./run docs' if check else 'written' if path.exists() else 'removed'}"
        )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
