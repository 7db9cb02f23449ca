"""Values, dtypes, errors and devices under one name: `import oa.core as oac`."""

from __future__ import annotations

from oa._graph.state import State
from oa._schema.dtype import (
    DType,
    bool_,
    float32,
    int32,
    uint8,
    uint32,
)
from oa.config import CONFIG
from oa.engine import ON_OPEN, Engine
from oa.family import PlanFamily
from oa.matrix.value import Matrix
from oa.plan import CapturedPlan
from oa.selftest import require

if CONFIG.selftest and require not in ON_OPEN:
    ON_OPEN.append(require)

__all__ = [
    "CapturedPlan",
    "DType",
    "Engine",
    "Matrix",
    "PlanFamily",
    "State",
    "bool_",
    "float32",
    "int32",
    "uint8",
    "uint32",
]
