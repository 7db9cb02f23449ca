"""Measured choices on disk: one file for a device, driver, addressing and set of kernels, with the losers and their times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from oa._run.cache import replace_file

__all__ = ["Record", "Trial", "TuningFile"]

_SCHEMA = "oa.tuning/1"


@dataclass(frozen=True)
class Trial:
    """One candidate: its time in nanoseconds, or None and why it was rejected."""

    choice: str
    ns: float | None
    why: str = ""


@dataclass(frozen=True)
class Record:
    """One choice that was measured: the fastest candidate, and all of them in the order in which they were tried, the cost
    model's first."""

    key: str
    choice: str
    trials: tuple[Trial, ...]

    @property
    def gain(self) -> float:
        """How many times as long the cost model's choice took."""
        times = {t.choice: t.ns for t in self.trials}
        first, best = self.trials[0].ns, times.get(self.choice)
        return first / best if first and best else 1.0


class TuningFile:
    """The records of one device and set of kernels, in the folder of the pipeline cache. Losing them costs speed only: nothing
    here raises, and what is not whole or belongs to something else is left out with a `note`."""

    def __init__(self, directory: Path | None, identity: Mapping[str, str]) -> None:
        self._identity = dict(identity)
        name = "-".join(self._identity[k] for k in sorted(self._identity))
        self.path = None if directory is None else directory / "tuning" / f"{name}.json"
        self.note = ""  #: what was wrong with the file that is there

    def load(self) -> dict[str, Record]:
        """The records by key; empty when there are none."""
        self.note = ""
        if self.path is None:
            return {}
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError:
            return {}
        except UnicodeDecodeError:
            return self._ignored("it is no text")
        try:
            data = json.loads(text)
        except ValueError:
            return self._ignored("it is no JSON")
        if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
            return self._ignored(f"its schema is not {_SCHEMA}")
        if data.get("made for") != self._identity:
            return self._ignored("it was made for another device, driver or set of kernels")
        try:
            found = [_record(r) for r in data["records"]]
        except (KeyError, TypeError, ValueError) as cause:
            return self._ignored(f"a record is malformed ({cause})")
        return {r.key: r for r in found}

    def _ignored(self, why: str) -> dict[str, Record]:
        self.note = f"tuning record {self.path} was ignored: {why}; delete it or run `oa tune`"
        return {}

    def save(self, records: Mapping[str, Record]) -> bool:
        """Replace the file; False when the folder cannot be written."""
        if self.path is None:
            return False
        kept = [asdict(records[key]) for key in sorted(records)]
        text = json.dumps({"schema": _SCHEMA, "made for": self._identity, "records": kept}, indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, f"{text}\n".encode())
        except OSError:
            return False
        return True


def _record(data: Any) -> Record:
    trials = []
    for trial in data["trials"]:
        ns, why = trial["ns"], trial["why"]
        if not (ns is None or (isinstance(ns, (int, float)) and ns > 0)) or not isinstance(why, str):
            raise ValueError("a time is no positive number")
        trials.append(Trial(_text(trial["choice"]), None if ns is None else float(ns), why))
    made = Record(_text(data["key"]), _text(data["choice"]), tuple(trials))
    if not any(t.choice == made.choice and t.ns is not None for t in trials):
        raise ValueError("the choice was not measured")
    return made


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError("text expected")
    return found
