"""One operation on each value of a sequence: the results are recorded together, and run in one submission."""

from __future__ import annotations

from collections.abc import Sequence

from oa.errors import ArgumentError
from oa.matrix.create import full_like
from oa.matrix.elementwise import add
from oa.matrix.value import Matrix


def multi_add(a: Sequence[Matrix], b: Sequence[Matrix]) -> tuple[Matrix, ...]:
    """a_k + b_k for each k: what `add` gives, of as many values as there are.

    Shapes: those of each pair, broadcast.
    Dtypes: numeric; each pair is promoted to its common dtype.
    Gradient: g to both, summed where they were broadcast.
    Raises: ArgumentError for sequences of different lengths; ShapeError and DTypeError as `add`.

    >>> one, two = oa.matrix.from_list(engine, [1.0]), oa.matrix.from_list(engine, [2.0, 3.0])
    >>> [x.tolist() for x in oa.matrix.multi_add([one, two], [one, one])]
    [[2.0], [3.0, 4.0]]
    """
    first, second = tuple(a), tuple(b)
    if len(first) != len(second):
        raise ArgumentError(
            f"matrix.multi_add: a has {len(first)} values and b {len(second)}; wanted as many of both"
        )
    return tuple(add(x, y) for x, y in zip(first, second))


def multi_fill(parts: Sequence[Matrix], value: bool | int | float) -> tuple[Matrix, ...]:
    """Values of the shapes and dtypes of those in `parts`, each filled with one number: `full_like` of each.

    Shapes: those of the parts.
    Dtypes: any.
    Gradient: none: the number is none of the operands.
    Raises: DTypeError for a number that a dtype does not hold.

    >>> [y.tolist() for y in oa.matrix.multi_fill([oa.matrix.zeros(engine, (2,)), oa.matrix.zeros(engine, (1,))], 7.0)]
    [[7.0, 7.0], [7.0]]
    """
    return tuple(full_like(one, value) for one in parts)


__all__ = ["multi_add", "multi_fill"]
