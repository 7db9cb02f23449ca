"""Choices that were measured on a device: opaque text for lowering to read, part of the device profile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping


class Tuned:
    """What was found fastest, by what it is for. Immutable; equal when the content is.

    Example:
        >>> Tuned({"matmul 4x4x4": "tiles"}).get("matmul 4x4x4")
        'tiles'
    """

    __slots__ = ("_choices", "digest")

    def __init__(self, choices: Mapping[str, str]) -> None:
        self._choices = dict(choices)
        text = "\n".join(f"{key}\t{self._choices[key]}" for key in sorted(self._choices))
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]  #: names the content

    def get(self, key: str) -> str | None:
        """The choice for `key`, None where nothing was measured."""
        return self._choices.get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tuned) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Tuned({len(self._choices)} choices, {self.digest})"


#: Nothing was measured: the cost models choose.
UNTUNED = Tuned({})
