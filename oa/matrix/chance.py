"""Random choices: integers, coins, permutations, categories. Seeds and draws as in `oa.matrix.uniform`; without gradients."""

from __future__ import annotations

from typing import Any

from oa._schema import expr
from oa._schema.declare import primitive
from oa._schema.dtype import DType, as_dtype, bool_, check_fits, float32, int32, uint32
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference
from oa._schema.spec import as_shape, normalize_axis, spec
from oa.errors import ArgumentError, DTypeError
from oa.matrix.create import _scalar, engine_of, zeros
from oa.matrix.elementwise import add, log, negative
from oa.matrix.indexing import take
from oa.matrix.random import _bits, _stream, _unit
from oa.matrix.reduce import argmax
from oa.matrix.shape import reshape
from oa.matrix.sorting import order_of
from oa.matrix.value import Matrix


@primitive("pointwise")
def _integers(
    low_seed: Matrix,
    high_seed: Matrix,
    draw: Matrix,
    low: Matrix,
    count: Matrix,
    shape: tuple[int, ...],
    dtype: DType,
) -> Matrix:
    """low + floor(w count / 2^64) for 64 random bits w, two words an element; a count of 0 stands for 2^32."""
    low_word = _bits(expr.call("shl", expr.element(), 1))
    high_word = _bits(expr.call("bor", expr.call("shl", expr.element(), 1), 1))
    count_ = Expr("arg", (), 4)
    carry_in = expr.call("umulhi", low_word, count_)
    below = high_word * count_
    carried = expr.cast(expr.call("lt", below + carry_in, below), uint32)
    chosen = expr.call("umulhi", high_word, count_) + carried
    chosen = expr.where(expr.call("eq", count_, 0), high_word, chosen)
    body = expr.cast(Expr("arg", (), 3) + chosen, dtype)
    return Inference((spec(dtype, shape),), (), resolve(body, (uint32,) * 5, "matrix.integers"))  # type: ignore[return-value]


def integers(
    engine: Any,
    shape: Any = None,
    low: int = 0,
    high: int | None = None,
    *,
    dtype: Any = int32,
    seed: int | None = None,
    device: Any = None,
) -> Matrix:
    """Uniform integers in [low, high), or in [0, low) without `high`, bit-equal on every device; of 32 bits or fewer.

    A value is chosen with a probability that is off by less than 2^-32 of itself. Raises ArgumentError for an empty range,
    DTypeError for one that the dtype does not hold.

    Shapes: `shape`.
    Dtypes: none taken; the result has `dtype`.
    Gradient: none: there is no operand.

    >>> oa.matrix.integers(engine, (3,), 5, 6, seed=1).tolist()
    [5, 5, 5]
    """
    if shape is None:
        engine, shape = None, engine
    chosen = engine_of(engine, device)
    first, last = (0, low) if high is None else (low, high)
    wanted = as_dtype(dtype)
    if not wanted.is_integer or wanted.itemsize > 4:
        raise DTypeError(f"matrix.integers: dtype {wanted.name}; wanted integers of 32 bits or fewer")
    if last <= first:
        raise ArgumentError(f"matrix.integers: no integer lies in [{first}, {last})")
    for number in (first, last - 1):
        check_fits(number, wanted, "matrix.integers")
    start, count = (_scalar(chosen, uint32, v & 0xFFFFFFFF) for v in (first, last - first))
    return _integers(*_stream(chosen, seed), start, count, as_shape(shape, "matrix.integers"), wanted)


@primitive("pointwise")
def _bernoulli(
    low_seed: Matrix, high_seed: Matrix, draw: Matrix, p: Matrix, shape: tuple[int, ...]
) -> Matrix:
    body = expr.call("lt", _unit(_bits(expr.element())), Expr("arg", (), 3))
    dtypes = (uint32, uint32, uint32, float32)
    return Inference((spec(bool_, shape),), (), resolve(body, dtypes, "matrix.bernoulli"))  # type: ignore[return-value]


def bernoulli(
    engine: Any, shape: Any = None, p: float = 0.5, *, seed: int | None = None, device: Any = None
) -> Matrix:
    """bool, true with probability `p` (to 2^-24), bit-equal on every device.

    Shapes: `shape`.
    Dtypes: none taken; the result is bool.
    Gradient: none: there is no operand.
    Raises: ShapeError for a negative extent or a rank above 8; ArgumentError for a probability outside [0, 1].

    >>> oa.matrix.bernoulli(engine, (2,), 1.0).tolist()
    [True, True]
    """
    if shape is None:
        engine, shape = None, engine
    chosen = engine_of(engine, device)
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"matrix.bernoulli: p is {p}; wanted 0 to 1")
    probability = _scalar(chosen, float32, float(p))
    return _bernoulli(*_stream(chosen, seed), probability, as_shape(shape, "matrix.bernoulli"))


@primitive("pointwise")
def _words(low_seed: Matrix, high_seed: Matrix, draw: Matrix, shape: tuple[int, ...]) -> Matrix:
    body = resolve(_bits(expr.element()), (uint32,) * 3, "matrix.permutation")
    return Inference((spec(uint32, shape),), (), body)  # type: ignore[return-value]


def permutation(engine: Any, x: Any = None, *, seed: int | None = None, device: Any = None) -> Matrix:
    """0 ... n - 1 in random order as int32, for an int n; or a Matrix with the slices along its first axis in random order.

    Every element gets a random word and the words are sorted, so it is bit-equal on every device; two equal words, which occur
    with a probability of about n^2 / 2^33, keep their order.

    Shapes: (n,), or x's.
    Dtypes: any; of an int the result is int32.
    Gradient: none.
    Raises: ShapeError for a value of rank 0; ArgumentError for a negative count.

    >>> sorted(oa.matrix.permutation(engine, 4).tolist())
    [0, 1, 2, 3]
    """
    if x is None:
        engine, x = None, engine
    if isinstance(x, Matrix):
        if not x.ndim:
            raise ArgumentError("matrix.permutation: a value of rank 0 has no order")
        return take(x, permutation(x.engine, x.shape[0], seed=seed), axis=0)
    chosen = engine_of(engine, device)
    (count,) = as_shape((x,), "matrix.permutation")
    if count == 0:
        return zeros(chosen, (0,), dtype=int32)
    return reshape(order_of(_words(*_stream(chosen, seed), (1, count))), (count,))


@primitive("pointwise")
def _open_unit(low_seed: Matrix, high_seed: Matrix, draw: Matrix, shape: tuple[int, ...]) -> Matrix:
    """(k + 1/2) / 2^23 for 23 random bits k: never 0 or 1."""
    whole = expr.cast(expr.call("shr", _bits(expr.element()), 9), float32)
    body = resolve((whole + 0.5) * (2.0**-23), (uint32,) * 3, "matrix.categorical")
    return Inference((spec(float32, shape),), (), body)  # type: ignore[return-value]


def categorical(logits: Matrix, *, axis: int = -1, seed: int | None = None) -> Matrix:
    """int32 indices along `axis` drawn with probability softmax(logits): argmax of logits - log(-log(u)) (Gumbel 1954).

    Equal on every device except where two scores are closer than an ulp.

    Shapes: any; the result has the logits' without `axis`.
    Dtypes: floating-point, and of these float32 alone; the result is int32.
    Gradient: none: the result is not floating-point.
    Raises: AxisError for an axis outside the logits; DTypeError for logits that are not floating-point.

    >>> oa.matrix.categorical(oa.matrix.from_list(engine, [[0.0, 100.0]])).tolist()
    [1]
    """
    if logits.dtype is not float32:
        raise DTypeError(f"matrix.categorical: logits are {logits.dtype.name}; cast with .astype(oa.float32)")
    axis = normalize_axis(axis, logits.ndim, "matrix.categorical")
    noise = _open_unit(*_stream(logits.engine, seed), logits.shape)
    return argmax(add(logits, negative(log(negative(log(noise))))), axis=axis)


__all__ = ["bernoulli", "categorical", "integers", "permutation"]
