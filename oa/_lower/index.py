"""Index expressions: which element of a source an element of the iteration space reads.

An `Ix` is `const + sum(coefficient * atom)`; atoms are loop dimensions, quotients and remainders of other expressions, and
values read from data (gather). Extents are known here, so reshapes that only regroup leave no division behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from oa._graph.views import Broadcast, Part, Permute, Reshape, Slice, View, Window
from oa._schema.scalar import Scalar
from oa._schema.spec import Shape


class Dim:
    """Loop dimension number `axis`. Each is one object, so that it hashes by identity."""

    __slots__ = ("axis",)
    axis: int
    _made: ClassVar[dict[int, Dim]] = {}

    def __new__(cls, axis: int) -> Dim:
        found = cls._made.get(axis)
        if found is None:
            found = super().__new__(cls)
            found.axis = axis
            found = cls._made.setdefault(axis, found)
        return found

    def __repr__(self) -> str:
        return f"Dim({self.axis})"


@dataclass(frozen=True)
class Quotient:
    """`value // divisor`, value >= 0."""

    value: Ix
    divisor: int


@dataclass(frozen=True)
class Remainder:
    """`value % divisor`, value >= 0."""

    value: Ix
    divisor: int


@dataclass(frozen=True)
class Data:
    """An index read from memory, already made non-negative: a uint32 scalar."""

    scalar: Scalar


Atom = Dim | Quotient | Remainder | Data


class Ix:
    """`const + sum(coefficient * atom)`; terms sorted, no zero coefficients. Immutable, and compared by value."""

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, const: int = 0, terms: tuple[tuple[Atom, int], ...] = ()) -> None:
        self.const = const
        self.terms = terms
        self._hash = hash((const, terms))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Ix):
            return NotImplemented
        return self._hash == other._hash and self.const == other.const and self.terms == other.terms

    def __repr__(self) -> str:
        return f"Ix({self.const}, {self.terms})"

    def __add__(self, other: Ix) -> Ix:
        if not self.terms and not self.const:
            return other
        if not other.terms and not other.const:
            return self
        merged = dict(self.terms)
        for atom, factor in other.terms:
            merged[atom] = merged.get(atom, 0) + factor
        return make(self.const + other.const, merged)

    def scaled(self, factor: int) -> Ix:
        """Every term times `factor`."""
        if factor == 1:
            return self
        return make(self.const * factor, {a: c * factor for a, c in self.terms})

    @property
    def is_affine(self) -> bool:
        """Whether only loop dimensions occur."""
        return all(isinstance(a, Dim) for a, _ in self.terms)

    def upper(self, extents: Shape) -> int | None:
        """The largest value over the loop extents, None where it depends on data or a coefficient is negative."""
        total = self.const
        for atom, factor in self.terms:
            top = _atom_upper(atom, extents)
            if factor < 0 or top is None:
                return None
            total += factor * top
        return total


def _atom_upper(atom: Atom, extents: Shape) -> int | None:
    if isinstance(atom, Dim):
        return max(extents[atom.axis] - 1, 0)
    if isinstance(atom, Remainder):
        return atom.divisor - 1
    if isinstance(atom, Quotient):
        inner = atom.value.upper(extents)
        return None if inner is None else inner // atom.divisor
    return None


def _order(item: tuple[Atom, int]) -> tuple[int, int, int]:
    atom, factor = item
    if isinstance(atom, Dim):
        return (0, atom.axis, factor)
    if isinstance(atom, Data):
        return (3, atom.scalar.id, factor)
    return (1 if isinstance(atom, Quotient) else 2, atom.divisor, factor)


def make(const: int, terms: dict[Atom, int]) -> Ix:
    """An `Ix` in its one normal form."""
    if len(terms) > 1:
        for atom in terms:
            if type(atom) is Quotient:
                const, terms = _rejoin(const, terms)
                break
    kept = [(a, c) for a, c in terms.items() if c]
    if len(kept) > 1:
        kept.sort(key=_order)
    return Ix(const, tuple(kept))


def _rejoin(const: int, terms: dict[Atom, int]) -> tuple[int, dict[Atom, int]]:
    """`(v // n) * n * c + (v % n) * c` is `v * c`: what a regrouping that is undone leaves behind."""
    left = dict(terms)
    for atom, factor in terms.items():
        if not isinstance(atom, Quotient) or atom not in left or factor % atom.divisor:
            continue
        rest = Remainder(atom.value, atom.divisor)
        if left.get(rest) == factor // atom.divisor:
            del left[atom], left[rest]
            scale = factor // atom.divisor
            const += atom.value.const * scale
            for inner, times in atom.value.terms:
                left[inner] = left.get(inner, 0) + times * scale
            return _rejoin(const, left) if any(isinstance(a, Quotient) for a in left) else (const, left)
    return const, left


ZERO = Ix()
Coords = tuple[Ix, ...]


@lru_cache(maxsize=4096)
def dims(shape: Shape, first: int = 0) -> Coords:
    """The identity: each axis its own loop dimension, 0 where the extent is 1."""
    return tuple(ZERO if e == 1 else Ix(0, ((Dim(first + k), 1),)) for k, e in enumerate(shape))


def linear(coords: Coords, strides: tuple[int, ...], offset: int = 0) -> Ix:
    """`offset + sum(coordinate * stride)`."""
    merged: dict[Atom, int] = {}
    const = offset
    for coord, stride in zip(coords, strides):
        if stride == 0:
            continue
        const += coord.const * stride
        for atom, factor in coord.terms:
            merged[atom] = merged.get(atom, 0) + factor * stride
    return make(const, merged)


def divide(value: Ix, divisor: int, extents: Shape) -> tuple[Ix, Ix]:
    """Quotient and remainder of a non-negative index, simplified by what is known of its size and its factors."""
    if divisor == 1:
        return value, ZERO
    top = value.upper(extents)
    if top is not None and top < divisor:
        return ZERO, value
    exact = {a: c // divisor for a, c in value.terms if c % divisor == 0}
    rest = make(value.const % divisor, {a: c for a, c in value.terms if c % divisor})
    rest_top = rest.upper(extents)
    if rest_top is not None and rest_top < divisor:
        return make(value.const // divisor, exact), rest
    return (
        Ix(0, ((Quotient(value, divisor), 1),)),
        Ix(0, ((Remainder(value, divisor), 1),)),
    )


def through(view: View, coords: Coords, extents: Shape) -> Coords:
    """Coordinates in a view's operand for coordinates in its result."""
    if isinstance(view, Permute):
        source: list[Ix] = [ZERO] * len(coords)
        for k, axis in enumerate(view.axes):
            source[axis] = coords[k]
        return tuple(source)
    if isinstance(view, Broadcast):
        return broadcast_coords(view.source, coords)
    if isinstance(view, Slice):
        return tuple(
            Ix(start) + coord.scaled(step) for coord, start, step in zip(coords, view.starts, view.steps)
        )
    if isinstance(view, Part):
        return coords
    if isinstance(view, Window):
        return (Ix(view.start) + _flatten(coords, view.shape),)
    return _reshape(view, coords, extents)


def broadcast_coords(source: Shape, coords: Coords) -> Coords:
    """Coordinates in an operand of shape `source` that is broadcast against the result at its last axis."""
    own = coords[len(coords) - len(source) :]
    if 1 not in source:
        return own
    return tuple(ZERO if extent == 1 else coord for extent, coord in zip(source, own))


def _reshape(view: Reshape, coords: Coords, extents: Shape) -> Coords:
    """Axes are matched in groups of equal size, so that only a group that is split costs a division."""
    out: list[Ix] = []
    shape, source = view.shape, view.source
    if 0 in shape:
        return (ZERO,) * len(source)  # no element is ever read
    i = j = 0
    while i < len(shape) or j < len(source):
        first_i, first_j = i, j
        size_out = size_in = 1
        if i < len(shape):
            size_out, i = shape[i], i + 1
        if j < len(source):
            size_in, j = source[j], j + 1
        while size_out != size_in:
            if size_out < size_in:
                size_out, i = size_out * shape[i], i + 1
            else:
                size_in, j = size_in * source[j], j + 1
        if i - first_i == 1 == j - first_j:
            out.append(coords[first_i] if size_in != 1 else ZERO)
            continue
        flat = _flatten(coords[first_i:i], shape[first_i:i])
        out.extend(_unflatten(flat, source[first_j:j], extents))
    return tuple(out)


def _flatten(coords: Coords, shape: Shape) -> Ix:
    total = ZERO
    for coord, extent in zip(coords, shape):
        total = total.scaled(extent) + coord
    return total


def _unflatten(flat: Ix, shape: Shape, extents: Shape) -> list[Ix]:
    significant = [k for k, e in enumerate(shape) if e != 1]
    out = [ZERO] * len(shape)
    for k in reversed(significant):
        if k == significant[0]:
            out[k] = flat
        else:
            flat, out[k] = divide(flat, shape[k], extents)
    return out


def substitute(value: Ix, new: Coords) -> Ix:
    """`value` with loop dimension k replaced by `new[k]`; None of its atoms may read data."""
    total = Ix(value.const)
    for atom, factor in value.terms:
        total = total + _replace(atom, new).scaled(factor)
    return total


def _replace(atom: Atom, new: Coords) -> Ix:
    if isinstance(atom, Dim):
        return new[atom.axis]
    if isinstance(atom, Data):
        return Ix(0, ((atom, 1),))
    kind = type(atom)
    return Ix(0, ((kind(substitute(atom.value, new), atom.divisor), 1),))


def inverse(coords: Coords, space: Shape, shape: Shape) -> Coords | None:
    """Which coordinates of `space` read each element of `shape`, when reading at `coords` reads each once; else None.

    Told from digits: every coordinate is a sum of digits of coordinates of `space`, each digit once.
    """
    places: dict[
        int, list[tuple[int, int, Ix]]
    ] = {}  # axis of `space`: (weight, length, the digit in terms of `shape`)
    for axis, (ix, extent) in enumerate(zip(coords, shape)):
        left = Ix(0, ((Dim(axis), 1),)) if extent != 1 else ZERO
        step = 1
        terms = sorted(ix.terms, key=lambda term: term[1])
        for k, (atom, factor) in enumerate(terms):
            length = (terms[k + 1][1] if k + 1 < len(terms) else extent) // factor
            found = _digit(atom)
            if factor != step or found is None or length < 1:
                return None
            of, weight, modulus = found
            if modulus not in (length, 0) or (not modulus and weight * length != space[of]):
                return None
            left, digit = divide(left, length, shape)
            places.setdefault(of, []).append((weight, length, digit))
            step *= length
        if ix.const or step != extent:
            return None
    out = []
    for axis, extent in enumerate(space):
        total, step = ZERO, 1
        for weight, length, digit in sorted(places.get(axis, ()), key=lambda place: place[0]):
            if weight != step:
                return None
            total, step = total + digit.scaled(step), step * length
        if step != extent:
            return None
        out.append(total)
    return tuple(out)


def _digit(atom: Atom) -> tuple[int, int, int] | None:
    """(axis, weight, modulus or 0) of an atom that is `coordinate // weight % modulus`."""
    if isinstance(atom, Dim):
        return atom.axis, 1, 0
    if (
        isinstance(atom, Data)
        or atom.value.const
        or len(atom.value.terms) != 1
        or atom.value.terms[0][1] != 1
    ):
        return None
    inner = _digit(atom.value.terms[0][0])
    if inner is None:
        return None
    axis, weight, modulus = inner
    if isinstance(atom, Quotient):
        return (axis, weight * atom.divisor, modulus // atom.divisor) if modulus % atom.divisor == 0 else None
    return (axis, weight, atom.divisor) if not modulus or modulus % atom.divisor == 0 else None
