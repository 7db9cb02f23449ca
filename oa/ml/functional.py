"""Operations of machine learning as functions: layer normalisation, attention, dropout, cross entropy."""

from __future__ import annotations

import math

from oa import matrix
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix import Matrix
from oa.matrix.elementwise import ordered
from oa.matrix.indexing import classes

#: Score of a forbidden position: finite, so that no gradient meets inf - inf, and so low that its weight is exactly zero.
FORBIDDEN = -1e30


def layer_norm(x: Matrix, weight: Matrix, bias: Matrix, eps: float = 1e-5) -> Matrix:
    """y = weight (x - mean) / sqrt(variance + eps) + bias over the last axis; the variance is the mean square deviation.

    The deviation is taken in two passes, so a large mean costs no precision.

    Shapes: x [..., C], weight [C], bias [C], result [..., C].
    Dtypes: floating-point; operands are promoted to their common dtype.
    Gradient: to x, weight and bias, by the chain rule.

    Raises:
        ShapeError: weight or bias is not [C].
        ArgumentError: eps is negative or not finite.

    Example:
        >>> x = oa.matrix.from_list(engine, [[1.0, 3.0]])
        >>> oa.ml.layer_norm(x, oa.matrix.ones(engine, 2), oa.matrix.zeros(engine, 2), eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    for name, value in (("weight", weight), ("bias", bias)):
        if value.shape != x.shape[-1:]:
            raise ShapeError(f"layer_norm: {name} has shape {value.shape}; x {x.shape} wants {x.shape[-1:]}")
    check_spread(eps, "layer_norm")
    ordered(x, "layer_norm")  # the square of a complex deviation is no spread
    centred = x - matrix.mean(x, axis=-1, keepdims=True)
    variance = matrix.mean(centred * centred, axis=-1, keepdims=True)
    scale = 1.0 / matrix.sqrt(variance + eps)  # once a row, so that an element costs multiplications only
    return centred * scale * weight + bias


def scaled_dot_product_attention(
    query: Matrix, key: Matrix, value: Matrix, *, causal: bool = False, mask: Matrix | None = None
) -> Matrix:
    """softmax(query key^T / sqrt(D) + mask) value, with later positions forbidden if `causal`.

    `mask` is added to the scores; use a large negative number to forbid.

    Shapes: query [..., T, D], key [..., S, D], value [..., S, E], mask broadcastable to [..., T, S]; result [..., T, E].
    Dtypes: floating-point; operands are promoted to their common dtype.
    Gradient: to query, key, value and mask, by the chain rule.

    Raises:
        ShapeError: query and key differ in D, or `causal` with T != S.

    Example:
        >>> q = oa.matrix.zeros(engine, (2, 4))
        >>> v = oa.matrix.from_list(engine, [[1.0], [3.0]])
        >>> oa.ml.scaled_dot_product_attention(q, q, v, causal=True).tolist()
        [[1.0], [2.0]]
    """
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"scaled_dot_product_attention: query {query.shape} and key {key.shape} differ in the last axis"
        )
    rows, columns = query.shape[-2], key.shape[-2]
    scores = matrix.matmul(query, matrix.transpose(key, -1, -2)) * (1.0 / math.sqrt(query.shape[-1]))
    if mask is not None:
        scores = scores + mask
    if causal:
        if rows != columns:
            raise ShapeError(
                f"scaled_dot_product_attention: causal wants as many queries as keys, got {rows} and {columns}"
            )
        position = matrix.arange(query.engine, rows)
        allowed = matrix.expand_dims(position, 1) >= matrix.expand_dims(position, 0)
        scores = matrix.where(allowed, scores, FORBIDDEN)
    return matrix.matmul(matrix.softmax(scores, axis=-1), value)


def dropout(x: Matrix, p: float = 0.5) -> Matrix:
    """Each element is zeroed with probability p, the others are divided by 1 - p. Draws from the engine's random state.

    Shapes: any; the result has it too.
    Dtypes: floating-point and complex.
    Gradient: g / (1 - p) where the element was kept, 0 elsewhere.

    Raises:
        ArgumentError: p is not in [0, 1).

    Example:
        >>> oa.ml.dropout(oa.matrix.ones(engine, 3), 0.0).tolist()
        [1.0, 1.0, 1.0]
    """
    check_probability(p, "dropout")
    if p == 0.0:
        return x
    kept = matrix.uniform(x.engine, x.shape) >= p
    return matrix.where(kept, x * (1.0 / (1.0 - p)), 0.0)


def check_spread(eps: float, what: str) -> None:
    """Raise ArgumentError unless eps is 0 or more and finite."""
    if not 0.0 <= eps < math.inf:
        raise ArgumentError(f"{what}: eps is {eps!r}; wanted a number of 0 or more")


def check_probability(p: float, what: str) -> None:
    """Raise ArgumentError unless 0 <= p < 1."""
    if not 0.0 <= p < 1.0:
        raise ArgumentError(f"{what}: p is {p!r}; wanted a probability of at least 0 and below 1")


def cross_entropy(logits: Matrix, targets: Matrix, *, ignore_index: int | None = None) -> Matrix:
    """-mean over all tokens of log softmax(logits)[target], in nats.

    A target that is no class number, below 0 or of V or more, makes the loss NaN: the device cannot raise, and nothing is read
    back to look. Tokens whose target is `ignore_index` count neither in the sum nor in the mean (default None: every token
    counts); with all of them ignored the loss is NaN.

    Shapes: logits [..., V], targets [...]; the result has rank 0.
    Dtypes: floating-point; targets are integer class numbers.
    Gradient: (softmax(logits) - one_hot(targets)) g / tokens to the logits; targets have none.

    Raises:
        ShapeError: targets do not have the shape of logits without the last axis.
        DTypeError: targets are not integers, or are of a dtype that does not hold `ignore_index`.

    Example:
        >>> logits = oa.matrix.zeros(engine, (2, 4))
        >>> oa.ml.cross_entropy(logits, oa.matrix.from_list(engine, [1, 3])).item()  # log 4
        1.3862943649291992
    """
    if logits.ndim == 0 or targets.shape != logits.shape[:-1]:
        raise ShapeError(
            f"cross_entropy: targets have shape {targets.shape}; logits {logits.shape} want {logits.shape[:-1]}"
        )
    if not targets.dtype.is_integer:
        raise DTypeError(f"cross_entropy: targets are {targets.dtype.name}; wanted integer class numbers")
    if ignore_index is not None and not isinstance(ignore_index, int):
        raise ArgumentError(f"cross_entropy: ignore_index is {ignore_index!r}; wanted None or an int")
    number = matrix.expand_dims(classes(targets, "cross_entropy"), -1)
    picked = matrix.gather(matrix.log_softmax(logits, axis=-1), number, axis=-1)
    if ignore_index is None:
        return -matrix.mean(picked)
    counts = matrix.not_equal(targets, ignore_index)
    total = matrix.sum(matrix.where(counts, matrix.reshape(picked, targets.shape), 0.0))
    return -(total / matrix.sum(counts.astype(logits.dtype)))
