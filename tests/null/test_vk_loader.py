"""Finding drivers: the manifest search, its environment variables, and what is said when there is nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from oa import errors
from oa._vk import loader, open_instance
from oa._vk.instance import explain
from tests.null.device_fixtures import package_tool


def manifest(folder: Path, name: str, library: str | None = "libdriver.so", **icd: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    content = {"file_format_version": "1.0.0", "ICD": {"api_version": "1.3.0", **icd}}
    if library is not None:
        content["ICD"]["library_path"] = library  # type: ignore[index]
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_the_search_follows_the_xdg_folders(tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path / "home"),
        "XDG_DATA_DIRS": f"{tmp_path}/a:{tmp_path}/b",
        "XDG_CONFIG_DIRS": str(tmp_path / "c"),
    }
    second = manifest(tmp_path / "b/vulkan/icd.d", "x.json")
    first = manifest(tmp_path / "a/vulkan/icd.d", "y.json")
    own = manifest(tmp_path / "home/.config/vulkan/icd.d", "z.json")
    config = manifest(tmp_path / "c/vulkan/icd.d", "w.json")
    found = [m.path for m in loader.manifests(env) if m.path.startswith(str(tmp_path))]
    assert found == [own, config, first, second]
    assert "/usr/share/vulkan/icd.d" in loader.manifest_folders({"HOME": "/root"})


def test_an_override_replaces_the_search(tmp_path: Path) -> None:
    one, two = manifest(tmp_path, "one.json"), manifest(tmp_path / "more", "two.json")
    env = {"VK_DRIVER_FILES": os.pathsep.join((one, str(tmp_path / "more"), "/nonexistent"))}
    assert [m.path for m in loader.manifests(env)] == [one, two, "/nonexistent"]
    assert loader.manifests(env)[-1].problem == "no such file"
    old = {"VK_ICD_FILENAMES": two}
    assert [m.path for m in loader.manifests(old)] == [two]
    assert loader.overridden({**env, **old}) == ("VK_DRIVER_FILES", env["VK_DRIVER_FILES"])
    assert loader.overridden({"VK_ICD_FILENAMES": ""}) == ("VK_ICD_FILENAMES", "")
    assert loader.manifests({"VK_DRIVER_FILES": ""}) == []
    assert loader.overridden({}) is None


def test_added_drivers_come_first(tmp_path: Path) -> None:
    extra = manifest(tmp_path, "extra.json")
    assert loader.manifests({"HOME": "/nonexistent", "VK_ADD_DRIVER_FILES": extra})[0].path == extra


def test_library_paths(tmp_path: Path) -> None:
    (tmp_path / "libhere.so").write_bytes(b"")
    relative = loader.read_manifest(manifest(tmp_path / "d", "r.json", "../libhere.so"))
    assert (relative.library, relative.problem) == (str(tmp_path / "libhere.so"), "")
    assert loader.read_manifest(manifest(tmp_path, "b.json", "libbare.so")).library == "libbare.so"
    gone = loader.read_manifest(manifest(tmp_path, "g.json", "/nonexistent/lib.so"))
    assert "does not exist" in gone.problem
    assert gone.api == "1.3.0"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"ICD": 1}', '{"ICD": {}}'])
def test_bad_manifests_say_so(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="utf-8")
    assert "not a driver manifest" in loader.read_manifest(str(path)).problem
    with pytest.raises(errors.DriverNotFound, match="not a driver manifest"):
        loader.open_driver(loader.read_manifest(str(path)))


def test_an_unopenable_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "libbroken.so").write_bytes(b"not a library")
    one = loader.read_manifest(manifest(tmp_path, "m.json", "./libbroken.so"))
    with pytest.raises(errors.DriverNotFound, match=r"m\.json.*libbroken"):
        loader.open_driver(one)


def test_a_named_loader_has_to_open() -> None:
    with pytest.raises(errors.DriverNotFound, match="libnothing-like-it"):
        open_instance(library="libnothing-like-it.so.1")


def test_explanations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    monkeypatch.delenv("VK_ICD_FILENAMES", raising=False)
    package_tool(tmp_path, monkeypatch, "apt-get")
    assert "sudo apt-get install -y libvulkan1 mesa-vulkan-drivers" in explain(["a.json: gone"])
    assert "a.json: gone" in explain(["a.json: gone"])
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "package tool" in explain([])
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent")
    assert "VK_ICD_FILENAMES=/nonexistent" in explain([])
    assert "unset VK_ICD_FILENAMES" in explain([])


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
@pytest.mark.parametrize("with_loader", [True, False])
def test_no_driver_is_explained(monkeypatch: pytest.MonkeyPatch, variable: str, with_loader: bool) -> None:
    if with_loader and loader.open_loader() is None:
        pytest.skip("needs the loader")
    monkeypatch.setenv(variable, "/nonexistent")
    if not with_loader:
        monkeypatch.setattr(loader, "LOADERS", ("libnothing-like-it.so.1",))
    with pytest.raises(errors.DriverNotFound, match=f"{variable}=/nonexistent.*unset {variable}"):
        open_instance()


def test_validation_without_a_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "LOADERS", ("libnothing-like-it.so.1",))
    with pytest.raises(errors.Unsupported, match="loader"):
        open_instance(validation=True)


def test_a_full_thread_local_block_is_explained() -> None:
    """glibc: libraries imported first, such as scikit-learn's OpenMP, leave an NVIDIA driver no static TLS."""
    from oa._vk.instance import explain

    said = "cannot load library 'libnvidia-tls.so': cannot allocate memory in static TLS block"
    text = explain([said])
    assert said in text
    assert "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=" in text
