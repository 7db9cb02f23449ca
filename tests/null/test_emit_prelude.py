"""The safe-maths prelude without a device: errors in units in the last place, special values, remainders, Philox."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from oa._kernel.emit import philox, prelude
from oa._kernel.emit import spirv as sp
from oa._kernel.emit.ir import Buffer, Builder
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.scalar import emit_op
from oa._kernel.emit.types import Ty
from oa._schema.dtype import uint32
from tests.null import prelude_oracle as oracle
from tests.null.emit_rig import count
from tests.null.test_emit_interpreter import Array, NumpyBuilder

#: Units in the last place. What no one-argument function may exceed is 2; these hold the functions to what they reach.
BOUNDS = {
    "exp": 1.1, "exp2": 1.2, "expm1": 1.8, "sigmoid": 2.0, "tanh": 1.85, "sinh": 1.75, "cosh": 1.5, "erf": 1.9,
    "erfc": 2.0, "log": 1.4, "log2": 1.8, "log10": 1.6, "log1p": 1.9, "asinh": 1.5, "acosh": 1.7, "atanh": 1.5,
    "sin": 1.1, "cos": 1.1, "tan": 1.75, "asin": 1.3, "acos": 1.75, "atan": 1.35,
    "pow": 1.4, "atan2": 1.5, "hypot": 1.3,
}  # fmt: skip


def evaluate(
    name: str, *arrays: np.ndarray[Any, Any], trusted: tuple[str, ...] = ("fdiv", "fsqrt")
) -> np.ndarray[Any, Any]:
    b: Any = NumpyBuilder(frozenset(trusted))
    return np.asarray(prelude.call(b, name, *(Array(Ty.F32, a) for a in arrays)).data)  # type: ignore[attr-defined]


def arguments(name: str, size: int) -> tuple[np.ndarray[Any, Any], ...]:
    if name in oracle.UNARY:
        return (oracle.arguments(name, size, 1),)
    x, y = oracle.pow_arguments(size, 2)
    return (x, y) if name == "pow" else (np.concatenate([x, y, y]), np.concatenate([y, x, y[::-1]]))


@pytest.mark.parametrize("trusted", [("fdiv", "fsqrt"), ()], ids=["trusted", "corrected"])
@pytest.mark.parametrize("name", BOUNDS)
def test_accuracy(name: str, trusted: tuple[str, ...], full: bool) -> None:
    given = arguments(name, 1 << (20 if full else 15))
    answer: Any = oracle.UNARY.get(name) or oracle.BINARY[name]
    error, message = oracle.worst(evaluate(name, *given, trusted=trusted), answer, *given)
    assert error <= BOUNDS[name], message


@pytest.mark.parametrize("name", oracle.UNARY)
def test_the_oracle_agrees_with_arbitrary_precision(name: str) -> None:
    """The float64 answers themselves, at a hundred arguments."""
    exact: Any = {
        "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan, "exp2": lambda v: mpmath.mpf(2) ** v,
        "log2": lambda v: mpmath.log(v, 2), "sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)),
    }.get(name) or getattr(mpmath, name)  # fmt: skip
    with np.errstate(all="ignore"):
        x = oracle.arguments(name, 400, 3).astype(np.float64)
        got = oracle.UNARY[name](x)
    keep = np.flatnonzero(np.isfinite(got) & (np.abs(got) > 1e-30) & (np.abs(x) < 1e15))[:100]
    assert keep.size > 20
    with mpmath.workdps(50):
        for k in keep:
            want = exact(mpmath.mpf(float(x[k])))
            assert abs(mpmath.mpf(float(got[k])) - want) <= abs(want) * mpmath.mpf(2) ** -45, x[k]


def test_special_values_that_the_sampling_might_miss() -> None:
    inf, nan = math.inf, math.nan
    cases = {
        "exp": [(inf, inf), (-inf, 0.0), (-1000.0, 0.0), (89.0, inf), (0.0, 1.0)],
        "expm1": [(inf, inf), (-inf, -1.0), (-0.0, -0.0)],
        "log": [(0.0, -inf), (-0.0, -inf), (-1.0, nan), (inf, inf), (1.0, 0.0), (-inf, nan)],
        "log1p": [(-1.0, -inf), (-2.0, nan), (-0.0, -0.0), (inf, inf), (3.4e38, math.log(3.4e38))],
        "tanh": [(inf, 1.0), (-inf, -1.0), (-0.0, -0.0), (0.0, 0.0)],
        "sigmoid": [(inf, 1.0), (-inf, 0.0), (-1000.0, 0.0), (0.0, 0.5)],
        "erf": [(inf, 1.0), (-inf, -1.0), (-0.0, -0.0)],
        "erfc": [(inf, 0.0), (-inf, 2.0), (100.0, 0.0)],
        "sin": [(inf, nan), (-inf, nan), (-0.0, -0.0), (0.0, 0.0)],
        "cos": [(inf, nan), (0.0, 1.0)],
        "asin": [(1.5, nan), (-0.0, -0.0)],
        "acosh": [(0.5, nan), (1.0, 0.0), (inf, inf)],
        "atanh": [(1.0, inf), (-1.0, -inf), (1.5, nan)],
        "atan": [(inf, math.pi / 2), (-inf, -math.pi / 2)],
        "sinh": [(inf, inf), (-inf, -inf), (-0.0, -0.0)],
    }
    for name, rows in cases.items():
        for x, want in (*rows, (nan, nan)):
            got = evaluate(name, np.array([x], np.float32))
            rounded = np.array([want], np.float32)
            same = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
            assert (same | (np.isnan(got) & np.isnan(rounded))).all(), f"{name}({x}) = {got}, wanted {want}"


def test_signalling_nan_patterns_stay_nan() -> None:
    x = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFC00123, 0x7FC001FF], np.uint32).view(np.float32)
    for name in oracle.UNARY:
        with np.errstate(all="ignore"):
            assert np.isnan(evaluate(name, x)).all(), name


def grid() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    line = np.concatenate([oracle.SPECIAL, np.arange(-12, 13), rng.uniform(-100, 100, 60)]).astype(np.float32)
    wide = np.exp2(rng.uniform(-120, 120, 60)).astype(np.float32) * rng.choice([-1, 1], 60).astype(np.float32)
    a, b = np.meshgrid(np.concatenate([line, wide]), np.concatenate([line, wide]))
    normal = (np.abs(a) >= 2.0**-126) | (a == 0), (np.abs(b) >= 2.0**-126) | (b == 0)
    keep = (normal[0] & normal[1]).ravel()
    return a.ravel()[keep], b.ravel()[keep]


@pytest.mark.parametrize("trusted", [("fdiv", "fsqrt"), ()], ids=["trusted", "corrected"])
def test_remainder_is_exact(trusted: tuple[str, ...]) -> None:
    a, b = grid()
    with np.errstate(all="ignore"):
        want = np.mod(a, b)
    got = evaluate("mod", a, b, trusted=trusted)
    same = (got == want) & (np.signbit(got) == np.signbit(want))
    tiny = (np.abs(want) < 2.0**-126) & (np.abs(got) < 2.0**-126)
    wrong = ~(same | tiny | (np.isnan(got) & np.isnan(want)))
    assert not wrong.any(), (a[wrong][:3], b[wrong][:3], got[wrong][:3], want[wrong][:3])


@pytest.mark.parametrize("trusted", [("fdiv", "fsqrt"), ()], ids=["trusted", "corrected"])
def test_floor_division_is_the_floor(trusted: tuple[str, ...]) -> None:
    """Against exact rational arithmetic for finite quotients, the plain quotient where an operand is infinite, else NumPy."""
    a, b = grid()
    got = evaluate("floordiv", a, b, trusted=trusted)
    with np.errstate(all="ignore"):
        like_numpy = np.where(np.isinf(a) | np.isinf(b), a / b, np.floor_divide(a, b))
        want = np.where(np.isfinite(a) & np.isfinite(b) & (b != 0), np.nan, like_numpy)
    for k in np.flatnonzero(np.isnan(want) & np.isfinite(a) & np.isfinite(b) & (b != 0)):
        (p, q), (r, s) = float(a[k]).as_integer_ratio(), float(b[k]).as_integer_ratio()
        exact = (p * s) // (q * r)
        want[k] = np.inf * np.sign(exact) if abs(exact) > 3.4028235e38 else exact
    finite = np.isfinite(want) & np.isfinite(got)
    want, answer = np.where(finite, want, 1), want
    near = finite & (
        np.abs(got.astype(np.float64) - want) <= np.abs(want) * 2.0**-23 * (np.abs(want) >= 2**24)
    )
    want = answer
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    edge = np.isinf(got) & (np.abs(want) > 3.4e38)
    wrong = ~(near | same | edge)
    assert not wrong.any(), (a[wrong][:3], b[wrong][:3], got[wrong][:3], want[wrong][:3])


def test_philox_known_answers() -> None:
    """The test vectors that the authors of the generator publish."""
    b: Any = NumpyBuilder()
    vectors = [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ]
    for counter, key, want in vectors:
        registers = [[Reg(b, b.bits(Ty.U32, v)) for v in group] for group in (counter, key)]
        words = philox.philox4x32_10(*registers)
        assert " ".join(f"{int(w.v.data):08x}" for w in words) == want  # type: ignore[attr-defined]


def test_four_neighbours_share_the_rounds() -> None:
    def products(lanes: int) -> int:
        b = Builder("random", (64, 1, 1), "descriptor", [Buffer("w")])
        quad = b.op("shl", b.builtin("global_id"), b.const(Ty.U32, 2))
        for lane in range(lanes):
            element = b.op("iadd", quad, b.const(Ty.U32, lane))
            word = emit_op(b, "philox", uint32, (uint32,) * 4, [b.word(0), b.word(1), b.word(2), element])
            b.store(0, element, word)
        return count(b.finish(), sp.OP_UMUL_EXTENDED)

    assert 0 < products(1) == products(4) <= 2 * philox.ROUNDS


def test_philox_by_element_is_philox_by_block() -> None:
    b: Any = NumpyBuilder()
    index = np.array([0, 1, 2, 3, 4, 4 * 777 + 2, 2**32 - 1], np.uint32)
    args = [Array(Ty.U32, np.full(7, v, np.uint32)) for v in (11, 22, 33)]
    got = emit_op(b, "philox", uint32, (uint32,) * 4, [*args, Array(Ty.U32, index)])  # type: ignore[list-item]
    for k, element in enumerate(index.tolist()):
        counter = [Reg(b, b.bits(Ty.U32, v)) for v in (element // 4, 33, 0, 0)]
        key = [Reg(b, b.bits(Ty.U32, v)) for v in (11, 22)]
        want = philox.philox4x32_10(counter, key)[element % 4]
        assert int(got.data[k]) == int(want.v.data)  # type: ignore[attr-defined]
