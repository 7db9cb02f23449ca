"""What the work of a dispatch must at least take: bytes and operations, for reports and rooflines. Nothing is decided by them."""

from __future__ import annotations

from collections.abc import Iterable

from oa._kernel.emit.nest import Address, Nest
from oa._kernel.matmul.problem import Problem
from oa._lower.base import BaseGraph, Ref
from oa._lower.nests import Lowered
from oa._lower.plan import Cost
from oa._schema import scalar as sc

#: Operations that a function of the prelude counts as: about what exp, log, sin or tanh take there.
TRANSCENDENTAL = 20
_FREE = frozenset({"load", "index", "const", "param"})


def nest_cost(lowered: Lowered, base: BaseGraph) -> Cost:
    """The cost of a loop nest: each binding moves what is loaded or stored through it, at most all of its value."""
    nest = lowered.nest
    visits, rows = _visits(lowered)
    per_row = _per_row(nest)
    moved = [0] * len(lowered.bindings)
    operations = 0
    for place, instr in enumerate(nest.code):
        times = rows if per_row[place] else visits
        if instr.op == "load" and instr.address is not None:
            count = min(times, _reached(lowered, instr.address, visits))
            moved[instr.buffer] += count * _itemsize(base, lowered.bindings[instr.buffer][0])
        elif instr.op == "reduce":
            operations += visits
        elif instr.op not in _FREE:
            operations += times * (1 if instr.op in sc.CHEAP else TRANSCENDENTAL)
    for store in nest.stores:
        times = rows if store.per_row else visits
        moved[store.buffer] += times * _itemsize(base, lowered.bindings[store.buffer][0])
    sums = [0, 0]
    for (ref, written), size in zip(lowered.bindings, moved):
        sums[written] += min(size, base.spec(ref).nbytes)
    return Cost(sums[0], sums[1], operations)


def _itemsize(base: BaseGraph, ref: Ref) -> int:
    return base.spec(ref).dtype.itemsize


def _visits(lowered: Lowered) -> tuple[int, int]:
    """Elements visited, and rows (the same where there are none)."""
    first, second = (w if isinstance(w, int) else 0 for w in lowered.words[:2])
    if lowered.nest.schedule.kind == "epilogue":
        return lowered.items, lowered.items
    if lowered.nest.schedule.kind in ("flat", "tile"):
        return second, second
    if not lowered.nest.schedule.chunked:
        return first * second, first
    rows = lowered.words[4]
    return (rows if isinstance(rows, int) else 0) * second, first


def _reached(lowered: Lowered, address: Address, visits: int) -> int:
    """How many different elements an address can name: one for each place along the dimensions that it depends on."""
    found: set[int] = set()
    stack = [address]
    while stack:
        for atom, _ in stack.pop().terms:
            if isinstance(atom[1], Address):
                stack.append(atom[1])
            elif atom[0] == "dim" and atom[1] < len(lowered.nest.extents):
                found.add(atom[1])
            else:
                return visits
    count = 1
    for axis in found:
        extent = lowered.words[lowered.nest.extents[axis]]
        count *= extent if isinstance(extent, int) else visits
    return count


def _per_row(nest: Nest) -> list[bool]:
    """For each instruction whether a row computes it once: from reductions, numbers and loads that stay along the row."""
    if nest.schedule.kind in ("flat", "tile", "epilogue"):
        return [False] * len(nest.code)
    found: list[bool] = []
    for instr in nest.code:
        if instr.op == "reduce":
            found.append(True)
        elif instr.address is not None:
            found.append(not _moves(instr.address, nest.kept, found))
        else:
            found.append(all(found[a] for a in instr.args))
    return found


def _moves(address: Address, kept: int, per_row: list[bool]) -> bool:
    """Whether an index changes along the reduced dimensions."""
    for atom, _ in address.terms:
        what = atom[1]
        if isinstance(what, Address):
            if _moves(what, kept, per_row):
                return True
        elif (what >= kept) if atom[0] == "dim" else not per_row[what]:
            return True
    return False


def product_cost(problem: Problem, operands: Iterable[str], partial_bytes: int) -> Cost:
    """The cost of one dispatch of a matrix product: the product itself, or the sum of its parts along k."""
    m, n, k, batches = problem.m, problem.n, problem.k, problem.batch[0] * problem.batch[1]
    made = 4 * m * n * batches
    if "a" not in operands:
        return Cost(partial_bytes, made, partial_bytes // 4)
    read = 4 * (_distinct(m, k, problem.a_strides, problem) + _distinct(k, n, problem.b_strides, problem))
    return Cost(read, partial_bytes if "partial" in operands else made, 2 * m * n * k * batches)


def _distinct(rows: int, columns: int, strides: tuple[int, int, int, int], problem: Problem) -> int:
    """Elements of an operand, those that strides of 0 repeat counted once."""
    count = 1
    for extent, stride in zip((rows, columns, *problem.batch), strides):
        count *= extent if stride else 1
    return count
