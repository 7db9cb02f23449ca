"""Passes that may round otherwise, for engines with numeric="fast" only. Each can be left out by its name, like any other.

quotients  a division by a number, or by what is smaller than the result and broadcast, is a multiplication by the reciprocal:
           within 1.5 units in the last place, 2.5 where the device's own division is not corrected; a divisor below 2^-126 or
           above 2^126 in size may give 0, inf or NaN where the quotient is a number
contract   a product that only one addition or subtraction reads is one fused operation with it where the device has one:
           |error| <= 2^-24 (|a b| + |a b + c|), as for the two apart, and mostly half of that
sums       float sums do not carry the error of each addition in their loops: |error| <= n 2^-24 sum|x| for n elements,
           instead of (1 + log2(n)) 2^-24 sum|x|

What `contract` finds depends on which operations are in one graph and which of their results are wanted, so with numeric="fast" a
value may differ in its last bits between eager and captured runs. The others look at one operation at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection

from oa._lower.base import BaseGraph, BaseNode, Ref, body_work
from oa._lower.expand import prune
from oa._schema import scalar as sc
from oa._schema.dtype import float32
from oa._schema.scalar import Scalar

#: In the order in which they run.
PASSES = ("quotients", "contract", "sums")
#: Leaves of a body that mean something only at the node's own element.
_PLACED = frozenset({"dim", "element"})
_LARGEST_DIVISOR = 2.0**126


def fast(base: BaseGraph, without: Collection[str]) -> BaseGraph:
    """The graph after all passes that are not left out."""
    for name, run in zip(PASSES, (quotients, contract, sums)):
        if name not in without:
            base = run(base)
    return base


def _again(base: BaseGraph, change: Callable[[BaseGraph, Ref, BaseNode, tuple[Ref, ...]], Ref]) -> BaseGraph:
    """The graph with each node made again by `change`, which is given the new graph, the node's number and its new inputs."""
    new = BaseGraph(base.inputs)
    place: list[Ref] = []
    for ref, node in enumerate(base.nodes):
        place.append(change(new, ref, node, tuple([place[r] if r >= 0 else r for r in node.inputs])))
    new.roots = [place[r] if r >= 0 else r for r in base.roots]
    return new


def _same(new: BaseGraph, node: BaseNode, inputs: tuple[Ref, ...], body: Scalar | None = None) -> Ref:
    body = node.body if body is None else body
    made = new.add(node.kind, node.spec, inputs, node.params, body, node.name, node.sources[0])
    new.nodes[made].sources = tuple(sorted({*new.nodes[made].sources, *node.sources}))
    return made


def rewritten(body: Scalar, change: Callable[[Scalar], Scalar]) -> Scalar:
    """The expression with each operation replaced by what `change` makes of it, operands first."""
    done: dict[Scalar, Scalar] = {}
    for node in body_work(body):
        done[node] = change(sc.scalar(node.op, node.dtype, tuple([done[a] for a in node.args]), node.attr))
    return done[body]


# -- quotients


def quotients(base: BaseGraph) -> BaseGraph:
    """Divisions by what many elements share become multiplications."""

    def change(new: BaseGraph, ref: Ref, node: BaseNode, inputs: tuple[Ref, ...]) -> Ref:
        if node.body is None:
            return _same(new, node, inputs)
        shared = {k for k, r in enumerate(node.inputs) if base.spec(r).size < node.spec.size}
        return _same(new, node, inputs, rewritten(node.body, lambda n: _multiplied(n, shared)))

    return _again(base, change)


def _multiplied(node: Scalar, shared: Collection[int]) -> Scalar:
    if node.op != "div" or node.dtype is not float32:
        return node
    a, divisor = node.args
    if divisor.op == "const":
        value = struct.unpack("<f", struct.pack("<I", divisor.attr))[0]
        if not 1 / _LARGEST_DIVISOR <= abs(value) <= _LARGEST_DIVISOR:
            return node
        return sc.apply("mul", a, sc.const(1.0 / value, float32))
    leaves = [n for n in body_work(divisor) if not n.args]
    if a is divisor or any(
        n.op not in ("arg", "const") or (n.op == "arg" and n.attr not in shared) for n in leaves
    ):
        return node
    return sc.apply("mul", a, sc.apply("recip", divisor))


# -- contract


def contract(base: BaseGraph) -> BaseGraph:
    """Products join the one sum that reads them, in a node and across two."""
    uses = base.uses()
    absorbed = {
        operand
        for node in base.nodes
        if node.body is not None and node.spec.dtype is float32
        for operand in _products_summed(base, node, uses)
    }

    def change(new: BaseGraph, ref: Ref, node: BaseNode, inputs: tuple[Ref, ...]) -> Ref:
        if node.body is None:
            return _same(new, node, inputs)
        body, sources = node.body, set(node.sources)
        if any(r in absorbed for r in node.inputs):
            body, inputs = _joined(base, new, node, inputs, absorbed)
            sources.update(s for r in node.inputs if r in absorbed for s in base.nodes[r].sources)
        made = _same(new, node, inputs, rewritten(body, _fused))
        new.nodes[made].sources = tuple(sorted({*new.nodes[made].sources, *sources}))
        return made

    return prune(_again(base, change))


def _products_summed(base: BaseGraph, node: BaseNode, uses: list[int]) -> list[Ref]:
    """The operands that are products of a node of their own, read by a sum of this one and by nothing else."""
    found = []
    summed = {a.attr for n in body_work(node.body) if n.op in ("add", "sub") for a in n.args if a.op == "arg"}
    for k, operand in enumerate(node.inputs):
        if k in summed and operand >= 0 and uses[operand] == 1:
            made = base.nodes[operand]
            is_product = made.kind == "pointwise" and made.body is not None and made.body.op == "mul"
            if (
                is_product
                and made.spec.dtype is float32
                and not any(n.op in _PLACED for n in body_work(made.body))
            ):
                found.append(operand)
    return found


def _joined(
    base: BaseGraph, new: BaseGraph, node: BaseNode, inputs: tuple[Ref, ...], absorbed: Collection[Ref]
) -> tuple[Scalar, tuple[Ref, ...]]:
    """The node's body with the absorbed products in the places of the operands that they were, and what it then reads."""
    assert node.body is not None
    reads: dict[Ref, int] = {}
    parts: list[Scalar] = []
    for old, ref in zip(node.inputs, inputs):
        if old not in absorbed:
            parts.append(sc.arg(reads.setdefault(ref, len(reads)), base.spec(old).dtype))
            continue
        product = new.nodes[ref]
        assert product.body is not None
        own = [sc.arg(reads.setdefault(r, len(reads)), new.spec(r).dtype) for r in product.inputs]
        parts.append(_with_args(product.body, own))
    return _with_args(node.body, parts), tuple(reads)


def _with_args(body: Scalar, values: list[Scalar]) -> Scalar:
    """The expression with `values` in the places of its operands."""
    return sc.substitute(body, lambda n: values[n.attr] if n.op == "arg" else None)


def _fused(node: Scalar) -> Scalar:
    if node.op not in ("add", "sub") or node.dtype is not float32:
        return node
    a, c = node.args
    if a.op == "mul":
        return sc.scalar("fma", float32, (*a.args, c if node.op == "add" else sc.apply("neg", c)))
    if c.op == "mul":
        x, y = c.args
        return sc.scalar("fma", float32, (x if node.op == "add" else sc.apply("neg", x), y, a))
    return node


# -- sums


def sums(base: BaseGraph) -> BaseGraph:
    """Float sums are plain."""

    def change(new: BaseGraph, ref: Ref, node: BaseNode, inputs: tuple[Ref, ...]) -> Ref:
        if node.kind != "reduce" or node.params[0] != "sum" or not node.spec.dtype.is_float:
            return _same(new, node, inputs)
        params = ("plain_sum", *node.params[1:])
        return new.add(node.kind, node.spec, inputs, params, None, node.name, node.sources[0])

    return _again(base, change)
