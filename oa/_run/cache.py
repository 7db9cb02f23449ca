"""The pipeline cache on disk: one file per device and driver, replaced atomically, ignored when it is not whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

__all__ = ["DiskCache", "replace_file"]

_MAGIC = b"oa pipelines\x01\x00\x00\x00"
_DIGEST = 32


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in a folder that exists: readers see the old one or the new one, never a part, and nothing temporary stays."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=path.stem, suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


class DiskCache:
    """Bytes kept between processes for one device fingerprint. Losing them costs time only, so nothing here raises."""

    def __init__(self, directory: Path | None, fingerprint: str) -> None:
        self.path = None if directory is None else directory / "pipelines" / f"{fingerprint}.bin"

    def load(self) -> bytes:
        """What was saved last; empty when there is nothing, or nothing whole."""
        if self.path is None:
            return b""
        try:
            raw = self.path.read_bytes()
        except OSError:
            return b""
        head = len(_MAGIC) + _DIGEST
        data = raw[head:]
        if raw[: len(_MAGIC)] != _MAGIC or hashlib.sha256(data).digest() != raw[len(_MAGIC) : head]:
            return b""
        return data

    def save(self, data: bytes) -> bool:
        """Replace the file; False when the directory cannot be written."""
        if self.path is None:
            return False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, _MAGIC + hashlib.sha256(data).digest() + data)
        except OSError:
            return False
        return True
