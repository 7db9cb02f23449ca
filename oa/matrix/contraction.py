"""Products summed over chosen axes: tensordot, vecdot, einsum. Each becomes matrix products of rank 3 at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oa._schema import spec as sp
from oa._schema.dtype import HALVES, float32, promote
from oa.errors import ArgumentError, AxisError, ShapeError
from oa.matrix.elementwise import astype, multiply
from oa.matrix.products import matmul
from oa.matrix.reduce import sum
from oa.matrix.shape import broadcast_to, permute_dims, reshape, slice
from oa.matrix.special import conjugated
from oa.matrix.value import Matrix


def matrix_transpose(x: Matrix) -> Matrix:
    """The last two axes swapped. Raises ShapeError below rank 2.

    Shapes: (..., m, n) gives (..., n, m).
    Dtypes: any.
    Gradient: g, transposed.

    >>> oa.matrix.matrix_transpose(oa.matrix.ones(engine, (4, 2, 3))).shape
    (4, 3, 2)
    """
    if x.ndim < 2:
        raise ShapeError(f"matrix.matrix_transpose: the value has rank {x.ndim}; wanted rank 2 or more")
    order = list(range(x.ndim))
    order[-1], order[-2] = order[-2], order[-1]
    return permute_dims(x, order)


def vecdot(a: Matrix, b: Matrix, *, axis: int = -1) -> Matrix:
    """The sum of conj(a) * b along `axis` (negative, counted before broadcasting), other axes broadcast.

    Shapes: operands broadcast but for `axis`, which goes.
    Dtypes: numeric; a and b are promoted to their common dtype.
    Gradient: conj(g) b to a and g a to b.
    Raises: AxisError for an axis outside the values; ShapeError for unequal extents; DTypeError for bool.

    >>> oa.matrix.vecdot(oa.matrix.ones(engine, (2, 3)), oa.matrix.full(engine, 3, 2.0)).tolist()
    [6.0, 6.0]
    """
    name = "matrix.vecdot"
    left, right = sp.normalize_axis(axis, a.ndim, name), sp.normalize_axis(axis, b.ndim, name)
    if a.shape[left] != b.shape[right]:
        raise ShapeError(f"{name}: axis {axis} has extent {a.shape[left]} in a and {b.shape[right]} in b")
    product = multiply(conjugated(_axis_last(a, left)), _axis_last(b, right))
    return sum(product, axis=-1, dtype=product.dtype)


def _axis_last(x: Matrix, axis: int) -> Matrix:
    return permute_dims(x, [*(k for k in range(x.ndim) if k != axis), axis])


def tensordot(a: Matrix, b: Matrix, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Matrix:
    """Products of a and b summed over pairs of axes: the last n of a with the first n of b, or (axes of a, axes of b).

    The result has a's other axes, then b's.

    Shapes: a's axes that are not summed, then b's.
    Dtypes: numeric; a and b are promoted to their common dtype.
    Gradient: as of `matmul`.
    Raises: AxisError for axes outside or named twice; ShapeError for unequal extents; DTypeError for bool.

    >>> oa.matrix.tensordot(oa.matrix.ones(engine, (2, 3, 4)), oa.matrix.ones(engine, (3, 4, 5))).shape
    (2, 5)
    """
    name = "matrix.tensordot"
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise AxisError(f"{name}: {axes} axes of values of rank {a.ndim} and {b.ndim}")
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left = [sp.normalize_axis(k, a.ndim, name) for k in axes[0]]
        right = [sp.normalize_axis(k, b.ndim, name) for k in axes[1]]
    extents = [a.shape[k] for k in left]
    if len(left) != len(right) or extents != [b.shape[k] for k in right]:
        raise ShapeError(f"{name}: axes {axes} of shapes {a.shape} and {b.shape} do not have equal extents")
    if len(set(left)) != len(left) or len(set(right)) != len(right):
        raise AxisError(f"{name}: axes {axes} name one axis twice")
    kept_a = [k for k in range(a.ndim) if k not in left]
    kept_b = [k for k in range(b.ndim) if k not in right]
    rows, columns = [a.shape[k] for k in kept_a], [b.shape[k] for k in kept_b]
    inner = math.prod(extents)
    flat_a = reshape(permute_dims(a, [*kept_a, *left]), (math.prod(rows), inner))
    flat_b = reshape(permute_dims(b, [*right, *kept_b]), (inner, math.prod(columns)))
    return reshape(matmul(flat_a, flat_b), (*rows, *columns))


# -- einsum


def einsum(subscripts: str, *operands: Matrix) -> Matrix:
    """Einstein summation, NumPy's notation: "ij,jk->ik"; "..." stands for axes that broadcast.

    Operands are contracted from left to right, each step a matrix product, or a sum of products where it has no rows and columns.

    Raises ArgumentError for malformed subscripts, ShapeError when a label has two extents.

    Shapes: by the labels.
    Dtypes: numeric; operands are promoted to their common dtype.
    Gradient: as of `matmul`, step by step.

    >>> a = oa.matrix.ones(engine, (2, 3))
    >>> oa.matrix.einsum("ij,kj->ik", a, a).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    inputs, output = _parse(subscripts, operands)
    sizes = _sizes(inputs, operands, subscripts)
    missing = [label for label in output if label not in sizes]
    if missing or len(set(output)) != len(output):
        raise ArgumentError(f"matrix.einsum: {subscripts!r}: each output label once, and from an operand")
    labels, value = _single(inputs[0], operands[0])
    for k in range(1, len(operands)):
        later = {label for labels_ in inputs[k + 1 :] for label in labels_}
        other_labels, other = _single(inputs[k], operands[k])
        labels, value = _pair(labels, value, other_labels, other, later | set(output), sizes)
    return _finished(labels, value, output, sizes)


def _parse(subscripts: str, operands: tuple[Matrix, ...]) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand and of the result; axes under an ellipsis are named "0", "1", ... from the right."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    legal = (
        all(c.isalpha() or c in ".,->" for c in text) and len(terms) == len(operands) and len(operands) > 0
    )
    if not legal:
        raise ArgumentError(f"matrix.einsum: {subscripts!r} does not describe {len(operands)} operands")
    inputs = [_labels(term, x.ndim, subscripts) for term, x in zip(terms, operands)]
    hidden = sorted({c for labels in inputs for c in labels if c.isdigit()}, key=int, reverse=True)
    if arrow:
        before, dots, after = right.partition("...")
        return inputs, [*before, *(hidden if dots else ()), *after]
    flat = [c for labels in inputs for c in labels if c.isalpha()]
    return inputs, [*hidden, *sorted(c for c in set(flat) if flat.count(c) == 1)]


def _labels(term: str, rank: int, subscripts: str) -> list[str]:
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if "." in before + after or hidden < 0 or (hidden and not dots):
        raise ArgumentError(f"matrix.einsum: {subscripts!r}: term {term!r} does not fit rank {rank}")
    return [*before, *(str(k) for k in reversed(range(hidden))), *after]


def _sizes(inputs: list[list[str]], operands: tuple[Matrix, ...], subscripts: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for labels, x in zip(inputs, operands):
        for label, extent in zip(labels, x.shape):
            have = sizes.setdefault(label, extent)
            if have == 1:
                sizes[label] = extent
            elif extent not in (have, 1):
                raise ShapeError(f"matrix.einsum: {subscripts!r}: label {label} is {have} and {extent}")
    return sizes


def _single(labels: list[str], x: Matrix) -> tuple[list[str], Matrix]:
    """Repeated labels of one operand become its diagonal."""
    labels = list(labels)
    while len(set(labels)) != len(labels):
        first = next(c for c in labels if labels.count(c) > 1)
        i = labels.index(first)
        j = labels.index(first, i + 1)
        extent = x.shape[i]
        if x.shape[j] != extent:
            raise ShapeError(f"matrix.einsum: label {first} is {extent} and {x.shape[j]}")
        rest = [k for k in range(x.ndim) if k not in (i, j)]
        other = tuple(x.shape[k] for k in rest)
        flat = reshape(permute_dims(x, [*rest, i, j]), (*other, extent * extent))
        x = slice(flat, -1, 0, None, extent + 1)
        labels = [labels[k] for k in rest] + [first]
    return labels, x


def _pair(
    a_labels: list[str], a: Matrix, b_labels: list[str], b: Matrix, kept: set[str], sizes: dict[str, int]
) -> tuple[list[str], Matrix]:
    """One contraction: labels of both that nobody needs are summed by a matrix product, the others of both are its batch."""
    a_labels, a = _summed(a_labels, a, kept | set(b_labels))
    b_labels, b = _summed(b_labels, b, kept | set(a_labels))
    shared = [c for c in a_labels if c in b_labels]
    batch, inner = [c for c in shared if c in kept], [c for c in shared if c not in kept]
    rows, columns = ([c for c in labels if c not in shared] for labels in (a_labels, b_labels))

    def size(labels: list[str]) -> int:
        return math.prod(sizes[c] for c in labels)

    left = reshape(
        _ordered(a, a_labels, [*batch, *rows, *inner], sizes), (size(batch), size(rows), size(inner))
    )
    right = reshape(
        _ordered(b, b_labels, [*batch, *inner, *columns], sizes), (size(batch), size(inner), size(columns))
    )
    labels = [*batch, *rows, *columns]
    if not inner:
        found = multiply(left, right)
    elif not rows and not columns:
        found = _dots(reshape(left, (size(batch), size(inner))), reshape(right, (size(batch), size(inner))))
    else:
        found = matmul(left, right)
    return labels, reshape(found, tuple(sizes[c] for c in labels))


def _dots(a: Matrix, b: Matrix) -> Matrix:
    """Row by row the sum of products: as a reduction, since a matrix product of single rows has nothing to share."""
    dtype = promote(a.dtype, b.dtype, "matrix.einsum")
    if dtype in HALVES:  # rounded once, as a product's elements are
        return astype(_dots(astype(a, float32), astype(b, float32)), dtype)
    return sum(multiply(a, b), axis=-1, dtype=dtype)


def _summed(labels: list[str], x: Matrix, wanted: set[str]) -> tuple[list[str], Matrix]:
    drop = tuple(k for k, c in enumerate(labels) if c not in wanted)
    return ([c for c in labels if c in wanted], sum(x, axis=drop, dtype=x.dtype)) if drop else (labels, x)


def _ordered(x: Matrix, labels: list[str], order: list[str], sizes: dict[str, int]) -> Matrix:
    moved = permute_dims(x, [labels.index(c) for c in order])
    return broadcast_to(moved, tuple(sizes[c] for c in order))


def _finished(labels: list[str], value: Matrix, output: list[str], sizes: dict[str, int]) -> Matrix:
    labels, value = _summed(labels, value, set(output))
    return _ordered(value, labels, output, sizes)


__all__: list[Any] = ["einsum", "matrix_transpose", "tensordot", "vecdot"]
