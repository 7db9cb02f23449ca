"""Times every kernel that sorts or adds up, over problems that matter, with a correctness column; then whole operations.

    python bench/lab/sorting_lab.py [--device NAME] [--json OUT] [--only TEXT] [--count N]
    python bench/lab/sorting_lab.py --build PACK      compile the experimental variants (needs the Slang compiler)
    python bench/lab/sorting_lab.py --pack PACK ...   time them too

Kernels: orders of 32-bit, 8-bit and 64-bit keys, of keys that are all equal and of short rows; cumulative sums. Device time
by timestamps, the least of several rounds. Operations: sort, argsort, topk, cumulative_sum, unique_values and nonzero of `oa`
by timestamps and by the host's clock, of PyTorch and CuPy, where installed, by the host's clock between two synchronisations.
`right` says whether the result is NumPy's; where it is not, the exit status is 1. GB/s count each key read once and each index
written once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import numpy as np

from bench.lab.runner import Array, Runner, runner
from bench.lab.sorting_operations import beside
from oa._kernel.pack import Pack, Recipe, encode
from oa._kernel.scanning import family as scanning
from oa._kernel.scanning import variants as scans
from oa._kernel.sorting import family, variants
from oa._kernel.sorting.family import Choice, Problem
from oa._kernel.sorting.variants import Radix, Row

#: Experiments: (invocations, keys of each, bits of a digit), for subgroups of 32; (invocations, keys of a row);
#: (invocations, items).
_TILES = (
    (128, 16, 7),
    (128, 24, 7),
    (256, 8, 8),
    (256, 12, 8),
    (256, 16, 7),
    (256, 16, 6),
    (256, 20, 8),
    (256, 16, 4),
    (256, 16, 5),
    (512, 8, 8),
    (512, 12, 8),
    (512, 16, 8),
    (1024, 8, 8),
)
_ROWS = ((128, 1024), (256, 1024), (512, 2048), (512, 4096), (1024, 4096), (128, 512), (128, 2048))
_ITEMS = ((128, 8), (128, 16), (256, 4), (256, 16), (512, 4), (512, 8), (1024, 4))


def tried() -> tuple[list[Row | Radix], list[scans.Scan]]:
    """The experimental variants."""
    radix = [
        variants.tile(threads, keys, bits, 32, words, "try_")
        for threads, keys, bits in _TILES
        for words in (1, 2)
        if words == 1 or 32 % bits == 0
    ]
    rows = [variants.rows(*shape, 1, "try_") for shape in _ROWS]
    return [*radix, *rows], [scans.tiles(k, *shape, "try_") for shape in _ITEMS for k in ("f32", "u32")]


def build(path: Path, addressing: str) -> None:
    """Compile the experimental variants into a pack of their own, for one addressing."""
    from tools.kernels import compile_recipe

    orders, sums = tried()
    recipes: dict[str, Recipe] = {}
    for order in orders:
        found = (order.recipe,) if isinstance(order, Row) else variants.radix_recipes(order)
        recipes |= {recipe.name: recipe for recipe in found}
    recipes |= {recipe.name: recipe for scan in sums for recipe in scan.stages}
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda recipe: compile_recipe(recipe, addressing), recipes.values()))
    path.write_bytes(encode(made))
    print(f"{path}: {len(made)} kernels")


@dataclass(frozen=True)
class Order:
    """Rows of random keys below `values`."""

    name: str
    problem: Problem
    values: int

    def keys(self) -> Array:
        """The keys, the same each time."""
        shape = (self.problem.rows, self.problem.n)
        dtype = np.uint64 if self.problem.words == 2 else np.uint32
        return np.random.default_rng(1).integers(0, self.values, shape, dtype=np.uint64).astype(dtype)


def orders(n: int) -> list[Order]:
    """What is sorted: one long row of each width, ties, and rows from short to long."""
    found = [
        Order("32-bit", Problem(1, n, 32), 1 << 32),
        Order("32-bit, all equal", Problem(1, n, 32), 1),
        Order("8-bit", Problem(1, n, 8), 256),
        Order("64-bit", Problem(1, n, 64, 2), (1 << 64) - 1),
        Order("32-bit, 1 M", Problem(1, 1 << 20, 32), 1 << 32),
        Order("32-bit, 64 K", Problem(1, 1 << 16, 32), 1 << 32),
    ]
    rows = [
        Order(f"rows of {k}", Problem(n // k, k, 32), 1 << 32)
        for k in (8, 16, 32, 128, 1000, 2048, 4096, 65536)
    ]
    return [order for order in (*found, *rows) if order.problem.n <= n]


def able(order: Order, device: Runner, more: bool) -> Iterator[Row | Radix]:
    """The variants that suit."""
    own = (
        *variants.LANES,
        *variants.COUNTED,
        *variants.ROWS,
        *variants.SERIAL,
        *variants.ALONE,
        *variants.TILES,
    )
    gpu = device.profile.tuning == "gpu"
    for variant in (*own, *(tried()[0] if more else ())):
        if variant.words != order.problem.words or not family.runs(variant, device.profile):
            continue
        if isinstance(variant, Row):
            if order.problem.n <= variant.most and not (variant.share and order.problem.n > 128 and gpu):
                yield variant
        elif order.problem.n > 500 and not (gpu and not variant.tile and order.name != "32-bit"):
            yield variant


class Lab:
    """The kernels on one device."""

    def __init__(self, device: Runner, packs: Sequence[Pack], only: str, rounds: int) -> None:
        self.device, self.packs, self.only, self.rounds = device, packs, only, rounds
        self.rows: list[dict[str, Any]] = []

    def pack(self, name: str) -> Any:
        """The pack that holds a kernel; kernels of experiments lie in one of their own, the scans of counts in both."""
        addressing = self.device.profile.addressing
        return next(p for p in reversed(self.packs) if (name, addressing) in p)

    def compare(
        self,
        what: str,
        plans: dict[str, tuple[list[Any], Any]],
        buffers: dict[str, Any],
        right: Callable[[], bool],
        moved: int,
    ) -> None:
        """A row for each plan of one problem, the fastest first."""
        made = []
        for name, (launches, scratch) in plans.items():
            own = {k: self.device.scratch(size) for k, size in scratch.items()}
            bound = {**buffers, **own}
            self.device.run(launches, bound)
            correct = right()
            seconds = min(self.device.time(launches, bound, rounds=self.rounds))
            for buffer in own.values():
                buffer.close()
            row = {
                "what": what,
                "kernel": name,
                "launches": len(launches),
                "right": correct,
                "ms": seconds * 1e3,
            }
            made.append(row | {"gb_s": moved / seconds / 1e9})
        for row in sorted(made, key=lambda row: row["ms"]):
            self.rows.append(row)
            print(
                f"{what:24} {row['kernel']:44} {row['ms']:10.4f} ms {row['gb_s']:8.1f} GB/s  {row['launches']:3}"
                f" launches  {'right' if row['right'] else 'WRONG'}",
                flush=True,
            )

    def order(self, order: Order) -> None:
        """All kernels that sort one problem."""
        keys, device, problem = order.keys(), self.device, order.problem
        want = np.argsort(keys, axis=1, kind="stable").astype(np.uint32).reshape(-1)
        buffers = {"keys": device.upload(keys), "order": device.scratch(4 * keys.size)}
        plans = {"chosen": family.plan(problem, device.profile)}
        for variant in able(order, device, len(self.packs) > 1):
            scatter = variant.recipe if isinstance(variant, Row) else variant.scatter
            if self.only not in scatter.name:
                continue
            choice = (
                Choice(variant)
                if isinstance(variant, Row)
                else family.tiled(problem, variant, device.profile.tuning)
            )
            plans[scatter.name] = family.dispatches(problem, choice, device.profile, self.pack(scatter.name))

        def right() -> bool:
            return np.array_equal(device.download(buffers["order"], keys.size).view(np.uint32), want)

        self.compare(order.name, plans, buffers, right, keys.nbytes + 4 * keys.size)
        for buffer in buffers.values():
            buffer.close()

    def scan(self, dtype: str, before: int, extent: int) -> None:
        """All kernels that add up one problem."""
        device, problem = self.device, scanning.Problem(before, extent, 1, dtype)
        x = np.random.default_rng(2).integers(0, 3, (before, extent)).astype(dtype)
        want = np.cumsum(x, axis=1, dtype=np.float64 if dtype == "float32" else dtype)
        buffers = {"x": device.upload(x), "y": device.scratch(x.nbytes)}
        able = [scans.SERIAL[scans.DTYPES[dtype]], scans.TILES[scans.DTYPES[dtype]]]
        able += [s for s in tried()[1] if s.kind == scans.DTYPES[dtype]] if len(self.packs) > 1 else []
        launches, size = scanning.plan(problem, device.profile)
        plans = {"chosen": (launches, {"sums": size} if size else {})}
        for scan in able:
            if scan.shared_bytes <= device.profile.limits.shared_bytes and self.only in scan.stages[2].name:
                choice = scanning.chunked(problem, scan, device.profile.tuning)
                pack = self.pack(scan.stages[2].name)
                launches, size = scanning.dispatches(problem, choice, device.profile, pack)
                plans[scan.stages[2].name] = (launches, {"sums": size} if size else {})

        def right() -> bool:
            found = device.download(buffers["y"], x.size).view(dtype).reshape(x.shape)
            return bool(np.allclose(found, want, rtol=2.0**-23, atol=0))

        self.compare(f"scan {dtype} {before} x {extent}", plans, buffers, right, 2 * x.nbytes)
        for buffer in buffers.values():
            buffer.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--addressing", choices=("address", "descriptor"))
    parser.add_argument("--tuning", choices=("cpu", "gpu"), help="take the device for one of this kind")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--only", default="", help="kernels and operations whose name contains this")
    parser.add_argument("--part", choices=("kernels", "operations"), help="one of the two alone")
    parser.add_argument("--count", type=int, default=1 << 24, help="elements")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--build", type=Path, help="compile the experimental variants into this file and stop"
    )
    parser.add_argument("--pack", type=Path, help="a file that --build wrote")
    options = parser.parse_args()
    if options.build:
        build(options.build, options.addressing or "address")
        return 0
    packs = [family.default(), *([Pack(options.pack)] if options.pack else [])]
    rows: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}
    if options.part != "operations":
        with runner(options.device, None, options.addressing) as device:
            if options.tuning:
                device.profile = replace(device.profile, tuning=options.tuning)
            profile = device.profile
            print(
                f"{device.device.snapshot.name}, {profile.name}, {profile.addressing}, tuning {profile.tuning}"
            )
            meta = {"device": device.device.snapshot.name, "driver": device.device.snapshot.driver_info}
            lab = Lab(device, packs, options.only, options.rounds)
            for order in orders(options.count):
                lab.order(order)
            for dtype in ("float32", "int32"):
                for extent in (options.count, 4096, 100):
                    lab.scan(dtype, options.count // extent, extent)
            rows += lab.rows
    if options.part != "kernels":
        rows += beside(options.device, options.count, options.only, options.rounds)
    if options.json:
        options.json.write_text(json.dumps({**meta, "rows": rows}, indent=1) + "\n")
    return 1 if any(not row["right"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
