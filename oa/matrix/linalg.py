"""`oa.matrix.linalg`, the array API's namespace: decompositions, solutions and norms of matrices and of stacks of them.

Everything runs on the device. float32 and float64 are accepted where a division or root is taken; the last two axes are the
matrix, those before them a stack. An input that has no answer (a singular matrix to `solve`, one that is not positive definite
to `cholesky`) gives infinities or NaN, since a device cannot raise.

Each decomposition is a loop of small operations, one batch a row or a rotation of all columns: right for matrices of up to some
hundreds of rows, and for stacks of them; slow beside a blocked kernel for larger ones.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from oa._schema import spec as sp
from oa._schema.dtype import as_float
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix import decompose
from oa.matrix.contraction import matrix_transpose, tensordot, vecdot
from oa.matrix.create import eye, ones, zeros
from oa.matrix.dtypes import finfo, result_type
from oa.matrix.elementwise import (
    abs,
    astype,
    divide,
    log,
    multiply,
    not_equal,
    pow,
    sign,
    sqrt,
    where,
)
from oa.matrix.products import matmul
from oa.matrix.reduce import _peak, max, min, prod, sum
from oa.matrix.search import count_nonzero
from oa.matrix.shape import broadcast_to, concat, reshape, slice
from oa.matrix.value import Matrix


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Matrix
    eigenvectors: Matrix


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Matrix
    R: Matrix


class SlogdetResult(NamedTuple):
    """Sign, and logarithm of the magnitude, of a determinant."""

    sign: Matrix
    logabsdet: Matrix


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Matrix
    S: Matrix
    Vh: Matrix


def _stack(x: Matrix, name: str, square: bool = False) -> tuple[Matrix, tuple[int, ...]]:
    """x as (batch, m, n), and the axes of the stack."""
    if not isinstance(x, Matrix):
        raise ArgumentError(f"matrix.linalg.{name}: x is a {type(x).__name__}; wanted a Matrix")
    if not x.dtype.is_float or x.dtype.bits < 32:
        raise DTypeError(
            f"matrix.linalg.{name}: {x.dtype.name} is not accepted; wanted float32 or float64. Cast first: x.astype(oa.float32)"
        )
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        wanted = "square matrices over the last two axes" if square else "rank 2 or more"
        raise ShapeError(f"matrix.linalg.{name}: x has shape {x.shape}; wanted {wanted}")
    return reshape(x, (math.prod(x.shape[:-2]), *x.shape[-2:])), x.shape[:-2]


def _unstack(x: Matrix, stack: tuple[int, ...]) -> Matrix:
    return reshape(x, (*stack, *x.shape[1:]))


# -- decompositions


def svd(x: Matrix, *, full_matrices: bool = True) -> SVDResult:
    """x = U diag(S) Vh with orthonormal U and Vh, S >= 0 in descending order; by Jacobi rotations (Hestenes 1958).

    S is within a few eps times the largest of it, and U and Vh are orthonormal to a few eps.

    Shapes: (..., m, n); with k = min(m, n), S is (..., k), U (..., m, k) and Vh (..., k, n), both square with `full_matrices`.
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the iteration, where singular values differ.
    Raises: ShapeError below rank 2; DTypeError for other dtypes.

    >>> oa.matrix.linalg.svd(oa.matrix.from_list(engine, [[0.0, 2.0], [1.0, 0.0]])).S.tolist()
    [2.0, 1.0]
    """
    flat, stack = _stack(x, "svd")
    rows, columns = x.shape[-2:]
    size = builtins.min(rows, columns)
    if flat.size == 0:
        u = decompose.identity(flat, rows, rows if full_matrices else size)
        v = decompose.identity(flat, columns if full_matrices else size, columns)
        s = zeros(x.engine, (flat.shape[0], size), dtype=x.dtype)
    else:
        u, s, v = decompose.svd(flat, full_matrices)
        v = decompose.transposed(v)
    return SVDResult(_unstack(u, stack), _unstack(s, stack), _unstack(v, stack))


def svdvals(x: Matrix) -> Matrix:
    """The singular values of x in descending order, as `svd` has them.

    Shapes: (..., m, n) gives (..., min(m, n)).
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the iteration, where singular values differ.
    Raises: ShapeError below rank 2; DTypeError for other dtypes.

    >>> oa.matrix.linalg.svdvals(oa.matrix.from_list(engine, [[3.0], [4.0]])).tolist()
    [5.0]
    """
    flat, stack = _stack(x, "svdvals")
    if flat.size == 0:
        return zeros(x.engine, (*stack, builtins.min(*x.shape[-2:])), dtype=x.dtype)
    return _unstack(decompose.svd(flat, False, False)[1], stack)


def eigh(x: Matrix) -> EighResult:
    """x = V diag(w) V^T of symmetric x: w in ascending order, V orthonormal. Only the lower triangle of x is read.

    Shapes: (..., n, n) gives (..., n) and (..., n, n).
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the iteration, where eigenvalues differ.
    Raises: ShapeError unless x is square; DTypeError for other dtypes.

    >>> w, v = oa.matrix.linalg.eigh(oa.matrix.from_list(engine, [[2.0, 0.0], [0.0, 1.0]]))
    >>> w.tolist()
    [1.0, 2.0]
    """
    flat, stack = _stack(x, "eigh", True)
    if flat.size == 0:
        return EighResult(
            zeros(x.engine, x.shape[:-1], dtype=x.dtype), zeros(x.engine, x.shape, dtype=x.dtype)
        )
    values, vectors = decompose.eigh(flat)
    return EighResult(_unstack(values, stack), _unstack(vectors, stack))


def eigvalsh(x: Matrix) -> Matrix:
    """The eigenvalues of symmetric x in ascending order, as `eigh` has them.

    Shapes: (..., n, n) gives (..., n).
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the iteration, where eigenvalues differ.
    Raises: ShapeError unless x is square; DTypeError for other dtypes.

    >>> oa.matrix.linalg.eigvalsh(oa.matrix.from_list(engine, [[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    flat, stack = _stack(x, "eigvalsh", True)
    if flat.size == 0:
        return zeros(x.engine, x.shape[:-1], dtype=x.dtype)
    return _unstack(decompose.eigh(flat, False)[0], stack)


def qr(x: Matrix, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """x = Q R: orthonormal columns Q and an upper triangle R, by Householder reflections.

    Shapes: (..., m, n); with k = min(m, n), or m where `mode` is "complete", Q is (..., m, k) and R (..., k, n).
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the reflections.
    Raises: ShapeError below rank 2; ArgumentError for another `mode`; DTypeError for other dtypes.

    >>> q, r = oa.matrix.linalg.qr(oa.matrix.from_list(engine, [[0.0, 2.0], [3.0, 0.0]]))
    >>> (q.tolist(), r.tolist())
    ([[0.0, -1.0], [-1.0, 0.0]], [[-3.0, 0.0], [0.0, -2.0]])
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"matrix.linalg.qr: mode {mode!r} is neither 'reduced' nor 'complete'")
    flat, stack = _stack(x, "qr")
    rows, width = x.shape[-2:]
    columns = rows if mode == "complete" else builtins.min(rows, width)
    if flat.size == 0:
        q, r = (
            decompose.identity(flat, rows, columns),
            zeros(x.engine, (flat.shape[0], columns, width), dtype=x.dtype),
        )
    else:
        q, r = decompose.qr(flat, columns)
    return QRResult(_unstack(q, stack), _unstack(r, stack))


def cholesky(x: Matrix, *, upper: bool = False) -> Matrix:
    """Lower triangular L with x = L L^T, or with `upper` U = L^T; NaN where x is not positive definite.

    Only the lower triangle of x is read.

    Shapes: (..., n, n); the result has it too.
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the elimination.
    Raises: ShapeError unless x is square; DTypeError for other dtypes.

    >>> oa.matrix.linalg.cholesky(oa.matrix.from_list(engine, [[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    flat, stack = _stack(x, "cholesky", True)
    if flat.size == 0:
        return x.copy()
    found = _unstack(decompose.cholesky(flat), stack)
    return matrix_transpose(found) if upper else found


# -- equations and determinants


def solve(a: Matrix, b: Matrix) -> Matrix:
    """x with a x = b, by elimination with row exchanges; infinities or NaN where a is singular.

    Shapes: a (..., n, n), b (..., n, k) or (n,); stacks broadcast, the result has b's matrix axes.
    Dtypes: floating-point of 32 bits or more; a and b are promoted to their common dtype.
    Gradient: through the elimination.
    Raises: ShapeError unless a is square and b has as many rows; DTypeError for other dtypes.

    >>> a = oa.matrix.from_list(engine, [[2.0, 0.0], [0.0, 4.0]])
    >>> oa.matrix.linalg.solve(a, oa.matrix.from_list(engine, [2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    common = result_type(a, b)
    a, b = astype(a, common), astype(b, common)
    _stack(a, "solve", True)
    right = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    if right.ndim < 2 or right.shape[-2] != a.shape[-1]:
        raise ShapeError(f"matrix.linalg.solve: a {a.shape} and b {b.shape} do not have as many rows")
    batch = sp.broadcast([a.shape[:-2], right.shape[:-2]], "matrix.linalg.solve", ("a", "b"))
    size, width = right.shape[-2:]
    shape = (*batch, size, width) if b.ndim > 1 else (*batch, size)
    if math.prod(shape) == 0:
        return zeros(a.engine, shape, dtype=common)
    both = concat(
        [broadcast_to(a, (*batch, size, size)), broadcast_to(right, (*batch, size, width))], axis=-1
    )
    found, _ = decompose.eliminated(reshape(both, (math.prod(batch), size, size + width)), size, True)
    return reshape(slice(found, 2, size, None), shape)


def inv(x: Matrix) -> Matrix:
    """The inverse: `solve(x, I)`; infinities or NaN where x is singular.

    Shapes: (..., n, n); the result has it too.
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the elimination.
    Raises: ShapeError unless x is square; DTypeError for other dtypes.

    >>> oa.matrix.linalg.inv(oa.matrix.from_list(engine, [[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    _stack(x, "inv", True)
    return solve(x, broadcast_to(eye(x.engine, x.shape[-1], dtype=x.dtype), x.shape))


def _pivots(x: Matrix, name: str) -> tuple[Matrix, tuple[int, ...]]:
    flat, stack = _stack(x, name, True)
    if flat.size == 0:
        return ones(x.engine, (flat.shape[0], 1), dtype=x.dtype), stack
    return decompose.eliminated(flat, x.shape[-1], False)[1], stack


def det(x: Matrix) -> Matrix:
    """The determinant: the product of the pivots of an elimination, by the sign of its row exchanges.

    Shapes: (..., n, n) gives (...).
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the elimination.
    Raises: ShapeError unless x is square; DTypeError for other dtypes.

    >>> oa.matrix.linalg.det(oa.matrix.from_list(engine, [[0.0, 2.0], [3.0, 0.0]])).item()
    -6.0
    """
    pivots, stack = _pivots(x, "det")
    return _unstack(prod(pivots, axis=1), stack)


def slogdet(x: Matrix) -> SlogdetResult:
    """Sign and logarithm of the magnitude of the determinant, without its overflow; (0, -inf) where x is singular.

    Shapes: (..., n, n) gives two of (...).
    Dtypes: floating-point of 32 bits or more.
    Gradient: through the elimination, of the logarithm.
    Raises: ShapeError unless x is square; DTypeError for other dtypes.

    >>> [v.item() for v in oa.matrix.linalg.slogdet(oa.matrix.from_list(engine, [[0.0, 1.0], [1.0, 0.0]]))]
    [-1.0, 0.0]
    """
    pivots, stack = _pivots(x, "slogdet")
    signs, logarithms = prod(sign(pivots), axis=1), sum(log(abs(pivots)), axis=1)
    return SlogdetResult(_unstack(signs, stack), _unstack(logarithms, stack))


def pinv(x: Matrix, *, rtol: float | Matrix | None = None) -> Matrix:
    """The pseudo-inverse V diag(1 / S) U^T (Penrose 1955): singular values up to `rtol` times the largest count as 0.

    `rtol` is max(m, n) eps unless given; a Matrix gives one for each matrix of the stack.

    Shapes: (..., m, n) gives (..., n, m).
    Dtypes: floating-point of 32 bits or more.
    Gradient: as of `svd`.
    Raises: ShapeError below rank 2; DTypeError for other dtypes.

    >>> oa.matrix.linalg.pinv(oa.matrix.from_list(engine, [[2.0, 0.0]])).tolist()
    [[0.5], [0.0]]
    """
    flat, stack = _stack(x, "pinv")
    if flat.size == 0:
        return zeros(x.engine, (*stack, x.shape[-1], x.shape[-2]), dtype=x.dtype)
    u, s, vh = svd(x, full_matrices=False)
    kept = s > _tolerance(x, s, rtol)
    inverse = where(kept, divide(1.0, where(kept, s, 1.0)), 0.0)
    return matmul(matrix_transpose(vh), reshape(inverse, (*inverse.shape, 1)) * matrix_transpose(u))


def _tolerance(x: Matrix, s: Matrix, rtol: float | Matrix | None) -> Matrix:
    """What singular values must exceed, broadcast against them."""
    relative = builtins.max(*x.shape[-2:]) * finfo(x.dtype).eps if rtol is None else rtol
    if isinstance(relative, Matrix):
        relative = astype(reshape(relative, (*relative.shape, 1)), s.dtype)
    return max(s, axis=-1, keepdims=True) * relative


def matrix_rank(x: Matrix, *, rtol: float | Matrix | None = None) -> Matrix:
    """How many singular values exceed `rtol` (by default max(m, n) eps) times the largest, as int32.

    Shapes: (..., m, n) gives (...).
    Dtypes: floating-point of 32 bits or more; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: ShapeError below rank 2; DTypeError for other dtypes.

    >>> oa.matrix.linalg.matrix_rank(oa.matrix.ones(engine, (3, 3))).item()
    1
    """
    s = svdvals(x)
    if s.shape[-1] == 0:
        return count_nonzero(s, axis=-1)
    return count_nonzero(s > _tolerance(x, s, rtol), axis=-1)


def matrix_power(x: Matrix, n: int) -> Matrix:
    """x multiplied by itself n times, by repeated squaring; the identity for 0, of the inverse for a negative n.

    Shapes: (..., k, k); the result has it too.
    Dtypes: floating-point of 32 bits or more.
    Gradient: as of `matmul`.
    Raises: ShapeError unless x is square; DTypeError for other dtypes; ArgumentError unless n is an int.

    >>> oa.matrix.linalg.matrix_power(oa.matrix.from_list(engine, [[2.0, 0.0], [0.0, 3.0]]), 3).tolist()
    [[8.0, 0.0], [0.0, 27.0]]
    """
    _stack(x, "matrix_power", True)
    if not hasattr(n, "__index__"):
        raise ArgumentError(f"matrix.linalg.matrix_power: n is {n!r}; wanted an int")
    power, found = (inv(x), None) if n < 0 else (x, None)
    count = builtins.abs(int(n))
    while count:
        if count & 1:
            found = power if found is None else matmul(found, power)
        count >>= 1
        power = matmul(power, power) if count else power
    return broadcast_to(eye(x.engine, x.shape[-1], dtype=x.dtype), x.shape) if found is None else found


# -- norms


def vector_norm(
    x: Matrix, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Matrix:
    """(sum |x|^ord)^(1 / ord) over `axis` (None: all); inf and -inf give the largest and smallest magnitude, 0 counts non-zeros.

    Shapes: any; the result is x's without `axis`, or with extent 1 there where `keepdims`.
    Dtypes: floating-point.
    Gradient: g times the derivative of the formula, of `ord` 2 g x / r; 0 where the norm is 0.
    Raises: DTypeError for other dtypes; AxisError for an axis outside x or named twice.

    >>> oa.matrix.linalg.vector_norm(oa.matrix.from_list(engine, [3.0, 4.0])).item()
    5.0
    """
    if not x.dtype.is_float:
        raise DTypeError(
            f"matrix.linalg.vector_norm: {x.dtype.name} is not accepted; wanted floating-point. Cast first: x.astype(oa.float32)"
        )
    size = abs(x)
    if ord in (math.inf, -math.inf):
        return (max if ord > 0 else min)(size, axis, keepdims=keepdims)
    if ord == 0:
        return sum(astype(not_equal(x, 0.0), x.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    if ord == 2:
        return _euclidean(size, axis, keepdims)
    return _root(sum(pow(size, as_float(ord)), axis, keepdims=keepdims), 1.0 / as_float(ord))


def _root(total: Matrix, power: float) -> Matrix:
    """`total` to a power, with a gradient of 0 instead of infinity at 0."""
    some = not_equal(total, 0.0)
    safe = where(some, total, 1.0)
    return where(some, sqrt(safe) if power == 0.5 else pow(safe, power), 0.0 if power > 0 else math.inf)


def _euclidean(size: Matrix, axis: Any, keepdims: bool) -> Matrix:
    """The root of the sum of squares, of magnitudes divided by the largest so that none over- or underflows."""
    axes = sp.normalize_axes(axis, size.ndim, "matrix.linalg.vector_norm")
    if not axes or math.prod(size.shape[a] for a in axes) == 0:
        return sum(size, axes, keepdims=keepdims) if axes else size
    largest = _peak(size, axes)
    scale = where((largest > 0.0) & (largest < math.inf), largest, 1.0)
    part = divide(size, scale)
    found = _root(sum(part * part, axes, keepdims=True), 0.5) * scale
    return found if keepdims else sum(found, axes)


def matrix_norm(
    x: Matrix, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Matrix:
    """A norm of each matrix of the last two axes, by `ord`: "fro" is sqrt(sum x^2), "nuc" the sum of singular values.

    2 and -2 are the largest and smallest singular value, 1 and -1 the largest and smallest sum of magnitudes of a column, inf
    and -inf of a row.

    Shapes: (..., m, n) gives (...), or (..., 1, 1) with `keepdims`.
    Dtypes: floating-point of 32 bits or more.
    Gradient: g times the derivative of the formula.
    Raises: ShapeError below rank 2; ArgumentError for another `ord`; DTypeError for other dtypes.

    >>> oa.matrix.linalg.matrix_norm(oa.matrix.ones(engine, (2, 2))).item()
    2.0
    """
    _stack(x, "matrix_norm")
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        s = svdvals(x)
        found = sum(s, axis=-1) if ord == "nuc" else (max if ord == 2 else min)(s, axis=-1)
        return reshape(found, (*found.shape, 1, 1)) if keepdims else found
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(
            f"matrix.linalg.matrix_norm: ord {ord!r} is none of 'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
        )
    lines = sum(abs(x), axis=-2 if ord in (1, -1) else -1, keepdims=True)
    return (max if ord in (1, math.inf) else min)(lines, (-2, -1), keepdims=keepdims)


# -- products and diagonals


def outer(a: Matrix, b: Matrix) -> Matrix:
    """All products of an element of a with one of b.

    Shapes: (m,) and (n,) give (m, n).
    Dtypes: numeric; a and b are promoted to their common dtype.
    Gradient: g b to a and g^T a to b.
    Raises: ShapeError unless both have rank 1; DTypeError for bool.

    >>> oa.matrix.linalg.outer(oa.matrix.from_list(engine, [1, 2]), oa.matrix.from_list(engine, [3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"matrix.linalg.outer: a {a.shape} and b {b.shape} must have rank 1")
    return multiply(reshape(a, (a.size, 1)), reshape(b, (1, b.size)))


def cross(a: Matrix, b: Matrix, *, axis: int = -1) -> Matrix:
    """The vector product (a2 b3 - a3 b2, a3 b1 - a1 b3, a1 b2 - a2 b1) along `axis`, of extent 3; other axes broadcast.

    Shapes: operands broadcast but for `axis`, counted from the end; the result has 3 there.
    Dtypes: numeric; a and b are promoted to their common dtype.
    Gradient: b x g to a and g x a to b.
    Raises: ShapeError unless the extent is 3 in both; AxisError for an axis outside either; DTypeError for bool.

    >>> x, y = (oa.matrix.from_list(engine, v) for v in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
    >>> oa.matrix.linalg.cross(x, y).tolist()
    [0.0, 0.0, 1.0]
    """
    name = "matrix.linalg.cross"
    left, right = (sp.normalize_axis(axis, v.ndim, name) for v in (a, b))
    if a.shape[left] != 3 or b.shape[right] != 3:
        raise ShapeError(
            f"{name}: axis {axis} has extent {a.shape[left]} in a and {b.shape[right]} in b; wanted 3"
        )
    u, v = ([slice(x, at, k, k + 1) for k in range(3)] for x, at in ((a, left), (b, right)))
    parts = [multiply(u[i], v[j]) - multiply(u[j], v[i]) for i, j in ((1, 2), (2, 0), (0, 1))]
    return concat(parts, axis=parts[0].ndim - (a.ndim - left))


def diagonal(x: Matrix, *, offset: int = 0) -> Matrix:
    """The elements x[..., i, i + offset].

    Shapes: (..., m, n) gives (..., k), k as long as the diagonal is.
    Dtypes: any.
    Gradient: g on the diagonal, 0 elsewhere.
    Raises: ShapeError below rank 2.

    >>> oa.matrix.linalg.diagonal(oa.matrix.from_list(engine, [[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    if x.ndim < 2:
        raise ShapeError(f"matrix.linalg.diagonal: the value has rank {x.ndim}; wanted rank 2 or more")
    rows, columns = x.shape[-2:]
    count = builtins.max(0, builtins.min(rows + builtins.min(offset, 0), columns - builtins.max(offset, 0)))
    start = offset if offset >= 0 else -offset * columns
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    stop = start + (count - 1) * (columns + 1) + 1 if count else start
    return slice(flat, -1, start, stop, columns + 1)


def trace(x: Matrix, *, offset: int = 0, dtype: Any = None) -> Matrix:
    """The sum of a `diagonal`.

    Shapes: (..., m, n) gives (...).
    Dtypes: any; the result's as in `sum`.
    Gradient: g on the diagonal, 0 elsewhere.
    Raises: ShapeError below rank 2.

    >>> oa.matrix.linalg.trace(oa.matrix.from_list(engine, [[1, 2], [3, 4]])).item()
    5
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
