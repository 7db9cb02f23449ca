"""From the scalar DAG of a cluster to a loop nest and its argument words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oa._kernel.emit import nest_tile
from oa._kernel.emit.nest import Address, Instr, Nest, NestBuffer, Schedule, Store
from oa._kernel.emit.nest import Atom as NestAtom
from oa._lower.base import Ref
from oa._lower.collapse import collapse
from oa._lower.index import Atom, Data, Dim, Ix, Quotient
from oa._lower.plan import ScalarWord
from oa._lower.pull import At, rename
from oa._lower.rows import Rows, check_passes, row_schedule
from oa._schema import scalar as sc
from oa._schema.dtype import DType
from oa._schema.scalar import Scalar
from oa._schema.spec import Shape

if TYPE_CHECKING:
    from oa._device import Profile

Word = int | ScalarWord
_MASK = 0xFFFFFFFF
_MAP_LOCAL = {"cpu": 64, "gpu": 256}
#: Elements from which a tile pays, and scalar operations up to which sixteen times of them make a kernel.
_SMALLEST_TILED, _LONGEST_TILED = 1 << 14, 64


@dataclass(frozen=True)
class Result:
    """A value to store: `ix` addresses `ref`'s storage in elements, in terms of the iteration space."""

    ref: Ref
    value: Scalar
    ix: Ix
    per_row: bool


@dataclass(frozen=True)
class Lowered:
    """A nest with what fills its bindings and words. `bindings` are (stored value, written)."""

    nest: Nest
    bindings: tuple[tuple[Ref, bool], ...]
    words: tuple[Word, ...]
    items: int  #: work items: quads of elements or rows
    rows_per_group: int


class Words:
    """The plain argument words, handed out as structure needs them."""

    def __init__(self, fixed: list[Word]) -> None:
        self.values: list[Word] = fixed
        self._extent: dict[tuple[str, int], int] = {}

    def add(self, value: Word) -> int:
        """A new word."""
        self.values.append(value & _MASK if isinstance(value, int) else value)
        return len(self.values) - 1

    def coefficient(self, value: int) -> int | None:
        """None for 1, else a new word."""
        return None if value == 1 else self.add(value)


class Linear:
    """Turns scalars into instructions. Identical structures give identical instructions whatever the numbers are."""

    def __init__(
        self, words: Words, mapping: dict[int, tuple[int, int]], inner_dim: int, exact: bool
    ) -> None:
        self.words = words
        self.mapping = mapping
        self.inner_dim = inner_dim
        self.exact = exact
        self.wide = 0  #: words of one wide access, 0 where there are none
        self.vec = 4  #: neighbours that an invocation takes together
        self.flat = -1  #: the dimension that counts all elements, where there is one
        self.across = -1  #: the dimension of a tile's other side, where there is one
        self.code: list[Instr] = []
        self.place: dict[Scalar, int] = {}
        self.buffers: dict[tuple[Ref, bool, int], int] = {}
        self.aliased: frozenset[Ref] = (
            frozenset()
        )  #: values of which one may be written in the place of another

    def buffer(self, ref: Ref, write: bool, width: int) -> int:
        """The binding of a stored value, by element width."""
        return self.buffers.setdefault((ref, write, width), len(self.buffers))

    def width(self, dtype: DType, vector: bool) -> int:
        """The element, in words, of a buffer of that dtype."""
        if dtype.itemsize == 8:
            return 2
        return self.wide if vector and dtype.itemsize == 4 else 1

    def add(self, root: Scalar) -> int:
        """The position of the instruction that computes `root`."""
        for node in sc.topological([root]):
            if node not in self.place:
                self.place[node] = len(self.code)
                self.code.append(self._instr(node))
        return self.place[root]

    def _instr(self, node: Scalar) -> Instr:
        name = node.dtype.name
        if node.op == "load":
            at: At = node.attr
            size = node.dtype.itemsize
            across = self.across >= 0 and size == 4 and self.is_vector(at.ix, self.across)
            vector = across or (size <= 4 and self.is_vector(at.ix) and (size == 4 or self.vec == 4))
            buffer = self.buffer(at.ref, False, self.width(node.dtype, vector))
            return Instr("load", name, (), None, buffer, self.address(at.ix), vector, across)
        if node.op == "index":
            return Instr("index", name, (), None, -1, self.address(node.attr))
        if node.op == "produced":
            return Instr("produced", name)
        if node.op == "const":
            return Instr("const", name, (), node.attr)
        if node.op == "word":
            return Instr("param", name, (), self.words.add(node.attr))
        if node.op == "param":
            number, start = node.attr
            first = self.words.add(ScalarWord(number, start))
            for word in range(1, sc.scalar_words(node.dtype)):
                self.words.add(ScalarWord(number, start + word))
            return Instr("param", name, (), first)
        args = tuple(self.place[a] for a in node.args)
        return Instr(node.op, name, args, node.attr)

    def address(self, ix: Ix) -> Address:
        """An index with its numbers in words."""
        return self._address(rename(ix, self.mapping, {}))

    def _address(self, ix: Ix) -> Address:
        const = self.words.add(ix.const) if ix.const else None
        terms = tuple((self._atom(atom), self.words.coefficient(factor)) for atom, factor in ix.terms)
        return Address(const, terms)

    def _atom(self, atom: Atom) -> NestAtom:
        if isinstance(atom, Dim):
            return ("dim", atom.axis)
        if isinstance(atom, Data):
            return ("val", self.place[atom.scalar])
        kind = "div" if isinstance(atom, Quotient) else "mod"
        return (kind, self._address(atom.value), self.words.add(atom.divisor))

    def is_vector(self, ix: Ix, along: int | None = None) -> bool:
        """Whether `vec` neighbours along a dimension, the innermost one, are neighbours in memory, at a multiple of `vec`."""
        if not self.wide or ix.const % self.vec or not (self.exact or self.inner_dim == 0):
            return False
        dimension = self.inner_dim if along is None else along
        inner = False
        for atom, factor in rename(ix, self.mapping, {}).terms:
            if not isinstance(atom, Dim):
                return False
            if atom.axis in (dimension, self.flat):
                inner = factor == 1
            elif factor % self.vec:
                return False
        return inner


def indices(results: list[Result]) -> list[Ix]:
    found = [r.ix for r in results]
    for node in sc.topological([r.value for r in results]):
        if node.op == "load":
            found.append(node.attr.ix)
        elif node.op == "index":
            found.append(node.attr)
    return found


def renaming(
    runs: list[list[int]], extents: Shape, first: int = 0
) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Old dimension -> (new dimension, 1) for the innermost of each run; the others vanish. And the new extents."""
    mapping, sizes = {}, []
    for k, run in enumerate(runs):
        mapping[run[-1]] = (first + k, 1)
        sizes.append(math.prod(extents[a] for a in run))
    return mapping, sizes


def map_nest(
    space: Shape,
    results: list[Result],
    profile: Profile,
    whole: bool = True,
    aliased: frozenset[Ref] = frozenset(),
) -> Lowered:
    """A nest over all elements of `space`. `whole` says that nothing lies behind the results in their storage but padding;
    one of the values `aliased` may lie in the place of another."""
    (runs,) = collapse(space, (range(len(space)),), indices(results))
    mapping, sizes = renaming(runs, space)
    sizes = sizes or [1]
    count = math.prod(sizes)
    quads = -(-count // 4)
    words = Words([quads, count])
    exact = sizes[-1] % 4 == 0
    extents = tuple(words.add(s) for s in sizes)
    inner = words.add(sizes[-1] // 4)
    linear = Linear(words, mapping, len(sizes) - 1, exact)
    linear.aliased = aliased
    # A software device reads memory lane by lane, two words at the price of one.
    linear.wide = 2 if profile.tuning == "cpu" and "int64" in profile.features else 4
    local = _MAP_LOCAL[profile.tuning]
    if profile.tuning != "cpu" and not aliased:
        linear.across = _across(linear, results, sizes)
    if linear.across < 0:
        stores, schedule, items = (
            _stores(linear, results, sizes, whole or exact),
            Schedule("flat", local),
            quads,
        )
    else:
        sides = {linear.across: nest_tile.ACROSS, len(sizes) - 1: nest_tile.ALONG}
        counts = [words.add(size // sides.get(k, 1)) for k, size in enumerate(sizes)]
        inner, items = counts[0], count // nest_tile.SIDE**2
        words.values[0] = items
        stores, schedule = (
            _stores(linear, results, sizes, True),
            Schedule("tile", local, across=linear.across),
        )
    return finished(linear, stores, len(sizes), 0, extents, inner, exact, schedule, items, local)


def _across(linear: Linear, results: list[Result], sizes: list[int]) -> int:
    """The dimension along which an operand is contiguous while the results are so along another; -1 where no tile fits."""
    nodes = sc.topological([r.value for r in results])
    if (
        math.prod(sizes) < _SMALLEST_TILED
        or sizes[-1] % nest_tile.ALONG
        or len(nodes) > _LONGEST_TILED
        or not all(r.value.dtype.itemsize == 4 and linear.is_vector(r.ix) for r in results)
    ):
        return -1
    sides = [k for k, size in enumerate(sizes[:-1]) if size % nest_tile.ACROSS == 0]
    loads = [n.attr.ix for n in nodes if n.op == "load" and n.dtype.itemsize == 4]
    return next((k for ix in loads for k in sides if linear.is_vector(ix, k)), -1)


def _stores(linear: Linear, results: list[Result], sizes: list[int], vectors: bool) -> list[Store]:
    stores = []
    parts = {r.ref for r in results if [o.ref for o in results].count(r.ref) > 1}  # of complex values
    for r in results:
        value = linear.add(r.value)
        dtype = r.value.dtype
        small = dtype.itemsize < 4
        flat = linear.across < 0 and r.ref not in parts and _is_flat(rename(r.ix, linear.mapping, {}), sizes)
        vector = linear.across >= 0 or (vectors and dtype.itemsize <= 4 and flat)
        buffer = linear.buffer(r.ref, True, linear.width(dtype, vector))
        address = Address(None, ()) if (flat and vector) or small else linear.address(r.ix)
        stores.append(Store(buffer, r.value.dtype.name, value, address, False, vector))
    return stores


def _is_flat(ix: Ix, sizes: list[int]) -> bool:
    want, step = {}, 1
    for k in reversed(range(len(sizes))):
        if sizes[k] != 1:
            want[k] = step
        step *= sizes[k]
    return ix.const == 0 and {a.axis: c for a, c in ix.terms if isinstance(a, Dim)} == want


def row_nest(
    space: Shape,
    axes: tuple[int, ...],
    results: list[Result],
    profile: Profile,
    trailing: bool,
    chunks: tuple[int, int] | None = None,
) -> Lowered:
    """A nest over rows; `results` are in terms of `space`. `chunks` is (count, length) for a partial reduction."""
    order = [k for k in range(len(space)) if k not in axes] + list(axes)
    kept_count = len(space) - len(axes)
    place = {old: new for new, old in enumerate(order)}
    moved = {old: (new, 1) for old, new in place.items()}
    extents = tuple(space[k] for k in order)
    results = _moved(results, moved)
    groups = (range(kept_count), range(kept_count, len(space)))
    kept_runs, reduced_runs = collapse(extents, groups, indices(results))
    mapping, sizes = renaming(kept_runs, extents)
    sizes = sizes or [1]
    more, reduced = renaming(reduced_runs, extents, len(sizes))
    reduced = reduced or [1]
    mapping.update(more)
    rows, length = math.prod(sizes), math.prod(reduced)
    items = rows * chunks[0] if chunks else rows
    inner = next((space[a] for a in reversed(axes) if space[a] != 1), 1)
    chunked = chunks is not None
    schedule = row_schedule(Rows(items, chunks[1] if chunks else length, inner, trailing, chunked), profile)
    fixed: list[Word] = [items, length, *((*chunks, rows) if chunks else ())]
    words = Words(fixed)
    dims = tuple(words.add(s) for s in (*sizes, *reduced))
    linear = Linear(words, mapping, len(sizes) + len(reduced) - 1, reduced[-1] % schedule.vec == 0)
    linear.vec = schedule.vec
    linear.wide = schedule.vec if schedule.vec > 1 else 0
    stores = []
    for r in results:
        value = linear.add(r.value)
        dtype = r.value.dtype
        vector = dtype.itemsize == 4 and not r.per_row and linear.is_vector(r.ix)
        buffer = linear.buffer(r.ref, True, linear.width(dtype, vector))
        address = Address(None, ()) if chunks else linear.address(r.ix)
        stores.append(Store(buffer, r.value.dtype.name, value, address, r.per_row, vector))
    per_group = schedule.local // schedule.lanes
    check_passes(schedule, chunks[1] if chunks else length, _passes(linear.code, stores), profile)
    return finished(linear, stores, len(sizes), len(reduced), dims, 0, False, schedule, items, per_group)


def _passes(code: list[Instr], stores: list[Store]) -> int:
    """How often a row is gone through at most: one more time for what follows from another reduction, and to store."""
    depth: list[int] = []
    for instr in code:
        below = max((depth[a] for a in instr.args), default=0)
        depth.append(below + 1 if instr.op == "reduce" else below)
    return max(depth, default=0) + any(not s.per_row for s in stores)


def _moved(results: list[Result], moved: dict[int, tuple[int, int]]) -> list[Result]:
    """The results with dimensions renamed inside every load and index."""
    return mapped(results, lambda ix, data: rename(ix, moved, data))


def mapped(results: list[Result], new: Callable[[Ix, dict[Scalar, Scalar]], Ix]) -> list[Result]:
    """The results with every index replaced; `new` is given an index and what becomes of the scalars that it reads."""
    done: dict[Scalar, Scalar] = {}

    def leaf(node: Scalar) -> Scalar | None:
        if node.op == "load":
            at: At = node.attr
            data = {a: done.setdefault(a, sc.substitute(a, leaf)) for a in node.args}
            return sc.scalar(
                "load", node.dtype, tuple(data[a] for a in node.args), At(at.ref, new(at.ix, data))
            )
        if node.op == "index":
            data = {a: done.setdefault(a, sc.substitute(a, leaf)) for a in node.args}
            return sc.scalar("index", node.dtype, tuple(data[a] for a in node.args), new(node.attr, data))
        return None

    return [Result(r.ref, sc.substitute(r.value, leaf), new(r.ix, {}), r.per_row) for r in results]


def finished(
    linear: Linear,
    stores: list[Store],
    kept: int,
    reduced: int,
    extents: tuple[int, ...],
    inner: int,
    exact: bool,
    schedule: Schedule,
    items: int,
    per_group: int,
) -> Lowered:
    buffers = tuple(
        NestBuffer("w" if write else "r", width, ref in linear.aliased)
        for ref, write, width in linear.buffers
    )
    bindings = tuple((ref, write) for ref, write, _ in linear.buffers)
    nest = Nest(
        kept,
        reduced,
        extents,
        inner,
        exact,
        buffers,
        tuple(linear.code),
        tuple(stores),
        schedule,
        len(linear.words.values),
    )
    return Lowered(nest, bindings, tuple(linear.words.values), items, per_group)
