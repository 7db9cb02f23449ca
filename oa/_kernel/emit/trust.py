"""Which native operations a device rounds correctly: one small kernel on known inputs, and the verdict on its output.

    trial = probe("descriptor")            # a kernel, its input and its shape: run it once per device and driver
    trusted = judge(output)                # for Builder(..., trusted=trusted)

"fdiv" and "fsqrt" are trusted when every result has the bits of the correctly rounded one, "ffma" when it rounds once.
What is not trusted is corrected by the safe-maths prelude, so a wrong verdict in that direction only costs time.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from oa._kernel.emit.ir import Buffer, Builder, Ty

COUNT = 4096  #: inputs of each operation
LOCAL = 64
Array = np.ndarray[Any, Any]


class Probe(NamedTuple):
    """What to run: one dispatch of `groups` workgroups, buffer 0 read, buffer 1 written, no plain argument words."""

    words: bytes
    inputs: bytes
    output_bytes: int
    groups: tuple[int, int, int]


@cache
def _inputs() -> tuple[Array, Array, Array]:
    """Numerators, divisors and factors, with the hard exponents among them; all quotients are normal."""
    rng = np.random.default_rng(2011)
    a, b = (rng.integers(0, 1 << 23, COUNT).astype(np.uint32) | np.uint32(127 << 23) for _ in range(2))
    high = rng.integers(-40, 41, COUNT)
    low = rng.integers(-40, 41, COUNT)
    high[: COUNT // 4], low[: COUNT // 4] = (
        125,
        rng.integers(60, 127, COUNT // 4),
    )  # divisors with flushed reciprocals
    shifted = [(v.astype(np.int64) + (e << 23)).astype(np.uint32) for v, e in ((a, high), (b, low))]
    x, y = (v.view(np.float32) for v in shifted)
    return x, y, b.view(np.float32)


def probe(addressing: str) -> Probe:
    """The kernel and its input."""
    b = Builder("trust", (LOCAL, 1, 1), addressing, [Buffer("r"), Buffer("w")], trusted=frozenset(("fdiv",)))
    index = b.builtin("global_id")

    def at(k: int) -> Any:
        return b.op("iadd", index, b.const(Ty.U32, k * COUNT))

    x, y, c = (b.bitcast(Ty.F32, b.load(0, at(k))) for k in range(3))
    product = b.op("fmul", c, c)
    results = (b.op("fdiv", x, y), b.op("fsqrt", x), b.op("ffma", c, c, b.op("fneg", product)))
    for k, value in enumerate(results):
        b.store(1, at(k), b.bitcast(Ty.U32, value))
    inputs = b"".join(v.tobytes() for v in _inputs())
    return Probe(b.finish(), inputs, 12 * COUNT, (COUNT // LOCAL, 1, 1))


def judge(output: bytes | bytearray | memoryview) -> frozenset[str]:
    """The operations whose results, the output of the probe's kernel, are all correctly rounded."""
    got = np.frombuffer(output, np.uint32, 3 * COUNT).reshape(3, COUNT)
    x, y, c = _inputs()
    wide = c.astype(np.float64)
    rounded = (c * c).astype(np.float64)
    wanted: tuple[Array, ...] = (
        x / y,
        np.sqrt(x),
        (wide * wide - rounded).astype(np.float32),
    )  # the last is exact
    names = ("fdiv", "fsqrt", "ffma")
    return frozenset(
        n for n, g, w in zip(names, got, wanted, strict=True) if np.array_equal(g, w.view(np.uint32))
    )
