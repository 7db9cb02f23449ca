"""Opening a device for an engine: which one, how it is used, and what is known of it from earlier."""

from __future__ import annotations

from typing import Any

from oa import _device
from oa._device.profile import NUMERICS
from oa._vk import open_instance
from oa.config import CONFIG
from oa.errors import ArgumentError


def numeric_of(numeric: str | None) -> str:
    """The numeric mode that is asked for, here or by OA_NUMERIC; ArgumentError for an unknown one."""
    found = CONFIG.numeric if numeric is None else numeric
    if found not in NUMERICS:
        raise ArgumentError(f"Engine: numeric is {found!r}; wanted one of {', '.join(map(repr, NUMERICS))}")
    return found


def opened(request: str | int, profile: str | None, addressing: str | None) -> tuple[Any, Any]:
    """A new instance and the device that answers to `request`, used as asked or as suits it best."""
    wanted = CONFIG.profile if profile is None else profile
    instance = open_instance(validation=CONFIG.validate, api=(1, 2) if wanted == "compat" else (1, 3))
    try:
        adapters = instance.adapters()
        snapshots = [a.snapshot() for a in adapters]
        chosen = _device.select(snapshots, request)
        plan = _device.plan(
            snapshots[chosen], wanted, CONFIG.addressing if addressing is None else addressing
        )
        return instance, adapters[chosen].open(plan)
    except BaseException:
        instance.close()
        raise
