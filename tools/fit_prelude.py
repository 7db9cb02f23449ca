"""Fit the polynomial coefficients of the safe-maths prelude and write `oa/_kernel/emit/coefficients.py`.

    python tools/fit_prelude.py            write the file
    python tools/fit_prelude.py --check    compare it with the committed one; exit 1 if they differ

Each row of `FITS` gives a function, an interval, a number of coefficients and a weight. The minimax polynomial of the
weighted error is found with the Remez exchange algorithm on values computed with mpmath. Its coefficients are rounded
to float32 one after the other from the lowest, refitting the rest each time, so that the following ones absorb the
rounding error of each. Weights turn the error of the polynomial into the relative error of the function it serves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 40
TARGET = Path(__file__).resolve().parent.parent / "oa" / "_kernel" / "emit" / "coefficients.py"
Function = Callable[[mp.mpf], mp.mpf]


class Fit(NamedTuple):
    """One polynomial: sum of c_k x^k close to `function` on [low, high], error times `weight` minimal."""

    about: str
    function: Function
    low: float
    high: float
    count: int
    weight: Function


def _at(function: Function, x: mp.mpf) -> mp.mpf:
    """The function, at zero as the limit from the right."""
    return function(x if x else mp.mpf(10) ** -15)


def odd(about: str, function: Function, high: float, count: int) -> Fit:
    """f(x) = x + x z P(z), z = x^2, on [0, high]."""

    def inner(z: mp.mpf) -> mp.mpf:
        x = mp.sqrt(z)
        return (function(x) / x - 1) / z

    return Fit(about, inner, 0.0, high * high, count, lambda z: z * mp.sqrt(z) / function(mp.sqrt(z)))


def logarithm(about: str, base: mp.mpf, lead: float, count: int = 8) -> Fit:
    """log_b(1 + f) = lead f + f P(f) or, for the natural logarithm, f + f^2 P(f)."""
    scale = 1 / mp.log(base)

    def log(f: mp.mpf) -> mp.mpf:
        return mp.log1p(f) * scale

    low, high = 2**-0.5 - 1, 2**0.5 - 1
    if base == mp.e:
        return Fit(about, lambda f: (log(f) - f) / f**2, low, high, count, lambda f: f * f / log(f))
    return Fit(about, lambda f: log(f) / f - lead, low, high, count + 1, lambda f: f / log(f))


HALF_LN2 = float(mp.log(2)) / 2 * 1.0001
QUARTER_PI = float(mp.pi) / 4 * 1.0005

FITS: dict[str, Fit] = {
    "EXP": Fit("e^r = 1 + r + r^2 P(r)", lambda r: (mp.expm1(r) - r) / r**2, -HALF_LN2, HALF_LN2, 5,
               lambda r: r * r / mp.exp(r)),
    "EXPM1": Fit("e^r - 1 = r + r^2 P(r)", lambda r: (mp.expm1(r) - r) / r**2, -HALF_LN2, HALF_LN2, 5,
                 lambda r: r * r / mp.expm1(r)),
    "EXP2": Fit("2^r = 1 + r P(r)", lambda r: (2**r - 1) / r, -0.5, 0.5, 6, lambda r: r / 2**r),
    "EXP2_SHORT": Fit("2^r = 1 + r P(r), two bits short", lambda r: (2**r - 1) / r, -0.5, 0.5, 5,
                      lambda r: r / 2**r),
    "TANH": odd("tanh x = x + x z P(z)", mp.tanh, 0.55, 4),
    "SINH": odd("sinh x = x + x z P(z)", mp.sinh, 1.0, 4),
    "ERF": Fit("erf x = x + x P(z)", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0.0, 0.95**2, 6,
               lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z))),
    "ERF_TAIL": Fit("log2(1 - erf x) = P(x)", lambda x: mp.log(mp.erfc(x)) / mp.log(2), 0.95, 3.95, 6,
                    lambda x: mp.erfc(x) / mp.erf(x)),
    "ERFC": Fit("e^(x^2) (2 x + 1) erfc x = 1.25 + P(t), t = (2 x - 1) / (2 x + 1)",
                lambda t: _erfc_smooth(t) - 1.25, -0.001, 0.9, 12, lambda t: 1 / _erfc_smooth(t)),
    "LOG": logarithm("log(1 + f) = f + f^2 P(f)", mp.e, 1.0),
    "LOG2": logarithm("log2(1 + f) = f + f P(f)", mp.mpf(2), 1.0),
    "LOG2_ODD": Fit("log2((1 + s) / (1 - s)) = 2 s / log 2 + s z P(z)",
                    lambda z: _log2_odd_rest(z), 0.0, 0.07**2, 3, lambda z: z / (1 + z / 3)),
    "LOG10": logarithm("log10(1 + f) = f / 2 + f P(f)", mp.mpf(10), 0.5),
    "ASINH": odd("asinh x = x + x z P(z)", mp.asinh, 1.1753, 9),
    "ATANH": odd("atanh x = x + x z P(z)", mp.atanh, 0.5, 6),
    "ACOSH": Fit("acosh(1 + t) = sqrt(2 t) (1 + t P(t))",
                 lambda t: (mp.acosh(1 + t) / mp.sqrt(2 * t) - 1) / t, 0.0, 0.6, 5,
                 lambda t: t * mp.sqrt(2 * t) / mp.acosh(1 + t)),
    "SIN": odd("sin x = x + x z P(z)", mp.sin, QUARTER_PI, 3),
    "COS": Fit("cos x = 1 - z / 2 + z^2 P(z)",
               lambda z: _cosine_rest(z), 0.0, QUARTER_PI**2, 3, lambda z: z * z / mp.cos(mp.sqrt(z))),
    "TAN": odd("tan x = x + x z P(z)", mp.tan, QUARTER_PI, 7),
    "ASIN": odd("asin x = x + x z P(z)", mp.asin, 0.6, 6),
    "ATAN": odd("atan x = x + x z P(z)", mp.atan, 1.0, 9),
}  # fmt: skip


def _erfc_smooth(t: mp.mpf) -> mp.mpf:
    x = (1 + t) / (1 - t) / 2
    return mp.exp(x * x) * (2 * x + 1) * mp.erfc(x)


def _log2_odd_rest(z: mp.mpf) -> mp.mpf:
    s = mp.sqrt(max(z, mp.mpf(10) ** -12))
    return (2 * mp.atanh(s) - 2 * s) / mp.log(2) / s**3


def _cosine_rest(z: mp.mpf) -> mp.mpf:
    z = max(z, mp.mpf(10) ** -12)
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def _thinned(extrema: list[int], error: np.ndarray, wanted: int) -> list[int]:
    """Drop the smallest alternating extrema, in neighbouring pairs inside and singly at the ends."""
    while len(extrema) > wanted:
        size = [abs(error[k]) for k in extrema]
        smallest = int(np.argmin(size))
        if len(extrema) - wanted == 1:
            extrema.pop(0 if size[0] < size[-1] else -1)
        elif smallest in (0, len(extrema) - 1):
            extrema.pop(smallest)
        else:
            other = smallest - 1 if size[smallest - 1] < size[smallest + 1] else smallest + 1
            for k in sorted((smallest, other), reverse=True):
                extrema.pop(k)
    return extrema


def remez(x: np.ndarray, y: np.ndarray, weight: np.ndarray, lowest: int, count: int) -> np.ndarray:
    """Coefficients of `count` powers of `x` from `lowest` that minimise the largest weighted error on the grid."""
    n, last = count, len(x) - 1
    # Divided by the lowest power the basis is a plain polynomial, of which the alternation theorem holds.
    y, weight = y / x**lowest, weight * abs(x**lowest)
    basis = np.stack([x**p for p in range(n)], 1)
    chosen = np.round((1 - np.cos(np.pi * (np.arange(n + 1) + 0.5) / (n + 1))) / 2 * last).astype(int)
    signs = ((-1.0) ** np.arange(n + 1))[:, None]
    for _ in range(100):
        system = np.concatenate([basis[chosen], signs / np.maximum(weight[chosen], 1e-300)[:, None]], 1)
        solution = np.linalg.solve(system, y[chosen])[:n]
        error = (y - basis @ solution) * weight
        sign = np.where(error < 0, -1, 1)
        runs = np.split(np.arange(len(x)), np.flatnonzero(np.diff(sign)) + 1)
        extrema = _thinned([int(run[np.argmax(abs(error[run]))]) for run in runs], error, n + 1)
        if len(extrema) <= n or np.array_equal(extrema, chosen):
            break
        chosen = np.array(extrema)
    return solution


def solve(fit: Fit, points: int = 1500) -> tuple[list[float], float, float]:
    """Float32 coefficients, and the weighted errors before and after rounding, in units of 2^-24."""
    nodes = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    x = (fit.low + fit.high) / 2 - (fit.high - fit.low) / 2 * nodes
    y = np.array([float(_at(fit.function, mp.mpf(float(v)))) for v in x])
    weight = abs(np.array([float(_at(fit.weight, mp.mpf(float(v)))) for v in x]))
    ideal = remez(x, y, weight, 0, fit.count)
    best = abs((y - np.polynomial.polynomial.polyval(x, ideal)) * weight).max()
    coefficients: list[float] = []
    rest, left = y.copy(), ideal
    for k in range(fit.count):
        coefficients.append(float(np.float32(left[0])))
        rest = rest - coefficients[-1] * x**k
        if k + 1 < fit.count:
            powers = np.stack([x**p for p in range(k + 1, fit.count)], 1)
            options = [
                left[1:],
                remez(x, rest, weight, k + 1, fit.count - k - 1),
                np.linalg.lstsq(powers * weight[:, None], rest * weight, rcond=None)[0],
            ]
            left = min(options, key=lambda c: float(abs((rest - powers @ c) * weight).max()))
    return coefficients, best * 2**24, abs(rest * weight).max() * 2**24


def generate() -> str:
    """The text of the coefficients module."""
    lines = [
        '"""Coefficients of the safe-maths prelude, lowest power first. Written by `tools/fit_prelude.py`; do not edit."""',
        "",
        "from __future__ import annotations",
    ]
    for name, fit in FITS.items():
        coefficients, ideal, rounded = solve(fit)
        if rounded > 1.3 * ideal + 0.3:
            raise SystemExit(f"{name}: error {rounded:.3f} after rounding, {ideal:.3f} before")
        lines += [
            "",
            f"#: {fit.about} on [{fit.low:.6g}, {fit.high:.6g}]; relative error {rounded:.3f} 2^-24",
        ]
        lines += [f"{name} = (", *(f"    {c!r}," for c in coefficients), ")"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the file."""
    text = generate()
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text() == text
        print(f"{TARGET.name} {'matches' if same else 'differs from'} tools/fit_prelude.py")
        return 0 if same else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
