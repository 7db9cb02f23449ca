"""From a semantic graph and a device profile to a Plan: a pure function, read top to bottom.

expand     composites become their bodies; equal nodes one; unwanted nodes none
fast       with numeric="fast" only: what may round otherwise
route      what no kernel takes becomes what one does: copies, two-stage reductions
fuse       which nodes share a kernel
epilogue   products take what follows them element by element
kernels    each cluster becomes dispatches: loop nests emitted, families asked
schedule   independent dispatches share a level
memory     outputs get slots, the rest shares a scratch arena by interval colouring
hazard     a barrier where ranges conflict
check      an independent proof of the result
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oa._graph.graph import Graph
from oa._graph.views import Layout
from oa._lower import check
from oa._lower.alias import Alias, aliases
from oa._lower.base import BaseGraph, Ref
from oa._lower.check_in_place import check_in_place
from oa._lower.donate import legal, replaced
from oa._lower.draft import Draft
from oa._lower.epilogue import epilogues
from oa._lower.expand import expand
from oa._lower.fast import PASSES as FAST
from oa._lower.fast import fast
from oa._lower.fuse import Fusion
from oa._lower.index import Dim, Ix
from oa._lower.kernels import drafts
from oa._lower.memory import Place, input_slot, operand, padded, place
from oa._lower.plan import Access, Dispatch, Plan, ScalarWord, Slot
from oa._lower.route import address, route, view_source
from oa._lower.schedule import levels, waits, with_barriers
from oa._schema.scalar import scalar_words
from oa._schema.spec import contiguous_strides
from oa.errors import AllocationLimit, ArgumentError, Unsupported

if TYPE_CHECKING:
    from oa._device import Profile

#: Elements of one value: index arithmetic is 32-bit, and signed where an operation computes with indices.
MAX_ELEMENTS = 1 << 31
#: Passes that can be left out one by one, beside those of `fast`; `fuse` with all of its parts by `fused=False`.
PASSES = ("recompute", "siblings", "epilogue")
#: Buffers that one fused kernel binds at most, whatever the device allows.
MAX_BUFFERS = 16


@dataclass(frozen=True)
class Binding:
    """Where a wanted value is after the run: in output slot `index`, or (`from_input`) in stored input `index`."""

    from_input: bool
    index: int
    layout: Layout


@dataclass(frozen=True)
class Program:
    """A plan and how it is used: a binding per root, and which graph inputs are stored and which scalar."""

    plan: Plan
    results: tuple[Binding, ...]
    stored_inputs: tuple[int, ...]
    scalar_inputs: tuple[int, ...]
    base: BaseGraph | None  #: what was lowered, None for a program from a file

    @property
    def base_text(self) -> str:
        """What was lowered, one line a node."""
        return "" if self.base is None else self.base.text()


@dataclass(frozen=True)
class Stages:
    """What the passes up to `memory` make of a graph. Dispatch `k` of the plan is `drafts[order[k]]`."""

    base: BaseGraph
    fusion: Fusion
    drafts: list[Draft]
    levels: list[int]  #: by draft
    order: list[int]
    outputs: list[Ref]
    places: dict[Ref, Place]
    scratch: int
    in_place: dict[Ref, Alias]
    replaced: dict[Ref, Ref]


def stages(
    graph: Graph,
    profile: Profile,
    *,
    fused: bool = True,
    owned: frozenset[int] = frozenset(),
    carried: tuple[tuple[int, int], ...] = (),
    without: frozenset[str] = frozenset(),
) -> Stages:
    """The passes up to `memory`; arguments as for `lower`."""
    if unknown := without - {*PASSES, *FAST}:
        raise ArgumentError(
            f"lowering: no pass is called {', '.join(sorted(unknown))}; those that can be left out, by OA_WITHOUT too, are"
            f" {', '.join((*PASSES, *FAST))}"
        )
    expanded = expand(graph)
    if profile.numeric == "fast":
        expanded = fast(expanded, without)
    base = route(expanded, profile, owned)
    buffers = min(MAX_BUFFERS, profile.limits.storage_buffers) - 1
    fusion = Fusion(base, buffers, profile.tuning, fused, without)
    _check_sizes(fusion, profile)
    wanted = replaced(base, carried)
    if fused and "epilogue" not in without:
        epilogues(fusion, wanted)
    in_place = aliases(fusion)
    found = drafts(fusion, profile, in_place, wanted)
    at = levels(found, in_place, waits(fusion))
    outputs = _outputs(base)
    places, scratch = place(base, found, at, outputs, in_place)
    order = sorted(range(len(found)), key=lambda k: at[k])
    return Stages(base, fusion, found, at, order, outputs, places, scratch, in_place, wanted)


def lower(
    graph: Graph,
    profile: Profile,
    *,
    fused: bool = True,
    owned: frozenset[int] = frozenset(),
    carried: tuple[tuple[int, int], ...] = (),
    without: frozenset[str] = frozenset(),
) -> Program:
    """Lower a graph for a device.

    `fused=False` gives every operation its own dispatch, with the same bits. Roots at the positions in `owned` get storage of
    their own, row-major and shared with no other root, input or view. Pairs (root, input) in `carried` are values that replace
    another: the plan says of which the storage may be taken. The passes named in `without` (see `PASSES`) are left out: the bits
    are the same.
    """
    made = stages(graph, profile, fused=fused, owned=owned, carried=carried, without=without)
    base, found, outputs, places, in_place = made.base, made.drafts, made.outputs, made.places, made.in_place
    order = made.order
    scalars = tuple(k for k, i in enumerate(base.inputs) if i.is_scalar)
    slots, words = {}, 0
    for number in scalars:
        slots[number] = words
        words += scalar_words(base.inputs[number].spec.dtype)
    dispatches = [_dispatch(found[k], places, slots, in_place) for k in order]
    stored = tuple(k for k, i in enumerate(base.inputs) if not i.is_scalar)
    steps = with_barriers(dispatches)
    at_slot = {**{r: k for k, r in enumerate(outputs)}, **{-n - 1: k for k, n in enumerate(stored)}}
    plan = Plan(
        steps,
        tuple(input_slot(base.inputs[k]) for k in stored),
        tuple(_slot(base, ref) for ref in outputs),
        legal(steps, [found[k].replaces for k in order], made.replaced, at_slot),
        scalars=words,
        scratch_bytes=made.scratch,
    )
    plan = replace(plan, digest=digest(plan))
    parents = {ref: alias.parent for ref, alias in in_place.items()}
    prove(plan, [[_identity(base, ref) for ref, _ in found[k].operands] for k in order], parents, profile)
    check_in_place(plan, [found[k].nest for k in order])
    results = tuple(_binding(base, root, outputs, stored) for root in base.roots)
    return Program(plan, results, stored, scalars, base)


def _check_sizes(fusion: Fusion, profile: Profile) -> None:
    """AllocationLimit when a value that must be stored is larger than one allocation, or one binding, can be; Unsupported
    when one has more elements than an index counts."""
    limit = profile.limits.max_allocation
    if profile.addressing == "descriptor":
        limit = min(limit, profile.limits.max_storage_range)
    for cluster in fusion.clusters:
        for ref in fusion.outputs(cluster):
            node = fusion.base.nodes[ref]
            if node.spec.nbytes > limit:
                raise AllocationLimit(
                    f"{node.name}: {node.spec!r} takes {node.spec.nbytes:,} bytes; one allocation of this device holds"
                    f" at most {limit:,}: compute the value in parts",
                    requested=node.spec.nbytes,
                    largest=limit,
                )
    for node in fusion.base.nodes:
        most = MAX_ELEMENTS // 2 if node.spec.dtype.is_complex else MAX_ELEMENTS  # indices count floats
        if node.spec.size > most:
            raise Unsupported(
                f"{node.name}: {node.spec!r} has {node.spec.size:,} elements; kernels index at most {most:,}:"
                " compute the value in parts"
            )


def _identity(base: BaseGraph, ref: Ref) -> int:
    return check.NOTHING if 0 <= ref < len(base.nodes) and base.nodes[ref].spec.size == 0 else ref


def prove(plan: Plan, identities: list[list[int]], parents: dict[int, int], profile: Profile) -> None:
    """Run the independent checks."""
    limits = profile.limits
    check.check_order(plan)
    check.check_values(plan, identities, parents)
    check.check_bounds(plan, limits.shared_bytes, limits.max_groups, limits.max_invocations)


def digest(plan: Plan) -> str:
    """Names the plan's content: its text and the kernels it uses."""
    parts = [plan.text(), *(d.kernel.digest for d in plan.dispatches())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _outputs(base: BaseGraph) -> list[Ref]:
    found: dict[Ref, None] = {}
    for root in base.roots:
        source = view_source(base, root)[0]
        if source >= 0:
            found[source] = None
    return list(found)


def _slot(base: BaseGraph, ref: Ref) -> Slot:
    spec = base.nodes[ref].spec
    return Slot(spec.dtype.name, spec.shape, padded(spec.nbytes))


def _dispatch(
    draft: Draft, places: dict[Ref, Place], slots: dict[int, int], in_place: dict[Ref, Alias]
) -> Dispatch:
    operands = []
    for ref, access in draft.operands:
        whole = in_place[ref].parent if ref in in_place else ref if draft.part else None
        part = whole + 1 if whole is not None and access & Access.WRITE else 0
        operands.append(operand(places[ref], access, part))
    words = tuple(ScalarWord(slots[w.slot] + w.half) if isinstance(w, ScalarWord) else w for w in draft.words)
    return Dispatch(
        draft.kernel, draft.groups, tuple(operands), words, draft.sources, draft.label, draft.cost
    )


def _binding(base: BaseGraph, root: Ref, outputs: list[Ref], stored: tuple[int, ...]) -> Binding:
    source, ix = address(base, root)
    layout = _layout(ix, base.spec(root).shape)
    if source < 0:
        return Binding(True, stored.index(-source - 1), layout)
    return Binding(False, outputs.index(source), layout)


def _layout(ix: Ix, shape: tuple[int, ...]) -> Layout:
    factors = {a.axis: c for a, c in ix.terms if isinstance(a, Dim)}
    natural = contiguous_strides(shape)
    strides = tuple(natural[k] if e == 1 else factors.get(k, 0) for k, e in enumerate(shape))
    return Layout(ix.const, strides)
