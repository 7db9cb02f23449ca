"""Cumulative sums: which kernels compute a problem on a device, in what grids and with what argument words.

    y[b, i, a] = sum over j <= i of x[b, j, a]

Everything here is a pure function of the problem and the device profile, so equal problems take equal kernels, and with them the
same order of summation and the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from oa._device import Profile
from oa._kernel.launch import Launch, grid
from oa._kernel.pack import Pack, default
from oa._kernel.scanning.variants import DTYPES, RECIPES, SERIAL, TEXELS, TILES, Scan
from oa.errors import Unsupported

__all__ = ["RECIPES", "Choice", "Launch", "Problem", "choose", "chunked", "default", "dispatches", "plan"]

#: Invocations that keep a device busy where each takes a chunk, and the fewest elements that are worth a chunk.
_BUSY = {"gpu": 65536, "cpu": 128}
_LEAST = {"gpu": 32, "cpu": 512}
#: Elements of a line from which a workgroup, not an invocation, takes a tile of it.
_LONG = 128


@dataclass(frozen=True)
class Problem:
    """Extents before the axis, along it and after it, and the dtype's name."""

    before: int
    extent: int
    after: int
    dtype: str


@dataclass(frozen=True)
class Choice:
    """The kernels for a problem, and into how many chunks of what length they cut the axis."""

    scan: Scan
    chunks: int
    chunk: int


def plan(problem: Problem, profile: Profile) -> tuple[list[Launch], int]:
    """The dispatches that add up, in order with a barrier between each, and the bytes of the operand "sums".

    Operands: "x" and "y" (before, extent, after) and "sums". Raises Unsupported for a dtype without kernels.
    """
    return dispatches(problem, choose(problem, profile), profile, default())


def choose(problem: Problem, profile: Profile) -> Choice:
    """The choice for a problem on a device."""
    kind = DTYPES.get(problem.dtype)
    if kind is None:
        raise Unsupported(f"scanning: dtype {problem.dtype} has no kernel, only {', '.join(DTYPES)} have")
    tile, limits = TILES[kind], profile.limits
    fits = tile.invocations <= limits.max_invocations and tile.shared_bytes <= limits.shared_bytes
    if profile.tuning == "gpu" and problem.after == 1 and problem.extent >= _LONG and fits:
        return chunked(problem, tile, profile.tuning)
    with_texels = profile.texels and kind in TEXELS
    return chunked(problem, (TEXELS if with_texels else SERIAL)[kind], profile.tuning)


def chunked(problem: Problem, scan: Scan, tuning: str) -> Choice:
    """How a scan cuts the axis."""
    if scan.tile:
        return Choice(scan, -(-problem.extent // scan.tile), scan.tile)
    lines = problem.before * problem.after
    wanted = max(1, _BUSY[tuning] // lines)
    chunk = min(problem.extent, max(_LEAST[tuning], -(-problem.extent // wanted)))
    return Choice(scan, -(-problem.extent // chunk), chunk)


def dispatches(problem: Problem, choice: Choice, profile: Profile, pack: Pack) -> tuple[list[Launch], int]:
    """The dispatches of one choice, its kernels taken from `pack`, and the bytes of the operand "sums"."""
    scan, lines = choice.scan, problem.before * problem.after
    if lines * problem.extent >= 1 << 32:
        raise Unsupported(f"scanning: {lines * problem.extent} elements, kernels count to {1 << 32}")
    parts = lines * choice.chunks
    one = 1 if scan.tile else scan.invocations
    numbers = (problem.before, problem.extent, problem.after, choice.chunks, choice.chunk)

    def launch(stage: int, work: int, operands: tuple[str, ...], access: tuple[str, ...]) -> Launch:
        groups = -(-work // one)
        extent = grid(groups, profile, "scanning")
        kernel = pack.kernel(scan.stages[stage].name, profile.addressing)
        return Launch(kernel, extent, operands, access, (groups, extent[0], *numbers))

    if choice.chunks == 1:
        return [launch(2, parts, ("x", "x", "y"), ("r", "r", "w"))], 0
    return [
        launch(0, parts, ("x", "sums"), ("r", "w")),
        launch(1, lines, ("sums",), ("rw",)),
        launch(2, parts, ("x", "sums", "y"), ("r", "r", "w")),
    ], parts * scan.sum_bytes
