"""The decorators with which domain modules declare operations. See `oa._schema.op` for what each form means."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from oa._schema import registry
from oa._schema.call import wrap
from oa._schema.op import OPERAND_ANNOTATIONS, Operation
from oa._schema.value import Typed
from oa.errors import InternalError

F = TypeVar("F", bound=Callable[..., Any])


def _operation(function: Callable[..., Any], kind: str, **fields: Any) -> Operation:
    parameters = inspect.signature(function).parameters
    operands = tuple(n for n, p in parameters.items() if p.annotation in OPERAND_ANNOTATIONS)
    attributes = {n: p.default for n, p in parameters.items() if n not in operands}
    domain = function.__module__.split(".")[1]
    name = function.__name__.lstrip("_")
    return Operation(f"{domain}.{name}", kind, function, operands, attributes, **fields)


def _declare(function: F, kind: str, **fields: Any) -> F:
    operation = _operation(function, kind, **fields)
    registry.add(operation)
    annotation = str(inspect.signature(function).return_annotation)

    def facade() -> type[Typed]:
        return registry.value_type(annotation)

    return wrap(operation, function, facade)  # type: ignore[return-value]


def pointwise(*, kinds: str = "biufc", exclude: tuple[str, ...] = ()) -> Callable[[F], F]:
    """A scalar expression applied element by element with broadcasting.

    `kinds` are the NumPy kind letters accepted; operands in `exclude` keep their own dtype instead of being promoted.
    """
    return lambda function: _declare(function, "pointwise", form="expression", kinds=kinds, exclude=exclude)


def composite(function: F) -> F:
    """An operation written with other operations."""
    return _declare(function, "composite", form="composite")


def primitive(kind: str) -> Callable[[F], F]:
    """An operation that the lowering knows by `kind`; the body is its inference rule."""
    return lambda function: _declare(function, kind)


def gradient(operation: Callable[..., Any]) -> Callable[[F], F]:
    """Attach a gradient rule `rule(instance, cotangent, **kept)` to a primitive.

    `kept` names operands of the operation, or `result`. It returns one cotangent (or None) per operand.
    """

    def attach(rule: F) -> F:
        record: Operation = operation.operation  # type: ignore[attr-defined]
        record.gradient = rule
        record.saves = tuple(inspect.signature(rule).parameters)[2:]
        unknown = set(record.saves) - {*record.operands, "result"}
        if unknown:
            raise InternalError(f"{record.name}: the gradient rule names {sorted(unknown)}, which it has not")
        return rule

    return attach
