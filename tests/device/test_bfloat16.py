"""bfloat16: stored in 16 bits, computed in float32, each operation rounded once to nearest even; with and without ml_dtypes."""

from __future__ import annotations

import pickle
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.matrix import capsule
from oa.ml import GradientTape
from tests.device.matrix_rig import LAYOUTS, MODES, place, run
from tests.oracle import matrix as oracle
from tests.oracle import scatter
from tests.oracle.bfloat import bits, rounded, ulp, widened
from tests.oracle.compare import flushed, same_bits
from tests.oracle.inputs import SPECIAL, values
from tests.oracle.matrix import POINTWISE

Array = np.ndarray[Any, Any]
ALL = widened(np.arange(65536, dtype=np.uint16))
#: Several operations, each of which rounds.
COMPOSED = ("gelu", "gelu_tanh", "logaddexp", "silu", "softsign")
SHAPES = ((), (1,), (3,), (0, 4), (7, 13), (2, 3, 33), (65,), (64,))


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


def numbers(shape: tuple[int, ...], rng: np.random.Generator, special: bool = False) -> Array:
    """float32 values that are bfloat16."""
    return rounded(values("float32", shape, rng, special=special))


def narrow(x: Any) -> Any:
    return m.astype(x, "bfloat16")


def wide(x: Any) -> Array:
    assert x.dtype is oa.bfloat16
    return np.asarray(m.astype(x, "float32").to_numpy())


def same(got: Array, want: Array) -> bool:
    """Equal bits, a denormal of a device that flushes being a zero of its sign."""
    tiny = (np.abs(want) < 2.0**-126) & (got == 0) & (np.signbit(got) == np.signbit(want))
    return same_bits(np.where(tiny, want, got).astype(np.float32), want)


def test_every_bfloat16_to_and_from_float32(engine: Any) -> None:
    x = m.from_numpy(engine, ALL)
    assert same(wide(narrow(x)), ALL)
    assert same(m.from_numpy(engine, ALL, dtype="bfloat16").astype("float32").to_numpy(), ALL)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int32", "int8", "uint16", "uint32", "int64", "bool"]
)
def test_casts(engine: Any, dtype: str) -> None:
    if not engine.supports(dtype):
        pytest.skip(f"the device has no {dtype}")
    rng = seeded(dtype)
    x = np.concatenate([SPECIAL[dtype], values(dtype, (3000,), rng, special=True)])
    if dtype.startswith("float"):  # ties, and what decides them far behind
        ties = (ALL.astype(np.float64)[1:20000:7] * (1 + 2.0**-8)).astype(dtype)
        with np.errstate(all="ignore"):
            x = np.concatenate(
                [x, ties, np.nextafter(ties, np.inf).astype(dtype), np.nextafter(ties, -np.inf).astype(dtype)]
            )
    given = m.from_numpy(engine, x)
    assert same(wide(narrow(given)), rounded(x if x.dtype.kind == "f" else x.astype(np.float32)))
    back = numbers((500,), rng, special=True)
    got = m.astype(narrow(m.from_numpy(engine, back)), dtype).to_numpy()
    # A device that flushes counts a denormal as the zero of its sign.
    good = np.zeros(back.shape, bool)
    for source in (back, flushed(back)):
        want = (oracle.cast(source, dtype) if dtype != "float32" else source).astype(dtype)
        good |= (got == want) & (np.signbit(got) == np.signbit(want) if want.dtype.kind == "f" else True)
        good |= np.isnan(got) & np.isnan(want) if want.dtype.kind == "f" else False
    assert good.all()


@pytest.mark.parametrize(
    "name", [n for n, a in POINTWISE.items() if "f" in a.kinds and n not in ("nextafter", "copy")]
)
def test_elementwise(any_engine: Any, name: str) -> None:
    """The float32 result rounded once more, so within its own error of the true one rounded."""
    answer, rng = POINTWISE[name], seeded(name)
    table = rounded(SPECIAL["float32"])
    first = [(table,), tuple(np.meshgrid(table, table)), (table, np.roll(table, 1), np.roll(table, 2))][
        answer.arity - 1
    ]
    for arrays in (
        first,
        [numbers((7, 13), rng) for _ in range(answer.arity)],
        [numbers((), rng) for _ in range(answer.arity)],
    ):
        arrays = [np.ascontiguousarray(a) for a in arrays]
        got = getattr(m, name)(*(narrow(m.from_numpy(any_engine, a)) for a in arrays))
        plain = getattr(m, name)(*(m.from_numpy(any_engine, a) for a in arrays)).to_numpy()
        if name in COMPOSED:
            with np.errstate(all="ignore"):
                near = np.abs(wide(got) - plain) <= 4 * ulp(plain) + 2.0**-7 * (np.abs(plain) < 1)
            assert np.all(near | (wide(got) == rounded(plain)) | np.isnan(plain)), name
        elif got.dtype is oa.bfloat16:
            assert same(wide(got), rounded(plain)), name
        else:
            assert np.array_equal(got.to_numpy(), plain), name


def test_arithmetic_is_rounded_once(any_engine: Any) -> None:
    """Sums, products and quotients of all pairs of some: as if computed exactly."""
    some = ALL[np.isfinite(ALL)][::331].astype(np.float64)
    a, b = np.meshgrid(some, some)
    x, y = (narrow(m.from_numpy(any_engine, v.astype(np.float32))) for v in (a, b))
    with np.errstate(all="ignore"):
        quotient, root = a / b, np.sqrt(np.abs(a))
        if not {"fdiv", "fsqrt"} <= any_engine.device.profile.trusted:  # within one unit, in float32 as well
            p, q = (m.from_numpy(any_engine, v.astype(np.float32)) for v in (a, b))
            quotient, root = ((v.to_numpy()).astype(np.float64) for v in (p / q, m.sqrt(m.abs(p))))
        cases = ((x + y, a + b), (x * y, a * b), (x / y, quotient), (m.sqrt(m.abs(x)), root))
        for got, exact in cases:
            want = rounded(exact)
            found = wide(got)
            low = np.abs(exact) < 2.0**-120
            assert same(np.where(low, want, found), want)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Array], Array], float]] = {
    "sum": (lambda x: m.sum(x, axis=-1), lambda x: np.sum(x.astype(np.float64), axis=-1), 0.51),
    "mean": (lambda x: m.mean(x, axis=-1), lambda x: np.mean(x.astype(np.float64), axis=-1), 0.51),
    "var": (lambda x: m.var(x, axis=-1), lambda x: np.var(x.astype(np.float64), axis=-1), 0.51),
    "max": (lambda x: m.max(x, axis=-1), lambda x: np.max(x, axis=-1), 0),
    "prod": (
        lambda x: m.prod(x * 0.0 + 1.5, axis=-1),
        lambda x: np.full(x.shape[:-1], 1.5 ** x.shape[-1]),
        0.51,
    ),
    "sort": (m.sort, lambda x: np.sort(x, axis=-1), 0),
    "softmax": (m.softmax, lambda x: oracle.softmax(x), 4.0),
    "flip and pad": (lambda x: m.pad(m.flip(x, axis=-1), 1), lambda x: np.pad(np.flip(x, -1), 1), 0),
    "concat": (lambda x: m.concat([x, x, x], axis=0), lambda x: np.concatenate([x, x, x]), 0),
    "matmul": (
        lambda x: m.matmul(x, m.matrix_transpose(x)),
        lambda x: x.astype(np.float64) @ np.swapaxes(x, -1, -2),
        0.51,
    ),
    "cumulative_sum": (
        lambda x: m.cumulative_sum(x, axis=-1),
        lambda x: np.cumsum(x.astype(np.float64), axis=-1),
        8.0,
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(engine: Any, name: str, layout: str, mode: str) -> None:
    ours, theirs, ulps = FUNCTIONS[name]
    rng = seeded(name, layout)
    for shape in ((2, 3), (7, 33), (3, 64), (5, 1)):
        x = rounded(rng.standard_normal(shape).astype(np.float32))
        operand = narrow(place(engine, x, layout))
        alone = wide(ours(operand))
        want = theirs(x)
        size = np.abs(want) + (
            np.sum(np.abs(x)) * (1.0 if name == "cumulative_sum" else 2.0**-16) if ulps else 0
        )
        assert np.all(np.abs(alone - want) <= ulps * ulp(size)), f"{name} {shape}"
        other = narrow(place(engine, x[::-1].copy(), layout))
        if mode != "fused":
            found = run(engine, mode, lambda v: m.astype(ours(v), "float32"), [operand], [other])
            assert same_bits(found, alone), f"{mode} changes bits"
        else:
            assert same_bits(wide(ours(m.negative(m.negative(operand)))), alone)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_indices(engine: Any, shape: tuple[int, ...]) -> None:
    x = numbers(shape, seeded(str(shape)), special=True)
    held = narrow(m.from_numpy(engine, x))
    assert held.nbytes == 2 * x.size
    assert same(wide(held), x)
    assert same(wide(m.broadcast_to(held, (2, *shape))), np.broadcast_to(x, (2, *shape)))
    assert same(np.asarray(held.tolist(), np.float32).reshape(shape), x)
    if len(shape) > 1 and x.size:
        assert same(wide(held[::-1, 1::2]), x[::-1, 1::2])
        index = np.array([1, 0, -1, 1], np.int32)
        got = m.scatter_rows(held, m.from_numpy(engine, index), 2.0, mode="replace")
        two = np.broadcast_to(np.float32(2), (4, *shape[1:]))
        assert same(wide(got), scatter.scatter_rows(x, index, two, 0, "replace")[0].astype(np.float32))
        again = m.from_numpy(engine, x, dtype="bfloat16")
        again[0] = 1.0
        assert same(wide(again), np.concatenate([np.ones_like(x[:1]), x[1:]]))


def test_nextafter(any_engine: Any) -> None:
    x = m.from_numpy(any_engine, ALL, dtype="bfloat16")
    order = np.arange(65536, dtype=np.int64)
    signed = np.where(order < 32768, order, 32768 - order)  # positions in the order of floats, both zeros 0
    for target, step in ((np.inf, 1), (-np.inf, -1)):
        moved = np.where(np.isnan(ALL) | (target == ALL), signed, signed + step)
        found = widened(np.where(moved < 0, 32768 - moved, moved).astype(np.uint16))
        want = np.where(np.isnan(ALL), np.float32(np.nan), np.where(target == ALL, ALL, found))
        want = np.where((want == 0) & np.signbit(ALL), np.float32(-0.0), want).astype(np.float32)
        to = m.full(any_engine, (), target, dtype="bfloat16")
        assert same(wide(m.nextafter(x, to)), want)


def test_promotion_and_numbers(any_engine: Any) -> None:
    x = m.ones(any_engine, (2,), dtype="bfloat16")
    for other, common in (
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("bfloat16", "bfloat16"),
    ):
        assert m.result_type(oa.bfloat16, other).name == m.result_type(other, oa.bfloat16).name == common
        if any_engine.supports(other):
            assert (x + m.ones(any_engine, (2,), dtype=other)).dtype.name == common
    with pytest.raises(oa.errors.DTypeError, match="no defined common dtype"):
        x + m.ones(any_engine, (2,), dtype="int32")
    assert (x * 3).dtype is (x + 0.5).dtype is oa.bfloat16
    assert (
        (x * 0.1).tolist()
        == m.full(any_engine, (2,), 0.1, dtype="bfloat16").tolist()
        == [float(rounded(np.float64(0.1)))] * 2
    )
    for number in (
        1 / 3,
        -1e-39,
        3.4e38,
        -3e39,
        2.0**-133,
        2.0**-134,
        1.5 * 2.0**-134,
        257.0,
        259.0,
        float("nan"),
        float("-inf"),
    ):
        with np.errstate(all="ignore"):
            got, want = m.full(any_engine, (1,), number, dtype="bfloat16"), rounded(np.array([number]))
        assert same(wide(got), want), number
    info = m.finfo(oa.bfloat16)
    assert (info.bits, info.eps, info.smallest_normal) == (16, 2.0**-7, 2.0**-126)
    assert info.max == float(ALL[np.isfinite(ALL)].max()) == -info.min
    assert m.isdtype(oa.bfloat16, "real floating")
    assert oa.matrix.bfloat16 is oa.bfloat16


def test_gradients(any_engine: Any) -> None:
    x = rounded(seeded("gradient").standard_normal((4, 5)).astype(np.float32))
    held = narrow(m.from_numpy(any_engine, x))
    master = m.from_numpy(any_engine, x)
    with GradientTape(persistent=True) as tape:
        tape.watch([held, master])
        y = m.sum(held * held * 0.5)
        z = m.sum(m.astype(narrow(master) * 2.0, "float32"))
    slope = tape.gradient(y, held)
    assert slope.dtype is oa.bfloat16
    assert same(wide(slope), x)
    assert tape.gradient(z, master).tolist() == [[2.0] * 5] * 4


def test_on_the_host_with_ml_dtypes(any_engine: Any) -> None:
    kind = pytest.importorskip("ml_dtypes").bfloat16
    x = ALL.astype(kind)
    held = m.from_numpy(any_engine, x)
    assert held.dtype is oa.bfloat16
    assert oa.matrix.zeros(any_engine, (2,), dtype=kind).dtype is oa.bfloat16
    found = held.to_numpy()
    assert found.dtype == kind
    assert same_bits(found.view(np.uint16), bits(ALL)) or same(found.astype(np.float32), ALL)
    assert same(m.from_numpy(any_engine, x, dtype="float32").to_numpy(), ALL)
    assert np.asarray(held[:3]).dtype == kind
    assert m.asarray(x[:3], device=any_engine).dtype is oa.bfloat16


def test_on_the_host_without(any_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = m.from_numpy(any_engine, np.array([1.0, 1 / 3, -2.0]), dtype="bfloat16")
    with pytest.raises(
        oa.errors.DTypeError, match=r"astype\(oa\.float32\)\.to_numpy\(\), or install ml_dtypes"
    ):
        x.to_numpy()
    assert x.tolist() == x.to_list() == [1.0, 0.333984375, -2.0]
    assert x[1].item() == float(x[1]) == 0.333984375
    assert [float(v) for v in x] == x.tolist()
    assert "bfloat16" in repr(x)
    assert x.astype("float32").to_numpy().dtype == np.float32


class Elsewhere:
    """Another library's bfloat16 value."""

    def __init__(self, x: Any, code: int = 4) -> None:
        self.x, self.code = x, code

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()

    def __dlpack__(self, **how: Any) -> Any:
        made = self.x.__dlpack__(**{k: v for k, v in how.items() if k == "max_version"})
        assert capsule._code(made).value == self.code
        return made


@pytest.mark.parametrize("shape", [(3,), (2, 5), ()], ids=str)
def test_dlpack(any_engine: Any, shape: tuple[int, ...]) -> None:
    """Both kinds of capsule say bfloat16; what is lent from one has the same elements."""
    x = numbers(shape, seeded("dlpack", str(shape)))
    held = m.from_numpy(any_engine, x, dtype="bfloat16")
    for version in (None, (1, 0)):
        made = held.__dlpack__(max_version=version)
        assert capsule._code(made).value == capsule.BFLOAT
    back = m.from_dlpack(Elsewhere(held), device=any_engine)
    assert back.dtype is oa.bfloat16 and same(wide(back), x)
    assert same(wide(m.asarray(Elsewhere(held), device=any_engine)), x)
    assert m.asarray(Elsewhere(held), dtype="float32", device=any_engine).dtype is oa.float32
    plain = m.from_numpy(any_engine, x)
    assert m.from_dlpack(Elsewhere(plain, 2), device=any_engine).dtype is oa.float32


def test_pickled_and_moved(any_engine: Any) -> None:
    x = m.from_list(any_engine, [1.0, 0.333984375], dtype="bfloat16")
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype is oa.bfloat16 and again.tolist() == x.tolist()
    with oa.Engine(device=any_engine.device.snapshot.uuid) as other:
        moved = x.to_device(other)
        assert moved.dtype is oa.bfloat16 and moved.tolist() == x.tolist()


def test_a_state_and_a_plan(any_engine: Any) -> None:
    cell = oa.State(any_engine, m.ones(any_engine, (3,), dtype="bfloat16"))
    plan = any_engine.capture(lambda: cell.assign(cell.value * 1.5))
    for _ in range(3):
        any_engine.submit(plan)
    assert cell.value.tolist() == [float(rounded(np.float64(1.5**3)))] * 3
