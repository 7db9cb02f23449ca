"""The copy operation, which the engine itself also records."""

from __future__ import annotations

from oa._schema import scalar as sc
from oa._schema.op import Inference, Instance, Operation
from oa._schema.spec import Spec
from oa.errors import InternalError


def _copy() -> None:
    raise InternalError("copy is recorded by instance")


_COPY = Operation("matrix.copy", "pointwise", _copy, ("x",), {})


def copy_instance(spec: Spec) -> Instance:
    """The instance that copies a value of this spec."""
    found = _COPY.cache.get(spec)
    if found is None:
        body = sc.arg(0, spec.dtype)
        found = _COPY.cache[spec] = Instance(_COPY, (spec,), {}, Inference((spec,), (), body))
    return found
