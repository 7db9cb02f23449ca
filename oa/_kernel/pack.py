"""Kernels as data, and the pack: the one file that holds every kernel compiled ahead of time.

The file is little endian, sorted by (name, addressing), uncompressed, and a pure function of its kernels, so that a rebuild gives
the same bytes (`./run kernels --check`). Layout:

    header   8 bytes magic "oa pack\\x01", u32 number of entries, u32 length of the strings
    entries  one fixed record each (see `_RECORD`)
    strings  UTF-8, names and comma-separated capabilities, referred to by (offset, length)
    words    SPIR-V modules, each starting at a multiple of 16 bytes from the start of the file

Reading maps the file; an entry becomes a `Kernel` when it is first asked for.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from oa.errors import FileFormatError, InternalError

__all__ = ["ADDRESSINGS", "Kernel", "Pack", "Recipe", "default", "encode"]

#: How a kernel reaches its buffers, in the order of the numbers used in the file.
ADDRESSINGS = ("address", "descriptor")

_MAGIC = b"oa pack\x02"
_HEADER = struct.Struct("<8sII")
#: name (offset, length), capabilities (offset, length), words (offset, bytes), addressing, buffers, plain argument words,
#: local size x y z, subgroup size or 0, shared bytes, texels (four bits a buffer), hook, SHA-256 digest.
_RECORD = struct.Struct("<6I 10I 32s")
_ALIGN = 16


@dataclass(frozen=True, eq=False)
class Kernel:
    """One compute module and its binary interface. Two kernels are equal when their digests are.

    `words` is SPIR-V, little endian; `buffers` and `arg_words` size the argument block (`2 * buffers + arg_words` words);
    `subgroup_size` is what the pipeline must be made with, or None when the kernel does not care; `capabilities` are the SPIR-V
    capabilities beyond Shader. `texels` says how each buffer is bound with descriptors: 0 as storage, else as a uniform texel
    buffer of 1, 2 or 4 words a texel; empty: all as storage. `hook` is the id of the function through which the results leave
    (see `emit.splice`), 0 where there is none. An empty `digest` is computed.
    """

    name: str
    words: bytes
    buffers: int
    arg_words: int
    addressing: str
    local_size: tuple[int, int, int]
    subgroup_size: int | None = None
    shared_bytes: int = 0
    digest: str = ""
    capabilities: tuple[str, ...] = ()
    texels: tuple[int, ...] = ()
    hook: int = 0

    def __post_init__(self) -> None:
        if self.addressing not in ADDRESSINGS:
            raise InternalError(
                f"kernel {self.name}: addressing {self.addressing!r}, wanted one of {', '.join(ADDRESSINGS)}"
            )
        if not self.digest:
            object.__setattr__(self, "digest", self.compute_digest())

    def compute_digest(self) -> str:
        """SHA-256, in hexadecimal, of the words and of everything that a pipeline is made from."""
        abi = f"{self.buffers} {self.arg_words} {self.addressing} {self.local_size} {self.subgroup_size} {self.shared_bytes}"
        abi += f" {self.texels}"
        return hashlib.sha256(abi.encode() + b"\0" + self.words).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {self.addressing}, {len(self.words)} bytes, {self.digest[:12]})"


@dataclass(frozen=True)
class Recipe:
    """How one kernel of the pack is built, once per addressing. A family lists its recipes as `RECIPES` in its `family.py`.

    `source` is a path below `oa/_kernel`, `defines` are preprocessor names and values; local size, shared bytes and capabilities
    are read from the compiled module. With `texels` (see `Kernel`) it is built for descriptors only. `hook` says that one
    function is marked [noinline]: that through which the results leave. With `exact` no driver may contract or reassociate its
    floating-point operations.
    """

    name: str
    source: str
    defines: tuple[tuple[str, str | int], ...]
    buffers: int
    arg_words: int
    subgroup_size: int | None = None
    texels: tuple[int, ...] = ()
    hook: bool = True
    exact: bool = False


def encode(kernels: Iterable[Kernel]) -> bytes:
    """The pack file that holds `kernels`: equal sets of kernels give equal bytes, in whatever order they come."""
    ordered = sorted(kernels, key=lambda k: (k.name, k.addressing))
    if len({(k.name, k.addressing) for k in ordered}) != len(ordered):
        raise InternalError("kernel pack: two kernels have the same name and addressing")
    strings = bytearray()
    places: dict[str, int] = {}

    def place(text: str) -> tuple[int, int]:
        if text not in places:
            places[text] = len(strings)
            strings.extend(text.encode())
        return places[text], len(text.encode())

    texts = [(place(k.name), place(",".join(k.capabilities))) for k in ordered]
    records = bytearray()
    body = bytearray()
    start = -(-(_HEADER.size + _RECORD.size * len(ordered) + len(strings)) // _ALIGN) * _ALIGN
    for kernel, (name, capabilities) in zip(ordered, texts, strict=True):
        records += _RECORD.pack(
            *name, *capabilities, start + len(body), len(kernel.words), ADDRESSINGS.index(kernel.addressing), kernel.buffers,
            kernel.arg_words, *kernel.local_size, kernel.subgroup_size or 0, kernel.shared_bytes,
            sum(texel << 4 * k for k, texel in enumerate(kernel.texels)), kernel.hook, bytes.fromhex(kernel.digest),
        )  # fmt: skip
        body += kernel.words + bytes(-len(kernel.words) % _ALIGN)
    head = _HEADER.pack(_MAGIC, len(ordered), len(strings)) + records + strings
    return bytes(head + bytes(start - len(head)) + body)


class Pack:
    """A pack file, read lazily: `pack.kernel("matmul.cpu", "descriptor")`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self._records: dict[tuple[str, str], int] = {}
        with path.open("rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as cause:  # an empty file cannot be mapped
                raise self._malformed("it is empty") from cause
        self._index()

    def _malformed(self, why: str) -> FileFormatError:
        return FileFormatError(
            f"kernel pack {self.path.name}: {why}; rebuild it with `./run kernels` or install the package again"
        )

    def _index(self) -> None:
        data = self._data
        if len(data) < _HEADER.size or data[:8] != _MAGIC:
            raise self._malformed(f"it does not start with {_MAGIC!r}")
        _, count, length = _HEADER.unpack_from(data, 0)
        self._strings = _HEADER.size + count * _RECORD.size
        if self._strings + length > len(data):
            raise self._malformed("it is cut short")
        for place in range(_HEADER.size, self._strings, _RECORD.size):
            offset, size, _, _, words, words_size, addressing = struct.unpack_from("<7I", data, place)
            if words + words_size > len(data) or addressing >= len(ADDRESSINGS):
                raise self._malformed("it is cut short")
            self._records[self._text(offset, size), ADDRESSINGS[addressing]] = place

    def _text(self, offset: int, size: int) -> str:
        start = self._strings + offset
        return self._data[start : start + size].decode()

    def names(self, addressing: str | None = None) -> tuple[str, ...]:
        """The names of all kernels, or of those for one addressing, sorted."""
        return tuple(sorted({name for name, how in self._records if addressing in (None, how)}))

    def digest(self, addressing: str) -> str:
        """SHA-256, in hexadecimal, of all kernels for one addressing."""
        found = hashlib.sha256()
        for name, how in sorted(self._records):
            if how == addressing:
                place = self._records[name, how]
                found.update(
                    name.encode() + b"\0" + self._data[place + _RECORD.size - 32 : place + _RECORD.size]
                )
        return found.hexdigest()

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    def kernel(self, name: str, addressing: str) -> Kernel:
        """The kernel of that name for that addressing, the same object each time. Raises InternalError when there is none."""
        kernel = self._kernels.get((name, addressing))
        if kernel is None:
            place = self._records.get((name, addressing))
            if place is None:
                raise InternalError(
                    f"kernel pack: no kernel {name!r} for {addressing!r} addressing; run `./run kernels`"
                )
            kernel = self._kernels[name, addressing] = self._decode(name, addressing, place)
        return kernel

    def _decode(self, name: str, addressing: str, place: int) -> Kernel:
        fields = _RECORD.unpack_from(self._data, place)
        capabilities = self._text(fields[2], fields[3])
        return Kernel(
            name=name,
            words=self._data[fields[4] : fields[4] + fields[5]],
            buffers=fields[7],
            arg_words=fields[8],
            addressing=addressing,
            local_size=(fields[9], fields[10], fields[11]),
            subgroup_size=fields[12] or None,
            shared_bytes=fields[13],
            digest=fields[16].hex(),
            capabilities=tuple(capabilities.split(",")) if capabilities else (),
            texels=tuple([fields[14] >> 4 * k & 15 for k in range(fields[7])]) if fields[14] else (),
            hook=fields[15],
        )


_DEFAULT: list[Pack] = []


def default() -> Pack:
    """The pack that belongs to this installation, opened at the first call."""
    if not _DEFAULT:
        _DEFAULT.append(Pack(Path(__file__).resolve().parent.parent / "kernels.pack"))
    return _DEFAULT[0]
