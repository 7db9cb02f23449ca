"""Reverse-mode differentiation of typed scalar expressions: the gradients of every pointwise operation.

At a kink the rule is: abs gives 0 at 0; min and max share a tie evenly; floor, ceil, round, trunc and sign give 0;
sqrt gives inf at 0; where passes the cotangent to the chosen branch alone.

The cotangent of a complex value z = x + iy is dL/dx + i dL/dy for the real result L, as PyTorch has it: a holomorphic operation
passes g conj(f'(z)) on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from oa._schema import scalar as sc
from oa._schema.scalar import Scalar, apply

Rule = Callable[[Scalar, Scalar], tuple["Scalar | None", ...]]


def _c(value: float, like: Scalar) -> Scalar:
    return sc.const(value, like.dtype)


def _mul(a: Scalar, b: Scalar) -> Scalar:
    return apply("mul", a, b)


def _scaled(g: Scalar, factor: float) -> Scalar:
    return apply("mul", g, _c(factor, g))


def _minus(g: Scalar) -> Scalar:
    return apply("neg", g)


def _one_minus_square(x: Scalar) -> Scalar:
    return apply("sub", _c(1, x), _mul(x, x))


def _one_plus_square(x: Scalar) -> Scalar:
    return apply("add", _c(1, x), _mul(x, x))


def _extremum(n: Scalar, g: Scalar, wins: str) -> tuple[Scalar, Scalar]:
    a, b = n.args
    tie = apply("where", apply("eq", a, b), _scaled(g, 0.5), _c(0, g))
    return (
        apply("where", apply(wins, a, b), g, tie),
        apply("where", apply(wins, b, a), g, tie),
    )


def _pow(n: Scalar, g: Scalar) -> tuple[Scalar, Scalar]:
    a, b = n.args
    da = _mul(g, _mul(b, apply("pow", a, apply("sub", b, _c(1, b)))))
    zero = _c(0, g)
    flat_base = apply("where", apply("eq", b, _c(0, b)), zero, da)
    db = apply("where", apply("eq", a, _c(0, a)), zero, _mul(g, _mul(n, apply("log", a))))
    return flat_base, db


def _atan2(n: Scalar, g: Scalar) -> tuple[Scalar, Scalar]:
    y, x = n.args
    norm = apply("add", _mul(x, x), _mul(y, y))
    return apply("div", _mul(g, x), norm), _minus(apply("div", _mul(g, y), norm))


def _where(n: Scalar, g: Scalar) -> tuple[Scalar | None, ...]:
    zero = _c(0, g)
    return None, apply("where", n.args[0], g, zero), apply("where", n.args[0], zero, g)


def _div(n: Scalar, g: Scalar) -> tuple[Scalar, Scalar]:
    return apply("div", g, n.args[1]), _minus(apply("div", _mul(g, n), n.args[1]))


_RULES: dict[str, Rule] = {
    "add": lambda n, g: (g, g),
    "sub": lambda n, g: (g, _minus(g)),
    "mul": lambda n, g: (_mul(g, n.args[1]), _mul(g, n.args[0])),
    "div": _div,
    "neg": lambda n, g: (_minus(g),),
    "abs": lambda n, g: (_mul(g, apply("sign", n.args[0])),),
    "max": lambda n, g: _extremum(n, g, "gt"),
    "min": lambda n, g: _extremum(n, g, "lt"),
    "where": _where,
    "cast": lambda n, g: (sc.cast(g, n.args[0].dtype),),
    "square": lambda n, g: (_mul(_scaled(g, 2), n.args[0]),),
    "sqrt": lambda n, g: (apply("div", _scaled(g, 0.5), n),),
    "rsqrt": lambda n, g: (_mul(_scaled(g, -0.5), _mul(n, _mul(n, n))),),
    "recip": lambda n, g: (_minus(_mul(g, _mul(n, n))),),
    "exp": lambda n, g: (_mul(g, n),),
    "exp2": lambda n, g: (_mul(g, _scaled(n, math.log(2))),),
    "expm1": lambda n, g: (_mul(g, apply("add", n, _c(1, n))),),
    "log": lambda n, g: (apply("div", g, n.args[0]),),
    "log2": lambda n, g: (apply("div", g, _scaled(n.args[0], math.log(2))),),
    "log10": lambda n, g: (apply("div", g, _scaled(n.args[0], math.log(10))),),
    "log1p": lambda n, g: (apply("div", g, apply("add", _c(1, g), n.args[0])),),
    "sin": lambda n, g: (_mul(g, apply("cos", n.args[0])),),
    "cos": lambda n, g: (_minus(_mul(g, apply("sin", n.args[0]))),),
    "tan": lambda n, g: (_mul(g, _one_plus_square(n)),),
    "asin": lambda n, g: (_mul(g, apply("rsqrt", _one_minus_square(n.args[0]))),),
    "acos": lambda n, g: (_minus(_mul(g, apply("rsqrt", _one_minus_square(n.args[0])))),),
    "atan": lambda n, g: (apply("div", g, _one_plus_square(n.args[0])),),
    "atan2": _atan2,
    "sinh": lambda n, g: (_mul(g, apply("cosh", n.args[0])),),
    "cosh": lambda n, g: (_mul(g, apply("sinh", n.args[0])),),
    "tanh": lambda n, g: (_mul(g, _one_minus_square(n)),),
    "asinh": lambda n, g: (_mul(g, apply("rsqrt", _one_plus_square(n.args[0]))),),
    "acosh": lambda n, g: (_mul(g, apply("rsqrt", apply("sub", _mul(n.args[0], n.args[0]), _c(1, g)))),),
    "atanh": lambda n, g: (apply("div", g, _one_minus_square(n.args[0])),),
    "erf": lambda n, g: (
        _mul(_scaled(g, 2 / math.sqrt(math.pi)), apply("exp", _minus(_mul(n.args[0], n.args[0])))),
    ),
    "sigmoid": lambda n, g: (_mul(g, _mul(n, apply("sub", _c(1, n), n))),),
    "pow": _pow,
    "hypot": lambda n, g: (
        apply("div", _mul(g, n.args[0]), n),
        apply("div", _mul(g, n.args[1]), n),
    ),
    "mod": lambda n, g: (g, _minus(_mul(g, apply("floordiv", n.args[0], n.args[1])))),
    "copysign": lambda n, g: (
        _mul(g, apply("where", apply("eq", n, n.args[0]), _c(1, g), _c(-1, g))),
        None,
    ),
}


def _complex_sign(n: Scalar, g: Scalar) -> tuple[Scalar]:
    """z / |z| moves only across z: (g - n re(g conj(n))) / |z|; 0 at 0."""
    size = apply("abs", n.args[0])
    along = apply("real_part", _mul(g, apply("conj", n)))
    across = apply("sub", g, _mul(n, sc.cast(along, n.dtype)))
    zero = apply("eq", size, _c(0, size))
    safe = sc.cast(apply("where", zero, _c(1, size), size), n.dtype)
    return (apply("where", zero, _c(0, g), apply("div", across, safe)),)


def _complex_acosh(n: Scalar, g: Scalar) -> tuple[Scalar]:
    """1 / (sqrt(z - 1) sqrt(z + 1)): one root of z^2 - 1 would change sign across the imaginary axis."""
    one = _c(1, g)
    before, above = (apply("sqrt", apply(op, n.args[0], one)) for op in ("sub", "add"))
    return (apply("div", g, apply("conj", _mul(before, above))),)


#: What is not holomorphic, or linear in both parts alike so that nothing need be conjugated; and acosh, cut elsewhere.
_COMPLEX_RULES: dict[str, Rule] = {
    **{name: _RULES[name] for name in ("add", "sub", "neg", "where")},
    "cast": lambda n, g: (_cast_back(n.args[0], g),),
    "conj": lambda n, g: (apply("conj", g),),
    "real_part": lambda n, g: (sc.cast(g, n.args[0].dtype),),
    "imag_part": lambda n, g: (apply("complex", _c(0, g), g),),
    "complex": lambda n, g: (apply("real_part", g), apply("imag_part", g)),
    "abs": lambda n, g: (_mul(sc.cast(g, n.args[0].dtype), apply("sign", n.args[0])),),
    "angle": lambda n, g: (apply("div", apply("complex", _c(0, g), g), apply("conj", n.args[0])),),
    "sign": _complex_sign,
    "acosh": _complex_acosh,
}


def _cast_back(operand: Scalar, g: Scalar) -> Scalar:
    return sc.cast(
        apply("real_part", g) if g.dtype.is_complex and not operand.dtype.is_complex else g, operand.dtype
    )


def _rule(node: Scalar, g: Scalar) -> tuple[Scalar | None, ...]:
    """Cotangents of a node's operands."""
    is_complex = node.dtype.is_complex or any(a.dtype.is_complex for a in node.args)
    own = _COMPLEX_RULES.get(node.op) if is_complex else None
    rule = own or _RULES.get(node.op)
    if rule is None:
        return ()
    if own is not None or not is_complex:
        return rule(node, g)
    parts = rule(node, apply("conj", g))
    return tuple(None if part is None else apply("conj", part) for part in parts)


#: Flat almost everywhere, or not numeric at all: nothing flows back.
_FLAT = frozenset(
    "floor ceil trunc round sign floordiv bitcast_u32 bitcast_f32 bitcast_u64 bitcast_f64 philox umulhi".split()
)


def vjp(body: Scalar, cotangent: Scalar, wanted: set[int]) -> dict[int, Scalar]:
    """Cotangents of the operands in `wanted`, given the cotangent of `body`. Operands that nothing reaches are absent."""
    order = sc.topological([body])
    reaches = _reaching(order, wanted)
    adjoint: dict[Scalar, Scalar] = {body: cotangent}
    out: dict[int, Scalar] = {}
    for node in reversed(order):
        g = adjoint.pop(node, None)
        if g is None or node not in reaches:
            continue
        if node.op == "arg":
            out[node.attr] = g
            continue
        if node.op in _FLAT and not node.dtype.is_complex:
            continue
        for operand, part in zip(node.args, _rule(node, g)):
            if part is None or operand not in reaches:
                continue
            seen = adjoint.get(operand)
            adjoint[operand] = part if seen is None else apply("add", seen, part)
    return out


def _reaching(order: list[Scalar], wanted: set[int]) -> set[Scalar]:
    """Floating-point nodes through which a wanted operand reaches the root."""
    found: set[Scalar] = set()
    for node in order:
        if not node.dtype.is_inexact:
            continue
        if (node.op == "arg" and node.attr in wanted) or any(a in found for a in node.args):
            found.add(node)
    return found
