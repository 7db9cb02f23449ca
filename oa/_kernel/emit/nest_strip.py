"""Strips of rows: a row kernel that goes through some rows one after the other and sums over them, a sum for each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oa._kernel.emit.ir import Ty, Value
from oa._kernel.emit.nest import Store
from oa._kernel.emit.nest_code import Point, minimum, run_lanes, split, store_element
from oa._kernel.emit.nest_reduce import Reduction
from oa._kernel.emit.types import Var

if TYPE_CHECKING:
    from oa._kernel.emit.nest_row import Block, Row, Walk


class Sum(NamedTuple):
    """A sum over rows: where it goes, and what is carried for each element of each block."""

    store: Store
    kind: Reduction
    carried: list[list[list[Var]]]


def build(row: Row, strip: Value, lane: Value, valid: Value) -> None:
    """The rows of a strip, and a partial result a column. Words 2 and 3 are the rows of a strip and of all strips."""
    b, nest = row.b, row.nest
    columns = row.walk(Point(b, nest, {}), lane)
    sums = [_begun(row, s, columns.slots) for s in nest.stores if s.strip]
    first = b.op("imul", strip, b.word(2))
    with b.loop(b.const(Ty.U32, 0), b.word(2), b.const(Ty.U32, 1)) as k:
        # Every invocation goes around as often, for the barriers: beyond the end the last row again, which counts for nothing.
        at = b.op("iadd", first, k)
        inside = b.op("land", valid, b.op("ult", at, b.word(3)))
        at = minimum(b, at, b.op("isub", b.word(3), b.const(Ty.U32, 1)))
        walk = row.walk(Point(b, nest, split(b, nest, at, range(nest.kept))), lane)
        row.reduce(walk, lane)
        _add(row, walk, sums, inside)
        row.store_elements(walk, inside)
        row.store_rows(walk.point, at, lane, inside)
        if b.shared_bytes:
            b.barrier()  # the next row writes where this one reads
    for total in sums:
        _store(row, total, columns.slots, strip, valid)


def _begun(row: Row, store: Store, blocks: list[Block]) -> Sum:
    kind = Reduction(row.b, store.strip, store.dtype)
    carried = [[[row.b.var(v) for v in kind.initial()] for _ in block.points] for block in blocks]
    return Sum(store, kind, carried)


def _add(row: Row, walk: Walk, sums: list[Sum], inside: Value) -> None:
    """One more row, in the order and by the steps of a loop along the column alone."""
    b = row.b
    needed = row.ready(walk.point, [s.store.value for s in sums])
    blocks: list[Block] = []
    walk.visit(blocks.append)
    for number, block in enumerate(blocks):
        run_lanes(b, block.points, needed)
        for store, kind, carried in sums:
            for point, position, variables in zip(block.points, block.positions, carried[number]):
                entry = kind.enter(point.values[store.value], position, inside)
                for variable, value in zip(variables, kind.step([b.get(v) for v in variables], entry)):
                    b.set(variable, value)


def _store(row: Row, total: Sum, blocks: list[Block], strip: Value, valid: Value) -> None:
    b, kind = row.b, total.kind
    for block, carried in zip(blocks, total.carried):
        with b.if_(valid if block.inside is None else b.op("land", valid, block.inside)):
            for position, variables in zip(block.positions, carried):
                value = kind.result(kind.settle([b.get(v) for v in variables]))
                at = b.op("iadd", b.op("imul", position, b.word(0)), strip)
                store_element(b, total.store.buffer, at, value)
