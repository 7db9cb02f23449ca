"""Runs scalar operations over arrays: one emitted kernel, one element an invocation, on a device opened through `oa._vk`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from oa._kernel.emit.ir import Buffer, Builder
from oa._kernel.emit.scalar import REGISTER, emit_op
from oa._kernel.emit.trust import judge, probe
from oa._kernel.emit.types import Ty, Value
from oa._schema.dtype import DType, as_dtype
from tests.device.vk_rig import Rig, rig

LOCAL = 64
Array = np.ndarray[Any, Any]


def register(b: Builder, word: Value, dtype: DType) -> Value:
    """The register of one element that was stored as one word."""
    if dtype.kind == "b":
        return b.op("ine", word, b.const(Ty.U32, 0))
    return b.bitcast(REGISTER[dtype.name], word)


def word(b: Builder, value: Value) -> Value:
    """The word of a register."""
    if value.ty is Ty.BOOL:
        return b.select(value, b.const(Ty.U32, 1), b.const(Ty.U32, 0))
    return b.bitcast(Ty.U32, value)


def kernel(
    body: Callable[[Builder, Sequence[Value]], Value],
    inputs: int,
    addressing: str,
    trusted: frozenset[str],
    preserve_nan: bool,
) -> bytes:
    """out[i] = body(in0[i], in1[i], ...) on words, for i below word 0."""
    buffers = [Buffer("r")] * inputs + [Buffer("w")]
    b = Builder("elementwise", (LOCAL, 1, 1), addressing, buffers, trusted=trusted, preserve_nan=preserve_nan)
    index = b.builtin("global_id")
    with b.if_(b.op("ult", index, b.word(0))):
        b.store(inputs, index, body(b, [b.load(k, index) for k in range(inputs)]))
    return b.finish()


class Machine:
    """A device that evaluates emitted operations on arrays of words."""

    def __init__(self, opened: Rig) -> None:
        self.device, self.rig = opened.device, opened

    @property
    def software(self) -> bool:
        return bool(self.device.profile.software)

    def words(
        self,
        body: Callable[[Builder, Sequence[Value]], Value],
        arrays: Sequence[Array],
        trusted: frozenset[str] = frozenset(),
    ) -> Array:
        """`body` over arrays of 32-bit words, as words."""
        count = arrays[0].size
        assert all(a.size == count and a.dtype.itemsize == 4 for a in arrays) and count <= 65535 * LOCAL
        preserve_nan = "inf_nan_preserve32" in self.device.profile.features
        code = kernel(body, len(arrays), self.rig.addressing, trusted, preserve_nan)
        given = [np.ascontiguousarray(a).tobytes() for a in arrays]
        groups = ((count + LOCAL - 1) // LOCAL, 1, 1)
        return np.frombuffer(self._run(code, given, 4 * count, groups, count), np.uint32)

    def trusted(self) -> frozenset[str]:
        """The verdict of the probe of native operations."""
        trial = probe(self.rig.addressing)
        return judge(self._run(trial.words, [trial.inputs], trial.output_bytes, trial.groups, 0))

    def _run(
        self, code: bytes, given: Sequence[bytes], output: int, groups: tuple[int, int, int], count: int
    ) -> bytes:
        """One dispatch: buffers of the given bytes, then one to be written; `count` is word 0."""
        device = self.device
        pipeline = device.pipeline(code, buffers=len(given) + 1, addressing=self.rig.addressing)
        size = max(output, *(len(data) for data in given)) + 16
        buffers = [device.buffer(size, "upload") for _ in given] + [device.buffer(size, "download")]
        for buffer, data in zip(buffers, given, strict=False):
            buffer.map[: len(data)] = data
        block = struct.pack(f"<{len(buffers)}QI", *(b.address for b in buffers), count)
        self.rig.args.map[: len(block)] = block
        commands = device.commands()
        commands.begin(True)
        pool = None
        if self.rig.addressing == "address":
            commands.dispatch_address(pipeline, self.rig.args.address, groups)
        else:
            pool = device.descriptor_pool(1, len(buffers))
            chosen = pool.allocate(pipeline)
            pool.write(chosen, [(self.rig.args, 0, 4096), *((b, 0, size) for b in buffers)])
            commands.dispatch_descriptor(pipeline, chosen, groups)
        commands.barrier("host")
        commands.end()
        self.rig.run(commands)
        result = bytes(buffers[-1].map[:output])
        for made in (commands, pool, pipeline, *buffers):
            if made is not None:
                made.close()
        return result

    def op(self, name: str, out: str, *arrays: Array, trusted: frozenset[str] = frozenset()) -> Array:
        """One scalar operation of the schema over arrays of its dtypes."""
        ins = tuple(as_dtype(a.dtype) for a in arrays)
        result = as_dtype(out)

        def body(b: Builder, words: Sequence[Value]) -> Value:
            registers = [register(b, w, d) for w, d in zip(words, ins, strict=True)]
            return word(b, emit_op(b, name, result, ins, registers))

        wide = [a if a.dtype.itemsize == 4 else a.astype(np.uint32) for a in arrays]
        got = self.words(body, wide, trusted)
        return got.view(result.numpy) if result.itemsize == 4 else got.astype(result.numpy)


@contextmanager
def machine(profile: str, addressing: str, device: str) -> Iterator[Machine]:
    """A machine in one configuration."""
    with rig(profile, addressing, device=device) as opened:
        yield Machine(opened)
