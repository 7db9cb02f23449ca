"""Matrix multiplication: which kernels compute a problem on a device, in what grid and with what argument words.

    C[b0, b1, i, j] = sum over p of A[b0, b1, i, p] * B[b0, b1, p, j]

Everything here is a pure function of the problem and the device profile, so equal problems take equal kernels, and with them the
same order of summation and the same bits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from oa._kernel.pack import Kernel, Recipe, default
from oa.errors import InternalError, Unsupported

__all__ = ["RECIPES", "Launch", "Problem", "plan"]

#: The plain argument words in order; `problem.slang` names them alike.
WORDS = (
    "groups", "groups_x", "tiles_m", "tiles_n", "batch0", "batch1", "chunk", "m", "n", "k",
    "a_offset", "a_row", "a_col", "a_batch0", "a_batch1",
    "b_offset", "b_row", "b_col", "b_batch0", "b_batch1",
    "c_offset", "c_row", "c_batch0", "c_batch1", "c_split",
)  # fmt: skip


class Limits(Protocol):
    """What the family reads of a device's limits."""

    @property
    def max_groups(self) -> tuple[int, int, int]: ...
    @property
    def max_invocations(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def subgroup_size(self) -> int: ...


class Target(Protocol):
    """What the family reads of a device profile (`oa._device.Profile` is one)."""

    @property
    def tuning(self) -> str: ...
    @property
    def addressing(self) -> str: ...
    @property
    def features(self) -> Collection[str]: ...
    @property
    def limits(self) -> Limits: ...


@dataclass(frozen=True)
class Problem:
    """One multiplication. Extents are at least 1; strides and offsets count elements, and strides may be 0 or negative.

    `a_strides` are (row, column, batch0, batch1) of the m x k matrices A, `b_strides` those of the k x n matrices B, `c_strides`
    (row, batch0, batch1) of the m x n matrices C, whose columns are adjacent and which do not overlap one another.
    """

    m: int
    n: int
    k: int
    batch: tuple[int, int]
    a_strides: tuple[int, int, int, int]
    b_strides: tuple[int, int, int, int]
    c_strides: tuple[int, int, int]
    a_offset: int = 0
    b_offset: int = 0
    c_offset: int = 0


@dataclass(frozen=True)
class Launch:
    """One dispatch: `operands` name the kernel's buffers in binding order ("a", "b", "c", "partial"), `access` says "r" or "w"."""

    kernel: Kernel
    groups: tuple[int, int, int]
    operands: tuple[str, ...]
    access: tuple[str, ...]
    words: tuple[int, ...]


@dataclass(frozen=True)
class Variant:
    """A kernel and the tile of C that one of its workgroups computes."""

    name: str
    tile_m: int
    tile_n: int


def _registers(rows: int, columns: int, gx: int, gy: int) -> tuple[Recipe, Variant]:
    name = f"matmul.registers_{rows}x{columns}"
    defines = (("TM", rows), ("TN", columns), ("GX", gx), ("GY", gy))
    recipe = Recipe(name, "matmul/registers.slang", defines, buffers=3, arg_words=len(WORDS))
    return recipe, Variant(name, rows * gy, columns * gx)


_REGISTERS = (_registers(4, 4, 8, 8),)
RECIPES: tuple[Recipe, ...] = tuple(recipe for recipe, _ in _REGISTERS)


def _grid(groups: int, limits: Limits) -> tuple[int, int, int]:
    """`groups` workgroups along x, then y: at least that many, as few more as the limits allow."""
    x = min(groups, limits.max_groups[0])
    y = -(-groups // x)
    if y > limits.max_groups[1] or groups >= 1 << 32:
        raise Unsupported(f"matmul: {groups} workgroups, the device dispatches at most {limits.max_groups}: split the batch")
    return (x, y, 1)


def _span(extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The distance in elements between the first and the last element that the strides reach."""
    return sum((extent - 1) * abs(stride) for extent, stride in zip(extents, strides, strict=True))


def _check(problem: Problem, dtype: str) -> None:
    if dtype != "float32":
        raise Unsupported(f"matmul: dtype {dtype} has no kernel, only float32 has")
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    if min(m, n, k, *batch) < 1:
        raise InternalError(f"matmul: extents m={m} n={n} k={k} batch={batch}, wanted at least 1 each")
    spans = (
        problem.a_offset + _span((m, k, *batch), problem.a_strides),
        problem.b_offset + _span((k, n, *batch), problem.b_strides),
        problem.c_offset + _span((m, n, *batch), (problem.c_strides[0], 1, *problem.c_strides[1:])),
    )
    if max(spans) >= 1 << 32:
        raise Unsupported(f"matmul: an operand spans {max(spans) + 1} elements, kernels count to {1 << 32}: split the batch")


def _launch(problem: Problem, variant: Variant, target: Target) -> Launch:
    tiles_m = -(-problem.m // variant.tile_m)
    tiles_n = -(-problem.n // variant.tile_n)
    batch0, batch1 = problem.batch
    groups = tiles_m * tiles_n * batch0 * batch1
    grid = _grid(groups, target.limits)
    words = (
        groups, grid[0], tiles_m, tiles_n, batch0, batch1, problem.k, problem.m, problem.n, problem.k,
        problem.a_offset, *problem.a_strides,
        problem.b_offset, *problem.b_strides,
        problem.c_offset, *problem.c_strides, 0,
    )  # fmt: skip
    kernel = default().kernel(variant.name, target.addressing)
    wrapped = tuple(word & 0xFFFFFFFF for word in words)
    return Launch(kernel, grid, ("a", "b", "c"), ("r", "r", "w"), wrapped)


def plan(problem: Problem, dtype: str, target: Target) -> tuple[list[Launch], int]:
    """The dispatches that compute `problem`, in order with a barrier between each, and the bytes of the operand "partial".

    Raises Unsupported for a dtype without kernels and for spans or grids that 32-bit indices or the device cannot count.
    """
    _check(problem, dtype)
    return [_launch(problem, _REGISTERS[0][1], target)], 0
