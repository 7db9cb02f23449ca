"""The default engine: the innermost `with` block's, else one of the thread's own."""

from __future__ import annotations

import threading

import numpy as np

import oa
from oa import matrix as m


def test_a_block_makes_its_engine_the_default(device_name: str) -> None:
    with oa.Engine(device=device_name) as outer:
        assert oa.default_engine() is outer and m.ones(2).engine is outer
        with oa.Engine(device=device_name) as inner:
            assert oa.default_engine() is inner
            assert (m.asarray([1.0]) + m.from_numpy(np.ones(1, np.float32))).engine is inner
            assert m.__array_namespace_info__().default_device() is inner
        assert oa.default_engine() is outer
        outer.close()
        assert oa.default_engine() is not outer


def test_blocks_may_end_in_any_order(device_name: str) -> None:
    a, b = oa.Engine(device=device_name), oa.Engine(device=device_name)
    with a:
        b.__enter__()
    assert oa.default_engine() is b
    b.__exit__()
    assert oa.default_engine() not in (a, b)


def test_another_thread_has_another_default(device_name: str) -> None:
    found: list[bool] = []
    with oa.Engine(device=device_name) as engine:

        def look() -> None:
            mine = oa.default_engine()
            found.append(mine is not engine and oa.default_engine() is mine)
            mine.close()

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert found == [True]
