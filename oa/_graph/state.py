"""State cells: the one mutable thing. A cell holds an immutable value; assigning replaces it and is always computed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic

from oa._graph.node import again
from oa._schema.value import Typed
from oa.errors import ArgumentError, DTypeError, EngineMismatch, ShapeError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The type of a cell's value; a plain `State` holds any.
    V = TypeVar("V", bound=Typed, default=Any)
else:
    from typing import TypeVar

    V = TypeVar("V")


class State(Generic[V]):
    """A place on the device for a value that changes: parameters, moments, running statistics, a step count.

    Shape and dtype are fixed by the first value. `value` is an immutable reading: it keeps what it saw when the cell changes.

    Args:
        engine: the engine that holds the cell.
        value: the first value, of that engine.

    Raises:
        EngineMismatch: the value belongs to another engine.

    Example:
        >>> step = oa.State(engine, oa.matrix.zeros(engine, (), dtype=oa.int32))
        >>> step.assign(step.value + 1)
        >>> step.value.item()
        1
    """

    __slots__ = ("__weakref__", "_held", "_reading", "engine")

    def __init__(self, engine: Any, value: V) -> None:
        _check_value(engine, value, "State")
        self.engine = engine
        self._held: V = again(value)
        self._reading: weakref.ref[Any] | None = None

    @property
    def value(self) -> V:
        """The present value; while it is held and the cell unchanged, one and the same object."""
        found = self.engine._read_cell(self)
        reading = self._reading() if self._reading is not None else None
        if reading is None or reading._value is not found._value:
            reading = again(found)  # so that `reading[k] = v` leaves the cell as it is
            self._reading = weakref.ref(reading)
        return reading  # type: ignore[no-any-return]

    def assign(self, value: V) -> None:
        """Replace the value by one of the same engine, shape and dtype.

        Raises ShapeError, DTypeError or EngineMismatch; the cell then keeps its value.
        """
        _check_value(self.engine, value, "State.assign")
        have, new = self._held._value.spec, value._value.spec
        if new.shape != have.shape:
            raise ShapeError(f"State.assign: the value has shape {new.shape}; the cell holds {have.shape}")
        if new.dtype is not have.dtype:
            raise DTypeError(
                f"State.assign: the value is {new.dtype.name}; the cell holds {have.dtype.name}:"
                f" cast it with .astype(oa.{have.dtype.name})"
            )
        self.engine._assign_cell(self, again(value))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, which never changes."""
        found: tuple[int, ...] = self._held._value.spec.shape
        return found

    @property
    def dtype(self) -> Any:
        """The dtype, which never changes."""
        return self._held._value.spec.dtype

    def __repr__(self) -> str:
        return f"State({self._held._value.spec!r})"


def _check_value(engine: Any, value: Any, what: str) -> None:
    if not isinstance(value, Typed):
        raise ArgumentError(f"{what}: got {type(value).__name__}; wanted an oa value such as a Matrix")
    if value._engine is not engine:
        raise EngineMismatch(f"{what}: the value belongs to {value._engine!r}, the cell to {engine!r}")
