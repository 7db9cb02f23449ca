"""The environment, read once: what empty, relative and missing variables mean."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from oa import config


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OA_DEVICE", "OA_CACHE_DIR", "XDG_CACHE_HOME", "OA_PROFILE", "OA_ADDRESSING"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "meant"), [(None, "auto"), ("", "auto"), ("  ", "auto"), ("cpu", "cpu"), (" gpu ", "gpu")]
)
def test_a_device_of_nothing_is_auto(monkeypatch: pytest.MonkeyPatch, given: str | None, meant: str) -> None:
    if given is not None:
        monkeypatch.setenv("OA_DEVICE", given)
    assert config.read().device == meant


def test_the_cache_is_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert config.read().cache_dir == Path("/home/somebody/.cache/oa")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert config.read().cache_dir == Path("/caches/oa")
    for given in ("", "caches", "./caches"):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert config.read().cache_dir == Path("/home/somebody/.cache/oa")
    monkeypatch.setenv("OA_CACHE_DIR", "here")
    assert config.read().cache_dir == Path("here")


@pytest.mark.parametrize("home", [None, "", "relative", "./relative", "~"])
def test_a_home_that_is_no_folder_is_looked_up(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    known = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert config.read().cache_dir == known / ".cache" / "oa"


def test_a_user_without_a_home_caches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    found = config.read().cache_dir
    assert found.is_absolute()
    with pytest.raises(OSError):
        found.mkdir(parents=True)
