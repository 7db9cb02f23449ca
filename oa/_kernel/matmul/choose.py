"""Which variant computes a problem, and in how many ranges of k: pure functions of the problem and the device profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from oa._device import Profile
from oa._kernel.matmul.problem import Problem
from oa._kernel.matmul.variants import LANES, REGISTERS, TEXELS, TILES, VECTORS, Variant

__all__ = [
    "Choice",
    "candidates",
    "choose",
    "extent_strides",
    "fits",
    "has_lanes",
    "key",
    "modelled",
    "parsed",
    "ranges",
    "runs",
    "text",
]

#: Every variant by name.
VARIANTS = {v.name: v for v in (*REGISTERS, *LANES, *TEXELS, *TILES, *VECTORS)}
#: A range of k is at least this long, so that writing and adding up its part of C costs little beside computing it.
_LEAST_CHUNK = {"gpu": 128, "cpu": 256}
#: Workgroups that keep a device busy: a GPU with many processors; a CPU with a few cores.
_BUSY = {"gpu": 256, "cpu": 8}
_MOST_SPLITS = 64
#: A range of k is at most this long: what `oa._lower.rows` says of loops on software devices holds here too.
_MOST_CHUNK = {"gpu": 1 << 31, "cpu": 32768}

#: What `lanes.slang` costs in nanoseconds on one core: a read of up to 64 bits by one lane, a fused step of eight lanes, a store.
_READ, _STEP, _STORE = 8.5, 0.65, 2.0
#: The same of `texels.slang`, fitted to 64 timings on lavapipe 22.3, 52 of which it meets within a factor of 1.3: a fetch by all
#: lanes by words of the texel, a fused step, a store, and what a workgroup costs before its first fetch.
_FETCH, _TEXEL_STEP, _TEXEL_STORE, _TEXEL_GROUP = {1: 11.0, 2: 13.0, 4: 6.0}, 0.84, 3.0, 325.0


@dataclass(frozen=True)
class Choice:
    """A variant, whether it computes the transposed problem, and the ranges of k: `splits` of `chunk`, the last one shorter."""

    variant: Variant
    transposed: bool
    splits: int
    chunk: int


def extent_strides(problem: Problem, operand: str) -> Iterator[tuple[int, int]]:
    """(extent, stride) of each dimension of an operand: rows, columns, batch0, batch1."""
    m, n, k = problem.m, problem.n, problem.k
    extents, strides = {
        "a": ((m, k), problem.a_strides),
        "b": ((k, n), problem.b_strides),
        "c": ((m, n), (problem.c_strides[0], 1, *problem.c_strides[1:])),
    }[operand]
    return zip((*extents, *problem.batch), strides)


def _aligned(problem: Problem, operand: str, offset: int, unit: int | None, width: int) -> bool:
    """True when the operand can be read `width` elements at a time along dimension `unit` (None: along nothing)."""
    if unit is None or width == 1:
        return True
    if offset % width:
        return False
    dimensions = enumerate(extent_strides(problem, operand))
    return all(
        stride == 1 if axis == unit else extent == 1 or stride % width == 0
        for axis, (extent, stride) in dimensions
    )


def fits(variant: Variant, problem: Problem) -> bool:
    """True when the problem's layout is one that the variant can compute."""
    along_a = {0: None, 1: 1, 2: 0}[variant.a]
    along_b = {0: None, 1: 0, 2: 1}[variant.b]
    return (
        _aligned(problem, "a", problem.a_offset, along_a, variant.width)
        and _aligned(problem, "b", problem.b_offset, along_b, variant.width)
        and _aligned(problem, "c", problem.c_offset, 1, variant.c)
        and problem.n % variant.c == 0
    )


def runs(variant: Variant, profile: Profile) -> bool:
    """True when the device's limits allow the variant."""
    limits = profile.limits
    return variant.invocations <= limits.max_invocations and variant.shared_bytes <= limits.shared_bytes


def _groups(variant: Variant, problem: Problem) -> int:
    tiles = -(-problem.m // variant.tile_m) * -(-problem.n // variant.tile_n)
    return tiles * problem.batch[0] * problem.batch[1]


def ranges(variant: Variant, problem: Problem, tuning: str) -> tuple[int, int]:
    """(splits, chunk): enough ranges of k to keep the device busy, none too short to be worth it."""
    groups = _groups(variant, problem)
    wanted = min(-(-_BUSY[tuning] // groups), problem.k // _LEAST_CHUNK[tuning], _MOST_SPLITS)
    wanted = max(wanted, -(-problem.k // _MOST_CHUNK[tuning]))
    if wanted < 2:
        return 1, problem.k
    chunk = -(-problem.k // wanted)
    chunk = -(-chunk // variant.slice) * variant.slice
    return -(-problem.k // chunk), chunk


@lru_cache(maxsize=4096)
def choose(problem: Problem, profile: Profile) -> Choice:
    """The choice for a problem on a device: what was measured where it still suits, else what the cost model says."""
    told = profile.tuned.get(key(problem)) if len(profile.tuned) else None
    found = None if told is None else parsed(told, problem, profile)
    return modelled(problem, profile) if found is None else found


def key(problem: Problem, dtype: str = "float32") -> str:
    """What a measured choice is kept under: extents, layouts, and offsets as far as alignment asks."""
    p = problem
    offsets = "/".join(str(o % 4) for o in (p.a_offset, p.b_offset, p.c_offset))
    parts = (p.batch, p.a_strides, p.b_strides, p.c_strides)
    return (
        f"matmul {dtype} {p.m}x{p.n}x{p.k} " + " ".join("/".join(map(str, x)) for x in parts) + f" {offsets}"
    )


def text(choice: Choice) -> str:
    """A choice as it is kept."""
    return f"{choice.variant.name}{' transposed' if choice.transposed else ''} {choice.splits}x{choice.chunk}"


def parsed(told: str, problem: Problem, profile: Profile) -> Choice | None:
    """The choice that `text` wrote; None for one that is none of the problem on the device."""
    return next((c for c in candidates(problem, profile) if text(c) == told), None)


def candidates(problem: Problem, profile: Profile) -> list[Choice]:
    """What may compute a problem on a device, the cost model's choice first: every variant that fits in the ranges of k that the
    model gives it, and in one, in half and in twice as many."""
    first = modelled(problem, profile)
    found: dict[Choice, None] = {first: None}
    turned = [False] + [True] * (problem.m == 1 or (problem.n == 1 and problem.c_strides[0] == 1))
    for transposed in turned:
        seen = problem.transposed() if transposed else problem
        for variant in _family(seen, profile):
            splits, chunk = ranges(variant, seen, profile.tuning)
            for count in dict.fromkeys((splits, 1, splits // 2, splits * 2)):
                if count == splits:
                    found[Choice(variant, transposed, splits, chunk)] = None
                elif 1 <= count <= min(_MOST_SPLITS, max(1, problem.k // _LEAST_CHUNK[profile.tuning])):
                    length = -(-problem.k // count)
                    length = problem.k if count == 1 else -(-length // variant.slice) * variant.slice
                    if length > _MOST_CHUNK[profile.tuning]:
                        continue
                    found[Choice(variant, transposed, -(-problem.k // length), length)] = None
    return list(found)


def _family(problem: Problem, profile: Profile) -> list[Variant]:
    """The variants for the kind of device that can compute the problem there."""
    family: tuple[Variant, ...] = REGISTERS
    if profile.tuning == "gpu":
        family = (*TILES, *REGISTERS, *(VECTORS if problem.n == 1 else ()))
    elif has_lanes(profile):
        family = TEXELS if profile.texels else LANES
    return [v for v in family if fits(v, problem) and runs(v, profile)]


@lru_cache(maxsize=4096)
def modelled(problem: Problem, profile: Profile) -> Choice:
    """The cost model's choice."""
    if profile.tuning == "cpu" and has_lanes(profile):
        # One row, not one column: lanes own columns.
        transposed = problem.n == 1 and problem.m > 1 and problem.c_strides[0] == 1
        seen = problem.transposed() if transposed else problem
        family, cost = (TEXELS, _texels_cost) if profile.texels else (LANES, _lanes_cost)
        variant = min((v for v in family if fits(v, seen)), key=lambda v: cost(v, seen))
    else:
        transposed = problem.m == 1 and problem.n > 1
        seen = problem.transposed() if transposed else problem
        variant = _for_gpu(seen, profile) if profile.tuning == "gpu" else _for_cpu(seen)
    splits, chunk = ranges(variant, seen, profile.tuning)
    return Choice(variant, transposed, splits, chunk)


def _for_gpu(problem: Problem, profile: Profile) -> Variant:
    if problem.n == 1:
        along_k = abs(problem.a_strides[1]) <= abs(problem.a_strides[0])
        return VECTORS[0 if along_k else 1]
    able = [v for v in TILES if fits(v, problem) and runs(v, profile)]
    if not able:
        return REGISTERS[0]
    # The largest tile that leaves enough workgroups; among tiles that are all too large, the smallest.
    widest = [v for v in able if v.width == max(v.width for v in able)]
    for variant in widest:
        if _groups(variant, problem) >= _BUSY["gpu"]:
            return variant
    return widest[-1]


def _for_cpu(problem: Problem) -> Variant:
    if problem.n == 1:
        return REGISTERS[2]
    return REGISTERS[1] if min(problem.m, problem.n) >= 8 else REGISTERS[0]


def has_lanes(profile: Profile) -> bool:
    """True when the device can run `LANES`."""
    needed = {"int64", "subgroup_size_control", "subgroup_shuffle"}
    return needed <= profile.features and profile.limits.subgroup_min <= 8 <= profile.limits.subgroup_max


def _lanes_cost(variant: Variant, problem: Problem) -> float:
    rows, columns = variant.tile_m, variant.tile_n
    reads = rows / (2 if variant.a else 1) + columns / (2 if variant.b else 1)
    tile = problem.k * (reads * _READ + rows * columns / 8 * _STEP) + rows * columns * _STORE
    return _groups(variant, problem) * tile


def _texels_cost(variant: Variant, problem: Problem) -> float:
    rows, columns = variant.tile_m, variant.tile_n // 8
    a, b, _ = variant.recipe.texels
    # Fetches for four k: of A rows by all lanes, of B by each lane for its columns.
    fetches_a, fetches_b = rows / 8 * 4 / a, columns * 4 / b
    reads = fetches_a * _FETCH[a] + fetches_b * _FETCH[b]
    tile = problem.k / 4 * (reads + 4 * rows * columns * _TEXEL_STEP) + 8 * rows * columns * _TEXEL_STORE
    return _groups(variant, problem) * (tile + _TEXEL_GROUP)
