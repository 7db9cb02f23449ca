"""The kernels for matrix multiplication: what each assumes of a problem and of a device, and how the pack builds it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from oa._kernel.pack import Recipe
from oa.errors import InternalError

__all__ = [
    "LANES",
    "RECIPES",
    "REDUCE",
    "REGISTERS",
    "TEXELS",
    "TILES",
    "VECTORS",
    "WORDS",
    "Variant",
    "tiles",
]

#: The plain argument words in order; `problem.slang` names them alike.
WORDS = (
    "groups", "groups_x", "tiles_m", "tiles_n", "batch0", "batch1", "chunk", "m", "n", "k",
    "a_offset", "a_row", "a_col", "a_batch0", "a_batch1",
    "b_offset", "b_row", "b_col", "b_batch0", "b_batch1",
    "c_offset", "c_row", "c_batch0", "c_batch1", "c_split",
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A kernel, the tile of C that one of its workgroups computes, and what it assumes.

    `a` and `b` say how operands are read: 0 any strides; 1 `width` elements at a time along k; 2 along m (A) or n (B). 1 and 2
    need a stride of 1 there, and the other strides and the offset to be multiples of `width`. `c` is the multiple of which n,
    the strides and the offset of C have to be. A range of k starts at a multiple of `slice`.
    """

    recipe: Recipe
    tile_m: int
    tile_n: int
    a: int = 0
    b: int = 0
    width: int = 1
    c: int = 1
    slice: int = 1
    invocations: int = 64
    shared_bytes: int = 0

    @property
    def name(self) -> str:
        """The kernel's name in the pack."""
        return self.recipe.name

    @property
    def registers(self) -> int:
        """32-bit registers that an invocation at least holds at once: its part of the tile, a row and a column of operands, and
        two dozen for addresses and counters. More than a device has spill to memory."""
        own = self.tile_m * self.tile_n // self.invocations
        rows = max(1, round(math.sqrt(own * self.tile_m / self.tile_n)))
        return own + rows + -(-own // rows) + 24


#: How the layouts of (A, B) are called in names: each operand n(ormal), t(ransposed) or x (any strides).
_LAYOUTS = {(0, 0): "any", (1, 2): "nn", (1, 1): "nt", (2, 2): "tn", (1, 0): "nx", (2, 0): "tx", (0, 2): "xn"}


def _recipe(
    name: str,
    source: str,
    subgroup_size: int | None = None,
    buffers: int = 3,
    texels: tuple[int, ...] = (),
    **defines: int,
) -> Recipe:
    return Recipe(
        f"matmul.{name}",
        f"matmul/{source}.slang",
        tuple(defines.items()),
        buffers,
        len(WORDS),
        subgroup_size,
        texels,
    )


def _registers(rows: int, columns: int, gx: int, gy: int) -> Variant:
    recipe = _recipe(f"registers_{rows}x{columns}", "registers", TM=rows, TN=columns, GX=gx, GY=gy)
    return Variant(recipe, rows * gy, columns * gx, invocations=gx * gy)


def _lanes(rows: int, columns: int, a: int, b: int, whole: bool) -> Variant:
    width = min(columns, 4)
    name = f"lanes_{rows}x{8 * columns}_{_LAYOUTS[a, b]}{'' if whole else '_ragged'}"
    recipe = _recipe(
        name,
        "lanes",
        subgroup_size=8,
        TM=rows,
        TN=columns,
        A_PAIR=a,
        B_PAIR=b,
        WIDTH=width,
        C_WHOLE=int(whole),
    )
    c = width if whole else 1
    return Variant(recipe, rows, 8 * columns, a, b, width=2, c=c, slice=2, invocations=8)


def _texels(rows: int, columns: int, a: int, b: int, whole: bool) -> Variant:
    width, words = min(columns, 4), {0: 1, 1: 4, 2: min(columns, 4)}[b]
    name = f"texels_{rows}x{8 * columns}_{_LAYOUTS[a, b]}{'' if whole else '_ragged'}"
    recipe = _recipe(
        name,
        "texels",
        subgroup_size=8,
        texels=(4 if a else 1, words, 0),
        TM=rows,
        TN=columns,
        A_TEXEL=a,
        B_TEXEL=b,
        B_WORDS=words,
        WIDTH=width,
        C_WHOLE=int(whole),
    )
    c = width if whole else 1
    return Variant(recipe, rows, 8 * columns, a, b, width=4, c=c, slice=4, invocations=8)


def tiles(bm: int, bn: int, bk: int, tm: int, tn: int, a: int, b: int, prefix: str = "") -> Variant:
    """A tile of bm x bn from slices of bk, each invocation tm x tn of it. Invocations come in blocks of 4 x 8."""
    rows, columns, width = bm // tm, bn // tn, 4 if a else 1
    if rows % 4 or columns % 8:
        raise InternalError(
            f"matmul tile {bm}x{bn}: {rows} x {columns} invocations, wanted multiples of 4 x 8"
        )
    recipe = _recipe(
        f"{prefix}tiles_{bm}x{bn}x{bk}{f'_{tm}x{tn}' if prefix else ''}_{_LAYOUTS[a, b]}", "tiles",
        BM=bm, BN=bn, BK=bk, TM=tm, TN=tn, BUFFERS=2, A_VECTOR=a, B_VECTOR=b, C_VECTOR=int(width > 1),
    )  # fmt: skip
    return Variant(recipe, bm, bn, a, b, width, width, bk, rows * columns, 2 * bk * (bm + bn) * 4)


def _vector(rows: int, lanes: int, along_k: bool) -> Variant:
    name = f"vector_{'rows' if along_k else 'columns'}_{rows}x{lanes}"
    recipe = _recipe(name, "vector", ROWS=rows, LANES=lanes, ALONG_K=int(along_k))
    return Variant(recipe, rows, 1, invocations=rows * lanes, shared_bytes=rows * lanes * 4)


_VECTOR_LAYOUTS = ((1, 2), (1, 1), (2, 2))

#: For any device.
REGISTERS = (_registers(4, 4, 8, 8), _registers(8, 8, 8, 8), _registers(4, 1, 1, 8))

#: For software devices whose subgroups are 8 invocations. Ragged ones store one column at a time, which the device's compiler
#: takes long to translate: hence their smaller tiles.
LANES = (
    *(
        _lanes(rows, n, a, b, True)
        for rows, n in ((64, 8), (32, 8), (16, 8), (64, 2))
        for a, b in _VECTOR_LAYOUTS
    ),
    *(_lanes(8, 8, a, b, True) for a, b in ((1, 2), (1, 1))),
    _lanes(64, 8, 0, 2, True),
    *(_lanes(32, 8, a, b, False) for a, b in ((0, 0), (1, 0), (2, 0), (1, 1))),
    _lanes(8, 8, 0, 0, False),
    _lanes(32, 2, 0, 0, False),
)

#: For software devices that read texels.
TEXELS = (
    *(
        _texels(*shape, a, b, True)
        for shape in ((16, 4), (8, 8), (8, 4), (16, 2))
        for a, b in _VECTOR_LAYOUTS
    ),
    *(_texels(8, 4, a, b, True) for a, b in ((0, 2), (1, 0), (2, 0))),
    *(_texels(8, 4, a, b, False) for a, b in ((0, 0), (1, 0), (2, 0), (1, 1), (0, 2))),
    _texels(8, 1, 0, 0, False),
)

#: For GPUs, from large to small. Slices of 8 are for devices with 16 KiB of workgroup memory. Any strides take more registers:
#: 128 x 128 of them is more than some devices have.
TILES = tuple(
    tiles(*shape, *layout)
    for shape, layouts in (
        ((128, 128, 16, 8, 8), _VECTOR_LAYOUTS),
        ((128, 128, 8, 8, 8), _VECTOR_LAYOUTS),
        ((128, 64, 8, 8, 4), ((0, 0),)),
        ((64, 64, 16, 4, 4), (*_VECTOR_LAYOUTS, (0, 0))),
        ((32, 32, 16, 4, 4), (*_VECTOR_LAYOUTS, (0, 0))),
    )
    for layout in layouts
)

#: For GPUs and n == 1: A with neighbours along k, and along m.
VECTORS = (_vector(8, 32, True), _vector(64, 4, False))

#: The second stage of a multiplication whose k is split.
REDUCE = Variant(_recipe("reduce", "reduce", buffers=2), 64, 1, invocations=64)

RECIPES = tuple(v.recipe for v in (*REGISTERS, *LANES, *TEXELS, *TILES, *VECTORS, REDUCE))
