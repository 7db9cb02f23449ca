"""Times every matrix multiplication kernel that fits, over problems that matter, with a correctness column.

    python bench/lab/matmul_lab.py [--device NAME] [--addressing A] [--json OUT] [--only TEXT]
    python bench/lab/matmul_lab.py --build PACK        compile the experimental tiles (needs the Slang compiler)
    python bench/lab/matmul_lab.py --pack PACK ...     time them too

On a GPU: squares of 1024, 2048 and 4096 in the layouts NN, NT and TN, long k, vectors, batches. On a software device: a square,
the products of the demo's training step, and the two of its attention. Device time by timestamps, kernels taking turns, the
least of several rounds: other work on the machine only ever adds. GFLOP/s count 2 m n k a matrix. `error` is the largest error
found over the bound of tests/device/test_matmul_family.py, in sampled rows; above 1 is wrong, and the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np

from bench.lab.runner import Array, Runner, runner
from oa._kernel.matmul import choose, family, variants
from oa._kernel.matmul.problem import Problem
from oa._kernel.matmul.variants import Variant
from oa._kernel.pack import Pack, encode


@dataclass(frozen=True)
class Size:
    """A problem with dense operands: `layout` says n(ormal) or t(ransposed) for A and B."""

    m: int
    n: int
    k: int
    layout: str = "nn"
    batch: int = 1

    @property
    def name(self) -> str:
        """How the table calls it."""
        prefix = f"{self.batch} x " if self.batch > 1 else ""
        return f"{prefix}{self.m}x{self.n}x{self.k} {self.layout}"

    @property
    def flops(self) -> float:
        """Floating-point operations, two a product."""
        return 2.0 * self.m * self.n * self.k * self.batch

    def problem(self) -> Problem:
        """As the family takes it."""
        m, n, k = self.m, self.n, self.k
        return Problem(
            m, n, k, (1, self.batch),
            (*((k, 1) if self.layout[0] == "n" else (1, m)), 0, m * k),
            (*((n, 1) if self.layout[1] == "n" else (1, k)), 0, k * n),
            (n, 0, m * n),
        )  # fmt: skip


_PRODUCTS = ((64, 192), (64, 64), (64, 256), (256, 64), (64, 103))
_CPU = (
    Size(512, 512, 512),
    *(Size(2048, n, k, "nt") for k, n in _PRODUCTS),  # forward: a weight is stored as (outputs, inputs)
    *(Size(2048, k, n) for k, n in _PRODUCTS),  # gradient of the input
    *(Size(n, k, 2048, "tn") for k, n in _PRODUCTS),  # gradient of the weight
    Size(64, 64, 16, "nt", batch=128),
    Size(64, 16, 64, batch=128),
    Size(16, 64, 64, "tn", batch=128),
    Size(1, 512, 512),
    Size(512, 1, 512),
)
_GPU = (
    *(Size(s, s, s, layout) for s in (1024, 2048, 4096) for layout in ("nn", "nt", "tn")),
    Size(4096, 4096, 4096, "tt"),
    Size(4095, 4093, 4097),
    Size(256, 256, 256),
    Size(512, 512, 512),
    *(Size(2048, n, k, "nt") for k, n in _PRODUCTS),
    *(Size(n, k, 2048, "tn") for k, n in _PRODUCTS),
    Size(64, 64, 65536, "tn"),
    Size(64, 64, 16, "nt", batch=128),
    Size(64, 64, 64, batch=4096),
    Size(1, 4096, 4096),
    Size(4096, 1, 4096),
    Size(4096, 1, 4096, "tn"),
    Size(16, 4096, 4096),
)

#: Tiles worth trying beside those of the pack: (rows, columns, depth, rows and columns of an invocation).
_EXPERIMENTS = (
    (128, 128, 8, 8, 8),
    (256, 128, 8, 16, 8),
    (128, 256, 8, 8, 16),
    (128, 64, 16, 8, 8),
    (64, 128, 16, 8, 8),
    (64, 64, 16, 8, 8),
    (64, 64, 8, 8, 8),
    (128, 128, 16, 16, 8),
)


def experiments() -> Iterator[Variant]:
    """The experimental tiles, for each layout of 4-wide operands."""
    for bm, bn, bk, tm, tn in _EXPERIMENTS:
        for a, b in ((1, 2), (1, 1), (2, 2)):
            yield variants.tiles(bm, bn, bk, tm, tn, a, b, "try_")


def build(path: Path) -> None:
    """Compile the experimental tiles into a pack of their own."""
    from tools.kernels import compile_recipe

    made = [compile_recipe(v.recipe, a) for v in experiments() for a in ("address", "descriptor")]
    path.write_bytes(encode(made))
    print(f"{path}: {len(made)} kernels")


class Bench:
    """One problem on one device: operands, and the reference of sampled rows."""

    def __init__(self, device: Runner, size: Size) -> None:
        self.device, self.size = device, size
        rng = np.random.default_rng(1)
        self.a = rng.standard_normal((size.batch, size.m, size.k), dtype=np.float32)
        self.b = rng.standard_normal((size.batch, size.k, size.n), dtype=np.float32)
        a = self.a if size.layout[0] == "n" else self.a.transpose(0, 2, 1)
        b = self.b if size.layout[1] == "n" else self.b.transpose(0, 2, 1)
        self.count = size.batch * size.m * size.n
        self.buffers = {"a": device.upload(a), "b": device.upload(b), "c": device.scratch(4 * self.count)}
        self.rows = np.unique(np.linspace(0, size.m - 1, 16, dtype=int))
        some = self.a[:: max(1, size.batch // 4), self.rows].astype(np.float64)
        self.batches = slice(None, None, max(1, size.batch // 4))
        right = self.b[self.batches].astype(np.float64)
        gamma = size.k * 2.0**-24 / (1 - size.k * 2.0**-24)
        self.exact, self.bound = some @ right, gamma * (np.abs(some) @ np.abs(right))

    def close(self) -> None:
        """Free the operands."""
        for buffer in self.buffers.values():
            buffer.close()

    def error(self, found: Array) -> float:
        """The largest error over its bound."""
        c = found.reshape(self.size.batch, self.size.m, self.size.n)[self.batches][:, self.rows]
        return float(np.max(np.abs(c - self.exact) / self.bound))

    def plans(self, packs: Sequence[Pack], only: str) -> dict[str, tuple[list[Any], int]]:
        """(launches, scratch bytes) of each kernel that fits and of the family's own choice."""
        problem, profile = self.size.problem(), self.device.profile
        found = {"chosen": family.plan(problem, "float32", profile)}
        able = [*variants.REGISTERS, *(variants.LANES if choose.has_lanes(profile) else ()), *variants.TILES]
        if len(packs) > 1:
            able += experiments()
        for variant in able:
            slow = profile.tuning == "gpu" and variant in variants.REGISTERS
            wasteful = variant.tile_m * variant.tile_n > 16 * self.size.m * self.size.n
            software = profile.tuning == "cpu" and variant in variants.TILES
            if slow or wasteful or software or only not in variant.name:
                continue
            if choose.fits(variant, problem) and choose.runs(variant, profile):
                ranges = choose.ranges(variant, problem, profile.tuning)
                picked = choose.Choice(variant, False, *ranges)
                pack = next(p for p in packs if (variant.name, profile.addressing) in p)
                found[variant.name] = family.dispatches(problem, picked, profile, pack)
        return found

    def measure(self, packs: Sequence[Pack], only: str, rounds: int) -> list[dict[str, Any]]:
        """A row for each kernel, the fastest first."""
        plans = self.plans(packs, only)
        self.buffers["partial"] = self.device.scratch(max(scratch for _, scratch in plans.values()))
        rows = {}
        for name, (launches, _) in plans.items():
            self.device.run(launches, self.buffers)
            found = self.device.download(self.buffers["c"], self.count)
            kernels = [launch.kernel.name.removeprefix("matmul.") for launch in launches]
            rows[name] = {
                "size": self.size.name,
                "kernel": name,
                "launches": kernels,
                "error": self.error(found),
            }
        best = dict.fromkeys(plans, float("inf"))
        for _ in range(rounds):
            for name, (launches, _) in plans.items():
                repeats = 1 if best[name] == float("inf") else max(1, min(50, round(0.01 / best[name])))
                times = self.device.time(launches, self.buffers, repeats=repeats, rounds=3)
                best[name] = min(best[name], *times)
        for name, row in rows.items():
            row |= {"seconds": best[name], "gflops": self.size.flops / best[name] / 1e9}
        return sorted(rows.values(), key=lambda row: -row["gflops"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--addressing", choices=("address", "descriptor"))
    parser.add_argument("--tuning", choices=("cpu", "gpu"), help="take the device for one of this kind")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--sizes", default="", help="sizes whose name contains this")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--build", type=Path, help="compile the experimental tiles into this file and stop")
    parser.add_argument("--pack", type=Path, help="a file that --build wrote")
    options = parser.parse_args()
    if options.build:
        build(options.build)
        return 0
    packs = [family.default(), *([Pack(options.pack)] if options.pack else [])]
    rows: list[dict[str, Any]] = []
    with runner(options.device, None, options.addressing) as device:
        if options.tuning:
            device.profile = replace(device.profile, tuning=options.tuning)
        profile = device.profile
        print(f"{device.device.snapshot.name}, {profile.name}, {profile.addressing}, tuning {profile.tuning}")
        for size in _CPU if profile.tuning == "cpu" else _GPU:
            if options.sizes not in size.name:
                continue
            bench = Bench(device, size)
            found = bench.measure(packs, options.only, options.rounds)
            bench.close()
            rows += found
            for row in found:
                launches = " + ".join(row["launches"])
                label = f"chosen: {launches}" if row["kernel"] == "chosen" else launches
                figures = (
                    f"{row['gflops']:10.2f} GFLOP/s {row['seconds'] * 1e6:10.1f} us  error {row['error']:.3f}"
                )
                print(f"{row['size']:24} {label:48} {figures}", flush=True)
        if options.json:
            meta = {"device": device.device.snapshot.name, "driver": device.device.snapshot.driver_info}
            meta |= {"addressing": profile.addressing, "tuning": profile.tuning}
            options.json.write_text(json.dumps({**meta, "rows": rows}, indent=1) + "\n")
    return 1 if any(not row["error"] <= 1 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
