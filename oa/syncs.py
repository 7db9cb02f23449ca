"""Hidden reads: where a Python construct makes the host wait for the device. An engine reports them when asked to."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from oa.errors import ArgumentError, SyncWarning

_PACKAGE = __name__.partition(".")[0]
#: What to write instead, by construct; for others what reads openly.
_MENDS = {
    "print": "print x.to_numpy(), or x.shape and x.dtype",
    "iteration": "use oa.matrix.unstack, or iterate over x.to_numpy()",
    "numpy": "write x.to_numpy()",
    "pickle": "pickle x.to_numpy()",
}


def user_frame() -> FrameType:
    """The innermost frame outside the package."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE and frame.f_back is not None:
        frame = frame.f_back
    return frame


class Syncs:
    """The part of an Engine that reports hidden reads."""

    _warns_on_sync = False

    @property
    def is_recording(self) -> bool:
        """Whether a capture is open."""
        raise NotImplementedError

    @property
    def warn_on_sync(self) -> bool:
        """Whether reads that no method names are reported: `float(x)`, `int`, `bool` (`if x:`), indices, `print`, iteration,
        NumPy conversions, pickling, and shapes that depend on data. Off by default.

        Each report is an `oa.errors.SyncWarning` at the line of the user's code, so that the filters of `warnings` apply: once a
        line by default, an exception with `warnings.simplefilter("error", oa.errors.SyncWarning)`. `to_numpy`, `tolist`, `item`
        and the like are meant, and never reported.

        Raises:
            ArgumentError: set to something that is neither True nor False.

        Example:
            >>> import warnings
            >>> engine.warn_on_sync = True
            >>> with warnings.catch_warnings(record=True) as said:
            ...     total = float(oa.matrix.ones(engine, 3).sum())
            >>> engine.warn_on_sync = False
            >>> str(said[0].message).startswith("float() waits for the device")
            True
        """
        return self._warns_on_sync

    @warn_on_sync.setter
    def warn_on_sync(self, on: bool) -> None:
        if not isinstance(on, bool):
            raise ArgumentError(f"engine.warn_on_sync is {on!r}; wanted True or False")
        self._warns_on_sync = on

    def report_sync(self, construct: str, value: Any) -> None:
        """Warn that `construct` is about to read a value (`oa.matrix.Matrix` calls this)."""
        if self.is_recording or value.host is not None:  # refused anyway; or at hand, from an earlier read
            return
        frame = user_frame()
        mend = _MENDS.get(construct, "keep computing with values, or read openly with x.item()")
        message = f"{construct} waits for the device to read {value.spec!r}; {mend}"
        warnings.warn_explicit(
            SyncWarning(message),
            None,
            frame.f_code.co_filename,
            frame.f_lineno,
            module=frame.f_globals.get("__name__"),
            registry=frame.f_globals.setdefault("__warningregistry__", {}),
        )


__all__ = ["Syncs", "user_frame"]
