"""Long runs over random programs, and the record of the seeds that were clean.

    python -m tests.fuzz.campaign --seconds 600 [--processes 4] [--device NAME] [--out FILE] [--first SEED]
    python -m tests.fuzz.campaign --merge FILE...

Each program runs fused and with each operation in a kernel of its own: the bits must be the same, and those of exact programs
NumPy's (three in four; the others round). A record holds ranges of seeds, none of them used twice; a failing seed ends its
range, is printed with its program, and the exit status is 1. The tests use seeds below `FIRST`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue as queues
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.fuzz.programs import Array, Program
from tests.fuzz.wide import grown
from tests.oracle.compare import same_bits

RECORD = Path(__file__).with_name("campaign.json")
#: Seeds from here on are the campaign's; each process takes them by blocks of this many.
FIRST, BLOCK = 10_000_000, 100


def length(seed: int) -> int:
    """Most programs are short, one in ten has up to 60 operations: a fault in a short one is sooner found."""
    return 1 + seed * 7 % (60 if seed % 10 == 0 else 11)


def made(seed: int) -> tuple[Program, bool]:
    """The program of a seed of the campaign, and whether it is one that rounds."""
    smooth = seed % 4 == 3
    return grown(seed, smooth, length(seed)), smooth


def difference(program: Program, got: list[Array]) -> str:
    """Which wanted value is not NumPy's; empty where all are."""
    import numpy as np

    for k, value in zip(program.wanted, got, strict=True):
        want = program.answers[k]
        if value.shape != want.shape or value.dtype != want.dtype:
            return f"value {k}: {value.dtype}{value.shape} wanted {want.dtype}{want.shape}"
        if not np.array_equal(value, want, equal_nan=want.dtype.kind == "f"):
            return f"value {k}: {value} wanted {want}"
    return ""


class Both:
    """One engine that lowers fused, and the same engine with the plans of `fused=False`."""

    def __init__(self, device: str) -> None:
        import oa
        from oa._lower.passes import lower
        from oa.programs import Programs

        self.engine = oa.Engine(device)
        self.known: Any = self.engine._programs._known
        self.apart = False
        whole = Programs.lower
        both = self

        def choose(
            programs: Programs, graph: Any, *, owned: frozenset[int] = frozenset(), **more: Any
        ) -> Any:
            if both.apart:
                return lower(graph, programs._profile, fused=False, owned=owned)
            return whole(programs, graph, owned=owned, **more)

        Programs.lower = choose  # type: ignore[method-assign]

    def run(self, program: Program, apart: bool) -> list[Array]:
        """The wanted values of a program."""
        from oa import matrix

        self.apart = apart
        self.known.clear()
        values = program.run([matrix.from_numpy(self.engine, x) for x in program.inputs])
        kept = [values[k] for k in program.wanted]
        values.clear()
        return [value.to_numpy() for value in kept]

    def fault(self, seed: int) -> tuple[str, int]:
        """What is wrong with a seed, empty if nothing, and how many operations it has."""
        program, smooth = made(seed)
        try:
            fused = self.run(program, apart=False)
            wrong = "" if smooth else difference(program, fused)
            if not wrong:
                for k, one, other in zip(program.wanted, fused, self.run(program, apart=True), strict=True):
                    if not same_bits(one, other):
                        wrong = f"fusing changes value {k}: {one} alone {other}"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        return (f"seed {seed}: {wrong}\n{program.text()}" if wrong else ""), len(program.steps)


def work(first: int, device: str, until: float, out: Any) -> None:
    """Blocks of seeds from `first` until the time is over; each result goes to `out`."""
    os.environ.setdefault("LP_NUM_THREADS", "0")
    os.environ["OA_QUIET"] = "1"
    both = Both(device)
    seed = first
    while time.time() < until:
        operations, begin, fault = 0, seed, ""
        while seed < begin + BLOCK and not fault and time.time() < until:
            fault, count = both.fault(seed)
            operations += 0 if fault else count
            seed += 1
        clean = seed - begin - (1 if fault else 0)
        name = both.engine.device.snapshot.name
        out.put({"first": begin, "count": clean, "operations": operations, "device": name, "fault": fault})
    out.put(None)


def commit() -> str:
    """The commit tested, with a plus sign where the tree differs from it."""
    if os.environ.get("OA_COMMIT"):
        return os.environ["OA_COMMIT"]
    head = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
    )
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def campaign(first: int, seconds: float, processes: int, device: str, out: Path) -> int:
    """Run, and write what was clean to `out` after every block; how many seeds were not."""
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    until, tested = time.time() + seconds, commit()
    # A million seeds for each process: none gets that far.
    starts = [first + k * 1_000_000 for k in range(processes)]
    running = [
        context.Process(target=work, args=(start, device, until, queue), daemon=True) for start in starts
    ]
    for process in running:
        process.start()
    ranges: list[dict[str, Any]] = []
    faults, left = 0, processes
    while (left and any(process.is_alive() for process in running)) or not queue.empty():
        try:
            found = queue.get(timeout=5)
        except queues.Empty:
            continue
        if found is None:
            left -= 1
            continue
        fault = found.pop("fault")
        if fault:
            faults += 1
            print(fault, flush=True)
        ranges = joined([*ranges, found | {"commit": tested}])
        write(ranges, out)
    print(f"{sum(r['count'] for r in ranges):,} programs clean, {faults} not")
    return faults


def joined(ranges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ranges in order, those that follow each other on one commit and device as one, empty ones left out."""
    found: list[dict[str, Any]] = []
    for row in sorted(ranges, key=lambda row: int(row["first"])):
        last = found[-1] if found else None
        if not row["count"]:
            continue
        same = last is not None and all(last[key] == row[key] for key in ("device", "commit"))
        if last is not None and same and last["first"] + last["count"] == row["first"]:
            last["count"] += row["count"]
            last["operations"] += row["operations"]
        else:
            found.append(dict(row))
    return found


def overlap(ranges: list[dict[str, Any]]) -> bool:
    """Whether a seed is in two ranges."""
    ordered = sorted((int(r["first"]), int(r["count"])) for r in ranges)
    return any(a + n > b for (a, n), (b, _) in pairwise(ordered))


def write(ranges: list[dict[str, Any]], path: Path) -> None:
    """One range a line."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in ranges)
    total = sum(int(row["count"]) for row in ranges)
    path.write_text(f'{{\n "programs": {total},\n "ranges": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    """The ranges of a record."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["ranges"]
    return found


def main() -> int:
    """Run a campaign, or merge records into the committed one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="auto", help="as oa.Engine takes it")
    parser.add_argument("--out", type=Path, default=Path("campaign.json"), help="a record of this run")
    parser.add_argument(
        "--first", type=int, help="the first seed (default: after those of the committed record)"
    )
    parser.add_argument("--merge", type=Path, nargs="*", help="add these records to the committed one")
    options = parser.parse_args()
    known = read(RECORD) if RECORD.exists() else []
    if options.merge is not None:
        ranges = known + [row for path in options.merge for row in read(path)]
        if overlap(ranges):
            parser.error("a seed would be in two ranges")
        write(joined(ranges), RECORD)
        return 0
    ends = [FIRST, *(int(r["first"]) + int(r["count"]) for r in known)]
    first = options.first if options.first is not None else -(-max(ends) // 1_000_000) * 1_000_000
    return 1 if campaign(first, options.seconds, options.processes, options.device, options.out) else 0


if __name__ == "__main__":
    sys.exit(main())
