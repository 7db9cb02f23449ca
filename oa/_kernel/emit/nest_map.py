"""Map nests: an invocation owns four neighbouring elements of the flattened space, hence whole words of every result.

Storage is padded to 16 bytes, so the last invocation may compute and store past the end; indices that are not simply the
flat one are clamped to the last element, so it never reads outside an operand.
"""

from __future__ import annotations

from oa._kernel.emit.ir import Builder, Ty, Value
from oa._kernel.emit.nest import Nest, Store, Target
from oa._kernel.emit.nest_code import (
    Point,
    as_word,
    builder,
    linear_group,
    minimum,
    run_lanes,
    split,
    store_element,
    store_quad,
    store_small,
)
from oa._kernel.pack import Kernel
from oa._schema.dtype import as_dtype

_LANES = 4


def emit(nest: Nest, target: Target) -> Kernel:
    """The kernel of a map nest."""
    b = builder(nest, target, "map")
    local = b.const(Ty.U32, nest.schedule.local)
    quad = b.op("iadd", b.op("imul", linear_group(b), local), b.builtin("local_id", 0))
    with b.if_(b.op("ult", quad, b.word(0))):
        flat = b.op("shl", quad, b.const(Ty.U32, 2))
        lanes = [Point(b, nest, dims) for dims in _dims(b, nest, quad, flat)]
        run_lanes(b, lanes, range(len(nest.code)))
        for store in nest.stores:
            _store(b, nest, store, quad, flat, lanes)
    words = b.finish()
    return Kernel(
        "map", words, len(nest.buffers), nest.words, target.addressing, b.local_size, texels=b.bound_texels()
    )


def _dims(b: Builder, nest: Nest, quad: Value, flat: Value) -> list[dict[int, Value]]:
    """Loop indices of the four elements."""
    offsets = [b.const(Ty.U32, k) for k in range(_LANES)]
    last = nest.kept - 1
    if nest.exact and nest.kept > 1:
        quarter = b.word(nest.inner)
        outer = b.op("udiv", quad, quarter)
        first = b.op("shl", b.op("isub", quad, b.op("imul", outer, quarter)), b.const(Ty.U32, 2))
        shared = split(b, nest, outer, range(last))
        return [{**shared, last: b.op("iadd", first, k)} for k in offsets]
    elements = [b.op("iadd", flat, k) for k in offsets]
    if not nest.exact:
        end = b.op("isub", b.word(1), b.const(Ty.U32, 1))
        elements = [elements[0], *(minimum(b, e, end) for e in elements[1:])]
    return [split(b, nest, e, range(nest.kept)) for e in elements]


def _store(b: Builder, nest: Nest, store: Store, quad: Value, flat: Value, lanes: list[Point]) -> None:
    values = [lane.values[store.value] for lane in lanes]
    dtype = as_dtype(store.dtype)
    if dtype.itemsize < 4:
        store_small(b, store.buffer, quad, dtype, values)
    elif store.vector:
        store_quad(b, store.buffer, quad, tuple(as_word(b, v) for v in values))
    else:
        for k, (lane, value) in enumerate(zip(lanes, values)):
            address = lane.address(store.address)
            if nest.exact or k == 0:
                store_element(b, store.buffer, address, value)
            else:
                inside = b.op("ult", b.op("iadd", flat, b.const(Ty.U32, k)), b.word(1))
                with b.if_(inside):
                    store_element(b, store.buffer, address, value)
