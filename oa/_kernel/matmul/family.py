"""Matrix multiplication: which kernels compute a problem on a device, in what grid and with what argument words.

    C[b0, b1, i, j] = sum over p of A[b0, b1, i, p] * B[b0, b1, p, j]

Everything here is a pure function of the problem and the device profile, so equal problems take equal kernels, and with them the
same order of summation and the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oa._device import Profile
from oa._kernel.matmul.choose import Choice, choose, extent_strides
from oa._kernel.matmul.problem import Problem
from oa._kernel.matmul.variants import RECIPES, REDUCE, WORDS
from oa._kernel.pack import Kernel, Pack, default
from oa.errors import InternalError, Unsupported

__all__ = ["RECIPES", "Launch", "Problem", "default", "dispatches", "plan"]


@dataclass(frozen=True)
class Launch:
    """One dispatch: `operands` name the kernel's buffers in binding order ("a", "b", "c" or "partial"), `access` has "r" or "w"
    for each. What leaves through the kernel's hook comes `vec` elements at a time, `stores` elements in one unrolled
    piece of code, of the transposed problem where `swapped`."""

    kernel: Kernel
    groups: tuple[int, int, int]
    operands: tuple[str, ...]
    access: tuple[str, ...]
    words: tuple[int, ...]
    vec: int = 1
    stores: int = 1
    swapped: bool = False


def plan(problem: Problem, dtype: str, profile: Profile) -> tuple[list[Launch], int]:
    """The dispatches that compute `problem`, in order with a barrier between each, and the bytes of the operand "partial".

    Raises Unsupported for a dtype without kernels and for spans or grids that 32-bit indices or the device cannot count.
    """
    _check(problem, dtype)
    return dispatches(problem, choose(problem, profile), profile, default())


def dispatches(problem: Problem, choice: Choice, profile: Profile, pack: Pack) -> tuple[list[Launch], int]:
    """The dispatches of one choice, its kernels taken from `pack`, and the bytes of the operand "partial"."""
    if choice.splits == 1:
        return [_multiply(problem, choice, profile, pack, "c")], 0
    parts = _parts(problem)
    size = problem.batch[0] * problem.batch[1] * problem.m * problem.n
    if size * choice.splits >= 1 << 32:
        raise InternalError(f"matmul: {choice.splits} parts of {size} elements")
    first = _multiply(parts, choice, profile, pack, "partial", split_stride=size)
    return [first, _reduce(problem, size, choice.splits, profile)], 4 * size * choice.splits


def _check(problem: Problem, dtype: str) -> None:
    if dtype != "float32":
        raise Unsupported(f"matmul: dtype {dtype} has no kernel, only float32 has")
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    if min(m, n, k, *batch) < 1:
        raise InternalError(f"matmul: extents m={m} n={n} k={k} batch={batch}, wanted at least 1 each")
    spans = [
        offset + sum((extent - 1) * abs(stride) for extent, stride in extent_strides(problem, operand))
        for operand, offset in (("a", problem.a_offset), ("b", problem.b_offset), ("c", problem.c_offset))
    ]
    if max(spans) >= 1 << 32:
        raise Unsupported(f"matmul: an operand spans {max(spans) + 1} elements, kernels count to {1 << 32}")


def _parts(problem: Problem) -> Problem:
    """The problem with C replaced by the dense first part of the operand "partial"."""
    m, n, (_, batch1) = problem.m, problem.n, problem.batch
    return replace(problem, c_strides=(n, batch1 * m * n, m * n), c_offset=0)


def _grid(groups: int, profile: Profile) -> tuple[int, int, int]:
    """`groups` workgroups along x, then y: at least that many, as few more as the limits allow."""
    x_max, y_max, _ = profile.limits.max_groups
    y = -(-groups // x_max)
    if y > y_max or groups >= 1 << 32:
        raise Unsupported(
            f"matmul: {groups} workgroups, the device dispatches at most {x_max} x {y_max}: split the batch"
        )
    return (-(-groups // y), y, 1)


def _multiply(
    problem: Problem, choice: Choice, profile: Profile, pack: Pack, target: str, split_stride: int = 0
) -> Launch:
    operands = ("a", "b", target)
    if choice.transposed:
        problem, operands = problem.transposed(), ("b", "a", target)
    variant = choice.variant
    tiles_m = -(-problem.m // variant.tile_m)
    tiles_n = -(-problem.n // variant.tile_n)
    batch0, batch1 = problem.batch
    groups = tiles_m * tiles_n * batch0 * batch1 * choice.splits
    grid = _grid(groups, profile)
    words = (
        groups, grid[0], tiles_m, tiles_n, batch0, batch1, choice.chunk, problem.m, problem.n, problem.k,
        problem.a_offset, *problem.a_strides,
        problem.b_offset, *problem.b_strides,
        problem.c_offset, *problem.c_strides, split_stride,
    )  # fmt: skip
    made = _launch(pack.kernel(variant.name, profile.addressing), grid, operands, words)
    stores = variant.tile_m * variant.tile_n // variant.invocations
    return replace(made, vec=variant.c, stores=max(1, stores), swapped=choice.transposed)


def _reduce(problem: Problem, size: int, splits: int, profile: Profile) -> Launch:
    groups = -(-size // REDUCE.tile_m)
    grid = _grid(groups, profile)
    words = (
        groups, grid[0], 1, 1, *problem.batch, splits, problem.m, problem.n, splits,
        0, 1, size, 0, 0,
        0, 0, 0, 0, 0,
        problem.c_offset, *problem.c_strides, 0,
    )  # fmt: skip
    return _launch(default().kernel(REDUCE.name, profile.addressing), grid, ("partial", "c"), words)


def _launch(
    kernel: Kernel, grid: tuple[int, int, int], operands: tuple[str, ...], words: tuple[int, ...]
) -> Launch:
    access = ("r",) * (len(operands) - 1) + ("w",)
    if len(words) != len(WORDS):
        raise InternalError(f"matmul: {len(words)} argument words, wanted {len(WORDS)}")
    return Launch(kernel, grid, operands, access, tuple(word & 0xFFFFFFFF for word in words))
