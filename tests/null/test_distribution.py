"""What is shipped: one pure Python wheel with its data files, installable and importable away from the checkout."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from oa._version import __version__
from tools.project import ROOT

#: Modules that `import oa` must leave alone: the driver binding, and libraries that only some users need.
HEAVY = ("cffi", "_cffi_backend", "oa._vk", "matplotlib", "PIL", "rich", "safetensors", "numpy.testing")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(out)], cwd=ROOT, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def run_away(wheel: Path, tmp_path: Path, code: str) -> str:
    """Run code with the unpacked wheel as the only source of `oa`."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); "
    done = subprocess.run(
        [sys.executable, "-c", start + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_pure_small_and_complete(wheel: Path) -> None:
    assert wheel.name == f"oapython-{__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 2_000_000
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in sorted((ROOT / "oa").rglob("*")):
        if path.suffix in {".py", ".toml", ".pack", ".slang"} or path.name == "py.typed":
            assert path.relative_to(ROOT).as_posix() in names
    assert "oa/py.typed" in names
    strangers = {name for name in names if not name.startswith(("oa/", "oapython-"))}
    assert not strangers
    assert not {name for name in names if name.endswith((".so", ".pyc", ".spv"))}


def test_the_metadata_says_what_the_project_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = f"oapython-{__version__}.dist-info"
        fields = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        scripts = archive.read(f"{folder}/entry_points.txt").decode()
    assert fields["Name"] == "oapython"
    assert fields["Version"] == __version__
    assert fields["License-Expression"] == "BUSL-1.1"
    assert fields["Requires-Python"] == ">=3.10"
    needed = [item.split(";")[0] for item in fields.get_all("Requires-Dist") or () if "extra ==" not in item]
    assert sorted(item.split("<")[0].split(">")[0] for item in needed) == ["cffi", "numpy", "tomli"]
    assert "oa = oa.__main__:main" in scripts


def test_import_loads_no_driver_and_no_heavy_library(wheel: Path, tmp_path: Path) -> None:
    code = f"import oa; print(oa.__file__); print([name for name in {HEAVY!r} if name in sys.modules])"
    where, loaded = run_away(wheel, tmp_path, code).splitlines()
    assert Path(where).is_relative_to(tmp_path)
    assert loaded == "[]"
