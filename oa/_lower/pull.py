"""From a cluster to one scalar DAG: every result pulled back, through views and inline nodes, to loads from stored values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from oa._graph.views import Part
from oa._lower.base import BaseGraph, BaseNode, Ref
from oa._lower.fuse import NOTHING, Cluster, Fusion, iteration_shape, operand_coords
from oa._lower.index import (
    ZERO,
    Atom,
    Coords,
    Data,
    Dim,
    Ix,
    Quotient,
    Remainder,
    dims,
    linear,
    make,
    through,
)
from oa._schema import scalar as sc
from oa._schema.dtype import DType, int32, uint32
from oa._schema.scalar import Scalar
from oa._schema.spec import Shape, contiguous_strides
from oa.errors import InternalError


@dataclass(frozen=True)
class At:
    """Where a load reads: element `ix` of the storage of `ref`."""

    ref: Ref
    ix: Ix


def data_scalars(ix: Ix) -> tuple[Scalar, ...]:
    """The scalars that an index reads, in order of appearance."""
    found: dict[Scalar, None] = {}
    for atom, _ in ix.terms:
        if isinstance(atom, Data):
            found[atom.scalar] = None
        elif isinstance(atom, (Quotient, Remainder)):
            for scalar in data_scalars(atom.value):
                found[scalar] = None
    return tuple(found)


def index_scalar(ix: Ix, dtype: DType = int32) -> Scalar:
    """An index as a number."""
    return sc.scalar("index", dtype, data_scalars(ix), ix)


def size(extent: int) -> Scalar:
    """An extent as a number in the argument block, so that kernels do not depend on it."""
    return sc.scalar("word", int32, (), extent)


class Pull:
    """Pulls values of one cluster. Coordinates are in the cluster's iteration space `space`."""

    def __init__(self, fusion: Fusion, cluster: Cluster, space: Shape) -> None:
        self.fusion = fusion
        self.base: BaseGraph = fusion.base
        self.cluster = cluster
        self.members = set(cluster.members)
        self.space = space
        self.astray = False  #: whether a produced value was asked for at another element than its own
        self.memo: dict[tuple[Ref, Coords, frozenset[Ref]], Scalar] = {}

    def value(self, ref: Ref, coords: Coords, expand: frozenset[Ref] = NOTHING) -> Scalar:
        """The element of `ref` at `coords`; `expand` as in `Fusion.computed_by_reader`."""
        found = self.memo.get((ref, coords, expand))
        if found is None:
            found = self.memo[ref, coords, expand] = self._value(ref, coords, expand)
        return found

    def _value(self, ref: Ref, coords: Coords, expand: frozenset[Ref]) -> Scalar:
        spec = self.base.spec(ref)
        # A gather or a pad from an empty value selects its other side at every place: there is no address to read.
        if 0 in spec.shape:
            return sc.const(0, spec.dtype)
        if ref < 0:
            return self._input(ref, coords)
        node = self.base.nodes[ref]
        if node.kind == "view" and isinstance(node.params[0], Part):
            return self._input(node.inputs[0], coords, node.params[0].number)
        if node.kind == "view":
            return self.value(node.inputs[0], through(node.params[0], coords, self.space), expand)
        if ref not in self.members and ref in self.fusion.again:
            expand = self.fusion.again[ref]
        if ref not in self.members and not self.fusion.computed_by_reader(ref, expand):
            return self._load(ref, linear(coords, contiguous_strides(node.spec.shape)), node)
        if node.kind == "matmul":
            return self._produced(node, coords)
        if node.kind == "pointwise":
            return self._pointwise(node, coords, expand)
        if node.kind == "reduce":
            return self._reduce(ref, node, coords)
        if node.kind in ("take", "along"):
            return self._gather(ref, node, coords, expand)
        if node.kind == "pad":
            return self._pad(node, coords, expand)
        if node.kind == "concat":
            return self._concat(node, coords, expand)
        raise InternalError(f"cannot compute {node.name} ({node.kind}) element by element")

    def _input(self, ref: Ref, coords: Coords, part: int = 0) -> Scalar:
        """An element from outside; of a complex value one of its parts, a float among twice as many."""
        found = self.base.inputs[-ref - 1]
        dtype = found.spec.dtype.component
        if found.layout is None:
            return sc.scalar("param", dtype, (), (-ref - 1, part * sc.scalar_words(dtype)))
        ix = linear(coords, found.layout.strides, found.layout.offset)
        if found.spec.dtype.is_complex:
            ix = ix.scaled(2) + Ix(part)
        return sc.scalar("load", dtype, data_scalars(ix), At(ref, ix))

    def _produced(self, node: BaseNode, coords: Coords) -> Scalar:
        """What the kernel around an epilogue computes, if it is its own element that is read."""
        strides = contiguous_strides(node.spec.shape)
        if linear(coords, strides) != linear(dims(self.space), strides):
            self.astray = True
        return sc.scalar("produced", node.spec.dtype)

    def _load(self, ref: Ref, ix: Ix, node: BaseNode) -> Scalar:
        return sc.scalar("load", node.spec.dtype, data_scalars(ix), At(ref, ix))

    def _pointwise(self, node: BaseNode, coords: Coords, expand: frozenset[Ref]) -> Scalar:
        assert node.body is not None
        at = operand_coords(self.base, node, coords)

        def leaf(n: Scalar) -> Scalar | None:
            if n.op == "arg":
                where = at[n.attr]
                assert where is not None
                return self.value(node.inputs[n.attr], where, expand)
            if n.op == "dim":
                return index_scalar(coords[n.attr])
            if n.op == "element":
                return index_scalar(linear(coords, contiguous_strides(node.spec.shape)), uint32)
            return None

        return sc.substitute(node.body, leaf)

    def _reduce(self, ref: Ref, node: BaseNode, coords: Coords) -> Scalar:
        if coords != self.cluster.expected(ref, self.base):
            raise InternalError(f"{node.name}: a reduction is read at a row other than its own")
        operand = self.value(node.inputs[0], dims(iteration_shape(self.base, node)))
        return sc.scalar("reduce", node.spec.dtype, (operand,), node.params[0])

    def _gather(self, ref: Ref, node: BaseNode, coords: Coords, expand: frozenset[Ref]) -> Scalar:
        """Negative indices count from the end; outside the axis a float is NaN and an integer 0."""
        axis = node.params[0]
        shape = self.base.spec(node.inputs[0]).shape
        where = operand_coords(self.base, node, coords)[1]
        assert where is not None
        raw = sc.cast(self.value(node.inputs[1], where, expand), int32)
        extent = size(shape[axis])
        zero = sc.const(0, int32)
        wrapped = sc.apply("where", sc.apply("lt", raw, zero), sc.apply("add", raw, extent), raw)
        inside = sc.apply("band", sc.apply("ge", wrapped, zero), sc.apply("lt", wrapped, extent))
        safe = sc.cast(sc.apply("where", inside, wrapped, zero), uint32)
        along = Ix(0, ((Data(safe), 1),))
        rank = 1 if node.kind == "along" else len(self.base.spec(node.inputs[1]).shape)
        source = (*coords[:axis], along, *coords[axis + rank :])
        value = self.value(
            node.inputs[0], source, self.fusion.pointwise if ref in self.fusion.recomputes else expand
        )
        missing = sc.const(math.nan if node.spec.dtype.is_float else 0, node.spec.dtype)
        return sc.apply("where", inside, value, missing)

    def _pad(self, node: BaseNode, coords: Coords, expand: frozenset[Ref]) -> Scalar:
        starts, steps = node.params
        shape = self.base.spec(node.inputs[0]).shape
        zero = sc.const(0, int32)
        inside: Scalar | None = None
        source: list[Ix] = []
        for coord, start, step, extent, whole in zip(coords, starts, steps, shape, node.spec.shape):
            if extent == whole:
                source.append(coord)
                continue
            relative = sc.apply("sub", index_scalar(coord), size(start))
            tests = [sc.apply("ge", relative, zero), sc.apply("lt", relative, size(extent * step))]
            if step > 1:
                tests.append(sc.apply("eq", sc.apply("mod", relative, size(step)), zero))
                relative = sc.apply("floordiv", relative, size(step))
            for test in tests:
                inside = test if inside is None else sc.apply("band", inside, test)
            assert inside is not None
            safe = sc.cast(sc.apply("where", inside, relative, zero), uint32)
            source.append(Ix(0, ((Data(safe), 1),)))
        value = self.value(node.inputs[0], tuple(source), expand)
        return value if inside is None else sc.apply("where", inside, value, sc.const(0, node.spec.dtype))

    def _concat(self, node: BaseNode, coords: Coords, expand: frozenset[Ref]) -> Scalar:
        """A chain of selections; each operand is read at a place that exists even where another is chosen."""
        axis = node.params[0]
        position = index_scalar(coords[axis])
        result: Scalar | None = None
        start = 0
        for ref in node.inputs:
            extent = self.base.spec(ref).shape[axis]
            if extent == 0:
                continue
            relative = sc.apply("sub", position, size(start))
            inside = sc.apply(
                "band",
                sc.apply("ge", relative, sc.const(0, int32)),
                sc.apply("lt", relative, size(extent)),
            )
            safe = sc.cast(sc.apply("where", inside, relative, sc.const(0, int32)), uint32)
            value = self.value(ref, (*coords[:axis], Ix(0, ((Data(safe), 1),)), *coords[axis + 1 :]), expand)
            result = value if result is None else sc.apply("where", inside, value, result)
            start += extent
        assert result is not None
        return result


def rename(ix: Ix, mapping: dict[int, tuple[int, int]], scalars: dict[Scalar, Scalar]) -> Ix:
    """`ix` with dimension d renamed to `mapping[d] = (new dimension, factor)`, absent ones 0, and data replaced."""
    terms: dict[Atom, int] = {}
    for atom, factor in ix.terms:
        if isinstance(atom, Dim):
            if atom.axis in mapping:
                new, times = mapping[atom.axis]
                key: Atom = Dim(new)
                terms[key] = terms.get(key, 0) + factor * times
            continue
        if isinstance(atom, Data):
            key = Data(scalars.get(atom.scalar, atom.scalar))
        else:
            key = type(atom)(rename(atom.value, mapping, scalars), atom.divisor)
        terms[key] = terms.get(key, 0) + factor
    return make(ix.const, terms)


__all__ = ["ZERO", "At", "Pull", "data_scalars", "index_scalar", "rename"]
