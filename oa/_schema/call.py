"""From a Python call to a recorded node: binding, weak scalars, and the checks every operation shares.

The hot path is a dictionary look-up keyed by the interned specs of the operands; inference runs once per key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from oa._schema.dtype import DType, Weak, check_fits
from oa._schema.op import EMPTY, Instance, Number, Operation, freeze
from oa._schema.spec import Spec, spec
from oa._schema.value import Typed
from oa.errors import ArgumentError, EngineMismatch, InternalError, OaError

#: Types of numbers whose every value takes the same dtype beside the same operands, checked for its range apart.
_NUMBERS = frozenset(Number)


def _reject(operation: Operation, name: str, value: Any) -> ArgumentError:
    found = "None" if value is None else f"a {type(value).__module__}.{type(value).__name__}"
    return ArgumentError(
        f"{operation.name}: {name} is {found}; wanted an oa value or a Python number."
        " Convert arrays with oa.matrix.from_numpy(engine, array)"
    )


def _two_engines(operation: Operation, first: Any, second: Any) -> EngineMismatch:
    return EngineMismatch(
        f"{operation.name}: the operands belong to two engines, {first!r} and {second!r};"
        " move one over with oa.matrix.from_numpy(engine, value.to_numpy())"
    )


def _no_value(operation: Operation, operands: tuple[Any, ...]) -> ArgumentError:
    for name, value in zip(operation.operands, operands):
        if not isinstance(value, Number):
            return _reject(operation, name, value)
    return ArgumentError(
        f"{operation.name}: none of the operands is an oa value; make one with oa.matrix.full(engine, (), value)"
    )


def _number(operation: Operation, name: str, value: Any) -> Weak:
    if isinstance(value, Number):
        return value
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        found = item()
        if isinstance(found, Number):
            return found
    raise _reject(operation, name, value)


def record(
    operation: Operation, operands: tuple[Any, ...], attrs: tuple[Any, ...], facade: type[Typed]
) -> Any:
    """Record one call: operands in order, Python numbers made into scalar operands, attributes complete and in order."""
    engine = None
    specs: list[Any] = []
    values: list[Any] = []
    for operand in operands:
        if isinstance(operand, Typed):
            value = operand._value
            values.append(value)
            specs.append(value.spec)
            if operand._engine is not engine:
                if engine is not None:
                    raise _two_engines(operation, engine, operand._engine)
                engine = operand._engine
        else:
            specs.append(type(operand))
    if engine is None:
        raise _no_value(operation, operands)
    key = (*specs, *map(freeze, attrs)) if attrs else tuple(specs)
    if len(values) != len(operands):
        return _record_weak(operation, engine, operands, attrs, key, facade)
    found = operation.cache.get(key)
    if found is None:
        found = make_instance(operation, tuple(specs), attrs, facade)
    return engine.record(found, tuple(values), facade)


def _record_weak(
    operation: Operation,
    engine: Any,
    operands: tuple[Any, ...],
    attrs: tuple[Any, ...],
    key: Any,
    facade: type[Typed],
) -> Any:
    """A call with Python numbers among the operands, or with what is neither number nor value."""
    found = operation.weak.get(key)
    if found is None:
        operands, instance, scalars = _resolve(operation, operands, attrs, facade)
        if _NUMBERS.issuperset(type(v) for v, s in zip(operands, scalars) if s is not None):
            operation.weak[key] = instance, scalars
    else:
        instance, scalars = found
    values = []
    for operand, scalar in zip(operands, scalars):
        if scalar is None:
            values.append(operand._value)
        else:
            check_fits(operand, scalar.dtype, operation.name)
            values.append(engine.scalar_value(scalar, operand))
    return engine.record(instance, tuple(values), facade)


def _resolve(
    operation: Operation, operands: tuple[Any, ...], attrs: tuple[Any, ...], facade: type[Typed]
) -> tuple[tuple[Any, ...], Instance, tuple[Spec | None, ...]]:
    """The operands with every number a Python one, the instance, and by operand the spec that a number takes."""
    names = (
        operation.operands if not operation.variadic else tuple(f"operand {i}" for i in range(len(operands)))
    )
    dtypes = {n: v._value.spec.dtype for n, v in zip(names, operands) if isinstance(v, Typed)}
    given: list[Any] = []
    specs: list[Spec] = []
    scalars: list[Spec | None] = []
    for name, operand in zip(names, operands):
        if isinstance(operand, Typed):
            given.append(operand)
            specs.append(operand._value.spec)
            scalars.append(None)
        else:
            number = _number(operation, name, operand)
            dtype = operation.weak_dtype(name, number, dtypes)
            check_fits(number, dtype, operation.name)
            given.append(number)
            specs.append(spec(dtype, ()))
            scalars.append(specs[-1])
    return tuple(given), make_instance(operation, tuple(specs), attrs, facade), tuple(scalars)


def make_instance(
    operation: Operation, specs: tuple[Spec, ...], attrs: tuple[Any, ...], facade: type[Typed]
) -> Instance:
    """The instance for these specs and attributes; a composite's is made by tracing its body."""
    key = (*specs, *map(freeze, attrs))
    found = operation.cache.get(key)
    if found is not None:
        return found
    named = dict(zip(operation.attributes, attrs))
    if operation.form == "composite":
        return trace_composite(operation, specs, named, key, facade)
    return operation.instance(specs, named, key)


def _untraced(operation: Operation, *_: Any) -> Instance:
    raise InternalError(f"{operation.name}: no tracer is installed; importing oa.engine installs it")


#: Makes the instance of a composite. Set by the engine to `_graph.trace`, which this layer may not import.
trace_composite: Callable[..., Instance] = _untraced


def wrap(
    operation: Operation, function: Callable[..., Any], facade: Callable[[], type[Typed]]
) -> Callable[..., Any]:
    """The public function of `operation`."""
    defaults = tuple(operation.attributes.values())
    complete = not any(value is EMPTY for value in defaults)
    count, total = len(operation.operands), len(operation.defaults)
    made: list[
        type[Typed]
    ] = []  # the facade once it was asked for: value types are declared after some operations

    if operation.variadic:

        def call(*operands: Any, **named: Any) -> Any:
            attrs = defaults if complete and not named else _attributes(operation, operands, named)
            if not made:
                made.append(facade())
            return record(operation, operands, attrs, made[0])

    elif not defaults and count == 2:
        call = _binary(operation, facade)
    else:

        def call(*given: Any, **named: Any) -> Any:
            if named or len(given) != total:
                given = _bind(operation, given, named)
            if not made:
                made.append(facade())
            return record(operation, given[:count], given[count:], made[0])

    wrapped = functools.wraps(function)(call)
    wrapped.operation = operation  # type: ignore[attr-defined]
    return wrapped


def _binary(operation: Operation, facade: Callable[[], type[Typed]]) -> Callable[..., Any]:
    """The public function of an operation of two operands, with a short way for two values seen before."""
    known = operation.cache
    made: list[type[Typed]] = []

    def call(*operands: Any, **named: Any) -> Any:
        if len(operands) == 2 and not named:
            a, b = operands
            if isinstance(a, Typed) and isinstance(b, Typed) and a._engine is b._engine and made:
                left, right = a._value, b._value
                found = known.get((left.spec, right.spec))
                if found is not None:
                    return a._engine.record(found, (left, right), made[0])
        else:
            operands = _bind(operation, operands, named)
        if not made:
            made.append(facade())
        return record(operation, operands, (), made[0])

    return call


def _bind(operation: Operation, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Operands and then complete attributes from any mix of positional and named arguments."""
    values = list(given)
    used = 0
    for name, default in operation.defaults[len(given) :]:
        if name in named:
            used += 1
            values.append(named[name])
        elif default is EMPTY:
            raise _unbound(operation, given, named)
        else:
            values.append(default)
    if used != len(named) or len(values) != len(operation.defaults):
        raise _unbound(operation, given, named)
    return tuple(values)


def _attributes(operation: Operation, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The complete attributes of an operation that takes any number of operands."""
    values = tuple({**operation.attributes, **named}.values())
    if len(values) != len(operation.attributes) or any(v is EMPTY for v in values):
        raise _unbound(operation, operands, named)
    return values


def _unbound(operation: Operation, given: tuple[Any, ...], named: dict[str, Any]) -> OaError:
    try:
        operation.signature.bind(*given, **named)
    except TypeError as error:
        return ArgumentError(f"{operation.name}{operation.signature}: {error}")
    return InternalError(f"{operation.name}{operation.signature}: arguments that fit were refused")


def dtype_of(value: Any) -> DType | None:
    """The dtype of an operand, None for a Python number."""
    return value._value.spec.dtype if isinstance(value, Typed) else None
