"""Trainable values, and the flat layout in which an optimiser keeps those of one group."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from oa import matrix
from oa._graph.state import State
from oa.errors import ArgumentError, DTypeError, EngineMismatch, ShapeError
from oa.matrix import Matrix
from oa.matrix.shape import window
from oa.matrix.surface import shown
from oa.ml import tape

#: A parameter starts at a multiple of so many elements: 256 bytes, the widest alignment any kernel asks for.
ALIGNMENT = 64


class Parameter:
    """A named place for a trainable float32 value on the device.

    Reading `value` gives an immutable Matrix; `assign` puts another one in its place and leaves those read earlier as they were.
    While a `GradientTape` is open, reading makes the tape watch the value.

    Args:
        value: the initial value, float32 of any shape.

    Raises:
        DTypeError: the initial value is not float32.

    Example:
        >>> weight = oa.ml.Parameter(oa.matrix.zeros(engine, (3, 4)))
        >>> weight.shape
        (3, 4)
    """

    __slots__ = ("__weakref__", "_flat", "_made", "_offset", "_shape", "_state", "_view", "_viewed")

    def __init__(self, value: Matrix) -> None:
        if value.dtype.name != "float32":
            raise DTypeError(f"Parameter: the value is {value.dtype.name}; cast it with .astype('float32')")
        self._state = State(value.engine, value)
        self._shape = tuple(value.shape)
        self._flat: FlatParameters | None = None
        self._offset = 0
        # Weak references to the last view, to its graph value and to that of the cell it is a part of: strong ones would
        # keep the cell's storage from being reused in place.
        self._view: Any = None
        self._viewed: tuple[Any, Any] = (None, None)

    @property
    def value(self) -> Matrix:
        """The present value. Two reads with no assignment between them give one and the same Matrix while it is held."""
        if self._flat is None:
            view: Matrix = self._state.value
        else:
            view = self._part_of(self._state.engine._read_cell(self._state))
        tape.read(self, view)
        return view

    def _part_of(self, source: Matrix) -> Matrix:
        """This parameter's part of the flat cell; the same object as long as it is held and means the same."""
        view: Matrix | None = None if self._view is None else self._view()
        if view is not None:
            part, whole = self._viewed
            if whole() is source._value and part() is view._value:
                return view
        view = _part(source, self._offset, self._shape)
        self._view = weakref.ref(view)
        self._viewed = weakref.ref(view._value), weakref.ref(source._value)
        return view

    def assign(self, value: Matrix) -> None:
        """Replace the value by one of the same shape, dtype and engine."""
        check_fits(self, value, "Parameter.assign")
        if self._flat is None:
            self._state.assign(value)
        else:
            self._flat.replace({self: value})

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, which never changes."""
        return self._shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return _count(self._shape)

    @property
    def engine(self) -> Any:
        """The engine that holds the value."""
        return self._state.engine

    def move_to(self, flat: FlatParameters, offset: int) -> None:
        """Live at `offset` of a flat cell from now on; called by `FlatParameters` only."""
        self._flat, self._offset, self._state = flat, offset, flat.state
        self._view = None

    @property
    def flat(self) -> FlatParameters | None:
        """The flat group that the parameter belongs to, None before an optimiser has taken it."""
        return self._flat

    def __repr__(self) -> str:
        return f"Parameter(shape={self._shape})"


class FlatParameters:
    """Parameters side by side in one float32 State cell, each starting at a multiple of 64 elements.

    A pointwise operation on `value` then updates all of them in one dispatch. Padding starts at zero and stays zero as long as
    updates map zero to zero where the gradient is zero.

    Raises:
        ArgumentError: no parameter, one twice, or one that belongs to another group already.
        EngineMismatch: parameters of two engines.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        if not parameters:
            raise ArgumentError("FlatParameters: the list of parameters is empty; wanted at least one")
        if len(set(map(id, parameters))) != len(parameters):
            raise ArgumentError("FlatParameters: a parameter is listed twice; list each once")
        for p in parameters:
            if not isinstance(p, Parameter):
                raise ArgumentError(
                    f"FlatParameters: {shown(p)} among the parameters; wanted a Parameter each"
                )
        engine = parameters[0].engine
        for p in parameters:
            if p.engine is not engine:
                raise EngineMismatch("FlatParameters: the parameters belong to two engines; group by engine")
            if p.flat is not None:
                raise ArgumentError(f"FlatParameters: {p!r} belongs to another optimiser; train it with one")
        self.engine = engine
        self.parameters = tuple(parameters)
        self._starts: list[int] = []
        size = 0
        for p in self.parameters:
            self._starts.append(size)
            size += -(-p.size // ALIGNMENT) * ALIGNMENT
        self.size = size
        self.state = State(engine, self.join([p.value for p in self.parameters]))
        for p, start in zip(self.parameters, self._starts):
            p.move_to(self, start)

    @property
    def value(self) -> Matrix:
        """All parameters as one float32 vector of `size` elements, padding included."""
        return self.state.value

    def assign(self, value: Matrix) -> None:
        """Replace all parameters at once by a vector in the flat layout."""
        self.state.assign(value)

    def join(self, parts: Sequence[Matrix | None]) -> Matrix:
        """One matrix per parameter, in order, laid out as `value` is; None stands for zeros.

        Raises:
            ArgumentError: another number of parts than parameters.
            ShapeError: a part has not its parameter's shape.
        """
        if len(parts) != len(self.parameters):
            raise ArgumentError(f"got {len(parts)} gradients or values for {len(self.parameters)} parameters")
        pieces: list[Matrix] = []
        for i, (p, part) in enumerate(zip(self.parameters, parts)):
            used = 0
            if part is not None:
                if tuple(part.shape) != p.shape:
                    raise ShapeError(f"gradient or value {i} has shape {part.shape}; wanted {p.shape}")
                pieces.append(matrix.reshape(part, (p.size,)))
                used = p.size
            empty = -(-p.size // ALIGNMENT) * ALIGNMENT - used
            if empty:
                pieces.append(matrix.zeros(self.engine, (empty,)))
        return pieces[0] if len(pieces) == 1 else matrix.concat(pieces, axis=0)

    def split(self, flat: Matrix) -> list[Matrix]:
        """The inverse of `join`: one view per parameter, in its shape."""
        return [_part(flat, start, p.shape) for p, start in zip(self.parameters, self._starts)]

    def replace(self, values: Mapping[Parameter, Matrix]) -> None:
        """Assign some of the parameters in one update of the cell."""
        kept = self.split(self.value)
        self.assign(self.join([values.get(p, old) for p, old in zip(self.parameters, kept)]))


def assign_all(values: Mapping[Parameter, Matrix]) -> None:
    """Assign many parameters, those of one flat group in one update. The values must fit (`check_fits`)."""
    groups: dict[FlatParameters, dict[Parameter, Matrix]] = {}
    for p, value in values.items():
        if p.flat is None:
            p.assign(value)
        else:
            groups.setdefault(p.flat, {})[p] = value
    for flat, members in groups.items():
        flat.replace(members)


def check_fits(parameter: Parameter, value: Matrix, what: str) -> None:
    """Raise ShapeError, DTypeError or EngineMismatch unless `value` can take the parameter's place."""
    if tuple(value.shape) != parameter.shape:
        raise ShapeError(f"{what}: the value has shape {tuple(value.shape)}; wanted {parameter.shape}")
    if value.dtype.name != "float32":
        raise DTypeError(f"{what}: the value is {value.dtype.name}; cast it with .astype('float32')")
    if value.engine is not parameter.engine:
        raise EngineMismatch(f"{what}: the value is of another engine; move it with oa.matrix.from_numpy")


def as_matrix(engine: Any, value: Any) -> Matrix:
    """`value` if it is a Matrix, else the upload of a NumPy array."""
    return value if isinstance(value, Matrix) else matrix.from_numpy(engine, value)


def _part(flat: Matrix, start: int, shape: tuple[int, ...]) -> Matrix:
    return window(flat, start, shape)


def _count(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
