"""Epilogue nests: what becomes of each element that a family's kernel computes, as the body of that kernel's hook.

Loop dimensions are those of the batch that the body needs, then the row and the column in a matrix, and last the element's number
in the whole result. The last buffer takes the place of the compiled kernel's result.
"""

from __future__ import annotations

from oa._kernel.emit.ir import Buffer, Ty, Value
from oa._kernel.emit.nest import Nest, Store, Target
from oa._kernel.emit.nest_code import (
    Point,
    as_word,
    run_lanes,
    split,
    store_element,
    store_lanes,
    store_small,
)
from oa._kernel.emit.splice import Splice, leading
from oa._kernel.pack import Kernel
from oa._schema.dtype import as_dtype
from oa.errors import InternalError


def emit(nest: Nest, target: Target, into: Kernel) -> Kernel:
    """The kernel `into` with the nest in its hook."""
    *own, result = (Buffer(b.access, b.width) for b in nest.buffers)
    own += [Buffer("r")] * (leading(len(own), target.addressing) - len(own))
    b = Splice(into, own, result, target)
    if len(b.values) != nest.schedule.vec:
        raise InternalError(
            f"kernel {into.name} stores {len(b.values)} elements at a time, not {nest.schedule.vec}"
        )
    lanes = _lanes(b, nest)
    run_lanes(b, lanes, range(len(nest.code)))
    for store in nest.stores:
        last = store.buffer == len(nest.buffers) - 1
        _store(b, store, len(b.buffers) - 1 if last else store.buffer, lanes)
    return b.kernel(nest.words)


def _lanes(b: Splice, nest: Nest) -> list[Point]:
    index, row, column = b.place
    vec, batch = nest.schedule.vec, nest.kept - 3
    outer = split(b, nest, b.op("udiv", index, b.word(nest.inner)), range(batch)) if batch else {}
    shift = b.const(Ty.U32, vec.bit_length() - 1)
    first = b.op("shl", b.op("shr_u", index, shift), shift)  # says that it is a multiple
    found = []
    for k, value in enumerate(b.values):
        step = b.const(Ty.U32, k)
        dims = {
            **outer,
            batch: row,
            batch + 1: b.op("iadd", column, step),
            batch + 2: b.op("iadd", first, step),
        }
        known = {position: value for position, i in enumerate(nest.code) if i.op == "produced"}
        found.append(Point(b, nest, dims, known))
    return found


def _store(b: Splice, store: Store, buffer: int, lanes: list[Point]) -> None:
    values: list[Value] = [lane.values[store.value] for lane in lanes]
    dtype = as_dtype(store.dtype)
    if dtype.itemsize < 4:
        quad = b.op("shr_u", lanes[0].address(store.address), b.const(Ty.U32, 2))
        store_small(b, buffer, quad, dtype, values)
    elif store.vector:
        store_lanes(b, buffer, lanes[0].address(store.address), [as_word(b, v) for v in values])
    else:
        for lane, value in zip(lanes, values):
            store_element(b, buffer, lane.address(store.address), value)
