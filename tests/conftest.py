"""Tiers, the slice of the test matrix, and the engines that tests run on. `tests/README.md` says how to use them."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Read by `oa.config` at import and by the drivers when they are loaded, hence set before anything else is imported.
os.environ.setdefault("OA_QUIET", "1")
os.environ.setdefault("LP_NUM_THREADS", "0")
# SciPy reads it when it is imported, and scikit-learn dispatches only where it is set.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Oracles are small: a thread pool for each worker would spend its time waiting for cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
CACHE = tempfile.mkdtemp(prefix="oa-test-cache-")
os.environ["OA_CACHE_DIR"] = CACHE

import hypothesis
import pytest

from tests import ledger
from tests.pairwise import cover

TIERS = ("null", "device", "compile", "model", "leak", "fuzz", "attacks", "oracle")

#: Name -> (profile, addressing). Results are the same in all.
CONFIGURATIONS: dict[str, tuple[str, str | None]] = {
    "strict-address": ("strict", "address"),
    "strict-descriptor": ("strict", "descriptor"),
    "compat": ("compat", None),
}

hypothesis.settings.register_profile(
    "slice", derandomize=True, deadline=None, database=None, max_examples=50, print_blob=True
)
hypothesis.settings.register_profile("all", parent=hypothesis.settings.get_profile("slice"), max_examples=500)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("oa")
    group.addoption(
        "--all", action="store_true", help="the whole matrix, tests marked slow, and a record for the ledger"
    )
    group.addoption(
        "--ledger", action="store_true", help="a record for the ledger of whatever part of the matrix runs"
    )
    group.addoption("--seed", type=int, default=0, help="of the slice of the matrix (default 0)")
    group.addoption(
        "--device",
        default=os.environ.get("OA_DEVICE", "").strip() or "auto",
        help="what tests run on: auto, gpu, cpu, an index, a UUID or part of a name (default OA_DEVICE, else auto)",
    )


def pytest_configure(config: pytest.Config) -> None:
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: the tests of tests/{tier}/ (set by the folder)")
    config.addinivalue_line("markers", "slow: runs only with --all")
    config.addinivalue_line("markers", "whole: a matrix that is never sliced")
    hypothesis.settings.load_profile("all" if config.getoption("--all") else "slice")
    if config.getoption("--all") or config.getoption("--ledger"):
        ledger.register(config)


def pytest_unconfigure() -> None:
    shutil.rmtree(CACHE, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        tier = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        if tier in TIERS:
            item.add_marker(tier)
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    if not config.getoption("--all"):
        keep = _slice(items, config.getoption("--seed"))
        dropped = [item for item in items if item not in keep]
        items[:] = [item for item in items if item in keep]
        config.hook.pytest_deselected(items=dropped)


def pytest_collection_finish() -> None:
    """Leave what collection made out of garbage collections, of which tests of memory make thousands: each would walk it all."""
    gc.collect()
    gc.freeze()


def _group(item: pytest.Item) -> str:
    """Tests that share an engine run on one worker; all others are free to run anywhere."""
    names = getattr(item, "fixturenames", ())
    if "engine" in names or "any_engine" in names:
        return f"{item.path.stem}-{_indices(item).get('engine', 0)}"
    return item.nodeid


def _indices(item: pytest.Item) -> dict[str, int]:
    call = getattr(item, "callspec", None)
    return dict(call.indices) if call is not None else {}


def _slice(items: list[pytest.Item], seed: int) -> set[pytest.Item]:
    """What is left of each test function's matrix when only every pair of parameters must meet."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    keep: set[pytest.Item] = set()
    for cases in functions.values():
        if cases[0].get_closest_marker("whole") is not None:
            keep.update(cases)
        else:
            keep.update(cases[index] for index in cover([_row(case) for case in cases], seed))
    return keep


def _row(item: pytest.Item) -> dict[str, str]:
    """The id that each stacked `parametrize` and parametrised fixture gives the item; indices of plain ones say nothing."""
    call = getattr(item, "callspec", None)
    return {f"axis{number}": name for number, name in enumerate(call._idlist)} if call is not None else {}


#: The message list of every Vulkan instance opened in this process, in the order of opening.
_message_lists: list[list[str]] = []


@pytest.fixture(scope="session", autouse=True)
def _watch_instances() -> Iterator[None]:
    """Remember the messages of every Vulkan instance, also of those that a test opens by itself."""
    from oa._vk.instance import Instance

    plain = Instance.__init__

    def watched(self: Instance, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        _message_lists.append(self.messages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Instance, "__init__", watched)
        yield


def _expect_silence() -> None:
    said = [message for messages in _message_lists for message in messages]
    for messages in _message_lists:
        messages.clear()  # so that the next test is not blamed
    if said:
        pytest.fail(f"the validation layer said {len(said)} things, first: {said[0]}", pytrace=False)


@pytest.fixture(autouse=True)
def _validation_is_silent(_watch_instances: None) -> Iterator[None]:
    """Fail a test during which the validation layer speaks. One that means to provoke it empties `Instance.messages`."""
    yield
    _expect_silence()


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """True with --all: for tests that choose their own number of iterations."""
    return bool(request.config.getoption("--all"))


@pytest.fixture(scope="session")
def device_name(request: pytest.FixtureRequest) -> str:
    """What `oa.Engine(device=...)` is asked for in this run."""
    return str(request.config.getoption("--device"))


def _open(device: str, configuration: str) -> Any:
    import oa

    profile, addressing = CONFIGURATIONS[configuration]
    return oa.Engine(device=device, profile=profile, addressing=addressing)


@pytest.fixture(scope="module", params=list(CONFIGURATIONS))
def engine(request: pytest.FixtureRequest, device_name: str) -> Iterator[Any]:
    """An engine in each of the three configurations, shared by the tests of a module."""
    with _open(device_name, request.param) as opened:
        yield opened
    _expect_silence()  # about what closing destroys


@pytest.fixture(scope="module")
def any_engine(device_name: str) -> Iterator[Any]:
    """An engine as a user gets it, for tests that do not depend on the configuration."""
    import oa

    with oa.Engine(device=device_name) as opened:
        yield opened
    _expect_silence()
