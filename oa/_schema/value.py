"""The base of every typed value, and the recorder that operations speak to."""

from __future__ import annotations

from typing import Any, Protocol

from oa._schema.dtype import Weak
from oa._schema.spec import Spec


class Recorder(Protocol):
    """What an operation needs of whoever records it: an Engine, or the tracer of a composite's body."""

    def record(self, instance: Any, values: tuple[Any, ...], facade: type[Typed]) -> Any:
        """Append one operation and return its result, or a tuple of results, as `facade`."""

    def scalar_value(self, spec: Spec, number: Weak) -> Any:
        """A graph value for a Python number."""


class Typed:
    """A value with a meaning (Matrix, Image, ...): an engine and a node output of its graph."""

    __slots__ = ("__weakref__", "_engine", "_value")
    _engine: Any
    _value: Any

    def __init__(self, engine: Any, value: Any) -> None:
        self._engine = engine
        self._value = value
