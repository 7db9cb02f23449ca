"""Every declared operation and value type, by name."""

from __future__ import annotations

from oa._schema.op import Operation
from oa._schema.value import Typed
from oa.errors import InternalError

_OPERATIONS: dict[str, Operation] = {}
_VALUE_TYPES: dict[str, type[Typed]] = {}


def add(operation: Operation) -> None:
    """Register an operation; a name is declared once."""
    if operation.name in _OPERATIONS:
        raise InternalError(f"operation {operation.name} is declared twice")
    _OPERATIONS[operation.name] = operation


def operations() -> dict[str, Operation]:
    """All operations declared so far, by name."""
    return dict(sorted(_OPERATIONS.items()))


def add_value_type(cls: type[Typed]) -> type[Typed]:
    """Register a value class under its name, the one that annotations use. A class decorator."""
    _VALUE_TYPES[cls.__name__] = cls
    return cls


def value_type(name: str) -> type[Typed]:
    """The value class of that name."""
    return _VALUE_TYPES[name]
