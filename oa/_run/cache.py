"""The pipeline cache on disk: one file per device and driver, replaced atomically, ignored when it is not whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

__all__ = ["DiskCache"]

_MAGIC = b"oa pipelines\x01\x00\x00\x00"
_DIGEST = 32


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
        """Replace the file; False when the directory cannot be written. Readers see the old file or the new one, never a part."""
        if self.path is None:
            return False
        temporary: str | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=self.path.stem, suffix=".tmp", dir=self.path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(data).digest() + data)
            Path(temporary).replace(self.path)
            temporary = None
        except OSError:
            return False
        finally:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()
        return True
