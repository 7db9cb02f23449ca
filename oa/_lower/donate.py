"""Pass `donate`: an output may take the storage of the input that it replaces, so that carried state needs no second copy.

It is legal when everything that reads the input runs before anything writes the output, with a barrier between. One dispatch may
do both: a map that reads the input at no other element than it writes, and needs what it reads for what it writes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oa._graph.views import contiguous
from oa._lower.base import BaseGraph, Ref
from oa._lower.nests import Result
from oa._lower.plan import Barrier, Space, Step
from oa._lower.route import view_source
from oa._schema import scalar as sc

Pair = tuple[int, int]


def replaced(base: BaseGraph, carried: Iterable[Pair]) -> dict[Ref, Ref]:
    """Computed roots and the inputs that they replace, both whole and row-major. `carried` are (root, input) positions."""
    visible = {view_source(base, root)[0] for root in base.roots}
    found: dict[Ref, Ref] = {}
    for position, number in carried:
        ref, source, given = base.roots[position], -number - 1, base.inputs[number]
        if ref < 0 or base.nodes[ref].kind == "view" or source in visible:
            continue
        spec = base.nodes[ref].spec
        fits = spec is given.spec and spec.size > 0 and given.layout == contiguous(spec.shape)
        if fits and ref not in found and source not in found.values():
            found[ref] = source
    return found


def taken_by_map(results: Sequence[Result], wanted: Mapping[Ref, Ref]) -> dict[Ref, Ref]:
    """The results of one map that may overwrite what they replace while they read it."""
    loads = [n for n in sc.topological([r.value for r in results]) if n.op == "load"]
    found: dict[Ref, Ref] = {}
    refs = [r.ref for r in results]
    for result in results:
        if refs.count(result.ref) > 1:  # the parts of a complex value, stored one after the other
            continue
        source = wanted.get(result.ref)
        read = [n for n in loads if n.attr.ref == source]
        if source is None or not read or any(n.attr.ix != result.ix for n in read):
            continue
        # The store waits for the load by what it stores: no compiler can bring it forward.
        if any(n in read for n in sc.topological([result.value])):
            found[result.ref] = source
    return found


def legal(
    steps: Sequence[Step],
    maps: Sequence[Mapping[Ref, Ref]],
    wanted: Mapping[Ref, Ref],
    slots: Mapping[Ref, int],
) -> tuple[Pair, ...]:
    """The (output, input) slots that may share storage. `maps[k]` is what `taken_by_map` found for dispatch k."""
    users: dict[tuple[Space, int], list[Pair]] = {}  # (stretch between barriers, dispatch)
    stretch = number = 0
    for step in steps:
        if isinstance(step, Barrier):
            stretch += 1
            continue
        for where in {(o.space, o.index) for o in step.operands}:
            users.setdefault(where, []).append((stretch, number))
        number += 1
    pairs = []
    for ref, source in wanted.items():
        output, given = slots[ref], slots[source]
        first, writer = users[Space.OUTPUT, output][0]
        both = maps[writer].get(ref) == source
        others = [at for at, k in users.get((Space.INPUT, given), ()) if not (both and k == writer)]
        if max(others, default=-1) < first:
            pairs.append((output, given))
    return tuple(sorted(pairs))
