"""Every call of a real device fails once under a whole engine: a typed error, nothing held, and the same results afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oa
from oa import matrix as m
from oa._run import pipelines
from oa._vk import counts
from oa.errors import DeviceLost, OaError, OutOfMemory, PoisonedValue, VulkanError
from tests.device.fault_rig import Scene, settled

CALLS = ("buffer", "commands", "descriptor_pool", "pipeline", "submit")
ERRORS: dict[str, Callable[[], OaError]] = {
    "memory": lambda: OutOfMemory("the driver is out of memory"),
    "vulkan": lambda: VulkanError("the driver answered VK_ERROR_UNKNOWN", code=-13),
}


class Faulty:
    """A device's call that fails at its `nth` time from now on."""

    def __init__(
        self, device: Any, call: str, patch: pytest.MonkeyPatch, error: Callable[[], OaError]
    ) -> None:
        self.plain, self.error = getattr(device, call), error
        self.seen = self.nth = 0
        patch.setattr(device, call, self)

    def arm(self, nth: int) -> None:
        self.seen, self.nth = 0, nth

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.seen += 1
        if self.seen == self.nth:
            raise self.error()
        return self.plain(*args, **named)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("call", CALLS)
def test_each_call_fails_once(
    engine: Any, call: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    if call == "pipeline":
        monkeypatch.setattr(pipelines, "SPARE", 0)  # so that they are made anew each time
    scene = Scene(engine, tmp_path)
    wanted = scene.run()
    before = settled(engine)
    fault = Faulty(engine.device, call, monkeypatch, ERRORS[kind])
    forget(engine)
    scene.run()
    times = fault.seen
    if not times:
        pytest.skip(f"the scene makes no {call} here")
    some = range(1, times + 1) if full else sorted({1, 2, times // 2, times - 1, times} - {0})
    for nth in some:
        forget(engine)
        fault.arm(nth)
        failed(scene, type(ERRORS[kind]()), f"{call} {nth}")
        fault.arm(0)
        assert settled(engine) <= before, f"{call} {nth} at {scene.step}: memory is still held"
        assert scene.run() == wanted, f"after {call} {nth} at {scene.step}"


def failed(scene: Scene, kind: type[OaError], what: str) -> None:
    """Run the scene; what it raises, if anything, is of that kind, or a value that such an error has spoiled."""
    try:
        scene.run()
    except OaError as error:
        cause = error.__cause__ if isinstance(error, PoisonedValue) else error
        assert type(cause) is kind, f"{what}: {cause!r}"


def forget(engine: Any) -> None:
    """Let go of what would spare the device calls: kept memory and programs with their pipelines."""
    engine._programs._known.clear()
    settled(engine)


def test_a_lost_device_ends_the_engine_cleanly(device_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = counts()
    with oa.Engine(device=device_name) as engine:
        x = m.ones(engine, (8,)) + 1.0
        engine.flush()
        plan = engine.capture(lambda: m.exp(x) * 2.0)
        engine.wait()  # nothing runs: the device is only said to be lost
        Faulty(engine.device, "submit", monkeypatch, lambda: DeviceLost("the device stopped answering")).arm(
            1
        )
        with pytest.raises(DeviceLost):
            engine.submit(plan)
        for use in (
            lambda: x.to_numpy(),
            lambda: engine.submit(plan),
            lambda: m.ones(engine, (3,)).to_numpy(),
        ):
            with pytest.raises((DeviceLost, PoisonedValue)):
                use()
    assert counts() == before
