"""Tuning on a device: what is measured decides in this process and the next, and what computes something else is rejected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import tuning
from oa._run.tune import TuningFile
from oa.errors import OutOfMemory
from oa.tunable import decisions
from tests.conftest import CONFIGURATIONS
from tests.oracle import matrix as oracle
from tests.oracle.compare import agrees
from tests.oracle.inputs import gentle


def numbers(engine: Any, *shape: int) -> tuple[np.ndarray[Any, Any], Any]:
    x = gentle(shape, np.random.default_rng(shape))
    return x, m.from_numpy(engine, x)


@pytest.fixture(params=list(CONFIGURATIONS))
def fresh(
    request: pytest.FixtureRequest, device_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A function that opens engines whose measured choices lie in a folder of the test."""
    plain = TuningFile.__init__

    def elsewhere(self: TuningFile, _: Any, identity: Any) -> None:
        plain(self, tmp_path, identity)

    monkeypatch.setattr(TuningFile, "__init__", elsewhere)
    monkeypatch.setattr(tuning, "_MOST_RUNS", 3)
    profile, addressing = CONFIGURATIONS[request.param]
    made: list[oa.Engine] = []

    def opened(**named: Any) -> oa.Engine:
        made.append(oa.Engine(device_name, profile=profile, addressing=addressing, **named))
        return made[-1]

    yield opened
    for engine in made:
        engine.close()


def product(engine: Any) -> tuple[Any, Any]:
    """A captured product with an epilogue and a long sum, and what is expected."""
    (a, held_a), (b, held_b) = numbers(engine, 33, 700), numbers(engine, 700, 40)
    return engine.capture(lambda: m.matmul(held_a, held_b) * 2.0), oracle.matmul(a, b) * 2.0


def test_a_plan_is_tuned_once_and_the_next_engine_knows(fresh: Any) -> None:
    engine = fresh()
    before = product(engine)[0]._plan.digest
    engine._tuning.active = True
    engine._programs._known.clear()
    plan, wanted = product(engine)
    (record,) = engine._tuning.records.values()
    assert record.key.startswith("matmul float32 33x40x700")
    assert len([t for t in record.trials if t.ns is not None]) > 1
    told = plan.explain()
    assert "tuned: 1 measured choice for this device" in told and f"{record.key}: {record.choice}" in told
    engine.submit(plan)
    got = plan.outputs.to_numpy()
    bound = 4 * 700 * 2.0**-24 * (np.abs(wanted).max() + 1)
    assert agrees(got, wanted, 1.0, bound).all()
    lowerings = engine.diagnostics["lowerings"]
    assert product(engine)[0]._plan.digest == plan._plan.digest
    assert engine._tuning.records == {record.key: record} and engine.diagnostics["lowerings"] == lowerings + 1
    second = fresh()
    again = product(second)[0]
    assert again._plan.digest == plan._plan.digest and f"{record.key}: {record.choice}" in again.explain()
    strict = fresh(numeric="deterministic")
    assert product(strict)[0]._plan.digest == before and "tuned:" not in product(strict)[0].explain()


def test_every_candidate_computes_the_same(fresh: Any) -> None:
    """On whole numbers to the bit, whatever the order: no variant of any choice is rejected on this device."""
    engine = fresh()
    held = [
        numbers(engine, *s)[1] for s in ((65, 130), (130, 70), (3, 5000), (2, 9, 64), (1, 600), (600, 48))
    ]

    def several() -> Any:
        a, b, long, batch, row, tall = held
        return (
            m.matmul(a, b), m.sum(long, axis=1), m.prod(long, axis=1), m.max(long, axis=0),
            m.matmul(batch, m.permute_dims(batch, (0, 2, 1))), m.matmul(row, tall), m.softmax(long),
        )  # fmt: skip

    found = list(decisions(engine.capture(several)._graph, engine._programs.profile))
    assert len(found) >= 4
    for decision in found:
        record = engine._tuning.tune(decision, engine._programs.profile)
        assert record is not None
        assert [t for t in record.trials if t.ns is None] == [], decision.key


def test_what_differs_or_fails_is_rejected_with_its_reason(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fresh()
    held = numbers(engine, 64, 2048)[1]
    graph = engine.capture(lambda: m.matmul(held, m.transpose(held)))._graph
    (decision,) = decisions(graph, engine._programs.profile)
    plain, calls = tuning._Trials._results, []

    def results(self: Any, program: Any) -> list[bytes]:
        calls.append(program)
        found = plain(self, program)
        if len(calls) == 2:
            return [b"\0" + found[0][1:-1] + b"\x7f"]
        if len(calls) == 3:
            raise OutOfMemory("no room for it")
        return found

    monkeypatch.setattr(tuning._Trials, "_results", results)
    record = engine._tuning.tune(decision, engine._programs.profile)
    assert "differ" in record.trials[1].why and "no room" in record.trials[2].why
    assert record.choice not in (record.trials[1].choice, record.trials[2].choice)
    monkeypatch.undo()
    assert m.sum(held * 0.0).item() == 0.0  # the engine goes on


def test_what_the_device_cannot_have_never_becomes_a_pipeline(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fresh()
    held = numbers(engine, 65, 130)[1]
    (decision,) = decisions(
        engine.capture(lambda: m.matmul(held, m.transpose(held)))._graph, engine._programs.profile
    )
    last = decision.candidates[1]
    monkeypatch.setattr(tuning, "unfit", lambda p, d, c: "too large" if c == last else "")
    made: list[str] = []
    monkeypatch.setattr(engine.device, "pipeline", _watch(engine.device.pipeline, made))
    record = engine._tuning.tune(decision, engine._programs.profile)
    assert {t.choice: t.why for t in record.trials}[last] == "too large"
    assert last.partition(" ")[0] not in made and len(made) > 0


def _watch(plain: Any, made: list[str]) -> Any:
    def pipeline(*args: Any, **named: Any) -> Any:
        made.append(named["name"])
        return plain(*args, **named)

    return pipeline


def test_a_damaged_record_is_a_note_and_no_error(fresh: Any) -> None:
    engine = fresh()
    path = engine._tuning.file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    other = fresh()
    assert other._tuning.records == {} and "was ignored" in other._tuning.file.note
    assert m.ones(other, (3,)).tolist() == [1.0, 1.0, 1.0]


def run(tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "OA_CACHE_DIR": str(tmp_path), "OA_VALIDATE": "0", "OA_SELFTEST": "0", **env}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=settings, check=False)


def test_the_command_keeps_what_it_measured(tmp_path: Path, device_name: str) -> None:
    problems = ("matmul:40x30x50:nt", "sum:2x9000:1")
    ran = run(tmp_path, "-m", "oa", "tune", "--json", "--device", device_name, *problems)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [p["name"] for p in told["problems"]] == list(problems)
    assert all(
        len(p["trials"]) > 1 and p["choice"] in {t["choice"] for t in p["trials"]} for p in told["problems"]
    )
    kept = json.loads(Path(told["file"]).read_text())
    assert {r["key"] for r in kept["records"]} == {p["key"] for p in told["problems"]}
    table = run(tmp_path, "-m", "oa", "tune", "--device", device_name, problems[0])
    assert table.returncode == 0 and problems[0] in table.stdout and "1 choices kept" in table.stdout
    wrong = run(tmp_path, "-m", "oa", "tune", "--device", device_name, "matmul:3")
    assert wrong.returncode == 1 and "is no problem" in wrong.stderr


def test_the_variable_tunes_what_a_plan_needs(tmp_path: Path, device_name: str) -> None:
    code = (
        "import oa; e = oa.Engine(); a = oa.matrix.ones(e, (33, 200)); "
        "print(float(oa.matrix.sum(oa.matrix.matmul(a, a.T)).item()), len(e._tuning.records))"
    )
    first = run(tmp_path, "-c", code, OA_TUNE="1", OA_DEVICE=device_name)
    assert first.returncode == 0, first.stderr
    assert first.stdout.split()[0] == "217800.0" and int(first.stdout.split()[1]) >= 1
    second = run(tmp_path, "-c", code, OA_DEVICE=device_name)
    assert second.stdout == first.stdout
