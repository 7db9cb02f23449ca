"""Plan files: a container of JSON and binary sections, and dataclasses of plans as plain data and back.

    header    8 bytes magic "oa plan\\0", u32 version, u32 length of the JSON, u64 length of the file; SHA-256 of all else
    JSON      UTF-8; "sections" in it lists (offset, length) of the binary parts, from the start of the file
    sections  SPIR-V words, constants, elements; each at a multiple of 16 bytes

Little endian. Nothing in a file is executed while it is read, and everything is checked against the types that it must have; but
the kernels in it run on the device with the rights of this process, so load only files of those whose programs you would run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import types
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from oa._run.cache import replace_file
from oa.errors import FileFormatError

__all__ = ["VERSION", "decode", "decode_fields", "encode", "malformed", "read", "write"]

#: Of the container and of what plans mean; a file of another version is refused.
VERSION = 1
_MAGIC = b"oa plan\0"
_HEADER = struct.Struct("<8sIIQ")
_DIGEST = 32
_ALIGN = 16
_MOST = 1 << 62


def malformed(why: str) -> NoReturn:
    """Refuse the file that is being read."""
    raise FileFormatError(f"plan file: {why}; capture the function again and save the plan anew")


def write(path: Path, data: dict[str, Any], sections: list[bytes]) -> None:
    """Write a plan file; readers see the old file or the new one, never a part of it."""
    places: list[list[int]] = [[0, len(section)] for section in sections]
    data = {**data, "sections": places}
    # Offsets change the length of the text that holds them: room for the largest is left, and spaces fill it.
    room = len(_text(data)) + 20 * len(sections)
    at = _aligned(_HEADER.size + _DIGEST + room)
    for place in places:
        place[0] = at
        at = _aligned(at + place[1])
    text = _text(data).ljust(room)
    body = bytearray(text)
    for (offset, _), section in zip(places, sections):
        body += bytes(offset - _HEADER.size - _DIGEST - len(body))
        body += section
    head = _HEADER.pack(_MAGIC, VERSION, len(text), _HEADER.size + _DIGEST + len(body))
    replace_file(path, head + hashlib.sha256(head + body).digest() + bytes(body))


def _aligned(at: int) -> int:
    return -(-at // _ALIGN) * _ALIGN


def _text(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def read(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """The JSON and the sections of a plan file; FileFormatError when it is none, or not whole."""
    raw = path.read_bytes()
    if len(raw) < _HEADER.size + _DIGEST or raw[: len(_MAGIC)] != _MAGIC:
        malformed(f"{path.name} is none, or is cut short")
    _, version, length, total = _HEADER.unpack_from(raw)
    if version != VERSION:
        malformed(f"{path.name} has version {version}, this oa reads {VERSION}")
    head, digest = raw[: _HEADER.size], raw[_HEADER.size : _HEADER.size + _DIGEST]
    body = memoryview(raw)[_HEADER.size + _DIGEST :]
    if total != len(raw) or length > len(body):
        malformed(
            f"{path.name} has {len(raw)} bytes, wanted {total}: it is cut short or has something behind it"
        )
    if hashlib.sha256(head + body).digest() != digest:
        malformed(f"{path.name} was changed after it was written")
    try:
        data = json.loads(bytes(body[:length]), parse_constant=_no_constant)
    except (ValueError, RecursionError) as cause:
        raise FileFormatError(f"plan file: {path.name} holds no readable JSON") from cause
    places = decode(
        tuple[tuple[int, int], ...], data.pop("sections", None) if isinstance(data, dict) else None
    )
    if any(at < 0 or size < 0 or at + size > len(raw) for at, size in places):
        malformed(f"{path.name} names parts outside itself")
    return data, [raw[at : at + size] for at, size in places]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


# -- dataclasses as data


def encode(value: Any) -> Any:
    """Dataclasses, enumerations, tuples and sets as what JSON holds."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return int(value.value)
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def decode(kind: Any, data: Any) -> Any:
    """Data as the type that it must have; FileFormatError when it has another form."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return data
    if origin in (Union, types.UnionType):
        return _decode_one_of(inner, data)
    if origin is tuple:
        return _decode_tuple(inner, data)
    if origin is frozenset:
        return frozenset(_decode_tuple((inner[0], ...), data))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _decode_enum(kind, data)
    if is_dataclass(kind) and isinstance(kind, type):
        return kind(**decode_fields(kind, data))
    if kind is type(None) and data is None:
        return None
    if type(data) is kind and (kind is not int or -_MOST < data < _MOST):
        return data
    malformed(f"it holds {str(data)[:40]!r} where a value of {getattr(kind, '__name__', kind)} belongs")


def _decode_enum(kind: type[Enum], data: Any) -> Any:
    if type(data) is int and data in range(sum(member.value for member in kind) + 1):
        with contextlib.suppress(ValueError):
            return kind(data)
    malformed(f"it holds {str(data)[:40]!r} where a {kind.__name__} belongs")


def _decode_one_of(kinds: tuple[Any, ...], data: Any) -> Any:
    for kind in kinds:
        with contextlib.suppress(FileFormatError):
            return decode(kind, data)
    malformed(f"it holds {str(data)[:40]!r}, which is nothing that belongs there")


def _decode_tuple(kinds: tuple[Any, ...], data: Any) -> Any:
    if not isinstance(data, list):
        malformed(f"it holds {str(data)[:40]!r} where a list belongs")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple([decode(kinds[0], part) for part in data])
    if len(kinds) != len(data):
        malformed(f"it holds a list of {len(data)}, wanted {len(kinds)}")
    return tuple([decode(kind, part) for kind, part in zip(kinds, data)])


def decode_fields(kind: type, data: Any, **other: Any) -> dict[str, Any]:
    """The fields of a dataclass by name; `other` gives those whose data have another type than the class says."""
    hints = {**_hints(kind), **other}
    names = {f.name for f in fields(kind)}
    if not isinstance(data, dict) or set(data) != names:
        malformed(f"it holds {str(data)[:40]!r} where a {kind.__name__} belongs")
    return {name: decode(hints[name], data[name]) for name in names}
