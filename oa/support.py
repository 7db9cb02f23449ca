"""What a device can do, asked before or refused at the call: dtypes that need a capability, and operations on a dtype."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from oa._graph.graph import freeze
from oa._graph.node import Batch, Value
from oa._graph.views import contiguous
from oa._schema import registry
from oa._schema import scalar as sc
from oa._schema.dtype import (
    CAPABILITIES,
    DType,
    as_dtype,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from oa._schema.op import Instance
from oa._schema.spec import Shape, Spec, spec
from oa._schema.value import Typed
from oa.errors import ArgumentError, CaptureError, DTypeError, OaError, ShapeError, Unsupported

if TYPE_CHECKING:
    from oa._device import Profile

#: What to cast to where a device lacks a dtype.
_CASTS = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}


def missing(profile: Profile) -> dict[DType, str]:
    """The dtypes that a device lacks, each with the capability that it lacks."""
    found = {}
    for dtype, needs in CAPABILITIES.items():
        absent = [need for need in needs if need not in profile.features]
        if absent:
            found[dtype] = absent[0]
    return found


def _refusal(device: Any, dtype: DType, operation: str) -> Unsupported:
    lacks, cast = missing(device.profile)[dtype], _CASTS[dtype].name
    mend = (
        f"ask for dtype=oa.{cast}"
        if operation == "matrix.from_numpy"
        else f"cast its operands: x.astype(oa.{cast})"
    )
    return Unsupported(
        f"{operation}: {dtype.name} is not there on {device.snapshot.name}, which lacks {lacks}; {mend}"
    )


def dtypes_of(instance: Instance) -> Iterator[DType]:
    """Every dtype that computing an instance takes: of operands, results and intermediate values, a composite's too."""
    yield from (s.dtype for s in (*instance.ins, *instance.outs))
    if instance.body is not None:
        yield from (node.dtype for node in sc.topological([instance.body]))
    if instance.template is not None:
        for node in instance.template.graph.nodes:
            yield from dtypes_of(node.instance)


class Guarded:
    """Mixed into the Engine of a device that lacks a dtype: it refuses the dtype at the call that would need it."""

    device: Any

    def _refuse(self, dtype: DType, operation: str) -> None:
        if dtype in missing(self.device.profile):
            raise _refusal(self.device, dtype, operation)

    def record(self, instance: Instance, values: tuple[Value, ...], facade: type[Typed]) -> Any:
        """As an Engine's. Raises Unsupported."""
        for dtype in dict.fromkeys(dtypes_of(instance)):
            self._refuse(dtype, instance.op.name)
        return super().record(instance, values, facade)  # type: ignore[misc]

    def upload(self, spec: Spec, array: Any, facade: type[Typed]) -> Any:
        """As an Engine's. Raises Unsupported."""
        self._refuse(spec.dtype, "matrix.from_numpy")
        return super().upload(spec, array, facade)  # type: ignore[misc]


#: By class of Engine: the same with refusals in front.
_GUARDED: dict[Any, Any] = {}


def guard(engine: Any) -> None:
    """Make an Engine refuse the dtypes that its device lacks; one that lacks none stays as it is, and as fast."""
    if missing(engine.device.profile):
        kind = type(engine)
        if kind not in _GUARDED:
            about = {"__doc__": kind.__doc__, "__module__": kind.__module__}
            _GUARDED[kind] = type(kind.__name__, (Guarded, kind), about)
        engine.__class__ = _GUARDED[kind]


# -- asking


class Capable:
    """The part of an Engine that says what its device can do."""

    def supports(self, dtype: Any, op: str | Callable[..., Any] | None = None) -> bool:
        """Whether the device has a dtype, or an operation (a function of a domain, or its name) takes operands of it here.

        The operation is recorded and compiled on small operands, and forgotten; nothing runs. An operation without operands
        is asked whether it makes values of the dtype.

        Raises:
            ArgumentError: no such operation, or one that cannot be called without arguments that only its user knows.

        Example:
            >>> engine.supports("float32", "matmul"), engine.supports(oa.int32, oa.matrix.exp)
            (True, False)
        """
        self._check()  # type: ignore[attr-defined]
        return supports(self, dtype, op)


def supports(engine: Any, dtype: Any, op: str | Callable[..., Any] | None = None) -> bool:
    """See `Capable.supports`."""
    wanted = as_dtype(dtype)
    if wanted in missing(engine.device.profile):
        return False
    if op is None:
        return True
    function = _function(op)
    if function.__name__ in _FROM_HOST:
        return True
    key = (wanted, function)
    known: dict[Any, bool] = engine.__dict__.setdefault("_supported", {})
    found = known.get(key)
    if found is None:
        found = known[key] = _tried(engine, wanted, function)
    return found


def _function(op: str | Callable[..., Any]) -> FunctionType:
    """The public function of that name ("exp", "matrix.exp", "ml.layer_norm")."""
    if isinstance(op, FunctionType):
        return op
    domain, _, name = op.rpartition(".") if isinstance(op, str) else ("", "", "")
    found = getattr(sys.modules.get(f"oa.{domain or 'matrix'}"), name, None)
    if not isinstance(found, FunctionType):
        raise ArgumentError(
            f"engine.supports: {op!r} is no operation; wanted a function of oa.matrix or another domain, or its name"
        )
    return found


class _Trial:
    """Stands where an open capture would: what is recorded is not run, and cannot be read."""

    def fail(self, error: CaptureError) -> CaptureError:
        """The error to raise."""
        return error

    def random_key(self, *operands: Value) -> None:
        """A draw that does not count."""


def _tried(engine: Any, dtype: DType, function: FunctionType) -> bool:
    """Record and lower the function on operands of the dtype, and forget both. Shapes are tried until one fits."""
    last: OaError | None = None
    for shape in ((2, 2), (2,), (2, 2, 2), ()):
        kept = engine._batch, engine._tapes, engine._capture
        engine._batch, engine._tapes, engine._capture = Batch(), [], _Trial()
        try:
            return _compiles(engine, function, dtype, shape)
        except CaptureError:
            return True  # it came as far as a shape that depends on data
        except (DTypeError, Unsupported):
            return False
        except (ShapeError, ArgumentError) as error:
            last = error
        finally:
            engine._batch, engine._tapes, engine._capture = kept
    raise ArgumentError(f"engine.supports: cannot try {function.__name__} without its arguments: {last}")


def _compiles(engine: Any, function: FunctionType, dtype: DType, shape: Shape) -> bool:
    args, named = _arguments(engine, function, dtype, shape)
    made = function(*args, **named)
    results = [v for v in (made if isinstance(made, tuple) else (made,)) if isinstance(v, Typed)]
    batch = engine._batch
    roots = [v._value for v in results if v._value.batch is batch]
    if roots:
        engine._programs.lower(freeze(batch, roots))
    if any(v is dtype or isinstance(v, (Typed, list)) for v in (*args, *named.values())):
        return True
    if not results:
        raise ArgumentError("it neither takes nor makes values")
    return any(v._value.spec.dtype is dtype for v in results)


#: What only moves elements to the device.
_FROM_HOST = frozenset({"asarray", "from_dlpack", "from_list", "from_numpy"})
#: Arguments by name for what has no default.
_GIVEN: dict[str, Any] = {
    "axis": 0, "k": 1, "count": 2, "repeats": 2, "shift": 1, "pad_width": 1, "q": 0.5, "key": slice(None), "fill_value": 1,
    "start": 0, "stop": 2, "num": 2, "n_rows": 2, "source": 0, "destination": 0, "values": [1.0], "subscripts": "ij,jk->ik",
    "max_norm": 1.0, "parts": 1, "n": 2, "gamma": 0.5, "value": 1,
}  # fmt: skip
_INDICES = frozenset({"indices", "labels", "repeats", "segments", "targets"})


def _arguments(
    engine: Any, function: FunctionType, dtype: DType, shape: Shape
) -> tuple[list[Any], dict[str, Any]]:
    """What to call a function with: operands of the dtype, indices of int32, and the least of everything else."""
    parameters = inspect.signature(function).parameters
    wanted = [p for p in parameters.values() if p.default is p.empty]
    operands = [p for p in wanted if _is_operand(p)]
    args: list[Any] = []
    if "device" in parameters and not operands and "engine" not in parameters:
        args.append(engine)
    for p in wanted:
        if p in operands:
            alone = len(operands) == 1 or p.name not in _INDICES
            of = bool_ if p.name in ("condition", "mask") else dtype if alone else int32
            made = _operand(engine, of, shape[:1] if of is int32 and not alone else shape)
            if p.kind is p.VAR_POSITIONAL:
                args += [made, made]
            else:
                args.append([made, made] if "Sequence[Matrix]" in str(p.annotation) else made)
        elif p.kind is not p.VAR_POSITIONAL:
            args.append(_given(engine, p.name, dtype, shape))
    if len(args) == 1 and args[0] is engine and not operands:
        args.append(shape if "shape" in parameters else _operand(engine, dtype, shape))
        args += [2] if "high" in parameters and "dtype" in parameters else []
    named = {"dtype": dtype} if "dtype" in parameters and not operands and dtype not in args else {}
    return args, named


def _is_operand(p: inspect.Parameter) -> bool:
    annotation = str(p.annotation)
    named = p.name in ("a", "b", "value", "values", "rows") and annotation == "Any"
    return named or "Matrix" in annotation or annotation == "Operand"


def _given(engine: Any, name: str, dtype: DType, shape: Shape) -> Any:
    special = {"engine": engine, "dtype": dtype, "shape": shape, "axes": tuple(range(len(shape)))}
    special["repetitions"] = (2,) * len(shape)
    if name in special:
        return special[name]
    if name not in _GIVEN:
        raise ArgumentError(f"no value for {name}")
    return _GIVEN[name]


def _operand(engine: Any, dtype: DType, shape: Shape) -> Any:
    """A value taken to be in storage."""
    value = Value(spec(dtype, shape))
    value.storage, value.layout = engine, contiguous(shape)
    return registry.value_type("Matrix")(engine, value)


__all__ = ["Capable", "Guarded", "dtypes_of", "guard", "missing", "supports"]
