"""Distributions made from uniform words: truncated normal, gamma, and choices among logits. Seeds and draws as in `uniform`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oa._schema import expr
from oa._schema.declare import primitive
from oa._schema.dtype import as_float, float32, uint32
from oa._schema.expr import Expr, resolve
from oa._schema.op import Inference
from oa._schema.spec import as_shape, broadcast, normalize_axis, spec
from oa.errors import ArgumentError, DTypeError, ShapeError
from oa.matrix.chance import categorical
from oa.matrix.create import _scalar, engine_of
from oa.matrix.elementwise import where
from oa.matrix.indexing import gather
from oa.matrix.normalise import softmax
from oa.matrix.random import _bits, _stream, _unit
from oa.matrix.reduce import argmax
from oa.matrix.scan import cumulative_sum
from oa.matrix.sorting import argsort
from oa.matrix.value import Matrix

# The normal quantile over x, a polynomial each (tools/fit_normal.py).
# in w - 2.25, within 0.87 units of 2^-24
_CENTRAL = (
    2.0357725620269775,
    0.35140442848205566,
    -0.004462390206754208,
    -0.002083733445033431,
    0.000312710675643757,
    1.6134048337335116e-06,
    -6.019692136760568e-06,
    4.3271785443721456e-07,
    6.585903378208968e-08,
)
# in sqrt(w) - 3.125, within 0.84 units of 2^-24
_TAIL = (
    4.183696269989014,
    1.4194724559783936,
    0.009976880624890327,
    -0.007493582088500261,
    0.005293618887662888,
    -0.003576756687834859,
    0.001978703308850527,
    -0.0004546834097709507,
    -0.0003567375533748418,
    0.00020988861797377467,
    3.077057044720277e-05,
    -2.2124502720544115e-05,
)
# in sqrt(w) - 6.75, within 0.30 units of 2^-24
_FAR = (
    9.357623100280762,
    1.4267332553863525,
    -0.0007289299974218011,
    -1.425979235136765e-06,
    1.259080909221666e-05,
    -2.9764930786768673e-06,
    4.0811340795698925e-07,
    -1.1982253056430636e-07,
    3.680181492882184e-08,
    -2.6505093675410762e-09,
)

#: Rounds of rejection that a gamma variate gets; each fails with a probability below 0.05.
ROUNDS = 6
#: Words that a gamma variate takes from its stream: three a round and one more, rounded up to whole blocks.
_WORDS = 20
_LARGEST = (1 << 32) // _WORDS


def _polynomial(coefficients: Sequence[float], t: Any) -> Any:
    found: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        found = expr.call("add", expr.call("mul", found, t), c)
    return found


def _upper_quantile(q: Any) -> Any:
    """z with a normal probability of q above it, 0 < q <= 1/2, within 3 ulp: x P(w), x = 1 - 2q, w = -log(1 - x^2)."""
    x = 1.0 - q * 2.0
    square = x * x
    near = expr.call("neg", expr.call("log1p", expr.call("neg", square)))
    far = expr.call("neg", expr.call("log", q * 4.0 * (1.0 - q)))
    w = expr.where(expr.call("lt", square, 0.5), near, far)
    root = expr.call("sqrt", w)
    tail = expr.where(
        expr.call("lt", root, 4.25), _polynomial(_TAIL, root - 3.125), _polynomial(_FAR, root - 6.75)
    )
    return x * expr.where(expr.call("lt", w, 4.5), _polynomial(_CENTRAL, w - 2.25), tail)


def _open_unit(word: Any) -> Any:
    """(k + 1/2) / 2^23 for 23 random bits k: never 0 or 1, and so is what is left to 1."""
    return (expr.cast(expr.call("shr", word, 9), float32) + 0.5) * (2.0**-23)


@primitive("pointwise")
def _truncated(
    low_seed: Matrix,
    high_seed: Matrix,
    draw: Matrix,
    below: Matrix,
    share: Matrix,
    above: Matrix,
    upper_share: Matrix,
    low: Matrix,
    high: Matrix,
    mean: Matrix,
    std: Matrix,
    shape: tuple[int, ...],
) -> Matrix:
    """The quantile of a uniform probability between those of the bounds, from whichever tail is nearer."""
    below_, share_, above_, upper_share_, low_, high_, mean_, std_ = (
        Expr("arg", (), k) for k in range(3, 11)
    )
    u = _open_unit(_bits(expr.element()))
    p = below_ + share_ * u
    q = above_ + upper_share_ * (1.0 - u)
    lower = expr.call("le", p, 0.5)
    size = _upper_quantile(expr.where(lower, p, q))
    z = expr.where(lower, expr.call("neg", size), size)
    body = mean_ + std_ * expr.call("min", expr.call("max", z, low_), high_)
    dtypes = (uint32,) * 3 + (float32,) * 8
    return Inference((spec(float32, shape),), (), resolve(body, dtypes, "matrix.truncated_normal"))  # type: ignore[return-value]


def _above(z: float) -> float:
    """The normal probability of more than z."""
    return math.erfc(z / math.sqrt(2.0)) / 2.0


def truncated_normal(
    engine: Any,
    shape: Any = None,
    low: float = -2.0,
    high: float = 2.0,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    seed: int | None = None,
    device: Any = None,
) -> Matrix:
    """mean + std z for a normal z of which only the part between `low` and `high` is kept, float32; by default within two std.

    z is the quantile of a uniform probability between those of the bounds, accurate in both tails; z within 4 ulp on every
    device. Seed as in `uniform`.

    Shapes: `shape`.
    Dtypes: none taken; the result is float32.
    Gradient: none: there is no operand.
    Raises: ArgumentError unless low < high, and where the probability between them is less than 2^-126; ShapeError for a
    negative extent or a rank above 8.

    >>> x = oa.matrix.truncated_normal(engine, (100,), 1.0, 1.5, seed=3).to_numpy()
    >>> bool(((x >= 1.0) & (x <= 1.5)).all())
    True
    """
    if shape is None:
        engine, shape = None, engine
    chosen = engine_of(engine, device)
    low, high = as_float(low), as_float(high)
    if not low < high:
        raise ArgumentError(f"matrix.truncated_normal: bounds {low} and {high}; wanted low < high")
    below, above = _above(-low), _above(high)
    share, upper_share = _above(-high) - below, _above(low) - above
    if max(share, upper_share) < 2.0**-126:
        raise ArgumentError(f"matrix.truncated_normal: the probability between {low} and {high} is too small")
    numbers = (below, share, above, upper_share, low, high, mean, std)
    given = as_shape(shape, "matrix.truncated_normal")
    operands: list[Any] = [*_stream(chosen, seed), *(_scalar(chosen, float32, as_float(v)) for v in numbers)]
    operands.append(given)
    return _truncated(*operands)


# -- gamma


def _proposal(first: Any, a: Any) -> tuple[Any, Any]:
    """(whether it is accepted, d v) of one round whose words begin at `first`; Marsaglia and Tsang 2000."""
    word = [expr.call("add", first, k) for k in range(3)]
    radius = expr.call("sqrt", expr.call("log", _open_unit(_bits(word[0]))) * -2.0)
    x = radius * expr.call("cos", _unit(_bits(word[1])) * (2.0 * math.pi))
    d = a - 1.0 / 3.0
    root = 1.0 + x * expr.call("rsqrt", d * 9.0)
    v = root * root * root
    positive = expr.call("gt", root, 0.0)
    bound = x * x * 0.5 + d * (1.0 - v + expr.call("log", expr.where(positive, v, 1.0)))
    accepted = positive & expr.call("lt", expr.call("log", _open_unit(_bits(word[2]))), bound)
    return accepted, d * v


@primitive("pointwise")
def _gamma(
    low_seed: Matrix,
    high_seed: Matrix,
    draw: Matrix,
    concentration: Matrix,
    scale: Matrix,
    shape: tuple[int, ...],
) -> Matrix:
    """The first proposal that is accepted; below 1 of one more, times u^(1/a). After the last round the mode stands."""
    a_, scale_ = Expr("arg", (), 3), Expr("arg", (), 4)
    boosted = expr.where(expr.call("lt", a_, 1.0), a_ + 1.0, a_)
    start = expr.call("mul", expr.element(), _WORDS)
    found: Any = boosted - 1.0 / 3.0
    for k in reversed(range(ROUNDS)):
        accepted, value = _proposal(expr.call("add", start, 3 * k), boosted)
        found = expr.where(accepted, value, found)
    u = _open_unit(_bits(expr.call("add", start, 3 * ROUNDS)))
    power = expr.call("exp", expr.call("div", expr.call("log", u), a_))
    found = found * expr.where(expr.call("lt", a_, 1.0), power, 1.0) * scale_
    body = expr.where(expr.call("gt", a_, 0.0), found, math.nan)
    dtypes = (uint32,) * 3 + (float32,) * 2
    return Inference((spec(float32, shape),), (), resolve(body, dtypes, "matrix.gamma"))  # type: ignore[return-value]


def gamma(
    engine: Any,
    shape: Any = None,
    concentration: float | Matrix = 1.0,
    scale: float | Matrix = 1.0,
    *,
    seed: int | None = None,
    device: Any = None,
) -> Matrix:
    """Gamma variates of density proportional to x^(a - 1) exp(-x / scale) for concentration a > 0, float32.

    By Marsaglia and Tsang's rejection, at most 6 rounds an element (all fail with a probability below 10^-7: the mode then
    stands). Equal on every device except where an ulp decides. A concentration that is not positive gives NaN. Seed as in
    `uniform`.

    Shapes: `shape`, to which concentration and scale broadcast.
    Dtypes: floating-point, of concentration and scale, and of these float32 alone; the result is float32.
    Gradient: none: a draw is constant.
    Raises: ShapeError where they do not broadcast; DTypeError for another dtype; ArgumentError for a number that is not
    positive or more than 2^32 / 20 elements.

    >>> oa.matrix.gamma(engine, (2, 3), 0.5, seed=1).shape
    (2, 3)
    """
    if shape is None:
        engine, shape = None, engine
    chosen = engine_of(engine, device)
    wanted = as_shape(shape, "matrix.gamma")
    if math.prod(wanted) > _LARGEST:
        raise ArgumentError(f"matrix.gamma: {math.prod(wanted)} elements; one draw makes at most {_LARGEST}")
    parameters: list[Any] = []
    for name, v in (("concentration", concentration), ("scale", scale)):
        if not isinstance(v, Matrix):
            if not v > 0:
                raise ArgumentError(f"matrix.gamma: {name} is {v}; wanted a number above 0")
            v = _scalar(chosen, float32, as_float(v))
        if v.dtype is not float32:
            raise DTypeError(f"matrix.gamma: {name} is {v.dtype.name}; cast with .astype(oa.float32)")
        if broadcast([wanted, v.shape], "matrix.gamma", ("shape", name)) != wanted:
            raise ShapeError(f"matrix.gamma: {name} {v.shape} does not broadcast to {wanted}")
        parameters.append(v)
    operands = [*_stream(chosen, seed), *parameters, wanted]
    return _gamma(*operands)


# -- choices among logits


def sample_logits(
    logits: Matrix,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    *,
    axis: int = -1,
    seed: int | None = None,
) -> Matrix:
    """int32 indices along `axis`, drawn with probability softmax(logits / temperature) among the likeliest.

    `temperature` 0 or below takes the first largest. `top_k` leaves the k largest, `top_p` the fewest whose probabilities add up
    to p or more, the largest among them; of equal logits the earlier comes first. Seed as in `uniform`.

    Shapes: the logits' without `axis`.
    Dtypes: floating-point, and of these float32 alone.
    Gradient: none: the result is an index.
    Raises: DTypeError for another dtype; AxisError for an axis outside the logits; ArgumentError unless 1 <= top_k and
    0 < top_p <= 1.

    >>> oa.matrix.sample_logits(oa.matrix.from_list(engine, [[0.0, 3.0, 3.0]]), 0.0).tolist()
    [1]
    """
    if logits.dtype is not float32:
        raise DTypeError(
            f"matrix.sample_logits: logits are {logits.dtype.name}; cast with .astype(oa.float32)"
        )
    at = normalize_axis(axis, logits.ndim, "matrix.sample_logits")
    if math.isnan(as_float(temperature)):
        raise ArgumentError("matrix.sample_logits: temperature is nan; wanted a number")
    if top_k is not None and top_k < 1:
        raise ArgumentError(f"matrix.sample_logits: top_k is {top_k}; wanted 1 or more")
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise ArgumentError(f"matrix.sample_logits: top_p is {top_p}; wanted more than 0 and at most 1")
    if temperature <= 0.0:
        return argmax(logits, axis=at)
    scaled = logits / temperature
    if top_k is not None or top_p is not None:
        order = argsort(scaled, axis=at, descending=True)
        place = argsort(order, axis=at)
        if top_k is not None:
            scaled = where(place < top_k, scaled, -math.inf)
        if top_p is not None:
            likely = gather(softmax(scaled, axis=at), order, axis=at)
            before = cumulative_sum(likely, axis=at) - likely
            scaled = where((gather(before, place, axis=at) < top_p) | (place < 1), scaled, -math.inf)
    return categorical(scaled, axis=at, seed=seed)


__all__ = ["ROUNDS", "gamma", "sample_logits", "truncated_normal"]
