"""Data types: interned, compared by identity, with the array API promotion table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oa.errors import DTypeError

#: A Python scalar: it takes the dtype of the values it meets.
Weak = bool | int | float | complex


class DType:
    """One data type. `kind` is NumPy's: b(ool) i(nt) u(nsigned) f(loat) c(omplex); `numpy` that of the elements in memory."""

    __slots__ = ("bits", "itemsize", "kind", "name", "numpy")

    def __init__(self, name: str, kind: str, itemsize: int, held: str | None = None) -> None:
        self.name = name
        self.kind = kind
        self.itemsize = itemsize
        self.bits = itemsize * 8
        self.numpy: np.dtype[Any] = np.dtype(held or name)

    def __repr__(self) -> str:
        return f"oa.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return as_dtype, (self.name,)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_inexact(self) -> bool:
        """Whether values have gradients: real and complex floats."""
        return self.kind in "fc"

    @property
    def component(self) -> DType:
        """The dtype of the real and imaginary parts of a complex dtype; of any other the dtype itself."""
        return _COMPONENT.get(self, self)


bool_ = DType("bool", "b", 1)
int8, int16, int32, int64 = (DType(f"int{8 * n}", "i", n) for n in (1, 2, 4, 8))
uint8, uint16, uint32, uint64 = (DType(f"uint{8 * n}", "u", n) for n in (1, 2, 4, 8))
float16, float32, float64 = (DType(f"float{8 * n}", "f", n) for n in (2, 4, 8))
#: float32 without its last 16 bits. NumPy has none: its elements are held as uint16.
bfloat16 = DType("bfloat16", "f", 2, "uint16")

#: Two floats each, the real part first.
complex64, complex128 = DType("complex64", "c", 8), DType("complex128", "c", 16)
_COMPONENT = {complex64: float32, complex128: float64}

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
FLOATING = (float16, float32, float64)
COMPLEX = (complex64, complex128)
ALL: tuple[DType, ...] = (bool_, *SIGNED, *UNSIGNED, *FLOATING, *COMPLEX, bfloat16)
#: Floats of 16 bits, computed in float32 and rounded to their dtype after each operation.
HALVES = (float16, bfloat16)
#: The device capabilities that a dtype needs, by name; what is not here every device has.
CAPABILITIES: dict[DType, tuple[str, ...]] = {
    int64: ("int64",),
    uint64: ("int64",),
    float64: ("float64", "int64"),
    complex128: ("float64", "int64"),
}
_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL if d is not bfloat16}

#: Least and greatest number of each integer dtype.
_RANGE = {d: (int(np.iinfo(d.numpy).min), int(np.iinfo(d.numpy).max)) for d in ALL if d.is_integer}

#: What a Python scalar becomes where no value decides: default integer int32, default float float32.
DEFAULT_OF_KIND = {"b": bool_, "i": int32, "f": float32, "c": complex64}
#: The kinds of Python scalars, the highest last.
WEAK_KINDS = "bifc"


def _table() -> dict[tuple[DType, DType], DType]:
    """The standard's table: the wider of a kind; a signed type wider than the unsigned one for a mix, where there is one."""
    table = {(d, d): d for d in ALL}
    for kind in (SIGNED, UNSIGNED, FLOATING, COMPLEX):
        table.update({(a, b): max(a, b, key=lambda d: d.bits) for a in kind for b in kind})
    for signed in SIGNED:
        for unsigned in UNSIGNED[:-1]:
            wide = signed if signed.bits > unsigned.bits else SIGNED[UNSIGNED.index(unsigned) + 1]
            table[signed, unsigned] = table[unsigned, signed] = wide
    for other in FLOATING:
        table[bfloat16, other] = table[other, bfloat16] = float32 if other is float16 else other
    for real in (*FLOATING, bfloat16):
        for pair in COMPLEX:
            table[real, pair] = table[pair, real] = complex128 if real is float64 else pair
    return table


_PROMOTE = _table()


def _of_numpy(dtype: np.dtype[Any]) -> DType | None:
    """NumPy's, and the bfloat16 of ml_dtypes."""
    return bfloat16 if dtype.name == "bfloat16" else _BY_NUMPY.get(dtype)


def as_dtype(value: Any) -> DType:
    """The `DType` for a DType, a name, a Python type or a NumPy dtype. Raises DTypeError, listing the valid names."""
    if isinstance(value, DType):
        return value
    if value is bool:
        return bool_
    if value is int:
        return int32
    if value is float:
        return float32
    if value is complex:
        return complex64
    try:  # of None NumPy makes float64
        found = (
            None
            if value is None
            else _BY_NAME.get(value)
            if isinstance(value, str)
            else _of_numpy(np.dtype(value))
        )
    except TypeError:
        found = None
    if found is None:
        names = ", ".join(d.name for d in ALL)
        raise DTypeError(f"dtype {value!r} is not supported; the supported ones are {names}")
    return found


def common(a: DType, b: DType) -> DType | None:
    """The common dtype by the array API table, None where it is undefined."""
    return _PROMOTE.get((a, b))


def promote(a: DType, b: DType, operation: str) -> DType:
    """The common dtype of two values by the array API table; undefined mixes raise and name the cast."""
    found = _PROMOTE.get((a, b))
    if found is None:
        raise DTypeError(
            f"{operation}: {a.name} and {b.name} have no defined common dtype; cast one, for example"
            f" x.astype(oa.{b.name if b.is_inexact else a.name})"
        )
    return found


def limits_of(dtype: DType) -> tuple[int, int]:
    """Least and greatest number of an integer dtype."""
    return _RANGE[dtype]


def as_float(number: bool | int | float) -> float:
    """A Python number as a float; what lies beyond the range is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def check_fits(number: Weak, dtype: DType, operation: str) -> None:
    """DTypeError when an integer dtype cannot hold a Python number."""
    limits = _RANGE.get(dtype)
    if limits is not None and not (not isinstance(number, complex) and limits[0] <= number <= limits[1]):
        raise DTypeError(
            f"{operation}: {number!r} does not fit {dtype.name} [{limits[0]}, {limits[1]}];"
            " cast the value to a wider dtype first"
        )


def weak_kind(value: Weak) -> str:
    """Kind of a Python scalar: b, i, f or c."""
    if isinstance(value, bool):
        return "b"
    return "i" if isinstance(value, int) else "f" if isinstance(value, float) else "c"


def join_weak(dtype: DType, kind: str, operation: str) -> DType:
    """The dtype of a value meeting a Python scalar of `kind`: the value's own, unless the scalar's kind is higher.

    A complex number makes a real float complex of the same precision.
    """
    if kind in "fc" and not dtype.is_inexact:
        word, wanted = ("float", "float32") if kind == "f" else ("complex", "complex64")
        raise DTypeError(
            f"{operation}: a Python {word} meets a {dtype.name} value; cast the value first: x.astype(oa.{wanted})"
        )
    if kind == "i" and dtype.kind == "b":
        raise DTypeError(
            f"{operation}: a Python int meets a bool value; cast the value first: x.astype(oa.int32)"
        )
    return as_complex(dtype) if kind == "c" else dtype


def as_complex(dtype: DType) -> DType:
    """The complex dtype whose parts hold a float dtype's values; of a complex dtype the dtype itself."""
    return dtype if dtype.is_complex else complex128 if dtype is float64 else complex64
