"""Answers of distributions made from words: definitions in float32 where they round, everything else in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.oracle.matrix import philox

Array = np.ndarray[Any, Any]
F = np.float32
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def open_unit(words: Array) -> Array:
    """(k + 1/2) / 2^23, exact in float32 and in float64."""
    return ((words >> np.uint32(9)).astype(np.float64) + 0.5) * 2.0**-23


def quantile(q: Array) -> Array:
    """z with a normal probability of q above it, by bisection and Newton steps in float64, q <= 1/2."""
    low, high = np.zeros(q.shape), np.full(q.shape, 14.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = _erfc(middle / math.sqrt(2)) / 2 > q
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    z = (low + high) / 2
    return z + (_erfc(z / math.sqrt(2)) / 2 - q) * math.sqrt(2 * math.pi) * np.exp(z * z / 2)


def truncated_normal(seed: int, draw: int, shape: tuple[int, ...], low: float, high: float) -> Array:
    """The probability is rounded to float32 before its quantile is taken, from whichever tail is nearer."""
    u = open_unit(philox(seed, draw, math.prod(shape))).astype(F)
    below, above = _tail(-low), _tail(high)
    share, upper = F(_tail(-high) - below), F(_tail(low) - above)
    p = F(below) + share * u
    q = F(above) + upper * (F(1) - u)
    lower = p <= F(0.5)
    z = quantile(np.where(lower, p, q).astype(np.float64))
    return np.clip(np.where(lower, -z, z), low, high).reshape(shape)


def _tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def gamma(seed: int, draw: int, a: Array, rounds: int = 6, words: int = 20) -> tuple[Array, Array]:
    """(variates, whether no decision was close) of concentrations `a`, scale 1; Marsaglia and Tsang 2000."""
    flat = a.reshape(-1).astype(np.float64)
    word = philox(seed, draw, flat.size * words).reshape(flat.size, words)
    boosted = np.where(flat < 1, flat + 1, flat)
    d = boosted - 1 / 3
    found, settled, clear = d.copy(), np.zeros(flat.size, bool), np.ones(flat.size, bool)
    for k in range(rounds):
        w = word[:, 3 * k : 3 * k + 3]
        angle = (w[:, 1] >> np.uint32(8)).astype(np.float64) * 2.0**-24 * 2 * np.pi
        x = np.sqrt(-2 * np.log(open_unit(w[:, 0]))) * np.cos(angle)
        root = 1 + x / np.sqrt(9 * d)
        v = np.where(root > 0, root, 1.0) ** 3
        bound = x * x / 2 + d * (1 - v + np.log(v))
        chance = np.log(open_unit(w[:, 2]))
        taken = (root > 0) & (chance < bound)
        found = np.where(~settled & taken, d * v, found)
        clear &= settled | ((np.abs(chance - bound) > 3e-6 * (1 + d)) & (np.abs(root) > 1e-5))
        settled |= taken
    u = open_unit(word[:, 3 * rounds])
    with np.errstate(under="ignore"):
        found = found * np.where(flat < 1, u ** (1 / flat), 1.0)
    return found.reshape(a.shape), clear.reshape(a.shape)
