"""Dtypes, promotion, shapes, keys and scalar expressions: the rules that all operations share."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oa
from oa import errors
from oa import matrix as m
from oa._graph.batching import wanted
from oa._graph.graph import key
from oa._schema import derivative
from oa._schema import scalar as sc
from oa._schema import spec as sp
from oa._schema.dtype import ALL, as_dtype, float32, int32, promote
from oa._schema.op import freeze
from tests.null.lower_rig import Recorder
from tests.oracle.inputs import DTYPES
from tests.oracle.matrix import POINTWISE

NAMES = [d.name for d in ALL]


def common(left: str, right: str) -> str | None:
    """The array API's table: kinds mix with themselves, integers with integers, as NumPy has it where `oa` has the result."""
    if "bfloat16" in (left, right):
        if left == right:
            return left
        other = left if right == "bfloat16" else right
        kept = {name: name for name in ("float32", "float64", "complex64", "complex128")}
        return {"float16": "float32", **kept}.get(other)
    kinds = {np.dtype(left).kind, np.dtype(right).kind}
    found = np.result_type(left, right)
    defined = len(kinds) == 1 or (kinds == {"i", "u"} and found.kind == "i") or kinds == {"f", "c"}
    return found.name if defined and found.name in NAMES else None


@pytest.mark.parametrize(("left", "right"), list(itertools.product(NAMES, NAMES)))
def test_promotion(left: str, right: str) -> None:
    want, a, b = common(left, right), as_dtype(left), as_dtype(right)
    if want is None:
        with pytest.raises(errors.DTypeError, match=r"cast one"):
            promote(a, b, "test")
    else:
        assert promote(a, b, "test").name == want


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str) -> None:
    dtype = as_dtype(name)
    assert dtype is as_dtype(np.dtype(name)) is as_dtype(dtype) is pickle.loads(pickle.dumps(dtype))
    assert dtype.itemsize == np.dtype(name).itemsize
    assert repr(dtype) == f"oa.{name}"
    for wrong in ("float8", "complex256", object(), 3):
        with pytest.raises(errors.DTypeError, match="float32"):
            as_dtype(wrong)


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_operations_take_the_kinds_that_the_oracle_knows(name: str, dtype: str) -> None:
    """Neither more, or nothing would test them, nor fewer."""
    e = Recorder()
    operands = [e.input(3, dtype=dtype) for _ in range(POINTWISE[name].arity)]
    if np.dtype(dtype).kind in POINTWISE[name].kinds:
        assert getattr(m, name)(*operands).shape == (3,)
    else:
        with pytest.raises(errors.DTypeError) as caught:
            getattr(m, name)(*operands)
        assert f"matrix.{name}" in str(caught.value) and dtype in str(caught.value)


_shapes = st.lists(st.integers(0, 4), max_size=8).map(tuple)


@given(st.lists(_shapes, min_size=1, max_size=3))
def test_broadcasting_is_numpys(shapes: list[tuple[int, ...]]) -> None:
    try:
        want = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(errors.ShapeError, match=r"axis -\d is \d"):
            sp.broadcast(shapes, "test")
    else:
        assert sp.broadcast(shapes, "test") == want


@given(st.integers(-12, 12), st.integers(0, 8))
def test_axes(axis: int, rank: int) -> None:
    if -rank <= axis < rank:
        assert sp.normalize_axis(axis, rank, "test") == range(rank)[axis]
    else:
        with pytest.raises(errors.AxisError, match=rf"axis {axis} .* rank {rank}"):
            sp.normalize_axis(axis, rank, "test")


def test_keys_tell_apart_what_equality_does_not() -> None:
    values: list[Any] = [
        1,
        True,
        1.0,
        -1,
        -2,
        0.0,
        -0.0,
        math.nan,
        (1,),
        (True,),
        (1.0,),
        slice(1),
        slice(True),
        None,
        "1",
    ]
    frozen = [freeze(v) for v in values]
    assert len(set(frozen)) == len(values)
    assert freeze(math.nan) == freeze(math.nan)
    assert freeze([1, 2]) == freeze((1, 2))


def keyed(function: Any) -> Any:
    e = Recorder()
    kept = function(e)
    found = key(e._batch, wanted(e._batch))
    del kept
    return found


SAME: list[tuple[str, Any, Any]] = [
    ("numbers", lambda e: e.input(3) * 2.0, lambda e: e.input(3) * -7.5),
    ("a dead value", lambda e: (e.input(3) + 1.0) * 2.0, lambda e: (e.input(3) + 1.0) * 2.0),
    ("constants", lambda e: m.full(e, (3,), 1.0), lambda e: m.full(e, (3,), -0.0)),
    ("draws", lambda e: m.uniform(e, (3,)), lambda e: (e.random_key(), m.uniform(e, (3,)))[1]),
]
DIFFERENT: list[tuple[str, Any, Any]] = [
    ("shape", lambda e: e.input(3) * 2.0, lambda e: e.input(4) * 2.0),
    ("dtype", lambda e: e.input(3) * 2, lambda e: e.input(3, dtype="int32") * 2),
    ("operation", lambda e: e.input(3) * 2.0, lambda e: e.input(3) + 2.0),
    ("attribute", lambda e: m.sum(e.input(3, 3), 0), lambda e: m.sum(e.input(3, 3), 1)),
    ("attribute's type", lambda e: m.eye(e, 3, k=0), lambda e: m.eye(e, 3, k=1)),
    ("sharing", lambda e: (x := e.input(3)) + x, lambda e: e.input(3) + e.input(3)),
    ("liveness", lambda e: [y := e.input(3) + 1.0, y * 2.0], lambda e: [(e.input(3) + 1.0) * 2.0]),
    ("number or value", lambda e: e.input(3) * 2.0, lambda e: e.input(3) * e.input()),
    ("layout", lambda e: e.input(3, 3) + 1.0, lambda e: m.transpose(e.input(3, 3)) + 1.0),
]


@pytest.mark.parametrize(("name", "one", "other"), SAME, ids=[c[0] for c in SAME])
def test_equal_keys(name: str, one: Any, other: Any) -> None:
    assert keyed(one) == keyed(other)


@pytest.mark.parametrize(("name", "one", "other"), DIFFERENT, ids=[c[0] for c in DIFFERENT])
def test_different_keys(name: str, one: Any, other: Any) -> None:
    assert keyed(one) != keyed(other)


def test_values_are_numbered_by_first_use() -> None:
    """x - y and y - x of two values alike are one plan with other bindings."""

    def backwards(e: Recorder) -> Any:
        first, second = e.input(3), e.input(3)
        return second - first

    assert keyed(lambda e: e.input(3) - e.input(3)) == keyed(backwards)


def evaluate(node: sc.Scalar, values: list[float]) -> float:
    """A scalar expression in Python floats, for the operations below."""
    if node.op == "arg":
        return values[node.attr]
    if node.op == "const":
        return float(sc.from_pattern(node.attr, node.dtype))
    a = [evaluate(x, values) for x in node.args]
    table: dict[str, Any] = {
        "add": lambda: a[0] + a[1], "sub": lambda: a[0] - a[1], "mul": lambda: a[0] * a[1], "div": lambda: a[0] / a[1],
        "neg": lambda: -a[0], "exp": lambda: math.exp(a[0]), "tanh": lambda: math.tanh(a[0]), "sin": lambda: math.sin(a[0]),
        "cos": lambda: math.cos(a[0]), "where": lambda: a[1] if a[0] else a[2], "lt": lambda: float(a[0] < a[1]),
        "square": lambda: a[0] * a[0],
    }  # fmt: skip
    return float(table[node.op]())


_expressions = st.recursive(
    st.sampled_from(
        [sc.arg(0, float32), sc.arg(1, float32), sc.const(0.5, float32), sc.const(-2.0, float32)]
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul"]), inner, inner).map(
            lambda t: sc.apply(t[0], t[1], t[2])
        ),
        st.tuples(st.sampled_from(["neg", "tanh", "sin", "cos", "square"]), inner).map(
            lambda t: sc.apply(t[0], t[1])
        ),
    ),
    max_leaves=12,
)


@given(_expressions, st.floats(-1.5, 1.5), st.floats(-1.5, 1.5))
def test_derivatives_of_expressions(body: sc.Scalar, x: float, y: float) -> None:
    """Reverse mode against central differences in Python floats."""
    step = 1e-6
    if body.op in ("arg", "const"):
        return
    found = derivative.vjp(body, sc.const(1.0, float32), {0, 1})
    for k, at in enumerate((x, y)):
        low, high = [x, y], [x, y]
        low[k], high[k] = at - step, at + step
        want = (evaluate(body, high) - evaluate(body, low)) / (2 * step)
        got = evaluate(found[k], [x, y]) if k in found else 0.0
        assert abs(got - want) <= 1e-4 * (1 + abs(want)), (body, k)


def test_equal_expressions_are_one_object() -> None:
    x = sc.arg(0, float32)
    assert sc.apply("add", x, sc.const(1, float32)) is sc.apply("add", x, sc.const(1.0, float32))
    assert sc.const(0.0, float32) is not sc.const(-0.0, float32)
    assert sc.const(math.nan, float32) is sc.const(math.nan, float32)
    assert sc.const(-1, int32).attr == 0xFFFFFFFF
    assert sc.from_pattern(0xFFFFFFFF, int32) == -1


def test_deep_expressions_do_not_recurse() -> None:
    x = sc.arg(0, float32)
    body = x
    for k in range(20_000):
        body = sc.apply("add", body, sc.const(float(k), float32))
    assert len(sc.topological([body])) == 40_001
    assert sc.args_used(body) == {0}
    assert sc.substitute(body, lambda n: sc.arg(1, float32) if n is x else None) is not body
    assert derivative.vjp(body, sc.const(1.0, float32), {0})[0].op == "const"


def test_public_names_are_tested() -> None:
    """Every public operation occurs in an oracle or in a test of the device tier."""
    from pathlib import Path

    folder = Path(__file__).parents[1]
    text = "\n".join(p.read_text() for p in [*folder.glob("device/test_*.py"), *folder.glob("oracle/*.py")])
    public = [n for n in m.__all__ if callable(getattr(m, n)) and n != "Matrix"]
    assert not [n for n in public if f"m.{n}" not in text and f'"{n}"' not in text]


def test_names_of_the_package() -> None:
    assert set(oa.__all__) <= set(dir(oa))
    for name in oa.__all__:
        assert getattr(oa, name) is not None
