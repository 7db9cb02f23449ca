"""Cases of operations that work element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.arrays.case import Case

#: Where PyTorch's name is another.
TORCH = {"bitwise_invert": "bitwise_not", "equal": "eq", "not_equal": "ne"}
#: Where NumPy's is.
NUMPY = {"round": "rint"}

_ONE = {
    "x": (
        "abs ceil copysign/y cos cosh exp exp2 expm1 floor isfinite isinf isnan negative round sign signbit sin sinh square tan"
        " tanh trunc atan asinh add/y atan2/y divide/y equal/y greater/y greater_equal/y hypot/y less/y less_equal/y logaddexp/y"
        " maximum/y minimum/y multiply/y nextafter/y not_equal/y subtract/y floor_divide/p remainder/p"
    ),
    "p": "log log1p log2 log10 sqrt reciprocal pow/x",
    "u": "acos asin atanh",
    "a": "acosh",
    "i": (
        "bitwise_and/j bitwise_or/j bitwise_xor/j bitwise_invert bitwise_left_shift/j bitwise_right_shift/j"
        " floor_divide/j remainder/j multiply/j"
    ),
    "b": "logical_and/c logical_or/c logical_xor/c logical_not",
}


def _same() -> list[Case]:
    """Operations that everybody calls by one name."""
    found = []
    for first, names in _ONE.items():
        for entry in names.split():
            name, _, second = entry.partition("/")
            title = (
                f"{name}, int32"
                if first == "i" and name in ("floor_divide", "remainder", "multiply")
                else name
            )
            found.append(
                Case(
                    title,
                    first + second,
                    lambda ns, *a, n=name: getattr(ns, n)(*a),
                    lambda ns, *a, n=name: getattr(ns, NUMPY.get(n, n))(*a),
                    lambda ns, *a, n=name: getattr(ns, TORCH.get(n, n))(*a),
                    check="same" if name == "nextafter" else "first",
                )
            )
    return found


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _gelu_tanh(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


_NAMED = (
    Case("copy", "x", lambda m, x: x.copy(), lambda xp, x: x.copy(), lambda t, x: x.clone(), check="same"),
    Case("erf", "x", lambda m, x: m.erf(x), None, lambda t, x: t.erf(x), check="first", exact=lambda xp, x: _erf(x)),
    Case(
        "gelu", "x", lambda m, x: m.gelu(x), None, lambda t, x: t.nn.functional.gelu(x), check="first",
        exact=lambda xp, x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    ),
    Case(
        "gelu_tanh", "x", lambda m, x: m.gelu_tanh(x), _gelu_tanh,
        lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), check="first",
    ),
    Case("relu", "x", lambda m, x: m.relu(x), lambda xp, x: xp.maximum(x, 0), lambda t, x: t.relu(x), check="first"),
    Case("sigmoid", "x", lambda m, x: m.sigmoid(x), lambda xp, x: 1 / (1 + xp.exp(-x)), lambda t, x: t.sigmoid(x), check="first"),
    Case(
        "silu", "x", lambda m, x: m.silu(x), lambda xp, x: x / (1 + xp.exp(-x)), lambda t, x: t.nn.functional.silu(x),
        check="first",
    ),
    Case("softsign", "x", lambda m, x: m.softsign(x), lambda xp, x: x / (1 + xp.abs(x)), lambda t, x: t.nn.functional.softsign(x),
         check="first"),
    Case("rsqrt", "p", lambda m, x: m.rsqrt(x), lambda xp, x: 1 / xp.sqrt(x), lambda t, x: t.rsqrt(x), check="first"),
    Case("imag", "x", lambda m, x: m.imag(x), lambda xp, x: xp.zeros_like(x), lambda t, x: t.zeros_like(x), check="first"),
    Case("angle", "x", lambda m, x: m.angle(x), lambda xp, x: xp.angle(x), lambda t, x: t.angle(x), check="first"),
    Case(
        "complex", "xy", lambda m, x, y: m.complex(x, y), lambda xp, x, y: (x + 1j * y).astype(xp.complex64),
        lambda t, x, y: t.complex(x, y), check="same",
    ),
    Case(
        "clip", "x", lambda m, x: m.clip(x, -0.5, 0.5), lambda xp, x: xp.clip(x, -0.5, 0.5), lambda t, x: t.clip(x, -0.5, 0.5),
        check="same",
    ),
    Case(
        "where", "bxy", lambda m, c, x, y: m.where(c, x, y), lambda xp, c, x, y: xp.where(c, x, y),
        lambda t, c, x, y: t.where(c, x, y), check="first",
    ),
    Case(
        "astype, int32", "x", lambda m, x: m.astype(x, "int32"), lambda xp, x: x.astype(xp.int32), lambda t, x: x.int(),
        check="first",
    ),
    Case(
        "astype, float16", "x", lambda m, x: m.astype(x, "float16"), lambda xp, x: x.astype(xp.float16), lambda t, x: x.half(),
        check="same",
    ),
    Case(
        "isin", "if", lambda m, a, b: m.isin(a, b), lambda xp, a, b: xp.isin(a, b), lambda t, a, b: t.isin(a, b), bound="compute",
    ),
    Case(
        "searchsorted", "tx", lambda m, a, v: m.searchsorted(a, v), lambda xp, a, v: xp.searchsorted(a, v),
        lambda t, a, v: t.searchsorted(a, v, out_int32=True), bound="compute", check="same",
    ),
)  # fmt: skip

POINTWISE: tuple[Case, ...] = (_NAMED[0], *_same(), *_NAMED[1:])
