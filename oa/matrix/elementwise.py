"""Elementwise operations, declared by their scalar expressions; broadcasting is NumPy's, NaN and -0 are IEEE 754's."""

from __future__ import annotations

import math
from typing import Any, Protocol

from oa._graph.node import again
from oa._schema import expr
from oa._schema.declare import pointwise, primitive
from oa._schema.dtype import DType, as_dtype, bool_
from oa._schema.op import Inference
from oa._schema.scalar import arg
from oa._schema.scalar import cast as cast_scalar
from oa._schema.spec import Spec, spec
from oa.errors import DTypeError
from oa.matrix.value import Matrix, Operand

_NUMERIC = "iufc"
#: With an order, which complex numbers lack.
_REAL = "iuf"
_SQRT_HALF = math.sqrt(0.5)
_TANH_SCALE = math.sqrt(2 / math.pi)


def _call(name: str, *args: Any) -> Any:
    return expr.call(name, *args)


# -- arithmetic


@pointwise(kinds=_NUMERIC)
def add(a: Operand, b: Operand) -> Matrix:
    """a + b. Integers wrap.

    >>> oa.matrix.add(oa.matrix.ones(engine, (2,)), 2.0).tolist()
    [3.0, 3.0]
    """
    return _call("add", a, b)


@pointwise(kinds=_NUMERIC)
def subtract(a: Operand, b: Operand) -> Matrix:
    """a - b. Integers wrap.

    >>> oa.matrix.subtract(oa.matrix.from_list(engine, [5, 3]), 4).tolist()
    [1, -1]
    """
    return _call("sub", a, b)


@pointwise(kinds=_NUMERIC)
def multiply(a: Operand, b: Operand) -> Matrix:
    """a * b. Integers wrap.

    >>> oa.matrix.multiply(oa.matrix.from_list(engine, [1.5, -2.0]), 2.0).tolist()
    [3.0, -4.0]
    """
    return _call("mul", a, b)


@pointwise()
def divide(a: Operand, b: Operand) -> Matrix:
    """a / b: x / 0 is inf of x's sign, 0 / 0 NaN. Integers and bools are rounded to float32, the default float, first.

    Dtypes: any; of integers and bools the result is float32.

    >>> oa.matrix.divide(oa.matrix.from_list(engine, [1.0, -1.0]), 4.0).tolist()
    [0.25, -0.25]
    >>> oa.matrix.divide(oa.matrix.from_list(engine, [1, 3]), 2).tolist()
    [0.5, 1.5]
    """
    return _call("div", _call("real", a), _call("real", b))


@pointwise(kinds=_REAL)
def floor_divide(a: Operand, b: Operand) -> Matrix:
    """floor(a / b). Integers: division by zero gives 0.

    >>> oa.matrix.floor_divide(oa.matrix.from_list(engine, [7, -7]), 2).tolist()
    [3, -4]
    """
    return _call("floordiv", a, b)


@pointwise(kinds=_REAL)
def remainder(a: Operand, b: Operand) -> Matrix:
    """a - b floor(a / b): the result has the sign of b. Integers: division by zero gives 0.

    >>> oa.matrix.remainder(oa.matrix.from_list(engine, [7, -7]), 3).tolist()
    [1, 2]
    """
    return _call("mod", a, b)


@pointwise(kinds=_NUMERIC)
def pow(a: Operand, b: Operand) -> Matrix:
    """a to the power b. Integers wrap; a negative integer exponent gives 0 except for a of 1 and -1.

    >>> oa.matrix.pow(oa.matrix.from_list(engine, [2, 3]), 2).tolist()
    [4, 9]
    """
    return _call("pow", a, b)


@pointwise(kinds=_NUMERIC)
def negative(x: Matrix) -> Matrix:
    """-x. Integers wrap, unsigned ones too.

    >>> oa.matrix.negative(oa.matrix.from_list(engine, [1, -2])).tolist()
    [-1, 2]
    """
    return _call("neg", x)


@pointwise(kinds=_NUMERIC)
def positive(x: Matrix) -> Matrix:
    """+x: the same elements.

    >>> oa.matrix.positive(oa.matrix.from_list(engine, [1, -2])).tolist()
    [1, -2]
    """
    return x


@pointwise(kinds=_NUMERIC)
def abs(x: Matrix) -> Matrix:
    """|x|. Gradient 0 at 0.

    >>> oa.matrix.abs(oa.matrix.from_list(engine, [1.5, -2.0])).tolist()
    [1.5, 2.0]
    """
    return _call("abs", x)


@pointwise(kinds=_NUMERIC)
def sign(x: Matrix) -> Matrix:
    """-1, 0 or 1 by the sign of x; NaN for NaN.

    >>> oa.matrix.sign(oa.matrix.from_list(engine, [1.5, 0.0, -2.0])).tolist()
    [1.0, 0.0, -1.0]
    """
    return _call("sign", x)


@pointwise(kinds=_NUMERIC)
def square(x: Matrix) -> Matrix:
    """x * x.

    >>> oa.matrix.square(oa.matrix.from_list(engine, [1.5, -2.0])).tolist()
    [2.25, 4.0]
    """
    return _call("square", x)


def ordered(x: Matrix, operation: str) -> None:
    """DTypeError for complex numbers."""
    if x.dtype.is_complex:
        raise DTypeError(
            f"{operation}: {x.dtype.name} has no order; take matrix.abs(x) or matrix.real(x) first"
        )


@pointwise(kinds=_REAL)
def maximum(a: Operand, b: Operand) -> Matrix:
    """The larger of a and b; NaN if either is NaN. A tie shares the gradient evenly.

    >>> oa.matrix.maximum(oa.matrix.from_list(engine, [1, 5]), 3).tolist()
    [3, 5]
    """
    return _call("max", a, b)


@pointwise(kinds=_REAL)
def minimum(a: Operand, b: Operand) -> Matrix:
    """The smaller of a and b; NaN if either is NaN. A tie shares the gradient evenly.

    >>> oa.matrix.minimum(oa.matrix.from_list(engine, [1, 5]), 3).tolist()
    [1, 3]
    """
    return _call("min", a, b)


@pointwise(kinds=_REAL)
def _clip(x: Operand, low: Operand, high: Operand) -> Matrix:
    """min(max(x, low), high)."""
    return _call("min", _call("max", x, low), high)


def clip(x: Matrix, min: Operand | None = None, max: Operand | None = None) -> Matrix:
    """min(max(x, `min`), `max`); None leaves a side open. NaN stays NaN, and a bound that is NaN gives NaN.

    The gradient passes inside the bounds; at a bound x and it share it evenly.

    Shapes: `min` and `max` broadcast with x.
    Dtypes: real; operands are promoted to their common dtype.
    Gradient: g where x lies inside the bounds; a tie of x and a bound shares it.
    Raises: DTypeError for bool and complex; ShapeError where a bound does not broadcast.

    >>> oa.matrix.clip(oa.matrix.from_list(engine, [-2.0, 0.5, 2.0]), 0.0, max=1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    ordered(x, "matrix.clip")
    if min is not None and max is not None:
        return _clip(x, min, max)
    if min is not None:
        return maximum(x, min)
    return positive(x) if max is None else minimum(x, max)


# -- comparison and logic


@pointwise()
def equal(a: Operand, b: Operand) -> Matrix:
    """a == b, as bool.

    >>> oa.matrix.equal(oa.matrix.from_list(engine, [1, 5]), 5).tolist()
    [False, True]
    """
    return _call("eq", a, b)


@pointwise()
def not_equal(a: Operand, b: Operand) -> Matrix:
    """a != b, as bool.

    >>> oa.matrix.not_equal(oa.matrix.from_list(engine, [1, 5]), 5).tolist()
    [True, False]
    """
    return _call("ne", a, b)


@pointwise(kinds=_REAL)
def less(a: Operand, b: Operand) -> Matrix:
    """a < b, as bool.

    >>> oa.matrix.less(oa.matrix.from_list(engine, [1, 5]), 5).tolist()
    [True, False]
    """
    return _call("lt", a, b)


@pointwise(kinds=_REAL)
def less_equal(a: Operand, b: Operand) -> Matrix:
    """a <= b, as bool.

    >>> oa.matrix.less_equal(oa.matrix.from_list(engine, [1, 5]), 5).tolist()
    [True, True]
    """
    return _call("le", a, b)


@pointwise(kinds=_REAL)
def greater(a: Operand, b: Operand) -> Matrix:
    """a > b, as bool.

    >>> oa.matrix.greater(oa.matrix.from_list(engine, [1, 5]), 1).tolist()
    [False, True]
    """
    return _call("gt", a, b)


@pointwise(kinds=_REAL)
def greater_equal(a: Operand, b: Operand) -> Matrix:
    """a >= b, as bool.

    >>> oa.matrix.greater_equal(oa.matrix.from_list(engine, [1, 5]), 1).tolist()
    [True, True]
    """
    return _call("ge", a, b)


@pointwise(kinds="biu")
def bitwise_and(a: Operand, b: Operand) -> Matrix:
    """a & b, bit by bit; for bool the logical and.

    >>> oa.matrix.bitwise_and(oa.matrix.from_list(engine, [6, 5]), 3).tolist()
    [2, 1]
    """
    return _call("band", a, b)


@pointwise(kinds="biu")
def bitwise_or(a: Operand, b: Operand) -> Matrix:
    """a | b, bit by bit; for bool the logical or.

    >>> oa.matrix.bitwise_or(oa.matrix.from_list(engine, [6, 5]), 3).tolist()
    [7, 7]
    """
    return _call("bor", a, b)


@pointwise(kinds="biu")
def bitwise_xor(a: Operand, b: Operand) -> Matrix:
    """a ^ b, bit by bit; for bool the exclusive or.

    >>> oa.matrix.bitwise_xor(oa.matrix.from_list(engine, [6, 5]), 3).tolist()
    [5, 6]
    """
    return _call("bxor", a, b)


@pointwise(kinds="biu")
def bitwise_invert(x: Matrix) -> Matrix:
    """~x, bit by bit; for bool the negation.

    >>> oa.matrix.bitwise_invert(oa.matrix.from_list(engine, [0, 5])).tolist()
    [-1, -6]
    """
    return _call("bnot", x)


@pointwise(kinds="iu")
def bitwise_left_shift(a: Operand, b: Operand) -> Matrix:
    """a shifted left by b bits; 0 when b is at least the width.

    >>> oa.matrix.bitwise_left_shift(oa.matrix.from_list(engine, [1, 3]), 2).tolist()
    [4, 12]
    """
    return _call("shl", a, b)


@pointwise(kinds="iu")
def bitwise_right_shift(a: Operand, b: Operand) -> Matrix:
    """a shifted right by b bits, arithmetically for signed dtypes.

    >>> oa.matrix.bitwise_right_shift(oa.matrix.from_list(engine, [8, -8]), 2).tolist()
    [2, -2]
    """
    return _call("shr", a, b)


def _truth(x: Any) -> Any:
    """No node for bool operands."""
    return expr.cast(x, bool_)


@pointwise()
def logical_and(a: Operand, b: Operand) -> Matrix:
    """a and b, as bool; a number counts as true where it is not 0.

    >>> oa.matrix.logical_and(oa.matrix.from_list(engine, [True, False]), True).tolist()
    [True, False]
    """
    return _call("band", _truth(a), _truth(b))


@pointwise()
def logical_or(a: Operand, b: Operand) -> Matrix:
    """a or b, as bool; a number counts as true where it is not 0.

    >>> oa.matrix.logical_or(oa.matrix.from_list(engine, [True, False]), True).tolist()
    [True, True]
    """
    return _call("bor", _truth(a), _truth(b))


@pointwise()
def logical_xor(a: Operand, b: Operand) -> Matrix:
    """Either a or b but not both, as bool; a number counts as true where it is not 0.

    >>> oa.matrix.logical_xor(oa.matrix.from_list(engine, [True, False]), True).tolist()
    [False, True]
    """
    return _call("bxor", _truth(a), _truth(b))


@pointwise()
def logical_not(x: Matrix) -> Matrix:
    """not x, as bool; a number counts as true where it is not 0.

    >>> oa.matrix.logical_not(oa.matrix.from_list(engine, [True, False])).tolist()
    [False, True]
    """
    return _call("bnot", _truth(x))


@pointwise(exclude=("condition",))
def where(condition: Matrix, a: Operand, b: Operand) -> Matrix:
    """a where the bool condition holds, else b. The gradient reaches the chosen one alone.

    >>> x = oa.matrix.from_list(engine, [-1.0, 2.0])
    >>> oa.matrix.where(x > 0.0, x, 0.0).tolist()
    [0.0, 2.0]
    """
    return _call("where", _call("ne", condition, False), a, b)


@pointwise(kinds=_NUMERIC)
def isnan(x: Matrix) -> Matrix:
    """Whether x is NaN.

    >>> oa.matrix.isnan(oa.matrix.from_list(engine, [1.0, float("inf"), float("nan")])).tolist()
    [False, False, True]
    """
    return _call("isnan", x)


@pointwise(kinds=_NUMERIC)
def isinf(x: Matrix) -> Matrix:
    """Whether x is infinite.

    >>> oa.matrix.isinf(oa.matrix.from_list(engine, [1.0, float("inf"), float("nan")])).tolist()
    [False, True, False]
    """
    return _call("isinf", x)


@pointwise(kinds=_NUMERIC)
def isfinite(x: Matrix) -> Matrix:
    """Whether x is neither infinite nor NaN.

    >>> oa.matrix.isfinite(oa.matrix.from_list(engine, [1.0, float("inf"), float("nan")])).tolist()
    [True, False, False]
    """
    return _call("isfinite", x)


@pointwise(kinds=_REAL)
def signbit(x: Matrix) -> Matrix:
    """Whether the sign bit is set: of -0.0 and negative NaN too.

    >>> oa.matrix.signbit(oa.matrix.from_list(engine, [1.0, -0.0])).tolist()
    [False, True]
    """
    return _call("signbit", x)


# -- rounding


@pointwise(kinds=_REAL)
def floor(x: Matrix) -> Matrix:
    """The largest integer not above x; an integer is its own. Gradient 0.

    >>> oa.matrix.floor(oa.matrix.from_list(engine, [1.5, -2.5])).tolist()
    [1.0, -3.0]
    """
    return _call("floor", x)


@pointwise(kinds=_REAL)
def ceil(x: Matrix) -> Matrix:
    """The smallest integer not below x; an integer is its own. Gradient 0.

    >>> oa.matrix.ceil(oa.matrix.from_list(engine, [1.5, -2.5])).tolist()
    [2.0, -2.0]
    """
    return _call("ceil", x)


@pointwise(kinds=_REAL)
def trunc(x: Matrix) -> Matrix:
    """x without its fraction; an integer is its own. Gradient 0.

    >>> oa.matrix.trunc(oa.matrix.from_list(engine, [1.5, -2.5])).tolist()
    [1.0, -2.0]
    """
    return _call("trunc", x)


@pointwise(kinds=_NUMERIC)
def round(x: Matrix) -> Matrix:
    """The nearest integer, ties to even; an integer is its own. Gradient 0.

    >>> oa.matrix.round(oa.matrix.from_list(engine, [1.5, -2.5])).tolist()
    [2.0, -2.0]
    """
    return _call("round", x)


# -- transcendental: within 2 ulp, from the safe-maths prelude


class _Function(Protocol):
    """The type of a function of one value."""

    def __call__(self, x: Matrix) -> Matrix: ...


def _float_function(name: str, text: str, example: str) -> _Function:
    """The function of that scalar operation; `example` is an argument and what comes of it."""

    def body(x: Matrix) -> Matrix:
        return _call(name, x)

    public = _PUBLIC.get(name, name)
    argument, _, found = example.partition(" -> ")
    body.__name__ = body.__qualname__ = public
    call = f"oa.matrix.{public}(oa.matrix.from_list(engine, [{argument}])).tolist()"
    body.__doc__ = f"{text}\n\n>>> {call}\n[{found}]"
    return pointwise(kinds="f" if name in ("erf", "sigmoid") else "fc")(body)


_PUBLIC = {"recip": "reciprocal"}

sqrt = _float_function("sqrt", "The square root; NaN below 0. Gradient inf at 0.", "4.0, 9.0 -> 2.0, 3.0")
rsqrt = _float_function("rsqrt", "1 / sqrt(x).", "4.0 -> 0.5")
reciprocal = _float_function("recip", "1 / x.", "4.0 -> 0.25")
exp = _float_function("exp", "e to the power x.", "0.0 -> 1.0")
exp2 = _float_function("exp2", "2 to the power x.", "3.0, -1.0 -> 8.0, 0.5")
expm1 = _float_function("expm1", "e to the power x, less 1, without cancellation near 0.", "0.0 -> 0.0")
log = _float_function("log", "The natural logarithm; -inf at 0, NaN below.", "1.0 -> 0.0")
log2 = _float_function("log2", "The logarithm to base 2.", "8.0, 0.5 -> 3.0, -1.0")
log10 = _float_function("log10", "The logarithm to base 10.", "100.0 -> 2.0")
log1p = _float_function("log1p", "log(1 + x), without cancellation near 0.", "0.0 -> 0.0")
sin = _float_function("sin", "The sine of x in radians.", "0.0 -> 0.0")
cos = _float_function("cos", "The cosine of x in radians.", "0.0 -> 1.0")
tan = _float_function("tan", "The tangent of x in radians.", "0.0 -> 0.0")
asin = _float_function("asin", "The arc sine, in radians; NaN outside [-1, 1].", "0.0 -> 0.0")
acos = _float_function("acos", "The arc cosine, in radians; NaN outside [-1, 1].", "1.0 -> 0.0")
atan = _float_function("atan", "The arc tangent, in radians.", "0.0 -> 0.0")
sinh = _float_function("sinh", "The hyperbolic sine.", "0.0 -> 0.0")
cosh = _float_function("cosh", "The hyperbolic cosine.", "0.0 -> 1.0")
tanh = _float_function("tanh", "The hyperbolic tangent.", "0.0 -> 0.0")
asinh = _float_function("asinh", "The inverse hyperbolic sine.", "0.0 -> 0.0")
acosh = _float_function("acosh", "The inverse hyperbolic cosine; NaN below 1.", "1.0 -> 0.0")
atanh = _float_function("atanh", "The inverse hyperbolic tangent; NaN outside [-1, 1].", "0.0 -> 0.0")
erf = _float_function("erf", "The error function.", "0.0 -> 0.0")
sigmoid = _float_function("sigmoid", "1 / (1 + exp(-x)).", "0.0 -> 0.5")


@pointwise(kinds="f")
def atan2(a: Operand, b: Operand) -> Matrix:
    """The angle of the point (b, a), in radians, in [-pi, pi].

    >>> oa.matrix.atan2(oa.matrix.from_list(engine, [0.0, 1.0]), 0.0).tolist()
    [0.0, 1.5707963705062866]
    """
    return _call("atan2", a, b)


@pointwise(kinds="f")
def hypot(a: Operand, b: Operand) -> Matrix:
    """sqrt(a^2 + b^2) without overflow on the way.

    >>> oa.matrix.hypot(oa.matrix.from_list(engine, [3.0]), 4.0).tolist()
    [5.0]
    """
    return _call("hypot", a, b)


@pointwise(kinds="f")
def copysign(a: Operand, b: Operand) -> Matrix:
    """|a| with the sign of b.

    >>> oa.matrix.copysign(oa.matrix.from_list(engine, [1.0, 2.0]), -1.0).tolist()
    [-1.0, -2.0]
    """
    return _call("copysign", a, b)


# -- activations


@pointwise(kinds="if")
def relu(x: Matrix) -> Matrix:
    """max(x, 0); NaN stays NaN. Gradient 0 at 0.

    >>> oa.matrix.relu(oa.matrix.from_list(engine, [-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _call("where", _call("le", x, 0), 0, _call("add", x, 0))


@pointwise(kinds="f")
def gelu(x: Matrix) -> Matrix:
    """x Phi(x) = x (1 + erf(x / sqrt 2)) / 2, the exact form (Hendrycks and Gimpel 2016).

    Gradient: g (Phi(x) + x phi(x)), phi the normal density.

    >>> oa.matrix.gelu(oa.matrix.from_list(engine, [0.0, 10.0])).tolist()
    [0.0, 10.0]
    """
    return _call("mul", _call("mul", x, 0.5), _call("add", 1.0, _call("erf", _call("mul", x, _SQRT_HALF))))


@pointwise(kinds="f")
def gelu_tanh(x: Matrix) -> Matrix:
    """The tanh approximation of `gelu`: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    Gradient: g times the derivative of the formula, by the product rule.

    >>> oa.matrix.gelu_tanh(oa.matrix.from_list(engine, [0.0, 10.0])).tolist()
    [0.0, 10.0]
    """
    cube = _call("mul", _call("mul", x, x), x)
    inner = _call("mul", _call("add", x, _call("mul", cube, 0.044715)), _TANH_SCALE)
    return _call("mul", _call("mul", x, 0.5), _call("add", 1.0, _call("tanh", inner)))


@pointwise(kinds="f")
def silu(x: Matrix) -> Matrix:
    """x sigmoid(x).

    >>> oa.matrix.silu(oa.matrix.from_list(engine, [0.0, 100.0])).tolist()
    [0.0, 100.0]
    """
    return _call("mul", x, _call("sigmoid", x))


@pointwise(kinds="f")
def softsign(x: Matrix) -> Matrix:
    """x / (1 + |x|): like tanh from -1 to 1, with tails that fall off as 1 / |x| and not exponentially.

    Gradient: g / (1 + |x|)^2.

    >>> oa.matrix.softsign(oa.matrix.from_list(engine, [0.0, 1.0, -3.0])).tolist()
    [0.0, 0.5, -0.75]
    """
    infinite = _call("isinf", x)
    finite = _call("where", infinite, 0.0, x)  # so that no gradient multiplies an infinity by 0
    ratio = _call("div", finite, _call("add", _call("abs", finite), 1.0))
    return _call("where", infinite, _call("sign", x), ratio)


# -- conversion


@primitive("pointwise")
def _astype(x: Matrix, dtype: DType) -> Matrix:
    found: Spec = x  # type: ignore[assignment]
    body = cast_scalar(arg(0, found.dtype), dtype)
    return Inference((spec(dtype, found.shape),), (), body)  # type: ignore[return-value]


@primitive("pointwise")
def copy(x: Matrix) -> Matrix:
    """The same elements in storage of their own.

    Shapes: any; the result has it too.
    Dtypes: any.
    Gradient: g.
    Raises: ArgumentError for what is no Matrix.

    >>> oa.matrix.copy(oa.matrix.from_list(engine, [1.5])).tolist()
    [1.5]
    """
    found: Spec = x  # type: ignore[assignment]
    return Inference((found,), (), arg(0, found.dtype))  # type: ignore[return-value]


def astype(x: Matrix, dtype: Any, *, copy: bool = True, device: Any = None) -> Matrix:
    """The elements converted to `dtype`: floats to integers truncate and saturate (NaN gives 0), integers wrap, to bool: != 0.
    A complex value becomes no real one: `real`, `imag` and `abs` do that.

    Without `copy` the result may be x itself; `device` moves the result to another Engine.

    Shapes: any; the result has it too.
    Dtypes: any; `dtype` may be any too.
    Gradient: g, cast back, between floating-point dtypes; none otherwise.
    Raises: DTypeError for a dtype that `oa` does not have, and from complex to real dtypes.

    >>> oa.matrix.astype(oa.matrix.from_list(engine, [1.9, -1.9]), oa.int32).tolist()
    [1, -1]
    """
    wanted = as_dtype(dtype)
    if x.dtype.is_complex and not wanted.is_complex and wanted is not bool_:
        raise DTypeError(
            f"matrix.astype: {x.dtype.name} to {wanted.name} would drop imaginary parts; take matrix.real(x), or matrix.abs(x)"
        )
    same = again(x) if copy else x
    found = same if x.dtype is wanted else _astype(x, wanted)
    return found if device is None else found.to_device(device)
