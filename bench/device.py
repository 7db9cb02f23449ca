"""What the suites share about the engine under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oa


def describe(engine: oa.Engine) -> dict[str, Any]:
    """The device of an engine, as results record it."""
    snapshot, profile = engine.device.snapshot, engine.device.profile
    return {
        "name": snapshot.name,
        "driver": f"{snapshot.driver_name} {snapshot.driver_info}".strip(),
        "api": ".".join(map(str, snapshot.api)),
        "profile": profile.name,
        "addressing": profile.addressing,
    }


def device_us(engine: oa.Engine, call: Callable[[], object], number: int) -> Callable[[], float]:
    """A measurement: microseconds of device time that one `call` takes, by timestamps, in the mean of `number` calls."""

    def measure() -> float:
        with engine.profile() as profile:
            for _ in range(number):
                call()
                engine.flush()
        return sum(row.ns for row in profile.rows()) / number / 1e3

    return measure
