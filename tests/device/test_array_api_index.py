"""Reading and writing by every kind of key, beside NumPy; what rebinding leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.oracle.inputs import values

Array = np.ndarray[Any, Any]
I = np.array
MASK = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0]], bool)

#: Keys for a value of shape (3, 4, 5).
KEYS: dict[str, Any] = {
    "int": 1,
    "negative": -1,
    "ints": (1, 2, 3),
    "slice": slice(1, None),
    "steps": (slice(None, None, -2), slice(3, 0, -1), slice(0, 5, 3)),
    "empty": (slice(2, 1), 0),
    "ellipsis": (..., 2),
    "none": (None, 1, None, slice(1, 3)),
    "all": ...,
    "nothing": (),
    "array": I([2, 0, 2]),
    "array of rank 2": I([[0, -1], [1, 0]]),
    "middle": (slice(None), I([3, 0, 1, 1])),
    "last": (..., I([-1, 0])),
    "pair": (I([0, 1, 2]), I([3, 2, 1])),
    "broadcast pair": (I([[0], [2]]), I([1, 3, 0])),
    "pair apart": (I([0, 1]), slice(None), I([4, 2])),
    "int and array": (1, I([0, 2])),
    "array and int": (I([0, 2]), 1),
    "int apart": (0, slice(None), I([1, 2])),
    "none between": (I([0, 1]), None, I([1, 2])),
    "slice and pair": (slice(0, 2), I([1, 2]), I([3, 0])),
    "three": (I([0, 1]), I([1, 1]), I([2, 4])),
    "scalar array": I(1),
    "no indices": I([], np.int32),
    "mask": MASK,
    "mask of one axis": I([True, False, True]),
    "mask behind": (slice(None), I([True, False, True, True])),
    "mask and array": (I([True, False, True]), I([1, 3])),
    "whole mask": np.arange(60).reshape(3, 4, 5) % 7 == 0,
    "mask of nothing": np.zeros((3, 4), bool),
    "mask and int": (MASK, 1),
    "true": True,
    "false": False,
    "list": [2, 1],
}  # fmt: skip


def made(
    engine: Any, dtype: str = "float32", shape: tuple[int, ...] = (3, 4, 5), seed: int = 0
) -> tuple[Any, Array]:
    array = values(dtype, shape, np.random.default_rng([seed, *shape]))
    return m.from_numpy(engine, array), array


def on_device(engine: Any, key: Any) -> Any:
    """The key with arrays of rank 1 and more as values of the engine."""
    if isinstance(key, tuple):
        return tuple(on_device(engine, k) for k in key)
    if isinstance(key, np.ndarray):
        return m.from_numpy(engine, key if key.dtype.kind == "b" else key.astype(np.int32))
    return key


@pytest.mark.parametrize("name", KEYS)
def test_reading(any_engine: Any, name: str) -> None:
    key = KEYS[name]
    for dtype in ("float32", "uint8"):
        x, n = made(any_engine, dtype)
        want = n[key]
        for form in (key, on_device(any_engine, key)):
            got = x[form].to_numpy()
            assert got.shape == np.shape(want)
            assert np.array_equal(got, want)


@pytest.mark.parametrize("name", ["steps", "none", "middle", "pair apart", "mask", "whole mask"])
def test_configurations(engine: Any, name: str) -> None:
    x, n = made(engine)
    key = on_device(engine, KEYS[name])
    assert np.array_equal(x[key].to_numpy(), n[KEYS[name]])
    x[key] = 7
    n[KEYS[name]] = 7
    assert np.array_equal(x.to_numpy(), n)


@pytest.mark.parametrize("name", KEYS)
def test_writing(any_engine: Any, name: str) -> None:
    key = KEYS[name]
    for kind in ("number", "row", "all"):
        x, n = made(any_engine)
        place = n[key]
        shape = {"number": (), "row": np.shape(place)[-1:], "all": np.shape(place)}[kind]
        new = np.random.default_rng(9).standard_normal(shape).astype(np.float32)
        n[key] = new
        x[on_device(any_engine, key)] = m.from_numpy(any_engine, new)
        assert np.array_equal(x.to_numpy(), n), kind


def test_writing_small_dtypes(engine: Any) -> None:
    for dtype in ("uint8", "bool", "int32"):
        x, n = made(engine, dtype, (5, 7))
        _, new = made(engine, dtype, (2, 7), 1)
        x[1:4:2], n[1:4:2] = m.from_numpy(engine, new), new
        assert np.array_equal(x.to_numpy(), n)
        x[:, 3], n[:, 3] = True, True
        x[[0, 4]], n[[0, 4]] = m.from_numpy(engine, new), new
        assert np.array_equal(x.to_numpy(), n)


def test_the_last_of_equal_places_counts(engine: Any) -> None:
    x = m.zeros(engine, (4, 2))
    x[m.from_list(engine, [1, 3, 1, -1, 9])] = m.reshape(m.arange(engine, 10, dtype="float32"), (5, 2))
    assert x.tolist() == [[0, 0], [4, 5], [0, 0], [6, 7]]


def test_many_places(any_engine: Any) -> None:
    """More comparisons than one pass makes: the places are sorted."""
    rng = np.random.default_rng(2)
    n = np.zeros((9000,), np.int32)
    places, new = rng.integers(0, 9000, 2100).astype(np.int32), rng.integers(0, 100, 2100).astype(np.int32)
    x = m.from_numpy(any_engine, n)
    x[m.from_numpy(any_engine, places)] = m.from_numpy(any_engine, new)
    n[places] = new
    assert np.array_equal(x.to_numpy(), n)


def test_outside(engine: Any) -> None:
    x = m.arange(engine, 3, dtype="float32")
    at = m.from_list(engine, [0, 3, -4])
    assert np.array_equal(x[at].to_numpy(), [0, np.nan, np.nan], equal_nan=True)
    y = m.reshape(m.arange(engine, 4), (2, 2))
    assert y[m.from_list(engine, [0, 1]), m.from_list(engine, [2, 1])].tolist() == [0, 3]
    y[m.from_list(engine, [0, 1]), m.from_list(engine, [2, 1])] = 9
    assert y.tolist() == [[0, 1], [2, 9]]
    for key in (3, (0, 0), (slice(None), 1)):
        with pytest.raises(IndexError):
            x[key]
        with pytest.raises(IndexError):
            x[key] = 1.0


def test_refusals(any_engine: Any) -> None:
    x = m.zeros(any_engine, (3, 4))
    with pytest.raises(IndexError, match="mask of shape"):
        x[m.zeros(any_engine, (4,), dtype="bool")]
    with pytest.raises(oa.errors.ArgumentError, match="str is no index"):
        x["a"]
    with pytest.raises(oa.errors.ArgumentError, match="one ellipsis"):
        x[..., ...]
    with pytest.raises(oa.errors.DTypeError, match="integers or bool"):
        x[np.array([0.5])]
    with pytest.raises(oa.errors.DTypeError, match=r"oa\.int32"):
        x[m.zeros(any_engine, (2,))]
    with pytest.raises(oa.errors.ShapeError, match=r"shape \(3,\) to a place of shape \(4,\)"):
        x[0] = m.zeros(any_engine, (3,))
    with pytest.raises(oa.errors.DTypeError, match="int32 to a float32"):
        x[0] = m.zeros(any_engine, (4,), dtype="int32")
    with pytest.raises(oa.errors.DTypeError, match=r"2\.5 to a int32"):
        m.zeros(any_engine, (2,), dtype="int32")[0] = 2.5
    with pytest.raises(oa.errors.CaptureError, match="by a bool value"):
        any_engine.capture(lambda: x[x > 0.0])
    with pytest.raises(oa.errors.ShapeError, match=r"shape \(2,\) to a place of shape \(12,\)"):
        x[x < 1.0] = m.zeros(any_engine, (2,))


def test_what_was_taken_earlier_stays(any_engine: Any) -> None:
    x = m.arange(any_engine, 4, dtype="float32")
    name, view, whole, flat, row = x, x[1:], x[:], m.reshape(x, (4,)), m.broadcast_to(x, (2, 4))
    computed = x * 2.0
    x[1] = 9
    assert name is x and name.tolist() == [0, 9, 2, 3]
    assert view.tolist() == [1, 2, 3]
    assert whole.tolist() == flat.tolist() == row[0].tolist() == [0, 1, 2, 3]
    assert computed.tolist() == [0, 2, 4, 6]
    x += 1
    assert x.tolist() == [1, 10, 3, 4] and name.tolist() == [0, 9, 2, 3]
    y = m.zeros(any_engine, 2)
    x[...] = m.broadcast_to(y[0], (4,))
    z = m.ones(any_engine, 4)
    x[...] = z
    x[0] = 5
    assert z.tolist() == [1, 1, 1, 1]


def test_cells_and_plans_keep_what_they_took(any_engine: Any) -> None:
    x = m.ones(any_engine, 3)
    cell = oa.State(any_engine, x)
    x[0] = 5
    reading = cell.value
    assert reading is cell.value
    reading[1] = 7
    assert (cell.value.tolist(), reading.tolist(), x.tolist()) == ([1, 1, 1], [1, 7, 1], [5, 1, 1])
    cell.assign(x)
    x[2] = 6
    assert cell.value.tolist() == [5, 1, 1]
    x.to_numpy()
    plan = any_engine.capture(lambda: x * 2.0)
    x[0] = 0
    any_engine.submit(plan)
    assert plan.outputs.tolist() == [10, 2, 12]


def test_a_tape_keeps_what_it_recorded(any_engine: Any) -> None:
    x = m.from_list(any_engine, [1.0, 2.0, 3.0])
    with oa.ml.GradientTape() as tape:
        tape.watch(x)
        w = x * x
        loss = m.sum(w * w * x)
        w[0] = 9.0
        loss = loss + m.sum(w)
    got = tape.gradient(loss, x).tolist()
    assert got == [5.0 * 1 + 0.0, 5.0 * 16 + 4.0, 5.0 * 81 + 6.0]


def test_gradients_of_assignment(any_engine: Any) -> None:
    x, v = m.ones(any_engine, (2, 3)), m.full(any_engine, (2,), 3.0)
    for key in ((slice(None), 1), (m.from_list(any_engine, [0, 1]), m.from_list(any_engine, [2, 0]))):
        with oa.ml.GradientTape() as tape:
            tape.watch([x, v])
            y = x * 2.0
            y[key] = v * v
            total = m.sum(y)
        dx, dv = tape.gradient(total, [x, v])
        marks = np.zeros((2, 3))
        marks[tuple(k.to_numpy() if isinstance(k, oa.Matrix) else k for k in key)] = 1
        assert np.array_equal(dx.to_numpy(), 2 * (1 - marks))
        assert dv.tolist() == [6.0, 6.0]


def test_assignment_inside_a_capture(any_engine: Any) -> None:
    x = m.zeros(any_engine, 3)
    x.to_numpy()

    def step() -> Any:
        y = x + 1.0
        y[1] = 5.0
        y[m.arange(any_engine, 1)] = 8.0
        return y

    plan = any_engine.capture(step)
    any_engine.submit(plan)
    assert plan.outputs.tolist() == [8.0, 5.0, 1.0]
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_where_of_a_condition_alone_is_nonzero(any_engine: Any) -> None:
    x = np.random.default_rng(3).integers(-1, 2, (4, 5)).astype(np.float32)
    held = m.from_numpy(any_engine, x)
    for ours, theirs in zip(m.where(held > 0), np.where(x > 0), strict=True):
        assert np.array_equal(ours.to_numpy(), theirs)
    with pytest.raises(oa.errors.ArgumentError, match=r"matrix\.where: b is missing; wanted both"):
        m.where(held > 0, held)
