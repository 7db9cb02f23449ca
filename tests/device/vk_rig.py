"""A device opened straight through `oa._vk`, and one emitted kernel, for tests below the engine."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oa._device import plan
from oa._kernel.emit.ir import Buffer, Builder
from oa._vk import open_instance

#: (profile, addressing) of the three ways in which everything has to work.
CONFIGURATIONS = (("strict", "address"), ("strict", "descriptor"), ("compat", "descriptor"))
COUNT = 256
BYTES = 4 * COUNT


def add_kernel(addressing: str) -> bytes:
    """out[i] = in[i] + word 1, for i below word 0; groups of 64."""
    b = Builder("add", (64, 1, 1), addressing, [Buffer("r", 1), Buffer("w", 1)])
    index = b.builtin("global_id")
    with b.if_(b.op("ult", index, b.word(0))):
        b.store(1, index, b.op("iadd", b.load(0, index), b.word(1)))
    return b.finish()


class Rig:
    """A device with the add kernel. `step` records one dispatch; `run` submits and waits."""

    def __init__(self, instance: Any, device: Any, addressing: str) -> None:
        self.instance, self.device, self.addressing = instance, device, addressing
        self.pipeline = device.pipeline(add_kernel(addressing), buffers=2, addressing=addressing, name="add")
        self.args = device.buffer(4096, "upload")
        self.pool = device.descriptor_pool(16, 2) if addressing == "descriptor" else None
        self.timeline = device.timeline()
        self.value = 0
        self._blocks = 0

    def step(self, commands: Any, source: Any, target: Any, addend: int) -> None:
        """Record target = source + addend."""
        at = 256 * self._blocks  # uniform buffers start at multiples of up to 256 bytes
        self._blocks += 1
        self.args.map[at : at + 24] = struct.pack("<QQII", source.address, target.address, COUNT, addend)
        groups = (COUNT // 64, 1, 1)
        if self.pool is None:
            commands.dispatch_address(self.pipeline, self.args.address + at, groups)
        else:
            chosen = self.pool.allocate(self.pipeline)
            self.pool.write(chosen, [(self.args, at, 64), (source, 0, BYTES), (target, 0, BYTES)])
            commands.dispatch_descriptor(self.pipeline, chosen, groups)

    def submit(self, *commands: Any) -> None:
        """Submit without waiting."""
        self.value += 1
        self.device.submit(commands, signal=(self.timeline, self.value))

    def run(self, *commands: Any) -> None:
        """Submit and wait."""
        self.submit(*commands)
        assert self.timeline.wait(self.value)


@contextmanager
def rig(profile: str, addressing: str, *, validation: bool = False, device: str = "auto") -> Iterator[Rig]:
    """A rig in one configuration; afterwards everything is closed."""
    from oa._device import select

    instance = open_instance(validation=validation, api=(1, 2) if profile == "compat" else (1, 3))
    try:
        adapters = instance.adapters()
        snapshots = [adapter.snapshot() for adapter in adapters]
        chosen = select(snapshots, device)
        opened = adapters[chosen].open(plan(snapshots[chosen], profile, addressing))
        try:
            yield Rig(instance, opened, addressing)
        finally:
            opened.close()
    finally:
        instance.close()
