"""Measured choices: what of them is kept and read, what may be chosen, and what is rejected before a pipeline is made."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from oa import matrix as m
from oa._device.tuned import Tuned
from oa._kernel.matmul.choose import VARIANTS
from oa._kernel.matmul.variants import tiles
from oa._lower.passes import lower
from oa._lower.rows import Rows, check_passes, row_schedule
from oa._run.tune import Record, Trial, TuningFile
from oa._tune import named, standard
from oa.errors import ArgumentError, Unsupported
from oa.tunable import Decision, decisions, keys, spills, unfit
from tests.null.lower_rig import PROFILES, Recorder, graph_of, profile

IDENTITY = {"device": "0123456789abcdef", "addressing": "address", "kernels": "fedcba9876543210-0"}
RECORD = Record("matmul x", "b", (Trial("a", 20.0), Trial("b", 10.0), Trial("c", None, "too large")))


def program(e: Recorder) -> list[Any]:
    """Products in several layouts, a batch, long sums, rows."""
    heads = m.matmul(e.input(8, 4, 128, 64), e.input(8, 4, 64, 32))
    return [
        m.softmax(m.matmul(e.input(300, 700), m.transpose(e.input(500, 700)))),
        m.sum(e.input(8, 400_000), axis=1),
        m.max(e.input(70_000, 40), axis=0),
        m.matmul(e.input(8, 9000), e.input(9000, 12)),
        m.matmul(e.input(1, 700), e.input(700, 400)),
        heads[:, :, ::-2, 1:] * 2.0,
    ]


def test_a_record_comes_back(tmp_path: Path) -> None:
    file = TuningFile(tmp_path, IDENTITY)
    assert file.load() == {} and file.note == ""
    assert file.save({RECORD.key: RECORD})
    assert TuningFile(tmp_path, IDENTITY).load() == {RECORD.key: RECORD}
    assert RECORD.gain == 2.0
    assert [p.suffix for p in (tmp_path / "tuning").iterdir()] == [".json"]


def damaged() -> dict[str, Any]:
    record = dataclasses.asdict(RECORD)
    good = {"schema": "oa.tuning/1", "made for": IDENTITY, "records": [record]}
    return {
        "empty": "",
        "cut short": json.dumps(good)[:-20],
        "no object": "[1]",
        "another schema": json.dumps({**good, "schema": "oa.tuning/2"}),
        "another driver": json.dumps({**good, "made for": {**IDENTITY, "device": "0" * 16}}),
        "another set of kernels": json.dumps({**good, "made for": {**IDENTITY, "kernels": "0"}}),
        "no list": json.dumps({**good, "records": 3}),
        "a choice not measured": json.dumps({**good, "records": [{**record, "choice": "c"}]}),
        "no text": json.dumps({**good, "records": [{**record, "key": 7}]}),
        "a negative time": json.dumps(
            {**good, "records": [{**record, "trials": [{"choice": "b", "ns": -1, "why": ""}]}]}
        ),
        "a missing field": json.dumps({**good, "records": [{"key": "k"}]}),
    }


@pytest.mark.parametrize("kind", damaged())
def test_what_is_not_whole_or_foreign_is_ignored_with_a_note(kind: str, tmp_path: Path) -> None:
    file = TuningFile(tmp_path, IDENTITY)
    assert file.path is not None
    file.path.parent.mkdir()
    file.path.write_text(damaged()[kind])
    assert file.load() == {}
    assert "was ignored" in file.note and "oa tune" in file.note
    assert file.save({RECORD.key: RECORD}) and file.load() == {RECORD.key: RECORD} and file.note == ""


def test_bytes_that_are_no_text_and_places_that_cannot_be_written(tmp_path: Path) -> None:
    file = TuningFile(tmp_path, IDENTITY)
    assert file.path is not None
    file.path.parent.mkdir()
    file.path.write_bytes(b"\xff\xfe\x00")
    assert file.load() == {} and file.note
    (tmp_path / "taken").write_text("")
    assert not TuningFile(tmp_path / "taken", IDENTITY).save({})
    assert not TuningFile(None, IDENTITY).save({}) and TuningFile(None, IDENTITY).load() == {}


@pytest.mark.parametrize("where", PROFILES)
def test_every_candidate_is_another_plan_and_lowers_to_itself(where: str) -> None:
    """What a choice is called leads to it again, the cost model's first, and no two are the same."""
    found = list(decisions(graph_of(program), profile(where)))
    assert {d.key.partition(" ")[0] for d in found} >= {"matmul", "reduce"}
    for decision in found:
        plans = [decision.program(c, profile(where)).plan for c in decision.candidates]
        assert len({p.digest for p in plans}) == len(plans), decision.key
        assert plans[0].digest == lower(decision.graph, profile(where)).plan.digest, decision.key
        assert keys(decision.graph, profile(where))[0] == decision.key or decision.key.startswith("rows")
        assert sorted(c for stage in decision.stages() for c in stage) == sorted(decision.candidates)


@pytest.mark.parametrize("where", PROFILES)
def test_a_measured_choice_goes_before_the_model_and_into_the_plan(where: str) -> None:
    graph, plain = graph_of(program), profile(where)
    for decision in decisions(graph, plain):
        chosen = dataclasses.replace(plain, tuned=Tuned({decision.key: decision.candidates[-1]}))
        assert lower(graph, chosen).plan.digest != lower(graph, plain).plan.digest, decision.key
        nonsense = dataclasses.replace(plain, tuned=Tuned({decision.key: "none such"}))
        assert lower(graph, nonsense).plan.digest == lower(graph, plain).plan.digest
        assert decision.key not in keys(graph, chosen)


def test_what_exceeds_the_device_is_rejected_by_its_kernels_alone() -> None:
    device = profile("card")
    limits = device.limits

    def rejections(decision: Decision, **less: Any) -> set[str]:
        small = dataclasses.replace(device, limits=dataclasses.replace(limits, **less))
        return {unfit(decision.program(c, device), small, c) for c in decision.candidates} - {""}

    for decision in decisions(graph_of(program), device):
        assert not rejections(decision)
        if decision.key.startswith("matmul float32 300"):
            assert any("workgroup memory" in why for why in rejections(decision, shared_bytes=4096))
            assert any("invocations" in why for why in rejections(decision, max_invocations=64))


def test_what_would_spill_is_rejected() -> None:
    """Tiles of 256 x 256 with 16 x 16 elements an invocation spill on every card seen; what is in the pack spills on none
    (tests/compile)."""
    assert "spill" in spills(tiles(256, 256, 16, 16, 16, 1, 2))
    assert "spill" in spills(tiles(512, 256, 16, 8, 8, 1, 2))
    software = ("lanes", "texels")
    for name, variant in VARIANTS.items():
        if not name.startswith(tuple(f"matmul.{kind}" for kind in software)):
            assert not spills(variant), name


def test_rows_longer_than_loops_may_be_are_shared_or_refused() -> None:
    device = profile("lavapipe-descriptor")
    for length in (32_768, 32_772, 1_000_000, 33_000_000):
        rows = Rows(3, length, length, True, False)
        schedule = row_schedule(rows, device)
        assert -(-length // (schedule.lanes * schedule.vec)) <= 8192 or schedule.lanes == 1024
        check_passes(schedule, length, 2, device)
    with pytest.raises(Unsupported, match="passes over rows"):
        check_passes(row_schedule(Rows(1, 30_000, 30_000, True, False), device), 30_000, 9, device)


def test_problems_have_names() -> None:
    for case in standard():
        assert named(case.name).name == case.name
        for where in ("card", "lavapipe-descriptor"):
            decision = case.decide(profile(where))
            assert decision is None or decision.key == named(case.name).decide(profile(where)).key
    for wrong in (
        "",
        "matmul",
        "matmul:3x4",
        "matmul:3x4x0",
        "matmul:3x4x5:xy",
        "rows:3",
        "sum:3x4",
        "sum:3x4:2",
        "sum:3x4:0,0",
        "x:1",
    ):
        with pytest.raises(ArgumentError, match="is no problem"):
            named(wrong)
