"""Pass `kernels`: each cluster becomes dispatches over stored values, not yet placed in memory or ordered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from oa._kernel.emit.nest import Target
from oa._kernel.emit.nest_compile import compile_nest
from oa._kernel.emit.splice import leading
from oa._kernel.matmul import family as matmul
from oa._lower.alias import Alias
from oa._lower.alike import drafted
from oa._lower.base import BaseGraph, BaseNode, Ref
from oa._lower.cost import nest_cost, product_cost
from oa._lower.donate import taken_by_map
from oa._lower.draft import Draft, private
from oa._lower.epilogue import epilogue_nest, is_small, results, stored
from oa._lower.families import FAMILIES, family_drafts
from oa._lower.fuse import Cluster, Fusion
from oa._lower.index import Coords, Dim, Ix, dims, linear
from oa._lower.nests import Lowered, Result, map_nest, row_nest
from oa._lower.plan import Access, Cost
from oa._lower.pull import Pull
from oa._lower.route import address, is_trailing, view_source
from oa._schema import scalar as sc
from oa._schema.spec import Shape, contiguous_strides
from oa.errors import InternalError, Unsupported

if TYPE_CHECKING:
    from oa._device import Profile


def drafts(
    fusion: Fusion, profile: Profile, in_place: Mapping[Ref, Alias], replaced: Mapping[Ref, Ref]
) -> list[Draft]:
    """The dispatches of all clusters, in an order that respects dependencies. `replaced` as in `donate`."""
    found: list[Draft] = []
    for number, cluster in enumerate(fusion.clusters):
        for draft in _drafts(fusion, cluster, profile, number, in_place, replaced):
            found.append(draft if draft.cluster == number else replace(draft, cluster=number))
    return found


def _drafts(
    fusion: Fusion,
    cluster: Cluster,
    profile: Profile,
    number: int,
    in_place: Mapping[Ref, Alias],
    replaced: Mapping[Ref, Ref],
) -> list[Draft]:
    base = fusion.base
    first = base.nodes[cluster.members[0]]
    if all(base.nodes[r].spec.size == 0 for r in cluster.members):
        return []
    if cluster.kind == "matmul":
        return _matmul(fusion, cluster, profile, number, replaced)
    if cluster.kind in FAMILIES:
        return family_drafts(base, cluster.members[0], profile, number)
    if cluster.kind == "concat":
        return _concat(fusion, cluster, first, profile, in_place)
    if cluster.kind == "partial":
        outputs, make = cluster.members, lambda: _partial(fusion, cluster, first, profile)
    else:
        outputs, make = fusion.outputs(cluster), lambda: _fused(fusion, cluster, profile, replaced)
        if not outputs:  # whoever reads it computes it
            return []
    sources = tuple(sorted({s for r in cluster.members for s in base.nodes[r].sources}))
    about = {"sources": sources, "label": _label(base, cluster.members), "cluster": number}
    return [drafted(fusion, cluster, outputs, profile, replaced, about, make)]


def _label(base: BaseGraph, members: list[Ref]) -> str:
    names = (base.nodes[ref].name.removeprefix("matrix.").lstrip("_") for ref in members)
    return "+".join(dict.fromkeys(names))


def _draft(
    base: BaseGraph,
    lowered: Lowered,
    cluster: Cluster,
    profile: Profile,
    part: bool = False,
    replaces: Mapping[Ref, Ref] | None = None,
) -> Draft:
    kernel = compile_nest(lowered.nest, target(profile))
    groups = grid(-(-lowered.items // lowered.rows_per_group), profile)
    operands = tuple((ref, Access.WRITE if write else Access.READ) for ref, write in lowered.bindings)
    sources = tuple(sorted({s for r in cluster.members for s in base.nodes[r].sources}))
    label = _label(base, cluster.members)
    cost = nest_cost(lowered, base)
    return Draft(
        kernel, groups, operands, lowered.words, sources, label, part, {}, lowered.nest, replaces or {}, cost
    )


def target(profile: Profile) -> Target:
    """What the device wants of every emitted kernel. Without the float control a driver may assume that there are no NaNs."""
    preserve_nan = "inf_nan_preserve32" in profile.features
    return Target(profile.addressing, profile.trusted, preserve_nan, profile.texels, _subgroup(profile))


def _subgroup(profile: Profile) -> int:
    """The size of full subgroups that can shuffle, 0 where a kernel cannot ask for them."""
    needed, limits = {"subgroup_size_control", "full_subgroups", "subgroup_shuffle"}, profile.limits
    size = limits.subgroup_size
    able = profile.tuning == "gpu" and needed <= profile.features
    return size if able and limits.subgroup_min <= size <= limits.subgroup_max else 0


def grid(groups: int, profile: Profile) -> tuple[int, int, int]:
    """`groups` workgroups folded into two dimensions where one cannot hold them; the surplus does nothing."""
    x_max, y_max, _ = profile.limits.max_groups
    if groups <= x_max:
        return (groups, 1, 1)
    y = -(-groups // x_max)
    if y > y_max:
        raise Unsupported(
            f"{groups} workgroups exceed the device's {x_max} x {y_max}; compute the value in parts"
        )
    return (-(-groups // y), y, 1)


def _fused(fusion: Fusion, cluster: Cluster, profile: Profile, replaced: Mapping[Ref, Ref]) -> Draft:
    base = fusion.base
    pull = Pull(fusion, cluster, cluster.space)
    results: list[Result] = []
    for ref in fusion.outputs(cluster):
        coords = cluster.expected(ref, base)
        if coords is None:
            raise InternalError(f"{base.nodes[ref].name}: no place in its cluster")
        results += stored(pull, ref, coords, ref in cluster.row_members)
    if cluster.axes is None:
        replaces = taken_by_map(results, replaced)
        aliased = frozenset([*replaces, *replaces.values()])
        lowered = map_nest(cluster.space, results, profile, aliased=aliased)
        return _draft(base, lowered, cluster, profile, replaces=replaces)
    lowered = row_nest(
        cluster.space, cluster.axes, results, profile, is_trailing(cluster.space, cluster.axes)
    )
    return _draft(base, lowered, cluster, profile)


def _partial(fusion: Fusion, cluster: Cluster, node: BaseNode, profile: Profile) -> Draft:
    base = fusion.base
    _, axes, chunks, length = node.params
    space = base.spec(node.inputs[0]).shape
    pull = Pull(fusion, cluster, space)
    results = []
    for ref in cluster.members:
        member = base.nodes[ref]
        operand = pull.value(member.inputs[0], dims(space))
        value = sc.scalar("reduce", member.spec.dtype, (operand,), member.params[0])
        results.append(Result(ref, value, Ix(), True))
    trailing = is_trailing(space, axes)
    lowered = row_nest(space, axes, results, profile, trailing, (chunks, length))
    return _draft(base, lowered, cluster, profile)


def _concat(
    fusion: Fusion, cluster: Cluster, node: BaseNode, profile: Profile, in_place: Mapping[Ref, Alias]
) -> list[Draft]:
    """One dispatch per operand that is not computed in place, each writing its own part."""
    base, ref = fusion.base, cluster.members[0]
    axis, strides = node.params[0], contiguous_strides(node.spec.shape)
    found, start = [], 0
    for operand in node.inputs:
        shape = base.spec(operand).shape
        source = view_source(base, operand)[0]
        placed = in_place.get(source) == Alias(ref, start * strides[axis] * node.spec.dtype.itemsize)
        if 0 not in shape and not placed:
            pull = Pull(fusion, cluster, shape)
            value = pull.value(operand, dims(shape))
            address = linear(dims(shape), strides, start * strides[axis])
            lowered = map_nest(shape, [Result(ref, value, address, False)], profile, whole=False)
            found.append(_draft(base, lowered, cluster, profile, part=True))
        start += shape[axis]
    return found


def _strides(base: BaseGraph, ref: Ref) -> tuple[Ref, tuple[int, ...], int]:
    """The stored value behind an operand, and strides and offset that describe the operand in it."""
    source, ix = address(base, ref)
    by_axis = {a.axis: c for a, c in ix.terms if isinstance(a, Dim)}
    rank = len(base.spec(ref).shape)
    return source, tuple(by_axis.get(k, 0) for k in range(rank)), ix.const


def _matmul(
    fusion: Fusion, cluster: Cluster, profile: Profile, number: int, replaced: Mapping[Ref, Ref]
) -> list[Draft]:
    base, ref, rest = fusion.base, cluster.members[0], cluster.members[1:]
    node = base.nodes[ref]
    problem, a, b = _problem(base, node)
    launches, scratch = matmul.plan(problem, node.spec.dtype.name, profile)
    partial = private(number, 0)
    place = {"a": a, "b": b, "c": ref, "partial": partial}
    found = []
    for launch in launches:
        access = [Access.READ if "w" not in x else Access.WRITE for x in launch.access]
        operands = tuple((place[o], x) for o, x in zip(launch.operands, access))
        draft = Draft(
            launch.kernel,
            launch.groups,
            operands,
            launch.words,
            node.sources,
            "matmul",
            False,
            {partial: scratch},
        )
        found.append(replace(draft, cost=product_cost(problem, launch.operands, scratch)))
    if not rest:
        return found
    joined = _with_epilogue(fusion, cluster, launches[-1], found[-1], profile)
    if joined is not None:
        return [*found[:-1], joined]
    return [
        *found,
        _fused(fusion, Cluster("map", base.nodes[rest[0]].spec.shape, None, rest), profile, replaced),
    ]


def _with_epilogue(
    fusion: Fusion, cluster: Cluster, launch: matmul.Launch, alone: Draft, profile: Profile
) -> Draft | None:
    """The last dispatch of a product, with what follows it in its hook; None where the kernel's stores do not suit."""
    found = results(fusion, cluster)
    if found is None or not is_small(found, launch.stores, launch.vec, profile.tuning):
        return None
    lowered = epilogue_nest(cluster.space, found, launch.words, launch.vec, launch.swapped, profile)
    if lowered is None:
        return None
    *own, (last, _) = lowered.bindings
    added = [(ref, Access.WRITE if write else Access.READ) for ref, write in own]
    pad = leading(len(added), profile.addressing) - len(added)
    operands = (*added, *alone.operands[:1] * pad, *alone.operands[:-1], (last, Access.WRITE))
    if len(operands) > fusion.max_buffers:
        return None
    base, more = fusion.base, nest_cost(lowered, fusion.base)
    return replace(
        alone,
        kernel=compile_nest(lowered.nest, target(profile), launch.kernel),
        operands=operands,
        words=lowered.words,
        sources=tuple(sorted({s for r in cluster.members for s in base.nodes[r].sources})),
        label=_label(base, cluster.members),
        cost=Cost(alone.cost.read + more.read, more.written, alone.cost.operations + more.operations),
    )


def _problem(base: BaseGraph, node: BaseNode) -> tuple[matmul.Problem, Ref, Ref]:
    """A product as numbers, and the stored values behind its operands."""
    a, a_strides, a_offset = _strides(base, node.inputs[0])
    b, b_strides, b_offset = _strides(base, node.inputs[1])
    *batch, m, n = node.spec.shape
    k = base.spec(node.inputs[0]).shape[-1]
    c_strides = contiguous_strides(node.spec.shape)
    extents, folded = fold_batch(tuple(batch), (a_strides[:-2], b_strides[:-2], c_strides[:-2]))
    problem = matmul.Problem(
        m, n, k, extents,
        (a_strides[-2], a_strides[-1], *folded[0]),
        (b_strides[-2], b_strides[-1], *folded[1]),
        (c_strides[-2], *folded[2]),
        a_offset, b_offset, 0,
    )  # fmt: skip
    return problem, a, b


def fold_batch(
    batch: Shape, strides: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, int], tuple[tuple[int, int], ...]]:
    """Batch axes as two, merging neighbours that every operand steps through as one."""
    runs: list[list[int]] = []
    for axis, extent in enumerate(batch):
        if extent == 1:
            continue
        if runs and all(s[runs[-1][-1]] == s[axis] * extent for s in strides):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    if len(runs) > 2:
        raise Unsupported(
            f"matmul: batch axes {batch} need {len(runs)} strides, kernels have 2; reshape or copy an operand"
        )
    sizes: list[int] = []
    folded: list[list[int]] = [[] for _ in strides]
    runs = [[] for _ in range(2 - len(runs))] + runs
    for run in runs:
        total = 1
        for axis in run:
            total *= batch[axis]
        sizes.append(total)
        for out, s in zip(folded, strides):
            out.append(s[run[-1]] if run else 0)
    return (sizes[0], sizes[1]), tuple((f[0], f[1]) for f in folded)


__all__ = ["Coords", "drafts", "fold_batch", "grid"]
