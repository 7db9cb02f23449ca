"""Tiny kernels and plans over uint32 arrays, and an opened device, for tests of `oa._run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oa import _device
from oa._kernel.emit.ir import Buffer, Builder
from oa._lower.plan import Access, Barrier, Dispatch, Kernel, Operand, Plan, ScalarWord, Slot, Space
from oa._run.clock import Clock
from oa._run.executor import Executor
from oa._run.pool import Pool, Storage
from oa._run.transfer import Transfer
from oa._vk import open_instance
from oa._vk.interface import Device

READ, WRITE = Access.READ, Access.WRITE


class Rig:
    """A device with everything of `oa._run` on it."""

    def __init__(self, device: Device, cache: Path | None = None, limit: int | None = None) -> None:
        self.device = device
        self.clock = Clock(device)
        self.pool = Pool(device, self.clock, limit=limit)
        self.transfer = Transfer(device, self.pool, self.clock)
        self.executor = Executor(device, self.pool, self.clock, cache, self.transfer)
        self.addressing = device.profile.addressing

    def array(self, values: NDArray[np.uint32]) -> Storage:
        return self.transfer.create(values)

    def read(self, storage: Storage, count: int) -> NDArray[np.uint32]:
        return self.transfer.download(storage, 0, 4 * count).view(np.uint32)

    def close(self) -> None:
        self.executor.close()
        self.transfer.close()
        self.pool.close()
        self.clock.close()


@contextmanager
def rig(
    name: str, profile: str | None, addressing: str | None, directory: Path | None = None
) -> Iterator[Rig]:
    """Open a device by name, with the validation layer when OA_VALIDATE asks for it, and close everything."""
    from oa.config import CONFIG

    instance = open_instance(validation=CONFIG.validate)
    try:
        adapters = instance.adapters()
        adapter = adapters[_device.select([a.snapshot() for a in adapters], name)]
        device = adapter.open(_device.plan(adapter.snapshot(), profile, addressing))
        made = Rig(device, directory)
        yield made
        made.close()
        device.close()
        assert not instance.messages, instance.messages
    finally:
        instance.close()


@cache
def affine(addressing: str) -> Kernel:
    """out[i] = in[i] * word1 + word2 for i < word0, modulo 2^32."""
    b = Builder("affine", (64, 1, 1), addressing, [Buffer("r"), Buffer("w")])
    i = b.builtin("global_id")
    with b.if_(b.op("ult", i, b.word(0))):
        b.store(1, i, b.op("iadd", b.op("imul", b.load(0, i), b.word(1)), b.word(2)))
    return Kernel("affine", b.finish(), 2, 3, addressing, (64, 1, 1))


@cache
def blend(addressing: str) -> Kernel:
    """out[i] = a[i] * word1 + b[i] for i < word0, modulo 2^32."""
    b = Builder("blend", (64, 1, 1), addressing, [Buffer("r"), Buffer("r"), Buffer("w")])
    i = b.builtin("global_id")
    with b.if_(b.op("ult", i, b.word(0))):
        b.store(2, i, b.op("iadd", b.op("imul", b.load(0, i), b.word(1)), b.load(1, i)))
    return Kernel("blend", b.finish(), 3, 2, addressing, (64, 1, 1))


def chain(addressing: str, count: int, length: int, *, scalars: bool = False, digest: str = "chain") -> Plan:
    """out = 3 * (... 3 * (3 * in + 1) + 1 ...) + 1 in `length` dependent dispatches through two scratch arrays.

    With `scalars` the added word is a run-time scalar.
    """
    kernel, size = affine(addressing), 4 * count
    room = -(-size // 256) * 256
    add: int | ScalarWord = ScalarWord(0) if scalars else 1
    steps: list[Dispatch | Barrier] = []
    source = Operand(Space.INPUT, 0, 0, size, READ)
    for step in range(length):
        scratch = Operand(Space.SCRATCH, 0, step % 2 * room, size, WRITE)
        target = Operand(Space.OUTPUT, 0, 0, size, WRITE) if step == length - 1 else scratch
        steps += [Barrier()] if step else []
        steps.append(
            Dispatch(
                kernel, (-(-count // 64), 1, 1), (source, target), (count, 3, add), (step,), f"link{step}"
            )
        )
        source = Operand(Space.SCRATCH, 0, step % 2 * room, size, READ)
    slot = Slot("uint32", (count,), size)
    return Plan(tuple(steps), (slot,), (slot,), (), int(scalars), (), 2 * room, digest)


def chained(values: NDArray[np.uint32], length: int, add: int = 1) -> NDArray[np.uint32]:
    """What `chain` computes."""
    out = values.copy()
    for _ in range(length):
        out = out * np.uint32(3) + np.uint32(add)
    return out
