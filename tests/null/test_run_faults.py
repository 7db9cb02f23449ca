"""Every call at the device seam fails once, wherever it is made: a typed error, nothing leaked, and the next try works."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from oa._run.clock import Clock, Event
from oa._run.executor import Executor
from oa._run.pool import Pool
from oa._run.profiler import Profiler
from oa._run.transfer import Transfer
from oa.errors import DeviceLost, OaError, OutOfMemory, VulkanError
from tests.null.run_fakes import FakeDevice, profile, small_plan

ERRORS = {
    "memory": lambda: OutOfMemory("the driver is out of memory"),
    "vulkan": lambda: VulkanError("the driver answered VK_ERROR_UNKNOWN", code=-13),
    "lost": lambda: DeviceLost("the device stopped answering"),
}

CALLS = (
    "allocate", "begin", "buffer", "cache_data", "commands", "descriptor_pool", "end", "pipeline", "pipeline_cache",
    "query_pool", "read", "submit", "timeline", "value", "wait", "write",
)  # fmt: skip


class Scene:
    """An engine's worth of `oa._run`, and a piece of work that makes every kind of call."""

    def __init__(self, device: FakeDevice, cache: Path) -> None:
        self.device = device
        self.parts: list[Clock | Pool | Transfer | Executor] = []
        try:
            self.clock = Clock(device)
            self.parts.append(self.clock)
            self.pool = Pool(device, self.clock, limit=64 << 20)
            self.parts.append(self.pool)
            self.transfer = Transfer(device, self.pool, self.clock)
            self.parts.append(self.transfer)
            self.executor = Executor(device, self.pool, self.clock, cache, self.transfer)
            self.parts.append(self.executor)
        except BaseException:
            self.close()
            raise

    def work(self) -> None:
        addressing = self.device.profile.addressing
        data = bytes(range(256)) * 4
        plan = small_plan(addressing, scratch=2048, scalars=1, constants=(b"constant",), digest="work")
        source = self.transfer.create(data)
        targets = [self.pool.allocate(1024) for _ in range(10)]
        profiler = Profiler()
        for number, target in enumerate(targets):
            self.executor.run(plan, [source], [target], [number])
            self.executor.run(plan, [source], [target], [number], timing=profiler)
        value = self.transfer.copy(source, 0, targets[0], 0, 1024)
        assert Event(self.clock, value).wait(1)
        assert self.transfer.download(targets[0], 0, 1024).tobytes() == data
        assert len(profiler.rows()) == 20
        self.transfer.fill(targets[1], 0, 1024, 0)
        del plan, source, targets, target
        self.clock.wait(self.clock.submitted)
        self.pool.trim()

    def close(self) -> None:
        for part in reversed(self.parts):
            part.close()


def device(addressing: str) -> FakeDevice:
    """One kind of device memory with each addressing: both ways of uploading and of keeping argument words are taken."""
    return FakeDevice(profile(addressing), mapped=addressing == "descriptor")


def clean_run(addressing: str, cache: Path) -> Counter[str]:
    made = device(addressing)
    scene = Scene(made, cache)
    scene.work()
    scene.close()
    assert not +made.live
    return made.calls


def test_the_scene_makes_every_call(tmp_path: Path) -> None:
    made = set(clean_run("address", tmp_path)) | set(clean_run("descriptor", tmp_path))
    assert made == set(CALLS)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("addressing", ("address", "descriptor"))
@pytest.mark.parametrize("call", CALLS)
def test_each_call_fails_once(call: str, addressing: str, kind: str, tmp_path: Path, full: bool) -> None:
    count = clean_run(addressing, tmp_path / "clean")[call]
    places = (
        range(1, count + 1) if full else sorted({1, 2, 3, count // 3, count // 2, count - 1, count} - {0, -1})
    )
    for nth in places:
        made = device(addressing)
        made.fail(call, ERRORS[kind], nth)
        scene = None
        try:
            scene = Scene(made, tmp_path / str(nth))
            scene.work()
        except OaError as error:
            assert type(error) is type(ERRORS[kind]()), f"{call} {nth}"
        if scene is not None:
            if kind != "lost":
                scene.work()
            elif made.lost:
                with pytest.raises(DeviceLost):
                    scene.work()
            scene.close()
        assert not +made.live, f"{call} {nth} of {count}: {+made.live} left"
