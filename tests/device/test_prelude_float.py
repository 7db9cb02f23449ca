"""The safe-maths prelude on a device, in each configuration: errors against float64, and the bits that NumPy computes.

Where a device does not flush denormals and rounds division and square root correctly, every result must have the very bits
of the same operations in NumPy; elsewhere the errors stay within two units in the last place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from oa._kernel.emit import prelude
from oa._kernel.emit.types import Ty
from tests.device.prelude_rig import Machine, machine
from tests.device.vk_rig import CONFIGURATIONS
from tests.null import prelude_oracle as oracle
from tests.null.test_emit_interpreter import Array, NumpyBuilder

SOFTWARE = frozenset(("fdiv", "fsqrt"))  # what software devices are known to round correctly
NAMES = [*oracle.UNARY, *oracle.BINARY]


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids="-".join)
def device(request: pytest.FixtureRequest, device_name: str) -> Iterator[Machine]:
    with machine(*request.param, device_name) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(device_name: str) -> Iterator[Machine]:
    with machine(*CONFIGURATIONS[1], device_name) as opened:
        yield opened


def arguments(name: str, count: int) -> tuple[np.ndarray[Any, Any], ...]:
    if name in oracle.UNARY:
        return (oracle.arguments(name, count, 7),)
    x, y = oracle.pow_arguments(count, 8)
    return (x, y) if name == "pow" else (y, x)


def by_numpy(name: str, trusted: frozenset[str], *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    b: Any = NumpyBuilder(trusted)
    value: Any = prelude.call(b, name, *(Array(Ty.F32, a) for a in arrays))  # type: ignore[arg-type]
    return np.asarray(value.data)


def differing(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (got.view(np.uint32) != want.view(np.uint32)) & ~(np.isnan(got) & np.isnan(want))


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_accuracy(plain: Machine, name: str) -> None:
    """2^20 arguments of every exponent, near zeros and poles, and the special values, without trusting the device."""
    given = arguments(name, 1 << 20)
    got = plain.op(name, "float32", *given)
    answer: Any = oracle.UNARY.get(name) or oracle.BINARY[name]
    error, message = oracle.worst(got, answer, *given)
    assert error <= 2.0, message


@pytest.mark.parametrize("trusted", [SOFTWARE, frozenset()], ids=["trusted", "corrected"])
@pytest.mark.parametrize("name", [*NAMES, "mod", "floordiv"])
def test_the_bits_are_those_of_numpy(device: Machine, name: str, trusted: frozenset[str]) -> None:
    if not device.software:
        pytest.skip(
            "only software devices promise correctly rounded division and square roots, and denormals"
        )
    given = arguments(name, 1 << 14)
    got = device.op(name, "float32", *given, trusted=trusted)
    wrong = differing(got, by_numpy(name, trusted, *given))
    assert not wrong.any(), [(a[wrong][:3], got[wrong][:3]) for a in given]


@pytest.mark.parametrize("trusted", [SOFTWARE, frozenset()], ids=["trusted", "corrected"])
@pytest.mark.parametrize("name", ["div", "recip", "sqrt", "rsqrt"])
def test_division_and_roots(plain: Machine, name: str, trusted: frozenset[str]) -> None:
    """Within one unit in the last place, whatever the device's own division does."""
    if trusted and not plain.software:
        pytest.skip("only software devices are known to round correctly")
    x, y = arguments("hypot", 1 << 18)
    given = (x, y) if name == "div" else (x,)
    answer: Any = {
        "div": np.divide, "recip": lambda a: 1 / a, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a),
    }[name]  # fmt: skip
    error, message = oracle.worst(plain.op(name, "float32", *given, trusted=trusted), answer, *given)
    assert error <= (1.5 if name == "rsqrt" else 1.0), message


def test_what_is_trusted_is_right(device: Machine) -> None:
    """A trusted division or root is correctly rounded on other inputs too; software devices are known to be."""
    trusted = device.trusted()
    if device.software:
        assert trusted >= {"fdiv", "fsqrt"}
    x, y = (np.abs(v) for v in arguments("hypot", 1 << 16))
    with np.errstate(all="ignore"):
        answers = {"fdiv": ("div", (x, y), x / y), "fsqrt": ("sqrt", (x,), np.sqrt(x))}
    for name in trusted & answers.keys():
        op, given, want = answers[name]
        normal = np.all([(a >= oracle.TINY) & np.isfinite(a) for a in (*given, want)], axis=0)
        got = device.op(op, "float32", *given, trusted=trusted)
        assert not (differing(got, want) & normal).any(), name


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema(device: Machine, name: str) -> None:
    line = oracle.SPECIAL[np.abs(np.nan_to_num(oracle.SPECIAL, nan=1.0)) != 1e-40]
    a, b = (g.ravel() for g in np.meshgrid(line, line))
    smaller = (a < b) | ((a == b) & np.signbit(a))
    want = np.where(smaller, a, b) if name == "min" else np.where(smaller, b, a)
    want = np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), want)
    got = device.op(name, "float32", a, b)
    flushed = (
        (np.abs(want) < oracle.TINY) & (np.abs(got) < oracle.TINY) & (np.signbit(got) == np.signbit(want))
    )
    assert not (differing(got, want) & ~flushed).any()


def test_choices_between_constants_keep_their_bits(device: Machine) -> None:
    """Compilers turn some of them into arithmetic on a 0 or 1."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, np.nan]
    table = [(a, b) for a in values for b in values]
    cond = np.array([0, 1], np.uint32)
    for a, b in table:
        got = device.words(
            lambda builder, w, a=a, b=b: builder.bitcast(
                Ty.U32,
                builder.select(
                    builder.op("ine", w[0], builder.const(Ty.U32, 0)),
                    builder.const(Ty.F32, a),
                    builder.const(Ty.F32, b),
                ),
            ),
            [cond],
        )
        assert np.array_equal(got, np.array([b, a], np.float32).view(np.uint32)), (a, b)


@pytest.mark.parametrize("name", ["abs", "neg", "sign", "floor", "ceil", "trunc", "round", "square"])
def test_plain_operations(device: Machine, name: str) -> None:
    x = np.concatenate([oracle.SPECIAL, np.arange(-4, 4.25, 0.25, np.float32)])
    x = x[(np.abs(x) >= oracle.TINY) | (x == 0) | np.isnan(x)]
    function: Any = {
        "neg": np.negative, "round": np.rint, "sign": lambda v: np.where(v == 0, np.float32(0), np.sign(v)),
    }.get(name) or getattr(np, name)  # fmt: skip
    with np.errstate(all="ignore"):
        want = function(x)
    got = device.op(name, "float32", x)
    flushed = (np.abs(want) < oracle.TINY) & (got == 0)
    assert not (differing(got, want) & ~flushed).any(), x[differing(got, want)]


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
def test_predicates(device: Machine, name: str) -> None:
    patterns = np.random.default_rng(3).integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    x = np.concatenate([oracle.SPECIAL, patterns])
    function: Any = getattr(np, name)
    assert np.array_equal(device.op(name, "bool", x), function(x))


@pytest.mark.parametrize("target", ["int32", "uint32", "uint8", "bool"])
def test_casts_from_float(device: Machine, target: str) -> None:
    edges = [
        2.0**31,
        2.0**31 - 128,
        -(2.0**31),
        -(2.0**31) - 256,
        2.0**32,
        2.0**32 - 256,
        255.9,
        256.0,
        -0.9,
        0.9,
    ]
    x = np.concatenate([oracle.SPECIAL, np.array(edges, np.float32), np.arange(-3, 4, 0.25, np.float32)])
    if target == "bool":
        x = x[(np.abs(x) >= oracle.TINY) | (x == 0) | np.isnan(x)]  # a denormal may be flushed to zero
        assert np.array_equal(device.op("cast", target, x), x != 0)
        return
    info = np.iinfo(target)
    want = np.clip(np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0), info.min, info.max).astype(target)
    assert np.array_equal(device.op("cast", target, x), want)
