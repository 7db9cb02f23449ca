"""Sorting: which kernels put the rows of a problem in order on a device, in what grids and with what argument words.

    order[r, :] is the stable order of keys[r, :], numbers of `bits` bits in one word, or two, low word first

Everything here is a pure function of the problem and the device profile. The order is a matter of the keys alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from oa._device import Profile
from oa._kernel.launch import Launch, grid
from oa._kernel.pack import Pack, Recipe, default
from oa._kernel.sorting.variants import (
    ALONE,
    COUNTED,
    INVERT,
    LANES,
    POSITIONS,
    RECIPES,
    ROWS,
    SERIAL,
    TILES,
    Radix,
    Row,
)
from oa.errors import Unsupported

__all__ = [
    "RECIPES",
    "Choice",
    "Launch",
    "Problem",
    "choose",
    "default",
    "dispatches",
    "invert",
    "plan",
    "positions",
    "runs",
]

#: Tiles of a row up to which one invocation adds up their counts.
_FEW_TILES = 64
#: Tiles that keep a device busy where an invocation takes one, and the fewest keys that are worth one.
_BUSY = {"gpu": 65536, "cpu": 128}
_LEAST = {"gpu": 64, "cpu": 1024}
#: Keys of a row up to which a software device compares each with all, and comparisons up to which it does so for longer rows.
_COUNTED, _COMPARISONS = 256, 1 << 20


@dataclass(frozen=True)
class Problem:
    """`rows` rows of `n` keys of `bits` bits in `words` words each (1 or 2)."""

    rows: int
    n: int
    bits: int
    words: int = 1


@dataclass(frozen=True)
class Choice:
    """The kernels for a problem; of a radix sort also the tiles of a row and how long they are."""

    variant: Row | Radix
    tiles: int = 1
    chunk: int = 0


def plan(problem: Problem, profile: Profile) -> tuple[list[Launch], dict[str, int]]:
    """The dispatches that sort, in order with a barrier between each, and the bytes of the scratch operands by name.

    Operands: "keys" (rows, n, words) and "order" (rows, n) and scratch. Raises Unsupported for more than 32-bit indices count.
    """
    if problem.rows * problem.n * problem.words >= 1 << 32:
        raise Unsupported(f"sorting: {problem.rows} rows of {problem.n} keys, kernels count to {1 << 32}")
    return dispatches(problem, choose(problem, profile), profile, default())


def runs(variant: Row | Radix, profile: Profile) -> bool:
    """True when the device can run the variant."""
    limits = profile.limits
    if variant.invocations > limits.max_invocations or variant.shared_bytes > limits.shared_bytes:
        return False
    if any((variant.recipe if isinstance(variant, Row) else variant.scatter).texels):
        return profile.texels
    if isinstance(variant, Row) or not variant.subgroup:
        return True
    needed = {"subgroup_size_control", "full_subgroups", "subgroup_ballot"}
    return needed <= profile.features and limits.subgroup_min <= variant.subgroup <= limits.subgroup_max


def choose(problem: Problem, profile: Profile) -> Choice:
    """The choice for a problem on a device."""
    n, gpu = problem.n, profile.tuning == "gpu"
    few = n <= _COUNTED or problem.rows * n * n <= _COMPARISONS
    for row in (*LANES, *(ROWS if gpu else COUNTED if few else ())):
        if row.words == problem.words and n <= row.most and runs(row, profile):
            return Choice(row)
    for radix in (*TILES, *ALONE) if gpu else SERIAL:
        if radix.words == problem.words and runs(radix, profile):
            return tiled(problem, radix, profile.tuning)
    raise Unsupported("sorting: the device has too little workgroup memory for any kernel")


def tiled(problem: Problem, radix: Radix, tuning: str) -> Choice:
    """How a radix sort cuts the rows."""
    if radix.tile:
        return Choice(radix, -(-problem.n // radix.tile), radix.tile)
    wanted = max(1, _BUSY[tuning] // problem.rows)
    chunk = max(min(_LEAST[tuning], -(-problem.n // radix.invocations)), -(-problem.n // wanted))
    return Choice(radix, -(-problem.n // chunk), chunk)


def dispatches(
    problem: Problem, choice: Choice, profile: Profile, pack: Pack
) -> tuple[list[Launch], dict[str, int]]:
    """The dispatches of one choice, its kernels taken from `pack`, and the bytes of the scratch operands."""
    if isinstance(choice.variant, Row):
        return [_rows(problem, choice.variant, profile, pack)], {}
    return _Passes(problem, choice, choice.variant, profile, pack).made()


def invert(rows: int, n: int, profile: Profile) -> list[Launch]:
    """Operands "order", a permutation in each row, and "result", its inverse."""
    numbers = (rows, n, 0, 0, 0, 0, 0)
    groups = -(-rows * n // 64)
    return [_launch(INVERT, groups, ("order", "result"), ("r", "w"), numbers, profile, default())]


def positions(n: int, size: int, fill: int, profile: Profile) -> list[Launch]:
    """Operands "counts" (n), inclusive, and "result" (size): the positions at which they grow, then `fill`."""
    numbers = (1, n, 0, size, fill, 0, 0)
    groups = -(-max(n, size) // 64)
    return [_launch(POSITIONS, groups, ("counts", "result"), ("r", "w"), numbers, profile, default())]


def _launch(
    recipe: Recipe,
    groups: int,
    operands: tuple[str, ...],
    access: tuple[str, ...],
    numbers: tuple[int, ...],
    profile: Profile,
    pack: Pack,
) -> Launch:
    extent = grid(groups, profile, "sorting")
    words = tuple(word & 0xFFFFFFFF for word in (groups, extent[0], *numbers))
    return Launch(pack.kernel(recipe.name, profile.addressing), extent, operands, access, words)


def _rows(problem: Problem, row: Row, profile: Profile, pack: Pack) -> Launch:
    rows, n = problem.rows, problem.n
    width = 1 << max(1, (n - 1).bit_length())
    if row.share:
        groups = -(-rows * -(-n // row.share) // row.invocations)
    else:
        groups = -(-rows // (row.most // width))
    numbers = (rows, n, 1, width, 0, 1, 1)
    return _launch(row.recipe, groups, ("keys", "order"), ("r", "w"), numbers, profile, pack)


class _Passes:
    """The passes of a radix sort, from the lowest digit to the highest.

    Keys go from "keys" to "keys0", "keys1", "keys0" and so on, places between "places" and "order", where they end. The first
    pass reads no places, the last writes no keys; what is bound there is not touched.
    """

    def __init__(self, problem: Problem, choice: Choice, radix: Radix, profile: Profile, pack: Pack) -> None:
        self.problem, self.choice, self.radix = problem, choice, radix
        self.profile, self.pack = profile, pack
        self.count = -(-problem.bits // radix.bits)

    def made(self) -> tuple[list[Launch], dict[str, int]]:
        """All dispatches and the scratch that they take."""
        rows, n, digits = self.problem.rows, self.problem.n, 1 << self.radix.bits
        if rows * digits * self.choice.tiles >= 1 << 32:
            raise Unsupported(f"sorting: {rows} rows of {n} keys have too many digits to count at once")
        launches = [launch for k in range(self.count) for launch in self._pass(k)]
        size = 4 * rows * n
        scratch = {"counts": 4 * rows * digits * self.choice.tiles, "totals": 4 * rows * digits}
        if self.count > 1:
            scratch |= {"keys0": size * self.problem.words, "places": size}
        if self.count > 2:
            scratch |= {"keys1": size * self.problem.words}
        return launches, scratch

    def _pass(self, k: int) -> tuple[Launch, Launch, Launch]:
        first, last = k == 0, k == self.count - 1
        source = "keys" if first else f"keys{(k - 1) % 2}"
        to, other = ("order", "places") if (self.count - 1 - k) % 2 == 0 else ("places", "order")
        radix, rows, tiles = self.radix, self.problem.rows, self.choice.tiles
        numbers = (
            rows, self.problem.n, tiles, self.choice.chunk, k * radix.bits, int(first), int(last)
        )  # fmt: skip
        groups = rows * tiles if radix.tile else -(-rows * tiles // radix.invocations)
        lines = rows << radix.bits
        few = tiles <= _FEW_TILES or self.profile.tuning == "cpu"
        scan = radix.scan if few else radix.scan_long
        moved = (
            source,
            source if first else other,
            "counts",
            "totals",
            "order" if last else f"keys{k % 2}",
            to,
        )
        return (
            self._launch(radix.count, groups, (source, "counts"), ("r", "w"), numbers),
            self._launch(scan, -(-lines // 64) if few else lines, ("counts", "totals"), ("rw", "w"), numbers),
            self._launch(radix.scatter, groups, moved, ("r", "r", "r", "r", "w", "w"), numbers),
        )

    def _launch(
        self,
        recipe: Recipe,
        groups: int,
        operands: tuple[str, ...],
        access: tuple[str, ...],
        numbers: tuple[int, ...],
    ) -> Launch:
        return _launch(recipe, groups, operands, access, numbers, self.profile, self.pack)
