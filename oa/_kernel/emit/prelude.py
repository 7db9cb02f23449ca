"""The safe-maths prelude: every transcendental function as an IR function that a module holds at most once.

Native shader built-ins are not maths functions: their errors are unbounded in places, and they differ between devices.
These are made of add, multiply, select and integer operations, and give the same bits wherever those are IEEE 754.
Every one-argument function is within two units in the last place of the true value over all float32 arguments.
Results and arguments below 2^-126 in size may count as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oa._kernel.emit import double, double_exp, double_trig, maths_exp, maths_log, maths_pow, maths_trig
from oa._kernel.emit.reg import Reg
from oa._kernel.emit.types import Ty, Value

if TYPE_CHECKING:
    from oa._kernel.emit.ir import Builder

_NAMES_EXP = "exp exp2 expm1 log log2 log10 log1p sigmoid sinh cosh tanh asinh acosh atanh erf".split()
_NAMES_TRIG = "sin cos tan asin acos atan".split()

#: float32 -> float32
UNARY: dict[str, Callable[[Reg], Reg]] = {
    "exp": maths_exp.exp,
    "exp2": maths_exp.exp2,
    "expm1": maths_exp.expm1,
    "sigmoid": maths_exp.sigmoid,
    "tanh": maths_exp.tanh,
    "sinh": maths_exp.sinh,
    "cosh": maths_exp.cosh,
    "erf": maths_exp.erf,
    "erfc": maths_exp.erfc,
    "log": maths_log.log,
    "log2": maths_log.log2,
    "log10": maths_log.log10,
    "log1p": maths_log.log1p,
    "asinh": maths_log.asinh,
    "acosh": maths_log.acosh,
    "atanh": maths_log.atanh,
    "sin": maths_trig.sin,
    "cos": maths_trig.cos,
    "tan": maths_trig.tan,
    "asin": maths_trig.asin,
    "acos": maths_trig.acos,
    "atan": maths_trig.atan,
}
#: (float32, float32) -> float32; "fmod" is the remainder of the magnitudes.
BINARY: dict[str, Callable[[Reg, Reg], Reg]] = {
    "pow": maths_pow.power,
    "atan2": maths_trig.atan2,
    "hypot": maths_pow.hypot,
    "mod": maths_pow.remainder,
    "floordiv": maths_pow.floor_divide,
}


#: float64 -> float64 and (float64, float64) -> float64, within 4 units in the last place; `pow` within 8.
UNARY_64: dict[str, Callable[[Reg], Reg]] = {
    **{name: getattr(double_exp, name) for name in _NAMES_EXP},
    **{name: getattr(double_trig, name) for name in _NAMES_TRIG},
}
BINARY_64: dict[str, Callable[[Reg, Reg], Reg]] = {
    "pow": double_exp.power,
    "atan2": double_trig.atan2,
    "hypot": maths_pow.hypot,
    "mod": double.remainder,
    "floordiv": double.floor_divide,
}


def has(name: str, ty: Ty) -> bool:
    """Whether the prelude defines a function on float registers of that type."""
    unary, binary = (UNARY_64, BINARY_64) if ty.is_wide else (UNARY, BINARY)
    return name in unary or name in binary


def call(b: Builder, name: str, *args: Value) -> Value:
    """Call a prelude function on float registers, defining it in the module first if needed."""
    ty = args[0].ty
    unary, binary = (UNARY_64, BINARY_64) if ty.is_wide else (UNARY, BINARY)
    defined = f"{name}64" if ty.is_wide else name
    if not b.defined(defined):
        one = unary.get(name)
        if one is not None:
            function = one
            b.function(defined, (ty,), ty, lambda p: function(Reg(b, p[0])).v)
        else:
            two = binary[name]
            b.function(defined, (ty, ty), ty, lambda p: two(Reg(b, p[0]), Reg(b, p[1])).v)
    return b.call(defined, *args)


def integer_power(b: Builder, x: Value, n: Value) -> Value:
    """x^n modulo the width of unsigned registers."""
    ty = x.ty
    name = "ipow64" if ty.is_wide else "ipow"
    b.function(name, (ty, ty), ty, lambda p: maths_pow.integer_power(Reg(b, p[0]), Reg(b, p[1])).v)
    return b.call(name, x, n)
