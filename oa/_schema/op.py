"""Declaring an operation: a decorated, annotated function is its whole schema.

`pointwise`   the body is a scalar expression of the operands, traced once per mix of operand dtypes
`composite`   the body calls other operations; it is traced per instance and expanded when lowered
`primitive`   the body is the inference rule: it sees the operands' specs and returns an `Inference`

Parameters annotated `Matrix` or `Operand` are operands, all others attributes. A primitive's gradient rule is attached with
`declare.gradient(operation)`; the names of its parameters say which operands and results it needs kept.
"""

from __future__ import annotations

import functools
import inspect
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from oa._schema import derivative
from oa._schema import scalar as sc
from oa._schema.dtype import DEFAULT_OF_KIND, DType, Weak, join_weak, promote, weak_kind
from oa._schema.expr import Expr, resolve
from oa._schema.interning import Recent
from oa._schema.scalar import Scalar
from oa._schema.spec import Spec, broadcast, spec
from oa.errors import ArgumentError, DTypeError

P = ParamSpec("P")
R = TypeVar("R")

#: Annotations that mark an operand.
OPERAND_ANNOTATIONS = frozenset({"Matrix", "Operand"})
#: Instances that an operation remembers: one for each mix of operand specs and attributes.
INSTANCES = 1024
#: Stands for the default of an attribute that has none.
EMPTY = inspect.Parameter.empty
#: Types whose values are equal only when they are the same.
_EXACT = frozenset({int, str})
_KIND_NAMES = {
    "b": "bool",
    "i": "signed integer",
    "u": "unsigned integer",
    "f": "floating-point",
    "c": "complex",
}
Number = (bool, int, float, complex)


@dataclass(frozen=True)
class Inference:
    """What a primitive's rule says: its results, what the lowering needs to know, and for pointwise kinds the body."""

    outs: tuple[Spec, ...]
    params: tuple[Any, ...] = ()
    body: Scalar | None = None


class Instance:
    """One operation on operands of given specs with given attributes: everything about a node that is not its inputs."""

    __slots__ = ("attrs", "body", "id", "ins", "keeps", "op", "outs", "params", "template", "vjps")
    _count = 0

    def __init__(self, op: Operation, ins: tuple[Spec, ...], attrs: dict[str, Any], found: Inference) -> None:
        self.op, self.ins, self.attrs = op, ins, attrs
        self.outs, self.params, self.body = found.outs, found.params, found.body
        self.template: Any = None
        #: By operand: the instance of its cotangent and the operands that this reads, None where nothing flows back.
        self.vjps: dict[int, tuple[Instance, tuple[int, ...]] | None] = {}
        #: By which operands are watched: what a tape keeps for the gradient rule (`oa.ml.tape`).
        self.keeps: dict[tuple[bool, ...], Any] = {}
        self.id = Instance._count
        Instance._count += 1

    def __repr__(self) -> str:
        ins = ", ".join(map(repr, self.ins))
        outs = ", ".join(map(repr, self.outs))
        return f"{self.op.name}({ins}) -> {outs}"


def freeze(value: Any) -> Any:
    """`value` as a dictionary key that tells 1, True and 1.0, and 0.0 and -0.0, apart.

    An int or a str is its own key; of anything else but a sequence the key starts with its type, which no key of a sequence does.
    """
    kind = type(value)
    if kind in _EXACT:
        return value
    if isinstance(value, (list, tuple)):
        return tuple(value) if _EXACT.issuperset(map(type, value)) else tuple([freeze(v) for v in value])
    if isinstance(value, float):
        return (kind, struct.pack("<d", value))
    if kind is slice:
        return (slice, freeze(value.start), freeze(value.stop), freeze(value.step))
    return (kind, value)


@dataclass(eq=False)
class Operation:
    """The record of one operation, from which every derived surface is made."""

    name: str
    kind: str
    function: Callable[..., Any]
    operands: tuple[str, ...]
    attributes: dict[str, Any]
    form: str = "rule"  #: what the function is: "expression", "composite" or "rule"
    kinds: str = "biufc"
    exclude: tuple[str, ...] = ()
    gradient: Callable[..., Any] | None = None
    saves: tuple[str, ...] = ()
    #: By operand specs and frozen attributes.
    cache: Recent[Any, Instance] = field(default_factory=lambda: Recent(INSTANCES))
    #: The same for calls with Python numbers, whose types stand where a spec would: the instance, and by operand the spec that
    #: a number takes, None for an operand that is a value.
    weak: Recent[Any, tuple[Instance, tuple[Spec | None, ...]]] = field(
        default_factory=lambda: Recent(INSTANCES)
    )

    def __repr__(self) -> str:
        return f"<operation {self.name}>"

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @functools.cached_property
    def defaults(self) -> tuple[tuple[str, Any], ...]:
        """Every parameter in order, operands first, with its default, `EMPTY` where it has none."""
        return (*((n, EMPTY) for n in self.operands), *self.attributes.items())

    @functools.cached_property
    def variadic(self) -> bool:
        """Whether the single operand stands for a sequence of operands."""
        return any(p.kind is p.VAR_POSITIONAL for p in self.signature.parameters.values())

    def infer(self, ins: tuple[Spec, ...], attrs: dict[str, Any]) -> Inference:
        """Shapes, dtypes and body for operands of these specs."""
        if self.form == "expression":
            return self._infer_pointwise(ins, attrs)
        if self.form == "composite":
            raise ArgumentError(f"{self.name}: a composite is inferred by tracing it")
        found: Inference = self.function(*ins, **attrs)
        return found

    def instance(self, ins: tuple[Spec, ...], attrs: dict[str, Any], key: Any) -> Instance:
        """A new instance, kept under `key`."""
        found = self.cache[key] = Instance(self, ins, attrs, self.infer(ins, attrs))
        return found

    def check_kind(self, dtype: DType) -> None:
        """DTypeError unless the operation is defined for the dtype's kind."""
        if dtype.kind not in self.kinds:
            wanted = " or ".join(_KIND_NAMES[k] for k in self.kinds)
            kept = next(k for k in "fibc" if k in self.kinds)
            mend = {"f": "oa.float32", "i": "oa.int32", "b": "oa.bool_", "c": "oa.complex64"}[kept]
            same = " or compare: x != 0" if mend == "oa.bool_" else ""
            how = f"Cast first: x.astype({mend}){same}"
            if dtype.is_complex:
                how = "Take matrix.real(x), matrix.imag(x) or matrix.abs(x) first"
            raise DTypeError(f"{self.name}: {dtype.name} is not accepted; wanted {wanted}. {how}")

    def common_dtype(self, dtypes: dict[str, DType]) -> DType | None:
        """The dtype to which the operands outside `exclude` are promoted."""
        common: DType | None = None
        for name, dtype in dtypes.items():
            if name not in self.exclude:
                common = dtype if common is None else promote(common, dtype, self.name)
        if common is not None:
            self.check_kind(common)
        return common

    def _infer_pointwise(self, ins: tuple[Spec, ...], attrs: dict[str, Any]) -> Inference:
        common = self.common_dtype(dict(zip(self.operands, (s.dtype for s in ins))))
        shape = broadcast([s.shape for s in ins], self.name, self.operands)
        dtypes = [
            s.dtype if name in self.exclude else (common or s.dtype) for name, s in zip(self.operands, ins)
        ]
        root = self.function(*(Expr("arg", (), i) for i in range(len(ins))), **attrs)
        body = resolve(root, dtypes, self.name)

        def promoted(node: Scalar) -> Scalar | None:
            if node.op != "arg":
                return None
            return sc.cast(sc.arg(node.attr, ins[node.attr].dtype), node.dtype)

        body = sc.substitute(body, promoted)
        return Inference((spec(body.dtype, shape),), (), body)

    def weak_dtype(self, name: str, number: Weak, others: dict[str, DType]) -> DType:
        """The dtype that a Python number takes among operands of these dtypes."""
        kind = weak_kind(number)
        relevant = {n: d for n, d in others.items() if n not in self.exclude}
        common = self.common_dtype(relevant) if relevant and name not in self.exclude else None
        if common is None:
            return DEFAULT_OF_KIND[kind]
        return join_weak(common, kind, self.name)


class Derived:
    """Operations that no one declares: vector-Jacobian products of pointwise instances, made on demand and kept by these."""

    @classmethod
    def pointwise_vjp(cls, primal: Instance, operand: int) -> tuple[Instance, tuple[int, ...]] | None:
        """The instance computing operand's cotangent at the result's shape, and which primal operands it reads.

        Its inputs are the operands read, in order, then the cotangent. None where nothing flows back.
        """
        if operand not in primal.vjps:
            primal.vjps[operand] = cls._make(primal, operand)
        return primal.vjps[operand]

    @staticmethod
    def _make(primal: Instance, operand: int) -> tuple[Instance, tuple[int, ...]] | None:
        assert primal.body is not None
        out = primal.outs[0]
        count = len(primal.ins)
        found = derivative.vjp(primal.body, sc.arg(count, out.dtype), {operand}).get(operand)
        if found is None:
            return None
        used = sorted(sc.args_used(found) - {count})
        place = {old: new for new, old in enumerate([*used, count])}
        body = sc.substitute(found, lambda n: sc.arg(place[n.attr], n.dtype) if n.op == "arg" else None)
        ins = (*(primal.ins[i] for i in used), out)
        record = Operation(f"{primal.op.name}.vjp{operand}", "pointwise", primal.op.function, (), {})
        return Instance(record, ins, {}, Inference((spec(body.dtype, out.shape),), (), body)), tuple(used)
