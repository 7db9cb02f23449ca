"""The suites of bench/ as data: the cases of `arrays` leave nothing out, and what reports say of a row."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from bench.arrays import CASES, WITHOUT
from bench.arrays.case import error, hosts
from bench.measure import spread
from bench.report import Report, Row, line, missed
from oa import matrix
from tools.project import ROOT, tomllib


def public_functions() -> set[str]:
    """The names of the functions that oa.matrix and its linalg offer."""
    found = {name for name in matrix.__all__ if inspect.isroutine(getattr(matrix, name))}
    return found | {f"linalg.{name}" for name in matrix.linalg.__all__}


def test_every_public_function_is_measured_or_has_a_reason() -> None:
    measured = {case.name.partition(",")[0] for case in CASES}
    without = {name for names in WITHOUT.values() for name in names}
    assert not measured & without
    assert measured | without == public_functions()


def test_names_of_cases_are_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_reasons_name_rows() -> None:
    known = {case.name for case in CASES}
    reasons = tomllib.loads((ROOT / "bench" / "reasons.toml").read_text(encoding="utf-8"))["reason"]
    for entry in reasons:
        if entry["suite"] == "arrays":
            assert set(entry["rows"]) <= known


def test_inputs_of_cases_exist_and_numpy_takes_them() -> None:
    arrays = hosts(1 << 16)
    for case in CASES:
        given = [arrays[name] for name in case.inputs]
        if case.numpy is not None and "linalg" not in case.name:
            with np.errstate(all="ignore"):
                case.numpy(np, *given)


@pytest.mark.parametrize(
    ("ours", "exact", "wanted"),
    [
        (np.float32([1, 2]), np.float64([1, 2]), 0.0),
        (np.float32([0, 3]), np.float64([4, 3]), 0.8),
        (np.float32([np.inf, 1]), np.float64([np.inf, 1]), 0.0),
        (np.int32([1, 2, 3, 4]), np.int64([1, 2, 0, 0]), 0.5),
        (np.float32([1]), np.float64([1, 2]), np.inf),
        (np.float32([0.25]), np.float64([0]), 0.25),
    ],
)
def test_error(ours: np.ndarray, exact: np.ndarray, wanted: float) -> None:
    assert error(ours, exact) == pytest.approx(wanted)


def rows(reason: str) -> Report:
    """A report with a row that misses its aim, and one that meets it."""
    report = Report("arrays", {"name": "a device"})
    for name, ours in (("slow", 10.0), ("fast", 3.0)):
        values = {"oa": spread([ours]), "numpy": spread([0.0])}
        report.rows.append(
            Row(
                name,
                "us",
                values,
                ceiling=3.0,
                ceiling_of="our copy",
                aim=4.0,
                aim_of="an aim",
                reason=reason,
            )
        )
    return report


def test_a_missed_aim_is_said_once_with_its_reason() -> None:
    (sentence,) = missed(rows(""))
    assert "slow" in sentence
    assert "no reason recorded" in line(rows("").rows[0])
    assert not missed(rows("the reason"))
    assert "the reason" in line(rows("the reason").rows[0])
    assert "SHORT" not in line(rows("").rows[1])


def test_the_part_of_the_ceiling() -> None:
    slow, fast = rows("").rows
    assert slow.fraction == pytest.approx(0.3)
    assert fast.fraction == pytest.approx(1.0)
    assert fast.ratio("numpy") == 0.0
