"""Bad input: a typed error that says what, got, wanted and how to mend, at the user's line; and an engine that works on."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import errors
from oa import matrix as m
from oa.ml import GradientTape


class Hand:
    """Values to make mistakes with."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.f = m.zeros(engine, (2, 3))
        self.row = m.zeros(engine, (3,))
        self.i = m.zeros(engine, (2, 3), dtype="int32")
        self.b = m.zeros(engine, (2, 3), dtype="bool")
        self.c = m.zeros(engine, (2, 3), dtype="complex64")
        self.s = m.zeros(engine, ())
        self.cube = m.zeros(engine, (2, 3, 4))


Mistake = Callable[[Hand], Any]

#: (mistake, error, words that the message must hold)
SHAPES: list[tuple[str, Mistake, type[Exception], list[str]]] = [
    ("add", lambda h: m.add(h.f, m.zeros(h.engine, (3, 4))),
     errors.ShapeError, ["matrix.add", "b (3, 4)", "a (2, 3)", "axis -1 is 4", "3 or 1"]),
    ("operator", lambda h: h.f * m.zeros(h.engine, (2,)), errors.ShapeError, ["matrix.multiply", "(2,)", "(2, 3)"]),
    ("where", lambda h: m.where(h.b, h.f, m.zeros(h.engine, (7,))), errors.ShapeError, ["matrix.where", "(7,)"]),
    ("reshape", lambda h: m.reshape(h.f, (4, 2)), errors.ShapeError, ["matrix.reshape", "(2, 3)", "6", "(4, 2)", "8"]),
    ("reshape-two", lambda h: m.reshape(h.f, (-1, -1)), errors.ShapeError, ["matrix.reshape", "more than one -1"]),
    ("reshape-part", lambda h: m.reshape(h.f, (4, -1)), errors.ShapeError, ["matrix.reshape", "(4, -1)"]),
    ("reshape-negative", lambda h: m.reshape(h.f, (-2, -3)), errors.ShapeError, ["matrix.reshape", "negative"]),
    ("reshape-word", lambda h: m.reshape(h.f, "ab"), errors.ShapeError, ["matrix.reshape", "ab"]),
    ("reshape-float", lambda h: m.reshape(h.f, (2.0, 3)), errors.ShapeError, ["matrix.reshape"]),
    ("broadcast", lambda h: m.broadcast_to(h.f, (3, 2)), errors.ShapeError, ["matrix.broadcast_to", "(2, 3)"]),
    ("broadcast-less", lambda h: m.broadcast_to(h.f, (3,)), errors.ShapeError, ["matrix.broadcast_to", "(2, 3)"]),
    ("concat", lambda h: m.concat([h.f, m.zeros(h.engine, (2, 4))]),
     errors.ShapeError, ["matrix.concat", "part 1", "(2, 4)", "(2, 3)"]),
    ("matmul", lambda h: m.matmul(h.f, h.f), errors.ShapeError, ["matrix.matmul", "(2, 3)", "3 columns", "2 rows"]),
    ("matmul-batch", lambda h: m.matmul(h.cube, m.zeros(h.engine, (3, 4, 5))), errors.ShapeError, ["matrix.matmul"]),
    ("matmul-scalar", lambda h: m.matmul(h.s, h.f), errors.ShapeError, ["matrix.matmul", "rank 0"]),
    ("mat_mul_nt", lambda h: m.mat_mul_nt(h.f, m.zeros(h.engine, (2, 4))), errors.ShapeError, ["matrix.mat_mul_nt", "(2, 4)"]),
    ("squeeze", lambda h: m.squeeze(h.f, 0), errors.ShapeError, ["matrix.squeeze", "axis 0", "extent 2", "1"]),
    ("max-of-nothing", lambda h: m.max(m.zeros(h.engine, (0, 3)), axis=0), errors.ShapeError, ["matrix.max", "(0, 3)"]),
    ("argmin-of-nothing", lambda h: m.argmin(m.zeros(h.engine, (0,))), errors.ShapeError, ["matrix.argmin"]),
    ("gather", lambda h: m.gather(h.f, m.zeros(h.engine, (3, 3), dtype="int32")),
     errors.ShapeError, ["matrix.gather", "(3, 3)", "(2, 3)"]),
    ("rank-9", lambda h: m.zeros(h.engine, (1,) * 9), errors.ShapeError, ["matrix.zeros", "rank 9", "8"]),
    ("rank-9-by-steps", lambda h: m.expand_dims(m.zeros(h.engine, (1,) * 8), 0), errors.ShapeError, ["rank", "8"]),
    ("negative-extent", lambda h: m.zeros(h.engine, (2, -1)), errors.ShapeError, ["matrix.zeros", "(2, -1)", "negative"]),
    ("from_f32", lambda h: m.from_f32(h.engine, [1.0, 2.0], (3,)), errors.ShapeError, ["matrix.from_f32", "2 values", "(3,)"]),
    ("ragged", lambda h: m.from_list(h.engine, [[1.0], [1.0, 2.0]]), errors.ShapeError, ["matrix.from_list", "ragged"]),
    ("item", lambda h: h.f.item(), errors.ShapeError, ["6 elements", "wanted 1"]),
    ("truth", lambda h: bool(h.f), errors.ShapeError, ["6 elements", "oa.matrix.any"]),
    ("T", lambda h: h.cube.T, errors.ShapeError, ["rank 3", "permute_dims"]),
]  # fmt: skip

DTYPES: list[tuple[str, Mistake, type[Exception], list[str]]] = [
    ("mix", lambda h: h.f + h.i, errors.DTypeError, ["matrix.add", "float32", "int32", "astype"]),
    ("mix-bool", lambda h: h.i & h.b, errors.DTypeError, ["matrix.bitwise_and", "int32", "bool", "astype"]),
    ("bool", lambda h: h.b + h.b, errors.DTypeError, ["matrix.add", "bool", "astype"]),
    ("exp", lambda h: m.exp(h.i), errors.DTypeError, ["matrix.exp", "int32", "float", "astype(oa.float32)"]),
    ("divide", lambda h: h.i / h.f, errors.DTypeError, ["matrix.divide", "int32", "float32"]),
    ("invert", lambda h: ~h.f, errors.DTypeError, ["matrix.bitwise_invert", "float32"]),
    ("number", lambda h: h.i * 2.5, errors.DTypeError, ["matrix.multiply", "float", "int32", "astype"]),
    ("number-of-bool", lambda h: h.b == 2, errors.DTypeError, ["matrix.equal", "int", "bool"]),
    ("number-too-large", lambda h: m.zeros(h.engine, (2,), dtype="uint8") + 300, errors.OaError, ["matrix.add", "300", "uint8"]),
    ("full-too-large", lambda h: m.full(h.engine, (2,), 2**40), errors.OaError, ["matrix.full", str(2**40), "int32"]),
    ("full-fraction", lambda h: m.full(h.engine, (2,), 2.5, dtype="int32"), errors.DTypeError, ["matrix.full", "2.5", "int32"]),
    ("mean", lambda h: m.mean(h.i), errors.DTypeError, ["matrix.mean", "int32", "astype"]),
    ("max", lambda h: m.max(h.b), errors.DTypeError, ["matrix.max", "bool", "astype"]),
    ("indices", lambda h: m.take(h.f, h.row, axis=0), errors.DTypeError, ["matrix.take", "float32", "astype(oa.int32)"]),
    ("unknown", lambda h: m.zeros(h.engine, (2,), dtype="float65"), errors.DTypeError, ["float65", "float32", "uint8"]),
    ("wider", lambda h: m.from_numpy(h.engine, np.zeros(2, np.longdouble)),
     errors.DTypeError, ["matrix.from_numpy", np.dtype(np.longdouble).name, "dtype=oa.float32"]),
    ("complex", lambda h: m.from_numpy(h.engine, np.zeros(2, complex), dtype="float32"),
     errors.DTypeError, ["matrix.from_numpy", "float32", "complex64"]),
    ("complex-to-real", lambda h: h.c.astype("float32"), errors.DTypeError, ["matrix.astype", "complex64", "matrix.real"]),
    ("complex-order", lambda h: h.c < h.c, errors.DTypeError, ["matrix.less", "complex64", "matrix.abs"]),
    ("complex-max", lambda h: m.max(h.c), errors.DTypeError, ["matrix.max", "complex64", "matrix.abs"]),
    ("complex-sort", lambda h: m.sort(h.c), errors.DTypeError, ["matrix.sort", "complex64", "matrix.real"]),
    ("complex-var", lambda h: m.var(h.c), errors.DTypeError, ["matrix.var", "complex64"]),
    ("complex-number", lambda h: h.i * 1j, errors.DTypeError, ["matrix.multiply", "complex", "int32", "astype(oa.complex64)"]),
    ("complex-full", lambda h: m.full(h.engine, 2, 1j, dtype="int32"), errors.DTypeError, ["matrix.full", "1j", "int32"]),
    ("complex-mixed", lambda h: h.i + h.c, errors.DTypeError, ["matrix.add", "int32", "complex64"]),
    ("words", lambda h: m.from_numpy(h.engine, np.array(["a"])), errors.DTypeError, ["matrix.from_numpy"]),
    ("read_f32", lambda h: h.i.read_f32(), errors.OaError, ["read_f32", "int32", "astype"]),
    ("watch", lambda h: GradientTape().watch(h.i), errors.OaError, ["tape.watch", "int32", "float32"]),
]  # fmt: skip

ARGUMENTS: list[tuple[str, Mistake, type[Exception], list[str]]] = [
    ("axis", lambda h: m.sum(h.f, axis=2), errors.AxisError, ["matrix.sum", "axis 2", "rank 2", "-2 to 1"]),
    ("axis-scalar", lambda h: m.sum(h.s, axis=0), errors.AxisError, ["matrix.sum", "axis 0", "rank 0"]),
    ("axis-twice", lambda h: m.sum(h.f, axis=(0, -2)), errors.AxisError, ["matrix.sum", "twice"]),
    ("axis-word", lambda h: m.sum(h.f, axis="x"), errors.OaError, ["matrix.sum", "'x'"]),
    ("axis-float", lambda h: m.softmax(h.f, axis=1.0), errors.ArgumentError, ["matrix.softmax", "1.0"]),
    ("softmax-axis", lambda h: m.softmax(h.f, axis=5), errors.AxisError, ["matrix.softmax", "axis 5"]),
    ("permutation", lambda h: m.permute_dims(h.f, (0, 0)), errors.AxisError, ["matrix.permute_dims", "(0, 0)", "permutation"]),
    ("transpose", lambda h: m.transpose(h.cube, 0, 1, 2), errors.ArgumentError, ["matrix.transpose", "3 axes"]),
    ("index", lambda h: h.f[2], errors.AxisError, ["2", "axis 0", "extent 2"]),
    ("indices", lambda h: h.f[0, 0, 0], errors.AxisError, ["3 indices", "rank 2"]),
    ("index-word", lambda h: h.f["a"], errors.ArgumentError, ["str"]),
    ("index-float", lambda h: h.f[1.0], errors.ArgumentError, ["float"]),
    ("slice-step", lambda h: h.f[::0], errors.ArgumentError, ["step", "0"]),
    ("operand", lambda h: m.add(h.f, np.zeros((2, 3), np.float32)),
     errors.ArgumentError, ["matrix.add", "numpy.ndarray", "from_numpy"]),
    ("operand-word", lambda h: m.add(h.f, "x"), errors.ArgumentError, ["matrix.add", "str"]),
    ("operand-none", lambda h: m.exp(None), errors.ArgumentError, ["matrix.exp", "None"]),
    ("no-value", lambda h: m.add(1.0, 2.0), errors.ArgumentError, ["matrix.add", "none of the operands"]),
    ("too-few", lambda h: m.add(h.f), errors.ArgumentError, ["matrix.add", "'b'"]),
    ("too-many", lambda h: m.exp(h.f, h.f), errors.ArgumentError, ["matrix.exp"]),
    ("keyword", lambda h: m.exp(h.f, out=h.f), errors.ArgumentError, ["matrix.exp", "out"]),
    ("concat-nothing", lambda h: m.concat([]), errors.ArgumentError, ["matrix.concat", "at least one"]),
    ("arange-step", lambda h: m.arange(h.engine, 0, 5, 0), errors.ArgumentError, ["matrix.arange", "step is 0"]),
    ("engine", lambda h: m.ones("cpu", (2,)), errors.ArgumentError, ["matrix.ones"]),
    ("cell", lambda h: oa.State(h.engine, 3.0), errors.ArgumentError, ["State", "float"]),
    ("cell-shape", lambda h: oa.State(h.engine, h.f).assign(h.row), errors.ShapeError, ["State.assign", "(3,)", "(2, 3)"]),
    ("cell-dtype", lambda h: oa.State(h.engine, h.f).assign(h.i),
     errors.DTypeError, ["State.assign", "int32", "float32", "astype"]),
    ("capture-result", lambda h: h.engine.capture(lambda: 3), errors.OaError, ["engine.capture", "int"]),
    ("capture-nothing", lambda h: h.engine.capture(lambda: None), errors.CaptureError, ["engine.capture", "nothing"]),
    ("ufunc", lambda h: np.exp(h.f), TypeError, ["exp"]),
]  # fmt: skip

MISTAKES = [*SHAPES, *DTYPES, *ARGUMENTS]


def ends_here(error: BaseException) -> bool:
    return re.search(rf"\(at {re.escape(__file__)}:\d+\)$", str(error)) is not None


@pytest.fixture(scope="module")
def hand(any_engine: Any) -> Hand:
    return Hand(any_engine)


@pytest.mark.parametrize(
    ("name", "mistake", "kind", "words"), MISTAKES, ids=[f"{c[2].__name__}-{c[0]}" for c in MISTAKES]
)
def test_mistakes(hand: Hand, name: str, mistake: Mistake, kind: type[Exception], words: list[str]) -> None:
    with pytest.raises(kind) as caught:
        mistake(hand)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert ends_here(caught.value) or not isinstance(caught.value, oa.OaError), message
    assert (hand.f + 1.0).tolist() == [[1.0] * 3] * 2


def test_builtin_classes_catch_them(hand: Hand) -> None:
    """What a NumPy user would write."""
    with pytest.raises(ValueError):
        m.add(hand.f, m.zeros(hand.engine, (4,)))
    with pytest.raises(TypeError):
        m.exp(hand.i)
    with pytest.raises(IndexError):
        hand.f[5]
    with pytest.raises(MemoryError):
        m.zeros(hand.engine, (1 << 20, 1 << 20)).to_numpy()


def test_two_engines(hand: Hand, device_name: str) -> None:
    with oa.Engine(device_name) as other:
        there = m.ones(other, (2, 3))
        for mistake in (
            lambda: hand.f + there,
            lambda: m.concat([hand.f, there]),
            lambda: m.matmul(hand.f, m.transpose(there)),
            lambda: oa.State(hand.engine, there),
            lambda: oa.State(hand.engine, hand.f).assign(there),
        ):
            with pytest.raises(errors.EngineMismatch) as caught:
                mistake()
            assert ends_here(caught.value)
        plan = other.capture(lambda: there + 1.0)
        with pytest.raises(errors.OaError):
            hand.engine.submit(plan)
        with pytest.raises(errors.EngineMismatch):
            plan.bind(there, hand.f)
        assert (there + 1.0).tolist() == [[2.0] * 3] * 2
    assert (hand.f + 1.0).tolist() == [[1.0] * 3] * 2


def elsewhere(function: Callable[[], Any]) -> BaseException | None:
    """What a function raises in another thread."""
    found: list[BaseException] = []

    def body() -> None:
        try:
            function()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return found[0] if found else None


def test_another_thread(hand: Hand) -> None:
    plan = hand.engine.capture(lambda: hand.f * 2.0)
    event = hand.engine.submit(plan)
    for mistake in (
        lambda: hand.f + 1.0,
        lambda: hand.f.to_numpy(),
        lambda: m.zeros(hand.engine, (2,)),
        lambda: hand.engine.flush(),
        lambda: hand.engine.submit(plan),
        lambda: hand.engine.capture(lambda: hand.f),
        lambda: hand.engine.close(),
        lambda: oa.State(hand.engine, hand.f).assign(hand.f),
    ):
        error = elsewhere(mistake)
        assert isinstance(error, errors.WrongThread), error
        assert ends_here(error)
    assert elsewhere(lambda: event.wait()) is None
    assert elsewhere(lambda: hand.engine.memory) is None
    dropped = [m.ones(hand.engine, (5,)) + 1.0]
    dropped[0].to_numpy()
    assert elsewhere(dropped.clear) is None
    assert (hand.f + 1.0).tolist() == [[1.0] * 3] * 2


def test_after_close(device_name: str) -> None:
    engine = oa.Engine(device_name)
    x = m.ones(engine, (3,))
    pending, stored = x + 1.0, x * 2.0
    stored.to_numpy()
    plan = engine.capture(lambda: x + 1.0)
    cell = oa.State(engine, x)
    late = x * 5.0
    engine.close()
    engine.close()
    for mistake in (
        lambda: x + 1.0,
        lambda: stored.to_numpy(),
        lambda: pending.to_numpy(),
        lambda: late.to_numpy(),
        lambda: m.zeros(engine, (2,)),
        lambda: engine.flush(),
        lambda: engine.submit(plan),
        lambda: engine.capture(lambda: x),
        lambda: cell.assign(x),
        lambda: plan.bind(x, x),
    ):
        with pytest.raises(errors.OaError) as caught:
            mistake()
        assert isinstance(caught.value, (errors.EngineClosed, errors.PoisonedValue))
        assert "closed" in str(caught.value)
        assert ends_here(caught.value)
    assert "closed" in repr(engine)
    repr(x), repr(pending), repr(plan)


def test_tapes(hand: Hand) -> None:
    with GradientTape() as tape:
        tape.watch(hand.f)
        y = m.sum(hand.f * hand.f)
    other = m.ones(hand.engine, (3,))
    for mistake in (
        lambda: tape.gradient(other, hand.f),
        lambda: tape.gradient(y, other),
        lambda: tape.gradient(hand.f * 2.0, hand.f),
    ):
        with pytest.raises(errors.TapeError) as caught:
            mistake()
        assert ends_here(caught.value)
    tape.gradient(y, hand.f)
    for again in (lambda: tape.gradient(y, hand.f), lambda: tape.watch(hand.f), tape.__enter__):
        with pytest.raises(errors.TapeError, match="consumed"):
            again()
    closed = GradientTape(persistent=True)
    closed.close()
    with pytest.raises(errors.TapeError, match="closed"):
        closed.watch(hand.f)
    assert not hand.engine._tapes


def test_captures(hand: Hand) -> None:
    engine = hand.engine

    def reading() -> Any:
        return hand.f + float((hand.s + 1.0).item())

    def nested() -> Any:
        return engine.capture(lambda: hand.f + 1.0)

    def submitting() -> Any:
        engine.submit(plan)

    def failing() -> Any:
        raise KeyError("user")

    plan = engine.capture(lambda: hand.f + 1.0)
    for mistake, words in ((reading, "inside a capture"), (nested, "nest"), (submitting, "inside a capture")):
        with pytest.raises(errors.CaptureError, match=words) as caught:
            engine.capture(mistake)
        assert ends_here(caught.value)
    with pytest.raises(KeyError):
        engine.capture(failing)
    with pytest.raises(errors.CaptureError, match="submit"):
        plan.outputs.to_numpy()
    with pytest.raises(errors.CaptureError, match="submit"):
        _ = plan.outputs + 1.0
    engine.submit(plan)
    assert plan.outputs.tolist() == [[1.0] * 3] * 2
    for slot, value, kind in (
        (hand.f, hand.row, errors.ShapeError),
        (hand.f, hand.i, errors.DTypeError),
        (hand.f, plan.outputs, errors.ArgumentError),
        (hand.row, hand.row, errors.ArgumentError),
        (7, hand.f, errors.ArgumentError),
        (hand.f, 3.0, errors.ArgumentError),
    ):
        with pytest.raises(kind) as caught:
            plan.bind(slot, value)
        assert "plan.bind" in str(caught.value)
        assert ends_here(caught.value)
    engine.submit(plan)
    assert plan.outputs.tolist() == [[1.0] * 3] * 2


def test_more_than_the_device_has(hand: Hand) -> None:
    before = hand.engine.memory.allocated
    for make in (
        lambda: m.zeros(hand.engine, (1 << 20, 1 << 20)),
        lambda: m.broadcast_to(hand.row, (1 << 20, 1 << 10, 3)) + m.zeros(hand.engine, (1 << 20, 1 << 10, 3)),
        lambda: m.sum(m.broadcast_to(m.zeros(hand.engine, (1, 4)), (1 << 33, 4)), axis=0),
    ):
        with pytest.raises(errors.OaError) as caught:
            make().to_numpy()
        assert isinstance(
            caught.value, (errors.OutOfMemory, errors.Unsupported, errors.ShapeError, errors.PoisonedValue)
        )
        assert (hand.f + 1.0).tolist() == [[1.0] * 3] * 2
    assert hand.engine.memory.allocated <= before + 4096


def test_out_of_memory_carries_figures_and_passes(device_name: str) -> None:
    with oa.Engine(device_name) as engine:
        kept = m.ones(engine, (1000,))
        kept.to_numpy()
        engine.memory_limit = engine.memory.reserved + (1 << 20)
        with pytest.raises(errors.OutOfMemory) as caught:
            m.ones(engine, (64 << 20,)).to_numpy()
        assert caught.value.requested >= 256 << 20
        assert ends_here(caught.value)
        assert m.sum(kept).item() == 1000.0
        engine.memory_limit = None
        assert m.sum(m.ones(engine, (1 << 20,))).item() == float(1 << 20)


def test_a_failure_takes_only_what_depends_on_it(device_name: str) -> None:
    with oa.Engine(device_name) as engine:
        good = m.ones(engine, (4,)) + 1.0
        bad = m.ones(engine, (1 << 20, 1 << 20)) * 2.0
        worse = m.sum(bad)
        fine = good * 3.0
        with pytest.raises(errors.OaError):
            engine.flush()
            worse.to_numpy()
        assert fine.tolist() == [6.0] * 4
        assert good.tolist() == [2.0] * 4
        with pytest.raises(errors.OaError):
            bad.to_numpy()
