"""Sharing with CUDA on the null device: what is copied, who waits for whom, and when memory goes back. CUDA is a stand-in."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import oa._run.sharing as sharing_module
from oa._device import Snapshot, plan
from oa._run.clock import Clock
from oa._run.pool import Pool
from oa._run.sharing import DEFAULT_STREAM, NO_STREAM, Sharing
from oa._run.transfer import Transfer
from oa._vk.null import NullDevice
from oa.errors import Unsupported

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"


class Memory:
    """An import, which says in `calls` when it is freed."""

    def __init__(self, calls: list[Any], pointer: int) -> None:
        self.calls, self.pointer = calls, pointer

    def __del__(self) -> None:
        self.calls.append(("freed", self.pointer))


class Semaphore:
    def __init__(self, calls: list[Any], timeline: Any, signals: bool) -> None:
        self.calls, self.timeline, self.signals = calls, timeline, signals

    def wait(self, value: int, stream: int) -> None:
        self.calls.append(("wait", value, stream))

    def signal(self, value: int, stream: int) -> None:
        self.calls.append(("signal", value, stream))
        self.timeline.reached = value

    def close(self) -> None:
        self.calls.append("closed")


class Cuda:
    """Records calls; a stream gets to what it was given at once."""

    ordinal = 3

    def __init__(self, device: NullDevice, calls: list[Any]) -> None:
        self.device, self.calls, self.imports = device, calls, 0

    def memory(self, fd: int, allocated: int, size: int) -> Memory:
        assert self.device.live[fd].size == size == allocated  # type: ignore[attr-defined]
        self.imports += 1
        return Memory(self.calls, self.imports << 40)

    def semaphore(self, fd: int) -> Semaphore:
        return Semaphore(self.calls, self.device.live[fd], True)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self.calls.append(("copy", target, source, size, stream))

    def synchronize(self) -> None:
        self.calls.append("synchronize")


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Any:
    snapshot = Snapshot.from_json((SNAPSHOTS / "h200.json").read_text(encoding="utf-8"))
    device = NullDevice(snapshot, plan(snapshot), manual=True)
    calls: list[Any] = []
    monkeypatch.setattr(sharing_module, "Cuda", lambda uuid: Cuda(device, calls))
    clock = Clock(device)
    pool = Pool(device, clock)
    transfer = Transfer(device, pool, clock)
    made = Sharing(device, pool, clock, transfer)
    yield SimpleNamespace(device=device, clock=clock, pool=pool, transfer=transfer, sharing=made, calls=calls)
    made.close()
    transfer.close()
    pool.close()
    clock.close()
    device.close()


def test_a_value_is_copied_once_and_then_lent_where_it_lies(rig: Any) -> None:
    storage = rig.pool.allocate(1000)
    shared, loan = rig.sharing.lend(storage, DEFAULT_STREAM)
    copies = [call for batch in rig.device.submissions for one in batch for call in one if call[0] == "copy"]
    assert len(copies) == 1 and shared is not storage and rig.sharing.pool.owns(shared)
    assert loan.pointer == (1 << 40) + shared.offset
    assert rig.calls == [("wait", 1, DEFAULT_STREAM)], "the stream waits for the copy"
    again, other = rig.sharing.lend(shared, DEFAULT_STREAM)
    assert again is shared and other.pointer == loan.pointer and rig.sharing.cuda.imports == 1
    copies = [call for batch in rig.device.submissions for one in batch for call in one if call[0] == "copy"]
    assert len(copies) == 1


def test_what_is_finished_needs_no_waiting(rig: Any) -> None:
    shared, _ = rig.sharing.lend(rig.pool.allocate(1000), NO_STREAM)
    assert rig.clock.completed == rig.clock.submitted > 0, "without a stream the host waits"
    rig.sharing.lend(shared, 77)
    assert not rig.calls


def test_dropped_loans_come_back_after_their_stream(rig: Any) -> None:
    shared, loan = rig.sharing.lend(rig.pool.allocate(1000), DEFAULT_STREAM)
    place = shared.place
    del shared
    assert rig.sharing.pool.allocate(1000).place != place, "the consumer still holds it"
    del loan
    assert rig.sharing.pool.allocate(1000).place != place, "the stream may still use it"
    rig.sharing.settle()
    assert ("signal", 1, DEFAULT_STREAM) in rig.calls
    found = [rig.sharing.pool.allocate(1000) for _ in range(3)]
    assert [s.last_use for s in found if s.place == place] == [rig.clock.submitted]


def test_of_other_streams_the_host_waits(rig: Any) -> None:
    _, loan = rig.sharing.lend(rig.pool.allocate(1000), 0x1234)
    del loan
    assert "synchronize" not in rig.calls
    rig.sharing.settle()
    assert "synchronize" in rig.calls


def test_a_copy_of_others_memory_comes_between_both_queues(rig: Any) -> None:
    class Keep:
        pass

    keep = Keep()
    storage = rig.sharing.borrow(0xABC0, 100, keep)
    target = rig.sharing.cuda.imports << 40
    assert rig.calls == [
        ("copy", target + storage.offset, 0xABC0, 100, DEFAULT_STREAM),
        ("signal", 1, DEFAULT_STREAM),
    ]
    assert storage.last_use == rig.clock.submitted
    assert [k for _, k in rig.sharing._borrowed] == [keep]
    rig.device.complete()
    rig.sharing.settle()
    assert not rig.sharing._borrowed


def test_memory_outlives_the_engine_while_it_is_lent(rig: Any) -> None:
    shared, loan = rig.sharing.lend(rig.pool.allocate(1000), DEFAULT_STREAM)
    rig.sharing.close()
    del shared
    gc.collect()
    assert not [call for call in rig.calls if call[0] == "freed"]
    del loan
    gc.collect()
    assert ("freed", 1 << 40) in rig.calls


def test_blocks_go_back_when_memory_runs_out(rig: Any) -> None:
    shared, loan = rig.sharing.lend(rig.pool.allocate(1000), DEFAULT_STREAM)
    rig.device.complete()
    del shared, loan
    rig.sharing.reclaim()
    rig.device.complete()
    rig.sharing.reclaim()
    assert rig.sharing.pool.reserved == 0 and ("freed", 1 << 40) in rig.calls


def test_a_device_without_cuda_says_so() -> None:
    snapshot = Snapshot.from_json((SNAPSHOTS / "lavapipe-22.3.json").read_text(encoding="utf-8"))
    device = NullDevice(snapshot, plan(snapshot))
    clock = Clock(device)
    pool = Pool(device, clock)
    made = Sharing(device, pool, clock, Transfer(device, pool, clock))
    with pytest.raises(Unsupported, match=r"np\.asarray"):
        made.cuda  # noqa: B018
    made.close()
    pool.close()
    clock.close()
    device.close()
