"""The Engine: the one owner of a device, its memory, queues, kernels and pending work; here the layers are wired."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any
from weakref import ref

import numpy as np

from oa._graph.batching import carried, halves, rebuild, wanted
from oa._graph.graph import freeze
from oa._graph.graph import key as batch_key
from oa._graph.node import Batch, Node, Value, caller, line_of
from oa._graph.ownership import holders
from oa._graph.state import State
from oa._graph.trace import trace
from oa._graph.views import Layout, contiguous
from oa._kernel.pack import Kernel
from oa._lower.passes import Program
from oa._lower.plan import Access, Dispatch, Operand, Plan, Slot, Space
from oa._run.clock import Clock, Event
from oa._run.executor import Executor
from oa._run.pool import Pool, Storage
from oa._run.profiler import Profiler, Row
from oa._run.sharing import Sharing
from oa._run.transfer import Transfer
from oa._schema import call
from oa._schema import scalar as sc
from oa._schema.dtype import Weak, uint32
from oa._schema.op import Instance
from oa._schema.spec import Spec, spec
from oa._schema.value import Typed
from oa.audit import audit
from oa.config import CONFIG
from oa.errors import (
    ArgumentError,
    CaptureError,
    EngineClosed,
    ForkedProcess,
    OaError,
    OutOfMemory,
    PoisonedValue,
    WrongThread,
)
from oa.evidence import Evidence, limit_of, whole
from oa.family import Specialising
from oa.lending import Lending
from oa.opening import numeric_of, opened
from oa.plan import CapturedPlan, capture
from oa.programs import Programs
from oa.support import Capable, guard
from oa.tuning import Tuning

call.trace_composite = trace
_new = object.__new__

#: Called with each new engine, which is closed when one raises; `oa.core` adds the self-test.
ON_OPEN: list[Callable[[Engine], None]] = []

#: A batch this long is run without waiting for a reader.
FULL_BATCH = 4096

_OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()
#: What engines that were dropped without `close` owned: a finaliser calls no Vulkan, the next new engine frees it.
_LEFT: deque[tuple[Any, ...]] = deque()
_DEFAULT = threading.local()
_NOTICED: set[str] = set()


class Engine(Capable, Evidence, Lending, Specialising):
    """Owns one Vulkan device. Operations on its values are recorded at once and run when a value is read or `flush` is called.

    A `with` block closes it at its end; inside, it is what operations without an engine argument run on.

    Args:
        device: "auto" (the best device; `OA_DEVICE` overrides), "gpu", "cpu", an index, a UUID or part of a name.
        profile: "strict" (Vulkan 1.3) or "compat" (1.2); None takes the best the device has.
        addressing: "address" or "descriptor"; None takes the device's preference. Results are the same.
        seed: of the random stream, an int of which 64 bits count.
        memory_limit: bytes that the engine may reserve on the device (`engine.memory_limit`); None leaves it to the driver.
        numeric: "stable", "deterministic" or "fast", see docs/passes.md; None takes `OA_NUMERIC`, else "stable".

    Raises:
        DriverNotFound: no Vulkan driver; the message says what to install.
        DeviceNotFound: no device answers to the name; the message lists the valid ones.
        ArgumentError: an argument of another kind, or an unknown profile, addressing or numeric mode.
        Unsupported: the device lacks what the profile needs.

    Example:
        >>> with oa.Engine() as engine:
        ...     oa.matrix.ones(engine, (2, 2)).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        device: str | int = "auto",
        *,
        profile: str | None = None,
        addressing: str | None = None,
        seed: int = 0,
        memory_limit: int | None = None,
        numeric: str | None = None,
    ) -> None:
        _free_left()
        whole(seed, "Engine: seed")
        limit_of(memory_limit, "Engine: memory_limit")
        if isinstance(device, bool) or not isinstance(device, (str, int)):
            raise ArgumentError(
                f"Engine: device is {device!r}; wanted 'auto', 'gpu', 'cpu', an index, a UUID or part of a name"
            )
        self._refusal: Callable[[], OaError] | None = None
        self._thread = threading.get_ident()
        self._pid = os.getpid()
        request, mode = CONFIG.device if device == "auto" else device, numeric_of(numeric)
        self._instance, self.device = opened(request, profile, addressing)
        self._open(seed, mode)
        self.memory_limit = memory_limit
        self._announce(request)
        try:
            for check in ON_OPEN:
                check(self)
        except BaseException:
            self.close()
            raise

    def _open(self, seed: int, numeric: str) -> None:
        self._clock = Clock(self.device)
        self._pool = Pool(self.device, self._clock)
        self._transfer = Transfer(self.device, self._pool, self._clock)
        self._sharing = Sharing(self.device, self._pool, self._clock, self._transfer)
        self._executor = Executor(self.device, self._pool, self._clock, CONFIG.cache_dir, self._transfer)
        parts = (self.device, self._pool, self._transfer, self._executor, self._clock)
        self._tuning = Tuning(*parts, ignored=numeric == "deterministic")
        self._programs = Programs(replace(self.device.profile, numeric=numeric), self._tuning)
        self._batch = Batch()
        self._capture: Any = None
        self._tapes: list[Any] = []
        self._profiler: Profiler | None = None
        self._lines: dict[tuple[str, int], tuple[Node, ...]] = {}
        guard(self)
        self._seed = whole(seed, "Engine: seed") & 0xFFFFFFFFFFFFFFFF
        self._draws = 0
        used = (self._executor, self._transfer, self._sharing, self._pool, self._clock)
        owned = (*used, self.device, self._instance)
        self._dropped = weakref.finalize(self, _LEFT.append, owned)
        self._dropped.atexit = False
        _OPEN.add(self)

    def _announce(self, request: str | int) -> None:
        name = self.device.snapshot.name
        if self.device.profile.software and not CONFIG.quiet and request != "cpu" and name not in _NOTICED:
            _NOTICED.add(name)
            sys.stderr.write(f"oa: no hardware device found; running on {name} (a CPU). See `oa doctor`.\n")

    # -- who may use it, and when

    def _check(self) -> None:
        if self._refusal is not None:
            raise self._refusal()
        if threading.get_ident() != self._thread:
            raise WrongThread(
                "this engine belongs to the thread that made it; make another engine in this thread, or pass arrays"
            )
        self._clock.check()

    def close(self) -> None:
        """Wait for submitted work, free everything and refuse further use. Work recorded and never read is dropped."""
        if self._refusal is not None or self._pid != os.getpid():
            return
        if threading.get_ident() != self._thread:
            raise WrongThread("Engine.close: only the thread that made the engine may close it")
        if self._capture is not None:
            raise self._capture.fail(
                CaptureError(
                    "Engine.close inside a capture: close the engine after engine.capture has returned"
                )
            )
        self._poison(wanted(self._batch), EngineClosed("the engine was closed before the value was computed"))
        self._refusal = _closed
        self._batch = Batch()
        found = self._dropped.detach()
        if found is not None:
            _free(*found[2][0])
        _OPEN.discard(self)

    def __enter__(self) -> Engine:
        """The engine; inside the block it is its thread's default engine."""
        _entered().append(ref(self))
        return self

    def __exit__(self, *_: object) -> None:
        entered = _entered()
        entered[:] = [e for e in entered if e() is not self]
        self.close()

    def __repr__(self) -> str:
        state = (
            "closed"
            if self._refusal is not None
            else f"{self.device.profile.name}, {self.device.profile.addressing}"
        )
        kind = ", software" if self.device.profile.software else ""
        return f"<oa.Engine {self.device.snapshot.name!r} ({state}{kind})>"

    def run_kernel(
        self, kernel: Kernel, groups: tuple[int, int, int], data: bytes, size: int
    ) -> np.ndarray[Any, Any]:
        """Run one kernel that reads buffer 0 and writes buffer 1, and return the `size` bytes written: for probes."""
        self._check()
        source, target = self._pool.allocate(len(data), host=True), self._pool.allocate(size)
        self._transfer.upload(source, data)
        reads = Operand(Space.INPUT, 0, 0, len(data), Access.READ)
        writes = Operand(Space.OUTPUT, 0, 0, size, Access.WRITE)
        plan = Plan(
            (Dispatch(kernel, groups, (reads, writes), (), (), kernel.name),),
            (Slot("uint8", (len(data),), len(data)),),
            (Slot("uint8", (size,), size),),
        )
        self._executor.run(plan, [source], [target])
        return self._transfer.download(target, 0, size)

    def trust(self, operations: frozenset[str]) -> None:
        """Let kernels use these native operations, which a probe saw round correctly."""
        self._programs.trust(operations)

    # -- recording

    @property
    def is_recording(self) -> bool:
        """Whether a capture is open, inside which values have no elements yet."""
        return self._capture is not None

    def record(self, instance: Instance, values: tuple[Value, ...], facade: type[Typed]) -> Any:
        """Append one operation to the pending batch and return its result."""
        if get_ident() != self._thread or self._refusal is not None:
            self._check()
        batch = self._batch
        for value in values:
            if value.batch is not batch and value.storage is None and value.number is None:
                raise self._unusable(value)
        located = self._capture is not None or self._profiler is not None or CONFIG.check
        where = caller() if located else None  # nobody else asks for the line
        results = batch.append(instance, values, where)
        made: Any
        if len(results) == 1:
            (value,) = results
            made = _new(facade)  # as `facade(self, value)` would, without the call
            made._engine, made._value = self, value
            value.handle = ref(made)
        else:
            made = tuple([facade(self, value) for value in results])
            for value, handle in zip(results, made):
                value.handle = ref(handle)
        if self._tapes:
            handles: tuple[Typed, ...] = (made,) if len(results) == 1 else made
            for tape in self._tapes:
                tape.record(instance, values, handles)
        if batch.count >= FULL_BATCH and self._capture is None:
            self.flush()
        return made

    def scalar_value(self, spec: Spec, number: Weak) -> Value:
        """A Python number as an operand: data, not part of any key."""
        value = Value(spec)
        value.number = number
        return value

    def stored_value(
        self, spec: Spec, storage: Storage, facade: type[Typed], layout: Layout | None = None
    ) -> Any:
        """A value whose elements are already on the device, by default row-major from the start of `storage`."""
        value = Value(spec)
        value.storage = storage
        value.layout = contiguous(spec.shape) if layout is None else layout
        handle = facade(self, value)
        value.handle = weakref.ref(handle)
        return handle

    def upload(self, spec: Spec, array: np.ndarray[Any, Any], facade: type[Typed]) -> Any:
        """A value holding a copy of `array`, which must match `spec`."""
        self._check()
        data = np.ascontiguousarray(array, dtype=spec.dtype.numpy)
        storage = self._pool.allocate(max(16, data.nbytes), host=True)
        if data.nbytes:
            self._transfer.upload(storage, data.reshape(-1).view(np.uint8))
        return self.stored_value(spec, storage, facade)

    def random_key(self) -> tuple[Value, Value, Value]:
        """Seed (low and high word) and number of the next random draw, as scalar operands; taken now, whenever they are used."""
        self._check()
        low, high, draw = (
            self.scalar_value(spec(uint32, ()), number)
            for number in (self._seed & 0xFFFFFFFF, self._seed >> 32, self._draws)
        )
        if self._capture is not None:
            self._capture.random_key(low, high, draw)
        else:
            self._draws = (self._draws + 1) & 0xFFFFFFFF
        return low, high, draw

    @property
    def seed(self) -> int:
        """The seed of the random stream; setting it leaves the number of the next draw as it is (see `rng_state`)."""
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self.rng_state = (whole(seed, "engine.seed"), self._draws)

    @property
    def rng_state(self) -> tuple[int, int]:
        """(seed, number of the next draw): all there is to the random stream."""
        return self._seed, self._draws

    @rng_state.setter
    def rng_state(self, state: tuple[int, int]) -> None:
        self._check()
        if self._capture is not None:
            raise self._capture.fail(
                CaptureError(
                    "engine.rng_state cannot be set inside a capture; set it before submitting the plan"
                )
            )
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise ArgumentError(f"engine.rng_state: got {state!r}; wanted (seed, number of the next draw)")
        seed, draws = (whole(part, "engine.rng_state: a part") for part in state)
        self._seed, self._draws = seed & 0xFFFFFFFFFFFFFFFF, draws & 0xFFFFFFFF

    def _unusable(self, value: Value) -> OaError:
        if value.error is not None:
            error = PoisonedValue(f"the value was never computed: {value.error}")
            error.__cause__ = value.error
            return error
        if value.plan is not None:
            return CaptureError(
                "the value is an output of a captured plan that has not been submitted; call engine.submit(plan) first"
            )
        return CaptureError("the value was recorded inside a capture and is not one of its outputs")

    # -- running

    def flush(self) -> None:
        """Run what is pending without waiting for it. Inside a capture this does nothing."""
        self._check()
        if self._capture is not None:
            return
        batch = self._batch
        roots = wanted(batch)
        if roots:
            self._run(batch, roots)
        else:
            self._batch = Batch()
        self._sharing.settle()

    def _run(self, batch: Batch, roots: list[Value]) -> None:
        try:
            self._batch = Batch()
            pairs = carried(batch, roots)
            program = self._programs.get(batch_key(batch, roots, pairs), lambda: freeze(batch, roots), pairs)
            self._submit(program, batch, roots)
        except Exception as error:
            mendable = self._clock.refusal is None and not CONFIG.check and len(batch.nodes) > 1
            if mendable and isinstance(error, OaError):
                self._run_halves(batch, roots, error)
                return
            self._poison(roots, error)
            if (
                not isinstance(error, OaError)
                or self._clock.refusal is not None
                or isinstance(error, OutOfMemory)
                or CONFIG.check
            ):
                raise
        except BaseException:  # an interrupt: what was not submitted is pending again
            if roots[0].storage is None:
                self._batch = batch
            raise

    def _run_halves(self, batch: Batch, roots: list[Value], error: OaError) -> None:
        """What failed as a whole is run in parts: only what depends on the part that fails is lost."""
        first, first_roots, second, second_roots = halves(batch, roots)
        failures: list[BaseException] = []
        for nodes, part in ((first, first_roots), (second, second_roots)):
            alive = [n for n in nodes if not self._spoiled(n)]
            lost = [v for v in part if v.node is not None and v.node not in alive]
            self._poison(lost, error)
            if alive and (keep := [v for v in part if v.error is None]):
                try:
                    self._run(rebuild(alive), keep)
                except OutOfMemory as found:
                    failures.append(found)
        if failures:
            raise failures[0]

    def _spoiled(self, node: Node) -> bool:
        """Whether a node reads a value that failed; its results then fail too."""
        if any(v.error is not None for v in node.inputs):
            for v in node.outputs:
                v.error, v.batch = next(i.error for i in node.inputs if i.error is not None), None
            return True
        return False

    def _submit(self, program: Program, batch: Batch, roots: list[Value]) -> None:
        externals = batch.externals
        taken = {}
        for output, source in program.plan.in_place:
            old = externals[program.stored_inputs[source]]
            if old.handle() is None and holders((old.storage,)) == [1]:  # only this batch still knows it
                taken[output] = source
        inputs = [externals[k].storage for k in program.stored_inputs]
        scalars = [word for k in program.scalar_inputs for word in _words(externals[k])]
        if CONFIG.check:
            audit(self, program, inputs, scalars, lambda k: line_of(batch.nodes[k].where))
        outputs = [
            inputs[taken[k]] if k in taken else self._pool.allocate(slot.size)
            for k, slot in enumerate(program.plan.outputs)
        ]
        nodes, last_use = [value.node for value in roots], outputs[0].last_use if outputs else 0
        try:
            for value, binding in zip(roots, program.results):
                value.storage = (inputs if binding.from_input else outputs)[binding.index]
                value.layout = binding.layout
                value.batch = value.node = None
            if program.plan.steps:
                self._executor.run(program.plan, inputs, outputs, scalars, timing=self._profiler)
                if self._profiler is not None:
                    self._lines[program.plan.digest, self._clock.submitted] = tuple(batch.nodes)
        except BaseException:
            if not self._executor.was_submitted(outputs, last_use):
                for value, made_by in zip(roots, nodes):
                    value.storage = value.layout = None
                    value.batch, value.node = batch, made_by
            raise
        for node in batch.nodes:  # what is left of the graph must not keep its values alive
            node.inputs = node.outputs = ()

    @staticmethod
    def _poison(values: Sequence[Value], error: BaseException) -> None:
        for value in values:
            value.error, value.batch, value.node = error, None, None

    # -- reading

    def materialize(self, value: Value) -> None:
        """Make sure that the value is stored; raises what its computation raised."""
        self._check()
        if value.batch is not None and value.batch is self._batch:
            if self._capture is not None:
                raise self._capture.fail(
                    CaptureError(
                        "a value recorded inside a capture cannot be read there;"
                        " return it and read plan.outputs after submit"
                    )
                )
            self.flush()
            if value.error is not None:
                raise value.error
        if value.storage is None:
            raise self._unusable(value)

    def read(self, value: Value) -> np.ndarray[Any, Any]:
        """A NumPy copy of the value. Flushes and waits."""
        if value.host is not None and self._capture is None:
            self._check()
            return np.array(value.host)
        self.materialize(value)
        if self._capture is not None:
            raise self._capture.fail(
                CaptureError(
                    "a value cannot be read inside a capture, where its elements may be others at each run;"
                    " read it before the capture, or compute with it"
                )
            )
        spec, layout = value.spec, value.layout
        dtype = spec.dtype.numpy
        if spec.size == 0 or layout is None:
            return np.zeros(spec.shape, dtype)
        spans = [(e - 1) * s for e, s in zip(spec.shape, layout.strides)]
        low = layout.offset + sum(s for s in spans if s < 0)
        high = layout.offset + sum(s for s in spans if s > 0)
        raw = self._transfer.download(value.storage, low * dtype.itemsize, (high - low + 1) * dtype.itemsize)
        flat = raw.view(dtype)
        if layout.is_contiguous(spec.shape):
            return flat.reshape(spec.shape)
        strides = tuple(s * dtype.itemsize for s in layout.strides)
        view = np.lib.stride_tricks.as_strided(flat[layout.offset - low :], spec.shape, strides)
        return np.array(view)

    # -- state cells

    def _read_cell(self, cell: State) -> Any:
        self._check()
        return cell._held if self._capture is None else self._capture.read_cell(cell)

    def _assign_cell(self, cell: State, value: Typed) -> None:
        self._check()
        if self._capture is not None:
            self._capture.assign_cell(cell, value)
        elif value._value.plan is None:
            old, new, batch = cell._held._value, value._value, self._batch
            if new.batch is batch and batch.reads(old):
                batch.carried.append((new, old))
            cell._held = value
        else:  # an output of a plan, which the next run overwrites: the cell keeps what it is now
            self.materialize(value._value)
            cell._held = self.stored_value(
                value._value.spec, value._value.storage, type(value), value._value.layout
            )

    # -- plans

    def capture(self, function: Callable[..., Any], *args: Any) -> Any:
        """Record `function(*args)` without running it and return the plan.

        Every stored value that it touches becomes an input, every State cell that it assigns a carried pair; the cells keep
        their values until the plan is submitted. See `oa.plan.CapturedPlan`.

        Raises:
            CaptureError: a capture is open already, or the function reads a value that it recorded.

        Example:
            >>> x = oa.matrix.full(engine, (3,), 2.0)
            >>> plan = engine.capture(lambda: x * x)
            >>> engine.submit(plan).wait()
            True
            >>> plan.outputs.tolist()
            [4.0, 4.0, 4.0]
        """
        if not callable(function):
            raise ArgumentError(f"engine.capture: got {function!r}; wanted a function and its arguments")
        return capture(self, function, args)

    def submit(self, plan: Any) -> Event:
        """Run a captured plan once more with what is bound now; returns at once with an Event."""
        if get_ident() != self._thread or self._refusal is not None:
            self._check()
        if self._capture is not None:
            raise CaptureError("engine.submit inside a capture: submit the plan after the capture")
        if not isinstance(plan, CapturedPlan):
            raise ArgumentError(
                f"engine.submit: got {plan!r}; wanted a plan, which engine.capture(function) gives"
            )
        if plan.engine is not self:
            raise ArgumentError("engine.submit: the plan was captured on another engine")
        if self._batch.nodes:
            self.flush()
        value: int = plan._submit()
        return Event(self._clock, value)

    @contextlib.contextmanager
    def profile(self) -> Iterator[Profiler]:
        """Time every dispatch submitted inside the block with device timestamps, those of profiles inside it among them.

        `print(p.table())` gives time per operation beside the device's roofline, `print(p.lines())` time per line of the user's
        source, `p.write_trace(path)` a trace for Perfetto and Chrome.

        Example:
            >>> with engine.profile() as p:
            ...     y = oa.matrix.exp(oa.matrix.ones(engine, (8,))).to_numpy()
            >>> len(p.rows()) > 0
            True
        """
        self._check()
        self.flush()
        profiler, outer = Profiler(self._annotate, self.roofline), self._profiler
        self._profiler = profiler
        try:
            yield profiler
            self.flush()
            profiler.rows()
        finally:
            self._profiler = outer
            if outer is None:
                self._lines.clear()
            else:
                outer.include(profiler)

    def _annotate(self, row: Row) -> dict[str, str]:
        nodes = self._lines.get((row.plan, row.submission), ())
        lines = dict.fromkeys(line_of(nodes[k].where) for k in row.nodes if k < len(nodes))
        return {"lines": "; ".join(lines)} if lines else {}

    # -- evidence

    def wait(self) -> None:
        """Run what is pending and wait until everything submitted has finished."""
        self.flush()
        self._clock.wait(self._clock.submitted)

    def trim(self) -> None:
        """Give memory that is kept for reuse back to the device. Happens by itself when memory runs out."""
        self.wait()
        for drop in self._pool.relief:
            drop()
        self._pool.trim()

    @property
    def diagnostics(self) -> dict[str, int]:
        """Counters since the engine was made: submissions, dispatches, recordings, plan cache hits and more.

        `lowerings` counts programs made, `recompilations` those of them whose operations had all been lowered before, in the same
        order: `compilations` says what else had changed.
        """
        return {**self._executor.counters.as_dict(), **self._programs.counters()}


def _words(value: Value) -> list[int]:
    assert value.number is not None
    return sc.words_of(value.number, value.spec.dtype)


def _closed() -> OaError:
    return EngineClosed("the engine is closed; make a new one with oa.Engine()")


def _forked() -> OaError:
    return ForkedProcess(
        "this engine belongs to the parent of a forked process; make an engine in the child, or start workers with 'spawn'"
    )


def _after_fork() -> None:
    for engine in list(_OPEN):
        engine._refusal = _forked
    _DEFAULT.__dict__.clear()


def _free(executor: Executor, transfer: Transfer, sharing: Sharing, *rest: Any) -> None:
    """Wait for what runs and free everything that an engine owned."""
    with contextlib.suppress(OaError):
        executor.close()
        transfer.close()
        sharing.close()
    for part in rest:  # pool, clock, device, instance
        part.close()


def _free_left() -> None:
    while _LEFT:
        _free(*_LEFT.popleft())


def _at_exit() -> None:
    _free_left()
    for engine in list(_OPEN):
        if engine._thread == threading.get_ident():
            engine.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


def open_engines() -> list[Engine]:
    """The engines that this thread may use."""
    return [e for e in _OPEN if e._thread == threading.get_ident() and e._refusal is None]


def _entered() -> list[ref[Engine]]:
    """The engines whose `with` blocks this thread is in, innermost last."""
    found: list[ref[Engine]] | None = getattr(_DEFAULT, "entered", None)
    if found is None:
        found = _DEFAULT.entered = []
    return found


def default_engine() -> Engine:
    """What operations without an engine argument run on: the engine of the innermost `with` block, else one made at first use.

    Each thread has its own.

    >>> with oa.Engine() as inner:
    ...     oa.default_engine() is inner and oa.matrix.zeros(2).engine is inner
    True
    """
    for entered in reversed(_entered()):
        inner = entered()
        if inner is not None and inner._refusal is None:
            return inner
    engine: Engine | None = getattr(_DEFAULT, "engine", None)
    if engine is None or engine._refusal is not None:
        engine = _DEFAULT.engine = Engine()
    return engine
