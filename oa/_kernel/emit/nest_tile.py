"""Map nests that turn memory over: an invocation owns 4 x 4 elements, four along the results' innermost dimension and four along
another one, in which operands are contiguous. Every access is of four neighbouring words, and no workgroup memory is needed.

A run of 32 invocations covers 16 elements across by 32 along, so that it reads runs of 64 bytes and writes runs of 128.
"""

from __future__ import annotations

from oa._kernel.emit.ir import Builder, Ty, Value
from oa._kernel.emit.nest import Nest, Target
from oa._kernel.emit.nest_code import Point, as_word, builder, linear_group, run_lanes, store_lanes
from oa._kernel.pack import Kernel

#: Invocations of a run, across and along; elements of an invocation either way.
RUN_ACROSS, RUN_ALONG, SIDE = 4, 8, 4
#: Multiples that the two extents have to be.
ACROSS, ALONG = RUN_ACROSS * SIDE, RUN_ALONG * SIDE


def emit(nest: Nest, target: Target) -> Kernel:
    """The kernel of a tiled map nest."""
    b = builder(nest, target, "map")
    local = b.const(Ty.U32, nest.schedule.local)
    item = b.op("iadd", b.op("imul", linear_group(b), local), b.builtin("local_id", 0))
    with b.if_(b.op("ult", item, b.word(0))):
        first = _first(b, nest, item)
        across, along = nest.schedule.across, nest.kept - 1
        points = [
            [
                Point(
                    b, nest, {**first, across: _plus(b, first[across], a), along: _plus(b, first[along], c)}
                )
                for c in range(SIDE)
            ]
            for a in range(SIDE)
        ]
        for position, instr in enumerate(nest.code):
            lines = list(zip(*points)) if instr.across else points
            for line in lines:
                run_lanes(b, line, (position,))
        for store in nest.stores:
            for line in points:
                words = [as_word(b, point.values[store.value]) for point in line]
                store_lanes(b, store.buffer, line[0].address(store.address), words)
    return Kernel(
        "map",
        b.finish(),
        len(nest.buffers),
        nest.words,
        target.addressing,
        b.local_size,
        texels=b.bound_texels(),
    )


def _plus(b: Builder, value: Value, number: int) -> Value:
    return b.op("iadd", value, b.const(Ty.U32, number))


def _first(b: Builder, nest: Nest, item: Value) -> dict[int, Value]:
    """Loop indices of the first element of an invocation. Word `inner + k` counts the runs along dimension k."""
    within = b.op("and", item, b.const(Ty.U32, RUN_ACROSS * RUN_ALONG - 1))
    rest = b.op("shr_u", item, b.const(Ty.U32, (RUN_ACROSS * RUN_ALONG).bit_length() - 1))
    first: dict[int, Value] = {}
    for k in reversed(range(nest.kept)):
        if k == 0:
            first[k] = rest
            break
        count = b.word(nest.inner + k)
        quotient = b.op("udiv", rest, count)
        first[k] = b.op("isub", rest, b.op("imul", quotient, count))
        rest = quotient
    inside = {
        nest.schedule.across: (b.op("shr_u", within, b.const(Ty.U32, RUN_ALONG.bit_length() - 1)), ACROSS),
        nest.kept - 1: (b.op("and", within, b.const(Ty.U32, RUN_ALONG - 1)), ALONG),
    }
    for k, (place, extent) in inside.items():
        start = b.op("imul", first[k], b.const(Ty.U32, extent))
        first[k] = b.op("iadd", start, b.op("shl", place, b.const(Ty.U32, SIDE.bit_length() - 1)))
    return first
