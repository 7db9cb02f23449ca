"""What the array API standard asks of a namespace: its version, constants, devices and dtypes."""

from __future__ import annotations

import math
from typing import Any

from oa._schema.dtype import ALL, DEFAULT_OF_KIND, DType
from oa.engine import default_engine, open_engines
from oa.errors import ArgumentError
from oa.matrix.dtypes import isdtype

#: Versions of the Python array API standard that `oa.matrix` follows, the newest last.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

#: The dtypes that the standard names.
_STANDARD = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
)

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None


class NamespaceInfo:
    """What this namespace can do. An Engine is the standard's device object."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and results whose shape depends on data exist (not inside a capture); the highest rank is 8."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Any:
        """This thread's default engine, made at first use."""
        return default_engine()

    def devices(self) -> tuple[Any, ...]:
        """The engines of this thread that are open, the default one among them."""
        return tuple(dict.fromkeys((default_engine(), *open_engines())))

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes that a Python number and an index take where nothing else decides."""
        found = {
            "real floating": DEFAULT_OF_KIND["f"],
            "complex floating": DEFAULT_OF_KIND["c"],
            "integral": DEFAULT_OF_KIND["i"],
        }
        return {**found, "indexing": DEFAULT_OF_KIND["i"]}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes that the given or the default engine's device has, by name: all or of a kind (see `isdtype`).

        float16 and other narrow floats are none of the standard's; `engine.supports` tells of them.
        """
        return {d.name: d for d in _supported(device) if kind is None or isdtype(d, kind)}


def _supported(device: Any) -> list[DType]:
    engine = device if device is not None else default_engine()
    return [d for d in ALL if d.name in _STANDARD and engine.supports(d)]


def __array_namespace_info__() -> NamespaceInfo:
    """Devices, dtypes and capabilities of `oa.matrix`.

    Shapes: none taken.
    Dtypes: none taken.
    Gradient: none: there is no operand.
    Raises: nothing.

    >>> oa.matrix.__array_namespace_info__().capabilities()["max dimensions"]
    8
    """
    return NamespaceInfo()


def check_version(api_version: str | None) -> None:
    """ArgumentError unless `oa.matrix` follows that version of the standard."""
    if api_version is not None and api_version not in API_VERSIONS:
        raise ArgumentError(f"api_version {api_version!r}: oa.matrix follows {', '.join(API_VERSIONS)}")


__all__ = [
    "API_VERSIONS",
    "NamespaceInfo",
    "__array_namespace_info__",
    "check_version",
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
]
