"""What a benchmark found: a table for people, JSON for the record, and the aims it is held against."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.measure import Spread
from tools.project import ROOT, tomllib

RESULTS = ROOT / "bench" / "results"


@dataclass(frozen=True)
class Row:
    """One measured quantity, ours and the peers'."""

    name: str
    unit: str
    values: Mapping[str, Spread]  #: by candidate; ours is "oa"
    better: str = "lower"  #: or "higher"
    error: float | None = None  #: ||ours - reference|| / ||reference||, or what `error_of` says
    error_of: str = ""  #: what the error compares
    ceiling: float | None = None  #: the best that the device can do, in the unit of the row
    ceiling_of: str = ""  #: where the ceiling comes from
    aim: float | None = None  #: the worst that is good enough, in the unit of the row
    aim_of: str = ""  #: where the aim comes from
    reason: str = ""  #: why the aim is missed, where that is known (bench/reasons.toml)

    def ratio(self, peer: str) -> float | None:
        """How many times better ours is than a peer's; under 1 is worse."""
        if "oa" not in self.values or peer not in self.values:
            return None
        ours, theirs = self.values["oa"].median, self.values[peer].median
        return _part(theirs, ours) if self.better == "lower" else _part(ours, theirs)

    @property
    def fraction(self) -> float | None:
        """How near ours is to the ceiling: 1 reaches it."""
        if self.ceiling is None or "oa" not in self.values:
            return None
        ours = self.values["oa"].median
        return _part(self.ceiling, ours) if self.better == "lower" else _part(ours, self.ceiling)

    @property
    def short(self) -> bool:
        """Whether ours misses the row's own aim."""
        if self.aim is None or "oa" not in self.values:
            return False
        ours = self.values["oa"].median
        return ours > self.aim if self.better == "lower" else ours < self.aim

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "values": {name: value.json() for name, value in self.values.items()},
            "ratio": {name: self.ratio(name) for name in self.values if name != "oa"},
            "error": self.error,
            "error_of": self.error_of,
            "ceiling": self.ceiling,
            "ceiling_of": self.ceiling_of,
            "fraction": self.fraction,
            "aim": self.aim,
            "aim_of": self.aim_of,
            "short": self.short,
            "reason": self.reason,
        }


def _part(numerator: float, denominator: float) -> float | None:
    """A ratio; None where a measurement was zero, as a view's device time is."""
    return numerator / denominator if denominator else None


@dataclass
class Report:
    """The rows of one suite on one device."""

    suite: str
    device: Mapping[str, Any]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Append a row and print it at once, so that a run cut short has shown what it had."""
        if not self.rows:
            print(f"{self.suite} on {describe(self.device)}", flush=True)
        self.rows.append(row)
        print(line(row), flush=True)

    def json(self) -> dict[str, Any]:
        """As plain data, with what it ran on."""
        return {
            "suite": self.suite,
            "device": dict(self.device),
            "host": host(),
            "commit": commit(),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "rows": [row.json() for row in self.rows],
            "notes": self.notes,
        }


def describe(device: Mapping[str, Any]) -> str:
    """A device on one line."""
    return ", ".join(f"{value}" for value in device.values() if value)


def line(row: Row) -> str:
    """A row on one line: each candidate's median and spread, ratios, error, fraction of the ceiling."""
    parts = [f"  {row.name:<44}"]
    for name, value in row.values.items():
        parts.append(f"{name} {value.median:.4g} [{value.low:.4g}..{value.high:.4g}] {row.unit}")
        ratio = row.ratio(name) if name != "oa" else None
        if ratio is not None:
            parts[-1] += f" (x{ratio:.2f})"
    if row.fraction is not None:
        parts.append(f"{row.fraction:.0%} of {row.ceiling_of}")
    if row.error is not None:
        parts.append(f"error {row.error:.2g} {row.error_of}".rstrip())
    if row.short:
        parts.append(f"SHORT of {row.aim_of}: {row.reason or 'no reason recorded'}")
    return "  ".join(parts)


def host() -> dict[str, Any]:
    """What the host is, as far as it changes a result."""
    versions = {}
    for name in ("numpy", "cffi", "torch", "cupy-cuda12x", "cupy-cuda13x"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": versions,
        "environment": {name: os.environ[name] for name in ("LP_NUM_THREADS",) if name in os.environ},
    }


def commit() -> str:
    """The commit measured, with a plus sign where the tree differs from it. OA_COMMIT tells a copy without history."""
    if os.environ.get("OA_COMMIT"):
        return os.environ["OA_COMMIT"]
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def write(reports: list[Report], path: Path) -> None:
    """Store reports as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([report.json() for report in reports], indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


def reason(suite: str, device: str, row: str) -> str:
    """Why a row misses its aim on a device, as bench/reasons.toml records it; empty where it records none."""
    known = tomllib.loads((ROOT / "bench" / "reasons.toml").read_text(encoding="utf-8"))["reason"]
    for entry in known:
        if entry["suite"] == suite and entry["device"] in device and row in entry["rows"]:
            return str(entry["text"])
    return ""


def missed(report: Report) -> list[str]:
    """The aims in bench/floors.toml that a report does not reach, and rows' own without a recorded reason, as sentences."""
    aims = tomllib.loads((ROOT / "bench" / "floors.toml").read_text(encoding="utf-8"))["floor"]
    found = [
        f"{report.suite}: {row.name}: {row.values['oa'].median:.4g} {row.unit}, aim {row.aim:.4g} ({row.aim_of})"
        for row in report.rows
        if row.short and not row.reason
    ]
    for aim in aims:
        if aim["suite"] != report.suite or aim["device"] not in describe(report.device):
            continue
        for row in report.rows:
            if row.name == aim["row"] and "oa" in row.values:
                got, bound = row.values["oa"].median, aim["bound"]
                if got > bound if row.better == "lower" else got < bound:
                    found.append(f"{report.suite}: {row.name}: {got:.4g} {row.unit}, aim {bound:g}")
    return found
