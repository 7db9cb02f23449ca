"""The last step before a public function: an error names the function that was called, and the argument that is at fault.

Nothing is checked beforehand. Only when a call fails are its arguments held against the annotations: a Python exception that
one of them explains becomes an ArgumentError, any other is passed on as it is. Functions inside the package call each other
without this.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oa._schema.op import Number
from oa.errors import ArgumentError, AxisError, DTypeError, EngineMismatch, OaError, ShapeError

#: Errors that are about the arguments of the call that raised them.
_ABOUT_ARGUMENTS = (ShapeError, DTypeError, AxisError, ArgumentError, EngineMismatch)
#: What Python raises where an argument is not what it should be.
_RAW = (TypeError, AttributeError, ValueError, OverflowError, LookupError, ArithmeticError)
#: Aliases that annotations use.
_MEANING = {"Axis": "int | Sequence[int] | None", "Operand": "Matrix | bool | int | float | complex"}
_WORDS = {
    "Matrix": "a Matrix",
    "Operand": "a Matrix or a Python number",
    "Parameter": "a Parameter",
    "Module": "a Module",
    "State": "a State",
    "AdamW": "an AdamW",
    "int": "an int",
    "float": "a number",
    "complex": "a number",
    "bool": "a bool",
    "str": "a str",
    "Axis": "an int, a sequence of ints or None",
}
#: Sequences of any kind, whose parts are looked at where they can be counted.
_SEQUENCES = ("Sequence", "Iterable", "list")
_PREFIX = re.compile(r"([A-Za-z_][\w.]*)(?:[:(\[]|, in )")


def public(name: str, function: Callable[..., Any], module: str = "") -> Callable[..., Any]:
    """`function` under its public name, which its errors start with, as `module` offers it."""

    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except _ABOUT_ARGUMENTS as error:
            _rename(error, name, function.__name__ == "forward")
            raise
        except _RAW as error:
            if isinstance(error, OaError):
                raise
            found = explain(name, function, args, named)
            if found is None:
                raise
            raise found from error

    made = functools.wraps(function)(call)
    made.__module__ = module or function.__module__  # where pickle finds it
    return made


def public_methods(cls: type, label: str = "", leave: tuple[str, ...] = ()) -> None:
    """`public` for the constructor and the methods that the class itself defines, but those to `leave` as they are."""
    for name, function in list(vars(cls).items()):
        named = name == "__init__" or not name.startswith("_")
        if inspect.isfunction(function) and named and name not in leave:
            whole = cls.__name__ if name in ("__init__", "forward") else f"{label or cls.__name__}.{name}"
            setattr(cls, name, public(whole, function))


def _rename(error: OaError, name: str, layer: bool) -> None:
    """Put `name` before a message that does not start with it; where layers call layers the innermost speaks."""
    message = str(error)
    found = _PREFIX.match(message)
    inner = found[1] if found else ""
    if inner == name or (layer and inner[:1].isupper()):
        return
    if inner and name.endswith(f".{inner}"):
        text = name + message[len(inner) :]
    else:
        text = f"{name}, in {message}" if inner else f"{name}: {message}"
    error.args = (text, *error.args[1:])


def explain(
    name: str, function: Any, args: tuple[Any, ...], named: Mapping[str, Any]
) -> ArgumentError | None:
    """The error that a call with these arguments deserves, None where they are what the annotations ask for."""
    leader = getattr(function, "leader", None)
    if leader is not None and args and isinstance(args[0], leader):
        args = args[1:]
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named).arguments
    except TypeError as error:
        return ArgumentError(f"{name}{_shown(signature)}: {error}")
    for key, value in bound.items():
        parameter = signature.parameters[key]
        wanted = str(parameter.annotation)
        several = parameter.kind is parameter.VAR_POSITIONAL
        for part in value if several else (value,):
            if key != "self" and parameter.annotation is not parameter.empty and not fits(part, wanted):
                return ArgumentError(
                    f"{name}: {key} is {shown(part)}; wanted {_words(wanted)}{_hint(part, wanted)}"
                )
    return None


def _shown(signature: inspect.Signature) -> str:
    """The parameters without annotations and `self`."""
    plain = [p.replace(annotation=p.empty) for n, p in signature.parameters.items() if n != "self"]
    return str(inspect.Signature(plain))


def shown(value: Any) -> str:
    """A value as a message shows it."""
    if value is None or isinstance(value, (str, bytes, bool, int, float, complex)):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:37]}..."
    if isinstance(value, (list, tuple, dict)) and not value:
        return repr(value)
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


def _hint(value: Any, wanted: str) -> str:
    if (
        "Matrix" in _MEANING.get(wanted, wanted)
        and hasattr(value, "__len__")
        and not isinstance(value, (str, dict))
    ):
        return "; convert it with oa.matrix.asarray(value, device=engine)"
    return ""


def _parts(text: str, separator: str) -> list[str]:
    """`text` cut at the separator outside brackets."""
    found, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if depth == 0 and text.startswith(separator, k):
            found.append(text[start:k])
            start = k + len(separator)
    return [*found, text[start:]]


def _words(annotation: str) -> str:
    """An annotation in words."""
    if annotation in _WORDS:
        return _WORDS[annotation]
    alternatives = _parts(annotation, " | ")
    if len(alternatives) > 1:
        words = [_words(a) for a in alternatives]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    head, _, rest = annotation.partition("[")
    if head == "Literal":
        return f"one of {rest[:-1]}"
    if head in _SEQUENCES:
        return f"a sequence whose parts are each {_words(rest[:-1])}"
    if head == "tuple":
        return f"({', '.join(_words(p) for p in _parts(rest[:-1], ', '))})"
    return {"Mapping": "a mapping", "Callable": "a function", "Schedule": "a function of the step"}.get(
        head, annotation
    )


def fits(value: Any, annotation: str) -> bool:
    """Whether a value is what an annotation, as text, asks for; of one that says nothing that is known, True."""
    annotation = _MEANING.get(annotation, annotation)
    alternatives = _parts(annotation, " | ")
    if len(alternatives) > 1:
        return any(fits(value, a) for a in alternatives)
    head, _, rest = annotation.partition("[")
    if head in ("Any", "object"):
        return True
    if head == "None":
        return value is None
    if head == "Literal":
        return isinstance(value, str) and repr(value) in _parts(rest[:-1].replace('"', "'"), ", ")
    if head == "bool":
        return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    if head == "int":
        return hasattr(value, "__index__")
    if head == "float":
        return isinstance(value, Number) or (hasattr(value, "__float__") and not hasattr(value, "__len__"))
    if head == "complex":
        return isinstance(value, complex) or fits(value, "float")
    if head == "str":
        return isinstance(value, str)
    if head in ("Schedule", "Callable"):
        return callable(value)
    if head in _SEQUENCES:
        whole = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
        return whole and (not hasattr(value, "__len__") or all(fits(v, rest[:-1]) for v in value))
    if head == "tuple":
        parts = _parts(rest[:-1], ", ")
        if not isinstance(value, (tuple, list)) or (parts[-1] != "..." and len(value) != len(parts)):
            return False
        return all(fits(v, p) for v, p in zip(value, parts))
    if head == "Mapping":
        return isinstance(value, Mapping) and all(
            fits(v, _parts(rest[:-1], ", ")[-1]) for v in value.values()
        )
    if head == "os.PathLike":
        return hasattr(value, "__fspath__")
    return any(c.__name__ == head for c in type(value).__mro__)


__all__ = ["explain", "fits", "public", "public_methods", "shown"]
