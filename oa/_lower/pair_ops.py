"""Complex scalar expressions as pairs of real ones: arithmetic, comparison, and what has its own rule for each part.

`split` is the one place where a complex operation becomes real operations. Errors are bounded by the size of the whole result,
as for any complex arithmetic without double width: |error| <= k u |z| with u = 2^-24 or 2^-53.
"""

from __future__ import annotations

from collections.abc import Callable

from oa._lower.pair_maths import FUNCTIONS
from oa._lower.pair_scalar import Complex, R, choose, divided, hypot, tame, unit
from oa._schema import scalar as sc
from oa._schema.scalar import Scalar
from oa.errors import InternalError


def split(root: Scalar) -> tuple[Scalar, ...]:
    """The real expressions of a body: one for a real result, two for a complex one. Part k of operand n is operand 2 n + k."""
    done: dict[Scalar, tuple[Scalar, ...]] = {}
    for node in sc.topological([root]):
        done[node] = _node(node, [done[a] for a in node.args])
    return done[root]


def _node(node: Scalar, args: list[tuple[Scalar, ...]]) -> tuple[Scalar, ...]:
    if node.op == "arg":
        parts = range(2) if node.dtype.is_complex else range(1)
        return tuple(sc.arg(2 * node.attr + k, node.dtype.component) for k in parts)
    if node.op == "const" and node.dtype.is_complex:
        return tuple(
            sc.scalar("const", node.dtype.component, (), p) for p in sc.parts_of(node.attr, node.dtype)
        )
    if not node.dtype.is_complex and all(len(a) == 1 for a in args):
        return (sc.scalar(node.op, node.dtype, tuple(a[0] for a in args), node.attr),)
    if node.op == "where":
        condition, a, b = args
        return tuple(sc.apply("where", condition[0], x, y) for x, y in zip(a, b))
    if node.op == "cast":
        return _cast(node, args[0])
    if node.op == "complex":
        return args[0][0], args[1][0]
    rule = _RULES.get(node.op)
    if rule is None:
        raise InternalError(f"{node.op} has no rule for complex operands")
    found = rule(*(Complex(R(a[0]), R(a[1])) for a in args))
    return (found.re.v, found.im.v) if isinstance(found, Complex) else (found.v,)


def _cast(node: Scalar, parts: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """A real number gets an imaginary part of 0; a complex one becomes true where it is not 0, or loses its imaginary part."""
    if node.dtype.is_complex:
        part = node.dtype.component
        real = sc.cast(parts[0], part)
        return real, sc.cast(parts[1], part) if len(parts) == 2 else sc.const(0, part)
    if node.dtype.kind == "b":
        return (sc.apply("bor", *(sc.cast(p, node.dtype) for p in parts)),)
    return (sc.cast(parts[0], node.dtype),)


def _multiply(a: Complex, b: Complex) -> Complex:
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _square(z: Complex) -> Complex:
    """x^2 - y^2 as a product, which neither overflows before its result nor cancels."""
    return Complex((z.re - z.im) * (z.re + z.im), (z.re + z.re) * z.im)


def _each(op: str) -> Callable[[Complex], Complex]:
    return lambda z: Complex(z.re.one(op), z.im.one(op))


def _sign(z: Complex) -> Complex:
    scaled, _ = tame(z)
    size = hypot(scaled)
    zero = z.re.eq(0.0) & z.im.eq(0.0)
    return Complex(choose(zero, 0.0, scaled.re / size), choose(zero, 0.0, scaled.im / size))


_Rule = Callable[..., "Complex | R"]
_RULES: dict[str, _Rule] = {
    "add": lambda a, b: Complex(a.re + b.re, a.im + b.im),
    "sub": lambda a, b: Complex(a.re - b.re, a.im - b.im),
    "mul": _multiply,
    "div": divided,
    "neg": lambda z: Complex(-z.re, -z.im),
    "conj": lambda z: Complex(z.re, -z.im),
    "real_part": lambda z: z.re,
    "imag_part": lambda z: z.im,
    "abs": hypot,
    "angle": lambda z: z.im.two("atan2", z.re),
    "square": _square,
    "sign": _sign,
    "round": _each("round"),
    "recip": lambda z: divided(unit(z), z),
    "eq": lambda a, b: a.re.eq(b.re) & a.im.eq(b.im),
    "ne": lambda a, b: a.re.ne(b.re) | a.im.ne(b.im),
    "isnan": lambda z: z.re.one("isnan") | z.im.one("isnan"),
    "isinf": lambda z: z.re.one("isinf") | z.im.one("isinf"),
    "isfinite": lambda z: z.re.one("isfinite") & z.im.one("isfinite"),
    **FUNCTIONS,
}

__all__ = ["split"]
