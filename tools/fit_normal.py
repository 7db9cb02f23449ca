"""Print the polynomial coefficients of the normal quantile in `oa/matrix/distributions.py`, fitted as the prelude's are.

    python -m tools.fit_normal

With w = -log(1 - x^2), the quantile of (1 + x) / 2 over x is smooth: one polynomial in w, two in its square root for the tails.
"""

from __future__ import annotations

import sys

import mpmath as mp

from tools.fit_prelude import Fit, solve

#: Where the polynomials meet, the centres of their variables, and the largest w: quantiles down to 2^-126.
ENDS, CENTRES = (0.0, 4.5, 18.0625, 88.0), (2.25, 3.125, 6.75)


def quantile_over_x(w: mp.mpf) -> mp.mpf:
    """z / x where x = sqrt(1 - exp(-w)) and erf(z / sqrt 2) = x."""
    with mp.workdps(80):
        if w < mp.mpf(10) ** -12:
            return mp.sqrt(mp.pi / 2)
        x = mp.sqrt(-mp.expm1(-w))
        upper = mp.exp(-w) / (1 + x) / 2
        z = mp.sqrt(2) * mp.erfinv(x) if w < 30 else mp.sqrt(-2 * mp.log(upper))
        for _ in range(60):
            value = mp.erfc(z / mp.sqrt(2)) / 2
            step = (value - upper) / (mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi))
            z += step
            if abs(step) < mp.mpf(10) ** -60:
                break
        return z / x


def _tail(part: int, count: int) -> Fit:
    centre = CENTRES[part]

    def function(t: mp.mpf) -> mp.mpf:
        return quantile_over_x((t + centre) ** 2)

    low, high = (w**0.5 - centre for w in ENDS[part : part + 2])
    return Fit(f"sqrt(w) - {centre}", function, low, high, count, lambda t: 1 / function(t))


FITS = {
    "_CENTRAL": Fit(
        "w - 2.25", lambda t: quantile_over_x(t + CENTRES[0]), -CENTRES[0], ENDS[1] - CENTRES[0], 9,
        lambda t: 1 / quantile_over_x(t + CENTRES[0]),
    ),
    "_TAIL": _tail(1, 12),
    "_FAR": _tail(2, 10),
}  # fmt: skip


def main() -> int:
    """Print the tuples, lowest coefficient first."""
    for name, fit in FITS.items():
        coefficients, _, error = solve(fit, 400)
        sys.stdout.write(f"# in {fit.about}, within {error:.2f} units of 2^-24\n{name} = (\n")
        sys.stdout.write("".join(f"    {c!r},\n" for c in coefficients) + ")\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
