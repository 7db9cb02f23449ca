"""Every way in which `oa` can refuse or fail, one class per kind.

A message says what was asked, what was found, what was wanted and how to mend it. Each class also derives from the built-in
exception that a NumPy user would expect, so `except ValueError` and `except MemoryError` keep working.
"""

from __future__ import annotations

import sys
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def user_line() -> str:
    """`file:line` of the innermost caller outside the package, or an empty string."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


class OaError(Exception):
    """Base of every error raised by `oa`. The message ends at the user's line."""

    def __init__(self, message: str = "") -> None:
        line = "" if " (at " in message else user_line()
        super().__init__(f"{message} (at {line})" if line else message)


class ShapeError(OaError, ValueError):
    """Shapes do not fit the operation."""


class DTypeError(OaError, TypeError):
    """A dtype is not accepted, or a mix of dtypes has no defined promotion."""


class AxisError(OaError, ValueError, IndexError):
    """An axis or index lies outside the value's rank or extent."""


class ArgumentError(OaError, ValueError):
    """An argument has the wrong kind or an impossible value."""


class CopyError(ArgumentError, BufferError):
    """`copy=False` was asked where the elements must move."""


class UfuncError(OaError, TypeError):
    """A NumPy function was called on an oa value; the message names the operation to use."""


class EngineMismatch(OaError, ValueError):
    """Values of two engines meet in one operation."""


class WrongThread(OaError, RuntimeError):
    """An engine is used from a thread other than the one that made it."""


class EngineClosed(OaError, RuntimeError):
    """The engine, or the session built on it, has been closed."""


class ForkedProcess(OaError, RuntimeError):
    """The engine belongs to the parent of a forked process."""


class CaptureError(OaError, RuntimeError):
    """Something that a capture does not allow, or a plan that cannot do what is asked."""


class TapeError(OaError, RuntimeError):
    """A gradient tape is closed, consumed, or was asked for what it did not record."""


class Unsupported(OaError, NotImplementedError):
    """The device lacks a capability; the message names it."""


class DriverNotFound(OaError, RuntimeError):
    """No usable Vulkan driver; the message says what to install."""


class DeviceNotFound(OaError, LookupError):
    """No device answers to the name; the message lists the valid ones."""


class OutOfMemory(OaError, MemoryError):
    """Device or host memory is exhausted. Carries the figures in bytes."""

    def __init__(self, message: str, *, requested: int = 0, free: int = 0, largest: int = 0) -> None:
        super().__init__(message)
        self.requested = requested
        self.free = free
        self.largest = largest


class AllocationLimit(OutOfMemory):
    """One allocation is larger than the device can ever give."""


class DeviceLost(OaError, RuntimeError):
    """The device stopped answering; the engine is closed and names what ran."""


class VulkanError(OaError, RuntimeError):
    """A Vulkan call failed for a reason that has no class of its own."""

    def __init__(self, message: str, *, code: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name


class FileFormatError(OaError, ValueError):
    """A file is truncated, corrupt, or of another kind or model than asked for."""


class SelfTestFailed(OaError, RuntimeError):
    """The device gives wrong answers in the known-answer self-test."""


class PoisonedValue(OaError, RuntimeError):
    """The value was never computed because an earlier operation failed; the cause is chained."""


class SyncWarning(UserWarning):
    """A Python construct that does not look like a read waited for the device; see `Engine.warn_on_sync`."""


class InternalError(OaError, RuntimeError):
    """An invariant of `oa` itself does not hold: please report it with the message."""
