"""Hidden reads are reported with the user's line, once asked for; reads that say so, and what needs none, never are."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa.errors import SyncWarning


@pytest.fixture
def watched(any_engine: Any) -> Iterator[Any]:
    any_engine.warn_on_sync = True
    yield any_engine
    any_engine.warn_on_sync = False


def reports(action: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        action()
    return [w for w in said if issubclass(w.category, SyncWarning)]


def pending(engine: Any, dtype: str = "float32") -> Any:
    return m.ones(engine, (1,), dtype=dtype) + 1


HIDDEN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "float": (r"float\(\)", lambda e: float(pending(e))),
    "int": (r"int\(\)", lambda e: int(pending(e))),
    "complex": (r"complex\(\)", lambda e: complex(pending(e))),
    "bool": (r"bool\(\)", lambda e: bool(pending(e))),
    "if": (r"bool\(\)", lambda e: 1 if pending(e) > 0.0 else 2),
    "index": ("an index", lambda e: [1, 2, 3, 4][m.reshape(pending(e, "int32"), ())]),
    "range": ("an index", lambda e: range(m.reshape(pending(e, "int32"), ()))),
    "repr": ("print", lambda e: repr(pending(e))),
    "format": ("print", lambda e: f"{pending(e)}"),
    "print": ("print", lambda e: print(pending(e))),
    "iteration": ("iteration", lambda e: [row.shape for row in pending(e)]),
    "unpacking": ("iteration", lambda e: (lambda a: a)(*pending(e))),
    "asarray": ("numpy", lambda e: np.asarray(pending(e))),
    "pickle": ("pickle", lambda e: pickle.dumps(pending(e))),
    "nonzero": (r"matrix\.nonzero", lambda e: m.nonzero(pending(e))),
    "mask": ("index by a bool value", lambda e: pending(e)[pending(e) > 0.0]),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_reads_are_reported(watched: Any, name: str) -> None:
    what, action = HIDDEN[name]
    said = reports(lambda: action(watched))
    assert len(said) == 1, [str(w.message) for w in said]
    assert said[0].filename == __file__
    assert said[0].lineno == inspect.getsourcelines(action)[1]
    with pytest.warns(SyncWarning, match=rf"^{what} waits for the device to read .*\[.*\]; "):
        warnings.warn(said[0].message)
    watched.warn_on_sync = False
    assert not reports(lambda: action(watched))


OPEN: dict[str, Callable[[Any], Any]] = {
    "to_numpy": lambda e: pending(e).to_numpy(),
    "tolist": lambda e: pending(e).tolist(),
    "to_list": lambda e: pending(e).to_list(),
    "item": lambda e: pending(e).item(),
    "read_f32": lambda e: pending(e).read_f32(),
    "wait": lambda e: (pending(e), e.wait()),
    "shape": lambda e: (pending(e).shape, len(pending(e))),
    "arithmetic": lambda e: m.where(pending(e) > 0.0, pending(e), 1.0)[0:1],
    "unstack": lambda e: m.unstack(pending(e)),
    "deepcopy": lambda e: copy.deepcopy(pending(e)),
    "sized nonzero": lambda e: m.nonzero(pending(e), size=1),
}


@pytest.mark.parametrize("name", OPEN)
def test_open_reads_are_not(watched: Any, name: str) -> None:
    assert not reports(lambda: OPEN[name](watched))


def test_rows_at_hand_are_read_once(watched: Any) -> None:
    x = m.arange(watched, 5)
    assert len(reports(lambda: [int(row) for row in x])) == 1


def test_a_line_is_reported_once_by_default_and_may_raise(watched: Any) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(5):
            float(pending(watched))
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", SyncWarning)
        with pytest.raises(SyncWarning, match="float"):
            float(pending(watched))


def test_nothing_is_said_inside_a_capture(watched: Any) -> None:
    def reading() -> Any:
        return float(pending(watched))

    def action() -> None:
        with pytest.raises(oa.errors.CaptureError):
            watched.capture(reading)

    assert not reports(action)


def test_it_is_off_at_first_and_a_bool(any_engine: Any) -> None:
    with oa.Engine(device=any_engine.device.snapshot.uuid) as other:
        assert other.warn_on_sync is False
    with pytest.raises(oa.errors.ArgumentError, match="wanted True or False"):
        any_engine.warn_on_sync = "yes"
