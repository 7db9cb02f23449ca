"""Choosing one device among those present, by what the user asked for."""

from __future__ import annotations

from collections.abc import Sequence

from oa._device.profile import PROFILES, is_software, missing, table
from oa._device.snapshot import Snapshot
from oa.errors import DeviceNotFound


def lacks(snapshot: Snapshot) -> list[str]:
    """What keeps a device from being used at all, in words; empty when some profile fits it."""
    if not snapshot.heaps:
        return ["memory (it is a driver without hardware)"]
    least = missing(snapshot, PROFILES[-1])
    return least if all(missing(snapshot, profile) for profile in PROFILES) else []


def usable(snapshot: Snapshot) -> bool:
    """True when the device has memory and at least one profile fits it."""
    return not lacks(snapshot)


def ranked(snapshots: Sequence[Snapshot]) -> list[int]:
    """Indices of the usable devices, the preferred one first: by kind, then by memory, then in the driver's order."""
    order = {kind: place for place, kind in enumerate(table("devices")["order"]["kinds"])}
    found = [index for index, snapshot in enumerate(snapshots) if usable(snapshot)]
    return sorted(
        found,
        key=lambda i: (
            is_software(snapshots[i]),
            order.get(snapshots[i].kind, len(order)),
            -snapshots[i].memory,
            i,
        ),
    )


def select(snapshots: Sequence[Snapshot], request: str | int = "auto") -> int:
    """The index of the device that `request` names.

    "auto" takes the best usable device, "gpu" the best that is hardware, "cpu" the best software device; otherwise an index,
    a UUID (with or without dashes) or a part of the name, in any case. Raises DeviceNotFound, which lists the valid names.

    Example: `select(snapshots, "h200")`.
    """
    order = ranked(snapshots)
    word = str(request).strip().lower()
    if word in ("auto", "gpu", "cpu"):
        wanted = {"auto": (False, True), "gpu": (False,), "cpu": (True,)}[word]
        matches = [index for index in order if is_software(snapshots[index]) in wanted]
        if not matches:
            raise DeviceNotFound(_no_kind(word, snapshots))
        return matches[0]
    if isinstance(request, int) or (word.lstrip("+").isdigit() and int(word) < len(snapshots)):
        matches = [i for i in (int(word),) if 0 <= i < len(snapshots)]
    else:
        uuid = word.replace("-", "")
        exact = [i for i in range(len(snapshots)) if uuid and snapshots[i].uuid == uuid]
        by_name = [i for i in (*order, *range(len(snapshots))) if word and word in snapshots[i].name.lower()]
        matches = exact or by_name
    if not matches:
        raise DeviceNotFound(f"no device answers to {request!r}; valid are {choices(snapshots)}")
    chosen = snapshots[matches[0]]
    if matches[0] not in order:
        raise DeviceNotFound(
            f"device {chosen.name!r} cannot be used: it lacks {', '.join(lacks(chosen))}; "
            f"valid are {choices(snapshots)}"
        )
    return matches[0]


def choices(snapshots: Sequence[Snapshot]) -> str:
    """The requests that `select` accepts for these devices, in words."""
    order = ranked(snapshots)
    words = ["'auto'"] if order else []
    words += ["'gpu'"] if any(not is_software(snapshots[i]) for i in order) else []
    words += ["'cpu'"] if any(is_software(snapshots[i]) for i in order) else []
    words += [f"{i} ({snapshots[i].name}, {snapshots[i].uuid})" for i in sorted(order)]
    return ", ".join(words) or "none: this machine has no usable Vulkan device"


def _no_kind(word: str, snapshots: Sequence[Snapshot]) -> str:
    what = {"auto": "usable Vulkan", "gpu": "hardware", "cpu": "software"}[word]
    unusable = [f"{s.name} lacks {', '.join(lacks(s))}" for s in snapshots if not usable(s)]
    reason = f" ({'; '.join(unusable)})" if unusable else ""
    return f"device {word!r}: no {what} device is present{reason}; valid are {choices(snapshots)}; see `oa doctor`"
