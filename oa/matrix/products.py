"""Matrix products. Float32 accumulates in float32 with fma: |error| <= k 2^-24 sum|a||b| to first order."""

from __future__ import annotations

from oa._schema import spec as sp
from oa._schema.declare import gradient, primitive
from oa._schema.dtype import HALVES, complex64, float32, promote
from oa._schema.op import Inference, Instance
from oa._schema.spec import Spec, spec
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix.elementwise import astype, multiply
from oa.matrix.reduce import sum
from oa.matrix.shape import broadcast_to, permute_dims, reshape
from oa.matrix.special import conjugated
from oa.matrix.value import Matrix

#: Batch axes that a kernel steps through with strides of their own.
_BATCH_AXES = 2


@primitive("matmul")
def _matmul(a: Matrix, b: Matrix) -> Matrix:
    """Equal batch axes, then (m, k) by (k, n)."""
    left: Spec = a  # type: ignore[assignment]
    right: Spec = b  # type: ignore[assignment]
    shape = (*left.shape[:-1], right.shape[-1])
    return Inference((spec(left.dtype, shape),))  # type: ignore[return-value]


@gradient(_matmul)
def _matmul_gradient(instance: Instance, ct: Matrix, a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """dA = dC B^H and dB = A^H dC."""
    return _matmul(ct, _swapped(conjugated(b))), _matmul(_swapped(conjugated(a)), ct)


@primitive("matmul")
def _matmul_nt(a: Matrix, b: Matrix) -> Matrix:
    """(m, k) by the transpose of (n, k). An operation of its own because its gradients need no transposed copies."""
    left: Spec = a  # type: ignore[assignment]
    right: Spec = b  # type: ignore[assignment]
    return Inference((spec(left.dtype, (left.shape[0], right.shape[0])),), ("nt",))  # type: ignore[return-value]


@gradient(_matmul_nt)
def _matmul_nt_gradient(instance: Instance, ct: Matrix, a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """dA = dC conj(B) and dB = dC^T conj(A)."""
    return _matmul(ct, conjugated(b)), _matmul(_swapped(ct), conjugated(a))


def _swapped(x: Matrix) -> Matrix:
    order = list(range(x.ndim))
    order[-1], order[-2] = order[-2], order[-1]
    return permute_dims(x, order)


def matmul(a: Matrix, b: Matrix) -> Matrix:
    """The matrix product over the last two axes, batch axes broadcast; rank-1 operands as NumPy has them.

    Integer products wrap in the common dtype of a and b, 16-bit floats accumulate in float32. Other dtypes than these floats go
    element by element, without a kernel of their own. Raises ShapeError when the inner extents differ, DTypeError for bool.

    Shapes: (..., m, k) and (..., k, n) give (..., m, n), batch axes broadcast.
    Dtypes: numeric; a and b are promoted to their common dtype.
    Gradient: dC B^T to a and A^T dC to b, for the cotangent dC.

    >>> a = oa.matrix.ones(engine, (2, 3))
    >>> oa.matrix.matmul(a, oa.matrix.ones(engine, (3, 4))).shape
    (2, 4)
    """
    a, b = _operands(a, b, "matmul")
    if a.ndim == 1:
        out = matmul(reshape(a, (1, a.shape[0])), b)
        return reshape(out, (*out.shape[:-2], out.shape[-1]) if b.ndim > 1 else ())
    if b.ndim == 1:
        return reshape(out := matmul(a, reshape(b, (b.shape[0], 1))), out.shape[:-1])
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"matrix.matmul: a {a.shape} and b {b.shape} do not fit: a has {a.shape[-1]} columns, b {b.shape[-2]} rows"
        )
    if b.ndim == 2 and a.ndim > 2:
        return reshape(
            _product(reshape(a, (-1 if a.size else _rows(a), a.shape[-1])), b), (*a.shape[:-1], b.shape[-1])
        )
    batch = sp.broadcast([a.shape[:-2], b.shape[:-2]], "matrix.matmul", ("a", "b"))
    a, b = broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:]))
    if len(batch) <= _BATCH_AXES:
        return _product(a, b)
    flat = _product(_flat(a, batch), _flat(b, batch))
    return reshape(flat, (*batch, *flat.shape[-2:]))


def _product(a: Matrix, b: Matrix) -> Matrix:
    if a.dtype in (float32, complex64):
        return _matmul(a, b)
    if a.dtype in HALVES:
        return astype(_matmul(astype(a, float32), astype(b, float32)), a.dtype)
    left, right = reshape(a, (*a.shape, 1)), reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return sum(multiply(left, right), axis=-2, dtype=a.dtype)


def _rows(a: Matrix) -> int:
    rows = 1
    for extent in a.shape[:-1]:
        rows *= extent
    return rows


def _flat(x: Matrix, batch: tuple[int, ...]) -> Matrix:
    count = 1
    for extent in batch:
        count *= extent
    return reshape(x, (count, *x.shape[-2:]))


def _operands(a: Matrix, b: Matrix, name: str) -> tuple[Matrix, Matrix]:
    """a and b in their common dtype."""
    for which, x in (("a", a), ("b", b)):
        if not isinstance(x, Matrix):
            raise ArgumentError(f"matrix.{name}: {which} is {type(x).__name__}; wanted a Matrix")
        if x.dtype.kind == "b":
            raise DTypeError(f"matrix.{name}: {which} is bool; cast with .astype(oa.int32)")
        if x.ndim == 0:
            raise ShapeError(f"matrix.{name}: {which} has rank 0; wanted rank 1 or more")
    if a.dtype is b.dtype:
        return a, b
    try:
        common = promote(a.dtype, b.dtype, f"matrix.{name}")
    except DTypeError as error:
        raise error from None
    return astype(a, common), astype(b, common)


def mat_mul_nt(a: Matrix, b: Matrix) -> Matrix:
    """a b^T over the last two axes: rows of a by rows of b. Shapes (..., m, k) and (..., n, k) give (..., m, n).

    Shapes: (..., m, k) and (..., n, k) give (..., m, n).
    Dtypes: numeric; a and b are promoted to their common dtype.
    Gradient: dC B to a and dC^T A to b, for the cotangent dC.
    Raises: ShapeError below rank 2 or for unequal last extents; DTypeError for bool.

    >>> oa.matrix.mat_mul_nt(oa.matrix.ones(engine, (2, 3)), oa.matrix.ones(engine, (4, 3))).shape
    (2, 4)
    """
    a, b = _operands(a, b, "mat_mul_nt")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"matrix.mat_mul_nt: a {a.shape} and b {b.shape} must have rank 2 or more and equal last extents"
        )
    if b.ndim > 2 or a.dtype not in (float32, complex64):
        return matmul(a, _swapped(b))
    rows = reshape(a, (_rows(a), a.shape[-1]))
    return reshape(_matmul_nt(rows, b), (*a.shape[:-1], b.shape[0]))
