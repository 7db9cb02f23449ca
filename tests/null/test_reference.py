"""The reference: every public operation is described in full, in pages, in the terminal and as data."""

from __future__ import annotations

import json

import pytest

from oa import matrix as m
from oa import reference
from oa.__main__ import main
from tools import inventory, ops_pages
from tools.project import ROOT

ENTRIES = {entry.name: entry for entry in reference.entries()}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_part_is_there(name: str) -> None:
    entry = ENTRIES[name]
    assert not entry.missing()
    assert entry.summary and "\n" not in entry.summary
    assert entry.kinds or entry.dtypes.startswith("none taken"), (
        f"Dtypes: {entry.dtypes!r} starts with no known words"
    )


def test_every_public_function_is_described() -> None:
    functions = {n for n in m.__all__ if callable(getattr(m, n)) and not isinstance(getattr(m, n), type)}
    linear = {f"linalg.{n}" for n in m.linalg.__all__ if n not in functions}
    ml = {"ml.cross_entropy", "ml.dropout", "ml.layer_norm", "ml.scaled_dot_product_attention"}
    assert {f"matrix.{n}" for n in functions | linear} | ml == set(ENTRIES)


def test_what_a_declaration_knows() -> None:
    exp = ENTRIES["matrix.exp"]
    assert exp.gradient == "x: g * r."
    assert exp.devices() == {
        "": ("float16", "float32", "complex64", "bfloat16"),
        "float64 and int64": ("float64", "complex128"),
    }
    assert ENTRIES["matrix.divide"].gradient == "a: g / b; b: -(g * r / b)."
    assert ENTRIES["matrix.subtract"].gradient == "a: g; b: -g."
    assert ENTRIES["matrix.floor"].gradient == "0 everywhere."
    assert "bool" not in ENTRIES["matrix.add"].devices()[""]
    assert ENTRIES["matrix.bitwise_left_shift"].devices() == {
        "": ("int8", "int16", "int32", "uint8", "uint16", "uint32"),
        "int64": ("int64", "uint64"),
    }
    assert ENTRIES["matrix.linalg.svd"].devices() == {"": ("float32",), "float64 and int64": ("float64",)}


def test_sections_of_a_docstring() -> None:
    def sample(x: m.Matrix, y: int = 3) -> m.Matrix:
        """x
        to y. Raises ShapeError for odd ones.

        More.
        Shapes: any,
            or none.
        Dtypes: integer; no others.

        >>> 1
        1
        """
        return x

    entry = reference.entry("matrix.sample", sample)
    assert (entry.formula, entry.notes) == ("x to y.", "More.")
    assert (entry.shapes, entry.dtypes, entry.kinds) == ("any, or none.", "integer; no others.", "iu")
    assert (entry.raises, entry.example) == ("ShapeError for odd ones.", ">>> 1\n1")
    assert entry.signature == "(x: m.Matrix, y: int = 3) -> m.Matrix"
    assert entry.missing() == ["gradient"]


def test_pages() -> None:
    pages = {path.name: text for path, text in ops_pages.pages().items()}
    assert len(pages) == len(ENTRIES) + 2
    for entry in ENTRIES.values():
        assert f"]({entry.name.removeprefix('matrix.')}.md)" in pages["README.md"]
    assert "g \\* r" in pages["exp.md"] and "| with int64 | int64, uint64 |" in pages["add.md"]


def test_the_page_of_the_class() -> None:
    assert all(ops_pages.members().values()), "an attribute or method without a docstring"
    assert "to_numpy() -> np.ndarray[Any, Any]" in ops_pages.members()
    assert {f"matrix.{name}" for name in ops_pages.OPERATORS.values()} <= set(ENTRIES)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["ops", *arguments]) == 0
    return capsys.readouterr().out


def test_the_list_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(said(capsys).splitlines()) == len(ENTRIES)
    found = said(capsys, "cumulative").splitlines()
    assert [line.split()[0] for line in found] == [
        "matrix.cumulative_prod",
        "matrix.cumulative_sum",
        "matrix.diff",
    ]


def test_a_namespace_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "linalg.svd") == said(capsys, "matrix.linalg.svd") == said(capsys, "svd")
    assert all(line.startswith("matrix.linalg.") for line in said(capsys, "linear algebra").splitlines())


@pytest.mark.parametrize("name", ["exp", "matrix.exp", "oa.matrix.exp"])
def test_one_operation_in_a_terminal(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = said(capsys, name)
    assert (
        text.startswith("matrix.exp(x: Matrix) -> Matrix\n")
        and "Gradient: x: g * r." in text
        and ">>> " in text
    )


def test_operations_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["name"] for row in json.loads(said(capsys, "--json"))] == list(ENTRIES)
    one = json.loads(said(capsys, "exp", "--json"))
    assert (one["area"], one["devices"]["every"]) == (
        "Elementwise",
        ["float16", "float32", "complex64", "bfloat16"],
    )


def test_an_unknown_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "frobnicate"]) == 1
    assert "frobnicate" in capsys.readouterr().err


def test_the_inventory() -> None:
    lines = [
        line for line in inventory.LIST.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")
    ]
    rows = {row["name"]: row for row in inventory.rows()}
    assert len(rows) == len(lines)
    assert all(row["present"] for row in rows.values() if row["oa"]), (
        "a name stands for something that does not exist"
    )
    for column in ("tested", "documented", "device"):
        assert not [n for n, row in rows.items() if row["present"] and not row[column]]
    assert json.loads(inventory.text())["count"]["names"] == len(rows)


def test_expected_failures_of_the_public_suite_are_counted() -> None:
    lines = (ROOT / "tests" / "array_api_xfails.txt").read_text(encoding="utf-8").splitlines()
    expected = [line for line in lines if line.startswith("array_api_tests/")]
    assert len(set(expected)) == len(expected) <= 20
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    assert f" {len(expected)} tests fail " in page
