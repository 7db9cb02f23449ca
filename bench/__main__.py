"""Runs benchmark suites by name; each is a module of bench/suite/ with `run(options) -> list[Report]`.

python -m bench [NAMES] [--device NAME] [--quick] [--floors] [--out FILE]
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from pathlib import Path

from bench.report import RESULTS, Report, missed, write
from tools.project import ROOT


def suites() -> dict[str, str]:
    """Name -> first line of the description of every suite."""
    found = {}
    for path in sorted((ROOT / "bench" / "suite").glob("*.py")):
        if not path.stem.startswith("_"):
            lines = path.read_text(encoding="utf-8").splitlines()
            found[path.stem] = lines[0].strip('"') if lines else ""
    return found


def destination(options: argparse.Namespace, reports: list[Report]) -> Path:
    """Where results go: --out, else a file named by suites and device under $OUT or bench/results/; git keeps older ones."""
    if options.out is not None:
        return Path(options.out)
    folder = Path(os.environ["OUT"]) if os.environ.get("OUT") else RESULTS
    device = re.sub(r"[^a-z0-9]+", "-", reports[0].device["name"].partition("(")[0].lower()).strip("-")
    return folder / f"{'-'.join(options.names)}-{device}.json"


def main() -> int:
    """Run the suites, print and store what they found."""
    known = suites()
    listing = "\n".join(f"  {name:<12} {text}" for name, text in known.items())
    parser = argparse.ArgumentParser(
        prog="./run bench",
        description="Benchmarks; results are printed and stored as JSON.",
        epilog=f"suites:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="suites to run (none: list them)")
    parser.add_argument(
        "--device", default=os.environ.get("OA_DEVICE") or "auto", help="as oa.Engine takes it"
    )
    parser.add_argument(
        "--only", metavar="NAME", help="of suite `arrays` the operation of this name alone, and the copy"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that a suite works")
    parser.add_argument("--floors", action="store_true", help="exit 1 where an aim of floors.toml is missed")
    parser.add_argument("--out", metavar="FILE", help="the JSON file (default: bench/results/, or $OUT)")
    options = parser.parse_args()
    if not options.names:
        print(f"suites:\n{listing}")
        return 0
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    reports: list[Report] = []
    for name in options.names:
        reports += importlib.import_module(f"bench.suite.{name}").run(options)
    write(reports, destination(options, reports))
    short = [sentence for report in reports for sentence in missed(report)]
    for sentence in short:
        print(f"aim missed: {sentence}")
    return 1 if options.floors and short else 0


if __name__ == "__main__":
    sys.exit(main())
