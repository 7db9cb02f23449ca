"""Evidence for the ledger: which operations ran, on what, in tests that passed.

Active with --ledger, and with --all. Each test's operations travel with its report, so that xdist workers need nothing more;
the process that gathers the reports counts those of tests/device/ and writes one file a device, `docs/ledger/NAME.json`, from
which `./run docs` makes `docs/ledger.md`. With --all alone it writes only when that folder was run as a whole.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from bench.report import commit

FOLDER = Path(__file__).parent.parent / "docs" / "ledger"
PROPERTY = "operations"


class Recorder:
    """In the process that runs tests: notes every operation that an engine records during a test's call."""

    def __init__(self) -> None:
        from oa.engine import Engine

        self._used: set[tuple[str, ...]] = set()
        plain = Engine.record

        def record(engine: Engine, instance: Any, *rest: Any) -> Any:
            snapshot, profile = engine.device.snapshot, engine.device.profile
            driver = f"{snapshot.driver_name} {snapshot.driver_info}".strip()
            configuration = f"{profile.name}+{profile.addressing}"
            self._used.add(
                (snapshot.name, driver, instance.op.name, instance.outs[0].dtype.name, configuration)
            )
            return plain(engine, instance, *rest)

        # Under the engine's module name: the lines that errors and profiles show are those outside the package.
        inside = {"__name__": Engine.__module__, "__builtins__": __builtins__}
        Engine.record = FunctionType(record.__code__, inside, closure=record.__closure__)  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Give the test's report the operations of its call."""
        self._used.clear()
        try:
            return (yield)
        finally:
            if self._used:
                item.user_properties.append((PROPERTY, sorted(self._used)))


class Gatherer:
    """In the process that reports: counts passing and failing tests for each operation, and writes the files."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], list[int]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one test."""
        if (
            report.when != "call"
            or report.outcome == "skipped"
            or not report.nodeid.startswith("tests/device/")
        ):
            return
        for name, rows in report.user_properties:
            if name == PROPERTY:
                for row in rows:
                    self._counts.setdefault(tuple(row), [0, 0])[report.outcome != "passed"] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write one file a device, unless only a part of the tests was asked for and nobody asked for their record."""
        option = session.config.option
        whole = session.config.args_source is not pytest.Config.ArgsSource.ARGS
        if not option.ledger and (option.keyword or option.markexpr not in ("", "device") or not whole):
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        for device, driver in sorted({key[:2] for key in self._counts}):
            rows = [
                [*key[2:], *self._counts[key]] for key in sorted(self._counts) if key[:2] == (device, driver)
            ]
            slug = re.sub(r"[^a-z0-9]+", "-", f"{device.partition('(')[0]} {driver}".lower()).strip("-")
            (FOLDER / f"{slug}.json").write_text(_text(device, driver, rows), encoding="utf-8")


def _text(device: str, driver: str, rows: list[list[Any]]) -> str:
    """One line a row (operation, dtype, configuration, passed, failed), so that two runs compare line by line."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    head = {"device": device, "driver": driver, "commit": commit(), "date": today}
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return "\n".join(["{", *lines, ' "rows": [', body, " ]", "}"]) + "\n"


def register(config: pytest.Config) -> None:
    """Switch recording on in this process, and gathering where reports arrive."""
    config.pluginmanager.register(Recorder(), "oa-ledger-recorder")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Gatherer(), "oa-ledger-gatherer")
