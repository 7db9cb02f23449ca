"""Random work on the null device, which computes late: whatever is reused, rebound or overwritten too early gives wrong numbers.

The device runs a submission when the test or a wait says so, and only then reads argument words, descriptor sets and buffers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oa import _device
from oa._device import Snapshot
from oa._run.pool import Storage
from oa._vk.null import NullDevice
from tests.device.run_kernels import Rig, blend, chain, chained

COUNT = 70
SNAPSHOT = Snapshot.from_json((Path(__file__).parent.parent / "snapshots" / "lavapipe-22.3.json").read_text())


def words(device: NullDevice, address: int, count: int) -> NDArray[np.uint32]:
    """Device memory at an address."""
    for thing in device.live.values():
        start = getattr(thing, "address", 0)
        if start and start <= address < start + thing.size:
            return np.frombuffer(thing.data, np.uint32, count, address - start)
    raise AssertionError(f"address {address:#x} is in no live buffer")


def arrays(
    device: NullDevice, pipeline: Any, place: int
) -> tuple[list[NDArray[np.uint32]], NDArray[np.uint32]]:
    """The buffers of a dispatch, and its plain words."""
    if pipeline.addressing == "descriptor":
        (args, start, _), *ranges = device.sets[place]
        buffers = [np.frombuffer(b.data, np.uint32, size // 4, offset) for b, offset, size in ranges]
        return buffers, np.frombuffer(args.data, np.uint32, 2 * len(ranges) + 3, start)[2 * len(ranges) :]
    block = words(device, place, 2 * pipeline.buffers + 3)
    pointers = block[: 2 * pipeline.buffers].view(np.uint64)
    count = int(block[2 * pipeline.buffers])
    return [words(device, int(p), count) for p in pointers], block[2 * pipeline.buffers :]


def compute(device: NullDevice, pipeline: Any, place: int, groups: tuple[int, int, int]) -> None:
    """What the kernels `affine` and `blend` do."""
    buffers, plain = arrays(device, pipeline, place)
    n = int(plain[0])
    if pipeline.name == "affine":
        buffers[1][:n] = buffers[0][:n] * plain[1] + plain[2]
    else:
        buffers[2][:n] = buffers[0][:n] * plain[1] + buffers[1][:n]


def opened(addressing: str, mapped: bool, manual: bool = True) -> tuple[NullDevice, Rig]:
    device = NullDevice(SNAPSHOT, _device.plan(SNAPSHOT, None, addressing), manual=manual, kernel=compute)
    if not mapped:
        real = device.buffer

        def buffer(size: int, memory: str = "device") -> Any:
            made = real(size, memory)
            if memory == "device":
                made.map = None
            return made

        device.buffer = buffer  # type: ignore[method-assign]
    return device, Rig(device)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, 3), st.integers(0, 9), st.integers(0, 5)),
        st.tuples(st.just("upload"), st.integers(0, 9), st.integers(0, 1000), st.booleans()),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("copy"), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("finish"), st.integers(1, 3)),
        st.tuples(st.just("read"), st.integers(0, 9)),
        st.tuples(st.just("trim")),
    ),
    max_size=50,
)


class Model:
    """The rig, and beside each live storage the values it must hold once everything has run."""

    def __init__(self, device: NullDevice, rig: Rig) -> None:
        self.device, self.rig = device, rig
        addressing = rig.addressing
        self.plans = [
            chain(addressing, COUNT, 1, digest="one"),
            chain(addressing, COUNT, 3, digest="three"),
            chain(addressing, COUNT, 2, scalars=True, digest="scalars"),
            chain(addressing, 7000, 2, digest="large"),
        ]
        self.live: list[tuple[Storage, NDArray[np.uint32]]] = []
        for seed in range(3):
            self.create(seed)

    def create(self, seed: int) -> None:
        values = np.arange(seed, seed + COUNT, dtype=np.uint32)
        self.live.append((self.rig.array(values), values))

    def run(self, which: int, source: int, scalar: int) -> None:
        plan, (storage, values) = self.plans[which], self.live[source % len(self.live)]
        if which == 3:
            big = np.resize(values, 7000)
            held, target = self.rig.array(big), self.rig.pool.allocate(4 * 7000)
            self.rig.executor.run(plan, [held], [target])
            assert (self.rig.read(target, 7000) == chained(big, 2)).all()
            return
        target = self.rig.pool.allocate(plan.outputs[0].size)
        self.rig.executor.run(plan, [storage], [target], [scalar] if which == 2 else ())
        self.live.append((target, chained(values, (1, 3, 2)[which], scalar if which == 2 else 1)))
        del self.live[:-12]

    def step(self, what: str, *how: Any) -> None:
        rig, live = self.rig, self.live
        if what == "run":
            self.run(*how)
        elif what == "upload" and how[2]:
            self.create(how[1])
        elif what == "upload":
            storage, _ = live[how[0] % len(live)]
            values = np.arange(how[1], how[1] + COUNT, dtype=np.uint32)
            rig.transfer.upload(storage, values)
            live[how[0] % len(live)] = (storage, values)
        elif what == "drop" and len(live) > 1:
            live.pop(how[0] % len(live))
        elif what == "copy":
            (a, values), b = live[how[0] % len(live)], how[1] % len(live)
            if a is not live[b][0]:
                rig.transfer.copy(a, 0, live[b][0], 0, 4 * COUNT)
                live[b] = (live[b][0], values)
        elif what == "finish":
            self.device.complete(how[0])
        elif what == "read":
            storage, values = live[how[0] % len(live)]
            assert (rig.read(storage, COUNT) == values).all()
        elif what == "trim":
            rig.pool.trim()

    def check(self) -> None:
        for storage, values in self.live:
            assert (self.rig.read(storage, COUNT) == values).all()


@pytest.mark.parametrize("mapped", (True, False))
@pytest.mark.parametrize("addressing", ("address", "descriptor"))
@settings(max_examples=40)
@given(steps=STEPS)
def test_any_order_of_work_gives_what_was_asked_for(
    addressing: str, mapped: bool, steps: list[tuple[Any, ...]]
) -> None:
    device, rig = opened(addressing, mapped)
    model = Model(device, rig)
    for step in steps:
        model.step(*step)
    model.check()
    model.live.clear()
    rig.close()
    assert not device.live, device.live


def test_two_inputs_and_constants_reach_their_places() -> None:
    from oa._lower.plan import Access, Dispatch, Operand, Plan, Slot, Space

    for addressing in ("address", "descriptor"):
        _, rig = opened(addressing, True)
        slot = Slot("uint32", (COUNT,), 4 * COUNT)
        constant = np.arange(100, 100 + COUNT, dtype=np.uint32)
        operands = [
            Operand(Space.INPUT, 0, 0, 4 * COUNT, Access.READ),
            Operand(Space.CONSTANT, 1, 0, 4 * COUNT, Access.READ),
            Operand(Space.OUTPUT, 0, 0, 4 * COUNT, Access.WRITE),
        ]
        step = Dispatch(blend(addressing), (2, 1, 1), tuple(operands), (COUNT, 5))
        plan = Plan((step,), (slot,), (slot,), constants=(b"first", constant.tobytes()))
        values = np.arange(COUNT, dtype=np.uint32)
        source, target = rig.array(values), rig.pool.allocate(4 * COUNT)
        rig.executor.run(plan, [source], [target])
        assert (rig.read(target, COUNT) == values * 5 + constant).all()
        rig.close()
