"""What an engine says of its device and its work, and plans from files: the part of `oa.Engine` that no operation needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from oa import _device
from oa._inspect.changes import Compilation
from oa.errors import ArgumentError, CaptureError
from oa.inspection import path_of
from oa.syncs import Syncs

if TYPE_CHECKING:
    from oa._run.pool import MemoryStats, Pool
    from oa.loading import LoadedPlan
    from oa.programs import Programs


def whole(number: Any, what: str) -> int:
    """An int that is no bool; ArgumentError, naming `what` it is, for anything else."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise ArgumentError(f"{what} is {number!r}; wanted an int")
    return int(number.__index__())


def limit_of(limit: Any, what: str) -> int | None:
    """A number of bytes of 0 or more, or None for no limit; ArgumentError for anything else."""
    if limit is not None and whole(limit, what) < 0:
        raise ArgumentError(f"{what} is {limit}; wanted None or a number of bytes of 0 or more")
    return None if limit is None else int(limit)


class Evidence(Syncs):
    """Memory, rooflines, lowerings and saved plans of one engine."""

    device: Any
    _pool: Pool
    _programs: Programs
    _capture: Any

    def _check(self) -> None:
        """Refuse use that the engine does not allow now."""
        raise NotImplementedError

    @property
    def memory(self) -> MemoryStats:
        """Bytes allocated, reserved, peak and free on the device, from any thread; after `close` all 0 but the peak."""
        return self._pool.stats()

    @property
    def memory_limit(self) -> int | None:
        """Bytes that the engine may reserve on the device; None leaves it to the driver."""
        return self._pool.limit

    @memory_limit.setter
    def memory_limit(self, limit: int | None) -> None:
        self._pool.limit = limit_of(limit, "engine.memory_limit")

    @property
    def roofline(self) -> _device.Roofline | None:
        """The best that the device reaches, which plans and profiles compare with; None where no figures are known.

        Example:
            >>> roof = engine.roofline
            >>> roof is None or roof.bytes > 0
            True
        """
        affinity = getattr(os, "sched_getaffinity", None)
        return _device.roofline(
            self.device.snapshot, len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        )

    @property
    def numeric(self) -> str:
        """The numeric mode: "stable", "deterministic" or "fast".

        Example:
            >>> engine.numeric
            'stable'
        """
        return self._programs.profile.numeric

    @property
    def compilations(self) -> list[Compilation]:
        """The last 64 lowerings, oldest first: the plan that each made, the nearest earlier plan of the process, and what in the
        key differs: shape, dtype, layout, operation, attribute, wanted results, device or option. `OA_SHOW=1` prints the same.

        Example:
            >>> for rows in (3, 4, 5):
            ...     x = oa.matrix.from_numpy(engine, np.ones(rows, np.float32))
            ...     values = oa.matrix.tanh(oa.matrix.exp(x) - x).to_numpy()
            >>> last = engine.compilations[-1]
            >>> last.recompiled, last.changes
            (True, ('input 0 has shape (5,), had (4,)',))
        """
        return self._programs.compilations()

    def load_plan(self, path: str | os.PathLike[str]) -> LoadedPlan:
        """The plan that `CapturedPlan.save` wrote, with results to the bit as those of the plan that was captured.

        What the plan reads is listed in its `parameters` and bound by name, unless it was saved with its values. A plan file
        holds programs for the device: load only what comes from somebody whose programs you would run.

        Raises:
            FileFormatError: the file is cut short or changed, of another version of `oa`, or made for another device, driver,
                profile or addressing.
            OSError: it cannot be read.

        Example:
            >>> x = oa.matrix.full(engine, (2,), 3.0)
            >>> path = engine.capture(lambda: x * x).save(folder / "square.oap", values=True)
            >>> plan = engine.load_plan(path)
            >>> engine.submit(plan).wait()
            True
            >>> plan.outputs.tolist()
            [9.0, 9.0]
        """
        from oa.loading import LoadedPlan

        self._check()
        if self._capture is not None:
            raise CaptureError("engine.load_plan inside a capture: load the plan before the capture")
        return LoadedPlan(self, path_of(path, "engine.load_plan"))
