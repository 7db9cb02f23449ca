"""Rows by class: counts of right answers, and which rows go to which expert of a mixture. Nothing here has a gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

from oa._schema.dtype import bool_, int32, uint32
from oa._schema.spec import as_shape
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix.create import arange, zeros_like
from oa.matrix.elementwise import astype, equal, floor_divide, greater_equal, maximum, remainder, sign, where
from oa.matrix.indexing import _indices, take
from oa.matrix.reduce import argmax, sum
from oa.matrix.scan import cumulative_sum
from oa.matrix.search import flat_nonzero
from oa.matrix.shape import reshape
from oa.matrix.sorting import argsort, inverse
from oa.matrix.surface import shown
from oa.matrix.value import Matrix


class ExpertPlan(NamedTuple):
    """Choices in the order of their experts: how many each expert has, where its first is, and whose the choice at each place is.

    `inverse` (tokens, k) gives the place of each choice, so that results go back by `take(results, inverse, axis=0)`.
    """

    counts: Matrix
    offsets: Matrix
    token: Matrix
    expert: Matrix
    slot: Matrix
    inverse: Matrix


def categorical_accuracy_count(logits: Matrix, labels: Matrix, mask: Matrix | None = None) -> Matrix:
    """In how many rows the largest of the logits stands at the label: count of argmax(logits) == labels, of equals the first.

    A row where `mask` is 0 or False does not count, whatever its label.

    Shapes: logits (..., classes), labels and mask (...); the result has rank 0.
    Dtypes: real; labels are integers, the mask any; the result is uint32.
    Gradient: none: the result is not floating-point.
    Raises: ShapeError where the shapes do not fit; DTypeError for labels that are no integers.

    >>> logits = oa.matrix.from_list(engine, [[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]])
    >>> oa.matrix.categorical_accuracy_count(logits, oa.matrix.from_list(engine, [1, 1, 0])).item()
    2
    """
    name = "matrix.categorical_accuracy_count"
    for what, x in (("labels", labels), ("mask", mask)):
        if x is not None and x.shape != logits.shape[:-1]:
            raise ShapeError(
                f"{name}: {what} have shape {x.shape}; wanted {logits.shape[:-1]}, the logits' rows"
            )
    right = equal(argmax(logits, axis=-1), _indices(logits, labels, "categorical_accuracy_count"))
    if mask is not None:
        right = right & astype(mask, bool_)
    return sum(astype(right, uint32), dtype=uint32)


def compact_rows(x: Matrix, mask: Matrix, *, size: int | None = None) -> Matrix:
    """The rows x_k, along the first axis, where `mask` is not 0, in their order.

    How many there are is read from the device. Inside a capture give `size`: so many rows, filled up with 0.
    `count_nonzero(mask)` tells how many are kept.

    Shapes: (n, ...) and (n,) give (count, ...).
    Dtypes: any; the mask any.
    Gradient: g to the rows that were kept, 0 to others.
    Raises: ShapeError where the mask is not one number a row; CaptureError inside a capture without `size`.

    >>> x = oa.matrix.from_list(engine, [[1, 2], [3, 4], [5, 6]])
    >>> oa.matrix.compact_rows(x, oa.matrix.from_list(engine, [True, False, True])).tolist()
    [[1, 2], [5, 6]]
    """
    if not x.ndim or mask.shape != x.shape[:1]:
        raise ShapeError(
            f"matrix.compact_rows: x has shape {x.shape} and the mask {mask.shape}; wanted one number for each row"
        )
    places = flat_nonzero(mask, size, -1, "matrix.compact_rows")
    if size is None:
        return take(x, places, axis=0)
    kept = reshape(greater_equal(places, 0), (size, *(1 for _ in x.shape[1:])))
    rows = take(x, maximum(places, 0), axis=0)
    return where(kept, rows, zeros_like(rows))


def moe_expert_plan(indices: Matrix, count: int) -> ExpertPlan:
    """The choices of experts, `indices` (tokens, k), sorted by expert, those of one expert in the order of tokens and slots.

    A number that is no expert's comes first (negative) or last and counts for none.

    Shapes: counts and offsets (count,), token, expert and slot (tokens k,), inverse (tokens, k).
    Dtypes: integer; the results are int32.
    Gradient: none: indices are not floating-point.
    Raises: ShapeError unless indices have rank 2, or for a negative count; DTypeError for indices that are no integers.

    >>> plan = oa.matrix.moe_expert_plan(oa.matrix.from_list(engine, [[2, 0], [0, 1]]), 3)
    >>> (plan.counts.tolist(), plan.offsets.tolist(), plan.token.tolist())
    ([2, 1, 1], [0, 2, 3], [0, 1, 1, 0])
    """
    found = _indices(indices, indices, "moe_expert_plan")
    if found.ndim != 2:
        raise ShapeError(f"matrix.moe_expert_plan: indices have shape {found.shape}; wanted (tokens, k)")
    (count,) = as_shape((count,), "matrix.moe_expert_plan")
    tokens, k = found.shape
    flat = reshape(found, (tokens * k,))
    experts = reshape(arange(found.engine, count), (count, 1))
    counts = sum(astype(equal(experts, reshape(flat, (1, tokens * k))), int32), axis=1)
    below = sum(astype(flat < 0, int32))
    ends = cumulative_sum(counts) if count else counts
    offsets = ends - counts + below
    if flat.size == 0:
        return ExpertPlan(counts, offsets, flat, flat, flat, found)
    order = argsort(flat)
    back = reshape(inverse(reshape(order, (1, flat.size))), (tokens, k))
    return ExpertPlan(counts, offsets, floor_divide(order, k), take(flat, order), remainder(order, k), back)


def moe_routing_bias_update(mask: Matrix, bias: Matrix, k: int, gamma: float) -> Matrix:
    """bias + gamma sign(tokens k / experts - load): more for experts that got less than their share (Wang et al. 2024).

    The load of an expert is the sum of its column of the `mask` (see `top_k_mask`).

    Shapes: mask (..., experts) and bias (experts,) give (experts,); the axes in front count the tokens.
    Dtypes: floating-point.
    Gradient: g to the bias.
    Raises: ShapeError where the shapes do not fit; DTypeError for a bias that is not floating-point; ArgumentError unless k is
    an int from 1 to the number of experts.

    >>> mask = oa.matrix.from_list(engine, [[1.0, 0.0], [1.0, 0.0]])
    >>> oa.matrix.moe_routing_bias_update(mask, oa.matrix.zeros(engine, 2), 1, 0.5).tolist()
    [-0.5, 0.5]
    """
    if bias.ndim != 1 or bias.shape != mask.shape[-1:]:
        raise ShapeError(
            f"matrix.moe_routing_bias_update: mask {mask.shape} and bias {bias.shape}; wanted (..., experts) and (experts,)"
        )
    if not bias.dtype.is_float:
        raise DTypeError(
            f"matrix.moe_routing_bias_update: the bias is {bias.dtype.name}; cast it with .astype(oa.float32)"
        )
    if not hasattr(k, "__index__") or not 1 <= k <= bias.size:
        raise ArgumentError(
            f"matrix.moe_routing_bias_update: k is {shown(k)}; wanted how many of {bias.size} experts a token has"
        )
    load = sum(astype(mask, bias.dtype), axis=tuple(range(mask.ndim - 1)))
    share = math.prod(mask.shape[:-1]) * k / bias.size if bias.size else 0.0
    return bias + sign(share - load) * gamma


__all__ = ["ExpertPlan", "categorical_accuracy_count", "moe_expert_plan", "moe_routing_bias_update"]
