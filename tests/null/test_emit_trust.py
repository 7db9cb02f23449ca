"""The probe of native operations: it validates, accepts correct rounding and notices a single wrong bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oa._kernel.emit.trust import COUNT, judge, probe
from tests.null.emit_rig import validate


def right() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What a device gives that rounds everything correctly and fuses."""
    x, y, c = np.frombuffer(probe("descriptor").inputs, np.float32).reshape(3, COUNT)
    wide = c.astype(np.float64) ** 2
    return np.stack([x / y, np.sqrt(x), (wide - (c * c).astype(np.float64)).astype(np.float32)])


@pytest.mark.parametrize("addressing", ["address", "descriptor"])
def test_validates(addressing: str, tmp_path: Path) -> None:
    trial = probe(addressing)
    validate(trial.words, tmp_path)
    assert len(trial.inputs) == trial.output_bytes == 12 * COUNT


def test_correct_rounding_is_trusted() -> None:
    assert judge(right().tobytes()) == {"fdiv", "fsqrt", "ffma"}


@pytest.mark.parametrize("row,name", [(0, "fdiv"), (1, "fsqrt"), (2, "ffma")])
def test_one_wrong_bit_loses_trust(row: int, name: str) -> None:
    answer = right()
    answer.view(np.uint32)[row, 1234] ^= 1
    assert name not in judge(answer.tobytes()) and len(judge(answer.tobytes())) == 2


def test_quotients_by_reciprocal_are_not_trusted() -> None:
    x, y, _ = np.frombuffer(probe("address").inputs, np.float32).reshape(3, COUNT)
    answer = right()
    answer[0] = x * (np.float32(1) / y)
    answer[2] = 0
    assert judge(answer.tobytes()) == {"fsqrt"}


def test_inputs_are_normal_and_so_are_their_quotients() -> None:
    values = np.frombuffer(probe("address").inputs, np.float32)
    assert (np.abs(values) >= 2.0**-126).all() and np.isfinite(values).all()
    quotients = right()[0]
    assert (quotients >= 2.0**-126).all() and np.isfinite(quotients).all()
