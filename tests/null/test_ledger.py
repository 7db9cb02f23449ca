"""What tests record is what the ledger's page says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import ledger
from tools.docs import ledger_cells


def report(passed: bool, *rows: tuple[str, ...]) -> Any:
    return SimpleNamespace(
        when="call",
        outcome="passed" if passed else "failed",
        nodeid="tests/device/test_some.py::test_it",
        user_properties=[(ledger.PROPERTY, [("Card (rev 1)", "driver 1", *row) for row in rows])],
    )


def test_passes_and_failures_reach_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ledger, "FOLDER", tmp_path)
    gatherer = ledger.Gatherer()
    add, exp = ("matrix.add", "float32"), ("matrix.exp", "float16")
    gatherer.pytest_runtest_logreport(report(True, (*add, "strict+address"), (*exp, "strict+address")))
    gatherer.pytest_runtest_logreport(report(True, (*add, "compat+descriptor")))
    gatherer.pytest_runtest_logreport(report(False, (*exp, "strict+address")))
    options = SimpleNamespace(ledger=True, keyword="", markexpr="")
    session = SimpleNamespace(config=SimpleNamespace(option=options, args_source=None))
    gatherer.pytest_sessionfinish(session)  # type: ignore[arg-type]
    (written,) = tmp_path.glob("*.json")
    assert written.name == "card-driver-1.json"
    assert ledger_cells(json.loads(written.read_text(encoding="utf-8"))["rows"]) == {
        add: "runs on: compat+descriptor, strict+address",
        exp: "fails: strict+address",
    }
