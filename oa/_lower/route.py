"""Pass `route`: make each node fit what kernels exist for, as a pure function of operation, shape and device.

Matrix products get operands that strides can describe; wanted views that strides cannot describe become copies; long
reductions over few rows become two stages; concatenations of sub-word elements become trees of few operands.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from oa._graph.views import Part, Permute, Reshape, View
from oa._lower.base import BaseGraph, BaseNode, Ref
from oa._lower.index import Coords, Ix, dims, linear, through
from oa._lower.pairs import parts
from oa._schema import scalar as sc
from oa._schema.dtype import float32, int32, uint32
from oa._schema.spec import Shape, Spec, contiguous_strides, spec

if TYPE_CHECKING:
    from oa._device import Profile

#: Operands that one sub-word concatenation selects among in a kernel.
_CONCAT_FAN_IN = 8
#: Rows that fill a device: SIMD lanes of all cores with some to spare, or resident invocations.
_CPU_ROWS, _CPU_CHUNK = 256, 256
#: A chunk of a software device is at most this long, see `oa._lower.rows`.
_CPU_LONGEST = 65528
_GPU_GROUPS, _GPU_CHUNK = 1056, 4096
_GPU_COLUMN_THREADS, _GPU_COLUMN_CHUNK = 262144, 32
#: No chunk that is measured is shorter.
_LEAST_CHUNK = 256
#: Chunks start where whole vectors do.
_CHUNK_MULTIPLE = 4
#: What reads stored values from their start, in row-major order.
WHOLE = frozenset({"order", "inverse", "positions", "scan"})
_TWO_STAGE = frozenset({"sum", "plain_sum", "max", "min", "prod"})


def view_source(
    base: BaseGraph, ref: Ref, coords: Coords | None = None, space: Shape | None = None
) -> tuple[Ref, Coords]:
    """The value behind a chain of views, and coordinates in it for the view's own coordinates or for those given in `space`."""
    if coords is None and space is None:
        found: tuple[Ref, Coords] | None = base.behind.get(ref)
        if found is None:
            shape = base.spec(ref).shape
            found = base.behind[ref] = view_source(base, ref, dims(shape), shape)
        return found
    shape = base.spec(ref).shape if space is None else space
    at = dims(shape) if coords is None else coords
    while ref >= 0 and base.nodes[ref].kind == "view":
        node = base.nodes[ref]
        view: View = node.params[0]
        at = through(view, at, shape)
        ref = node.inputs[0]
    return ref, at


def address(base: BaseGraph, ref: Ref) -> tuple[Ref, Ix]:
    """The stored value behind a view, and the element of its storage for each element of the view."""
    found: tuple[Ref, Ix] | None = base.addresses.get(ref)
    if found is None:
        found = base.addresses[ref] = _address(base, ref)
    return found


def _address(base: BaseGraph, ref: Ref) -> tuple[Ref, Ix]:
    source, coords = view_source(base, ref)
    if source < 0:
        layout = base.inputs[-source - 1].layout
        assert layout is not None
        ix = linear(coords, layout.strides, layout.offset)
        part = _part(base, ref)
        return source, ix if part is None else ix.scaled(2) + Ix(part)
    return source, linear(coords, contiguous_strides(base.nodes[source].spec.shape))


def _part(base: BaseGraph, ref: Ref) -> int | None:
    """Which part of a complex input a chain of views shows, None where it shows whole elements."""
    while ref >= 0:
        view: View = base.nodes[ref].params[0]
        if isinstance(view, Part):
            return view.number
        ref = base.nodes[ref].inputs[0]
    return None


def is_strided(base: BaseGraph, ref: Ref) -> bool:
    """Whether strides describe the view."""
    return address(base, ref)[1].is_affine


def route(base: BaseGraph, profile: Profile, owned: frozenset[int] = frozenset()) -> BaseGraph:
    """The same graph in terms that kernels exist for. Roots in `owned` share storage with nothing."""
    new = BaseGraph(base.inputs)
    place: list[Ref] = []
    for node in base.nodes:
        inputs = tuple(place[r] if r >= 0 else r for r in node.inputs)
        place.append(_route_node(new, node, inputs, profile))
    new.roots = [_wanted(new, place[r]) for r in base.roots]
    taken = {view_source(new, r)[0] for k, r in enumerate(new.roots) if k not in owned}
    for k in sorted(owned):
        ref = new.roots[k]
        if ref < 0 or new.nodes[ref].kind == "view" or ref in taken:
            ref = new.roots[k] = copy_of(new, ref, unique=k)
        taken.add(ref)
    new.forget()
    return new


def _route_node(new: BaseGraph, node: BaseNode, inputs: tuple[Ref, ...], profile: Profile) -> Ref:
    source = node.sources[0]
    if node.kind == "matmul":
        if node.params == ("nt",):
            inputs = (inputs[0], _transposed(new, inputs[1], source))
            node = replace(node, params=())
        if new.spec(inputs[0]).shape[-1] == 0:
            # In a word, not in the kernel: llvmpipe drops the addition of a zero that it sees, and with it -0 + 0 = +0.
            zero = sc.cast(sc.scalar("word", int32, (), 0), node.spec.dtype)
            return new.add("pointwise", node.spec, (), (), zero, node.name, source)
        inputs = tuple(_strided(new, r) for r in inputs)
    elif node.kind in WHOLE:
        inputs = tuple(_whole(new, r) for r in inputs)
    elif node.kind == "reduce":
        if node.spec.dtype.itemsize < 4:
            return _reduce_small(new, node, inputs[0], profile)
        return _route_reduce(new, node, inputs, profile)
    elif node.kind == "concat" and node.spec.dtype.itemsize < 4 and len(inputs) > _CONCAT_FAN_IN:
        return _concat_tree(new, node, inputs)
    return new.add(node.kind, node.spec, inputs, node.params, node.body, node.name, source)


def copy_of(new: BaseGraph, ref: Ref, unique: int | None = None) -> Ref:
    """A contiguous copy of a value, one of its own for each `unique` number."""
    found = new.spec(ref)
    source = new.nodes[ref].sources[0] if ref >= 0 else 0
    params = () if unique is None else (unique,)
    if found.dtype.is_complex:
        return new.add("pair", found, parts(new, ref), params, None, "copy", source)
    return new.add("pointwise", found, (ref,), params, sc.arg(0, found.dtype), "copy", source)


def _transposed(new: BaseGraph, ref: Ref, source: int) -> Ref:
    found = new.spec(ref)
    rows, columns = found.shape
    return new.add(
        "view", spec(found.dtype, (columns, rows)), (ref,), (Permute((1, 0)),), None, "transpose", source
    )


def _strided(new: BaseGraph, ref: Ref) -> Ref:
    """`ref`, or the same view of a copy made at the first view that strides cannot describe: views of one copy share it."""
    chain = [ref]
    while chain[-1] >= 0 and new.nodes[chain[-1]].kind == "view":
        chain.append(new.nodes[chain[-1]].inputs[0])
    first = next((k for k in reversed(range(len(chain))) if not is_strided(new, chain[k])), None)
    if first is None:
        return ref
    made = copy_of(new, chain[first])
    for view in reversed(chain[:first]):
        node = new.nodes[view]
        made = new.add(
            "view", node.spec, (made, *node.inputs[1:]), node.params, None, node.name, node.sources[0]
        )
    return _strided(new, made)


def _whole(new: BaseGraph, ref: Ref) -> Ref:
    """`ref` if it is all of a stored value in row-major order, else a copy that is."""
    source = view_source(new, ref)[0]
    if source < 0 and new.inputs[-source - 1].is_scalar:
        return copy_of(new, ref)
    shape = new.spec(ref).shape
    same = address(new, ref)[1] == linear(dims(shape), contiguous_strides(shape))
    return ref if same else copy_of(new, ref)


def _wanted(new: BaseGraph, ref: Ref) -> Ref:
    return copy_of(new, ref) if not is_strided(new, ref) else ref


def _concat_tree(new: BaseGraph, node: BaseNode, inputs: tuple[Ref, ...]) -> Ref:
    axis = node.params[0]
    while len(inputs) > 1:
        groups = [inputs[i : i + _CONCAT_FAN_IN] for i in range(0, len(inputs), _CONCAT_FAN_IN)]
        made = []
        for group in groups:
            shape = list(node.spec.shape)
            shape[axis] = sum(new.spec(r).shape[axis] for r in group)
            made.append(
                new.add(
                    "concat",
                    spec(node.spec.dtype, tuple(shape)),
                    group,
                    node.params,
                    None,
                    node.name,
                    node.sources[0],
                )
            )
        inputs = tuple(made)
    return inputs[0]


def _reduce_small(new: BaseGraph, node: BaseNode, ref: Ref, profile: Profile) -> Ref:
    """A reduction to sub-word elements, of which a row's invocation would not own whole words: in 32 bits, then cast."""
    source = node.sources[0]
    narrow = new.spec(ref)
    dtype = {"i": int32, "f": float32}.get(narrow.dtype.kind, uint32)
    wide = spec(dtype, narrow.shape)
    grown = new.add("pointwise", wide, (ref,), (), sc.cast(sc.arg(0, narrow.dtype), dtype), "astype", source)
    middle = BaseNode(
        "reduce", spec(dtype, node.spec.shape), (grown,), node.params, None, node.name, node.sources
    )
    found = _route_reduce(new, middle, (grown,), profile)
    body = sc.cast(sc.arg(0, dtype), node.spec.dtype)
    return new.add("pointwise", node.spec, (found,), (), body, "astype", source)


def _route_reduce(new: BaseGraph, node: BaseNode, inputs: tuple[Ref, ...], profile: Profile) -> Ref:
    name, axes = node.params
    shape = new.spec(inputs[0]).shape
    chunks = chosen_chunks(name, new.spec(inputs[0]), axes, profile)
    source = node.sources[0]
    if chunks == 1:
        return new.add("reduce", node.spec, inputs, node.params, None, node.name, source)
    length = -(-math.prod(shape[a] for a in axes) // chunks)
    length = -(-length // _CHUNK_MULTIPLE) * _CHUNK_MULTIPLE
    chunks = -(-math.prod(shape[a] for a in axes) // length)
    kept = node.spec.shape
    parts = spec(node.spec.dtype, (math.prod(kept), chunks))
    first = new.add("partial", parts, inputs, (name, axes, chunks, length), None, node.name, source)
    flat = spec(node.spec.dtype, (math.prod(kept), 1))
    second = new.add("reduce", flat, (first,), (name, (1,)), None, node.name, source)
    return new.add("view", node.spec, (second,), (Reshape(flat.shape, kept),), None, node.name, source)


def is_trailing(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether the reduced axes (extents of 1 aside) are the last ones, so that a row is one run of memory."""
    kept_after = [k for k, e in enumerate(shape) if k not in axes and e != 1]
    first = min((a for a in axes if shape[a] != 1), default=len(shape))
    return all(k < first for k in kept_after)


def chosen_chunks(name: str, operand: Spec, axes: tuple[int, ...], profile: Profile) -> int:
    """Into how many chunks a reduction is cut: what was measured, else what `chunk_count` says."""
    if name not in _TWO_STAGE:
        return 1
    told = profile.tuned.get(chunk_key(name, operand, axes)) if len(profile.tuned) else None
    if (
        told is not None
        and told.isdecimal()
        and int(told) in chunk_candidates(operand.shape, axes, profile.tuning)
    ):
        return int(told)
    return chunk_count(operand.shape, axes, profile.tuning)


def chunk_key(name: str, operand: Spec, axes: tuple[int, ...]) -> str:
    """What a measured number of chunks is kept under."""
    return f"reduce {name} {operand.dtype.name} {'x'.join(map(str, operand.shape))} over {'/'.join(map(str, axes))}"


def chunk_candidates(shape: tuple[int, ...], axes: tuple[int, ...], tuning: str) -> list[int]:
    """Numbers of chunks worth measuring, the model's first: a quarter to four times as many, and one."""
    first = chunk_count(shape, axes, tuning)
    length = math.prod(shape[a] for a in axes)
    least = 1 if length < 2 * _LEAST_CHUNK else length // _LEAST_CHUNK
    most = _CPU_LONGEST if tuning == "cpu" else length
    others = (first // 4, first // 2, first * 2, first * 4, 1)
    return list(dict.fromkeys([first, *(n for n in others if 1 <= n <= least and -(-length // n) <= most)]))


def chunk_count(shape: tuple[int, ...], axes: tuple[int, ...], tuning: str) -> int:
    """Into how many chunks a reduction is cut before the chunks are reduced: 1 where the rows alone fill the device."""
    length = math.prod(shape[a] for a in axes)
    rows = math.prod(shape) // length if length else 0
    if rows == 0:
        return 1
    if tuning == "cpu":
        wanted, least = max(-(-_CPU_ROWS // rows), -(-length // _CPU_LONGEST)), _CPU_CHUNK
    elif is_trailing(shape, axes):
        wanted, least = -(-_GPU_GROUPS // rows), _GPU_CHUNK
    else:
        wanted, least = -(-_GPU_COLUMN_THREADS // rows), _GPU_COLUMN_CHUNK
    return max(1, min(wanted, length // least))
