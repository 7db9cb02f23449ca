"""No kernel writes outside its results or touches its operands; and grids larger than one dimension of workgroups."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from oa import matrix as m
from tests.device.matrix_rig import place
from tests.oracle.compare import same_bits
from tests.oracle.inputs import values

#: Bytes behind each result that no kernel may write, and what stands in them.
GUARD, PATTERN = 256, 0xA5


def seeded(*parts: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(parts).encode()))


class Guarded:
    """Results handed out with guard bytes behind them."""

    def __init__(self, engine: Any, patch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.watched: list[tuple[Any, int]] = []
        self.plain = engine._pool.allocate
        patch.setattr(engine._pool, "allocate", self.allocate)

    def allocate(self, size: int, *, host: bool = False) -> Any:
        if host:
            return self.plain(size, host=host)
        storage = self.plain(size + GUARD)
        self.engine._transfer.upload(storage, bytes([PATTERN]) * (size + GUARD))
        self.watched.append((storage, size))
        return storage

    def check(self) -> None:
        assert self.watched
        for storage, size in self.watched:
            behind = self.engine._transfer.download(storage, size, GUARD)
            assert (behind == PATTERN).all(), (
                f"{size} bytes: written behind at {np.flatnonzero(behind != PATTERN)[:8]}"
            )
        self.watched.clear()


@pytest.fixture
def guarded(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    engine.flush()
    found = Guarded(engine, monkeypatch)
    yield found
    found.watched.clear()


#: name -> (operand shapes, dtype, function); sizes end off every vector and word.
CASES: dict[str, tuple[list[tuple[int, ...]], str, Callable[..., Any]]] = {
    "map": ([(63,)], "float32", lambda x: x * 2.0),
    "map-1": ([(1,)], "float32", lambda x: x * 2.0),
    "map-5": ([(5,)], "float32", lambda x: -x),
    "map-257": ([(257,)], "int32", lambda x: x + 1),
    "bytes": ([(61,)], "uint8", lambda x: x + 1),
    "bools": ([(63, 3)], "float32", lambda x: x > 0.0),
    "narrowed": ([(7, 9)], "float32", lambda x: m.astype(x, "uint8")),
    "two results": ([(33,)], "float32", lambda x: (x * 2.0, x > 0.0)),
    "transposed": ([(5, 13)], "float32", lambda x: m.transpose(x) + 1.0),
    "rows": ([(7, 65)], "float32", lambda x: m.sum(x, 1)),
    "columns": ([(65, 7)], "float32", lambda x: m.max(x, 0)),
    "elements and rows": ([(5, 33)], "float32", lambda x: (m.softmax(x), m.max(x, 1))),
    "chunks": ([(3, 5001)], "float32", lambda x: m.sum(x, 1)),
    "small rows": ([(7, 65)], "uint8", lambda x: m.max(x, 1)),
    "concat": ([(5,), (6,), (2,)], "float32", lambda *p: m.concat(p)),
    "concat-columns": ([(3, 5), (3, 2)], "int32", lambda *p: m.concat(p, 1)),
    "concat-bytes": ([(5,), (6,), (2,)], "uint8", lambda *p: m.concat(p)),
    "product": ([(17, 9), (9, 31)], "float32", m.matmul),
    "product-1": ([(1, 65), (65, 3)], "float32", m.matmul),
    "product-long": ([(3, 4099), (4099, 5)], "float32", m.matmul),
    "product-batch": ([(3, 5, 7), (3, 7, 9)], "float32", m.matmul),
    "scalar": ([()], "float32", lambda x: m.exp(x)),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["plain", "negative"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_written_behind_a_result(guarded: Guarded, name: str, layout: str) -> None:
    shapes, dtype, function = CASES[name]
    engine = guarded.engine
    arrays = [values(dtype, s, seeded(name)) for s in shapes]
    operands = [place(engine, a, layout) for a in arrays]
    before = [engine._transfer.download(o._value.storage).tobytes() for o in operands]
    guarded.watched.clear()
    results = function(*operands)
    kept = [r.to_numpy() for r in (results if isinstance(results, tuple) else (results,))]
    guarded.check()
    assert [engine._transfer.download(o._value.storage).tobytes() for o in operands] == before
    plan = engine.capture(function, *operands)
    engine.submit(plan)
    outputs = plan.outputs if isinstance(plan.outputs, tuple) else (plan.outputs,)
    for one, other in zip(kept, outputs):
        assert same_bits(one, other.to_numpy())
    guarded.check()


def test_more_groups_than_one_dimension_holds(any_engine: Any) -> None:
    """65,535 workgroups of the map and of the row kernel, and some more."""
    count = (
        65_535 * 256 * 4 + 4 * 1000
        if any_engine.device.profile.tuning == "gpu"
        else 65_535 * 64 * 4 + 4 * 1000
    )
    x = np.resize(np.arange(251, dtype=np.uint8), count)
    held = m.from_numpy(any_engine, x)
    assert np.array_equal((held + 3).to_numpy(), (x + 3).astype(np.uint8))
    rows = x[: 65_535 * 64 + 77].reshape(-1, 1)
    got = m.sum(m.reshape(held[: rows.size], rows.shape), axis=1).to_numpy()
    assert np.array_equal(got, rows[:, 0].astype(np.uint32))
