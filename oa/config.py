"""Every flag and environment variable, read once at import. Nothing else in the package reads the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

try:
    import pwd
except ImportError:  # Windows
    pwd = None  # type: ignore[assignment]


def _flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def _cache_dir() -> Path:
    """Relative folders in the XDG variable and in HOME count as unset, as the XDG base directory specification asks."""
    own = os.environ.get("OA_CACHE_DIR")
    if own:
        return Path(own)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else _home() / ".cache") / "oa"


def _home() -> Path:
    """The user's folder; where nothing says which it is, one that cannot exist, so that nothing is cached."""
    given = Path(os.environ.get("HOME", ""))
    if given.is_absolute():
        return given
    try:
        found = Path(os.path.expanduser("~") if pwd is None else pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a user that the system does not know, as in some containers
        found = given
    return found if found.is_absolute() else Path(os.devnull)


@dataclass(frozen=True)
class Config:
    """The environment as `oa` sees it."""

    device: str  #: OA_DEVICE: what `Engine(device="auto")` asks for.
    profile: str | None  #: OA_PROFILE: "strict" or "compat".
    addressing: str | None  #: OA_ADDRESSING: "address" or "descriptor".
    check: bool  #: OA_CHECK: run each new plan unfused too and name the first operation that differs.
    without: frozenset[str]  #: OA_WITHOUT: passes of the lowering to leave out, as "epilogue,siblings".
    show: bool  #: OA_SHOW: print each newly lowered plan to stderr.
    validate: bool  #: OA_VALIDATE: load the Khronos validation layer.
    quiet: bool  #: OA_QUIET: no notice about a software device.
    selftest: bool  #: OA_SELFTEST=0 skips the known-answer self-test at the first engine on a driver.
    tune: bool  #: OA_TUNE: measure variants and schedules when a plan first needs them, and keep the choices.
    numeric: str  #: OA_NUMERIC: "stable", "deterministic" or "fast", what `Engine(numeric=None)` takes.
    cache_dir: Path  #: OA_CACHE_DIR, else XDG_CACHE_HOME/oa, else ~/.cache/oa.


def read() -> Config:
    """Read the environment now."""
    return Config(
        device=os.environ.get("OA_DEVICE", "").strip() or "auto",
        profile=os.environ.get("OA_PROFILE") or None,
        addressing=os.environ.get("OA_ADDRESSING") or None,
        check=_flag("OA_CHECK"),
        without=frozenset(filter(None, os.environ.get("OA_WITHOUT", "").split(","))),
        show=_flag("OA_SHOW"),
        validate=_flag("OA_VALIDATE"),
        quiet=_flag("OA_QUIET"),
        selftest=os.environ.get("OA_SELFTEST", "1") != "0",
        tune=_flag("OA_TUNE"),
        numeric=os.environ.get("OA_NUMERIC", "").strip() or "stable",
        cache_dir=_cache_dir(),
    )


#: The configuration of this process.
CONFIG = read()
