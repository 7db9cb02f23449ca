"""How the rows of a kernel meet invocations: by the model, or as measured. Chosen by shape and device alone, so that the order of
a reduction does not depend on its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oa._kernel.emit.nest import Schedule
from oa.errors import Unsupported

if TYPE_CHECKING:
    from oa._device import Profile

_LOCAL = {"cpu": 32, "gpu": 128}
_GROUP_LOCAL = 256
_MIN_LANES = 4
#: Elements of a row that one invocation keeps in registers at most, and invocations that keep a device busy.
_REGISTERS, _FULL_DEVICE = 16, 65536
#: Mesa's llvmpipe ends every loop of an invocation once all of its loops together went around this often, and computes on
#: with what there is. So no kernel of a software device may come near.
MOST_ITERATIONS = 65535
#: Longer rows are shared by invocations there: seven passes over a row fit.
_CPU_UNITS, _CPU_LANES = 8192, 1024


@dataclass(frozen=True)
class Rows:
    """What a schedule depends on: `items` rows (or chunks) of `length` elements, `inner` the extent of the last reduced axis,
    `trailing`: rows are runs of memory."""

    items: int
    length: int
    inner: int
    trailing: bool
    chunked: bool

    @property
    def key(self) -> str:
        """What a measured choice is kept under."""
        how = ("trailing " if self.trailing else "") + ("chunked " if self.chunked else "")
        return f"rows {self.items}x{self.length} {how}inner {self.inner}"


def row_schedule(rows: Rows, profile: Profile) -> Schedule:
    """The schedule: what was measured where it still suits, else the model's."""
    told = profile.tuned.get(rows.key) if len(profile.tuned) else None
    if told is not None:
        for found in row_candidates(rows, profile):
            if schedule_text(found) == told:
                return found
    return modelled(rows, profile)


def check_passes(schedule: Schedule, length: int, passes: int, profile: Profile) -> None:
    """Unsupported where the loops of an invocation would go around more often than a software device lets them."""
    if profile.tuning == "cpu" and passes * -(-length // (schedule.lanes * schedule.vec)) > MOST_ITERATIONS:
        raise Unsupported(
            f"{passes} passes over rows of {length:,} elements are more than a software device computes in one kernel:"
            " flush between them, or compute the value in parts"
        )


def schedule_text(schedule: Schedule) -> str:
    """A schedule as it is kept."""
    return f"{schedule.kind} {schedule.lanes} lanes {schedule.vec} wide {schedule.slots} slots"


def row_candidates(rows: Rows, profile: Profile) -> list[Schedule]:
    """Schedules worth measuring, the model's first: every number of lanes that a row can keep busy, rows kept in registers where
    they fit, and a row to an invocation."""
    first = modelled(rows, profile)
    found: dict[Schedule, None] = {first: None}
    if first.kind == "group" and profile.tuning == "gpu":
        units = -(-rows.length // first.vec)
        lanes = _MIN_LANES
        while lanes <= min(_GROUP_LOCAL, profile.limits.max_invocations) and lanes <= 2 * units:
            found[_shared(rows, profile, lanes, first.vec)] = None
            lanes *= 2
    return list(found)


def modelled(rows: Rows, profile: Profile) -> Schedule:
    """The model's schedule."""
    local, inner, trailing, chunked = _LOCAL[profile.tuning], rows.inner, rows.trailing, rows.chunked
    if profile.tuning == "cpu":
        # Texels are fetched four words at once; storage is read up to 64 bits at once.
        quads = trailing and inner % 4 == 0 and profile.texels
        pairs = trailing and inner % 2 == 0 and "int64" in profile.features
        vec = 4 if quads else 2 if pairs else 1
        units, lanes = -(-rows.length // vec), 1
        while lanes * _CPU_UNITS < units and lanes < min(_CPU_LANES, profile.limits.max_invocations):
            lanes = max(_MIN_LANES, lanes * 2)
        if chunked or lanes == 1:
            return Schedule("serial", local, 1, chunked, not trailing, vec)
        return Schedule("group", max(local, lanes), lanes, False, False, vec)
    vec = 4 if inner % 4 == 0 else 1
    if not trailing or rows.length < 2 * _MIN_LANES:
        return Schedule("serial", local, 1, chunked, not trailing, vec)
    units = -(-rows.length // vec)
    width = min(_GROUP_LOCAL, profile.limits.max_invocations)
    most = _REGISTERS // vec  # units that an invocation may keep
    wanted = most if rows.items * (units // most) >= _FULL_DEVICE else 1
    lanes = _MIN_LANES
    while lanes < width and lanes * wanted < units:
        lanes *= 2
    return _shared(rows, profile, lanes, vec)


def _shared(rows: Rows, profile: Profile, lanes: int, vec: int) -> Schedule:
    """A row shared by `lanes` invocations, which keep it in registers where it fits."""
    units = -(-rows.length // vec)
    width = min(_GROUP_LOCAL, profile.limits.max_invocations)
    slots = 1
    while slots * lanes < units:
        slots *= 2
    if slots > _REGISTERS // vec:
        return Schedule("group", width, lanes, rows.chunked, False, vec)
    whole = slots * lanes * vec == rows.length and not rows.chunked
    return Schedule("group", width, lanes, rows.chunked, False, vec, slots, whole)
