"""The float64 prelude beside arithmetic of 300 bits, through the NumPy builder: errors, special values, exact remainders."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from oa._kernel.emit import double, prelude
from oa._kernel.emit.types import Ty
from tests.null.test_emit_interpreter import Array as Register
from tests.null.test_emit_interpreter import NumpyBuilder

Array = np.ndarray[Any, Any]
LARGEST, TINY = 1.7976931348623157e308, 2.0**-1022

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, -3.0, 0.3, np.inf, -np.inf, np.nan, TINY, LARGEST, -LARGEST, 1e-20, -1e-20, 1e300]
    + [709.78, 709.79, -745.2, -708.4, 22.5, 6.1, 2.0**52 + 0.5, 2.0**53 + 1, 1e22, math.pi / 2]
)  # fmt: skip

#: Where each function is sampled: (low, high) uniformly, or of the exponent of e with True.
RANGES: dict[str, list[tuple[float, float, bool]]] = {
    "exp": [(-745, 709, False)], "exp2": [(-1022, 1023, False)], "sinh": [(-700, 709, False), (-2, 2, False)],
    "cosh": [(-700, 709, False)], "log": [(-700, 700, True), (0.5, 1.5, False)], "log2": [(-700, 700, True), (0.5, 1.5, False)],
    "log10": [(-700, 700, True), (0.5, 1.5, False)], "acosh": [(1, 3, False), (1, 300, True)], "asin": [(-1, 1, False)],
    "acos": [(-1, 1, False)], "atanh": [(-1, 1, False), (-60, -1, True)], "sin": [(-1e5, 1e5, False), (11, 709, True)],
    "cos": [(-10, 10, False), (11, 709, True)], "tan": [(-1e5, 1e5, False), (11, 709, True)], "erf": [(-6.5, 6.5, False)],
}  # fmt: skip
EVERYWHERE = [(-5.0, 5.0, False), (-50.0, 5.0, True)]

ANSWERS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x, 2),
}  # fmt: skip


def call(name: str, *arrays: Array) -> Array:
    builder: Any = NumpyBuilder(frozenset())
    registers: Any = [Register(Ty.F64, a) for a in arrays]
    found: Any = prelude.call(builder, name, *registers)
    return np.asarray(found.data)


def distance(got: float, want: Any) -> float:
    """Units in the last place between a double and the true value."""
    size = abs(want)
    last = mpmath.floor(mpmath.log(size, 2)) - 52 if size >= TINY else -1074
    return float(abs(mpmath.mpf(float(got)) - want) / mpmath.mpf(2) ** last) if want else abs(got) * 1e300


def worst(got: Array, answer: Callable[..., Any], *arrays: Array) -> tuple[float, Any]:
    found: tuple[float, Any] = (0.0, None)
    with mpmath.workprec(300):
        for row in zip(got, *arrays, strict=True):
            want = answer(*(mpmath.mpf(float(v)) for v in row[1:]))
            if TINY < abs(want) < LARGEST:
                found = max(found, (distance(row[0], want), row), key=operator.itemgetter(0))
    return found


@pytest.mark.parametrize("name", prelude.UNARY_64)
def test_functions_of_one_number(name: str) -> None:
    rng = np.random.default_rng(7)
    samples = []
    for low, high, exponential in RANGES.get(name, EVERYWHERE):
        drawn = rng.uniform(low, high, 250)
        samples.append(np.exp(drawn) if exponential else drawn)
    x = np.concatenate(samples)
    error, where = worst(call(name, x), ANSWERS.get(name) or getattr(mpmath, name), x)
    assert error <= 4.0, where


NUMPY: dict[str, Any] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": np.vectorize(math.erf), "pow": np.power, "atan2": np.arctan2, "mod": np.mod,
    "floordiv": lambda a, b: np.where(np.isinf(a) | np.isinf(b), a / b, np.floor_divide(a, b)),
}  # fmt: skip


def agree(got: Array, want: Array) -> Array:
    """NaN with NaN, zeros with their signs, all else to four units."""
    same = (got == want) & (np.signbit(got) == np.signbit(want))
    near = np.isfinite(want) & (np.abs(got - np.where(np.isfinite(want), want, 0)) <= 1e-15 * np.abs(want))
    tiny = (np.abs(got) < TINY) & (np.abs(want) < TINY) & (np.signbit(got) == np.signbit(want))
    return np.asarray(same | near | tiny | (np.isnan(got) & np.isnan(want)))


@pytest.mark.parametrize("name", [*prelude.UNARY_64, *prelude.BINARY_64])
def test_special_values(name: str) -> None:
    arrays = (
        (SPECIAL,) if name in prelude.UNARY_64 else tuple(g.ravel() for g in np.meshgrid(SPECIAL, SPECIAL))
    )
    with np.errstate(all="ignore"):
        want = (NUMPY.get(name) or getattr(np, name))(*arrays)
        good = agree(call(name, *arrays), want)
    assert good.all(), [(*(a[~good][0] for a in arrays), call(name, *arrays)[~good][0], want[~good][0])]


@pytest.mark.parametrize("name", ["pow", "atan2", "hypot"])
def test_functions_of_two_numbers(name: str) -> None:
    rng = np.random.default_rng(8)
    if name == "pow":
        a = np.concatenate([np.exp(rng.uniform(-20, 20, 200)), rng.uniform(0.9, 1.1, 200)])
        b = np.concatenate([rng.uniform(-35, 35, 200), rng.uniform(-7000, 7000, 200)])
    else:
        a, b = (rng.standard_normal(400) * np.exp(rng.uniform(-300, 300, 400)) for _ in range(2))
        b[::2] = a[::2] * rng.uniform(0.1, 10, 200)
    error, where = worst(call(name, a, b), mpmath.power if name == "pow" else getattr(mpmath, name), a, b)
    assert error <= 2.0, where


def test_remainders_are_exact() -> None:
    rng = np.random.default_rng(9)
    a, b = (rng.standard_normal(300) * np.exp(rng.uniform(-200, 200, 300)) for _ in range(2))
    b[::2] = a[::2] * rng.uniform(-3, 3, 150)
    for x, y, rest, whole in zip(a, b, call("mod", a, b), call("floordiv", a, b), strict=True):
        p, q = Fraction(float(x)), Fraction(float(y))
        exact = p // q
        assert abs(Fraction(float(rest)) - (p - exact * q)) <= abs(q) * Fraction(1, 2**52)
        if abs(exact) < 2**53:
            assert whole == exact, (x, y)


def test_the_argument_closest_to_a_multiple_of_half_pi() -> None:
    x = np.array([6381956970095103.0 * 2.0**797])
    error, where = worst(call("cos", x), mpmath.cos, x)
    assert error <= 1.0 and abs(call("cos", x)[0] + 4.687165924254628e-19) < 1e-33, where


def test_digits_of_pi() -> None:
    with mpmath.workprec(1400):
        assert double.pi_digits(1300) == int(mpmath.floor(mpmath.pi * mpmath.mpf(2) ** 1300))
