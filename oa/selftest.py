"""The known-answer self-test: what a driver must compute right before `oa` trusts it. Under a second, once per driver.

Inputs are fixed; answers come from float64 on the host, or are published vectors (Philox). A device that fails is refused:
a wrong answer later would be silent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import oa.matrix as m
from oa._kernel.emit import trust
from oa._kernel.pack import Kernel
from oa._version import __version__
from oa.config import CONFIG
from oa.errors import SelfTestFailed

if TYPE_CHECKING:
    from oa.engine import Engine

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Check:
    """One known answer: the error found, in units in the last place, and what is allowed."""

    name: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether the error is finite and allowed."""
        return bool(self.error <= self.allowed)


@dataclass(frozen=True)
class Report:
    """All checks on one device."""

    device: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(c.passed for c in self.checks)

    def __str__(self) -> str:
        lines = [f"self-test on {self.device}: {'passed' if self.passed else 'FAILED'}"]
        lines += [
            f"  {'ok  ' if c.passed else 'FAIL'} {c.name:<16} error {c.error:8.3g} ulp, allowed {c.allowed:g}"
            for c in self.checks
        ]
        return "\n".join(lines)


def ulp_error(got: Array, want: Array) -> float:
    """The largest distance in units in the last place of float32; inf where kinds (NaN, inf, sign of inf) differ."""
    got64, want64 = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = want64.astype(np.float32)
        special = ~np.isfinite(rounded)
        same = np.where(np.isnan(rounded), np.isnan(got64), got64 == rounded)
        if not bool(np.all(same[special])):
            return float("inf")
        unit = np.spacing(np.abs(np.where(special, 1, rounded)).astype(np.float32)).astype(np.float64)
        error = np.where(special, 0.0, np.abs(got64 - want64) / np.maximum(unit, 2.0**-126 * 2.0**-23))
    return float(np.max(error, initial=0.0)) if not np.isnan(error).any() else float("inf")


_X = np.array([-87.0, -9.5, -1.25, -0.5, -1e-6, -0.0, 0.0, 1e-6, 0.3, 0.999, 1.0, 2.5, 9.5, 88.0], np.float32)
_POSITIVE = np.array([1e-30, 1e-6, 0.1, 0.5, 0.999, 1.0, 1.001, 2.0, 3.5, 10.0, 1e6, 1e30], np.float32)
_FUNCTIONS: tuple[tuple[str, Callable[[Any], Any], Array, float], ...] = (
    ("exp", np.exp, _X, 2.0),
    ("expm1", np.expm1, _X, 2.0),
    ("tanh", np.tanh, _X, 2.0),
    ("sin", np.sin, _X, 2.0),
    ("cos", np.cos, _X, 2.0),
    ("log", np.log, _POSITIVE, 2.0),
    ("log1p", np.log1p, _POSITIVE, 2.0),
    ("sqrt", np.sqrt, _POSITIVE, 1.0),
    ("reciprocal", np.reciprocal, _POSITIVE, 1.0),
)


def selftest(engine: Engine) -> Report:
    """Run every check on the engine's device."""
    checks = [_functions(engine, xs) for xs in (_X, _POSITIVE)]
    found = [c for group in checks for c in group]
    found += [_integers(engine), _reduction(engine), _matmul(engine), _random(engine), _special(engine)]
    return Report(engine.device.snapshot.name, tuple(found))


def _functions(engine: Engine, inputs: Array) -> list[Check]:
    x = m.from_numpy(engine, inputs)
    chosen = [(n, f, a) for n, f, xs, a in _FUNCTIONS if xs is inputs]
    results = [getattr(m, name)(x) for name, _, _ in chosen]
    found = []
    with np.errstate(all="ignore"):
        for (name, function, allowed), result in zip(chosen, results):
            found.append(
                Check(name, ulp_error(result.to_numpy(), function(inputs.astype(np.float64))), allowed)
            )
    return found


def _mismatch(name: str, got: Array, want: Array) -> Check:
    same = (
        got.shape == want.shape
        and got.dtype == want.dtype
        and bool(np.array_equal(got, want, equal_nan=True))
    )
    return Check(name, 0.0 if same else float("inf"), 0.0)


def _integers(engine: Engine) -> Check:
    a = np.array([7, -7, 7, -7, 2147483647, -2147483648, 5], np.int32)
    b = np.array([3, 3, -3, -3, 2, -1, 0], np.int32)
    x, y = m.from_numpy(engine, a), m.from_numpy(engine, b)
    want = np.array([2, -3, -3, 2, 1073741823, -2147483648, 0], np.int32)
    got = np.stack([m.floor_divide(x, y).to_numpy(), (x * y).to_numpy()])
    with np.errstate(over="ignore"):
        return _mismatch("integers", got, np.stack([want, a * b]))


def _reduction(engine: Engine) -> Check:
    values = (np.arange(1, 3001, dtype=np.float64) / 7).astype(np.float32)
    got = m.sum(m.from_numpy(engine, values)).to_numpy()
    return Check("sum", ulp_error(got, np.asarray(values.astype(np.float64).sum())), 2.0)


def _matmul(engine: Engine) -> Check:
    a = np.arange(35, dtype=np.float32).reshape(5, 7) - 17
    b = np.arange(21, dtype=np.float32).reshape(7, 3) - 9
    got = m.matmul(m.from_numpy(engine, a), m.from_numpy(engine, b)).to_numpy()
    return _mismatch("matmul", got, a @ b)  # small integers: every sum is exact


def _random(engine: Engine) -> Check:
    """Uniforms of seed 0 against the generator written out with Python integers."""
    got = m.uniform(engine, (6,), seed=0).to_numpy()
    words = [philox((k // 4, 0, 0, 0), (0, 0))[k % 4] for k in range(6)]
    return _mismatch("random", got, np.array([(w >> 8) * 2.0**-24 for w in words], np.float32))


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011) on Python integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    mask = 0xFFFFFFFF
    for _ in range(10):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & mask, (first >> 32) ^ c3 ^ k1, first & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


def _special(engine: Engine) -> Check:
    """NaN spreads through max; a float that is too large saturates; the order of -0 and 0."""
    x = m.from_numpy(engine, np.array([np.nan, 1.0, -0.0, 3e9], np.float32))
    y = m.from_numpy(engine, np.array([1.0, np.nan, 0.0, -3e9], np.float32))
    got = np.concatenate([m.maximum(x, y).to_numpy(), m.astype(x, "int32").to_numpy().astype(np.float32)])
    want = np.array([np.nan, np.nan, 0.0, 3e9, 0.0, 1.0, 0.0, 2147483647.0], np.float32)
    return _mismatch("special values", got, want)


def trusted(engine: Engine) -> frozenset[str]:
    """The native operations that the device rounds correctly."""
    addressing = engine.device.profile.addressing
    probe = trust.probe(addressing)
    kernel = Kernel("trust", probe.words, 2, 0, addressing, (trust.LOCAL, 1, 1))
    return trust.judge(engine.run_kernel(kernel, probe.groups, probe.inputs, probe.output_bytes).tobytes())


def require(engine: Engine) -> None:
    """Run the self-test unless this driver passed this version's before. Raises SelfTestFailed with the report."""
    profile = engine.device.profile
    mark = f"{__version__} {profile.name} {profile.addressing}"
    path = CONFIG.cache_dir / f"selftest-{profile.fingerprint}.json"
    passed = _read(path)
    if mark not in passed:
        passed[mark] = sorted(trusted(engine))
        engine.trust(frozenset(passed[mark]))
        report = selftest(engine)
        if not report.passed:
            raise SelfTestFailed(
                f"{report}\nThe driver computes wrong results; update it, or choose another device."
            )
        _write(path, passed)
    engine.trust(frozenset(passed[mark]))


def _read(path: Path) -> dict[str, list[str]]:
    """What passed before, with the operations trusted; nothing when the file is missing or not ours."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(v, list) for v in found.values()) else {}


def _write(path: Path, passed: dict[str, list[str]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(passed), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        return  # a cache that cannot be written costs the test again, nothing else
