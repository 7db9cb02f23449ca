"""bfloat16 through DLPack, whose dtype code for it NumPy does not know: capsules of its 16 bits with the code changed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: DLPack's codes of kinds of dtype.
UINT, BFLOAT = 1, 4
#: Where the code lies in a DLManagedTensor (after pointer, device and rank) and in a DLManagedTensorVersioned, by capsule name.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _code(capsule: Any) -> Any:
    """The dtype's code in a capsule that nobody has consumed, as a byte that can be set."""
    name = _name(capsule)
    start = _pointer(capsule, name)
    return ctypes.c_uint8.from_address(int(start or 0) + _CODE_AT[name or b""])


def exported(bits: Array, **how: Any) -> Any:
    """The capsule of bfloat16 elements held as uint16."""
    capsule = bits.__dlpack__(**how)
    _code(capsule).value = BFLOAT
    return capsule


class Lent:
    """Another library's value as NumPy reads it; `is_bfloat16` once it was, which NumPy then sees as uint16."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.is_bfloat16 = False

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()

    def __dlpack__(self, **how: Any) -> Any:
        capsule = self.x.__dlpack__(**how)
        code = _code(capsule)
        if code.value == BFLOAT:
            self.is_bfloat16, code.value = True, UINT
        return capsule


__all__ = ["BFLOAT", "UINT", "Lent", "exported"]
