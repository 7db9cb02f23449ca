"""Nodes and values of the pending graph, and the batch that collects them and grows its key as it goes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import CodeType, FrameType
from typing import Any
from weakref import ref

from oa._graph.views import Layout
from oa._schema.dtype import Weak
from oa._schema.op import Instance
from oa._schema.spec import Spec

Where = tuple[CodeType, int]
_SERIALS = count(1)
_PACKAGE = __name__.partition(".")[0]
_new = object.__new__  # makes what is made for every operation, without the call of an `__init__`


def _nobody() -> None:
    return None


class Value:
    """One SSA value: pending (made by a node of a batch), stored, a Python number, or failed.

    `handle` is a weak reference to the user's object, or to several (`Handles`): a value that none of them stands for any more
    is wanted by nobody outside its batch (`batching.wanted`).
    Defaults live in the class, so that recording an operation sets only what differs.
    """

    batch: Batch | None = None
    node: Node | None = None
    ordinal = 0
    serial = 0  #: never reused, unlike an object's id; given by `number_of`
    storage: Any = None
    layout: Layout | None = None
    number: Weak | None = None
    error: BaseException | None = None
    plan: Any = None
    host: Any = None  #: a copy of the elements that was downloaded already
    kept = False  #: a gradient rule needs it, whatever becomes of the user's object
    handle: Callable[[], Any] = staticmethod(_nobody)

    def __init__(self, spec: Spec) -> None:
        self.spec = spec


class Handles:
    """Weak references to several user objects made for one value; gives one that still stands for it, else any."""

    __slots__ = ("references",)

    def __init__(self, references: list[Callable[[], Any]]) -> None:
        self.references = references

    def __call__(self) -> Any:
        found = None
        for reference in self.references:
            handle = reference()
            if handle is not None:
                if handle._value.handle is self:
                    return handle
                found = handle
        return found


def again(handle: Any) -> Any:
    """Another object for the same value: what happens to the one (`m[k] = v`) does not touch the other."""
    made = type(handle)(handle._engine, handle._value)
    stand_for(made)
    return made


def stand_for(handle: Any) -> None:
    """`handle` stands for its value from now on, like those that do already."""
    value: Value = handle._value
    known = value.handle
    if isinstance(known, Handles):
        known.references = [r for r in known.references if r() is not None]
        known.references.append(ref(handle))
    else:
        value.handle = Handles([known, ref(handle)])


def standing_for(value: Value, handle: Any) -> Any:
    """`handle` while it stands for `value`, else another object that does."""
    if handle._value is value:
        return handle
    return again(type(handle)(handle._engine, value))


def number_of(value: Value) -> int:
    """The value's serial number, given at first use."""
    if not value.serial:
        value.serial = next(_SERIALS)
    return value.serial


class Node:
    """One recorded operation. `where` is the user's place, None where nobody will ask for it (`Engine.record`)."""

    __slots__ = ("inputs", "instance", "outputs", "where")
    instance: Instance
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    where: Where | None


class Batch:
    """Operations recorded and not yet run. `key` grows with them: instance ids and input ordinals, exact.

    Ordinals of node outputs count up from 0; externals (stored values and numbers) are numbered -1, -2, ... by first use.
    """

    __slots__ = ("_external", "carried", "count", "externals", "key", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.carried: list[
            tuple[Value, Value]
        ] = []  #: (new, old) values of State cells assigned since the batch began
        self.key: list[int] = []
        self.count = 0
        self.externals: list[Value] = []
        self._external: dict[int, int] = {}

    def external(self, value: Value) -> int:
        """The ordinal of a value made outside this batch."""
        found = self._external.get(id(value))
        if found is None:
            self.externals.append(value)
            found = self._external[id(value)] = -len(self.externals)
        return found

    def reads(self, value: Value) -> bool:
        """Whether a value made outside is read by a node."""
        return id(value) in self._external

    def adopt(self, node: Node) -> None:
        """Take over a node of another batch with its inputs and results."""
        self.key.append(node.instance.id)
        for value in node.inputs:
            self.key.append(value.ordinal if value.batch is self else self.external(value))
        for value in node.outputs:
            value.batch = self
            value.ordinal = self.count
            self.count += 1
        self.nodes.append(node)

    def append(self, instance: Instance, inputs: tuple[Value, ...], where: Where | None) -> tuple[Value, ...]:
        """Record one node and return its results."""
        known = self._external
        key = [instance.id]
        for value in inputs:
            if value.batch is self:
                key.append(value.ordinal)
            else:
                key.append(known.get(id(value)) or self.external(value))
        node = _new(Node)
        node.instance = instance
        node.inputs = inputs
        node.where = where
        count = self.count
        if len(instance.outs) == 1:
            value = _new(Value)
            (value.spec,) = instance.outs
            value.batch = self
            value.node = node
            value.ordinal = count
            count += 1
            outputs: tuple[Value, ...] = (value,)
        else:
            made = []
            for out in instance.outs:
                value = _new(Value)
                value.spec = out
                value.batch = self
                value.node = node
                value.ordinal = count
                count += 1
                made.append(value)
            outputs = tuple(made)
        node.outputs = outputs
        self.key += key
        self.count = count
        self.nodes.append(node)
        return outputs


#: Identities of code objects of this package, which live as long as it does.
_INNER: set[int] = set()


def caller() -> Where:
    """Code object and instruction offset of the innermost frame outside the package; resolved to a line only when shown."""
    frame = sys._getframe(2)
    inner = _INNER
    while id(frame.f_code) in inner or _is_inner(frame):
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    return frame.f_code, frame.f_lasti


def _is_inner(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    if name != _PACKAGE and not name.startswith("oa."):
        return False
    _INNER.add(id(frame.f_code))
    return True


def line_of(where: Where | None) -> str:
    """`file:line` of a recorded place."""
    if where is None:
        return "a line that was not kept"
    code, offset = where
    line = code.co_firstlineno
    for start, stop, at in code.co_lines():
        if start <= offset < stop and at is not None:
            line = at
            break
    return f"{code.co_filename}:{line}"
