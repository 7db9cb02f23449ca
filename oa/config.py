"""Every flag and environment variable, read once at import. Nothing else in the package reads the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def _flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def _cache_dir() -> Path:
    own = os.environ.get("OA_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "oa"


@dataclass(frozen=True)
class Config:
    """The environment as `oa` sees it."""

    device: str  #: OA_DEVICE: what `Engine(device="auto")` asks for.
    profile: str | None  #: OA_PROFILE: "strict" or "compat".
    addressing: str | None  #: OA_ADDRESSING: "address" or "descriptor".
    check: bool  #: OA_CHECK: run each new plan unfused too and name the first operation that differs.
    show: bool  #: OA_SHOW: print each newly lowered plan to stderr.
    validate: bool  #: OA_VALIDATE: load the Khronos validation layer.
    quiet: bool  #: OA_QUIET: no notice about a software device.
    selftest: bool  #: OA_SELFTEST=0 skips the known-answer self-test at the first engine on a driver.
    cache_dir: Path  #: OA_CACHE_DIR, else XDG_CACHE_HOME/oa, else ~/.cache/oa.


def read() -> Config:
    """Read the environment now."""
    return Config(
        device=os.environ.get("OA_DEVICE", "auto"),
        profile=os.environ.get("OA_PROFILE") or None,
        addressing=os.environ.get("OA_ADDRESSING") or None,
        check=_flag("OA_CHECK"),
        show=_flag("OA_SHOW"),
        validate=_flag("OA_VALIDATE"),
        quiet=_flag("OA_QUIET"),
        selftest=os.environ.get("OA_SELFTEST", "1") != "0",
        cache_dir=_cache_dir(),
    )


#: The configuration of this process.
CONFIG = read()
