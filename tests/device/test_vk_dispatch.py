"""Compute, copies, fills, timestamps and synchronization through `oa._vk` alone, in the three configurations."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from oa import errors
from oa._vk import counts, open_instance
from oa._vk.instance import has_validation
from oa._vk.loader import open_loader
from tests.device.vk_rig import BYTES, CONFIGURATIONS, COUNT, Rig, rig


def validation_present() -> bool:
    library = open_loader()
    return library is not None and has_validation(library)


needs_layer = pytest.mark.skipif(
    not validation_present(), reason="the Khronos validation layer is not installed"
)


@pytest.fixture(params=CONFIGURATIONS, ids="-".join)
def checked(request: pytest.FixtureRequest, device_name: str) -> Iterator[Rig]:
    """A rig under the validation layer (where there is one), which has to stay silent and to leave no object behind."""
    before = counts()
    with rig(*request.param, validation=validation_present(), device=device_name) as made:
        yield made
        said = list(made.instance.messages)
    assert counts() == before
    assert said == []
    assert made.instance.messages == []


def numbers(buffer: Any) -> list[int]:
    return list(struct.unpack(f"<{COUNT}I", buffer.map[:BYTES]))


def test_dispatch_copy_fill(checked: Rig) -> None:
    device = checked.device
    source, middle, target = device.buffer(BYTES), device.buffer(BYTES), device.buffer(BYTES)
    up, down = device.buffer(BYTES, "upload"), device.buffer(BYTES, "download")
    up.map[:BYTES] = struct.pack(f"<{COUNT}I", *range(COUNT))
    commands = device.commands()
    commands.begin()
    commands.barrier("all")
    commands.copy(up, 0, source, 0, BYTES)
    commands.fill(target, 0, 16, 0xFFFFFFFF)
    commands.barrier("all")
    checked.step(commands, source, middle, 5)
    commands.barrier()
    checked.step(commands, middle, target, 0xFFFFFFFE)
    commands.barrier("all")
    commands.copy(target, 0, down, 0, BYTES)
    commands.fill(source, 4, 8, 0xDEADBEEF)
    commands.barrier("host")
    commands.end()
    checked.run(commands)
    assert numbers(down) == [(i + 3) & 0xFFFFFFFF for i in range(COUNT)]
    # The same recording again, on other data.
    up.map[:BYTES] = struct.pack(f"<{COUNT}I", *(7 * i for i in range(COUNT)))
    checked.run(commands)
    assert numbers(down) == [7 * i + 3 for i in range(COUNT)]


def test_parts_of_a_dispatch(checked: Rig) -> None:
    """bind, push, descriptors and dispatch one by one do what the fused calls do."""
    device, pipeline = checked.device, checked.pipeline
    source, target = device.buffer(BYTES, "upload"), device.buffer(BYTES, "download")
    source.map[:BYTES] = struct.pack(f"<{COUNT}I", *range(COUNT))
    checked.args.map[:24] = struct.pack("<QQII", source.address, target.address, COUNT, 1)
    commands = device.commands()
    commands.begin(one_time=True)
    commands.bind(pipeline)
    if checked.pool is None:
        commands.push(pipeline, struct.pack("<Q", checked.args.address))
    else:
        chosen = checked.pool.allocate(pipeline)
        checked.pool.write(chosen, [(checked.args, 0, 4096), (source, 0, BYTES), (target, 0, BYTES)])
        commands.descriptors(pipeline, chosen)
    commands.dispatch(COUNT // 64)
    commands.barrier("host")
    commands.end()
    checked.run(commands)
    assert numbers(target) == list(range(1, COUNT + 1))


def test_submission_order_across_timelines(checked: Rig) -> None:
    device = checked.device
    a, b, c = (device.buffer(BYTES, "download") for _ in range(3))
    first, second, third = (device.commands() for _ in range(3))
    for commands, source, target in ((first, a, b), (second, b, c)):
        commands.begin()
        commands.barrier("all")
        checked.step(commands, source, target, 1)
        commands.barrier("all")
        commands.end()
    third.begin()
    third.barrier("host")
    third.end()
    other = device.timeline()
    a.map[:BYTES] = bytes(BYTES)
    device.submit([first], signal=(other, 9))
    device.submit([second, third], wait=[(other, 9)], signal=(checked.timeline, 1))
    assert checked.timeline.wait(1)
    assert other.value() == 9
    assert numbers(c) == [2] * COUNT


def test_many_command_buffers_and_waits(checked: Rig) -> None:
    device = checked.device
    buffer = device.buffer(BYTES, "download")
    timelines = [device.timeline() for _ in range(9)]
    for timeline in timelines:
        device.submit([], signal=(timeline, 1))
    recordings = []
    for i in range(12):
        commands = device.commands()
        commands.begin()
        commands.barrier("all")
        commands.fill(buffer, 16 * i, 16, i)
        commands.barrier("host")
        commands.end()
        recordings.append(commands)
    device.submit(recordings, wait=[(t, 1) for t in timelines], signal=(checked.timeline, 3))
    assert checked.timeline.wait(3)
    assert struct.unpack("<48I", buffer.map[:192]) == tuple(i for i in range(12) for _ in range(4))


def test_timestamps(checked: Rig) -> None:
    device = checked.device
    pool = device.query_pool(3)
    commands = device.commands()
    commands.begin()
    commands.reset_queries(pool, 0, 3)
    commands.timestamp(pool, 0)
    commands.timestamp(pool, 1)
    commands.end()
    checked.run(commands)
    first, second = pool.read(0, 2)
    assert 0 < first <= second
    assert pool.read(0, 0) == []
    assert device.timestamp_period > 0
    with pytest.raises(errors.VulkanError, match="not written"):
        pool.read(0, 3)


def test_timeline_waits(checked: Rig) -> None:
    timeline = checked.device.timeline()
    assert timeline.value() == 0
    assert timeline.wait(0)
    assert not timeline.wait(1, timeout_ns=0)
    assert not timeline.wait(1, timeout_ns=1_000_000)
    checked.device.submit([], signal=(timeline, 1))
    assert timeline.wait(1, timeout_ns=10_000_000_000)
    assert timeline.value() == 1


def test_pipeline_cache_round_trip(checked: Rig) -> None:
    device = checked.device
    from tests.device.vk_rig import add_kernel

    cache = device.pipeline_cache()
    device.pipeline(
        add_kernel(checked.addressing), buffers=2, addressing=checked.addressing, cache=cache
    ).close()
    data = cache.data()
    assert len(data) >= 32
    again = device.pipeline_cache(data)
    made = device.pipeline(
        add_kernel(checked.addressing), buffers=2, addressing=checked.addressing, cache=again
    )
    for thing in (made, again, cache):
        thing.close()


def test_descriptor_pool_is_bounded_and_reusable(device_name: str) -> None:
    with rig("strict", "descriptor", device=device_name) as made:
        pool = made.device.descriptor_pool(2, 2)
        first = pool.allocate(made.pipeline)
        assert first != pool.allocate(made.pipeline)
        with pytest.raises(errors.VulkanError, match="taken"):
            pool.allocate(made.pipeline)
        pool.reset()
        assert pool.allocate(made.pipeline)
        with pytest.raises(errors.ArgumentError, match="more buffers"):
            made.device.descriptor_pool(1, 1).allocate(made.pipeline)


@needs_layer
@pytest.mark.parametrize("across", [False, True], ids=["one-submission", "two-submissions"])
def test_the_layer_sees_a_missing_barrier(across: bool, device_name: str) -> None:
    """A test of the tests: without its barrier a dependent pair is reported, inside a submission and between two."""
    with rig("strict", "descriptor", validation=True, device=device_name) as made:
        device = made.device
        a, b, c = (device.buffer(BYTES) for _ in range(3))
        first = device.commands()
        second = device.commands() if across else first
        first.begin()
        made.step(first, a, b, 1)
        if across:
            first.end()
            second.begin()
        made.step(second, b, c, 1)
        second.end()
        # A first submission that has finished before the second one comes is no hazard: it waits behind others, or comes again.
        busy, large = device.commands(), device.buffer(64 << 20)
        busy.begin()
        for number in range(4):
            busy.fill(large, 0, large.size, number)
            busy.barrier("all")
        busy.end()
        for _ in range(20):
            if across:
                made.submit(busy)
                made.submit(first)
            made.run(second)
            if any("SYNC-HAZARD" in message for message in made.instance.messages):
                break
        else:
            pytest.fail("the layer says nothing")
        made.instance.messages.clear()


@needs_layer
def test_validation_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("VK_LAYER_ENABLES", raising=False)
    open_instance(validation=True).close()
    assert "VK_LAYER_ENABLES" not in os.environ
    monkeypatch.setenv("VK_LAYER_ENABLES", "SOMETHING")
    open_instance(validation=True).close()
    assert os.environ["VK_LAYER_ENABLES"] == "SOMETHING"
