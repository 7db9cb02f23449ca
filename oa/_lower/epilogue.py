"""Pass `epilogue`: what follows a product element by element is computed in the product's kernel, where its results leave.

The group that reads a product joins it when each of its elements follows from one element of the product, and whole rows stay
rows. The kernel is the one that the product takes alone, so no bit changes; its last stage gets another hook.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oa._graph.views import Reshape
from oa._kernel.emit.nest import Schedule, Store
from oa._lower.base import Ref
from oa._lower.collapse import collapse
from oa._lower.fuse import Cluster, Fusion
from oa._lower.index import Coords, Data, Dim, Ix, dims, inverse, linear, through
from oa._lower.nests import Linear, Lowered, Result, Word, Words, finished, indices, mapped, renaming
from oa._lower.pull import Pull, rename
from oa._schema import scalar as sc
from oa._schema.scalar import Scalar
from oa._schema.spec import Shape, contiguous_strides

if TYPE_CHECKING:
    from oa._device import Profile

#: Bindings that the product's operands take, and one that keeps blocks aligned.
_OWN_BUFFERS = 3
#: Operations that one invocation's stores may repeat, functions and blocks of random numbers counted as so many: what is unrolled
#: has to be compiled.
MAX_OPERATIONS = {"cpu": 4096, "gpu": 16384}
FUNCTION, PHILOX = 20, 120


def epilogues(fusion: Fusion, replaced: Mapping[Ref, Ref]) -> None:
    """Let products take what follows them. Values `replaced` (as in `donate`) stay with maps, which can compute in place."""
    for cluster in fusion.clusters:
        if cluster.kind == "matmul":
            _take(fusion, cluster, replaced)
    fusion.clusters = fusion.ordered()


def _take(fusion: Fusion, product: Cluster, replaced: Mapping[Ref, Ref]) -> None:
    (ref,) = product.members
    readers = dict.fromkeys(fusion.cluster_of[r] for r in sorted(fusion.consumers.get(ref, ())))
    for reader in readers:
        if reader.kind == "map" and _legal(fusion, product, reader, replaced):
            merged = Cluster("matmul", product.space, None, [ref, *reader.members])
            for member in merged.members:
                fusion.cluster_of[member] = merged
            return


def _legal(fusion: Fusion, product: Cluster, reader: Cluster, replaced: Mapping[Ref, Ref]) -> bool:
    (ref,) = product.members
    edges = {e for r in reader.members for e in fusion.edges[r]}
    if not fusion.outputs(reader) or _place(fusion, ref, reader.members) is None:
        return False
    inside = {ref, *reader.members}
    if any(r in replaced for r in fusion.outputs(reader)):
        return False
    written = [r for r in inside if r in fusion.stored or fusion.consumers.get(r, set()) - inside]
    bound = len({e.source for e in edges} - inside) + len(written) + _OWN_BUFFERS
    return bound <= fusion.max_buffers and not fusion.path_around(product, reader)


def _place(fusion: Fusion, ref: Ref, readers: Sequence[Ref]) -> Coords | None:
    """Which element of the readers' space follows from each element of the product; None unless it is one, in whole rows."""
    space, shape = fusion.base.nodes[readers[0]].spec.shape, fusion.base.nodes[ref].spec.shape
    strides = contiguous_strides(shape)
    edges = [e.coords for r in readers for e in fusion.edges[r] if e.source == ref]
    if not edges or None in edges or math.prod(space) != math.prod(shape):
        return None
    read = {linear(coords, strides) for coords in edges if coords is not None}
    if read == {linear(dims(space), contiguous_strides(space))}:
        return dims(shape) if space == shape else through(Reshape(space, shape), dims(shape), shape)
    found = inverse(edges[0], space, shape) if len(read) == 1 and edges[0] is not None else None
    if found is None:
        return None
    columns = {a.axis: c for a, c in linear(found, contiguous_strides(space)).terms if isinstance(a, Dim)}
    return found if shape[-1] == 1 or columns.get(len(shape) - 1) == 1 else None


def results(fusion: Fusion, cluster: Cluster) -> list[Result] | None:
    """What the kernel of a product with an epilogue stores, in terms of the product's elements; None if it cannot be."""
    shape, (product, *readers) = cluster.space, cluster.members
    pull = Pull(fusion, cluster, shape)
    place = _place(fusion, product, readers)
    found: list[Result] = []
    for ref in fusion.outputs(cluster):
        coords = dims(shape) if ref == product else place
        if coords is None:
            return None
        found += stored(pull, ref, coords, False)
    return None if pull.astray else found


def stored(pull: Pull, ref: Ref, coords: Coords, per_row: bool) -> list[Result]:
    """What a kernel stores of a node: its element at `coords`, or of a pair both parts, side by side."""
    node = pull.base.nodes[ref]
    at = linear(coords, contiguous_strides(node.spec.shape))
    if node.kind != "pair":
        return [Result(ref, pull.value(ref, coords), at, per_row)]
    return [
        Result(ref, pull.value(part, coords), at.scaled(2) + Ix(k), per_row)
        for k, part in enumerate(node.inputs)
    ]


def is_small(found: Sequence[Result], stores: int, vec: int, tuning: str) -> bool:
    """Whether so many elements of an invocation, `vec` at a time, may each compute the results."""
    work = [n.op for n in sc.topological([r.value for r in found]) if n.args]
    functions = sum(op not in sc.CHEAP for op in work)
    each = len(work) + functions * FUNCTION + work.count("philox") * PHILOX // vec
    return each * stores <= MAX_OPERATIONS[tuning]


def epilogue_nest(
    shape: Shape, found: list[Result], words: Sequence[Word], vec: int, swapped: bool, profile: Profile
) -> Lowered | None:
    """The nest of an epilogue of a product of that shape, whose kernel stores `vec` elements at a time and takes `words`.

    `swapped`: the kernel computes the transposed product, of one row or one column. None where an invocation would not own whole
    words of a result.
    """
    rank, flat = len(shape), linear(dims(shape), contiguous_strides(shape))
    whole = ((Dim(rank), 1),)
    same = {k: (k, 1) for k in range(rank)}

    def counted(ix: Ix, data: dict[Scalar, Scalar]) -> Ix:
        """An index in step with the element's number is that number."""
        ix = rename(ix, same, data)
        return Ix(ix.const, whole) if flat.terms and ix.terms == flat.terms else ix

    found = mapped(found, counted)
    used = [ix for ix in indices(found) if ix.terms != whole]
    batch, _, _ = collapse(
        (*shape, 1), (range(rank - 2), range(rank - 2, rank - 1), range(rank - 1, rank)), used
    )
    if not any(_steps(ix, rank - 2) for ix in used):
        batch = []
    mapping, sizes = renaming(batch, shape)
    count = len(sizes)
    row, column = (count + 1, count) if swapped else (count, count + 1)
    mapping.update({rank - 2: (row, 1), rank - 1: (column, 1), rank: (count + 2, 1)})
    made = Words([*words])
    extents = tuple(made.add(s) for s in sizes)
    inner = made.add(shape[-2] * shape[-1]) if batch else 0
    nest = Linear(made, mapping, count + 1, vec > 1)
    nest.flat, nest.vec = count + 2, vec
    nest.wide = (
        0 if vec == 1 else 2 if vec == 2 or (profile.tuning == "cpu" and "int64" in profile.features) else 4
    )
    values = [nest.add(r.value) for r in found]
    stores = []
    for r, value in zip(found, values):
        dtype = r.value.dtype
        if dtype.itemsize < 4 and not (vec == 4 and nest.is_vector(r.ix)):
            return None
        vector = dtype.itemsize == 4 and nest.is_vector(r.ix)
        buffer = nest.buffer(r.ref, True, nest.width(dtype, vector))
        stores.append(Store(buffer, dtype.name, value, nest.address(r.ix), False, vector))
    schedule = Schedule("epilogue", 0, vec=vec)
    return finished(nest, stores, count + 3, 0, extents, inner, vec > 1, schedule, math.prod(shape), 1)


def _steps(ix: Ix, rank: int) -> bool:
    """Whether an index changes along the first `rank` dimensions."""
    return any(
        atom.axis < rank if isinstance(atom, Dim) else not isinstance(atom, Data) and _steps(atom.value, rank)
        for atom, _ in ix.terms
    )
