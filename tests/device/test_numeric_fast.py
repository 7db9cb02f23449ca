"""numeric="fast": each pass keeps the bound that it states, changes nothing in other modes, and can be left out alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import ml
from oa._lower.fast import PASSES
from oa.errors import ArgumentError
from tests.conftest import CONFIGURATIONS
from tests.oracle.inputs import gentle

HALF_ULP = 2.0**-24


@pytest.fixture(scope="module", params=list(CONFIGURATIONS))
def quick(request: pytest.FixtureRequest, device_name: str) -> Iterator[Any]:
    profile, addressing = CONFIGURATIONS[request.param]
    with oa.Engine(device_name, profile=profile, addressing=addressing, numeric="fast") as engine:
        yield engine


def data(*shape: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def kernels(engine: Any, function: Callable[[], Any], *without: str) -> list[str]:
    """What is run without some passes."""
    engine._programs.without = frozenset(without)
    try:
        return [d.kernel.digest for d in engine.capture(function)._plan.dispatches()]
    finally:
        engine._programs.without = frozenset()


def chain(engine: Any) -> Callable[[], Any]:
    """All that the passes look for: a quotient by a row's sum, a product and a sum, a sum too long for registers."""
    x, y = m.from_numpy(engine, data(5, 9001)), m.from_numpy(engine, data(5, 9001, seed=2))
    return lambda: m.exp(x) * y + x / m.sum(m.exp(x), axis=1, keepdims=True)


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_changes_kernels_only_here_and_can_be_left_out(
    quick: Any, any_engine: Any, name: str
) -> None:
    others = [p for p in PASSES if p != name]
    made = chain(quick)
    assert kernels(quick, made, *others) != kernels(quick, made, *PASSES)
    plain = chain(any_engine)
    assert kernels(any_engine, plain, name) == kernels(any_engine, plain)


@pytest.mark.parametrize("divisor", [3.0, -0.1, 1e30, 7e-31, 49.0])
def test_quotients_by_numbers(quick: Any, divisor: float) -> None:
    """The reciprocal rounds once and the product once: 1.5 units in the last place; a device's own divisions within 2.5 more."""
    x = data(4, 1000)
    got = (m.from_numpy(quick, x) / divisor).to_numpy()
    wanted = x.astype(np.float64) / np.float64(np.float32(divisor))
    assert (np.abs(got - wanted) <= 4 * 2 * HALF_ULP * np.abs(wanted) + 2.0**-126).all()


def test_quotients_by_what_is_broadcast(quick: Any) -> None:
    x, d = data(40, 300), np.abs(data(40, 1, seed=3)) + 0.25
    got = (m.from_numpy(quick, x) / m.from_numpy(quick, d)).to_numpy()
    wanted = x.astype(np.float64) / d
    assert (np.abs(got - wanted) <= 4 * 2 * HALF_ULP * np.abs(wanted)).all()


def test_special_quotients_stay(quick: Any) -> None:
    x = np.array([0.0, -0.0, 1.0, np.inf, np.nan, -5.0], np.float32)
    held = m.from_numpy(quick, x)
    with np.errstate(all="ignore"):
        for divisor in (0.0, np.inf, np.nan, -2.0):
            want = x / np.float32(divisor)
            assert np.array_equal((held / float(divisor)).to_numpy(), want, equal_nan=True), divisor
        assert np.array_equal((held / held).to_numpy(), x / x, equal_nan=True)


@pytest.mark.parametrize("form", range(5))
def test_contracted_products(quick: Any, form: int) -> None:
    a, b, c = (data(50, 64, seed=k) for k in (4, 5, 6))
    x, y, z = (m.from_numpy(quick, v) for v in (a, b, c))
    got = [x * y + z, x * y - z, z - x * y, z + x * y, x * 2.5 + y * z][form].to_numpy()
    p, q, r = (v.astype(np.float64) for v in (a, b, c))
    products = [abs(p * q)] * 4 + [abs(p * 2.5) + abs(q * r)]
    wanted = [p * q + r, p * q - r, r - p * q, r + p * q, p * 2.5 + q * r][form]
    assert (np.abs(got - wanted) <= HALF_ULP * (products[form] + np.abs(wanted)) * (1 + 2.0**-20)).all()


def test_products_of_other_dtypes(quick: Any) -> None:
    """The product's own operands are promoted inside it."""
    a, b = data(50, 64, seed=7), np.arange(64, dtype=np.int8)
    x, y = m.from_numpy(quick, a), m.from_numpy(quick, b)
    got = (m.astype(y, "float32") * x + x).to_numpy()
    wide = a.astype(np.float64)
    assert (
        np.abs(got - (b * wide + wide)) <= HALF_ULP * 3 * np.abs(b * wide + wide) + HALF_ULP * 65 * abs(wide)
    ).all()


def test_a_product_that_is_wanted_keeps_its_bits(quick: Any) -> None:
    a, b = data(50, 64, seed=7), data(50, 64, seed=8)
    x, y = m.from_numpy(quick, a), m.from_numpy(quick, b)
    product = x * y
    total = product + x
    assert np.array_equal(product.to_numpy(), a * b)
    assert np.array_equal(total.to_numpy(), a * b + a)


@pytest.mark.parametrize("shape", [(3, 40_000), (1, 1_000_000), (300, 500)])
def test_plain_sums(quick: Any, shape: tuple[int, int]) -> None:
    x = data(*shape, seed=9) + 1.0
    wide = x.astype(np.float64)
    bound = shape[1] * HALF_ULP * np.abs(wide).sum(1)
    assert (np.abs(m.sum(m.from_numpy(quick, x), axis=1).to_numpy() - wide.sum(1)) <= bound).all()
    assert m.sum(m.from_numpy(quick, np.full(8, np.inf, np.float32))).item() == np.inf


def test_a_model_trains_alike(quick: Any, any_engine: Any) -> None:
    """Loss and gradients of a block agree with those of the default mode as far as its bounds add up: 1e-4 of the largest."""
    x = gentle((2, 16, 32), np.random.default_rng(10))

    def step(engine: Any) -> list[np.ndarray[Any, Any]]:
        engine.rng_state = (3, 0)
        block = ml.TransformerBlock(engine, 32, 4)
        with ml.GradientTape() as tape:
            loss = m.mean(m.square(block(m.from_numpy(engine, x))))
        return [v.to_numpy() for v in (loss, *tape.gradient(loss, block.parameters()))]

    for got, wanted in zip(step(quick), step(any_engine)):
        assert np.abs(got - wanted).max() <= 1e-4 * max(np.abs(wanted).max(), 1e-3)


def test_modes_have_names(device_name: str, quick: Any) -> None:
    assert quick.numeric == "fast" and "numeric mode fast" in quick.capture(chain(quick)).explain()
    with pytest.raises(
        ArgumentError, match="numeric is 'exact'; wanted one of 'stable', 'deterministic', 'fast'"
    ):
        oa.Engine(device_name, numeric="exact")
    with pytest.raises(ArgumentError, match="no pass is called nothing"):
        kernels(quick, chain(quick), "nothing")
