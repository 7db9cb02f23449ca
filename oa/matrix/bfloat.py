"""bfloat16 on the host: NumPy has none, so its elements travel as their 16 bits; the package ml_dtypes gives NumPy one."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from oa.errors import DTypeError

Array = np.ndarray[Any, Any]


def bits_of(array: Array) -> Array:
    """The uint16 bits of numbers rounded once to bfloat16, ties to even; those of an array of ml_dtypes.bfloat16 as they are."""
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16)
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        near = wide.astype(np.float32)
        back = near.astype(np.float64)
        bits = near.view(np.uint32)
        # What float32 lost shows as an odd last bit, so that rounding twice is rounding once.
        lost = (back != wide) & np.isfinite(near)
        bits = np.where(lost, (bits - (np.abs(back) > np.abs(wide))) | 1, bits).astype(np.uint32)
        cut = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    found = np.where(np.isnan(near), bits | np.uint32(0x400000), cut)
    return (found >> np.uint32(16)).astype(np.uint16)


def widened(bits: Array) -> Array:
    """The float32 values of uint16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def as_numpy(bits: Array) -> Array:
    """The elements as ml_dtypes.bfloat16. Raises DTypeError where that package is not installed."""
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError:
        raise DTypeError(
            "to_numpy: NumPy has no bfloat16; cast first: x.astype(oa.float32).to_numpy(), or install ml_dtypes"
        ) from None
    found: Array = bits.view(module.bfloat16)
    return found


__all__ = ["as_numpy", "bits_of", "widened"]
