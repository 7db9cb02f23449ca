"""Loop nests as data: the structure of a fused kernel with every extent, stride and number left to the argument block.

A nest is hashable and is the key of its kernel: two groups that differ only in sizes are one nest with other words.
`nest_compile` turns it into a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

#: ("dim", k) | ("val", position) | ("div" or "mod", Address, word)
Atom = tuple[str, int] | tuple[str, "Address", int]


@dataclass(frozen=True)
class Address:
    """`word[const] + sum(word[coefficient] * atom)`; None stands for 0 and 1."""

    const: int | None
    terms: tuple[tuple[Atom, int | None], ...]


@dataclass(frozen=True)
class Instr:
    """One scalar operation. `args` are positions of earlier ones.

    op: produced (what the kernel around an epilogue computes),
    load (`address` in `buffer`, `vector`: four neighbours at once, `across`: along the other side of a tile),
    index (`address` as a number), const (`attr`: bits),
    param (`attr`: word), reduce (`attr`: its name), or an operation of the scalar table.
    """

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    attr: int | str | None = None
    buffer: int = -1
    address: Address | None = None
    vector: bool = False
    across: bool = False


@dataclass(frozen=True)
class Store:
    """Write value `value` to `buffer`; `per_row` for one value a row, `vector` when the address is the flat index."""

    buffer: int
    dtype: str
    value: int
    address: Address
    per_row: bool
    vector: bool


@dataclass(frozen=True)
class NestBuffer:
    """A bound buffer: access "r" or "w", element width in words (1, 2 or 4), whether another one may be the same memory."""

    access: str
    width: int
    aliased: bool = False


@dataclass(frozen=True)
class Schedule:
    """How iterations meet invocations.

    flat     an invocation owns four neighbouring elements
    tile     an invocation owns four by four elements, along the innermost dimension and along dimension `across`
    serial   an invocation owns a row
    group    `lanes` invocations share a row and combine through workgroup memory
    epilogue in the hook of a compiled kernel, which gives it `vec` neighbours along the column; see `nest_epilogue`
    `chunked` rows are (row, chunk) pairs and an invocation (or group) reduces one chunk. With `columns` rows lie side by side
    in memory, so neighbouring invocations take neighbouring rows; else neighbouring chunks of a row.

    Along a row an invocation takes `vec` neighbours at a time. With `slots` it takes so many times `vec` in all and keeps them
    in registers, so that each element is loaded and computed once for all passes; `whole` says that the slots fill the row
    exactly. Without, each pass is a loop.
    """

    kind: str
    local: int
    lanes: int = 1
    chunked: bool = False
    columns: bool = False
    vec: int = 1
    slots: int = 0
    whole: bool = False
    across: int = -1


@dataclass(frozen=True)
class Target:
    """What a device wants of a kernel beside the nest: addressing, native operations trusted, whether NaNs, infinities
    and signed zeros must be asked for (`preserve_nan`, only where the device has the float control), whether buffers are
    read as `texels`, and the size of the subgroups whose invocations may shuffle values (0: none)."""

    addressing: str
    trusted: frozenset[str] = frozenset()
    preserve_nan: bool = False
    texels: bool = False
    subgroup: int = 0


@dataclass(frozen=True)
class Nest:
    """Loop dimensions `0 .. kept-1` then `reduced` more; `extents[k]` is the word with dimension k's extent.

    Words 0 and 1 are always the number of work items (quads of elements, or rows) and the number of elements (or the
    reduced length); chunked nests have words 2 to 4, chunks, chunk length and rows. `exact` says that the innermost extent is a
    multiple of 4 and then `inner` is the word with a quarter of it; of a tile, the first of the words that count runs.
    """

    kept: int
    reduced: int
    extents: tuple[int, ...]
    inner: int
    exact: bool
    buffers: tuple[NestBuffer, ...]
    code: tuple[Instr, ...]
    stores: tuple[Store, ...]
    schedule: Schedule
    words: int
