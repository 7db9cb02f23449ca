"""Finding Vulkan: the loader library, the driver manifests, and drivers opened without a loader.

The Vulkan loader is steered by environment variables of its own (VK_DRIVER_FILES, XDG_DATA_DIRS ...): this module reads the same
ones, so that it can explain what the loader did and open drivers where there is no loader.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oa._vk.cdef import ffi
from oa.errors import DriverNotFound

#: Names of the loader library, the usual one first.
LOADERS = {
    "win32": ("vulkan-1.dll",),
    "darwin": ("libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"),
}.get(sys.platform, ("libvulkan.so.1", "libvulkan.so"))
#: Where containers and package tools put manifests that the loader does not search for by itself.
EXTRA_FOLDERS = ("/usr/local/nvidia/share/vulkan/icd.d", "/opt/homebrew/share/vulkan/icd.d")
#: What to type where a package tool is present: the Vulkan loader and a software driver.
INSTALL = {
    "apt-get": "sudo apt-get install -y libvulkan1 mesa-vulkan-drivers",
    "dnf": "sudo dnf install -y vulkan-loader mesa-vulkan-drivers",
    "pacman": "sudo pacman -S --needed vulkan-icd-loader vulkan-swrast",
    "apk": "sudo apk add vulkan-loader mesa-vulkan-swrast",
    "zypper": "sudo zypper install -y libvulkan1 libvulkan_lvp",
    "brew": "brew install vulkan-loader molten-vk",
}
#: Newest driver interface version that this module speaks; see the loader's driver interface document.
INTERFACE_VERSION = 5


@dataclass(frozen=True)
class Manifest:
    """One driver manifest (ICD JSON): where it is, the library it names, and what is wrong with it, if anything."""

    path: str
    library: str = ""
    api: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Library:
    """An opened library and the function that finds Vulkan commands in it: `lookup(instance, name) -> void*`."""

    path: str
    lookup: Callable[[Any, bytes], Any]
    direct: bool  #: a driver opened without the loader
    owner: Any  #: keeps the library loaded


def install_command() -> str:
    """The one line that installs a Vulkan driver here."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for tool, command in INSTALL.items():
        if any(os.access(os.path.join(folder, tool), os.X_OK) for folder in folders):
            return command
    return "install a Vulkan 1.2 driver with your system's package tool"


def overridden(environ: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """The (variable, value) that replaces the manifest search, or None; VK_DRIVER_FILES wins over VK_ICD_FILENAMES."""
    variables = os.environ if environ is None else environ
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        if name in variables:  # set and empty counts: the loader then looks nowhere
            return name, variables[name]
    return None


def manifest_folders(environ: Mapping[str, str] | None = None) -> list[str]:
    """Folders that the loader searches for driver manifests on Linux and macOS, in its order."""
    env = os.environ if environ is None else environ
    home = env.get("HOME", "")
    bases = [env.get("XDG_CONFIG_HOME") or f"{home}/.config"]
    bases += (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    bases += ["/usr/local/etc", "/etc"]
    bases += [env.get("XDG_DATA_HOME") or f"{home}/.local/share"]
    bases += (env.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    return list(dict.fromkeys(f"{base}/vulkan/icd.d" for base in bases if base))


def manifests(environ: Mapping[str, str] | None = None) -> list[Manifest]:
    """Every driver manifest in the loader's order, those that cannot be used included, with the reason."""
    env = os.environ if environ is None else environ
    override = overridden(env)
    if override is not None:
        paths = _listed(override[1], keep_missing=True)
    else:
        paths = [path for folder in manifest_folders(env) for path in _listed(folder)]
        paths = _listed(env.get("VK_ADD_DRIVER_FILES", ""), keep_missing=True) + paths
    return [read_manifest(path) for path in dict.fromkeys(paths)]


def extra_manifests() -> list[Manifest]:
    """Manifests in `EXTRA_FOLDERS` that name a library which exists."""
    found = [read_manifest(path) for folder in EXTRA_FOLDERS for path in _listed(folder)]
    return [manifest for manifest in found if not manifest.problem]


def _listed(value: str, *, keep_missing: bool = False) -> list[str]:
    """Manifest files named by a path list; a folder stands for the *.json in it."""
    found: list[str] = []
    for item in filter(None, value.split(os.pathsep)):
        if os.path.isdir(item):
            found += sorted(glob.glob(os.path.join(glob.escape(item), "*.json")))
        elif keep_missing or os.path.exists(item):
            found.append(item)
    return found


def read_manifest(path: str) -> Manifest:
    """Read one manifest file; a fault is noted in `problem`."""
    try:
        icd = json.loads(Path(path).read_text(encoding="utf-8"))["ICD"]
        library, api = str(icd["library_path"]), str(icd.get("api_version", ""))
    except FileNotFoundError:
        return Manifest(path, problem="no such file")
    except OSError as fault:
        return Manifest(path, problem=f"cannot be read: {fault.strerror}")
    except (ValueError, KeyError, TypeError):
        return Manifest(path, problem="not a driver manifest (JSON with ICD.library_path)")
    if "/" in library:  # relative to the manifest; a bare name is searched for by the dynamic linker
        library = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(path)), library))
        if not os.path.exists(library):
            return Manifest(path, library, api, problem=f"names a library that does not exist: {library}")
    return Manifest(path, library, api)


def open_loader(name: str | None = None) -> Library | None:
    """The Vulkan loader, or None where there is none. `name` replaces the usual library names and must open."""
    for candidate in (name,) if name else LOADERS:
        try:
            library = ffi.dlopen(candidate)
            return Library(candidate, library.vkGetInstanceProcAddr, False, library)
        except (OSError, AttributeError) as fault:
            if name:
                raise DriverNotFound(
                    f"cannot open the Vulkan library {name}: {fault}; run `oa doctor`"
                ) from None
    return None


def open_driver(manifest: Manifest) -> Library:
    """A driver opened directly. Raises DriverNotFound with what failed."""
    if manifest.problem:
        raise DriverNotFound(f"{manifest.path}: {manifest.problem}")
    try:
        library = ffi.dlopen(manifest.library)
        lookup = library.vk_icdGetInstanceProcAddr
    except (OSError, AttributeError) as fault:
        raise DriverNotFound(f"{manifest.path}: {fault}") from None
    try:
        negotiate = library.vk_icdNegotiateLoaderICDInterfaceVersion
    except AttributeError:
        negotiate = None  # interface versions 0 and 1 have nothing to negotiate
    if negotiate is not None and negotiate(ffi.new("uint32_t *", INTERFACE_VERSION)) != 0:
        raise DriverNotFound(f"{manifest.path}: the driver refuses interface version {INTERFACE_VERSION}")
    return Library(manifest.library, lookup, True, library)
