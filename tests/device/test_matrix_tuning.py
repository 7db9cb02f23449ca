"""Schedules for a GPU run on every device: rows shared by invocations, larger workgroups, other chunks; right all the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from tests.conftest import CONFIGURATIONS
from tests.device.test_matrix_reduce import CASES, SHAPES, axis_fits, numbers, seeded, verify
from tests.fuzz.wide import grown
from tests.oracle import matrix as oracle
from tests.oracle.compare import agrees
from tests.oracle.inputs import gentle


@pytest.fixture(scope="module", params=list(CONFIGURATIONS))
def tuned(request: pytest.FixtureRequest, device_name: str) -> Iterator[Any]:
    """An engine whose plans are those of the other kind of device."""
    profile, addressing = CONFIGURATIONS[request.param]
    with oa.Engine(device_name, profile=profile, addressing=addressing) as engine:
        own = engine._programs._profile
        other = "gpu" if own.tuning == "cpu" else "cpu"
        engine._programs._profile = dataclasses.replace(own, tuning=other)
        engine._programs._known.clear()
        yield engine


@pytest.mark.parametrize("group", ["rows", "columns", "long", "several"])
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.partition("-")[0] in ("sum", "max", "argmin", "prod", "var", "any")]
)
def test_reductions(tuned: Any, case: str, group: str) -> None:
    name, dtype = case.split("-")
    for shape, axis in [e for e in SHAPES[group] if axis_fits(name, *e)][:4]:
        x = numbers(name, dtype, shape, seeded(case, group))
        got = getattr(m, name)(m.from_numpy(tuned, x), axis=axis).to_numpy()
        verify(name, got, x, axis, False)


@pytest.mark.parametrize("shape", [(3, 5), (65, 33), (4, 257), (2, 4099), (1, 1), (129, 1024)])
def test_normalisations(tuned: Any, shape: tuple[int, ...]) -> None:
    x = gentle(shape, seeded(str(shape)))
    held = m.from_numpy(tuned, x)
    for name in ("softmax", "log_softmax"):
        got = getattr(m, name)(held).to_numpy()
        relative = 8 + 2 * np.log2(max(shape[-1], 2)) + np.ptp(x)
        assert agrees(got, getattr(oracle, name)(x), relative, 2.0**-22 * (np.abs(x).max() + 8)).all()


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (17, 31, 13), (65, 64, 63), (130, 200, 70), (4, 4, 5000), (257, 3, 9)]
)
def test_products(tuned: Any, sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    rng = seeded(str(sizes))
    a, b = gentle((rows, depth), rng), gentle((depth, columns), rng)
    got = m.matmul(m.from_numpy(tuned, a), m.from_numpy(tuned, b)).to_numpy()
    assert agrees(got, oracle.matmul(a, b), 0.5, oracle.matmul_bound(a, b)).all()


#: (shape, axes in the order of the result): whether a tile turns it over depends on extents and on where memory runs.
TURNED = [
    ((256, 512), (1, 0)), ((16, 1024), (1, 0)), ((1024, 32), (1, 0)), ((1000, 24), (1, 0)), ((3, 128, 64), (0, 2, 1)),
    ((8, 64, 4, 32), (0, 2, 3, 1)), ((8, 64, 4, 32), (3, 2, 1, 0)), ((2, 48, 3, 160), (3, 0, 2, 1)), ((131, 257), (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16"])
@pytest.mark.parametrize(("shape", "axes"), TURNED)
def test_turned_operands(tuned: Any, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    """Alone, beside an operand that is not turned, from a slice, and with two results of one kernel."""
    x = seeded(str(shape), dtype).integers(0, 100, shape).astype(dtype)
    turned = np.ascontiguousarray(x.transpose(axes))
    held, other = m.from_numpy(tuned, x), m.from_numpy(tuned, turned[::-1].copy())
    assert np.array_equal(m.permute_dims(held, axes).copy().to_numpy(), turned)
    total, less = m.permute_dims(held, axes) + other, m.permute_dims(held, axes) * 2 - other
    assert np.array_equal(total.to_numpy(), turned + turned[::-1])
    assert np.array_equal(less.to_numpy(), turned * np.asarray(2, dtype) - turned[::-1])
    sliced = held[(slice(None),) * (len(shape) - 1) + (slice(0, None, 2),)]
    assert np.array_equal(m.permute_dims(sliced, axes).copy().to_numpy(), x[..., ::2].transpose(axes))


@pytest.mark.parametrize("block", [pytest.param(k, marks=pytest.mark.slow if k else ()) for k in range(20)])
def test_random_programs(tuned: Any, block: int) -> None:
    for seed in range(block * 10 + 7000, block * 10 + 7010):
        program = grown(seed, False, 1 + seed % 12)
        values = program.run([m.from_numpy(tuned, x) for x in program.inputs])
        for k in program.wanted:
            assert np.array_equal(values[k].to_numpy(), program.answers[k]), (
                f"seed {seed}, value {k}\n{program.text()}"
            )


def test_shuffles_and_workgroup_memory_combine_alike(device_name: str) -> None:
    """The tree over the lanes of a row is the same, so are the bits."""
    rng = np.random.default_rng(5)
    cases = [
        rng.standard_normal(shape, np.float32) * 100 for shape in ((3, 64), (5, 1000), (2, 4096), (7, 333))
    ]
    found = []
    for without in (frozenset(), frozenset({"subgroup_shuffle"})):
        with oa.Engine(device_name) as engine:
            own = engine._programs._profile
            engine._programs._profile = dataclasses.replace(
                own, tuning="gpu", features=own.features - without
            )
            bits = []
            for case in cases:
                x = m.from_numpy(engine, case)
                for value in (
                    m.sum(x, axis=1),
                    m.max(x, axis=1),
                    m.softmax(x),
                    m.argmax(x, axis=1),
                    m.prod(x / 50, axis=1),
                ):
                    bits.append(value.to_numpy().tobytes())
            found.append(bits)
    assert found[0] == found[1]
