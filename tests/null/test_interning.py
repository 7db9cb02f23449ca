"""Tables that forget: interned objects live while they are used, caches hold at most so many."""

from __future__ import annotations

import gc

from oa._schema import scalar as sc
from oa._schema.dtype import float32, int32
from oa._schema.interning import Interned, Recent
from oa._schema.op import INSTANCES
from oa._schema.spec import _SPECS, spec


class Thing:
    """Something that can be referred to weakly."""


def test_interned_objects_live_while_they_are_used_and_numbers_are_never_used_again() -> None:
    table: Interned[Thing] = Interned()
    first = Thing()
    number = table.add("a", first)
    entry = table.lookup("a")
    assert entry is not None and entry() is first and len(table) == 1
    del first
    gc.collect()
    assert table.lookup("a") is None and len(table) == 0
    second, third = Thing(), Thing()
    assert len({number, table.add("a", second), table.add("b", third)}) == 3


def test_an_object_that_took_a_dead_ones_key_is_not_forgotten_with_it() -> None:
    table: Interned[Thing] = Interned()
    old, new = Thing(), Thing()
    table.add("a", old)
    table.add("a", new)
    del old
    gc.collect()
    entry = table.lookup("a")
    assert entry is not None and entry() is new


def test_specs_and_scalars_are_one_object_while_anybody_holds_them() -> None:
    held = spec(float32, (3, 977))
    assert spec(float32, (3, 977)) is held and spec(int32, (3, 977)) is not held
    before = len(_SPECS)
    for extent in range(10_000, 10_100):
        spec(float32, (extent,))
    assert len(_SPECS) == before
    one = sc.apply("add", sc.arg(0, float32), sc.const(977.0, float32))
    assert sc.apply("add", sc.arg(0, float32), sc.const(977.0, float32)) is one
    size = len(sc._INTERNED)
    for k in range(100):
        sc.apply("add", one, sc.const(1000.0 + k, float32))
    assert len(sc._INTERNED) == size
    deep = one
    for _ in range(50_000):  # taken apart without deep recursion
        deep = sc.apply("neg", deep)
    del deep
    assert len(sc._INTERNED) == size


def test_a_full_cache_forgets_its_oldest_quarter() -> None:
    cache: Recent[int, int] = Recent(8)
    for k in range(8):
        cache[k] = k
    cache[3] = 33
    assert len(cache) == 8 and cache[3] == 33
    cache[8] = 8
    assert list(cache) == [2, 3, 4, 5, 6, 7, 8]
    for k in range(9, 1000):
        cache[k] = k
        assert len(cache) <= 8 and k in cache
    one: Recent[int, int] = Recent(1)
    one[1], one[2] = 1, 2
    assert list(one) == [2]
    assert INSTANCES > 100
