"""Calling Vulkan: structures, bound function pointers, checked results, and the count of live objects."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oa import errors
from oa._vk import constants as c
from oa._vk.cdef import ffi

NULL: Any = ffi.NULL

#: Live Vulkan objects of this process by kind. Only creation and destruction in `oa._vk` change it.
_LIVE: Counter[str] = Counter()


def counts() -> dict[str, int]:
    """Live Vulkan objects by kind ("buffer", "memory", "pipeline", ...); kinds with none are left out.

    Example: a leak test takes `counts()` before and after and compares.
    """
    return {kind: number for kind, number in sorted(_LIVE.items()) if number}


def created(kind: str, number: int = 1) -> None:
    """Note that `number` objects of a kind came into being."""
    _LIVE[kind] += number


def destroyed(kind: str, number: int = 1) -> None:
    """Note that `number` objects of a kind are gone."""
    _LIVE[kind] -= number


def new(structure: str, **members: Any) -> Any:
    """A zeroed structure (owned by Python) with sType and the given members set.

    Pointers stored in it do not keep their targets alive: the caller does, until the call returns.
    """
    made = ffi.new(f"{structure} *")
    kind = c.STRUCTURE_TYPE.get(structure)
    if kind is not None:
        made.sType = kind
    for name, value in members.items():
        setattr(made, name, value)
    return made


def new_array(structure: str, count: int) -> Any:
    """An array of zeroed structures with sType set."""
    made = ffi.new(f"{structure}[]", count)
    kind = c.STRUCTURE_TYPE[structure]
    for index in range(count):
        made[index].sType = kind
    return made


def text(array: Any) -> str:
    """A fixed-size C character array or string as text; drivers that write bad UTF-8 lose those characters only."""
    return ffi.string(array).decode("utf-8", "replace") if array else ""


def pick(array: Any, count: int) -> list[Any]:
    """The first `count` elements of a C array as a list."""
    return [array[index] for index in range(count)]


def result_name(code: int) -> str:
    """The VK_ name of a VkResult."""
    return c.RESULT.get(code, f"VkResult {code}")


def failure(code: int, what: str, *, requested: int = 0) -> errors.OaError:
    """The error that stands for a failed VkResult; `what` says in words what was being done."""
    name = result_name(code)
    if code in (c.VK_ERROR_OUT_OF_DEVICE_MEMORY, c.VK_ERROR_OUT_OF_HOST_MEMORY):
        side = "device" if code == c.VK_ERROR_OUT_OF_DEVICE_MEMORY else "host"
        size = f" ({requested} bytes)" if requested else ""
        return errors.OutOfMemory(
            f"{what}{size}: the driver is out of {side} memory ({name})", requested=requested
        )
    if code == c.VK_ERROR_TOO_MANY_OBJECTS:
        return errors.OutOfMemory(
            f"{what}: the driver's limit on live allocations is reached ({name})", requested=requested
        )
    if code == c.VK_ERROR_DEVICE_LOST:
        return errors.DeviceLost(f"{what}: the device stopped answering ({name}); make a new Engine")
    if code == c.VK_ERROR_INCOMPATIBLE_DRIVER:
        return errors.DriverNotFound(f"{what}: no Vulkan driver could be used ({name}); run `oa doctor`")
    return errors.VulkanError(f"{what}: the driver answered {name}", code=code, name=name)


def check(code: int, what: str) -> None:
    """Raise the error of a VkResult that is not a success."""
    if code < 0:
        raise failure(code, what)


def enumerate_all(call: Callable[[Any, Any], int | None], kind: str, what: str) -> list[Any]:
    """Run Vulkan's two-call idiom: `call(count, NULL)`, then `call(count, array)`, again while the answer grows."""
    count = ffi.new("uint32_t *")
    structure_type = c.STRUCTURE_TYPE.get(kind)
    while True:
        check(call(count, NULL) or 0, what)
        array = ffi.new(f"{kind}[]", max(1, count[0]))
        if structure_type is not None:
            for index in range(count[0]):
                array[index].sType = structure_type
        code = call(count, array) or 0
        check(code, what)
        if code != c.VK_INCOMPLETE:
            # Elements of an array are views into it: the list keeps the array alive through `_Array`.
            return _Array(array, pick(array, count[0]))


class _Array(list[Any]):
    """A list of views into a C array that it keeps alive."""

    def __init__(self, owner: Any, items: Iterable[Any]) -> None:
        super().__init__(items)
        self.owner = owner


class Strings:
    """A `char **` for Vulkan together with the strings it points at."""

    def __init__(self, values: list[str]) -> None:
        self._values = [ffi.new("char[]", value.encode()) for value in values]
        self.pointer = ffi.new("char *[]", self._values) if values else NULL


class Functions:
    """Vulkan commands bound once as attributes named without the `vk` prefix: `functions.CmdDispatch(...)`.

    `spelling` maps a command to the name to look up (extension entry points of the compat profile). Commands named in
    `optional` may be absent: reaching for them then raises Unsupported.
    """

    def __init__(
        self,
        lookup: Callable[[bytes], Any],
        names: Iterable[str],
        *,
        spelling: Mapping[str, str] | None = None,
        optional: Iterable[str] = (),
    ) -> None:
        allowed = frozenset(optional)
        spelled = spelling or {}
        for name in names:
            pointer = lookup(spelled.get(name, name).encode())
            if pointer != NULL:
                setattr(self, name[2:], ffi.cast(f"PFN_{name}", pointer))
            elif name not in allowed:
                raise errors.DriverNotFound(
                    f"the Vulkan driver lacks {name}; update the driver, or run `oa doctor`"
                )

    def __getattr__(self, name: str) -> Any:
        raise errors.Unsupported(f"the Vulkan driver has no vk{name}")


#: This process, without a system call: for what happens at every submission. `os.fork` keeps it right.
process = os.getpid()


def _after_fork() -> None:
    global process
    process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class ProcessBound:
    """Remembers the process that made it. In a forked child, use is an error and closing does nothing."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def foreign(self) -> bool:
        """True in a process forked from the one that made this."""
        return os.getpid() != self.pid

    def require_own_process(self, what: str) -> None:
        """Raise ForkedProcess in a forked child."""
        if os.getpid() != self.pid:
            raise errors.ForkedProcess(
                f"{what} belongs to process {self.pid}, this is its fork {os.getpid()}: "
                "make an Engine in this process, or start workers with the spawn method"
            )
