"""From a Python call to a recorded node: binding, weak scalars, and the checks every operation shares.

The hot path is a dictionary look-up keyed by the interned specs of the operands; inference runs once per key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from oa._schema.dtype import DType, check_fits
from oa._schema.op import Instance, Number, Operation, freeze
from oa._schema.spec import Spec, spec
from oa._schema.value import Typed
from oa.errors import ArgumentError, EngineMismatch, InternalError


def _reject(operation: Operation, name: str, value: Any) -> ArgumentError:
    found = "None" if value is None else f"a {type(value).__module__}.{type(value).__name__}"
    return ArgumentError(
        f"{operation.name}: {name} is {found}; wanted an oa value or a Python number."
        " Convert arrays with oa.matrix.from_numpy(engine, array)"
    )


def _engine_of(operation: Operation, operands: tuple[Any, ...]) -> Any:
    engine = None
    for value in operands:
        if isinstance(value, Typed):
            if engine is None:
                engine = value._engine
            elif value._engine is not engine:
                raise EngineMismatch(
                    f"{operation.name}: the operands belong to two engines, {engine!r} and {value._engine!r};"
                    " move one over with oa.matrix.from_numpy(engine, value.to_numpy())"
                )
    if engine is None:
        for name, value in zip(operation.operands, operands):
            if not isinstance(value, Number):
                raise _reject(operation, name, value)
        raise ArgumentError(
            f"{operation.name}: none of the operands is an oa value; make one with oa.matrix.full(engine, (), value)"
        )
    return engine


def _number(operation: Operation, name: str, value: Any) -> bool | int | float:
    if isinstance(value, Number):
        return value
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        found = item()
        if isinstance(found, Number):
            return found
    raise _reject(operation, name, value)


def record(
    operation: Operation, operands: tuple[Any, ...], attrs: dict[str, Any], facade: type[Typed]
) -> Any:
    """Record one call: operands in order, Python numbers made into scalar operands."""
    engine = _engine_of(operation, operands)
    specs: list[Any] = [v._value.spec if isinstance(v, Typed) else type(v) for v in operands]
    key = (*specs, freeze(tuple(attrs.items()))) if attrs else tuple(specs)
    # A Python number among the operands never has a key: its type stands where a spec would.
    found = operation.cache.get(key)
    if found is None:
        return _record_general(operation, engine, operands, attrs, facade)
    return engine.record(found, tuple([v._value for v in operands]), facade)


def _record_general(
    operation: Operation, engine: Any, operands: tuple[Any, ...], attrs: dict[str, Any], facade: type[Typed]
) -> Any:
    names = (
        operation.operands if not operation.variadic else tuple(f"operand {i}" for i in range(len(operands)))
    )
    dtypes = {n: v._value.spec.dtype for n, v in zip(names, operands) if isinstance(v, Typed)}
    values, specs = [], []
    for name, operand in zip(names, operands):
        if isinstance(operand, Typed):
            value = operand._value
        else:
            number = _number(operation, name, operand)
            dtype = operation.weak_dtype(name, number, dtypes)
            check_fits(number, dtype, operation.name)
            value = engine.scalar_value(spec(dtype, ()), number)
        values.append(value)
        specs.append(value.spec)
    instance = make_instance(operation, tuple(specs), attrs, facade)
    return engine.record(instance, tuple(values), facade)


def make_instance(
    operation: Operation, specs: tuple[Spec, ...], attrs: dict[str, Any], facade: type[Typed]
) -> Instance:
    """The instance for these specs and attributes; a composite's is made by tracing its body."""
    key = (*specs, freeze(tuple(attrs.items()))) if attrs else specs
    found = operation.cache.get(key)
    if found is not None:
        return found
    if operation.form == "composite":
        return trace_composite(operation, specs, attrs, key, facade)
    return operation.instance(specs, attrs, key)


def _untraced(operation: Operation, *_: Any) -> Instance:
    raise InternalError(f"{operation.name}: no tracer is installed; importing oa.engine installs it")


#: Makes the instance of a composite. Set by the engine to `_graph.trace`, which this layer may not import.
trace_composite: Callable[..., Instance] = _untraced


def wrap(
    operation: Operation, function: Callable[..., Any], facade: Callable[[], type[Typed]]
) -> Callable[..., Any]:
    """The public function of `operation`."""
    names, defaults = operation.operands, operation.attributes
    count = len(names)

    if operation.variadic:

        def call(*operands: Any, **attrs: Any) -> Any:
            return record(operation, operands, {**defaults, **attrs}, facade())

    elif not defaults and count == 2:
        call = _binary(operation, facade)
    else:

        def call(*operands: Any, **named: Any) -> Any:
            if defaults or named or len(operands) != count:
                operands, attrs = _bind(operation, operands, named)
                return record(operation, operands, attrs, facade())
            return record(operation, operands, {}, facade())

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
            operands, _ = _bind(operation, operands, named)
        if not made:
            made.append(facade())
        return record(operation, operands, {}, made[0])

    return call


def _bind(
    operation: Operation, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands and complete attributes from any mix of positional and named arguments."""
    parameters = operation.parameters
    values = dict(operation.attributes)
    values.update(zip(parameters, args))
    values.update(named)
    if (
        len(args) > len(parameters)
        or len(values) != len(parameters)
        or operation.missing(values, args, named)
    ):
        try:
            operation.signature.bind(*args, **named)
        except TypeError as error:
            raise ArgumentError(f"{operation.name}{operation.signature}: {error}") from None
    return tuple([values[n] for n in operation.operands]), {n: values[n] for n in operation.attributes}


def dtype_of(value: Any) -> DType | None:
    """The dtype of an operand, None for a Python number."""
    return value._value.spec.dtype if isinstance(value, Typed) else None
