"""`checkpoint`: a part of a model whose values inside are computed again for the gradient instead of kept for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oa._graph.node import Value, number_of
from oa._graph.views import Reshape
from oa._schema.op import Inference, Instance, Operation
from oa._schema.spec import Spec
from oa._schema.value import Typed
from oa.errors import ArgumentError, InternalError
from oa.matrix import Matrix
from oa.ml import tape as tapes
from oa.ml.tape import GradientTape


def checkpoint(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), keeping for the gradient only what goes in: the values inside are computed again when it is asked for.

    The training step takes less memory, by about what the function's values take that gradient rules name, and more time, by
    about one more forward pass of the function. Results and gradients are the same to the bit, random draws included. The
    operations are recorded twice and the function is called once, so what else it does, such as assigning a cell, happens once.
    Without an open tape, or inside another checkpoint, this is the call alone.

    Args:
        function: a module or any function of matrices; parameters that it reads are watched as usual.
        args: what it is called with, at least one of them a Matrix.

    Gradient: that of the function, to the matrices among the arguments and to everything else of a tape that it reads.

    Raises:
        ArgumentError: function cannot be called, or no argument is a Matrix.

    Example:
        >>> x = oa.matrix.from_list(engine, [0.5, 1.0])
        >>> with oa.ml.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = oa.matrix.sum(oa.ml.checkpoint(lambda x: x * x * x, x))
        >>> tape.gradient(y, x).tolist()
        [0.75, 3.0]
    """
    if not callable(function):
        raise ArgumentError(f"ml.checkpoint: got {function!r}; wanted a function and its arguments")
    given = next((a for a in args if isinstance(a, Typed)), None)
    if given is None:
        raise ArgumentError("ml.checkpoint: no argument is a Matrix; pass what the function computes with")
    engine = given._engine
    if not tapes._OPEN or any(isinstance(t, _Segment) for t in engine._tapes):
        return function(*args)
    for tape in tapes._OPEN:
        if engine not in tape._engines:  # inside, a parameter that is read must not register it there
            tape._engines.append(engine)
            engine._tapes.append(tape)
    segment = _Segment()
    outer, engine._tapes = engine._tapes, [segment]
    try:
        results = function(*args)
    finally:
        engine._tapes = outer
    segment.close(results)
    for tape in outer:
        segment.enter(tape)
    return results


class _Segment:
    """The operations of one call: recorded like on a tape, but for the inputs no value is kept."""

    def __init__(self) -> None:
        self.steps: list[tuple[Instance, tuple[int, ...], tuple[int, ...]]] = []
        self.inputs: dict[
            int, Any
        ] = {}  #: by serial number: a number's value, or an object that keeps the value wanted
        self._made: set[int] = set()
        self.outputs: tuple[int, ...] = ()

    def record(self, instance: Instance, values: tuple[Value, ...], results: Sequence[Typed]) -> None:
        """Called by the engine for every operation."""
        for value in values:
            number = number_of(value)
            if number not in self._made and number not in self.inputs:
                self.inputs[number] = tapes._handle(value)
        made = tuple([number_of(h._value) for h in results])
        self._made.update(made)
        self.steps.append((instance, tuple([number_of(v) for v in values]), made))

    def close(self, results: Any) -> None:
        """The call returned `results`."""
        numbers = [number_of(h._value) for h in _matrices(results)]
        self.outputs = tuple([n for n in dict.fromkeys(numbers) if n in self._made])

    def enter(self, tape: Any) -> None:
        """Put the call on a tape as one operation."""
        inputs = tuple(self.inputs)
        watched = tuple([n in tape._watched for n in inputs])
        if any(watched) and self.outputs:
            tape._watched.update(self.outputs)
            tape._entries.append(tapes._Entry(self, inputs, self.outputs, watched, {}))

    def play(self, cotangents: dict[int, Any], watched: tuple[bool, ...]) -> None:
        """From cotangents of the results to those of the watched inputs: the operations are recorded again, to run once the
        first cotangent is there. What is added up is added in the order in which it would be without the checkpoint."""
        token = next(cotangents[n] for n in self.outputs if n in cotangents)
        known = {n: _again(kept, token) for n, kept in self.inputs.items()}
        engine, facade = token._engine, type(token)
        with GradientTape(persistent=True) as inner:
            wanted = [n for n, flag in zip(self.inputs, watched) if flag]
            for number in wanted:
                inner._add(known[number])
            for instance, inputs, outputs in self.steps:
                made = engine.record(instance, tuple([tapes._value(known[n]) for n in inputs]), facade)
                known.update(zip(outputs, made if isinstance(made, tuple) else (made,)))
        inside = {n: number_of(tapes._value(known[n])) for n in (*wanted, *self.outputs)}
        found = {inside[n]: cotangents[n] for n in inside if n in cotangents}
        inner._play(found)
        inner.close()
        cotangents.update({n: found[inside[n]] for n in wanted if inside[n] in found})


def _matrices(results: Any) -> Iterator[Typed]:
    """The matrices of what a function returned."""
    if isinstance(results, Typed):
        yield results
    elif isinstance(results, dict):
        yield from _matrices(list(results.values()))
    elif isinstance(results, (list, tuple)):
        for part in results:
            yield from _matrices(part)


def _again(kept: Any, token: Matrix) -> Any:
    """An input for the second time. What follows from it is another value than what followed the first time: from a matrix, since
    it waits for `token`; from a number, such as a random key, since it is another operand with the same number."""
    engine = token._engine
    if isinstance(kept, Value):
        assert kept.number is not None
        value = engine.scalar_value(kept.spec, kept.number)
        if engine._capture is not None:
            engine._capture.repeat(kept, value)
        return value
    found = tapes._restored(kept)
    return engine.record(
        _after(found._value.spec, token._value.spec), (found._value, token._value), type(found)
    )


def _after(spec: Spec, token: Spec) -> Instance:
    """The instance whose result is its first operand, for readers that run after the second is computed."""
    found = _AFTER.cache.get((spec, token))
    if found is None:
        view = (Reshape(spec.shape, spec.shape),)
        found = _AFTER.cache[spec, token] = Instance(_AFTER, (spec, token), {}, Inference((spec,), view))
    return found


def _identity() -> None:
    raise InternalError("after is recorded by instance")


def _passed(instance: Instance, ct: Matrix) -> tuple[Matrix, None]:
    """A gradient that only waited is passed on."""
    return ct, None


_AFTER = Operation("matrix.after", "view", _identity, ("x", "token"), {}, gradient=_passed)
