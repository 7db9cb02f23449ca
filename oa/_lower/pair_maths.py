"""Complex transcendental functions from real ones of the safe-maths prelude, additions and products.

Special values are the tables of C99's Annex G, which the array API standard repeats. Where real parts would overflow or cancel
before the result does, sources are named. |error| <= 16 u |f(z)|, with u = 2^-24 or 2^-53; of `pow` (16 + |b log a|) u |a^b|.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from oa._lower.pair_scalar import Complex, R, choose, divided, hypot, select, tame, two_square, two_sum, unit

#: Arguments of exp beyond which it is computed in two factors, exp(x - _SHIFT) and exp(_SHIFT).
_SHIFT = 40.0


def _large(x: R) -> R:
    """Whether exp(x) is so close to overflow that a cosine could bring it back."""
    return x > (700.0 if x.wide else 80.0)


def _grown(x: R, large: R) -> tuple[R, R]:
    """Two factors whose product is exp(x)."""
    return choose(large, x - _SHIFT, x).one("exp"), choose(large, x.like(math.exp(_SHIFT)), 1.0)


def _square_root(z: Complex) -> Complex:
    """t = sqrt((|x| + |z|) / 2) is one part, y / 2t the other (C99's csqrt)."""
    scaled, factor = tame(z)
    x, y = scaled
    t = ((abs(x) + hypot(scaled)) * 0.5).one("sqrt")
    other = abs(y) / (t + t)
    right = z.re >= 0.0
    re, im = choose(right, t, other), choose(right, other, t).signed(z.im)
    back = choose(factor.eq(1.0), z.re.like(1.0), factor.one("rsqrt"))
    found = Complex(re * back, im * back)
    found = select(z.re.eq(0.0) & z.im.eq(0.0), Complex(z.re.like(0.0), z.im), found)
    nothing = z.re.nan & ~z.im.inf  # of NaN both parts are NaN
    found = select(nothing, Complex(z.re, z.re), found)
    return select(z.im.inf, Complex(z.re.like(math.inf), z.im), found)


def _exp(z: Complex) -> Complex:
    x, y = z
    first, second = _grown(x, _large(x))
    sine = choose(y.eq(0.0), y, first * y.one("sin") * second)
    found = Complex(first * y.one("cos") * second, sine)
    vanishes = x.eq(-math.inf) & ~y.finite
    found = select(vanishes, Complex(x.like(0.0), x.like(0.0)), found)
    return Complex(choose(x.eq(math.inf) & ~y.finite, x, found.re), found.im)


def _expm1(z: Complex) -> Complex:
    """(expm1(x) cos y - 2 sin(y / 2)^2) + i exp(x) sin y."""
    whole = _exp(z)
    x, y = z
    half = (y * 0.5).one("sin")
    near = x.one("expm1") * y.one("cos") - (half + half) * half
    re = choose(abs(x) < 2.0, near, whole.re - 1.0)
    return Complex(re, whole.im)


def _log_size(x: R, y: R) -> R:
    """log |x + iy|. Near 1 from x^2 - 1 + y^2 in twice the precision, elsewhere from the larger part and the ratio."""
    swapped = abs(y) > abs(x)
    m, n = choose(swapped, abs(y), abs(x)), choose(swapped, abs(x), abs(y))
    near = m * m + n * n
    inside = (near > 0.5) & (near < 3.0)
    a, b = choose(inside, m, 1.0), choose(inside, n, 0.0)
    (p, p_low), (q, q_low) = two_square(a), two_square(b)
    total, low = two_sum(p - 1.0, q)
    close = (total + (low + (p_low + q_low))).one("log1p") * 0.5
    ratio = n / m
    far = m.one("log") + (ratio * ratio).one("log1p") * 0.5
    far = choose(m.eq(0.0), x.like(-math.inf), far)
    found = choose(inside, close, far)
    return choose(x.inf | y.inf, x.like(math.inf), found)


def _log(z: Complex) -> Complex:
    return Complex(_log_size(z.re, z.im), z.im.two("atan2", z.re))


def _log_to(base: float) -> Callable[[Complex], Complex]:
    def body(z: Complex) -> Complex:
        found, factor = _log(z), 1 / math.log(base)
        return Complex(found.re * factor, found.im * factor)

    return body


def _log1p(z: Complex) -> Complex:
    """log |1 + z| near 1 from 2x + x^2 + y^2 in twice the precision."""
    x, y = z
    moved = x + 1.0
    size = x * (x + 2.0) + y * y
    inside = (size > -0.5) & (size < 2.0) & (abs(x) < 4.0)
    a, b = choose(inside, x, 0.0), choose(inside, y, 0.0)
    (p, p_low), (q, q_low) = two_square(a), two_square(b)
    total, low = two_sum(p, q)
    total, lower = two_sum(a + a, total)
    close = (total + (lower + (low + (p_low + q_low)))).one("log1p") * 0.5
    re = choose(inside, close, _log_size(moved, y))
    return Complex(re, y.two("atan2", moved))


def _sinh(z: Complex) -> Complex:
    x, y = z
    size = abs(x)
    large = _large(size)
    first, second = _grown(size, large)
    sine, cosine = y.one("sin"), y.one("cos")
    half = first * 0.5
    re = choose(large, half * cosine * second * x.like(1.0).signed(x), x.one("sinh") * cosine)
    im = choose(large, half * sine * second, x.one("cosh") * sine)
    lost = ~y.finite
    re = choose(x.eq(0.0) & lost, x, re)
    re = choose(x.inf & lost, x, re)
    return Complex(re, choose(y.eq(0.0), y, im))


def _cosh(z: Complex) -> Complex:
    x, y = z
    size = abs(x)
    large = _large(size)
    first, second = _grown(size, large)
    sine, cosine = y.one("sin"), y.one("cos")
    half = first * 0.5
    re = choose(large, half * cosine * second, x.one("cosh") * cosine)
    im = choose(large, half * sine * second * x.like(1.0).signed(x), x.one("sinh") * sine)
    lost = ~y.finite
    re = choose(x.inf & lost, size, re)
    im = choose(x.eq(0.0) & lost, x, im)
    return Complex(re, choose(y.eq(0.0), y * x.like(1.0).signed(x), im))


def _tanh(z: Complex) -> Complex:
    """Kahan 1987: with t = tan y, s = sinh x: (s sqrt(1 + s^2) (1 + t^2) + i t) / (1 + (1 + t^2) s^2)."""
    x, y = z
    size = abs(x)
    far = size > (22.0 if x.wide else 11.0)
    tangent, s = y.one("tan"), choose(far, 0.0, x).one("sinh")
    beta = tangent * tangent + 1.0
    below = beta * s * s + 1.0
    re = beta * (s * s + 1.0).one("sqrt") * s / below
    im = tangent / below
    one = x.like(1.0).signed(x)
    tail = y.one("sin") * y.one("cos") * 4.0 * (size * -2.0).one("exp")
    tail = choose(x.inf, choose(y.nan, 0.0, x.like(0.0).signed(y)), tail)
    ahead = choose(y.finite | x.inf, one, math.nan)
    found = select(far, Complex(ahead, tail), Complex(re, im))
    return Complex(choose(x.eq(0.0), x, found.re), choose(y.eq(0.0), y, found.im))


# -- inverse functions (Kahan 1987, "Branch cuts for complex elementary functions")


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """sqrt(1 - z) and sqrt(1 + z), signed zeros kept."""
    below = _square_root(Complex(-z.re + 1.0, -z.im))
    return below, _square_root(Complex(z.re + 1.0, z.im))


def _boxed(z: Complex) -> tuple[R, R, R]:
    """Whether a part is infinite, and the parts with 1 for infinity and 0 for what is finite: their angle is z's."""
    x, y = (choose(p.nan, p, choose(p.inf, p.like(1.0), 0.0).signed(p)) for p in z)
    return z.re.inf | z.im.inf, x, y


def _asin(z: Complex) -> Complex:
    below, above = _roots(z)
    re = z.re.two("atan2", below.re * above.re - below.im * above.im)
    im = (below.re * above.im - below.im * above.re).one("asinh")
    endless, x, y = _boxed(z)
    re = choose(endless, x.two("atan2", abs(y)), re)
    im = choose(endless, z.re.like(math.inf), im).signed(choose(z.im.nan, im, z.im))
    return Complex(choose(z.re.eq(0.0), z.re, re), choose(z.re.nan & z.im.finite, z.re, im))


def _acos(z: Complex) -> Complex:
    below, above = _roots(z)
    re = below.re.two("atan2", above.re) * 2.0
    im = (above.re * below.im - above.im * below.re).one("asinh")
    endless, x, y = _boxed(z)
    re = choose(endless, abs(y).two("atan2", x), re)
    im = choose(endless, z.re.like(math.inf), im).signed(choose(z.im.nan, im, -z.im))
    re = choose(z.re.eq(0.0) & z.im.nan, math.pi / 2, re)
    return Complex(re, im)


def _acosh(z: Complex) -> Complex:
    before, above = _square_root(Complex(z.re - 1.0, z.im)), _square_root(Complex(z.re + 1.0, z.im))
    re = (before.re * above.re + before.im * above.im).one("asinh")
    im = before.im.two("atan2", above.re) * 2.0
    endless, x, y = _boxed(z)
    im = choose(z.re.eq(0.0) & z.im.nan, math.pi / 2, im)
    return Complex(choose(endless, z.re.like(math.inf), re), choose(endless, y.two("atan2", x), im))


def _asinh(z: Complex) -> Complex:
    found = _turned(_asin)(z)
    nothing = z.re.nan & z.im.eq(0.0)
    return Complex(found.re, choose(nothing, z.im, found.im))


def _atanh(z: Complex) -> Complex:
    x, y = z
    size = abs(x)
    big = 2.0**500 if x.wide else 2.0**60
    far = (size > big) | (abs(y) > big)
    a, b = choose(far, 0.0, size), choose(far, 0.0, y)
    apart = (-a + 1.0) * (-a + 1.0) + b * b
    re = (a * 4.0 / apart).one("log1p") * 0.25
    at_pole = size.eq(1.0) & (abs(y) < 1.0)
    ratio = Complex(x.like(2.0), y)
    re = choose(at_pole, (hypot(ratio).one("log") - abs(y).one("log")) * 0.5, re)
    im = (b + b).two("atan2", (-a + 1.0) * (a + 1.0) - b * b) * 0.5
    endless = x.inf | y.inf
    inverse = abs(divided(unit(z), z).re)
    re = choose(endless, 0.0, choose(far, inverse, re)).signed(x)
    quarter = choose(y.nan, y, y.like(math.pi / 2).signed(y))
    im = choose(far, quarter, im)
    return Complex(choose(size.eq(0.0), x, re), im)


def _turned(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """i f(-iz): from a function of angles the hyperbolic one."""

    def body(z: Complex) -> Complex:
        found = function(Complex(z.im, -z.re))
        return Complex(-found.im, found.re)

    return body


def _back(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """-i f(iz): from a hyperbolic function the one of angles."""

    def body(z: Complex) -> Complex:
        found = function(Complex(-z.im, z.re))
        return Complex(found.im, -found.re)

    return body


def _pow(a: Complex, b: Complex) -> Complex:
    """|a|^re(b) exp(-im(b) arg a) at the angle im(b) log |a| + re(b) arg a; exponents 0, 1 and 2 exactly, as products."""
    log = _log(a)
    size = hypot(a).two("pow", b.re) * (-(b.im * log.im)).one("exp")
    angle = b.im * log.re + b.re * log.im
    real = b.im.eq(0.0)
    size = choose(real, hypot(a).two("pow", b.re), size)
    angle = choose(real, b.re * log.im, angle)
    turn = choose(angle.eq(0.0), angle, size * angle.one("sin"))
    found = Complex(size * angle.one("cos"), turn)
    nothing = a.re.eq(0.0) & a.im.eq(0.0)
    zero = Complex(a.re.like(0.0), a.re.like(0.0))
    found = select(nothing & (b.re > 0.0), zero, found)
    nan = a.re.like(math.nan)
    found = select(nothing & ~(b.re > 0.0), Complex(nan, nan), found)
    square = Complex((a.re - a.im) * (a.re + a.im), (a.re + a.re) * a.im)
    found = select(real & b.re.eq(2.0), square, found)
    found = select(real & b.re.eq(1.0), a, found)
    return select(real & b.re.eq(0.0), unit(a), found)


def _inverse_root(z: Complex) -> Complex:
    return divided(unit(z), _square_root(z))


def _exp2(z: Complex) -> Complex:
    """2^x at the angle y log 2; x log 2 is not rounded before it is raised."""
    angle = z.im * math.log(2)
    size = z.re.one("exp2")
    return Complex(size * angle.one("cos"), choose(angle.eq(0.0), angle, size * angle.one("sin")))


FUNCTIONS: dict[str, Callable[..., Complex]] = {
    "sqrt": _square_root,
    "rsqrt": _inverse_root,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log2": _log_to(2.0),
    "log10": _log_to(10.0),
    "log1p": _log1p,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": _back(_sinh),
    "cos": lambda z: _cosh(Complex(-z.im, z.re)),
    "tan": _back(_tanh),
    "asin": _asin,
    "acos": _acos,
    "atan": _back(_atanh),
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "pow": _pow,
}
