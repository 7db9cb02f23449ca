"""The recording validator: every recorded call is checked against Vulkan's rules and the kernel ABI before it is recorded.

It wraps any command buffer: always on the null device, and on a real one when the validation layer is loaded. What it finds is a
fault of `oa` itself, so it raises InternalError at the faulty call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oa._device import Profile
from oa._vk.command import BARRIERS
from oa._vk.pipeline import PUSH_BYTES
from oa.errors import InternalError

#: Argument blocks start at multiples of this many bytes.
BLOCK_ALIGNMENT = 16


def require(condition: bool, message: str) -> None:
    """Raise InternalError with the message unless the condition holds."""
    if not condition:
        raise InternalError(message)


def require_live(*things: Any) -> None:
    """Raise InternalError when an object was closed."""
    for thing in things:
        require(bool(thing.handle), f"{thing!r} is used after close()")


def check_ranges(profile: Profile, buffers: int, ranges: Sequence[tuple[Any, int, int]]) -> None:
    """Check what a descriptor set is pointed at: the argument buffer and `buffers` bound buffers."""
    require(
        len(ranges) == buffers + 1,
        f"a descriptor set of {buffers + 1} bindings is written with {len(ranges)} ranges",
    )
    limit = profile.limits.max_storage_range
    for binding, (buffer, offset, size) in enumerate(ranges):
        require_live(buffer)
        where = f"binding {binding}: offset {offset}, size {size} of {buffer!r}"
        require(size > 0 and offset >= 0 and offset + size <= buffer.size, f"{where} is outside the buffer")
        alignment = profile.limits.offset_alignment if binding else profile.limits.uniform_alignment
        require(offset % alignment == 0, f"{where}: offsets are multiples of {alignment}")
        require(size <= limit, f"{where}: the device's storage range is {limit}")


class CheckedCommands:
    """A command buffer whose every call is checked, then passed on; the same interface as what it wraps."""

    def __init__(self, commands: Any, profile: Profile) -> None:
        self.commands = commands
        self.profile = profile
        self.state = "initial"
        self.submissions = 0
        self._one_time = False
        self._pipeline: Any = None
        self._pushed = 0
        self._set_buffers: int | None = None
        self._uses: dict[int, Any] = {}

    @property
    def handle(self) -> Any:
        """The wrapped command buffer's handle."""
        return self.commands.handle

    def require_submittable(self) -> None:
        """Raise InternalError unless the recording is finished and all that it uses still exists."""
        require_live(self)
        require(self.state == "executable", f"a command buffer is submitted in the {self.state} state")
        require(not (self._one_time and self.submissions), "a one-time recording is submitted twice")
        require_live(*self._uses.values())
        self.submissions += 1

    def begin(self, one_time: bool = False) -> None:
        """Start recording."""
        require_live(self)
        require(self.state != "recording", "begin() while recording: end() or reset() first")
        self.commands.begin(one_time)
        self._clear("recording")
        self._one_time = one_time

    def end(self) -> None:
        """Finish recording."""
        self._recording("end")
        self.commands.end()
        self.state = "executable"

    def reset(self) -> None:
        """Drop the recording."""
        require_live(self)
        self.commands.reset()
        self._clear("initial")

    def _clear(self, state: str) -> None:
        self.state, self.submissions, self._one_time = state, 0, False
        self._pipeline, self._pushed, self._set_buffers = None, 0, None
        self._uses.clear()

    def _recording(self, call: str, *used: Any) -> None:
        require(self.state == "recording", f"{call}() in the {self.state} state: begin() first")
        require_live(self, *used)
        for thing in used:
            self._uses[id(thing)] = thing

    def _grid(self, groups: Sequence[int]) -> None:
        most = self.profile.limits.max_groups
        require(len(groups) == 3, f"a grid has three extents, not {len(groups)}")
        require(
            all(0 <= g <= m for g, m in zip(groups, most, strict=True)),
            f"a grid of {tuple(groups)} exceeds {most}",
        )

    def dispatch_address(self, pipeline: Any, block_address: int, groups: tuple[int, int, int]) -> None:
        """Run a kernel whose argument block lies at an address."""
        self._recording("dispatch_address", pipeline)
        require(pipeline.addressing == "address", f"{pipeline!r} takes no addresses")
        require(block_address > 0, f"{pipeline!r}: the argument block has no address")
        require(
            block_address % BLOCK_ALIGNMENT == 0,
            f"{pipeline!r}: the block is not aligned to {BLOCK_ALIGNMENT} bytes",
        )
        self._grid(groups)
        self._pipeline, self._pushed = pipeline, PUSH_BYTES["address"]
        self.commands.dispatch_address(pipeline, block_address, groups)

    def dispatch_descriptor(self, pipeline: Any, descriptor_set: int, groups: tuple[int, int, int]) -> None:
        """Run a kernel whose argument block is at binding 0 of the set."""
        self._recording("dispatch_descriptor", pipeline)
        require(pipeline.addressing == "descriptor", f"{pipeline!r} takes no descriptors")
        require(descriptor_set != 0, f"{pipeline!r}: no descriptor set")
        self._grid(groups)
        self._pipeline, self._pushed, self._set_buffers = pipeline, PUSH_BYTES["descriptor"], pipeline.buffers
        self.commands.dispatch_descriptor(pipeline, descriptor_set, groups)

    def bind(self, pipeline: Any) -> None:
        """Make a pipeline current."""
        self._recording("bind", pipeline)
        self._pipeline = pipeline
        self.commands.bind(pipeline)

    def push(self, pipeline: Any, data: bytes) -> None:
        """Set the push constants."""
        self._recording("push", pipeline)
        need = PUSH_BYTES[pipeline.addressing]
        require(need > 0, f"{pipeline!r} takes no push constants")
        require(len(data) == need, f"{pipeline!r} takes {need} bytes of push constants, not {len(data)}")
        self._pushed = len(data)
        self.commands.push(pipeline, data)

    def descriptors(self, pipeline: Any, descriptor_set: int) -> None:
        """Make a descriptor set current."""
        self._recording("descriptors", pipeline)
        require(pipeline.addressing == "descriptor", f"{pipeline!r} takes no descriptors")
        require(descriptor_set != 0, f"{pipeline!r}: no descriptor set")
        self._set_buffers = pipeline.buffers
        self.commands.descriptors(pipeline, descriptor_set)

    def dispatch(self, x: int, y: int = 1, z: int = 1) -> None:
        """Run the current pipeline."""
        self._recording("dispatch")
        pipeline = self._pipeline
        require(pipeline is not None, "dispatch() without a bound pipeline")
        require_live(pipeline)
        need = PUSH_BYTES[pipeline.addressing]
        require(
            self._pushed == need,
            f"{pipeline!r}: dispatch() with {self._pushed} of {need} bytes of push constants set",
        )
        if pipeline.addressing == "descriptor":
            require(
                self._set_buffers == pipeline.buffers,
                f"{pipeline!r}: dispatch() without its descriptor set bound",
            )
        self._grid((x, y, z))
        self.commands.dispatch(x, y, z)

    def barrier(self, kind: str = "compute") -> None:
        """Order what comes after behind what came before."""
        self._recording("barrier")
        require(kind in BARRIERS, f"barrier kind {kind!r} is none of {', '.join(BARRIERS)}")
        self.commands.barrier(kind)

    def copy(self, source: Any, source_offset: int, target: Any, target_offset: int, size: int) -> None:
        """Copy bytes."""
        self._recording("copy", source, target)
        for buffer, offset in ((source, source_offset), (target, target_offset)):
            inside = size > 0 and offset >= 0 and offset + size <= buffer.size
            require(inside, f"copy of {size} bytes at {offset} is outside {buffer!r}")
        overlap = source is target and abs(source_offset - target_offset) < size
        require(not overlap, f"copy of {size} bytes from {source_offset} to {target_offset} overlaps itself")
        self.commands.copy(source, source_offset, target, target_offset, size)

    def fill(self, buffer: Any, offset: int, size: int, word: int) -> None:
        """Fill with a 32-bit pattern."""
        self._recording("fill", buffer)
        inside = size > 0 and offset >= 0 and offset + size <= buffer.size
        require(inside, f"fill of {size} bytes at {offset} is outside {buffer!r}")
        require(
            offset % 4 == 0 and size % 4 == 0, f"fill of {size} bytes at {offset}: both are multiples of 4"
        )
        require(0 <= word < 1 << 32, f"fill pattern {word} is no 32-bit word")
        self.commands.fill(buffer, offset, size, word)

    def reset_queries(self, pool: Any, first: int, count: int) -> None:
        """Make timestamps writable again."""
        self._recording("reset_queries", pool)
        inside = first >= 0 and count > 0 and first + count <= pool.count
        require(inside, f"queries {first} to {first + count - 1} of a pool of {pool.count}")
        self.commands.reset_queries(pool, first, count)

    def timestamp(self, pool: Any, index: int) -> None:
        """Write a timestamp."""
        self._recording("timestamp", pool)
        require(0 <= index < pool.count, f"query {index} of a pool of {pool.count}")
        self.commands.timestamp(pool, index)

    def close(self) -> None:
        """Free the command buffer."""
        self.commands.close()
        self._clear("closed")
