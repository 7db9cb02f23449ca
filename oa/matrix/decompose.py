"""Decompositions of stacks of matrices (batch, rows, columns): iterations of small steps, each the same plan with other numbers.

Nothing is decided on the host but, outside a capture, when a Jacobi iteration has converged: that reads one flag a sweep.
Arithmetic is the dtype's own; there is one code for float32 and float64.
"""

from __future__ import annotations

from typing import Any

from oa.matrix.create import arange, eye, ones, zeros_like
from oa.matrix.dtypes import finfo
from oa.matrix.elementwise import abs, astype, divide, hypot, maximum, not_equal, sqrt, where
from oa.matrix.grid import tril, triu
from oa.matrix.indexing import take, take_along_axis
from oa.matrix.reduce import argmax, max, sum
from oa.matrix.shape import broadcast_to, concat, permute_dims, reshape, slice
from oa.matrix.sorting import argsort
from oa.matrix.value import Matrix

#: Sweeps of a Jacobi iteration after which it counts as converged; convergence is quadratic and takes 6 to 9.
SWEEPS = 14


def _cut(x: Matrix) -> None:
    """Run what is pending, so that each step of a loop is a batch of its own and its plan is found again."""
    if not x.engine.is_recording:
        x.engine.flush()


def transposed(x: Matrix) -> Matrix:
    """The last two of three axes swapped."""
    return permute_dims(x, (0, 2, 1))


def _rows(x: Matrix) -> Matrix:
    return reshape(arange(x.engine, x.shape[1]), (1, x.shape[1], 1))


def _columns(x: Matrix) -> Matrix:
    return reshape(arange(x.engine, x.shape[2]), (1, 1, x.shape[2]))


def _column(x: Matrix, k: int | Matrix) -> Matrix:
    """Column k as (batch, rows, 1). By a comparison, so that every k has one plan."""
    return sum(where(_columns(x) == k, x, 0.0), axis=2, keepdims=True)


def _row(x: Matrix, k: int | Matrix) -> Matrix:
    return sum(where(_rows(x) == k, x, 0.0), axis=1, keepdims=True)


def _scaled(x: Matrix) -> tuple[Matrix, Matrix]:
    """x divided by its largest magnitude, and that, so that no square over- or underflows."""
    largest = max(abs(x), axis=(1, 2), keepdims=True)
    scale = where(largest > 0.0, largest, 1.0)
    return divide(x, scale), scale


def identity(like: Matrix, rows: int, columns: int) -> Matrix:
    """(batch, rows, columns) with ones on the diagonal, of the engine and dtype of `like`."""
    one = reshape(eye(like.engine, rows, columns, dtype=like.dtype), (1, rows, columns))
    return broadcast_to(one, (like.shape[0], rows, columns))


# -- orthogonal: Householder reflections


def qr(x: Matrix, columns: int) -> tuple[Matrix, Matrix]:
    """Q (batch, m, columns), orthonormal columns, and R (batch, columns, n), upper triangular: x = Q R for columns >= min(m, n).

    Reflections as LAPACK chooses them: a diagonal element of R has the sign against its column's.
    """
    rows, width = x.shape[1:]
    r, scale = _scaled(x)
    reflections = []
    for k in range(min(rows - 1, width)):
        r, v, tau = _reflected(r, k)
        reflections.append((v, tau))
        _cut(x)
    q = identity(x, rows, columns)
    for v, tau in reversed(reflections):
        q = q - v * (tau * sum(v * q, axis=1, keepdims=True))
        _cut(x)
    return q, triu(slice(r, 1, 0, columns) * scale)


def _reflected(r: Matrix, k: int) -> tuple[Matrix, Matrix, Matrix]:
    """r with zeros below the diagonal of column k, and the reflection I - tau v v^T that made them."""
    rows = _rows(r)
    column = _column(r, k)
    tail = where(rows >= k, column, 0.0)
    head = _row(column, k)
    norm = sqrt(sum(tail * tail, axis=1, keepdims=True))
    v = tail - where(rows == k, where(head < 0.0, norm, -norm), 0.0)
    square = sum(v * v, axis=1, keepdims=True)
    tau = where(square > 0.0, divide(2.0, where(square > 0.0, square, 1.0)), 0.0)
    return r - v * (tau * sum(v * r, axis=1, keepdims=True)), v, tau


# -- singular values: one-sided Jacobi rotations (Hestenes 1958), all disjoint pairs of columns at once


def svd(x: Matrix, full: bool, vectors: bool = True) -> tuple[Matrix, Matrix, Matrix]:
    """U, s (batch, k) descending, V with x = U s V^T; of m by n with k = min(m, n). U and V are square where `full`."""
    rows, columns = x.shape[1:]
    if rows < columns:
        v, s, u = svd(transposed(x), full, vectors)
        return u, s, v
    scaled, scale = _scaled(x)
    work = _orthogonalised(concat([scaled, identity(x, columns, columns)], axis=1), rows)
    upper = slice(work, 1, 0, rows)
    squares = sum(upper * upper, axis=1)  # (batch, padded)
    norms = where(squares > 0.0, sqrt(where(squares > 0.0, squares, 1.0)), 0.0)
    places = reshape(arange(x.engine, norms.shape[1]), (1, norms.shape[1]))
    order = argsort(where(places < columns, norms, -1.0), axis=1, descending=True)
    order = reshape(slice(order, 1, 0, columns), (x.shape[0], 1, columns))
    norms = take_along_axis(reshape(norms, (x.shape[0], 1, norms.shape[1])), order, axis=2)
    s = reshape(norms * scale, (x.shape[0], columns))
    if not vectors:
        return work, s, work
    work = take_along_axis(work, order, axis=2)
    v = slice(work, 1, rows, None)
    u = divide(slice(work, 1, 0, rows), where(norms > 0.0, norms, 1.0))
    return _completed(u, rows if full else columns), s, v


def _completed(u: Matrix, columns: int) -> Matrix:
    """u with zero columns, and columns that are not there, replaced by orthonormal ones; its others are orthonormal already."""
    q, r = qr(u, columns)
    signs = sum(where(_rows(r) == _columns(r), r, 0.0), axis=1, keepdims=True)
    signs = where(signs < 0.0, -1.0, 1.0)
    if columns > u.shape[2]:
        more = ones(u.engine, (u.shape[0], 1, columns - u.shape[2]), dtype=u.dtype)
        signs = concat([signs, more], axis=2)
    return q * signs


def _orthogonalised(work: Matrix, rows: int) -> Matrix:
    """`work` rotated from the right until the upper `rows` of its columns are orthogonal; an odd one gets a column of zeros."""
    if work.shape[2] % 2:
        work = concat([work, zeros_like(slice(work, 2, 0, 1))], axis=2)
    width = work.shape[2]
    half = width // 2
    # Columns meet in the order of a round-robin tournament: after width - 1 rounds each has met each and is where it was.
    left, right = list(range(half)), list(range(half, width))
    order = [*left[:1], *right[:1], *left[1:-1], *right[1:], *left[-1:]] if half > 1 else [0, 1]
    turn = reshape(arange(work.engine, width), (width,))
    for place, source in enumerate(order):
        turn = where(arange(work.engine, width) == place, source, turn)
    tolerance = finfo(work.dtype).eps * rows**0.5
    for _ in range(SWEEPS):
        moved: Any = None
        for _ in range(width - 1):
            work, here = _round(work, rows, turn, tolerance)
            moved = here if moved is None else maximum(moved, here)
            _cut(work)
        if not work.engine.is_recording and not moved.item():
            break
    return work


def _round(work: Matrix, rows: int, turn: Matrix, tolerance: float) -> tuple[Matrix, Matrix]:
    """Each column of the left half rotated with its partner on the right, then the next pairing; and whether any was turned."""
    half = work.shape[2] // 2
    left, right = slice(work, 2, 0, half), slice(work, 2, half, None)
    a, b = slice(left, 1, 0, rows), slice(right, 1, 0, rows)
    aa, bb, ab = (sum(p * q, axis=1, keepdims=True) for p, q in ((a, a), (b, b), (a, b)))
    apart = abs(ab) > sqrt(aa) * sqrt(bb) * tolerance
    # tan of the angle, the smaller root: 2 ab / (d + sign(d) sqrt(d^2 + 4 ab^2)) for d = bb - aa.
    apart_by, twice = bb - aa, ab * 2.0
    t = divide(twice, where(apart, abs(apart_by) + hypot(apart_by, twice), 1.0))
    t = where(apart, where(apart_by < 0.0, -t, t), 0.0)
    c = divide(1.0, sqrt(t * t + 1.0))
    s = c * t
    # c = 1 - s tau: what is added to a column is as small as the angle, and so is its rounding error (Rutishauser 1966).
    tau = divide(s, c + 1.0)
    turned = concat([left - s * (right + tau * left), right + s * (left - tau * right)], axis=2)
    return take(turned, turn, axis=2), max(astype(apart, turn.dtype))


def eigh(x: Matrix, vectors: bool = True) -> tuple[Matrix, Matrix]:
    """Eigenvalues (batch, n) ascending and eigenvectors of symmetric matrices, of which the lower triangle counts.

    From the singular values of x + c I, with c a bound of the eigenvalues: an eigenvalue is off by eps times c or so, as usual.
    """
    lower = tril(x)
    x = lower + transposed(tril(x, k=-1))
    bound = max(sum(abs(x), axis=2), axis=1)
    shift = reshape(bound, (x.shape[0], 1, 1))
    _, s, v = svd(x + identity(x, *x.shape[1:]) * shift, False, vectors)
    values = s - reshape(bound, (x.shape[0], 1))
    return slice(values, 1, None, None, -1), (slice(v, 2, None, None, -1) if vectors else v)


# -- elimination


def eliminated(x: Matrix, size: int, exact: bool) -> tuple[Matrix, Matrix]:
    """[A | B] of `size` rows as [I | A^-1 B] by Gauss-Jordan elimination with row exchanges, and the signed pivots (batch, size).

    The pivots' product is the determinant. With `exact` a pivot of 0 gives infinities and NaN as a division by it does; without,
    the rest is left finite, so that the pivots stay usable.
    """
    pivots = []
    for k in range(size):
        x, pivot = _eliminate(x, k, exact)
        pivots.append(pivot)
        _cut(x)
    return x, reshape(concat(pivots, axis=1), (x.shape[0], size))


def _eliminate(x: Matrix, k: int, exact: bool) -> tuple[Matrix, Matrix]:
    rows = _rows(x)
    best = argmax(where(rows >= k, abs(_column(x, k)), -1.0), axis=1, keepdims=True)
    here, there = _row(x, k), _row(x, best)
    pivot = _column(there, k)
    x = where(rows == best, here, x)
    normal = divide(there, pivot if exact else where(pivot == 0.0, 1.0, pivot))
    x = where(rows == k, normal, x - where(rows == k, 0.0, _column(x, k)) * normal)
    return x, where(not_equal(best, k), -pivot, pivot)


def cholesky(x: Matrix) -> Matrix:
    """Lower triangular L with x = L L^T; NaN where x is not positive definite. Its lower triangle counts."""
    lower = zeros_like(x)
    for k in range(x.shape[1]):
        x, lower = _cholesky_step(x, lower, k)
        _cut(x)
    return lower


def _cholesky_step(x: Matrix, lower: Matrix, k: int) -> tuple[Matrix, Matrix]:
    column = _column(x, k)
    found = where(_rows(x) >= k, divide(column, sqrt(_row(column, k))), 0.0)
    return x - found * transposed(found), where(_columns(x) == k, found, lower)


__all__ = ["cholesky", "eigh", "eliminated", "identity", "qr", "svd", "transposed"]
