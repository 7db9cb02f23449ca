"""Scattering and segments: every mode and dtype over shapes, axes, layouts and both ways of computing, alone and in company."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa._schema.dtype import ALL
from oa.matrix import combining
from oa.ml import GradientTape
from tests.device.matrix_rig import LAYOUTS, MODES, place, run, some
from tests.device.test_matrix_gradient import check
from tests.oracle import scatter as oracle
from tests.oracle.compare import agrees, same_bits
from tests.oracle.inputs import SPECIAL, gentle, values

Array = np.ndarray[Any, Any]
WAYS = ("replace", "add", "multiply", "max", "min")
DTYPES = tuple(
    d.name for d in ALL if d.name != "bfloat16" and not d.is_complex
)  # which NumPy lacks: tests/device/test_bfloat16.py
CASES = [f"{way}-{d}" for way in WAYS for d in DTYPES if way == "replace" or d != "bool"]

#: (shape of x, how many indices, axis).
SHAPES: dict[str, list[tuple[tuple[int, ...], int, int]]] = {
    "empty": [((0,), 3, 0), ((4,), 0, 0), ((0, 3), 2, 0), ((3, 0), 2, 0), ((2, 0), 3, 1)],
    "small": [((1,), 1, 0), ((1,), 7, 0), ((5,), 1, 0), ((7,), 11, -1), ((2, 3), 4, 0), ((2, 3), 4, 1), ((3, 1, 5), 4, 2)],
    "tiles": [((31,), 33, 0), ((64,), 65, 0), ((33, 4), 32, 0), ((3, 32), 31, 1), ((5, 3, 2), 13, 1)],
    "sorted": [((3,), 65, 0), ((40,), 33, 0), ((257,), 131, -1), ((3, 20), 39, 1), ((50, 3), 70, 0), ((2, 9, 2), 34, 1)],
}  # fmt: skip


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


@pytest.fixture
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group "sorted" is computed as large operands are: nothing is compared with every place."""
    if request.node.callspec.params.get("group") == "sorted":
        monkeypatch.setattr(combining, "_COMPARISONS", 0)


def numbers(way: str, dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Operands whose sums and products stay in range, with ties for the extremes."""
    if np.dtype(dtype).kind != "f" or way == "replace":
        return values(dtype, shape, rng)
    if way == "multiply":
        return np.exp(gentle(shape, rng) * 0.01).astype(dtype)
    if way in ("max", "min"):
        return (rng.integers(-9, 10, shape) / 2).astype(dtype)
    return gentle(shape, rng).astype(dtype)


def verify(way: str, got: Array, want: Array, size: Array, what: str) -> None:
    """`size`: the sum of magnitudes that reached each element; at most 2^14 terms, so 28 roundings of sums."""
    assert (got.shape, got.dtype) == (want.shape, got.dtype), what
    if got.dtype.kind != "f" or way not in ("add", "multiply"):
        assert np.array_equal(got, want.astype(got.dtype), equal_nan=got.dtype.kind == "f"), what
        return
    unit = {"float16": 2.0**-24, "float32": 2.0**-24, "float64": 2.0**-53}[got.dtype.name]
    factor = 32 if way == "add" else 2 * 3200
    assert agrees(got, want, 1.0, factor * unit * size).all(), f"{what}: {np.abs(got - want).max()}"


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_scatter_rows(engine: Any, case: str, group: str, mode: str, full: bool) -> None:
    way, dtype = case.split("-")
    rng = seeded(case, group)
    turn = int(rng.integers(60))
    for number, (shape, count, axis) in enumerate(some(SHAPES[group], turn, full, 2)):
        layout = LAYOUTS[(turn + number) % len(LAYOUTS)]
        at = axis % len(shape)
        rows_shape = (*shape[:at], count, *shape[at + 1 :])
        x, rows = numbers(way, dtype, shape, rng), numbers(way, dtype, rows_shape, rng)
        index = rng.integers(-shape[at] - 2, shape[at] + 3, count).astype(np.int32)

        def function(v: Any, i: Any, r: Any, axis: int = axis) -> Any:
            return m.scatter_rows(v, i, r, axis=axis, mode=way)

        operands = [place(engine, x, layout), m.from_numpy(engine, index), place(engine, rows, layout)]
        alone = function(*operands).to_numpy()
        want, size = oracle.scatter_rows(x, index, rows, at, way)
        verify(way, alone, want, size, f"{case} {shape} {count} axis {axis} {layout}")
        if number == 0:
            others = [
                place(engine, numbers(way, dtype, shape, rng), layout),
                m.from_numpy(engine, index[::-1].copy()),
                place(engine, numbers(way, dtype, rows_shape, rng), layout),
            ]
            assert same_bits(run(engine, mode, function, operands, others), alone), f"{mode} changes bits"


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_scatter(engine: Any, way: str, group: str, mode: str, full: bool) -> None:
    rng = seeded(way, group)
    turn = int(rng.integers(60))
    for number, (shape, count, axis) in enumerate(some(SHAPES[group], turn, full, 2)):
        dtype = ("float32", "int32", "float16", "int64")[(turn + number) % 4]
        at = axis % len(shape)
        inner = (*shape[:at], count, *shape[at + 1 :])
        x, given = numbers(way, dtype, shape, rng), numbers(way, dtype, inner, rng)
        index = rng.integers(-shape[at] - 2, shape[at] + 3, inner).astype(np.int64)

        def function(v: Any, i: Any, r: Any, axis: int = axis) -> Any:
            return m.scatter(v, i, r, axis=axis, mode=way)

        operands = [m.from_numpy(engine, v) for v in (x, index, given)]
        alone = function(*operands).to_numpy()
        want, size = oracle.scatter(x, index, given, at, way)
        verify(way, alone, want, size, f"{way} {dtype} {shape} {count} axis {axis}")
        others = [m.from_numpy(engine, np.flip(v).copy()) for v in (x, index, given)]
        assert same_bits(run(engine, mode, function, operands, others), alone), f"{mode} changes bits"


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("group", ["compared", "sorted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_special_values(engine: Any, way: str, dtype: str, group: str) -> None:
    """Each special value meets an ordinary one and itself; nothing leaks to a place that it was not written to."""
    if dtype == "bool" and way != "replace":
        return
    special = SPECIAL[dtype]
    count = len(special)
    rows, index = np.tile(special, 3), np.tile(np.arange(count), 3).astype(np.int32)
    x = np.ones(count + 3, dtype)
    with np.errstate(all="ignore"):
        want, _ = oracle.scatter_rows(x, index, rows, 0, way)
        flat = want.astype(dtype)
    operands = [m.from_numpy(engine, v) for v in (x, index, rows)]
    got = m.scatter_rows(*operands, mode=way).to_numpy()
    assert np.array_equal(got[count:], x[count:])
    good = (got == flat) | ((got != got) & (flat != flat))
    if np.dtype(dtype).kind == "f":
        good |= (np.abs(want) < 4 * 2.0**-126) & (np.abs(got) < 4 * 2.0**-126)  # denormals may count as 0
        if way in ("add", "multiply"):  # what overflows only in this order or the other, and roundings
            largest = float(np.finfo(dtype).max)
            good |= (np.abs(want) > 0.3 * largest) & (np.sign(got) == np.sign(want))
            good |= (
                np.abs(got - want) <= 2.0**-9 * np.abs(want) if dtype == "float16" else agrees(got, want, 4.0)
            )
    assert good.all(), (way, got[~good], flat[~good], special[np.flatnonzero(~good)])


def test_numbers_broadcasting_and_views(any_engine: Any) -> None:
    x = m.zeros(any_engine, (3, 4))
    i = m.from_list(any_engine, [2, 0])
    assert m.scatter_rows(x, i, 5.0).tolist() == [[5.0] * 4, [0.0] * 4, [5.0] * 4]
    assert m.scatter_rows(x, i, [1.0, 2.0, 3.0, 4.0]).tolist()[2] == [1.0, 2.0, 3.0, 4.0]
    assert m.scatter_rows(x, i, [[1.0], [2.0], [3.0]], axis=1).tolist() == [
        [1.0, 0.0, 1.0, 0.0], [2.0, 0.0, 2.0, 0.0], [3.0, 0.0, 3.0, 0.0]
    ]  # fmt: skip
    assert m.scatter_add_rows(x, m.from_list(any_engine, [1, 1, -2]), 1.0).tolist()[1] == [3.0] * 4
    assert m.scatter(x, m.from_list(any_engine, [[1], [2], [0]]), 7.0, axis=1).tolist() == [
        [0.0, 7.0, 0.0, 0.0], [0.0, 0.0, 7.0, 0.0], [7.0, 0.0, 0.0, 0.0]
    ]  # fmt: skip
    assert x.tolist() == [[0.0] * 4] * 3


def test_scatter_undoes_gather(any_engine: Any) -> None:
    rng = np.random.default_rng(4)
    x = m.from_numpy(any_engine, rng.standard_normal((6, 9)).astype(np.float32))
    order = m.argsort(x, axis=1)
    assert np.array_equal(
        m.scatter(m.zeros_like(x), order, m.gather(x, order, axis=1), axis=1).to_numpy(), x.to_numpy()
    )


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("group", ["compared", "sorted"])
def test_fifty_runs_are_one(any_engine: Any, group: str) -> None:
    """Heavy duplicates: equal bytes in every run, captured ones too, forwards and backwards."""
    rng = np.random.default_rng(5)
    x = m.from_numpy(any_engine, gentle((50,), rng))
    rows = m.from_numpy(any_engine, gentle((200,), rng))
    index = m.from_numpy(any_engine, (rng.integers(0, 7, 200) ** 2).astype(np.int32))

    def both() -> tuple[Any, Any]:
        with GradientTape() as tape:
            tape.watch(rows)
            y = m.scatter_rows(x, index, rows * rows, mode="add")
        return y, tape.gradient(y, rows, seed=x)

    first = [v.to_numpy().tobytes() for v in both()]
    plan = any_engine.capture(both)
    for k in range(50):
        if k >= 5:
            any_engine.submit(plan)
        found = plan.outputs if k >= 5 else both()
        assert [v.to_numpy().tobytes() for v in found] == first


def test_many_values_at_many_places(any_engine: Any) -> None:
    """So many that they are sorted: a sum of whole numbers is exact."""
    rng = np.random.default_rng(6)
    index = rng.integers(-4, 4100, 5003).astype(np.int32)
    rows, x = (rng.integers(-9, 10, n).astype(np.float32) for n in (5003, 4099))
    for way in ("add", "replace", "min"):
        got = m.scatter_rows(*(m.from_numpy(any_engine, v) for v in (x, index, rows)), mode=way).to_numpy()
        assert np.array_equal(got, oracle.scatter_rows(x, index, rows, 0, way)[0])


SEGMENTS = {
    "segment_sum": "add", "segment_prod": "multiply", "segment_max": "max", "segment_min": "min", "segment_mean": "mean"
}  # fmt: skip
SEGMENT_SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((0,), 3), ((0, 2), 3), ((5,), 0), ((1,), 1), ((7,), 3), ((33, 2), 40), ((40, 0), 3), ((65, 2, 3), 8), ((300,), 17)
]  # fmt: skip


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("group", ["compared", "sorted"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "uint8", "int64"])
@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(engine: Any, name: str, dtype: str, mode: str, group: str, full: bool) -> None:
    way = SEGMENTS[name]
    if way == "mean" and np.dtype(dtype).kind != "f":
        return
    rng = seeded(name, dtype)
    for number, (shape, count) in enumerate(some(SEGMENT_SHAPES, int(rng.integers(60)), full)):
        rows = numbers("add" if way == "mean" else way, dtype, shape, rng)
        ids = rng.integers(-1, count + 2, shape[0]).astype(np.int32)
        operands = [m.from_numpy(engine, rows), m.from_numpy(engine, ids)]

        def function(r: Any, i: Any, count: int = count) -> Any:
            return getattr(m, name)(r, i, count)

        alone = function(*operands).to_numpy()
        want, size = oracle.segments(rows, ids, count, way)
        verify("add" if way == "mean" else way, alone, want, size, f"{name} {dtype} {shape} {count}")
        if number == 0:
            others = [m.from_numpy(engine, np.flip(v).copy()) for v in (rows, ids)]
            assert same_bits(run(engine, mode, function, operands, others), alone)


def test_a_segment_keeps_its_infinities(any_engine: Any) -> None:
    """What one segment sums to does not depend on another's rows."""
    rows = np.ones((40, 3), np.float32)
    rows[7], rows[8] = np.inf, np.nan
    ids = (np.arange(40) % 5).astype(np.int32)
    got = m.segment_sum(m.from_numpy(any_engine, rows), m.from_numpy(any_engine, ids), 5).to_numpy()
    assert np.array_equal(got[:, 0], [8.0, 8.0, np.inf, np.nan, 8.0], equal_nan=True)


@pytest.mark.parametrize("shape", [((6, 2), 9, 0), ((2, 5), 4, 1), ((40,), 37, 0)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_gradients(any_engine: Any, way: str, shape: tuple[tuple[int, ...], int, int]) -> None:
    extents, count, axis = shape
    rng = seeded("gradients", way, str(shape))
    inner = (*extents[:axis], count, *extents[axis + 1 :])
    index = rng.integers(-extents[axis], extents[axis], count).astype(np.int32)
    x, rows = (np.asarray(rng.uniform(0.5, 2.0, s), np.float32) for s in (extents, inner))
    check(
        any_engine,
        lambda v, i, r: m.scatter_rows(v, i, r, axis=axis, mode=way),
        lambda v, i, r: oracle.scatter_rows(v, i, r, axis, way)[0],
        [x, index, rows],
        f"scatter {way} {shape}",
    )


@pytest.mark.parametrize("name", SEGMENTS)
def test_gradients_of_segments(any_engine: Any, name: str) -> None:
    rng = seeded("gradients", name)
    rows = np.asarray(rng.uniform(0.5, 2.0, (11, 2)), np.float32)
    ids = rng.integers(0, 3, 11).astype(np.int32)
    ids[:3] = [0, 1, 2]
    check(
        any_engine,
        lambda r, i: getattr(m, name)(r, i, 3),
        lambda r, i: oracle.segments(r, i, 3, SEGMENTS[name])[0],
        [rows, ids],
        name,
    )


@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_sorted_scatters(any_engine: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that sorts has the gradients of the way that compares: both of whole numbers, so exactly."""
    rng = seeded("sorted", way)
    count, places = 150, 40
    monkeypatch.setattr(combining, "_COMPARISONS", 0)
    index = np.minimum(rng.integers(0, 60, count), places + 1).astype(np.int32)
    x = rng.integers(1, 9, places).astype(np.float32)
    rows = (rng.permutation(count) + 1).astype(np.float32)
    if way == "multiply":
        x, rows = np.ones(places, np.float32), np.where(rng.random(count) < 0.3, 2.0, 1.0).astype(np.float32)
    seed = rng.integers(-4, 5, places).astype(np.float32)
    held = [m.from_numpy(any_engine, v) for v in (x, rows)]
    with GradientTape() as tape:
        tape.watch(held)
        y = m.scatter_rows(held[0], m.from_numpy(any_engine, index), held[1], mode=way)
    got = [g.to_numpy() for g in tape.gradient(y, held, seed=m.from_numpy(any_engine, seed))]
    want = oracle.gradients(x, index, rows, seed, way)
    for a, b in zip(got, want):
        assert np.allclose(a, b, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("limit", ["product", "compared", "sorted"])
def test_gradients_of_gathers(
    any_engine: Any, limit: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three ways to add up what repeated indices take, of whole numbers, so exactly; outside nothing flows."""
    if limit != "product":
        monkeypatch.setattr(combining, "_ONE_HOT_LIMIT", 0)
    if limit == "sorted":
        monkeypatch.setattr(combining, "_COMPARISONS", 0)
    rng = seeded("gathers", limit)
    x = m.astype(m.ones(any_engine, (7, 5)), dtype)
    flat, along = rng.integers(-9, 9, 90).astype(np.int32), rng.integers(-7, 7, (7, 40)).astype(np.int32)
    flat[:60] = 3  # most of them equal
    seeds = [rng.integers(-1, 2, s).astype(np.float32) for s in ((90, 5), (7, 40))]
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        taken = m.take(x, m.from_numpy(any_engine, flat), axis=0)
        gathered = m.gather(x, m.from_numpy(any_engine, along), axis=1)
    for y, index, seed, axis in ((taken, flat, seeds[0], 0), (gathered, along, seeds[1], 1)):
        got = tape.gradient(y, x, seed=m.astype(m.from_numpy(any_engine, seed), dtype))
        zero = np.zeros((7, 5), np.float32)
        way = oracle.scatter_rows if axis == 0 else oracle.scatter
        assert got.dtype.name == dtype
        assert np.array_equal(m.astype(got, "float32").to_numpy(), way(zero, index, seed, axis, "add")[0])


@pytest.mark.parametrize("limit", ["product", "compared", "sorted"])
@pytest.mark.parametrize("rows", [90, 5000])
def test_gradients_of_gathers_that_are_not_finite(
    any_engine: Any, limit: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An infinity or NaN that flows back stays with the row it was taken from; infinities of both signs meet as NaN."""
    if limit != "product":
        monkeypatch.setattr(combining, "_ONE_HOT_LIMIT", 0)
    if limit == "sorted":
        monkeypatch.setattr(combining, "_COMPARISONS", 0)
    rng = seeded("not finite", limit)
    index = rng.integers(0, 9, rows).astype(np.int32)
    index[:6] = [2, 4, 5, 5, 6, 8]
    seed = rng.integers(-1, 2, (rows, 3)).astype(np.float32)
    seed[0, 1], seed[1, 0], seed[2, 2], seed[3, 2], seed[4] = np.inf, -np.inf, np.inf, -np.inf, np.nan
    seed[5] = 3.4e38  # finite, and so is nothing that another row gets of it
    x = m.zeros(any_engine, (9, 3))
    with GradientTape() as tape:
        tape.watch(x)
        y = m.take(x, m.from_numpy(any_engine, index), axis=0)
    got = tape.gradient(y, x, seed=m.from_numpy(any_engine, seed)).to_numpy()
    want = oracle.scatter_rows(np.zeros((9, 3), np.float32), index, seed, 0, "add")[0].astype(np.float32)
    assert np.array_equal(got, want, equal_nan=True)


def test_the_gradient_of_a_long_sort(any_engine: Any) -> None:
    n = np.random.default_rng(7).permutation(3000).astype(np.float32)
    x = m.from_numpy(any_engine, n)
    with GradientTape() as tape:
        tape.watch(x)
        y = m.sort(x)
    assert np.array_equal(tape.gradient(y, x, seed=x).to_numpy(), n[n.astype(int)])


def test_second_gradient(any_engine: Any) -> None:
    x = m.from_list(any_engine, [1.0, 2.0, 3.0])
    index = m.from_list(any_engine, [0, 2, 0, 1])
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            rows = m.concat([x, x[:1]]) ** 3.0
            y = m.sum(m.scatter_add_rows(m.zeros(any_engine, (3,)), index, rows) * 2.0)
        slope = m.sum(inner.gradient(y, x))
    assert np.allclose(outer.gradient(slope, x).tolist(), [24.0, 24.0, 36.0], rtol=1e-6)


def test_a_tie_is_shared(any_engine: Any) -> None:
    x, rows = m.from_list(any_engine, [1.0, 5.0]), m.from_list(any_engine, [3.0, 3.0, 5.0])
    with GradientTape() as tape:
        tape.watch([x, rows])
        y = m.scatter_rows(x, m.from_list(any_engine, [0, 0, 1]), rows, mode="max")
    dx, drows = tape.gradient(y, [x, rows], seed=m.ones(any_engine, (2,)))
    assert (dx.tolist(), drows.tolist()) == ([0.0, 0.5], [0.5, 0.5, 0.5])


def test_refusals(any_engine: Any) -> None:
    x = m.zeros(any_engine, (3, 4))
    i = m.from_list(any_engine, [0, 1])
    with pytest.raises(
        oa.errors.ArgumentError, match="mode 'sum' is none of replace, add, multiply, max, min"
    ):
        m.scatter_rows(x, i, 1.0, mode="sum")
    with pytest.raises(
        oa.errors.DTypeError, match=r"values are int32 and x is float32; .*astype\(oa.float32\)"
    ):
        m.scatter_rows(x, i, m.ones(any_engine, (2, 4), dtype="int32"))
    with pytest.raises(oa.errors.ShapeError, match=r"values \(3, 4\) do not broadcast to \(2, 4\)"):
        m.scatter_rows(x, i, m.ones(any_engine, (3, 4)))
    with pytest.raises(oa.errors.ShapeError, match="wanted rank 1"):
        m.scatter_rows(x, m.zeros(any_engine, (2, 2), dtype="int32"), 1.0)
    with pytest.raises(oa.errors.DTypeError, match="indices are float32"):
        m.scatter_rows(x, m.ones(any_engine, (2,)), 1.0)
    with pytest.raises(oa.errors.ShapeError, match=r"must have x's shape \(3, 4\) but along axis 1"):
        m.scatter(x, m.zeros(any_engine, (2, 2), dtype="int32"), 1.0)
    with pytest.raises(oa.errors.DTypeError, match="no meaning for bool"):
        m.scatter_rows(m.zeros(any_engine, (3,), dtype="bool"), i, True, mode="add")
    with pytest.raises(oa.errors.ShapeError, match="one for each of the rows"):
        m.segment_max(x, i, 2)
    with pytest.raises(oa.errors.DTypeError, match="not floating-point"):
        m.segment_mean(m.ones(any_engine, (2,), dtype="int32"), i, 2)
    with pytest.raises(oa.errors.AxisError):
        m.scatter_rows(x, i, 1.0, axis=2)
