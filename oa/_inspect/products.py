"""Why a matrix product takes the variant it takes: the choice made again with its reasons, from a dispatch's argument words."""

from __future__ import annotations

from oa._device import Profile
from oa._kernel.matmul import choose as how
from oa._kernel.matmul.problem import Problem
from oa._kernel.matmul.variants import LANES, REDUCE, REGISTERS, TEXELS, TILES, VECTORS, WORDS, Variant
from oa._lower.plan import Dispatch

_VARIANTS = {v.name: v for v in (*REGISTERS, *LANES, *TEXELS, *TILES, *VECTORS, REDUCE)}


def product_text(dispatch: Dispatch, profile: Profile) -> list[str]:
    """Lines about a dispatch of the matmul family; empty for any other."""
    name = dispatch.kernel.name.partition("+")[0]
    named = {name: word for name, word in zip(WORDS, dispatch.words) if isinstance(word, int)}
    if len(named) < len(WORDS) or name not in _VARIANTS:
        return []
    if name == REDUCE.name:
        return [f"adds up the {named['chunk']} parts along k of the product before it"]
    variant = _VARIANTS[name]
    problem = _problem(named)
    batches = problem.batch[0] * problem.batch[1]
    size = f"{problem.m} x {problem.k} by {problem.k} x {problem.n}" + (
        f", {batches} times" if batches > 1 else ""
    )
    lines = [f"product {size}: variant {variant.name}, {_reason(variant, problem, profile)}"]
    if named["c_split"]:
        splits = -(-problem.k // named["chunk"])
        lines.append(
            f"k is split into {splits} ranges of {named['chunk']}, since {how._groups(variant, problem)} workgroups"
            f" would leave the device idle (it wants {how._BUSY[profile.tuning]})"
        )
    return lines


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _problem(w: dict[str, int]) -> Problem:
    """The problem that the kernel sees, which may be the transposed one."""
    a, b = (tuple(_signed(w[f"{o}_{s}"]) for s in ("row", "col", "batch0", "batch1")) for o in "ab")
    return Problem(
        w["m"], w["n"], w["k"], (w["batch0"], w["batch1"]),
        (a[0], a[1], a[2], a[3]), (b[0], b[1], b[2], b[3]),
        (_signed(w["c_row"]), _signed(w["c_batch0"]), _signed(w["c_batch1"])),
        w["a_offset"], w["b_offset"], w["c_offset"],
    )  # fmt: skip


def _reason(variant: Variant, problem: Problem, profile: Profile) -> str:
    if how.modelled(problem, profile).variant is not variant and len(profile.tuned):
        return f"measured on this device (the cost model would take {how.modelled(problem, profile).variant.name})"
    if profile.tuning == "cpu" and how.has_lanes(profile):
        family, cost = (TEXELS, how._texels_cost) if profile.texels else (LANES, how._lanes_cost)
        able = sorted((cost(v, problem), v.name) for v in family if how.fits(v, problem))
        if variant not in family:
            return "which is for other devices"
        told = f"the cheapest by the cost model of the {len(able)} of {len(family)} that its layout fits"
        if len(able) > 1:
            other = able[1] if able[0][1] == variant.name else able[0]
            told += f" (next is {other[1]}, {other[0] / cost(variant, problem):.2f} times the cost)"
        return told
    if problem.n == 1:
        return "a matrix times a vector" + (", rows read along k" if variant is VECTORS[0] else "")
    if profile.tuning != "gpu":
        return "by the size of the result alone, since the device lacks what faster variants need"
    return _tile_reason(variant, problem, profile)


def _tile_reason(variant: Variant, problem: Problem, profile: Profile) -> str:
    able = [v for v in TILES if how.fits(v, problem) and how.runs(v, profile)]
    if not able:
        return "the one for any strides, since no tiled variant fits layout and device"
    busy, groups = how._BUSY["gpu"], how._groups(variant, problem)
    width = max(v.width for v in able)
    read = "four elements at a time" if width == 4 else "one element at a time (strides or offsets are odd)"
    larger = [v for v in able if v.width == width and how._groups(v, problem) < groups]
    told = f"read {read}; the largest tile with at least {busy} workgroups: {groups}"
    if groups < busy:
        told = f"read {read}; the smallest tile, since none gives {busy} workgroups: {groups}"
    if larger:
        told += f" ({larger[-1].tile_m} x {larger[-1].tile_n} would give {how._groups(larger[-1], problem)})"
    return told
