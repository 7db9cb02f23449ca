"""Checkpoints: one safetensors file with parameters, optimiser state and progress, replaced as a whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oa.errors import ArgumentError, DTypeError, FileFormatError, ShapeError
from oa.matrix import Matrix
from oa.matrix.surface import shown
from oa.ml.module import Module
from oa.ml.optim import AdamW

#: Name of the one metadata entry; the number grows when an older reader could misread a newer file. One entry only, because
#: safetensors does not order them and equal checkpoints should be equal files.
FORMAT = "oa.checkpoint/1"
#: The dtypes of arrays, by their names in the format.
_KINDS = {
    "BOOL": np.dtype(bool),
    **{f"{k}{8 * n}": np.dtype(f"{k.lower()}{n}") for k in "IU" for n in (1, 2, 4, 8)},
    **{f"F{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)},
}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in host memory: complete and verified, bound to no engine yet."""

    path: Path  #: where it was read from.
    model: str  #: class name of the model.
    config: dict[str, Any]  #: whatever the writer needs to build the model again; JSON values.
    progress: dict[str, Any]  #: whatever the writer needs to continue; JSON values.
    rng: list[int]  #: the engine's random state: seed and number of the next draw.
    parameters: dict[str, NDArray[Any]] = field(repr=False)  #: by dotted name.
    optimizer: dict[str, NDArray[Any]] = field(repr=False)  #: as in `AdamW.state_dict`; empty: none.
    extra: dict[str, NDArray[Any]] = field(repr=False)  #: further arrays of the writer.

    def restore(self, model: Module, optimizer: AdamW | None = None) -> None:
        """Put the saved values into `model`, its engine's random state and, if given, `optimizer`.

        Raises:
            FileFormatError: the file is of another model (class, parameter names or shapes) or holds no optimiser state. Nothing
                has been changed then.
        """
        if not isinstance(model, Module):
            raise ArgumentError(f"Checkpoint.restore: model is {shown(model)}; wanted a Module")
        if self.model != type(model).__name__:
            raise FileFormatError(
                f"{self.path}: a checkpoint of {self.model}, wanted one of {type(model).__name__}"
            )
        own = model.named_parameters()
        if differing := sorted(set(own) ^ set(self.parameters)):
            raise FileFormatError(
                f"{self.path}: a checkpoint of another {self.model}; parameters differ: {_some(differing)}"
            )
        for name, parameter in own.items():
            found = self.parameters[name]
            if found.shape != parameter.shape or found.dtype != np.float32:
                raise FileFormatError(
                    f"{self.path}: a checkpoint of another {self.model}; {name} is {found.dtype} {found.shape},"
                    f" wanted float32 {parameter.shape}"
                )
        if optimizer is not None:
            if not self.optimizer:
                raise FileFormatError(
                    f"{self.path}: no optimiser state; give save_checkpoint the optimiser too"
                )
            try:
                optimizer.load_state_dict(self.optimizer)
            except (ArgumentError, ShapeError, DTypeError) as error:
                raise FileFormatError(f"{self.path}: optimiser state of another model: {error}") from error
        model.load_state_dict(self.parameters)
        if self.rng and own:
            next(iter(own.values())).engine.rng_state = (self.rng[0], self.rng[1])


def save_checkpoint(
    path: str | os.PathLike[str],
    model: Module,
    optimizer: AdamW | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    progress: Mapping[str, Any] | None = None,
    extra: Mapping[str, Matrix | NDArray[Any]] | None = None,
) -> None:
    """Write parameters, optimiser state, the engine's random state and the caller's notes to one safetensors file.

    The file appears under `path` complete or not at all: it is written beside it, synchronised and renamed. `config` and
    `progress` take JSON values, `extra` further arrays.

    Raises:
        ArgumentError: config or progress is not JSON.
        DTypeError: an array in `extra` is of a dtype that `oa` does not have.
        OSError: the folder is missing, full or not writable; an older file at `path` is untouched.
    """
    from safetensors.numpy import save

    arrays = {f"model.{n}": p.value.to_numpy() for n, p in model.named_parameters().items()}
    if optimizer is not None:
        arrays.update({f"optimizer.{n}": v.to_numpy() for n, v in optimizer.state_dict().items()})
    for name, value in (extra or {}).items():
        arrays[f"extra.{name}"] = value.to_numpy() if isinstance(value, Matrix) else value
    arrays = {n: np.asarray(a, order="C") for n, a in arrays.items()}
    for name, array in arrays.items():
        if array.dtype not in _KINDS.values():
            raise DTypeError(
                f"save_checkpoint: {name} is an array of {array.dtype}; wanted one of {', '.join(map(str, _KINDS.values()))}"
            )
    parameters = model.parameters()
    notes: dict[str, Any] = {
        "model": type(model).__name__,
        "config": dict(config or {}),
        "progress": dict(progress or {}),
        "rng": list(parameters[0].engine.rng_state) if parameters else [],
    }
    try:
        notes["crc32"] = _crc32(arrays, notes)
        metadata = {FORMAT: json.dumps(notes, sort_keys=True)}
    except TypeError as error:
        raise ArgumentError(f"save_checkpoint: config and progress take JSON values only: {error}") from error
    _replace(Path(path), save(arrays, metadata))


def _replace(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, force it to disk, rename it, and force the rename to disk too."""
    path = path.resolve()  # a link keeps pointing at the file, which is what changes
    if path.exists() and not path.is_file():
        raise ArgumentError(f"save_checkpoint: {path} is no regular file; choose another path")
    kept = path.stat().st_mode & 0o777 if path.exists() else None
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        # mkstemp makes it private; a checkpoint gets the rights of the one it replaces, or of any other new file.
        Path(name).chmod(0o666 & ~mask if kept is None else kept)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read and verify a whole checkpoint without an engine or a model.

    Raises:
        FileFormatError: the file is truncated, damaged, not a safetensors file, or a safetensors file of something else.
        OSError: the file cannot be read.
    """
    from safetensors import SafetensorError, deserialize

    place = Path(path)
    data = place.read_bytes()
    try:
        arrays = {name: _array(entry) for name, entry in deserialize(data)}  # type: ignore[no-untyped-call]
        metadata = _metadata(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{place}: not a complete safetensors file: {error}") from error
    if FORMAT not in metadata:
        raise FileFormatError(
            f"{place}: a safetensors file, but its metadata has no {FORMAT!r}: not a checkpoint"
        )
    parts: dict[str, dict[str, NDArray[Any]]] = {"model": {}, "optimizer": {}, "extra": {}}
    try:
        notes = json.loads(metadata[FORMAT])
        checksum = notes.pop("crc32")
        if checksum != _crc32(arrays, notes):
            raise ValueError("the checksum differs from the recorded one")
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = array
        return Checkpoint(
            place, **notes, parameters=parts["model"], optimizer=parts["optimizer"], extra=parts["extra"]
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{place}: damaged: {error}; use another copy") from error


def load_checkpoint(
    path: str | os.PathLike[str], model: Module, optimizer: AdamW | None = None
) -> Checkpoint:
    """`read_checkpoint` and `restore` in one; returns the checkpoint for its notes."""
    checkpoint = read_checkpoint(path)
    checkpoint.restore(model, optimizer)
    return checkpoint


def _metadata(data: bytes) -> dict[str, str]:
    """The `__metadata__` entry of a safetensors header, which starts with its length in eight bytes."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = header.get("__metadata__", {})
    return {str(key): str(value) for key, value in metadata.items()}


def _array(entry: Mapping[str, Any]) -> NDArray[Any]:
    if entry["dtype"] not in _KINDS:
        raise ValueError(f"dtype {entry['dtype']} is not one that a checkpoint of oa holds")
    return np.frombuffer(entry["data"], dtype=_KINDS[entry["dtype"]]).reshape(entry["shape"])


def _crc32(arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, Any]) -> int:
    """A checksum over the notes and over the names, types, shapes and bytes of all arrays."""
    total = zlib.crc32(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        total = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), total)
        total = zlib.crc32(array.tobytes(), total)
    return total


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
