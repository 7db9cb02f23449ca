"""The place of the largest and smallest element of long rows, which are looked through in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oa import matrix as m

#: Around powers of two, with and without a rest behind whole parts.
LENGTHS = (32_767, 32_768, 65_537, 131_080, 1_000_003)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
def test_every_place_of_a_long_row_counts(engine: Any, length: int, dtype: str) -> None:
    x = np.zeros(length, dtype)
    for place in (length - 1, length // 2, 0):
        x[:] = 0
        x[place] = 7
        held = m.from_numpy(engine, x)
        assert m.argmax(held).item() == place
        assert m.argmin(-held).item() == place
        assert m.max(held).item() == m.sum(held).item() == 7
        assert m.count_nonzero(held).item() == 1 and m.any(held).item()


@pytest.mark.parametrize("length", [70_001, 300_000])
def test_a_long_column(engine: Any, length: int) -> None:
    x = np.zeros((length, 3), np.float32)
    x[length - 2, 0], x[length - 1, 1], x[5, 2] = 1, 2, -1
    held = m.from_numpy(engine, x)
    assert m.argmax(held, axis=0).tolist() == [length - 2, length - 1, 0]
    assert m.argmin(held, axis=0, keepdims=True).tolist() == [[0, 0, 5]]
    assert m.sum(held, axis=0).tolist() == [1.0, 2.0, -1.0]


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_first_of_equals_and_nan_in_parts(engine: Any, keepdims: bool) -> None:
    for length in (32_768, 40_001):
        x = np.random.default_rng(length).integers(0, 5, (2, length)).astype(np.float32)
        held = m.from_numpy(engine, x)
        assert np.array_equal(
            m.argmax(held, axis=1, keepdims=keepdims).to_numpy(), x.argmax(1, keepdims=keepdims)
        )
        x[1, length - 7], x[1, length - 3], x[0, 9] = np.nan, np.nan, np.nan
        held = m.from_numpy(engine, x)
        for name in ("argmax", "argmin"):
            got = getattr(m, name)(held, axis=1, keepdims=keepdims).to_numpy()
            assert np.array_equal(got, getattr(x, name)(1, keepdims=keepdims))
        got = m.argmax(held, keepdims=keepdims).to_numpy()
        assert got.dtype == np.int32 and np.array_equal(got, x.argmax(keepdims=keepdims))
