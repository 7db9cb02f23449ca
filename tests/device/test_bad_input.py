"""Bad input, argument by argument: a typed error under the name that was called, or a result that makes sense."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oa
from oa import errors, ml
from oa import matrix as m
from oa._schema import registry
from oa._schema.dtype import ALL
from oa._schema.op import Operation
from tests.device.bad_input_rig import (
    Good,
    Values,
    bad_calls,
    core_calls,
    linalg_calls,
    matrix_calls,
    ml_calls,
    settle,
)

#: Where a layer hands an argument on, the layer that takes it may speak.
SPEAKS_FOR = {"TransformerBlock": ("TransformerBlock", "MultiHeadAttention")}


@pytest.fixture(scope="module")
def values(any_engine: Any) -> Values:
    return Values(any_engine)


def faults(calls: Iterable[Good]) -> Iterator[str]:
    """What is wrong with the answers to all bad calls."""
    for good in calls:
        settle(good.function(*good.args, **good.named))
        for what, call, may_work in bad_calls(good):
            where = f"{good.name}: {what}"
            try:
                settle(call())
                if not may_work:
                    yield f"{where}: accepted"
            except oa.OaError as error:
                if not str(error).startswith(SPEAKS_FOR.get(good.name, good.name)):
                    yield f"{where}: says {error}"
            except Exception as error:
                yield f"{where}: raises {type(error).__name__}: {error}"


@pytest.mark.parametrize("part", ["matrix", "linalg", "ml", "core"])
def test_every_argument_of_everything_public(
    values: Values, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = values.engine.rng_state, values.engine.memory_limit
    if part in ("matrix", "linalg"):
        calls = (matrix_calls if part == "matrix" else linalg_calls)(values)
    else:
        calls = (ml_calls if part == "ml" else core_calls)(values, tmp_path)
    assert list(faults(calls)) == []
    values.engine.rng_state, values.engine.memory_limit = before
    assert (values.f + 1.0).tolist() == [[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]


def test_nothing_public_is_left_out(values: Values, tmp_path: Path) -> None:
    seen = {good.name.partition(".")[0] for good in ml_calls(values, tmp_path)} | {"Module", "Schedule"}
    assert {n for n in ml.__all__ if n not in seen} == set()
    plain = {n for n in m.__all__ if getattr(getattr(m, n), "__module__", "") == "oa.matrix"}
    assert plain <= {good.name.removeprefix("matrix.") for good in matrix_calls(values)} | {
        "__array_namespace_info__"
    }


def test_arguments_missing_or_unknown(values: Values) -> None:
    for good in matrix_calls(values):
        for args, named in (((), {}), (good.args, good.named)):
            with pytest.raises(errors.ArgumentError, match=r"unheard_of|missing") as caught:
                good.function(*args, **named, unheard_of=1)
            assert str(caught.value).startswith(good.name)


# -- class numbers and positions


def test_a_target_that_is_no_class_is_never_silent(any_engine: Any) -> None:
    logits = m.from_numpy(any_engine, np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32))
    for dtype, wrong in (
        ("int32", -1),
        ("int32", 4),
        ("int32", -(2**31)),
        ("int8", -1),
        ("uint8", 255),
        ("uint32", 2**32 - 1),
    ):
        for place in range(3):
            targets = [1, 2, 3]
            targets[place] = wrong
            given = m.from_list(any_engine, targets, dtype=dtype)
            assert np.isnan(ml.cross_entropy(logits, given).item()), (dtype, wrong)
            assert np.isnan(ml.cross_entropy(logits, given, ignore_index=1).item()) == (place != 3)
    assert np.isfinite(ml.cross_entropy(logits, m.from_list(any_engine, [0, 3, 2])).item())


@pytest.mark.parametrize("ignored", [-100, -1, 2, 9])
def test_ignored_targets_count_nowhere(any_engine: Any, ignored: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2, 3, 5))
    targets = np.array([[0, 4, ignored], [ignored, 1, 3]], np.int32)
    logits = m.from_numpy(any_engine, x.astype(np.float32))
    with ml.GradientTape() as tape:
        tape.watch(logits)
        loss = ml.cross_entropy(logits, m.from_numpy(any_engine, targets), ignore_index=ignored)
    found = tape.gradient(loss, logits).to_numpy()
    soft = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    kept = targets != ignored
    hot = np.eye(5)[np.where(kept, targets, 0)]
    assert loss.item() == pytest.approx(-np.log((soft * hot).sum(-1))[kept].mean(), rel=1e-6)
    np.testing.assert_allclose(found, (soft - hot) * kept[..., None] / kept.sum(), atol=1e-6)
    alone = m.full(any_engine, (2, 3), ignored)
    assert np.isnan(ml.cross_entropy(logits, alone, ignore_index=ignored).item())


def test_class_numbers_do_not_count_from_the_end(any_engine: Any) -> None:
    """Class numbers: outside both ways alike. Positions: negative ones count from the end, as NumPy's."""
    table = m.from_list(any_engine, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    ids = m.from_list(any_engine, [0, -1, 3, 2, -(2**31)])
    wanted = [[1.0, 2.0], [np.nan] * 2, [np.nan] * 2, [5.0, 6.0], [np.nan] * 2]
    layer = ml.Embedding(any_engine, 3, 2)
    layer.weight.assign(table)
    for found in (m.embedding(ids, table), layer(ids)):
        np.testing.assert_array_equal(found.to_numpy(), np.array(wanted, np.float32))
    assert m.embedding(ids, m.astype(table, "int32")).tolist() == [[1, 2], [0, 0], [0, 0], [5, 6], [0, 0]]
    with ml.GradientTape() as tape:
        total = m.sum(layer(ids) * 2.0)
    assert tape.gradient(total, layer.weight).tolist() == [[2.0, 2.0], [0.0, 0.0], [2.0, 2.0]]
    assert m.one_hot(ids, 3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert m.segment_sum(m.ones(any_engine, 5), ids, 3).tolist() == [1.0, 0.0, 1.0]
    assert m.top_k_mask(m.from_list(any_engine, [[-1, 3, 1]]), 3).tolist() == [[0.0, 1.0, 0.0]]
    row = m.from_list(any_engine, [10.0, 20.0, 30.0])
    for found in (m.take(row, ids), row[ids], m.gather(row, ids), m.take_along_axis(row, ids)):
        np.testing.assert_array_equal(found.to_numpy(), np.array([10, 30, np.nan, 30, np.nan], np.float32))
    whole = m.from_list(any_engine, [10, 20, 30])
    assert m.take(whole, ids).tolist() == whole[ids].tolist() == [10, 30, 0, 30, 0]


def test_class_numbers_cost_no_dispatch(any_engine: Any) -> None:
    layer, ids = ml.Embedding(any_engine, 5, 8), m.zeros(any_engine, (4, 4), dtype="int32")
    logits, targets = m.zeros(any_engine, (16, 5)), m.zeros(any_engine, (16,), dtype="int32")
    layer(ids).to_numpy()
    assert any_engine.capture(lambda: layer(ids)).diagnostics["dispatches"] == 1
    assert any_engine.capture(lambda: ml.cross_entropy(logits, targets)).diagnostics["dispatches"] == 2


def test_masks_of_more_classes_than_the_index_dtype_counts(any_engine: Any) -> None:
    found = m.top_k_mask(m.from_list(any_engine, [[0, 255]], dtype="uint8"), 300).to_numpy()
    assert np.flatnonzero(found).tolist() == [0, 255]
    with pytest.raises(errors.DTypeError, match=r"matrix\.arange: 299 does not fit uint8"):
        m.arange(any_engine, 300, dtype="uint8")


# -- what errors say


HINTS: list[tuple[Any, type[Exception], list[str]]] = [
    (lambda v: m.bitwise_invert(v.f), errors.DTypeError, ["astype(oa.int32)"]),
    (lambda v: v.f.to_device("cpu"), errors.ArgumentError, ["to_device", "'cpu'", "oa.Engine"]),
    (lambda v: v.f.to_device(None), errors.ArgumentError, ["to_device", "None"]),
    (lambda v: np.sum(v.f), TypeError, ["numpy.sum", "oa.matrix.sum", "np.asarray"]),
    (lambda v: np.add.reduce(v.f), TypeError, ["oa.matrix.sum"]),
    (lambda v: np.exp(v.f), TypeError, ["oa.matrix.exp"]),
    (lambda v: np.concatenate([v.f, v.f]), TypeError, ["oa.matrix.concat"]),
    (lambda v: np.modf(v.f), TypeError, ["operations of oa.matrix"]),
    (lambda v: m.std(v.i), errors.DTypeError, ["matrix.std", "int32", "astype"]),
    (lambda v: m.var(v.i), errors.DTypeError, ["matrix.var"]),
    (lambda v: m.median(v.i), errors.DTypeError, ["matrix.median", "int32", "astype"]),
    (lambda v: m.stack([v.f, v.row]), errors.ShapeError, ["matrix.stack", "part 1", "(3,)", "(2, 3)"]),
    (lambda v: m.softmax(v.i), errors.DTypeError, ["matrix.softmax", "int32"]),
    (lambda v: m.zeros_like(v.f, dtype="float65"), errors.DTypeError, ["matrix.zeros_like", "float65"]),
    (lambda v: m.eye(v.engine, 2, k=0.5), errors.ArgumentError, ["matrix.eye", "0.5"]),
    (lambda v: m.zeros(v.engine, 2, device="cpu"), errors.ArgumentError, ["matrix.zeros", "'cpu'"]),
    (lambda v: m.linspace(v.engine, 0, 1, 2.5), errors.OaError, ["matrix.linspace", "2.5"]),
    (lambda v: ml.Linear(v.engine, 3, 2)(v.ids), errors.OaError, ["Linear"]),
    (lambda v: ml.AdamW([ml.Parameter(v.f), 3]), errors.ArgumentError, ["AdamW", "3", "Parameter"]),
    (lambda v: ml.AdamW([]), errors.ArgumentError, ["AdamW", "empty"]),
    (lambda v: ml.cross_entropy(v.i, v.ids[:2]), errors.DTypeError, ["cross_entropy", "int32"]),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(HINTS)))
def test_errors_name_what_was_called_and_how_to_mend_it(values: Values, case: int) -> None:
    mistake, kind, words = HINTS[case]
    with pytest.raises(kind) as caught:
        mistake(values)
    for word in words:
        assert word in str(caught.value)
    assert f"(at {__file__}:" in str(caught.value)


def test_a_hint_casts_to_what_is_accepted() -> None:
    """Whatever kinds an operation takes, bool alone among them."""
    logic = Operation("test.logic", "pointwise", lambda x: x, ("x",), {}, form="expression", kinds="b")
    for operation in (logic, *registry.operations().values()):
        for dtype in ALL:
            if dtype.kind not in operation.kinds:
                with pytest.raises(errors.DTypeError) as caught:
                    operation.check_kind(dtype)
                if dtype.is_complex:
                    assert "matrix.real(x)" in str(caught.value)
                    continue
                target = re.search(r"astype\(oa\.(\w+)\)", str(caught.value))
                assert target is not None and getattr(oa, target[1]).kind in operation.kinds


def test_numpy_may_ask_for_the_description(values: Values) -> None:
    assert (np.shape(values.f), np.ndim(values.f), np.size(values.f)) == ((2, 3), 2, 6)


def test_a_fault_inside_is_not_blamed_on_the_arguments(
    values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oa.matrix import reduce

    def broken(*_: Any, **__: Any) -> Any:
        raise AttributeError("a fault of oa")

    monkeypatch.setattr(reduce, "_over", broken)
    with pytest.raises(AttributeError, match="a fault of oa"):
        m.sum(values.f)
    with pytest.raises(errors.ArgumentError, match=r"matrix\.sum: x is None; wanted a Matrix"):
        m.sum(None)  # type: ignore[arg-type]


# -- the engine


def test_engine_settings_refuse_what_they_cannot_be(device_name: str) -> None:
    for arguments in (
        {"seed": "a"},
        {"seed": 1.5},
        {"memory_limit": "a"},
        {"memory_limit": -1},
        {"profile": "a"},
        {"profile": []},
        {"addressing": 3},
        {"device": 2.5},
        {"device": None},
    ):
        with pytest.raises(errors.ArgumentError) as caught:
            oa.Engine(**{"device": device_name, **arguments})
        assert next(iter(arguments)) in str(caught.value)
    with oa.Engine(device_name, seed=-1) as engine:
        assert engine.seed == 2**64 - 1
        engine.seed = 7
        assert engine.rng_state == (7, 0)
        for name, wrong in itertools.product(("seed", "memory_limit", "rng_state"), ("a", 2.5, [], -1)):
            if (name, wrong) != ("seed", -1):
                with pytest.raises(errors.ArgumentError, match=f"engine.{name}"):
                    setattr(engine, name, wrong)
        assert engine.rng_state == (7, 0) and engine.memory_limit is None
        with pytest.raises(errors.CaptureError, match=r"engine\.rng_state"):
            engine.capture(lambda: setattr(engine, "seed", 3))
        assert (m.ones(engine, 2) + 1.0).tolist() == [2.0, 2.0]


def test_closing_inside_a_capture_says_so_and_closes_nothing(device_name: str) -> None:
    with oa.Engine(device_name) as engine:
        x = m.ones(engine, (2,))

        def closing() -> Any:
            engine.close()
            return x + 1.0

        def swallowing() -> Any:
            try:
                engine.close()
            except errors.CaptureError:
                pass
            return x + 1.0

        for function in (closing, swallowing):
            with pytest.raises(errors.CaptureError, match=r"Engine\.close inside a capture"):
                engine.capture(function)
        assert (x + 1.0).tolist() == [2.0, 2.0]


def test_memory_after_close_is_none(device_name: str) -> None:
    engine = oa.Engine(device_name)
    held = [m.ones(engine, (n * 1000,)) + 1.0 for n in range(1, 4)]
    for x in held:
        x.to_numpy()
    peak = engine.memory.peak
    engine.close()
    for _ in range(2):
        stats = engine.memory
        assert (stats.allocated, stats.reserved, stats.free, stats.largest_free) == (0, 0, 0, 0)
        assert stats.peak == peak >= 24000
        held.clear()


def test_a_profile_sees_what_profiles_inside_it_see(any_engine: Any) -> None:
    x = m.ones(any_engine, (64,))
    x.to_numpy()
    with any_engine.profile() as outer:
        (x + 1.0).to_numpy()
        with any_engine.profile() as inner:
            (x * 2.0).to_numpy()
        with pytest.raises(KeyError), any_engine.profile():
            (x / 2.0).to_numpy()
            raise KeyError
        (x - 3.0).to_numpy()
    assert [row.label for row in inner.rows()] == ["multiply"]
    assert [row.label for row in outer.rows()] == ["add", "multiply", "divide", "subtract"]
    starts = [row.start for row in outer.rows()]
    assert starts == sorted(starts) and starts[1] > 0.0
    assert "4 dispatches of 4 operations" in repr(outer) and "us" in repr(outer) and "table()" in repr(outer)
    with any_engine.profile() as empty:
        assert "0 dispatches" in repr(empty)


def test_submitting_what_is_no_plan(any_engine: Any) -> None:
    for wrong in (None, 3, "plan", lambda: None):
        with pytest.raises(errors.ArgumentError, match=r"engine\.submit.*engine\.capture"):
            any_engine.submit(wrong)


# -- learning


def test_an_optimiser_takes_a_module(any_engine: Any) -> None:
    model = ml.Linear(any_engine, 3, 2)
    optimizer = ml.AdamW(model)
    assert optimizer.parameters == model.parameters()
    assert set(optimizer.state_dict()) == {"step", "m.weight", "m.bias", "v.weight", "v.bias"}


def test_a_seed_of_another_shape_is_refused_and_the_tape_stays(any_engine: Any) -> None:
    x = m.ones(any_engine, (2, 3))
    with ml.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    for wrong in (m.ones(any_engine, (3,)), m.ones(any_engine, (2, 3), dtype="int32")):
        with pytest.raises(errors.ShapeError, match=r"tape\.gradient: seed"):
            tape.gradient(y, x, seed=wrong)
    assert tape.gradient(y, x, seed=m.ones_like(y)).tolist() == [[2.0] * 3] * 2


def test_checkpoints_hold_every_dtype_or_refuse_when_written(any_engine: Any, tmp_path: Path) -> None:
    model, path = ml.Linear(any_engine, 2, 1), tmp_path / "c"
    arrays = {
        d: np.arange(3).astype(d)
        for d in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
    }
    ml.save_checkpoint(path, model, extra=arrays)
    found = ml.read_checkpoint(path).extra
    assert {n: a.dtype for n, a in found.items()} == {n: a.dtype for n, a in arrays.items()}
    for wrong in ("a", None, 1j, object()):
        with pytest.raises(errors.DTypeError, match=r"save_checkpoint: extra\.x"):
            ml.save_checkpoint(path, model, extra={"x": wrong})
    assert set(ml.read_checkpoint(path).extra) == set(arrays)
