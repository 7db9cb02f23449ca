"""The null device, and the recording validator on it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from oa import errors
from oa._device import plan
from oa._vk import counts
from oa._vk.interface import Device
from oa._vk.null import NullDevice
from tests.null.device_fixtures import NAMES, card, snapshot


def opened(name: str = "radv-navi21", addressing: str | None = None, **more: Any) -> NullDevice:
    one = card(name) if name.startswith("radv") else snapshot(name)
    return NullDevice(one, plan(one, addressing=addressing), **more)


@pytest.fixture(params=["address", "descriptor"])
def device(request: pytest.FixtureRequest) -> NullDevice:
    return opened(addressing=request.param)


def kernel(device: NullDevice, buffers: int = 2) -> Any:
    return device.pipeline(
        b"\x03\x02\x23\x07", buffers=buffers, addressing=device.profile.addressing, name="k"
    )


def dispatch(
    device: NullDevice, commands: Any, pipeline: Any, groups: tuple[int, int, int] = (1, 1, 1)
) -> None:
    if device.profile.addressing == "address":
        commands.dispatch_address(pipeline, 1 << 32, groups)
    else:
        pool = device.descriptor_pool(1, pipeline.buffers)
        chosen = pool.allocate(pipeline)
        buffers = [device.buffer(256) for _ in range(pipeline.buffers + 1)]
        pool.write(chosen, [(buffer, 0, 256) for buffer in buffers])
        commands.dispatch_descriptor(pipeline, chosen, groups)


def test_it_is_a_device() -> None:
    made: Device = opened()  # checked by mypy too
    assert not made.foreign
    assert not made.lost


@pytest.mark.parametrize("name", NAMES)
def test_transfers_happen_on_every_recorded_device(name: str) -> None:
    device = opened(name)
    up, down, inside = device.buffer(100, "upload"), device.buffer(100, "download"), device.buffer(100)
    assert up.map is not None
    assert down.map is not None
    up.map[:4] = b"abcd"
    commands, timeline = device.commands(), device.timeline()
    commands.begin()
    commands.copy(up, 0, inside, 8, 4)
    commands.fill(inside, 16, 8, 0x11223344)
    commands.barrier("all")
    commands.copy(inside, 8, down, 0, 16)
    commands.end()
    device.submit([commands], signal=(timeline, 1))
    assert timeline.wait(1)
    assert bytes(down.map[:16]) == b"abcd\0\0\0\0" + b"\x44\x33\x22\x11" * 2
    assert (inside.map is None) == ("host_visible" not in inside.flags)
    assert (inside.address != 0) == ("bda" in device.profile.features)
    device.close()


def test_objects_are_counted(device: NullDevice) -> None:
    before = counts()
    things = [device.buffer(1), device.commands(), device.timeline(), device.query_pool(1), kernel(device)]
    things += [device.descriptor_pool(1, 1), device.pipeline_cache(b"x")]
    assert sum(counts().values()) == sum(before.values()) + len(things)
    for thing in things[:3]:
        thing.close()
        thing.close()
    device.close()
    assert counts() == before
    with pytest.raises(errors.EngineClosed):
        device.buffer(1)


def test_submissions_and_dispatches_are_recorded(device: NullDevice) -> None:
    seen: list[tuple[str, tuple[int, int, int]]] = []
    device.kernel = lambda dev, pipeline, where, groups: seen.append((pipeline.name, groups))
    commands, pipeline = device.commands(), kernel(device)
    commands.begin()
    dispatch(device, commands, pipeline, (3, 2, 1))
    commands.barrier()
    commands.end()
    device.submit([commands])
    assert [call[0] for call in device.submissions[0][0]] == [
        f"dispatch_{device.profile.addressing}",
        "barrier",
    ]
    assert seen == [("k", (3, 2, 1))]


def test_manual_completion() -> None:
    device = opened(manual=True)
    timeline, buffer, commands = device.timeline(), device.buffer(16, "download"), device.commands()
    commands.begin()
    commands.fill(buffer, 0, 16, 1)
    commands.end()
    for value in (1, 2, 3):
        device.submit([commands], signal=(timeline, value))
    assert timeline.value() == 0
    assert not timeline.wait(1, timeout_ns=0)
    assert buffer.data == bytes(16)
    assert device.complete(1) == 1
    assert timeline.value() == 1
    assert timeline.wait(2)
    assert timeline.value() == 2
    device.wait_idle()
    assert timeline.value() == 3
    assert not timeline.wait(4, timeout_ns=1000)
    with pytest.raises(errors.InternalError, match="never ends"):
        timeline.wait(4)


def test_memory_limit_and_allocation_limit() -> None:
    device = opened(memory_limit=100)
    kept = device.buffer(64)
    with pytest.raises(errors.OutOfMemory) as said:
        device.buffer(64)
    assert said.value.requested == 64
    kept.close()
    assert device.used == 0
    assert device.buffer(96).size == 96
    unlimited = opened()
    limit = unlimited.profile.limits.max_allocation
    with pytest.raises(errors.AllocationLimit):
        unlimited.buffer(limit + 1)
    with pytest.raises(errors.ArgumentError, match="memory"):
        unlimited.buffer(1, "swap")


def test_a_lost_device() -> None:
    device = opened()
    device.lose()
    for use in (lambda: device.buffer(1), device.commands, lambda: device.submit([]), device.wait_idle):
        with pytest.raises(errors.DeviceLost):
            use()
    device.close()


def test_timestamps(device: NullDevice) -> None:
    pool, commands = device.query_pool(3), device.commands()
    commands.begin()
    commands.reset_queries(pool, 0, 3)
    commands.timestamp(pool, 0)
    commands.timestamp(pool, 1)
    commands.end()
    device.submit([commands])
    first, second = pool.read(0, 2)
    assert 0 < first < second
    with pytest.raises(errors.VulkanError, match="not written"):
        pool.read(0, 3)


def test_pipelines_are_checked() -> None:
    device = opened("swiftshader")
    with pytest.raises(errors.Unsupported, match="addresses"):
        device.pipeline(b"1234", buffers=1, addressing="address")
    with pytest.raises(errors.Unsupported, match="storage buffers"):
        device.pipeline(b"1234", buffers=30, addressing="descriptor")
    with pytest.raises(errors.Unsupported, match="subgroups"):
        device.pipeline(b"1234", buffers=1, addressing="descriptor", subgroup_size=32)
    with pytest.raises(errors.ArgumentError, match="addressing"):
        device.pipeline(b"1234", buffers=1, addressing="bindless")
    with pytest.raises(errors.ArgumentError, match="no words"):
        device.pipeline(b"", buffers=1, addressing="descriptor")
    cache = device.pipeline_cache(b"old\n")
    device.pipeline(b"1234", buffers=1, addressing="descriptor", cache=cache, name="new")
    assert cache.data() == b"old\nnew\n"


# The recording validator: each fault is found at the call that commits it.


def wrong(match: str) -> Any:
    return pytest.raises(errors.InternalError, match=match)


@pytest.fixture
def commands(device: NullDevice) -> Any:
    made = device.commands()
    made.begin()
    return made


def test_begin_and_end_pair(device: NullDevice) -> None:
    commands = device.commands()
    with wrong("begin"):
        commands.end()
    with wrong("begin"):
        commands.barrier()
    with wrong("initial state"):
        device.submit([commands])
    commands.begin()
    with wrong("while recording"):
        commands.begin()
    with wrong("recording state"):
        device.submit([commands])
    commands.end()
    with wrong("begin"):
        commands.barrier()
    device.submit([commands])
    device.submit([commands])
    commands.reset()
    with wrong("initial state"):
        device.submit([commands])


def test_one_time_recordings(device: NullDevice, commands: Any) -> None:
    commands.end()
    commands.begin(one_time=True)
    commands.end()
    device.submit([commands])
    with wrong("twice"):
        device.submit([commands])


def test_dispatch_needs_pipeline_push_and_set(device: NullDevice, commands: Any) -> None:
    pipeline = kernel(device)
    with wrong("without a bound pipeline"):
        commands.dispatch(1)
    commands.bind(pipeline)
    if device.profile.addressing == "descriptor":
        with wrong("takes no push constants"):
            commands.push(pipeline, b"1234")
    if device.profile.addressing == "address":
        with wrong("bytes of push constants"):
            commands.push(pipeline, b"123456")
        with wrong("push constants set"):
            commands.dispatch(1)
        commands.push(pipeline, bytes(8))
    if device.profile.addressing == "descriptor":
        with wrong("without its descriptor set"):
            commands.dispatch(1)
        commands.descriptors(pipeline, device.descriptor_pool(1, 2).allocate(pipeline))
    else:
        with wrong("takes no descriptors"):
            commands.descriptors(pipeline, 1)
    commands.dispatch(1)


def test_grids_stay_within_limits(device: NullDevice, commands: Any) -> None:
    pipeline = kernel(device)
    most = device.profile.limits.max_groups
    dispatch(device, commands, pipeline, most)
    for axis in range(3):
        groups = tuple(1 if i != axis else most[i] + 1 for i in range(3))
        with wrong("exceeds"):
            dispatch(device, commands, pipeline, groups)  # type: ignore[arg-type]
    with wrong("exceeds"):
        dispatch(device, commands, pipeline, (-1, 1, 1))


def test_blocks_are_aligned(device: NullDevice, commands: Any) -> None:
    pipeline = kernel(device)
    if device.profile.addressing == "address":
        with wrong("aligned"):
            commands.dispatch_address(pipeline, (1 << 32) + 8, (1, 1, 1))
        with wrong("no address"):
            commands.dispatch_address(pipeline, 0, (1, 1, 1))
        with wrong("takes no descriptors"):
            commands.dispatch_descriptor(pipeline, 1, (1, 1, 1))
    else:
        with wrong("no descriptor set"):
            commands.dispatch_descriptor(pipeline, 0, (1, 1, 1))
        with wrong("takes no addresses"):
            commands.dispatch_address(pipeline, 1 << 32, (1, 1, 1))


def test_ranges_of_copies_and_fills(device: NullDevice, commands: Any) -> None:
    a, b = device.buffer(64), device.buffer(32)
    commands.copy(a, 32, b, 0, 32)
    commands.copy(a, 0, a, 32, 32)
    for arguments in ((a, 40, b, 0, 32), (a, 0, b, 16, 32), (a, -4, b, 0, 4), (a, 0, b, 0, 0)):
        with wrong("outside"):
            commands.copy(*arguments)
    with wrong("overlaps"):
        commands.copy(a, 0, a, 16, 32)
    for arguments in ((a, 60, 8, 0), (a, 0, 0, 0)):
        with wrong("outside"):
            commands.fill(*arguments)
    with wrong("multiples of 4"):
        commands.fill(a, 2, 4, 0)
    with wrong("32-bit word"):
        commands.fill(a, 0, 4, 1 << 32)
    with wrong("barrier kind"):
        commands.barrier("some")


def test_queries_stay_in_their_pool(device: NullDevice, commands: Any) -> None:
    pool = device.query_pool(2)
    with wrong("pool of 2"):
        commands.timestamp(pool, 2)
    with wrong("pool of 2"):
        commands.reset_queries(pool, 1, 2)
    commands.timestamp(pool, 0)
    commands.timestamp(pool, 0)
    commands.end()
    with wrong("written twice"):
        device.submit([commands])


def test_use_after_close(device: NullDevice, commands: Any) -> None:
    buffer, pipeline, pool = device.buffer(64), kernel(device), device.query_pool(1)
    commands.fill(buffer, 0, 4, 0)
    commands.end()
    buffer.close()
    with wrong("after close"):
        device.submit([commands])
    commands.begin()
    with wrong("after close"):
        commands.fill(buffer, 0, 4, 0)
    pipeline.close()
    pool.close()
    with wrong("after close"):
        commands.bind(pipeline)
    with wrong("after close"):
        commands.timestamp(pool, 0)
    commands.close()
    with wrong("after close"):
        commands.begin()
    with wrong("after close"):
        device.submit([commands])


def test_descriptor_writes() -> None:
    device = opened(addressing="descriptor")
    limits = dataclasses.replace(
        device.profile.limits, offset_alignment=64, uniform_alignment=32, max_storage_range=256
    )
    device.profile = dataclasses.replace(device.profile, limits=limits)
    pipeline, pool, buffer = kernel(device, 1), device.descriptor_pool(1, 1), device.buffer(1024)
    chosen = pool.allocate(pipeline)
    pool.write(chosen, [(buffer, 0, 256), (buffer, 64, 256)])
    for ranges, match in (
        ([(buffer, 0, 256)], "2 bindings is written with 1"),
        ([(buffer, 32, 256), (buffer, 32, 64)], "multiples of 64"),
        ([(buffer, 16, 256), (buffer, 64, 64)], "multiples of 32"),
        ([(buffer, 0, 257), (buffer, 0, 64)], "storage range"),
        ([(buffer, 0, 256), (buffer, 1024, 64)], "outside"),
        ([(buffer, 0, 256), (buffer, 0, 0)], "outside"),
    ):
        with wrong(match):
            pool.write(chosen, ranges)
    with wrong("not of this pool"):
        pool.write(chosen + 1, [])
    with pytest.raises(errors.VulkanError, match="OUT_OF_POOL_MEMORY"):
        pool.allocate(pipeline)
    with wrong("more buffers"):
        device.descriptor_pool(1, 1).allocate(kernel(device, 2))
    commands = device.commands()
    commands.begin()
    commands.dispatch_descriptor(pipeline, chosen, (1, 1, 1))
    commands.end()
    device.submit([commands])
    pool.reset()
    with wrong("never written"):
        device.submit([commands])


def test_waits_that_never_end_and_values_that_fall(device: NullDevice) -> None:
    timeline = device.timeline()
    with wrong("never ends"):
        device.submit([], wait=[(timeline, 1)])
    device.submit([], signal=(timeline, 2))
    with wrong("not above"):
        device.submit([], signal=(timeline, 2))
