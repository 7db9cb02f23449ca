"""`oa`: a GPU-first semantic computing engine for Python on Vulkan.

An `Engine` owns a device; typed values (`Matrix`, ...) live on it; operations are stateless functions in the domain modules.
Importing this package opens no device and loads no library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oa._version import __version__

if TYPE_CHECKING:
    from oa import core, errors, matrix, ml
    from oa._device.roofline import Roofline
    from oa._graph.state import State
    from oa._schema.dtype import (
        DType,
        bfloat16,
        bool_,
        complex64,
        complex128,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from oa.devices import devices
    from oa.engine import Engine, default_engine
    from oa.errors import OaError
    from oa.matrix import Matrix

#: Where each public name comes from; a name maps to itself when it is a module.
_PUBLIC = {
    "core": "",
    "errors": "",
    "matrix": "",
    "ml": "",
    "DType": "_schema.dtype",
    "Engine": "engine",
    "Matrix": "matrix",
    "OaError": "errors",
    "Roofline": "_device.roofline",
    "State": "_graph.state",
    "bool_": "_schema.dtype",
    "complex64": "_schema.dtype",
    "complex128": "_schema.dtype",
    "default_engine": "engine",
    "devices": "devices",
    "float32": "_schema.dtype",
    "int32": "_schema.dtype",
    "uint32": "_schema.dtype",
    "uint8": "_schema.dtype",
    "uint64": "_schema.dtype",
    "uint16": "_schema.dtype",
    "int64": "_schema.dtype",
    "int16": "_schema.dtype",
    "int8": "_schema.dtype",
    "float64": "_schema.dtype",
    "float16": "_schema.dtype",
    "bfloat16": "_schema.dtype",
}


def __getattr__(name: str) -> Any:
    where = _PUBLIC.get(name)
    if where is None:
        raise AttributeError(f"module 'oa' has no attribute {name!r}")
    if where not in ("errors", "devices") and name != "errors":
        importlib.import_module("oa.core")  # wires what engines need, whatever is used first
    module = importlib.import_module(f"oa.{where or name}")
    value = module if not where else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])


__all__ = [
    "DType",
    "Engine",
    "Matrix",
    "OaError",
    "Roofline",
    "State",
    "__version__",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "core",
    "default_engine",
    "devices",
    "errors",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "matrix",
    "ml",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
