"""Plan families: one function, a captured plan for each shape of its arguments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from oa._graph.views import contiguous
from oa._schema.op import freeze
from oa._schema.value import Typed
from oa.errors import ArgumentError, EngineMismatch
from oa.plan import CapturedPlan, capture

#: Plans that a family keeps, the longest unused dropped first.
CAPACITY = 32


class Member:
    """One plan of a family, and which argument each of its inputs is: (input, argument) by number."""

    __slots__ = ("arguments", "plan")

    def __init__(self, plan: CapturedPlan, arguments: list[tuple[int, int]]) -> None:
        self.plan, self.arguments = plan, arguments


class PlanFamily:
    """A function that is captured once for each shape and dtype of its arguments and replayed after that.

    Made by `engine.family(function)`. A call runs the plan for arguments like these and returns new values, which later calls
    leave alone. Arguments may be oa values, and lists, tuples and dicts of them; anything else (numbers and strings, modules,
    State cells) must be hashable and is part of what tells plans apart, so pass a number that changes as a value of shape ().
    Cells that the function assigns are advanced at each call, random draws follow the engine's.

    Inside a capture, and while a gradient tape is open, the function itself is called, so that it is recorded there. The 32 plans
    used last are kept, each with the arguments of its last call. `engine.compilations` tells what was compiled and why.
    """

    def __init__(self, engine: Any, function: Callable[..., Any]) -> None:
        self.engine = engine
        self._function = function
        self._members: OrderedDict[Any, Member] = OrderedDict()

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the function's plan for these arguments.

        Raises:
            ArgumentError: an argument that is neither oa value nor hashable, or a result that is no oa value.
            EngineMismatch: a value of another engine.
        """
        engine = self.engine
        engine._check()
        if engine._capture is not None or engine._tapes:
            return self._function(*args, **named)
        member, values = self._member(args, named)
        plan = member.plan
        for place, number in member.arguments:
            value = values[number]
            engine.materialize(value._value)
            if value._value.plan is plan._plan:  # `plan.outputs` itself, which this run writes
                value = value.copy()  # type: ignore[attr-defined]
                engine.materialize(value._value)
            plan._put(plan._slots[place], value)
        engine.submit(plan)
        return _detached(engine, plan.outputs)

    def plan(self, *args: Any, **named: Any) -> CapturedPlan:
        """The plan for arguments like these, captured when it is new: to look at, with `show`, `explain` or `diagnostics`."""
        self.engine._check()
        return self._member(args, named)[0].plan

    @property
    def plans(self) -> list[CapturedPlan]:
        """The plans kept, the one used last at the end."""
        return [member.plan for member in self._members.values()]

    def _member(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Member, list[Typed]]:
        values: list[Typed] = []
        given = (args, dict(sorted(named.items())))
        key = self._key(given, values)
        try:
            found = self._members.get(key)
        except TypeError as cause:
            raise ArgumentError(
                f"engine.family: an argument is not hashable ({cause}); wanted oa values, made of an array by"
                " oa.matrix.from_numpy(engine, array), or what can tell plans apart: numbers, strings, modules"
            ) from None
        if found is None:
            found = self._capture(given, values)
            self._members[key] = found
            if len(self._members) > CAPACITY:
                self._members.popitem(last=False)
        else:
            self._members.move_to_end(key)
        return found, values

    def _key(self, given: Any, values: list[Typed]) -> Any:
        """What tells plans apart; the oa values met are appended to `values`."""
        if isinstance(given, Typed):
            if given._engine is not self.engine:
                raise EngineMismatch(
                    "engine.family: an argument belongs to another engine than the family;"
                    " move it over with oa.matrix.from_numpy(engine, value.to_numpy())"
                )
            values.append(given)
            return type(given), given._value.spec
        if type(given) in (tuple, list):
            return type(given), tuple([self._key(part, values) for part in given])
        if type(given) is dict:
            keys = tuple([freeze(k) for k in given])
            return dict, keys, tuple([self._key(part, values) for part in given.values()])
        return freeze(given)

    def _capture(self, given: Any, values: list[Typed]) -> Member:
        """Capture the function on stand-ins for its arguments: one for each, in row-major order, which any value can take."""
        engine = self.engine
        places: list[Typed] = []
        for value in values:
            engine.materialize(value._value)
            if value._value.layout != contiguous(value._value.spec.shape):
                value = value.copy()  # type: ignore[attr-defined]
                engine.materialize(value._value)
            have = value._value
            places.append(engine.stored_value(have.spec, have.storage, type(value), have.layout))
        args, named = _replaced(given, iter(places))
        plan = capture(engine, self._function, args, named)
        number = {place._value.serial: k for k, place in enumerate(places) if place._value.serial}
        arguments = [(k, number[slot.serial]) for k, slot in enumerate(plan._slots) if slot.serial in number]
        return Member(plan, arguments)

    def __repr__(self) -> str:
        name = getattr(self._function, "__qualname__", repr(self._function))
        return f"<PlanFamily {name}: {len(self._members)} plans>"


class Specialising:
    """What an engine makes of a function whose arguments come in several shapes."""

    def family(self, function: Callable[..., Any]) -> PlanFamily:
        """A callable that captures `function` once for each shape and dtype of its arguments, and replays it after that.

        A batch of another size compiles once; its kernels are mostly those of the first. See `oa.family.PlanFamily`.

        Raises:
            ArgumentError: `function` cannot be called.

        Example:
            >>> scaled = engine.family(lambda x: oa.matrix.softmax(x * 2.0))
            >>> [scaled(oa.matrix.ones(engine, (n, 2))).shape for n in (3, 5, 3)]
            [(3, 2), (5, 2), (3, 2)]
            >>> len(scaled.plans)
            2
        """
        if not callable(function):
            raise ArgumentError(f"engine.family: got {function!r}; wanted a function")
        return PlanFamily(self, function)


def _replaced(given: Any, places: Any) -> Any:
    """`given` with the next of `places` for each value."""
    if isinstance(given, Typed):
        return next(places)
    if type(given) in (tuple, list):
        return type(given)(_replaced(part, places) for part in given)
    if type(given) is dict:
        return {k: _replaced(part, places) for k, part in given.items()}
    return given


def _detached(engine: Any, result: Any) -> Any:
    """The outputs of a plan as values of their own: the plan writes elsewhere as long as one of them is held."""
    if isinstance(result, Typed):
        have = result._value
        made: Typed = engine.stored_value(have.spec, have.storage, type(result), have.layout)
        return made
    if isinstance(result, (tuple, list)):
        make = getattr(type(result), "_make", type(result))
        return make([_detached(engine, part) for part in result])
    if isinstance(result, dict):
        return {k: _detached(engine, part) for k, part in result.items()}
    return result
