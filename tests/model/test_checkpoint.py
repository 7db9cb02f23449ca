"""Checkpoints: exact round trips, whole-file replacement, and every kind of wrong file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import oa
from oa import matrix, ml
from oa.errors import ArgumentError, FileFormatError


class Net(ml.Module):
    def __init__(self, engine: Any, width: int = 4) -> None:
        self.hidden = ml.Linear(engine, 3, width)
        self.out = ml.Linear(engine, width, 2)


class OtherNet(Net):
    """The same parameters under another class."""


def trained(engine: Any) -> tuple[Net, ml.AdamW]:
    net = Net(engine)
    optimizer = ml.AdamW(net.named_parameters())
    optimizer.step([matrix.ones(engine, p.shape) for p in optimizer.parameters])
    return net, optimizer


@pytest.fixture
def saved(any_engine: Any, tmp_path: Path) -> Path:
    path = tmp_path / "net.safetensors"
    net, optimizer = trained(any_engine)
    ml.save_checkpoint(
        path,
        net,
        optimizer,
        config={"width": 4},
        progress={"done": 1},
        extra={"losses": np.arange(3, dtype=np.float32)},
    )
    return path


def arrays(net: ml.Module, optimizer: ml.AdamW) -> list[Any]:
    return [v.to_numpy() for v in (*net.state_dict().values(), *optimizer.state_dict().values())]


def test_round_trip_is_exact_and_leaves_one_file(any_engine: Any, saved: Path) -> None:
    wanted = arrays(*trained(any_engine))  # another seed position, so other values
    checkpoint = ml.read_checkpoint(saved)
    assert (checkpoint.model, checkpoint.config, checkpoint.progress) == ("Net", {"width": 4}, {"done": 1})
    assert checkpoint.extra["losses"].tolist() == [0.0, 1.0, 2.0]
    net = Net(any_engine)
    optimizer = ml.AdamW(net.named_parameters())
    checkpoint.restore(net, optimizer)
    found = arrays(net, optimizer)
    assert optimizer.step_count.item() == 1
    assert all(np.array_equal(v, checkpoint.parameters[n]) for n, v in zip(net.named_parameters(), found))
    assert not all(np.array_equal(a, b) for a, b in zip(found, wanted))
    again = saved.with_name("again.safetensors")
    ml.save_checkpoint(
        again,
        net,
        optimizer,
        config={"width": 4},
        progress={"done": 1},
        extra={"losses": checkpoint.extra["losses"]},
    )
    assert again.read_bytes() == saved.read_bytes()
    assert sorted(p.name for p in saved.parent.iterdir()) == ["again.safetensors", "net.safetensors"]


def test_random_state_continues(any_engine: Any, tmp_path: Path) -> None:
    net = Net(any_engine)
    ml.save_checkpoint(tmp_path / "a", net)
    first = matrix.uniform(any_engine, (8,)).to_numpy()
    ml.load_checkpoint(tmp_path / "a", net)
    assert np.array_equal(matrix.uniform(any_engine, (8,)).to_numpy(), first)


def test_every_truncation_is_an_error(saved: Path) -> None:
    data = saved.read_bytes()
    for length in [*range(64), *range(64, len(data), 37), len(data) - 1]:
        saved.write_bytes(data[:length])
        with pytest.raises(FileFormatError, match=r"net\.safetensors"):
            ml.read_checkpoint(saved)
    saved.write_bytes(data + b"\0")
    with pytest.raises(FileFormatError):
        ml.read_checkpoint(saved)


def test_every_flipped_bit_is_an_error(saved: Path) -> None:
    data = saved.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    used = {
        start + i
        for entry in header.values()
        if "data_offsets" in entry
        for i in range(*entry["data_offsets"])
    }
    for at in [*range(0, start, 5), *sorted(used)[::11]]:
        if at < start and data[at : at + 1] == b" ":
            continue  # padding of the header means nothing
        changed = bytearray(data)
        changed[at] ^= 1 << at % 7
        saved.write_bytes(changed)
        with pytest.raises(FileFormatError):
            ml.read_checkpoint(saved)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a checkpoint",
        b"\x89PNG\r\n\x1a\n" + bytes(64),
        b"\xff" * 16,
        (2).to_bytes(8, "little") + b"[]",
    ],
    ids=["empty", "text", "image", "huge-header", "list-header"],
)
def test_foreign_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match="not a complete safetensors file"):
        ml.read_checkpoint(path)


def test_safetensors_of_something_else(any_engine: Any, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(save({"w": np.ones(3, np.float32)}))
    with pytest.raises(FileFormatError, match="not a checkpoint"):
        ml.read_checkpoint(path)
    path.write_bytes(save({"w": np.ones(3, np.float32)}, {"oa.checkpoint/1": "[1]"}))
    with pytest.raises(FileFormatError, match="damaged"):
        ml.read_checkpoint(path)


def test_another_model_is_refused_and_nothing_changes(any_engine: Any, saved: Path) -> None:
    wide = Net(any_engine, width=5)
    other = OtherNet(any_engine)
    fitting = Net(any_engine)
    foreign = ml.AdamW(wide.named_parameters())
    cases: list[tuple[ml.Module, ml.AdamW | None, str]] = [
        (other, None, "wanted one of OtherNet"),
        (wide, None, r"hidden\.weight is float32 \(4, 3\), wanted float32 \(5, 3\)"),
        (fitting, foreign, "optimiser state of another model"),
        (ml.Linear(any_engine, 3, 4), None, "a checkpoint of Net, wanted one of Linear"),
    ]
    for model, optimizer, message in cases:
        before = [p.value.to_numpy() for p in (*model.parameters(), *wide.parameters())]
        with pytest.raises(FileFormatError, match=message):
            ml.load_checkpoint(saved, model, optimizer)
        after = [p.value.to_numpy() for p in (*model.parameters(), *wide.parameters())]
        assert all(np.array_equal(a, b) for a, b in zip(before, after))
    assert foreign.step_count.item() == 0


def test_a_checkpoint_without_optimiser_state(any_engine: Any, tmp_path: Path) -> None:
    net = Net(any_engine)
    ml.save_checkpoint(tmp_path / "a", net)
    ml.load_checkpoint(tmp_path / "a", net)
    with pytest.raises(FileFormatError, match="no optimiser state"):
        ml.load_checkpoint(tmp_path / "a", net, ml.AdamW(net.parameters()))


def test_a_failed_save_leaves_the_old_file(
    any_engine: Any, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = saved.read_bytes()
    net = Net(any_engine)

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    with pytest.raises(ArgumentError, match="JSON"):
        ml.save_checkpoint(saved, net, config={"path": saved})
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        ml.save_checkpoint(saved, net)
    monkeypatch.undo()
    assert saved.read_bytes() == data
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
    with pytest.raises(OSError):
        ml.save_checkpoint(saved.parent / "missing" / "a", net)


def test_a_missing_file_is_an_ordinary_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ml.read_checkpoint(tmp_path / "none")
    assert issubclass(oa.errors.FileFormatError, ValueError)
