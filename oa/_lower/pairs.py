"""Complex values in lowering: pairs of real ones, from the first pass on. No kernel knows complex numbers.

A complex value of the base graph is an input (interleaved), a view, or a `pair` of two real nodes. Whatever reads one reads its
`parts`; a pair that nobody wants outside is dropped, one that is wanted is a kernel's two interleaved stores.
"""

from __future__ import annotations

from functools import lru_cache

from oa._graph.views import Part
from oa._lower.base import BaseGraph, Ref
from oa._lower.pair_ops import split
from oa._schema import scalar as sc
from oa._schema.op import Instance
from oa._schema.scalar import Scalar
from oa._schema.spec import Spec, spec

Planes = tuple[Ref, Ref]


def parts(base: BaseGraph, ref: Ref) -> Planes:
    """The real and the imaginary parts of a complex value, as real values of its shape."""
    whole = base.spec(ref)
    real = spec(whole.dtype.component, whole.shape)
    if ref < 0:
        first, second = (base.add("view", real, (ref,), (Part(k),), None, "parts") for k in (0, 1))
        return first, second
    node = base.nodes[ref]
    if node.kind == "pair":
        return node.inputs[0], node.inputs[1]
    first, second = (
        base.add("view", real, (plane,), node.params, None, node.name, node.sources[0])
        for plane in parts(base, node.inputs[0])
    )
    return first, second


def append(base: BaseGraph, instance: Instance, inputs: tuple[Ref, ...], source: int) -> Ref:
    """A node for a non-composite instance, complex ones as real nodes and a pair."""
    out = instance.outs[0]
    if instance.op.kind == "view" or not any(s.dtype.is_complex for s in (*instance.ins, out)):
        return base.add_instance(instance, inputs, source)
    if instance.op.kind == "pointwise":
        made = _pointwise(base, instance, inputs, source)
    elif instance.op.kind == "matmul":
        made = _matmul(base, instance, inputs, source)
    else:  # each part for itself: sums, gathers, padding, concatenation
        planes = [parts(base, r) if base.spec(r).dtype.is_complex else (r, r) for r in inputs]
        made = tuple(
            base.add(
                instance.op.kind,
                _plane(out),
                tuple(p[k] for p in planes),
                instance.params,
                None,
                instance.op.name,
                source,
            )
            for k in (0, 1)
        )
    if not out.dtype.is_complex:
        return made[0]
    return base.add("pair", out, made, (), None, instance.op.name, source)


def _plane(whole: Spec) -> Spec:
    return spec(whole.dtype.component, whole.shape)


@lru_cache(maxsize=4096)
def _bodies(body: Scalar) -> tuple[tuple[Scalar, tuple[int, ...]], ...]:
    """The real expressions of a body, one or two, with the planes that they read: part k of operand n is 2 n + k."""
    found = []
    for half in split(body):
        used = tuple(sorted(sc.args_used(half)))
        place = {old: new for new, old in enumerate(used)}

        def renumbered(n: Scalar, place: dict[int, int] = place) -> Scalar | None:
            return sc.arg(place[n.attr], n.dtype) if n.op == "arg" else None

        found.append((sc.substitute(half, renumbered), used))
    return tuple(found)


def _pointwise(base: BaseGraph, instance: Instance, inputs: tuple[Ref, ...], source: int) -> tuple[Ref, ...]:
    out = instance.outs[0]
    planes: list[Ref] = []
    for ref in inputs:
        planes.extend(parts(base, ref) if base.spec(ref).dtype.is_complex else (ref, ref))
    made = []
    assert instance.body is not None
    for body, used in _bodies(instance.body):
        read = tuple(planes[k] for k in used)
        if out.dtype.is_complex and body.op == "arg" and base.spec(read[0]).shape == out.shape:
            made.append(read[0])
        else:
            made.append(
                base.add("pointwise", _plane(out), read, instance.params, body, instance.op.name, source)
            )
    return tuple(made)


def _matmul(base: BaseGraph, instance: Instance, inputs: tuple[Ref, ...], source: int) -> tuple[Ref, ...]:
    """Four real products, as many as there are terms: three, with sums in between, would lose what cancels in those sums."""
    out = _plane(instance.outs[0])
    left, right = (parts(base, r) for r in inputs)

    def product(i: int, j: int) -> Ref:
        return base.add("matmul", out, (left[i], right[j]), instance.params, None, instance.op.name, source)

    def joined(op: str, a: Ref, b: Ref) -> Ref:
        body = sc.apply(op, sc.arg(0, out.dtype), sc.arg(1, out.dtype))
        return base.add("pointwise", out, (a, b), (), body, instance.op.name, source)

    return joined("sub", product(0, 0), product(1, 1)), joined("add", product(0, 1), product(1, 0))


__all__ = ["append", "parts"]
