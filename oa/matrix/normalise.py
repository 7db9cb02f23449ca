"""Normalisations over an axis, written with other operations; lowering fuses each into one kernel."""

from __future__ import annotations

from oa._schema import spec as sp
from oa._schema.declare import composite
from oa.matrix.elementwise import copy, exp, isfinite, log, reciprocal, where
from oa.matrix.reduce import peak, sum
from oa.matrix.value import Matrix


@composite
def softmax(x: Matrix, axis: int = -1) -> Matrix:
    """exp(x - max) / sum(exp(x - max)) along `axis`: positive, summing to 1. A row of -inf alone gives NaN.

    Shapes: any; the result has it too.
    Dtypes: floating-point.
    Gradient: r (g - sum(g r)).
    Raises: DTypeError for other dtypes; AxisError for an axis outside x.

    >>> oa.matrix.softmax(oa.matrix.zeros(engine, (1, 4))).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.softmax")
    if x.size == 0:
        return copy(x)
    grown = exp(x - peak(x, at, "matrix.softmax"))
    return grown * reciprocal(sum(grown, at, keepdims=True))


@composite
def log_softmax(x: Matrix, axis: int = -1) -> Matrix:
    """x - max - log(sum(exp(x - max))) along `axis`: the logarithm of `softmax` without its underflow.

    Shapes: any; the result has it too.
    Dtypes: floating-point.
    Gradient: g - softmax(x) sum(g).
    Raises: DTypeError for other dtypes; AxisError for an axis outside x.

    >>> [round(v, 4) for v in oa.matrix.log_softmax(oa.matrix.zeros(engine, 2)).tolist()]
    [-0.6931, -0.6931]
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.log_softmax")
    if x.size == 0:
        return copy(x)
    shifted = x - peak(x, at, "matrix.log_softmax")
    return shifted - log(sum(exp(shifted), at, keepdims=True))


@composite
def logsumexp(x: Matrix, axis: int = -1, keepdims: bool = False) -> Matrix:
    """log(sum(exp(x))) along `axis` without overflow; -inf over nothing or over -inf alone, inf where x holds inf.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: floating-point.
    Gradient: g softmax(x).
    Raises: DTypeError for other dtypes; AxisError for an axis outside x.

    >>> oa.matrix.logsumexp(oa.matrix.from_list(engine, [1000.0, 0.0])).item()
    1000.0
    """
    at = sp.normalize_axis(axis, x.ndim, "matrix.logsumexp")
    if x.shape[at] == 0:
        return log(sum(x, at, keepdims=keepdims))
    top = peak(x, at, "matrix.logsumexp")
    shift = where(isfinite(top), top, 0.0)
    total = log(sum(exp(x - shift), at, keepdims=True)) + shift
    return total if keepdims else sum(total, at)
