"""The matrix product that stands for a machine's speed in this minute: 4 x 8 elements an invocation, from storage buffers.

    python -m bench.lab.prototype [DEVICE]        GFLOP/s of 512 x 512 x 512 by the clock, best of five

A software device shares its cores with whatever else runs. Times taken on it compare only beside this figure, which no work on
our own kernels changes: 13 GFLOP/s on two idle cores of the machine that the project's limits were written for.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np

from bench.lab.runner import runner
from oa._kernel.emit.ir import Buffer, Builder, Ty, Value
from oa._kernel.pack import Kernel

N = 512
ROWS, COLUMNS, GROUP = 4, 8, 8


@dataclass(frozen=True)
class _Product:
    """C = A B, square, row-major; word 0 is a quarter of the extent."""

    kernel: Kernel
    groups: tuple[int, int, int] = (N // COLUMNS // GROUP, N // ROWS // GROUP, 1)
    operands: tuple[str, ...] = ("a", "b", "c")
    words: tuple[int, ...] = (N // 4,)


def product(addressing: str) -> Kernel:
    """The kernel for an addressing."""
    b = Builder("prototype", (GROUP, GROUP, 1), addressing, [Buffer("r", 4), Buffer("r", 4), Buffer("w", 4)])
    quarter = b.word(0)

    def number(value: int) -> Value:
        return b.const(Ty.U32, value)

    def at(row: Value, column: Value) -> Value:
        return b.op("iadd", b.op("imul", row, quarter), column)

    column = b.op("imul", b.builtin("global_id", 0), number(COLUMNS // 4))
    first = b.op("imul", b.builtin("global_id", 1), number(ROWS))
    rows = [b.op("iadd", first, number(i)) for i in range(ROWS)]
    places = [b.op("iadd", column, number(j)) for j in range(COLUMNS // 4)]

    def step(k: Value, *sums: Value) -> list[Value]:
        left = [[b.bitcast(Ty.F32, v) for v in b.load4(0, at(row, k))] for row in rows]
        out = list(sums)
        for q in range(4):
            k_row = b.op("iadd", b.op("shl", k, number(2)), number(q))
            right = [b.bitcast(Ty.F32, v) for place in places for v in b.load4(1, at(k_row, place))]
            for i in range(ROWS):
                for j in range(COLUMNS):
                    out[COLUMNS * i + j] = b.op("ffma", left[i][q], right[j], out[COLUMNS * i + j])
        return out

    sums = b.repeat(quarter, step, *[b.const(Ty.F32, 0.0)] * (ROWS * COLUMNS))
    for i, row in enumerate(rows):
        for j, place in enumerate(places):
            start = COLUMNS * i + 4 * j
            b.store4(2, at(row, place), [b.bitcast(Ty.U32, v) for v in sums[start : start + 4]])
    return Kernel("prototype", b.finish(), 3, 1, addressing, (GROUP, GROUP, 1))


def rate(device: str = "cpu") -> float:
    """GFLOP/s by the clock, best of five; raises ArithmeticError when the product is wrong."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((N, N), np.float32) for _ in range(2))
    with runner(device, addressing="descriptor") as run:
        launches = [_Product(product("descriptor"))]
        buffers = {"a": run.upload(a), "b": run.upload(b), "c": run.scratch(a.nbytes)}
        seconds = []
        for _ in range(6):  # the first one builds the pipeline
            begin = time.perf_counter()
            run.run(launches, buffers)
            seconds.append(time.perf_counter() - begin)
        found = run.download(buffers["c"], N * N).reshape(N, N)
    if not np.allclose(found, a.astype(np.float64) @ b, rtol=0, atol=N * 2.0**-20):
        raise ArithmeticError("the prototype's product is wrong")
    return 2e-9 * N**3 / min(seconds[1:])


if __name__ == "__main__":
    print(f"{rate(*sys.argv[1:2]):.2f}")
