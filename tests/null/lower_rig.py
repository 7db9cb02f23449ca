"""Recording graphs without a device, and lowering them for recorded devices."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from oa import _device
from oa._graph.batching import wanted
from oa._graph.graph import Graph, freeze
from oa._graph.node import Batch, Value
from oa._graph.views import contiguous
from oa._lower.passes import Program, lower
from oa._schema.dtype import as_dtype
from oa._schema.spec import Spec, spec
from oa.engine import Engine
from oa.matrix import Matrix
from tests.null.device_fixtures import card, snapshot

#: Profile by name: both software devices in both addressings, a 1.2 device and cards of two makers' shapes.
PROFILES = (
    "lavapipe-address",
    "lavapipe-descriptor",
    "lavapipe-compat",
    "swiftshader",
    "card",
    "card-8-buffers",
)


@cache
def profile(name: str) -> Any:
    """The device profile planned from a recorded snapshot."""
    if name == "lavapipe-address":
        return _device.plan(snapshot("lavapipe-22.3"), "strict", "address")
    if name == "lavapipe-descriptor":
        return _device.plan(snapshot("lavapipe-22.3"), "strict", "descriptor")
    if name == "lavapipe-compat":
        return _device.plan(snapshot("lavapipe-22.3"), "compat", None)
    if name == "swiftshader":
        return _device.plan(snapshot("swiftshader"), None, None)
    found = _device.plan(card(), None, None)
    if name == "card":
        return found
    limits = dataclasses.replace(found.limits, storage_buffers=8)
    return dataclasses.replace(found, limits=limits)


class Recorder(Engine):
    """An Engine that only records: no device, no storage behind the values."""

    def __init__(self) -> None:
        self._batch = Batch()
        self._seed, self._draws = 0, 0
        self._tapes: list[Any] = []
        self._capture = None
        self._refusal = None

    def __repr__(self) -> str:
        return "<recorder>"

    def _check(self) -> None:
        """There is nothing that could be closed, lost or used from another thread."""

    def record(self, instance: Any, values: tuple[Any, ...], facade: Any) -> Any:
        made = []
        for value in self._batch.append(instance, values, (Recorder.record.__code__, 0)):
            handle = facade(self, value)
            value.handle = weakref.ref(handle)
            made.append(handle)
        for tape in self._tapes:
            tape.record(instance, values, made)
        return made[0] if len(made) == 1 else tuple(made)

    def upload(self, spec: Spec, array: Any, facade: Any) -> Any:
        return self.stored(spec, facade)

    def stored(self, spec: Spec, facade: Any = Matrix) -> Any:
        """A value that is taken to be in storage, row-major."""
        value = Value(spec)
        value.storage, value.layout = object(), contiguous(spec.shape)
        handle = facade(self, value)
        value.handle = weakref.ref(handle)
        return handle

    def input(self, *shape: int, dtype: str = "float32") -> Matrix:
        """A stored value of this shape."""
        found: Matrix = self.stored(spec(as_dtype(dtype), shape))
        return found

    def like(self, array: np.ndarray[Any, Any]) -> Matrix:
        """A stored value of the array's shape and dtype."""
        return self.input(*array.shape, dtype=array.dtype.name)

    def graph(self) -> Graph:
        """What was recorded, with the values still held wanted."""
        return freeze(self._batch, wanted(self._batch))


def graph_of(function: Callable[[Recorder], Any]) -> Graph:
    """The graph of what a function records; what it returns is wanted."""
    recorder = Recorder()
    kept = function(recorder)
    found = recorder.graph()
    del kept
    return found


def lowered(
    function: Callable[[Recorder], Any], name: str = "lavapipe-descriptor", **options: Any
) -> Program:
    """The program of what a function records, for a profile."""
    return lower(graph_of(function), profile(name), **options)


def kernels(program: Program) -> list[str]:
    """Digests of the plan's kernels, in order."""
    return [d.kernel.digest for d in program.plan.dispatches()]
