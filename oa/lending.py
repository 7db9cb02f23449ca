"""Values shared with CUDA's libraries on one device: the part of `oa.Engine` behind DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oa.errors import Unsupported

if TYPE_CHECKING:
    from oa._graph.node import Value
    from oa._run.pool import Storage
    from oa._run.sharing import Lent, Sharing


class Lending:
    """Lends stored values to CUDA and takes copies of what CUDA has."""

    _sharing: Sharing
    _cuda_ordinal: int | bool | None = False  # False: not asked yet

    def _check(self) -> None:
        """Refuse use that the engine does not allow now."""
        raise NotImplementedError

    def materialize(self, value: Value) -> None:
        """Make sure that the value is stored."""
        raise NotImplementedError

    def cuda_ordinal(self) -> int | None:
        """CUDA's number of this device, None where CUDA does not reach it. Opens CUDA at the first call on an NVIDIA device."""
        self._check()
        if self._cuda_ordinal is False:
            self._cuda_ordinal = None
            if self._sharing.possible:
                try:
                    self._cuda_ordinal = self._sharing.cuda.ordinal
                except Unsupported:
                    self._cuda_ordinal = None
        return self._cuda_ordinal

    def lend(self, value: Value, stream: int) -> Lent:
        """The value's storage for a consumer on a CUDA stream, which waits for what the value takes to compute."""
        self.materialize(value)
        value.storage, lent = self._sharing.lend(value.storage, stream)
        return lent

    def borrow(self, source: int, size: int, keep: Any) -> Storage:
        """A copy of `size` bytes at a CUDA address on this device; `keep` is held until the copy is made."""
        self._check()
        return self._sharing.borrow(source, size, keep)


__all__ = ["Lending"]
