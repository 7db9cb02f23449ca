"""Gradients of every differentiable operation against central differences of the float64 answers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.ml import GradientTape
from tests.oracle import matrix as oracle
from tests.oracle.gradients import gradients
from tests.oracle.inputs import gentle
from tests.oracle.matrix import POINTWISE

Array = np.ndarray[Any, Any]


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


def check(
    engine: Any,
    ours: Callable[..., Any],
    theirs: Callable[..., Array],
    arrays: Sequence[Array],
    what: str,
    tolerance: float = 2e-4,
) -> None:
    """Gradients with respect to all float operands, the cotangent random; relative to the largest of each gradient."""
    which = [k for k, x in enumerate(arrays) if x.dtype.kind == "f"]
    held = [m.from_numpy(engine, x) for x in arrays]
    with GradientTape() as tape:
        tape.watch([held[k] for k in which])
        result = ours(*held)
    want_shape = theirs(*(x.astype(np.float64) if x.dtype.kind == "f" else x for x in arrays)).shape
    assert result.shape == want_shape, what
    cotangent = gentle(result.shape, seeded(what, "cotangent"))
    found = tape.gradient(result, [held[k] for k in which], seed=m.from_numpy(engine, cotangent))
    for k, got, want in zip(which, found, gradients(theirs, arrays, which, cotangent.astype(np.float64))):
        if got is None:  # nothing flows back
            assert not want.any(), what
            continue
        assert got.shape == arrays[k].shape, what
        error = np.abs(got.to_numpy() - want)
        size = 1e-6 + np.max(np.abs(want), initial=0.0)
        assert np.max(error, initial=0.0) <= tolerance * size, (
            f"{what}, operand {k}:\n{got.to_numpy()}\nwanted\n{want}"
        )


#: Where operands are drawn from, uniformly, for functions not differentiable, or too steep, everywhere else.
DOMAINS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(["sqrt", "rsqrt", "log", "log2", "log10", "reciprocal"], (0.3, 3.0)),
    **dict.fromkeys(["asin", "acos", "atanh"], (-0.8, 0.8)),
    "acosh": (1.3, 3.0),
    "log1p": (-0.5, 2.0),
    "tan": (-1.0, 1.0),
    "pow": (0.4, 2.0),
    "divide": (0.4, 2.0),
    "hypot": (0.3, 2.0),
    "atan2": (0.3, 2.0),
}
FLAT = ("sign", "floor", "ceil", "trunc", "round", "floor_divide", "nextafter")
SMOOTH = [
    n
    for n, a in POINTWISE.items()
    if "f" in a.kinds and n not in FLAT and a.function(*[np.ones(1, np.float32)] * a.arity).dtype.kind == "f"
]


def operands(name: str, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    rng, (low, high) = seeded(name), DOMAINS.get(name, (-2.0, 2.0))
    found = [np.asarray(rng.uniform(low, high, s), np.float32) for s in shapes]
    if name == "clip":  # bounds on both sides, no operand near one
        return [found[0], np.full_like(found[1], -0.71), np.full_like(found[2], 0.83)]
    if name == "remainder":
        return [found[0] * 3, np.asarray(np.abs(found[1]) + 0.7, np.float32)]
    return found


@pytest.mark.parametrize("name", SMOOTH)
def test_elementwise(any_engine: Any, name: str) -> None:
    answer = POINTWISE[name]
    for shapes in ([(7,)] * 3, [(3, 1), (1, 4), (4,)], [(2, 3), (), (3,)]):
        arrays = operands(name, shapes[: answer.arity])
        check(any_engine, getattr(m, name), answer.function, arrays, f"{name} {shapes[: answer.arity]}")


@pytest.mark.parametrize("name", FLAT)
def test_flat_functions_pass_nothing(any_engine: Any, name: str) -> None:
    x = m.from_list(any_engine, [0.3, 1.7])
    with GradientTape() as tape:
        tape.watch(x)
        flat = getattr(m, name)(x, 2.0) if POINTWISE[name].arity == 2 else getattr(m, name)(x)
        y = m.sum(flat * x)
    assert tape.gradient(y, x).tolist() == flat.tolist()


def _where(c: Array, a: Array, b: Array) -> Array:
    return np.where(c, a, b)


class Case(NamedTuple):
    shapes: list[tuple[int, ...]]
    ours: Callable[..., Any]
    theirs: Callable[..., Array]


CASES: dict[str, Case] = {
    "sum": Case([(3, 4)], lambda x: m.sum(x, 1), lambda x: x.sum(1)),
    "sum-all": Case([(3, 4)], m.sum, lambda x: np.asarray(x.sum())),
    "sum-keep": Case([(2, 3, 4)], lambda x: m.sum(x, (0, 2), keepdims=True), lambda x: x.sum((0, 2), keepdims=True)),
    "sum-long": Case([(2, 600)], lambda x: m.sum(x, 1), lambda x: x.sum(1)),
    "mean": Case([(3, 4)], lambda x: m.mean(x, 0), lambda x: x.mean(0)),
    "var": Case([(3, 5)], lambda x: m.var(x, 1, correction=1), lambda x: x.var(1, ddof=1)),
    "std": Case([(3, 5)], lambda x: m.std(x, 1), lambda x: x.std(1)),
    "prod": Case([(3, 4)], lambda x: m.prod(x, 1), lambda x: x.prod(1)),
    "max": Case([(3, 5)], lambda x: m.max(x, 1), lambda x: x.max(1)),
    "min-all": Case([(3, 5)], m.min, lambda x: np.asarray(x.min())),
    "softmax": Case([(3, 5)], m.softmax, oracle.softmax),
    "softmax-axis": Case([(3, 5, 2)], lambda x: m.softmax(x, 1), lambda x: oracle.softmax(x, 1)),
    "log_softmax": Case([(3, 5)], m.log_softmax, oracle.log_softmax),
    "logsumexp": Case([(3, 5)], lambda x: m.logsumexp(x, 0), lambda x: oracle.logsumexp(x, 0)),
    "reshape": Case([(3, 4)], lambda x: m.reshape(x, (2, 6)), lambda x: x.reshape(2, 6)),
    "permute": Case([(2, 3, 4)], lambda x: m.permute_dims(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "broadcast": Case([(3, 1)], lambda x: m.broadcast_to(x, (2, 3, 4)), lambda x: np.broadcast_to(x, (2, 3, 4))),
    "expand": Case([(3,)], lambda x: m.expand_dims(x, 0) * m.expand_dims(x, 1), lambda x: x[None] * x[:, None]),
    "flip": Case([(3, 4)], lambda x: m.flip(x, 1), lambda x: np.flip(x, 1)),
    "slice": Case([(6, 7)], lambda x: x[1:5:2, ::3], lambda x: x[1:5:2, ::3]),
    "slice-back": Case([(6, 7)], lambda x: x[::-2, 5:0:-2], lambda x: x[::-2, 5:0:-2]),
    "slice-empty": Case([(6, 7)], lambda x: x[4:4:-3, 2:], lambda x: x[4:4:-3, 2:]),
    "slice-one": Case([(6, 7)], lambda x: x[2, ..., 3:4], lambda x: x[2, ..., 3:4]),
    "concat": Case([(2, 3), (4, 3), (1, 3)], lambda *p: m.concat(p), lambda *p: np.concatenate(p)),
    "concat-same": Case([(2, 3)], lambda x: m.concat([x, x * 2.0], 1), lambda x: np.concatenate([x, x * 2], 1)),
    "stack": Case([(2, 3), (2, 3)], lambda *p: m.stack(p, 1), lambda *p: np.stack(p, 1)),
    "matmul-vectors": Case([(4,), (4,)], m.matmul, np.matmul),
    "matmul-left": Case([(4,), (4, 3)], m.matmul, np.matmul),
    "matmul-right": Case([(2, 3, 4), (4,)], m.matmul, np.matmul),
    "matmul-shared": Case([(5, 2, 3), (3, 4)], m.matmul, np.matmul),
    "matmul-batch": Case([(2, 1, 3, 4), (3, 4, 2)], m.matmul, np.matmul),
    "matmul-of-itself": Case([(3, 3)], lambda x: m.matmul(x, x), lambda x: x @ x),
    "mat_mul_nt": Case([(3, 4), (5, 4)], m.mat_mul_nt, lambda a, b: a @ b.T),
    "mat_mul_nt-batch": Case([(2, 3, 4), (5, 4)], m.mat_mul_nt, lambda a, b: a @ b.T),
    "mat_mul_nt-both": Case([(2, 3, 4), (2, 5, 4)], m.mat_mul_nt, lambda a, b: a @ np.swapaxes(b, -1, -2)),
    "where": Case([(3, 4), (4,)], lambda a, b: m.where(a > b, a * b, a - b), lambda a, b: np.where(a > b, a * b, a - b)),
    "chain": Case(
        [(4, 5), (5,)],
        lambda x, b: m.softmax(m.tanh(x * b) - m.mean(x, 1, keepdims=True)) * x,
        lambda x, b: oracle.softmax(np.tanh(x * b) - x.mean(1, keepdims=True)) * x,
    ),
    "normalised": Case(
        [(4, 6)],
        lambda x: (x - m.mean(x, -1, keepdims=True)) * m.rsqrt(m.var(x, -1, keepdims=True) + 1e-2),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-2),
    ),
    "one-value-twice": Case([(5,)], lambda x: x * x + m.exp(x) * x, lambda x: x * x + np.exp(x) * x),
    "sort": Case([(3, 6)], lambda x: m.sort(x, axis=1), lambda x: np.sort(x, 1)),
    "cumulative_sum": Case([(3, 6)], lambda x: m.cumulative_sum(x, axis=1), lambda x: np.cumsum(x, 1)),
    "diff": Case([(3, 6)], lambda x: m.diff(x, axis=1), lambda x: np.diff(x, axis=1)),
    "pad": Case([(3, 4)], lambda x: m.pad(x, [(1, 2), (0, 3)]), lambda x: np.pad(x, [(1, 2), (0, 3)])),
    "roll": Case([(3, 4)], lambda x: m.roll(x, 1, axis=1), lambda x: np.roll(x, 1, axis=1)),
    "tile": Case([(3, 4)], lambda x: m.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "tril": Case([(4, 4)], m.tril, np.tril),
    "einsum": Case([(2, 3, 4), (4, 5)], lambda a, b: m.einsum("bij,jk->bik", a, b), lambda a, b: np.einsum("bij,jk->bik", a, b)),
    "tensordot": Case([(3, 4), (4, 5)], lambda a, b: m.tensordot(a, b, axes=1), lambda a, b: np.tensordot(a, b, 1)),
    "logaddexp": Case([(3, 4), (4,)], m.logaddexp, np.logaddexp),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_compositions(any_engine: Any, name: str) -> None:
    case = CASES[name]
    arrays = [gentle(s, seeded(name, str(k))) for k, s in enumerate(case.shapes)]
    check(any_engine, case.ours, case.theirs, arrays, name)


@pytest.mark.parametrize("transposed", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_products_of_transposed_operands(engine: Any, transposed: str, batch: tuple[int, ...]) -> None:
    rng = seeded(transposed, str(batch))
    a, b = gentle((*batch, 3, 4), rng), gentle((*batch, 4, 5), rng)
    a = np.swapaxes(a, -1, -2).copy() if transposed[0] == "t" else a
    b = np.swapaxes(b, -1, -2).copy() if transposed[1] == "t" else b

    def product(swap: Callable[[Any], Any], times: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def function(x: Any, y: Any) -> Any:
            return times(swap(x) if transposed[0] == "t" else x, swap(y) if transposed[1] == "t" else y)

        return function

    ours = product(lambda x: m.transpose(x, -1, -2), m.matmul)
    check(engine, ours, product(lambda x: np.swapaxes(x, -1, -2), np.matmul), [a, b], f"{transposed} {batch}")


@pytest.mark.parametrize(
    ("shape", "at", "axis"),
    [((6,), (4,), 0), ((5, 3), (7,), 0), ((3, 5), (2, 2), 1), ((2, 4, 3), (3,), 1), ((4,), (), 0)],
)
def test_take(engine: Any, shape: tuple[int, ...], at: tuple[int, ...], axis: int) -> None:
    """Rows taken several times collect their cotangents; negative indices count from the end."""
    rng = seeded("take", str(shape))
    x = gentle(shape, rng)
    indices = rng.integers(-shape[axis], shape[axis], at).astype(np.int32)
    check(
        engine,
        lambda a, i: m.take(a, i, axis=axis) * 2.0,
        lambda a, i: np.asarray(np.take(a, i, axis) * 2.0),
        [x, indices],
        f"take {shape} {at} {axis}",
    )


@pytest.mark.parametrize(
    ("shape", "count", "axis"), [((4, 5), 1, 1), ((4, 5), 3, 1), ((4, 5), 6, 0), ((2, 3, 4), 2, 1)]
)
def test_gather(engine: Any, shape: tuple[int, ...], count: int, axis: int) -> None:
    rng = seeded("gather", str(shape))
    x, at = gentle(shape, rng), list(shape)
    at[axis] = count
    indices = rng.integers(-shape[axis], shape[axis], at).astype(np.int32)
    check(
        engine,
        lambda a, i: m.gather(a, i, axis=axis),
        lambda a, i: np.take_along_axis(a, i.astype(np.int64), axis),
        [x, indices],
        f"gather {shape} {count} {axis}",
    )


def test_indices_outside_pass_nothing(engine: Any) -> None:
    x = m.from_list(engine, [1.0, 2.0, 3.0])
    indices = m.from_list(engine, [5, 1, -9, 1])
    with GradientTape() as tape:
        tape.watch(x)
        y = m.take(x, indices, axis=0)
    got = tape.gradient(y, x, seed=m.from_list(engine, [1.0, 10.0, 100.0, 1000.0]))
    assert got.tolist() == [0.0, 1010.0, 0.0]


def test_captured_gradients_are_the_eager_ones(engine: Any) -> None:
    rng = seeded("captured")
    x, w = m.from_numpy(engine, gentle((9, 7), rng)), m.from_numpy(engine, gentle((7, 5), rng))

    def step() -> Any:
        with GradientTape() as tape:
            tape.watch([x, w])
            loss = m.mean(m.square(m.log_softmax(m.gelu(x @ w))))
        return (loss, *tape.gradient(loss, [x, w]))

    eager = [v.to_numpy() for v in step()]
    plan = engine.capture(step)
    for _ in range(2):
        engine.submit(plan)
        for one, other in zip(eager, plan.outputs):
            assert one.tobytes() == other.to_numpy().tobytes()


SECOND: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "cube": (lambda x: x * x * x, lambda x: 6 * x),
    "tanh": (m.tanh, lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    "exp-square": (lambda x: m.exp(m.square(x) * 0.5), lambda x: (1 + x * x) * np.exp(x * x / 2)),
    "log": (lambda x: m.log(x + 3.0), lambda x: -1 / (x + 3) ** 2),
    "sigmoid": (m.sigmoid, lambda x: _s(x) * (1 - _s(x)) * (1 - 2 * _s(x))),
    "power": (lambda x: m.pow(x + 3.0, 3.5), lambda x: 3.5 * 2.5 * (x + 3) ** 1.5),
}  # fmt: skip


def _s(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(any_engine: Any, name: str) -> None:
    ours, theirs = SECOND[name]
    array = np.linspace(-1.5, 1.5, 9).astype(np.float32)
    x = m.from_numpy(any_engine, array)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            y = m.sum(ours(x))
        slope = inner.gradient(y, x)
        total = m.sum(slope)
    got = outer.gradient(total, x).to_numpy()
    want = theirs(array.astype(np.float64))
    assert np.max(np.abs(got - want)) <= 1e-4 * (1 + np.max(np.abs(want)))


def test_second_derivative_through_softmax_and_product(any_engine: Any) -> None:
    """The gradient of |d loss / d x|^2, against differences of the first gradient."""
    rng = seeded("hessian")
    w, array = gentle((4, 3), rng), gentle((2, 4), rng)

    def slope(x: Array) -> Array:
        (found,) = gradients(lambda v: np.log(oracle.softmax(v @ w)[:, 0]), [x], [0], np.ones(2))
        return found

    held, x = m.from_numpy(any_engine, w), m.from_numpy(any_engine, array)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            loss = m.sum(m.log_softmax(x @ held)[:, 0])
        size = m.sum(m.square(inner.gradient(loss, x)))
    got = outer.gradient(size, x).to_numpy()
    step, want = 1e-3, np.zeros_like(array, dtype=np.float64)
    for at in np.ndindex(array.shape):
        low, high = array.astype(np.float64), array.astype(np.float64)
        low[at] -= step
        high[at] += step
        want[at] = (np.sum(slope(high) ** 2) - np.sum(slope(low) ** 2)) / (2 * step)
    assert np.max(np.abs(got - want)) < 1e-3


def gradient_at(engine: Any, function: Callable[[Any], Any], values: list[float]) -> list[float]:
    x = m.from_list(engine, values)
    with GradientTape() as tape:
        tape.watch(x)
        y = m.sum(function(x))
    found: list[float] = tape.gradient(y, x).tolist()
    return found


def test_kinks(any_engine: Any) -> None:
    """What is documented: abs, relu and rounding give 0 at their kinks, ties share evenly, sqrt is steep at 0."""
    e = any_engine
    assert gradient_at(e, m.abs, [-2.0, 0.0, 2.0]) == [-1.0, 0.0, 1.0]
    assert gradient_at(e, m.relu, [-2.0, 0.0, 2.0]) == [0.0, 0.0, 1.0]
    assert gradient_at(e, lambda x: m.maximum(x, 1.0), [0.0, 1.0, 2.0]) == [0.0, 0.5, 1.0]
    assert gradient_at(e, lambda x: m.minimum(x, 1.0), [0.0, 1.0, 2.0]) == [1.0, 0.5, 0.0]
    assert gradient_at(e, lambda x: m.max(x), [3.0, 1.0, 3.0]) == [0.5, 0.0, 0.5]
    assert gradient_at(e, m.sqrt, [0.0, 4.0]) == [float("inf"), 0.25]
    assert gradient_at(e, lambda x: m.clip(x, -1.0, 1.0), [-3.0, -1.0, 0.5, 1.0, 3.0]) == [
        0.0,
        0.5,
        1.0,
        0.5,
        0.0,
    ]
    assert gradient_at(e, m.prod, [2.0, 0.0, 3.0]) == [0.0, 6.0, 0.0]
    assert gradient_at(e, m.prod, [0.0, 0.0, 3.0]) == [0.0, 0.0, 0.0]
    assert gradient_at(e, lambda x: m.pow(x, 2.0), [0.0, -3.0]) == [0.0, -6.0]
    assert gradient_at(e, lambda x: m.where(x > 0.0, x * x, 3.0), [-1.0, 2.0]) == [0.0, 4.0]


def test_integers_and_conversions_end_the_flow(any_engine: Any) -> None:
    assert gradient_at(
        any_engine, lambda x: x * m.astype(m.astype(x, oa.int32), oa.float32), [2.5, -1.5]
    ) == [2.0, -1.0]
    assert gradient_at(any_engine, lambda x: x * m.astype(x > 0.0, oa.float32), [2.5, -1.5]) == [1.0, 0.0]
