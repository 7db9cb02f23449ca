"""The kernels for sorting: what each assumes of a problem and of a device, and how the pack builds it."""

from __future__ import annotations

from dataclasses import dataclass

from oa._kernel.pack import Recipe

__all__ = [
    "ALONE",
    "COUNTED",
    "INVERT",
    "LANES",
    "POSITIONS",
    "RECIPES",
    "ROWS",
    "SERIAL",
    "TILES",
    "WORDS",
    "Radix",
    "Row",
    "radix_recipes",
    "serial",
    "tile",
]

#: The plain argument words in order; `problem.slang` names them alike.
WORDS = ("groups", "groups_x", "rows", "n", "tiles", "chunk", "shift", "first", "last")
#: Words of a key: one, or two of 64-bit keys.
_KEYS = (1, 2)


@dataclass(frozen=True)
class Row:
    """A kernel that sorts rows of up to `most` keys of `words` words at once. Of a row, an invocation takes `share` keys; 0: what
    fits into a workgroup, `most` keys of one row or several, is its own."""

    recipe: Recipe
    most: int
    share: int
    words: int
    invocations: int
    shared_bytes: int = 0


@dataclass(frozen=True)
class Radix:
    """The kernels of one pass over keys of `words` words: count, add up along tiles, scatter.

    `tile` keys are one workgroup's; 0: an invocation takes a tile of any length for itself. `subgroup` invocations must be full.
    """

    count: Recipe
    scan: Recipe
    scan_long: Recipe
    scatter: Recipe
    words: int
    bits: int
    invocations: int
    tile: int
    shared_bytes: int
    subgroup: int = 0


def _recipe(
    name: str,
    source: str,
    buffers: int,
    defines: dict[str, int],
    subgroup_size: int | None = None,
    texels: tuple[int, ...] = (),
) -> Recipe:
    made = tuple(defines.items())
    return Recipe(
        f"sorting.{name}", f"sorting/{source}.slang", made, buffers, len(WORDS), subgroup_size, texels, False
    )


_SCAN_THREADS = 64
_LONG_THREADS = 256


def _scans(bits: int) -> tuple[Recipe, Recipe]:
    return (
        _recipe(f"scan_{bits}", "scan_serial", 2, {"BITS": bits, "KEY_WORDS": 1, "THREADS": _SCAN_THREADS}),
        _recipe(
            f"scan_long_{bits}", "scan_group", 2, {"BITS": bits, "KEY_WORDS": 1, "THREADS": _LONG_THREADS}
        ),
    )


def serial(threads: int, bits: int, words: int, texels: bool = False, prefix: str = "") -> Radix:
    """Radix sorting by invocations that work alone; with `texels` for software devices that read them."""
    name = f"{prefix}{{}}_serial_{threads}x{bits}_{words}{'_texels' if texels else ''}"
    defines = {"BITS": bits, "THREADS": threads, "KEY_WORDS": words, **({"OA_TEXELS": 1} if texels else {})}
    counted, moved = ((1, 0), (1, 1, 1, 1, 0, 0)) if texels else ((), ())
    return Radix(
        _recipe(name.format("count"), "count_serial", 2, defines, texels=counted),
        *_scans(bits),
        _recipe(name.format("scatter"), "scatter_serial", 6, defines, texels=moved),
        words, bits, threads, 0, 4 * threads << bits,
    )  # fmt: skip


def tile(threads: int, keys: int, bits: int, subgroup: int, words: int, prefix: str = "") -> Radix:
    """Radix sorting by workgroups that put a tile in order, `keys` keys an invocation, ranked within subgroups."""
    name = f"{prefix}{{}}_tile_{threads}x{keys}x{bits}"
    defines = {"BITS": bits, "THREADS": threads, "KEYS": keys, "KEY_WORDS": words}
    copies = min(16, max(1, 1024 >> bits))
    counted = _recipe(f"{name.format('count')}_{words}", "count_tile", 2, {"COPIES": copies, **defines})
    moved = _recipe(
        f"{name.format('scatter')}_{subgroup}_{words}",
        "scatter_tile",
        6,
        {"SUBGROUP": subgroup, **defines},
        subgroup,
    )
    shared = 4 * (threads // subgroup << bits) + (8 << bits) + 4 * threads * keys
    return Radix(counted, *_scans(bits), moved, words, bits, threads, threads * keys, shared, subgroup)


def radix_recipes(radix: Radix) -> tuple[Recipe, ...]:
    """What the pack holds of it."""
    return (radix.count, radix.scan, radix.scan_long, radix.scatter)


def rows(threads: int, most: int, words: int, prefix: str = "") -> Row:
    """Rows in workgroup memory."""
    recipe = _recipe(
        f"{prefix}rows_{threads}x{most}_{words}",
        "rows",
        2,
        {"THREADS": threads, "TILE": most, "KEY_WORDS": words},
    )
    return Row(recipe, most, 0, words, threads, 4 * (words + 1) * most)


def lanes(threads: int, most: int, words: int, prefix: str = "") -> Row:
    """Rows in the registers of an invocation."""
    recipe = _recipe(
        f"{prefix}lanes_{threads}x{most}_{words}",
        "lanes",
        2,
        {"THREADS": threads, "WIDTH": most, "KEY_WORDS": words},
    )
    return Row(recipe, most, most, words, threads)


def counted(threads: int, mine: int, most: int, words: int, texels: bool) -> Row:
    """Rows in which each key is compared with all."""
    name = f"counted_{threads}x{mine}_{words}{'_texels' if texels else ''}"
    defines = {"THREADS": threads, "MINE": mine, "KEY_WORDS": words, **({"OA_TEXELS": 1} if texels else {})}
    recipe = _recipe(name, "counted", 2, defines, texels=(1, 0) if texels else ())
    return Row(recipe, most, mine, words, threads)


#: From short to long.
LANES = (lanes(64, 8, 1), lanes(64, 16, 1), lanes(64, 8, 2))
#: For software devices, with texels and without.
COUNTED = tuple(counted(64, 8, 1024, words, texels) for words in _KEYS for texels in (True, False))
#: For GPUs.
ROWS = (rows(256, 2048, 1), rows(256, 1024, 2))

#: Invocations alone: for software devices, which run eight of them as one, with texels and without; and for GPUs without ballots.
SERIAL = tuple(serial(8, 8, words, texels) for words in _KEYS for texels in (True, False))
ALONE = tuple(serial(64, 4, words) for words in _KEYS)

#: By subgroups, in the order in which they are preferred. 16 keys of 64 bits take more registers than some devices have.
#: Subgroups of 8 are for software devices, where nothing chooses them.
TILES = (
    *(tile(256, 16 // words, 8, subgroup, words) for subgroup in (32, 64) for words in _KEYS),
    *(tile(64, 8, 4, 8, words) for words in _KEYS),
)

INVERT = _recipe("invert", "place", 2, {"THREADS": 64, "INVERT": 1, "KEY_WORDS": 1})
POSITIONS = _recipe("positions", "place", 2, {"THREADS": 64, "INVERT": 0, "KEY_WORDS": 1})

_ALL = (
    *(v.recipe for v in (*LANES, *COUNTED, *ROWS)),
    *(recipe for v in (*SERIAL, *ALONE, *TILES) for recipe in radix_recipes(v)),
    INVERT,
    POSITIONS,
)
RECIPES = tuple({recipe.name: recipe for recipe in _ALL}.values())
