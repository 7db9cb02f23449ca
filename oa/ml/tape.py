"""Reverse-mode differentiation: a tape remembers operations on watched values and plays their gradient rules backwards.

What a tape keeps of an operation is exactly what its gradient rule names. Rules are ordinary operations, so the backward
pass is recorded like anything else: it fuses, it can be captured, and an outer tape can differentiate it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oa import matrix
from oa._graph.node import Value, number_of, standing_for
from oa._schema.op import Derived, Instance
from oa._schema.value import Typed
from oa.errors import ArgumentError, ShapeError, TapeError
from oa.matrix import Matrix
from oa.matrix.reduce import sum_to
from oa.matrix.surface import shown

_OPEN: list[GradientTape] = []


class _Entry:
    """One operation on watched values, or several as one (`oa.ml.checkpoint`): what its rule needs, and which results are its
    own."""

    __slots__ = ("inputs", "instance", "kept", "outputs", "watched")

    def __init__(
        self,
        instance: Any,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        watched: tuple[bool, ...],
        kept: Any,
    ) -> None:
        self.instance = instance
        self.inputs = inputs
        self.outputs = outputs
        self.watched = watched
        self.kept = kept


class GradientTape:
    """Records operations on watched values and gives gradients of a scalar with respect to them.

    Args:
        persistent: keep the tape after the first `gradient` (default False: it is consumed, which frees what it kept).

    Raises:
        TapeError: used after it was closed or consumed, or asked for the gradient of something it did not record.

    Example:
        >>> x = oa.matrix.from_list(engine, [1.0, 2.0])
        >>> with oa.ml.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = oa.matrix.sum(x * x)
        >>> tape.gradient(y, x).tolist()
        [2.0, 4.0]
    """

    def __init__(self, *, persistent: bool = False) -> None:
        self.persistent = persistent
        self._entries: list[_Entry] = []
        self._watched: set[int] = set()  #: serial numbers of values that depend on a source, sources included
        self._sources: set[int] = set()
        #: By identity: the parameter, its value's serial number, and the value, so that a later read finds the same one.
        self._parameters: dict[int, tuple[Any, int, Any]] = {}
        self._engines: list[Any] = []
        self._consumed = False
        self._open = False

    # -- recording

    def __enter__(self) -> GradientTape:
        self._require()
        self._open = True
        _OPEN.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._open:
            self._open = False
            _OPEN.remove(self)
            for engine in self._engines:
                engine._tapes.remove(self)
            self._engines.clear()

    def close(self) -> None:
        """Stop recording and free what the tape kept."""
        self._stop()
        self._entries.clear()
        self._watched.clear()
        self._sources.clear()
        self._parameters.clear()
        self._consumed = True

    def watch(self, value: Any) -> None:
        """Differentiate with respect to `value`: a float32 Matrix, a Parameter, or a sequence of them."""
        self._require()
        if isinstance(value, (list, tuple)):
            for v in value:
                self.watch(v)
            return
        found = value if isinstance(value, Typed) else getattr(value, "value", None)
        if not isinstance(found, Typed):
            raise ArgumentError(f"tape.watch: got {type(value).__name__}; wanted a Matrix or a Parameter")
        if not found._value.spec.dtype.is_inexact:
            raise ArgumentError(
                f"tape.watch: a {found._value.spec.dtype.name} value has no gradient; wanted float32"
            )
        if found is not value:
            self._parameters[id(value)] = (value, number_of(found._value), found)
        self._add(found)

    def _add(self, handle: Typed) -> None:
        engine = handle._engine
        if self._open and engine not in self._engines:
            self._engines.append(engine)
            engine._tapes.append(self)
        self._watched.add(number_of(handle._value))
        self._sources.add(number_of(handle._value))

    def record(self, instance: Instance, values: tuple[Value, ...], results: Sequence[Typed]) -> None:
        """Called by the engine for every operation while the tape is open."""
        own = self._watched
        inputs = tuple([v.serial for v in values])  # 0 where there is none yet, which no set holds
        if own.isdisjoint(inputs):
            return
        watched = tuple([number in own for number in inputs])
        keeps = instance.keeps.get(watched, False)
        if keeps is False:
            keeps = instance.keeps[watched] = _keeps(instance, watched)
        if keeps is None:
            return
        kept = {}
        for name, k in keeps:
            kept[name] = _handle(values[k] if k >= 0 else results[0]._value)
        outputs = tuple([number_of(h._value) for h in results])
        own.update(outputs)
        self._entries.append(_Entry(instance, inputs, outputs, watched, kept))

    # -- playing back

    def gradient(self, target: Matrix, sources: Any, *, seed: Matrix | None = None) -> Any:
        """The gradient of `target` with respect to each source, in the sources' own structure; None where none flows.

        `target` is a float32 scalar, or any shape when `seed` gives its cotangent.
        """
        self._require()
        if not isinstance(target, Typed) or number_of(target._value) not in self._watched:
            raise TapeError(
                "tape.gradient: the tape did not record how the target depends on a watched value;"
                " compute it inside the with block from watched values"
            )
        if seed is None:
            if target._value.spec.size != 1:
                raise TapeError(
                    f"tape.gradient: the target has shape {target._value.spec.shape}; wanted one element, or a seed"
                )
            if target._value.spec.dtype.is_complex:
                raise TapeError(
                    "tape.gradient: the target is complex; a loss is real: take matrix.real(target) or matrix.abs(target)"
                )
            seed = matrix.ones_like(target)
        elif not isinstance(seed, Typed):
            raise ArgumentError(
                f"tape.gradient: seed is {shown(seed)}; wanted a Matrix, the target's cotangent"
            )
        elif seed._value.spec is not target._value.spec:
            raise ShapeError(
                f"tape.gradient: seed is {seed._value.spec!r}; wanted the target's {target._value.spec!r}"
            )
        flat = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        wanted = [self._key(s) for s in flat]
        if not self.persistent:
            self._stop()
        cotangents = self._backward(number_of(target._value), seed)
        found = [cotangents.get(k) for k in wanted]
        if not self.persistent:
            self.close()
        return (
            found if isinstance(sources, list) else tuple(found) if isinstance(sources, tuple) else found[0]
        )

    def _key(self, source: Any) -> int:
        if isinstance(source, Typed):
            key: int | None = number_of(source._value)
        else:
            key = self._parameters.get(id(source), (None, None, None))[1]
        if key is None or key not in self._watched:
            raise TapeError(
                "tape.gradient: a source was not watched; call tape.watch(x) before using it,"
                " or read the parameter inside the with block"
            )
        return key

    def _backward(self, target: int, seed: Matrix) -> dict[int, Any]:
        return self._play({target: seed})

    def _play(self, cotangents: dict[int, Any]) -> dict[int, Any]:
        """From cotangents of results to those of the sources, all of them by serial number."""
        for entry in reversed(self._entries):
            own = [cotangents.get(o) for o in entry.outputs]
            if own[0] is None and all(ct is None for ct in own):
                continue
            if isinstance(entry.instance, Instance):
                for key, ct in zip(entry.inputs, _pull(entry, own)):
                    if ct is not None:
                        seen = cotangents.get(key)
                        cotangents[key] = ct if seen is None else matrix.add(seen, ct)
            else:
                entry.instance.play(cotangents, entry.watched)
            for o in entry.outputs:
                if o not in self._sources:
                    cotangents.pop(o, None)
        return cotangents

    def _require(self) -> None:
        if self._consumed:
            raise TapeError(
                "the tape is closed or consumed by an earlier gradient();"
                " record again, or make it with GradientTape(persistent=True)"
            )


def _keeps(instance: Instance, watched: tuple[bool, ...]) -> tuple[tuple[str | int, int], ...] | None:
    """What the gradient rule names when these operands are watched: by name or position, each an operand or, as -1, the
    result. None when nothing flows back."""
    kind = instance.op.kind
    if not instance.outs[0].dtype.is_inexact:
        return None
    if kind == "composite":
        return tuple((k, k) for k in range(len(watched)))
    if kind == "pointwise":
        rules = [Derived.pointwise_vjp(instance, k) for k, flag in enumerate(watched) if flag]
        found = [rule for rule in rules if rule is not None]
        return tuple((k, k) for k in sorted({k for rule in found for k in rule[1]})) if found else None
    if instance.op.gradient is None:
        return None
    names = instance.op.operands
    return tuple((n, -1 if n == "result" else names.index(n)) for n in instance.op.saves)


def _handle(value: Value) -> Any:
    """A value with the user's object that keeps it wanted, or for a Python number the number's value alone."""
    if value.number is not None:
        return value
    value.kept = True
    return value.handle(), value


def _restored(kept: Any) -> Any:
    """What the gradient rule is given: an object that stands for the value, whatever was assigned to the user's."""
    return standing_for(kept[1], kept[0]) if isinstance(kept, tuple) else kept


def _pull(entry: _Entry, cotangents: list[Any]) -> list[Any]:
    """Cotangents of an entry's inputs from those of its outputs."""
    kind = entry.instance.op.kind
    if kind == "pointwise":
        return _pull_pointwise(entry, cotangents[0])
    if kind == "composite":
        return _pull_composite(entry, cotangents)
    rule = entry.instance.op.gradient
    assert rule is not None
    found = rule(entry.instance, cotangents[0], **{k: _restored(v) for k, v in entry.kept.items()})
    return [ct if flag else None for ct, flag in zip(found, entry.watched)]


def _pull_pointwise(entry: _Entry, ct: Matrix) -> list[Any]:
    found: list[Any] = []
    for k, flag in enumerate(entry.watched):
        rule = Derived.pointwise_vjp(entry.instance, k) if flag else None
        if rule is None:
            found.append(None)
            continue
        instance, used = rule
        values = [_value(entry.kept[i]) for i in used]
        # The cotangent itself, as an addition passes it on, needs no operation.
        same = instance.body is not None and instance.body.op == "arg" and not used
        made = ct if same else ct._engine.record(instance, (*values, ct._value), type(ct))
        found.append(sum_to(made, entry.instance.ins[k].shape))
    return found


def _value(kept: Any) -> Value:
    return kept[1] if isinstance(kept, tuple) else kept._value if isinstance(kept, Typed) else kept


def _pull_composite(entry: _Entry, cotangents: list[Any]) -> list[Any]:
    """The composite's body is recorded again, node by node; lowering finds it equal to what the forward pass expands to."""
    graph = entry.instance.template.graph
    handles = [_restored(entry.kept[k]) for k in range(len(entry.inputs))]
    ct = next(c for c in cotangents if c is not None)
    engine, facade = ct._engine, type(ct)
    with GradientTape(persistent=True) as tape:
        for handle, flag in zip(handles, entry.watched):
            if flag:
                tape.watch(handle)
        outs: list[Any] = []
        for node in graph.nodes:
            values = tuple(_value(outs[o]) if o >= 0 else _value(handles[-o - 1]) for o in node.inputs)
            made = engine.record(node.instance, values, facade)
            outs.extend(made if isinstance(made, tuple) else (made,))
    found: list[Any] = [None] * len(handles)
    for root, own in zip(graph.roots, cotangents):
        if own is None:
            continue
        part = tape._backward(number_of(outs[root]._value), own)
        for k, handle in enumerate(handles):
            got = part.get(number_of(_value(handle))) if entry.watched[k] else None
            if got is not None:
                found[k] = got if found[k] is None else matrix.add(found[k], got)
    tape.close()
    return found


def read(parameter: Any, value: Matrix) -> None:
    """Every open tape watches a Parameter whose value is read."""
    for tape in _OPEN:
        tape._parameters[id(parameter)] = (parameter, number_of(value._value), value)
        if number_of(value._value) not in tape._watched:
            tape._add(value)
