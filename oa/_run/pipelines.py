"""Pipelines: made once per kernel, with the driver's cache kept on disk between processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence

from oa._kernel.pack import Kernel
from oa._run.cache import DiskCache
from oa._vk.interface import Device, Pipeline, PipelineCache
from oa.errors import OaError

__all__ = ["Pipelines"]

#: Seconds between two saves while running; closing always saves.
_INTERVAL = 5.0

#: Pipelines kept although no plan uses them, the longest unused freed first.
SPARE = 256


class Pipelines:
    """The pipelines of a device by kernel digest, each with the number of plans that use it."""

    def __init__(self, device: Device, disk: DiskCache) -> None:
        self._device = device
        self._disk = disk
        self._made: dict[str, Pipeline] = {}
        self._users: dict[str, int] = {}
        self._spare: dict[str, None] = {}  # in the order in which their last plan went
        self.made = 0  #: since the device was opened
        self._unsaved = 0
        self._saved_at = float("-inf")
        self._cache = _open(device, disk.load())

    def __len__(self) -> int:
        return len(self._made)

    def take(self, kernels: Sequence[Kernel]) -> dict[str, Pipeline]:
        """The pipelines of a plan's kernels by digest, made when they are new (milliseconds to seconds each).

        They live until `give` has been called with the same kernels.
        """
        different = {kernel.digest: kernel for kernel in kernels}
        found = {digest: self._get(kernel) for digest, kernel in different.items()}
        for digest in found:
            self._users[digest] = self._users.get(digest, 0) + 1
            self._spare.pop(digest, None)
        return found

    def give(self, digests: Iterable[str]) -> None:
        """A plan that is gone, whose submissions have finished, uses these no longer."""
        for digest in digests:
            self._users[digest] -= 1
            if not self._users[digest]:
                del self._users[digest]
                self._spare[digest] = None
        while len(self._spare) > SPARE:
            oldest = next(iter(self._spare))
            del self._spare[oldest]
            self._made.pop(oldest).close()

    def _get(self, kernel: Kernel) -> Pipeline:
        made = self._made.get(kernel.digest)
        if made is None:
            made = self._device.pipeline(
                kernel.words,
                buffers=kernel.buffers,
                addressing=kernel.addressing,
                cache=self._cache,
                subgroup_size=kernel.subgroup_size,
                name=kernel.name,
                texels=kernel.texels,
            )
            self._made[kernel.digest] = made
            self._spare[kernel.digest] = None  # until a plan has all of its pipelines
            self._unsaved += 1
            self.made += 1
        return made

    def save(self, *, now: bool = False) -> None:
        """Write the driver's cache if there is something new, at most every few seconds unless `now`."""
        if self._unsaved and (now or time.monotonic() - self._saved_at >= _INTERVAL):
            self._unsaved = 0
            self._saved_at = time.monotonic()
            with contextlib.suppress(OaError):  # the file is a convenience: nothing fails for want of it
                self._disk.save(self._cache.data())

    def close(self, *, save: bool = True) -> None:
        """Save and free everything."""
        if save:
            self.save(now=True)
        for pipeline in self._made.values():
            pipeline.close()
        self._made.clear()
        self._users.clear()
        self._spare.clear()
        self._cache.close()


def _open(device: Device, data: bytes) -> PipelineCache:
    """A cache from saved data, or an empty one where the driver will not have it."""
    if data:
        with contextlib.suppress(OaError):
            return device.pipeline_cache(data)
    return device.pipeline_cache()
