"""Which way bytes take between host and device, and that they arrive."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from oa._run.clock import Clock
from oa._run.pool import Pool
from oa._run.transfer import Transfer
from oa.errors import InternalError
from tests.null.run_fakes import FakeDevice, profile

PIECE = 4 << 20


class Rig:
    def __init__(self, **how: bool) -> None:
        self.device = FakeDevice(profile(software=how.pop("software", False)), **how)
        self.clock = Clock(self.device)
        self.pool = Pool(self.device, self.clock)
        self.transfer = Transfer(self.device, self.pool, self.clock)

    def kinds(self) -> list[list[object]]:
        return [
            [e[1] if e[0] == "barrier" else e[0] for e in logs[0][1:]] for logs, _ in self.device.submissions
        ]

    def close(self) -> None:
        self.transfer.close()
        self.pool.close()
        self.clock.close()
        assert not +self.device.live


@pytest.fixture(
    params=({}, {"mapped": True}, {"mapped": True, "software": True}), ids=("bar", "mapped", "software")
)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(**request.param)
    yield made
    made.close()


@pytest.mark.parametrize("size", (0, 1, 3, 4, 255, 256, 4097, 3_000_000))
def test_bytes_come_back(rig: Rig, size: int) -> None:
    data = os.urandom(size)
    storage = rig.transfer.create(data)
    assert storage.size >= size
    assert rig.transfer.download(storage, 0, size).tobytes() == data
    assert rig.transfer.download(storage, size // 3, size // 2).tobytes() == data[size // 3 :][: size // 2]


def test_offsets_and_partial_writes(rig: Rig) -> None:
    storage = rig.transfer.create(bytes(1000))
    rig.transfer.upload(storage, b"abc", 501)
    rig.transfer.upload(storage, memoryview(b"xyz"), 997)
    got = rig.transfer.download(storage, 0, 1000).tobytes()
    assert got == bytes(501) + b"abc" + bytes(493) + b"xyz"


@pytest.mark.parametrize(
    "data",
    (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(5, np.int32),
        np.array([True, False]),
        np.zeros((0, 3), np.float32),
        bytearray(b"1234"),
    ),
    ids=("2d", "0d", "bool", "empty", "bytearray"),
)
def test_arrays_of_any_shape_and_dtype(rig: Rig, data: np.ndarray | bytearray) -> None:
    raw = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
    storage = rig.transfer.create(data)
    assert rig.transfer.download(storage, 0, len(raw)).tobytes() == raw


def test_copy_and_fill(rig: Rig) -> None:
    a, b = rig.transfer.create(bytes(range(256))), rig.transfer.create(bytes(256))
    value = rig.transfer.copy(a, 10, b, 100, 50)
    assert a.last_use == b.last_use == value == rig.clock.submitted
    rig.transfer.fill(b, 200, 8, 0x01020304)
    want = bytes(100) + bytes(range(10, 60)) + bytes(50) + bytes((4, 3, 2, 1)) * 2 + bytes(48)
    assert rig.transfer.download(b, 0, 256).tobytes() == want
    assert rig.transfer.copy(a, 0, b, 0, 0) == rig.transfer.fill(b, 0, 0) == rig.clock.submitted


def test_mapped_and_idle_memory_is_written_directly() -> None:
    rig = Rig(mapped=True)
    storage = rig.transfer.create(b"hello")
    assert rig.device.submissions == []
    assert bytes(storage.map or b"")[:5] == b"hello"
    rig.close()


def test_memory_in_use_is_written_in_queue_order_without_waiting() -> None:
    rig = Rig(mapped=True, auto=False)
    storage = rig.transfer.create(b"old!")
    storage.last_use = rig.clock.submit((), "a kernel")
    rig.transfer.upload(storage, b"new!")
    assert bytes(storage.map or b"")[:4] == b"old!", "the running kernel still sees what it was given"
    assert [entry[:2] for entry in rig.device.submissions[-1][0][0]][1] == ("barrier", "all")
    rig.device.finish(2)
    assert bytes(storage.map or b"")[:4] == b"new!"
    rig.device.auto = True
    rig.close()


def test_device_memory_across_a_bus_is_never_read_directly() -> None:
    rig = Rig(mapped=True)
    storage = rig.transfer.create(b"hello")
    rig.transfer.download(storage, 0, 5)
    assert rig.kinds() == [["all", "copy", "host"]]
    rig.close()
    rig = Rig(mapped=True, software=True)
    storage = rig.transfer.create(b"hello")
    assert rig.transfer.download(storage, 0, 5).tobytes() == b"hello" and rig.kinds() == []
    rig.close()


def test_cached_device_memory_is_read_directly_once_its_writes_are_visible() -> None:
    rig = Rig(cached=True)
    storage = rig.transfer.create(b"hello")
    assert rig.transfer.download(storage, 0, 5).tobytes() == b"hello" and rig.kinds() == []
    rig.transfer.fill(storage, 0, 4, 0x41414141)
    rig.clock.wait(rig.clock.submitted)
    for _ in range(2):
        assert rig.transfer.download(storage, 0, 5).tobytes() == b"AAAAo"
    assert rig.kinds() == [["all", "fill"], ["all", "host"]], "finished is not yet visible; once is enough"
    rig.close()


def test_large_transfers_go_in_pieces_that_overlap() -> None:
    rig = Rig()
    storage = rig.pool.allocate(5 * PIECE)
    sizes: list[int] = []
    real = rig.device.submit

    def submit(commands: object, **more: object) -> None:
        real(commands, **more)  # type: ignore[arg-type]
        sizes.extend(e[5] for e in rig.device.submissions[-1][0][0] if e[0] == "copy")
        rig.device._pending.clear()  # the copies themselves do not fit the fake's small buffers

    rig.device.submit = submit  # type: ignore[method-assign, assignment]
    ring = rig.transfer._ring("upload")
    ring.map = memoryview(bytearray(4 * PIECE))
    rig.transfer.upload(storage, bytes(4 * PIECE + 100))
    assert sizes == [PIECE] * 4 + [100]
    waits = rig.clock._timeline.waits  # type: ignore[attr-defined]
    assert waits and max(waits) < len(sizes), "only for staging places that come round again, and for room"
    sizes.clear()
    rig.transfer._ring("download").map = memoryview(bytearray(4 * PIECE))
    assert len(rig.transfer.download(storage, 0, 2 * PIECE + 8)) == 2 * PIECE + 8
    assert sizes == [PIECE, PIECE, 8]
    rig.close()


def test_staging_waits_for_older_users_of_a_place() -> None:
    rig = Rig(auto=False)
    ring = rig.transfer._ring("upload")
    for value, size in enumerate((PIECE // 2, PIECE, PIECE, PIECE), 1):
        ring.commit(ring.reserve(size), size, value)
        rig.clock.submit((), "copy")
    rig.device.auto = True
    assert ring.reserve(PIECE // 4) == 3 * PIECE + PIECE // 2 and rig.device.finished == 0
    assert ring.reserve(PIECE) == 0, "the tail is too short: round again"
    assert rig.device.finished == 2, "the first two places are wanted again"
    rig.close()


def test_commands_are_reused() -> None:
    rig = Rig()
    storage = rig.transfer.create(b"x")
    for _ in range(50):
        rig.transfer.fill(storage, 0, 4)
    assert rig.device.live["commands"] <= 4
    rig.close()


def test_what_does_not_fit_is_refused(rig: Rig) -> None:
    storage = rig.pool.allocate(256)
    for use in (
        lambda: rig.transfer.upload(storage, bytes(200), 100),
        lambda: rig.transfer.upload(storage, b"a", -1),
        lambda: rig.transfer.download(storage, 0, 257),
        lambda: rig.transfer.copy(storage, 200, storage, 0, 100),
        lambda: rig.transfer.fill(storage, 2, 4),
        lambda: rig.transfer.upload(storage, np.zeros((4, 4), np.float32)[:, ::2]),
        lambda: rig.transfer.upload(storage, memoryview(bytes(16))[::2]),
    ):
        with pytest.raises(InternalError):
            use()
    assert rig.device.submissions == []
