"""What a family of kernels plans: dispatches over named operands."""

from __future__ import annotations

from dataclasses import dataclass

from oa._device import Profile
from oa._kernel.pack import Kernel
from oa.errors import Unsupported

__all__ = ["Launch", "grid"]


@dataclass(frozen=True)
class Launch:
    """One dispatch: `operands` name the kernel's buffers in binding order, `access` has "r", "w" or "rw" for each."""

    kernel: Kernel
    groups: tuple[int, int, int]
    operands: tuple[str, ...]
    access: tuple[str, ...]
    words: tuple[int, ...]


def grid(groups: int, profile: Profile, what: str) -> tuple[int, int, int]:
    """`groups` workgroups along x, then y: at least that many, as few more as the limits allow. Unsupported, saying `what`, where
    they allow fewer."""
    x_max, y_max, _ = profile.limits.max_groups
    y = -(-groups // x_max)
    if y > y_max or groups >= 1 << 32:
        raise Unsupported(
            f"{what}: {groups} workgroups, the device dispatches at most {x_max} x {y_max}: compute in parts"
        )
    return (-(-groups // y), y, 1)
