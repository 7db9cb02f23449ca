"""`docs/differences.md` says what is so: every row of its tables has a check here that does what the row says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import errors, ml
from oa import matrix as m
from tools.project import ROOT

PAGE = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
#: The first cell of every row of every table.
ROWS = [
    line.split(" | ")[0].removeprefix("| ")
    for line in PAGE.splitlines()
    if line.startswith("| ") and line.split(" | ")[0] not in ("| what", "| name")
]
CHECKS: dict[str, Callable[[Any], None]] = {}


def says(row: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """The check of one row."""

    def attach(check: Callable[[Any], None]) -> Callable[[Any], None]:
        CHECKS[row] = check
        return check

    return attach


def refuses(call: Callable[[], Any], *words: str, kind: type[Exception] = errors.DTypeError) -> None:
    with pytest.raises(kind) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@says("`m += v`")
def added(e: Any) -> None:
    x = m.ones(e, (2, 2))
    same, view, taken = x, x[0], x * 2.0
    x += 1.0
    assert x.tolist() == [[2.0, 2.0]] * 2
    assert (
        same.tolist() == [[1.0, 1.0]] * 2
        and view.tolist() == [1.0, 1.0]
        and taken.tolist() == [[2.0, 2.0]] * 2
    )


@says("`m[k] = v`")
def assigned(e: Any) -> None:
    x = m.ones(e, (2, 2))
    same, view = x, x[0]
    x[0] = 5.0
    assert x.tolist() == same.tolist() == [[5.0, 5.0], [1.0, 1.0]]
    assert view.tolist() == [1.0, 1.0]


@says("`/` of integers and bools")
def divided(e: Any) -> None:
    x = m.from_list(e, [1, 3, 0])
    assert (x / 2).dtype is oa.float32 and (x / 2).tolist() == [0.5, 1.5, 0.0]
    assert (m.from_list(e, [True]) / m.from_list(e, [True])).dtype is oa.float32
    assert (x / 0).tolist()[:2] == [np.inf, np.inf]
    assert (m.from_list(e, [16_777_217]) / 1).tolist() == [16_777_216.0]


@says("evaluation")
def deferred(e: Any) -> None:
    x = m.ones(e, (2,)) + 1.0
    assert not x.is_ready
    assert x.tolist() == [2.0, 2.0] and x.is_ready


@says("default float and integer")
def defaults(e: Any) -> None:
    assert (m.full(e, 1, 1.0).dtype, m.full(e, 1, 1).dtype) == (oa.float32, oa.int32)
    assert (m.from_list(e, [1.0]).dtype, m.arange(e, 3).dtype) == (oa.float32, oa.int32)


@says("`from_numpy` of a float64 array")
def kept_wide(e: Any) -> None:
    try:
        assert m.from_numpy(e, np.zeros(2)).dtype is oa.float64
    except errors.Unsupported as error:
        assert "float64" in str(error)
    assert m.from_numpy(e, np.zeros(2), dtype=oa.float32).dtype is oa.float32


@says("Python float with an integer array")
def weak_float(e: Any) -> None:
    refuses(lambda: m.ones(e, 2, dtype="int32") + 1.5, "astype(oa.float32)")


@says("mixed dtypes that the array API leaves undefined (float32 with int32)")
def undefined_mix(e: Any) -> None:
    refuses(lambda: m.ones(e, 2) + m.ones(e, 2, dtype="int32"), "astype(oa.float32)")


@says("float to integer")
def saturating(e: Any) -> None:
    found = m.astype(m.from_list(e, [1e20, -1e20, float("nan"), -1.9]), "int32")
    assert found.tolist() == [2**31 - 1, -(2**31), 0, -1]


@says("an integer index array outside the axis")
def outside(e: Any) -> None:
    at = m.from_list(e, [-4, -3, 2, 3])
    np.testing.assert_array_equal(m.from_list(e, [1.0, 2.0, 3.0])[at].to_numpy(), [np.nan, 1.0, 3.0, np.nan])
    assert m.from_list(e, [1, 2, 3])[at].tolist() == [0, 1, 3, 0]
    assert m.from_list(e, [True, True, True])[at].tolist() == [False, True, True, False]
    refuses(lambda: m.ones(e, 3)[3], "out of range", kind=errors.AxisError)
    x = m.from_list(e, [1.0, 2.0, 3.0])
    x[at] = 9.0
    assert x.tolist() == [9.0, 2.0, 9.0]


@says(
    "a denormal float32 under `log`, `log2` or `log10`, as base of `pow`, as divisor of `remainder` or `floor_divide`"
)
def denormals(e: Any) -> None:
    tiny = m.from_numpy(e, np.array([1e-42, -1e-42], np.float32))
    for function in (m.log, m.log2, m.log10):
        assert function(m.abs(tiny)).tolist() == [-np.inf, -np.inf]
    assert m.pow(m.abs(tiny), 0.5).tolist() == [0.0, 0.0]
    one = m.ones(e, (2,))
    assert np.isnan(m.remainder(one, tiny).to_numpy()).all()
    assert m.floor_divide(one, tiny).tolist() == [np.inf, -np.inf]


@says("integer division by zero")
def by_zero(e: Any) -> None:
    assert (m.from_list(e, [7, -7]) // 0).tolist() == [0, 0]
    assert (m.from_list(e, [7, -7]) % 0).tolist() == [0, 0]


@says("NumPy functions on a value")
def numpy_functions(e: Any) -> None:
    x = m.ones(e, (2, 2))
    for call, name in (
        (lambda: np.exp(x), "oa.matrix.exp"),
        (lambda: np.sum(x), "oa.matrix.sum"),
        (lambda: np.concatenate([x, x]), "oa.matrix.concat"),
    ):
        refuses(call, name, kind=TypeError)
    assert np.asarray(x).tolist() == x.to_numpy().tolist() == [[1.0, 1.0]] * 2
    assert np.shape(x) == (2, 2)
    assert np.allclose(x, 1.0) and np.atleast_3d(x).shape == (2, 2, 1) and np.linalg.norm(x) == 2.0


@says("rank")
def rank(e: Any) -> None:
    assert m.zeros(e, (1,) * 8).ndim == 8
    refuses(lambda: m.zeros(e, (1,) * 9), "rank 9", kind=errors.ShapeError)


@says("bfloat16")
def short_floats(e: Any) -> None:
    x = m.astype(m.from_list(e, [1.0, 257.0]), oa.bfloat16)
    assert x.dtype is oa.bfloat16 and x.tolist() == [1.0, 256.0]
    assert m.astype(x, oa.float32).to_numpy().tolist() == [1.0, 256.0]
    try:
        import ml_dtypes
    except ImportError:
        refuses(x.to_numpy, "ml_dtypes")
    else:
        assert x.to_numpy().dtype == ml_dtypes.bfloat16


@says("order of a sum")
def order(e: Any) -> None:
    data = np.random.default_rng(3).normal(size=(7, 1000)).astype(np.float32)
    x = m.from_numpy(e, data)
    turned = m.from_numpy(e, np.asfortranarray(data))
    plan = e.capture(lambda: m.sum(x, axis=1))
    e.submit(plan)
    for found in (m.sum(x, axis=1), m.sum(turned, axis=1), plan.outputs):
        assert found.to_numpy().tobytes() == m.sum(x, axis=1).to_numpy().tobytes()


@says("dimension arguments")
def dimensions(e: Any) -> None:
    assert m.sum(m.ones(e, (2, 3)), axis=0, keepdims=True).shape == (1, 3)
    refuses(lambda: m.sum(m.ones(e, (2, 3)), dim=0), "dim", kind=errors.ArgumentError)


@says("`transpose(x)`")
def transposed(e: Any) -> None:
    x = m.zeros(e, (2, 3, 4))
    assert m.transpose(x).shape == (4, 3, 2) and m.transpose(x, 0, 1).shape == (3, 2, 4)


@says("gradients")
def gradients(e: Any) -> None:
    x = m.full(e, (2,), 3.0)
    with ml.GradientTape() as tape:
        tape.watch(x)
        loss = m.sum(x * x)
    assert tape.gradient(loss, [x])[0].tolist() == [6.0, 6.0]


@says("in-place operations")
def in_place(e: Any) -> None:
    cell = oa.State(e, m.ones(e, (2,)))
    read = cell.value
    cell.assign(read + 1.0)
    assert (read.tolist(), cell.value.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    assert not hasattr(read, "add_")


@says("an index outside `Embedding`, a target outside `cross_entropy`")
def class_numbers(e: Any) -> None:
    layer, logits = ml.Embedding(e, 3, 2), m.zeros(e, (1, 3))
    for wrong in (-1, 3):
        number = m.from_list(e, [wrong])
        assert np.isnan(layer(number).to_numpy()).all() and np.isnan(ml.cross_entropy(logits, number).item())


@says("ignored targets")
def ignored_targets(e: Any) -> None:
    logits, targets = m.zeros(e, (2, 4)), m.from_list(e, [1, -100])
    assert np.isnan(ml.cross_entropy(logits, targets).item())
    assert ml.cross_entropy(logits, targets, ignore_index=-100).item() == pytest.approx(np.log(4.0))


@says("`mat_mul_nt(a, b)`")
def product(e: Any) -> None:
    a, b = m.ones(e, (2, 3)), m.ones(e, (4, 3))
    assert m.mat_mul_nt(a, b).tolist() == m.matmul(a, m.transpose(b)).tolist()


@says("`gather(x, indices, axis)`")
def gathered(e: Any) -> None:
    data, at = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.array([[2, 0], [1, 1]], np.int32)
    x, indices = m.from_numpy(e, data), m.from_numpy(e, at)
    assert m.gather(x, indices, 1).tolist() == np.take_along_axis(data, at, 1).tolist()
    assert m.take(x, indices, axis=1).tolist() == np.take(data, at, 1).tolist()


@says("`to_list()`, `read_f32()`")
def flat(e: Any) -> None:
    x = m.from_list(e, [[1.0, 2.0], [3.0, 4.0]])
    assert x.to_list() == x.read_f32() == [1.0, 2.0, 3.0, 4.0]
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_what_is_to_be_written_for_numpys_names_works(any_engine: Any) -> None:
    """The lines of the list run, on a value x of rank 2 and others that they name."""
    lines = re.findall(r"^- `np\.\w+[^`]*`.*?: `([^`]+)`$", PAGE, re.MULTILINE)
    assert len(lines) > 10
    x = m.from_list(any_engine, [[3.0, float("nan")], [1.0, 2.0]])
    given = {
        "x": x,
        "y": m.ones_like(x),
        "w": m.ones_like(x),
        "edges": m.from_list(any_engine, [0.0, 2.0]),
        "n": 3,
    }
    given |= {
        "i": m.from_list(any_engine, [0, 2, 2]),
        "v": m.from_list(any_engine, [1.0, 2.0]),
        "matrix": m,
        "oa": oa,
    }
    for line in lines:
        found = eval(line, given)  # the page's own lines
        (found[0] if isinstance(found, tuple) else found).tolist()


def test_every_row_is_checked() -> None:
    assert list(dict.fromkeys(ROWS)) == ROWS and len(ROWS) > 15
    assert set(ROWS) == set(CHECKS), (
        "every row of docs/differences.md wants a check here, and every check a row"
    )
    assert not re.search(r"\bTODO\b", PAGE)


@pytest.mark.parametrize("row", ROWS)
def test_a_difference_is_as_it_says(any_engine: Any, row: str) -> None:
    CHECKS[row](any_engine)
