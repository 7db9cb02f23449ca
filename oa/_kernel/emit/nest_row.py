"""Row nests: reductions with whatever comes before and after them in one kernel.

Reductions run in phases: each phase is one pass over the row for all reductions whose operands are ready. Element-level
operations are evaluated again in each pass that needs them; row-level ones once, between passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    store_lanes,
)
from oa._kernel.emit.nest_reduce import Reduction
from oa._kernel.pack import Kernel
from oa._schema.dtype import as_dtype


def emit(nest: Nest, target: Target) -> Kernel:
    """The kernel of a row nest."""
    b = builder(nest, target, "row")
    row = Row(b, nest, target.subgroup)
    row.build()
    words = b.finish()
    return Kernel(
        "row",
        words,
        len(nest.buffers),
        nest.words,
        target.addressing,
        b.local_size,
        row.subgroup or None,
        shared_bytes=b.shared_bytes,
        texels=b.bound_texels(),
    )


class Row:
    """Emission state of one row nest."""

    def __init__(self, b: Builder, nest: Nest, subgroup: int) -> None:
        self.b = b
        self.nest = nest
        self.grouped = nest.schedule.kind == "group"
        self.subgroup = subgroup if self._shuffles(subgroup) else 0
        self.element = self._element_level()
        self.depth = self._depths()
        self.shared: list[int] = []

    def _shuffles(self, subgroup: int) -> bool:
        """Whether lanes combine through subgroups: full ones, and no value is wider than what they shuffle."""
        schedule, code = self.nest.schedule, self.nest.code
        reduced = [code[i.args[0]].dtype for i in code if i.op == "reduce"]
        return (
            self.grouped
            and subgroup > 1
            and schedule.local % subgroup == 0
            and bool(reduced)
            and all(as_dtype(dtype).itemsize <= 4 for dtype in reduced)
        )

    # -- levels

    def _element_level(self) -> list[bool]:
        """Which operations vary along the reduced dimensions."""
        flags: list[bool] = []
        for instr in self.nest.code:
            if instr.op == "reduce":
                flags.append(False)
            else:
                own = instr.address is not None and self._varies(instr.address, flags)
                flags.append(own or any(flags[a] for a in instr.args))
        return flags

    def _varies(self, address: object, flags: list[bool]) -> bool:
        for atom, _ in address.terms:  # type: ignore[attr-defined]
            if atom[0] == "dim" and atom[1] >= self.nest.kept:
                return True
            if atom[0] == "val" and flags[atom[1]]:
                return True
            if atom[0] in ("div", "mod") and self._varies(atom[1], flags):
                return True
        return False

    def _depths(self) -> list[int]:
        """For each operation how many passes must have ended before it can be evaluated."""
        depths: list[int] = []
        for instr in self.nest.code:
            below = max((depths[a] for a in self._operands(instr)), default=0)
            depths.append(below + 1 if instr.op == "reduce" else below)
        return depths

    def _operands(self, instr: object) -> list[int]:
        found = list(instr.args)  # type: ignore[attr-defined]
        stack = [instr.address] if instr.address is not None else []  # type: ignore[attr-defined]
        while stack:
            for atom, _ in stack.pop().terms:
                if atom[0] == "val":
                    found.append(atom[1])
                elif atom[0] in ("div", "mod"):
                    stack.append(atom[1])
        return found

    def _closure(self, roots: list[int]) -> list[int]:
        """All operations that `roots` need, in order, not looking through reductions."""
        wanted: set[int] = set()
        stack = list(roots)
        while stack:
            position = stack.pop()
            if position not in wanted:
                wanted.add(position)
                if self.nest.code[position].op != "reduce":
                    stack.extend(self._operands(self.nest.code[position]))
        return sorted(wanted)

    # -- building

    def build(self) -> None:
        """Emit the whole kernel."""
        b, nest = self.b, self.nest
        local = self._local()
        if not self.grouped:
            size = b.const(Ty.U32, nest.schedule.local)
            row = b.op("iadd", b.op("imul", linear_group(b), size), local)
            with b.if_(b.op("ult", row, b.word(0))):
                self._row(row, None, None)
            return
        lanes = nest.schedule.lanes
        per_group = b.const(Ty.U32, nest.schedule.local // lanes)
        lane = b.op("and", local, b.const(Ty.U32, lanes - 1))
        inside = b.op("shr_u", local, b.const(Ty.U32, lanes.bit_length() - 1))
        row = b.op("iadd", b.op("imul", linear_group(b), per_group), inside)
        valid = b.op("ult", row, b.word(0))
        # Every invocation must reach the barriers: those without a row repeat the last one and store nothing.
        self._row(minimum(b, row, b.op("isub", b.word(0), b.const(Ty.U32, 1))), lane, valid)

    def _row(self, row: Value, lane: Value | None, valid: Value | None) -> None:
        b, nest = self.b, self.nest
        start, stop = b.const(Ty.U32, 0), b.word(1)
        where = row
        if nest.schedule.chunked:
            where, chunk = self._chunk(row)
            start = b.op("imul", chunk, b.word(3))
            stop = minimum(b, b.op("iadd", start, b.word(3)), stop)
            row = b.op("iadd", b.op("imul", where, b.word(2)), chunk)
        if lane is not None:
            start = b.op("iadd", start, b.op("imul", lane, b.const(Ty.U32, nest.schedule.vec)))
        point = Point(b, nest, split(b, nest, where, range(nest.kept)))
        walk = Walk(self, point, start, stop)
        reductions = [k for k, i in enumerate(nest.code) if i.op == "reduce"]
        for phase in range(1, max((self.depth[k] for k in reductions), default=0) + 1):
            self._pass(walk, [k for k in reductions if self.depth[k] == phase], lane)
        self._store_elements(walk, valid)
        self._store_rows(point, row, lane, valid)

    def _chunk(self, item: Value) -> tuple[Value, Value]:
        """Row and chunk of a work item."""
        b = self.b
        across = b.word(4) if self.nest.schedule.columns else b.word(2)
        outer = b.op("udiv", item, across)
        inner = b.op("isub", item, b.op("imul", outer, across))
        return (inner, outer) if self.nest.schedule.columns else (outer, inner)

    def _ready(self, point: Point, roots: list[int]) -> list[int]:
        """Evaluate what `roots` need of the row level; return what they need at each element."""
        needed = self._closure(roots)
        point.run(k for k in needed if not self.element[k] and self.nest.code[k].op != "reduce")
        return [k for k in needed if self.element[k]]

    def _pass(self, walk: Walk, which: list[int], lane: Value | None) -> None:
        b, code = self.b, self.nest.code
        operands = [code[k].args[0] for k in which]
        needed = self._ready(walk.point, operands)
        kinds = [Reduction(b, str(code[k].attr), code[code[k].args[0]].dtype) for k in which]
        held = bool(walk.slots)  # in registers: combined in a tree, else carried along a loop
        carried = [[] if held else [b.var(v) for v in kind.initial()] for kind in kinds]
        entered: list[list[list[Value]]] = [[] for _ in kinds]

        def visit(block: Block) -> None:
            run_lanes(b, block.points, needed)
            for point, position in zip(block.points, block.positions):
                for kind, variables, entries, operand in zip(kinds, carried, entered, operands):
                    entry = kind.enter(point.values[operand], position, block.inside)
                    if held:
                        entries.append(entry)
                        continue
                    for variable, value in zip(variables, kind.step([b.get(v) for v in variables], entry)):
                        b.set(variable, value)

        walk.visit(visit)
        for kind, variables, entries, k in zip(kinds, carried, entered, which):
            settled = kind.tree(entries) if held else kind.settle([b.get(v) for v in variables])
            if lane is not None:
                settled = self._combine_lanes(kind, settled, lane)
            walk.point.values[k] = kind.result(settled)

    def _local(self) -> Value:
        """The invocation's number in its workgroup; with shuffles so that subgroups are runs of it, whatever the driver does."""
        b = self.b
        if not self.subgroup:
            return b.builtin("local_id", 0)
        first = b.op("imul", b.builtin("subgroup_id"), b.const(Ty.U32, self.subgroup))
        return b.op("iadd", first, b.builtin("subgroup_lane"))

    def _combine_lanes(self, kind: Reduction, carry: list[Value], lane: Value) -> list[Value]:
        """A tree over the lanes of a row, neighbours first; every lane gets the result, the same with shuffles and without."""
        lanes = self.nest.schedule.lanes
        if not self.subgroup:
            return self._combine_shared(kind, carry, lane)
        step = 1
        while step < min(lanes, self.subgroup):
            carry = kind.combine(carry, [self.b.shuffle_xor(value, step) for value in carry])
            step *= 2
        return self._combine_subgroups(kind, carry) if step < lanes else carry

    def _combine_subgroups(self, kind: Reduction, carry: list[Value]) -> list[Value]:
        """The upper part of the tree: each subgroup leaves its part, and every lane combines those of its row."""
        b, schedule = self.b, self.nest.schedule
        parts, count = schedule.lanes // self.subgroup, schedule.local // self.subgroup
        arrays = [b.shared(value.ty, count) for value in carry]
        own = b.builtin("subgroup_id")
        with b.if_(b.op("ieq", b.builtin("subgroup_lane"), b.const(Ty.U32, 0))):
            for array, value in zip(arrays, carry):
                b.shared_store(array, own, value)
        b.barrier()
        first = b.op("and", own, b.const(Ty.U32, ~(parts - 1) & 0xFFFFFFFF))
        level = [
            [b.shared_load(a, b.op("iadd", first, b.const(Ty.U32, k))) for a in arrays] for k in range(parts)
        ]
        while len(level) > 1:
            level = [kind.combine(x, y) for x, y in zip(level[::2], level[1::2], strict=True)]
        return level[0]

    def _combine_shared(self, kind: Reduction, carry: list[Value], lane: Value) -> list[Value]:
        b, lanes = self.b, self.nest.schedule.lanes
        local = b.builtin("local_id", 0)
        arrays = [b.shared(value.ty, self.nest.schedule.local) for value in carry]
        for array, value in zip(arrays, carry):
            b.shared_store(array, local, value)
        step = 1
        while step < lanes:
            b.barrier()
            rest = b.op("and", lane, b.const(Ty.U32, 2 * step - 1))
            with b.if_(b.op("ieq", rest, b.const(Ty.U32, 0))):
                other = b.op("iadd", local, b.const(Ty.U32, step))
                mine = [b.shared_load(a, local) for a in arrays]
                theirs = [b.shared_load(a, other) for a in arrays]
                for array, value in zip(arrays, kind.combine(mine, theirs)):
                    b.shared_store(array, local, value)
            step *= 2
        b.barrier()
        first = b.op("isub", local, lane)
        return [b.shared_load(a, first) for a in arrays]

    def _store_elements(self, walk: Walk, valid: Value | None) -> None:
        stores = [s for s in self.nest.stores if not s.per_row]
        if not stores:
            return
        b = self.b
        needed = self._ready(walk.point, [s.value for s in stores])

        def visit(block: Block) -> None:
            run_lanes(b, block.points, needed)
            guards = [g for g in (valid, block.inside) if g is not None]
            if not guards:
                write(block)
                return
            with b.if_(guards[0] if len(guards) == 1 else b.op("land", *guards)):
                write(block)

        def write(block: Block) -> None:
            for store in stores:
                values = [p.values[store.value] for p in block.points]
                if store.vector:
                    words = [as_word(b, v) for v in values]
                    store_lanes(b, store.buffer, block.points[0].address(store.address), words)
                else:
                    for p, value in zip(block.points, values):
                        store_element(b, store.buffer, p.address(store.address), value)

        walk.visit(visit)

    def _store_rows(self, point: Point, row: Value, lane: Value | None, valid: Value | None) -> None:
        stores = [s for s in self.nest.stores if s.per_row]
        if not stores:
            return
        b = self.b
        needed = self._closure([s.value for s in stores])
        point.run(k for k in needed if self.nest.code[k].op != "reduce")

        def body() -> None:
            for store in stores:
                at = row if self.nest.schedule.chunked else point.address(store.address)
                self._write(point, store, at)

        if lane is None or valid is None:
            body()
        else:
            with b.if_(b.op("land", valid, b.op("ieq", lane, b.const(Ty.U32, 0)))):
                body()

    def _write(self, point: Point, store: Store, at: Value) -> None:
        store_element(self.b, store.buffer, at, point.values[store.value])


@dataclass
class Block:
    """Neighbouring elements of a row that an invocation takes together. `inside` None: they exist for certain."""

    points: list[Point]
    positions: list[Value]
    inside: Value | None


class Walk:
    """An invocation's way along its row: a loop for each pass, or slots that are visited again with what they hold."""

    def __init__(self, row: Row, point: Point, start: Value, stop: Value) -> None:
        self.b = row.b
        self.nest = row.nest
        self.point = point
        schedule = row.nest.schedule
        self.vec = schedule.vec
        step = self.b.const(Ty.U32, schedule.lanes * schedule.vec)
        self.bounds = (start, stop, step)
        self.slots: list[Block] = []
        first = start
        for _ in range(schedule.slots):
            self.slots.append(self._slot(first, stop, schedule.whole))
            first = self.b.op("iadd", first, step)

    def _slot(self, first: Value, stop: Value, whole: bool) -> Block:
        if whole:
            return self._block(first, None)
        inside = self.b.op("ult", first, stop)
        # Beyond the end the last elements of the row are read again, and count for nothing.
        last = self.b.op("isub", self.b.word(1), self.b.const(Ty.U32, self.vec))
        return self._block(self.b.select(inside, first, last), inside)

    def _block(self, first: Value, inside: Value | None) -> Block:
        """The block at flat position `first`, which with vectors stays inside the innermost dimension."""
        b, nest = self.b, self.nest
        last = nest.kept + nest.reduced - 1
        dims = split(b, nest, first, range(nest.kept, last + 1))
        points, positions = [], []
        for k in range(self.vec):
            offset = b.const(Ty.U32, k)
            own = {**self.point.dims, **dims, last: b.op("iadd", dims[last], offset)}
            points.append(Point(b, nest, own, self.point.values))
            positions.append(b.op("iadd", first, offset))
        return Block(points, positions, inside)

    def visit(self, body: Callable[[Block], None]) -> None:
        """Call `body` for each block of the row that is this invocation's."""
        if not self.slots:
            with self.b.loop(*self.bounds) as first:
                body(self._block(first, None))
            return
        for block in self.slots:
            for point in block.points:
                point.values.update(self.point.values)
            body(block)
