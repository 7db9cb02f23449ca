"""Tables that do not grow without end: objects kept while somebody uses them, and caches that forget the oldest."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from itertools import count, islice
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Entry(weakref.ref[V], Generic[V]):
    """A weak reference that knows its key."""

    __slots__ = ("key",)
    key: Hashable


class Interned(Generic[V]):
    """One object for each key while anybody holds it. Objects need `__weakref__`; each new one takes a fresh number."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry[V]] = {}
        self._numbers = count()
        entries = self._entries

        def forget(entry: weakref.ref[V]) -> None:
            key = entry.key  # type: ignore[attr-defined]
            if entries.get(key) is entry:  # else another object has taken the key meanwhile
                del entries[key]

        self._forget = forget
        self.lookup = entries.get  #: key -> a weak reference, or None; a call less on hot paths

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Hashable, made: V) -> int:
        """Keep `made` under `key`, which no living object has; return its number, which no other ever has."""
        entry = _Entry(made, self._forget)
        entry.key = key
        self._entries[key] = entry
        return next(self._numbers)


class Recent(dict[K, V]):
    """A dictionary of at most `capacity` entries: when it is full, the oldest quarter goes."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self.capacity and key not in self:
            for old in list(islice(self, max(1, self.capacity // 4))):
                del self[old]
        super().__setitem__(key, value)
