"""Opening and closing: leaks, forked children, exhausted memory, wrong use, drivers opened without the loader."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from oa import errors
from oa._device import plan
from oa._vk import counts, open_instance
from oa._vk.instance import Connection, Instance
from oa._vk.loader import manifests, open_driver
from tests.device.vk_rig import BYTES, Rig, add_kernel, rig


@pytest.fixture
def opened(device_name: str) -> Iterator[Rig]:
    with rig("strict", "descriptor", device=device_name) as made:
        yield made


def make_everything(device: Any) -> list[Any]:
    cache = device.pipeline_cache()
    pipeline = device.pipeline(add_kernel("descriptor"), buffers=2, addressing="descriptor", cache=cache)
    pool = device.descriptor_pool(1, 2)
    pool.allocate(pipeline)
    kinds = [device.buffer(BYTES, memory) for memory in ("device", "upload", "download")]
    return [pool, pipeline, cache, *kinds, device.commands(), device.timeline(), device.query_pool(4)]


def test_every_object_is_counted_and_freed(opened: Rig) -> None:
    first = make_everything(opened.device)  # layouts are made once for each device
    for thing in first:
        thing.close()
    before = counts()
    for _ in range(3):
        made = make_everything(opened.device)
        during = counts()
        assert {kind for kind in during if during[kind] > before.get(kind, 0)} == {
            "buffer", "command_buffer", "descriptor_pool", "memory", "pipeline", "pipeline_cache", "query_pool", "semaphore"
        }  # fmt: skip
        for thing in made:
            thing.close()
            thing.close()  # closing twice does nothing
        assert counts() == before


def test_closing_the_device_closes_what_it_made(device_name: str) -> None:
    before = counts()
    with rig("strict", "descriptor", device=device_name) as made:
        things = make_everything(made.device)
        device = made.device
    assert counts() == before
    for thing in things:
        thing.close()
    device.close()
    assert counts() == before
    for use in (
        lambda: device.buffer(16),
        device.commands,
        device.timeline,
        device.wait_idle,
        device.memory_budget,
    ):
        with pytest.raises(errors.EngineClosed):
            use()
    with pytest.raises(errors.EngineClosed):
        made.instance.adapters()


def test_a_failed_opening_leaves_nothing(device_name: str) -> None:
    import dataclasses

    before = counts()
    with rig("strict", "descriptor", device=device_name) as made:
        profile = dataclasses.replace(made.device.profile, extensions=("VK_OA_no_such_extension",))
        during = counts()
        with pytest.raises(errors.VulkanError, match="EXTENSION_NOT_PRESENT"):
            made.device.adapter.open(profile)
        assert counts() == during
    assert counts() == before


def test_strict_needs_an_instance_of_its_version() -> None:
    instance = open_instance(api=(1, 2))
    try:
        adapter = instance.adapters()[0]
        with pytest.raises(errors.Unsupported, match=r"Vulkan 1\.3"):
            adapter.open(plan(adapter.snapshot(), "strict"))
    finally:
        instance.close()


def test_too_large_and_too_much(opened: Rig) -> None:
    device = opened.device
    limit = device.profile.limits.max_allocation
    before = counts()
    with pytest.raises(errors.AllocationLimit) as refused:
        device.buffer(limit + 1)
    assert refused.value.requested == limit + 1
    assert refused.value.largest == limit
    assert counts() == before
    small = device.buffer(1)
    assert small.size == 16
    small.close()
    assert device.buffer(0).size == 16


def test_buffers_of_each_kind(opened: Rig) -> None:
    for memory in ("upload", "download"):
        buffer = opened.device.buffer(100, memory)
        assert buffer.size == 112
        assert {"host_visible", "host_coherent"} <= buffer.flags
        assert len(buffer.map) == 112
        buffer.map[:3] = b"abc"
        assert bytes(buffer.map[:3]) == b"abc"
        buffer.close()
        assert buffer.map is None
    assert "device_local" in opened.device.buffer(100).flags
    with pytest.raises(errors.ArgumentError, match="memory"):
        opened.device.buffer(100, "swap")


def test_wrong_pipelines(opened: Rig) -> None:
    device = opened.device
    before = counts()
    with pytest.raises(errors.ArgumentError, match="SPIR-V"):
        device.pipeline(b"123", buffers=1, addressing="descriptor")
    with pytest.raises(errors.ArgumentError, match="addressing"):
        device.pipeline(add_kernel("descriptor"), buffers=2, addressing="bindless")
    with pytest.raises(errors.Unsupported, match="storage buffers"):
        device.pipeline(
            add_kernel("descriptor"),
            buffers=device.profile.limits.storage_buffers + 1,
            addressing="descriptor",
        )
    with pytest.raises(errors.Unsupported, match="subgroups of 3"):
        device.pipeline(add_kernel("descriptor"), buffers=2, addressing="descriptor", subgroup_size=3)
    with pytest.raises(errors.ArgumentError, match="queue"):
        device.commands("graphics")
    with pytest.raises(errors.ArgumentError, match="barrier"):
        device.commands().barrier("some")
    with pytest.raises(errors.Unsupported, match="pipeline_statistics"):
        opened.pipeline.statistics()
    left = {
        kind: number - before.get(kind, 0)
        for kind, number in counts().items()
        if number != before.get(kind, 0)
    }
    assert left == {"command_buffer": 1}, "refused pipelines leave nothing behind"


def test_memory_budget(opened: Rig) -> None:
    rows = opened.device.memory_budget()
    assert len(rows) == len(opened.device.snapshot.heaps)
    assert all(size > 0 and budget > 0 and usage >= 0 for size, budget, usage in rows)


def child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a fresh process."""
    env = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=env,
    )


OPEN = """
import os
from oa._device import plan
from oa._vk import counts, open_instance
from oa.errors import ForkedProcess
instance = open_instance()
adapter = instance.adapters()[0]
device = adapter.open(plan(adapter.snapshot()))
buffer, timeline = device.buffer(64), device.timeline()
"""


def test_a_forked_child_does_nothing() -> None:
    ran = child(
        OPEN
        + """
pid = os.fork()
if pid == 0:
    refused = 0
    for use in (lambda: device.buffer(64), timeline.value, lambda: device.submit([]), instance.adapters):
        try:
            use()
        except ForkedProcess as said:
            assert "fork" in str(said)
            refused += 1
    for thing in (buffer, timeline, device, instance):
        thing.close()
    os._exit(10 + refused)
status = os.waitpid(pid, 0)[1]
device.submit([], signal=(timeline, 1))
assert timeline.wait(1)
device.close(); instance.close()
print(os.waitstatus_to_exitcode(status), counts())
"""
    )
    assert (ran.stdout.strip(), ran.stderr) == ("14 {}", "")


@pytest.mark.parametrize(
    "ending",
    [
        "device.close(); instance.close()",
        "pass",
        "del device, instance",
        "instance.close(); device.close()",
        "os._exit(0)",
    ],
)
def test_exit_in_any_order(ending: str) -> None:
    """No order of destruction at exit crashes; closing the instance first closes its devices."""
    ran = child(OPEN + ending)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_interrupt_ends_an_endless_wait() -> None:
    ran = child(
        OPEN
        + """
import signal, threading
threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
try:
    timeline.wait(1)
except KeyboardInterrupt:
    device.close(); instance.close()
    print("interrupted", counts())
"""
    )
    assert ran.stdout.strip() == "interrupted {}", ran.stderr


def test_drivers_open_without_the_loader() -> None:
    """The path taken where no libvulkan.so.1 exists, on every driver of this machine that opens."""
    before = counts()
    connections = []
    for manifest in manifests():
        try:
            connections.append(Connection(open_driver(manifest), (1, 3), False, []))
        except errors.OaError:
            continue  # a driver of hardware that is not there may refuse
    assert connections
    instance = Instance(connections, [])
    assert instance.direct
    adapters = instance.adapters()
    assert adapters
    snapshot = adapters[0].snapshot()
    device = adapters[0].open(plan(snapshot))
    buffer, timeline, commands = device.buffer(64, "download"), device.timeline(), device.commands()
    commands.begin()
    commands.fill(buffer, 0, 64, 0x01020304)
    commands.barrier("host")
    commands.end()
    device.submit([commands], signal=(timeline, 1))
    assert timeline.wait(1)
    assert buffer.map is not None
    assert bytes(buffer.map) == b"\x04\x03\x02\x01" * 16
    device.close()
    instance.close()
    assert counts() == before


def test_no_loader_at_all() -> None:
    """`open_instance` itself, with the loader's names pointing nowhere."""
    ran = child(
        """
        from oa._vk import loader, open_instance
        loader.LOADERS = ("liboa-no-such-library.so",)
        instance = open_instance()
        print(instance.direct, len(instance.adapters()) > 0)
        instance.close()
        """
    )
    assert ran.stdout.strip() == "True True", ran.stderr
