"""What the reference says of dtypes is what the operations accept: `engine.supports` tries each."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import oa
from oa import reference
from oa._schema.dtype import ALL

#: Questions about dtypes and shapes, which take no operands, and operations that want particular ones.
NOT_TRIED = frozenset("broadcast_shapes can_cast finfo iinfo isdtype result_type linalg.cross".split())
NAMES = [
    e.name.removeprefix("matrix.")
    for e in reference.entries()
    if e.kinds and e.name.removeprefix("matrix.") not in NOT_TRIED
]


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_are_as_said(any_engine: Any, name: str) -> None:
    function = functools.reduce(getattr, name.split("."), oa if name.startswith("ml.") else oa.matrix)
    (entry,), single = reference.chosen(name)
    assert single
    said = {dtype for names in entry.devices().values() for dtype in names}
    tried = {d.name for d in ALL if any_engine.supports(d, function)}
    assert tried == {dtype for dtype in said if any_engine.supports(dtype)}
