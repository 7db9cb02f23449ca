"""`oa doctor`: what this machine has of Vulkan, what is missing, and the one line to type.

`examine` gathers facts, `advise` turns them into problems with remedies; neither prints.
"""

from __future__ import annotations

import glob
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from oa._device import DeviceInfo, Snapshot, describe, plan, select
from oa._version import __version__
from oa._vk import loader as vulkan
from oa._vk import open_instance
from oa._vk.instance import has_validation
from oa.config import CONFIG
from oa.errors import DriverNotFound, OaError

__all__ = ["Driver", "Problem", "Report", "devices", "examine", "snapshots"]


@dataclass(frozen=True)
class Driver:
    """One driver manifest, and whether its library opens."""

    manifest: str
    library: str
    api: str
    problem: str


@dataclass(frozen=True)
class Problem:
    """Something wrong. `blocking` when nothing can run because of it; `remedy` is a line to type, or ""."""

    what: str
    remedy: str
    blocking: bool


@dataclass(frozen=True)
class Report:
    """Everything `oa doctor` says. `usable` means that `oa.Engine()` would find the device that is asked for."""

    version: str
    python: str
    system: str
    loader: str  #: the loader library, "" where there is none
    override: str  #: "VARIABLE=value" when the environment replaces the search for drivers
    drivers: tuple[Driver, ...]
    validation: bool  #: the Khronos validation layer is installed
    devices: tuple[DeviceInfo, ...]
    chosen: int | None  #: index of the device that `oa.Engine()` would take
    requested: str
    problems: tuple[Problem, ...] = field(default=())

    @property
    def usable(self) -> bool:
        """True when an engine can be made."""
        return self.chosen is not None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"usable": self.usable, **asdict(self)}

    def text(self) -> str:
        """For people."""
        rows = [
            f"oa {self.version}, Python {self.python}, {self.system}",
            f"Vulkan loader    {self.loader or 'none (drivers are opened directly)'}",
            f"Driver search    {f'replaced by {self.override}' if self.override else 'standard folders'}",
            f"Validation layer {'installed' if self.validation else 'not installed (only needed for development)'}",
            "",
            f"Driver manifests: {len(self.drivers) or 'none'}",
            *(f"  {'FAIL' if d.problem else 'ok  '} {d.manifest}{_because(d.problem)}" for d in self.drivers),
            "",
            f"Devices: {len(self.devices) or 'none'}",
            *(f"{' ->' if d.index == self.chosen else '   '} {line(d)}" for d in self.devices),
            "",
        ]
        for problem in self.problems:
            rows.append(f"{'PROBLEM' if problem.blocking else 'note'}: {problem.what}")
            if problem.remedy:
                rows.append(f"  type: {problem.remedy}")
        if self.chosen is not None:
            rows.append(
                f"Usable: oa.Engine(device={self.requested!r}) takes {self.devices[self.chosen].name}."
            )
        else:
            rows.append("NOT usable: oa.Engine() cannot be made on this machine yet.")
        return "\n".join(rows)


def _because(problem: str) -> str:
    return f": {problem}" if problem else ""


def line(device: DeviceInfo) -> str:
    """One device in one line."""
    state = (
        f"{device.profile}+{device.addressing}"
        if device.usable
        else f"unusable: lacks {', '.join(device.lacks)}"
    )
    kind = "software" if device.software else device.kind
    return (
        f"{device.index}  {device.name}  [{kind}, {device.vendor}, Vulkan {device.api}, {device.memory / 2**30:.1f} GiB, "
        f"{state}]"
    )


def snapshots() -> list[Snapshot]:
    """What every device of this machine says about itself. Raises DriverNotFound."""
    instance = open_instance()
    try:
        return [adapter.snapshot() for adapter in instance.adapters()]
    finally:
        instance.close()


def devices() -> list[DeviceInfo]:
    """Every Vulkan device of this machine, usable or not, in the order of `Engine(device=<index>)`. Raises DriverNotFound."""
    return [describe(index, snapshot) for index, snapshot in enumerate(snapshots())]


def examine(request: str | None = None) -> Report:
    """Look at this machine. `request` is the device that an engine would ask for (default OA_DEVICE, else "auto")."""
    requested = CONFIG.device if request is None else request
    library = vulkan.open_loader()
    override = vulkan.overridden()
    drivers = tuple(_driver(manifest) for manifest in vulkan.manifests())
    found, chosen, fault = _try(requested)
    report = Report(
        version=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        loader=library.path if library else "",
        override="=".join(override) if override else "",
        drivers=drivers,
        validation=library is not None and has_validation(library),
        devices=tuple(describe(index, snapshot) for index, snapshot in enumerate(found)),
        chosen=chosen,
        requested=requested,
    )
    problems = tuple(advise(report, fault))
    return Report(**{**vars(report), "problems": problems})


def _try(requested: str) -> tuple[list[Snapshot], int | None, str]:
    """Snapshots of all devices, the index of the one that opens for `requested`, and why none does."""
    found: list[Snapshot] = []
    try:
        instance = open_instance()
    except OaError as problem:
        return found, None, str(problem)
    try:
        adapters = instance.adapters()
        found = [adapter.snapshot() for adapter in adapters]
        if not found:
            return found, None, ""
        chosen = select(found, requested)
        adapters[chosen].open(plan(found[chosen])).close()
        return found, chosen, ""
    except OaError as problem:
        return found, None, str(problem)
    finally:
        instance.close()


def _driver(manifest: vulkan.Manifest) -> Driver:
    problem = manifest.problem
    if not problem:
        try:
            vulkan.open_driver(manifest)
        except DriverNotFound as fault:
            problem = str(fault).removeprefix(f"{manifest.path}: ")
    return Driver(manifest.path, manifest.library, manifest.api, problem)


def advise(report: Report, fault: str = "") -> list[Problem]:
    """Problems of a report, the blocking ones first. `fault` is why no device was listed, chosen or opened."""
    problems = []
    if report.chosen is None and any(device.usable for device in report.devices):
        unset = "unset OA_DEVICE" if report.requested == CONFIG.device != "auto" else ""
        problems.append(Problem(fault, unset, True))
    elif report.chosen is None:
        problems.append(_no_device(report, fault))
    problems += [Problem(f"{d.manifest}: {d.problem}", "", False) for d in report.drivers if d.problem]
    problems += _hardware_hints(report)
    if not report.loader and report.chosen is not None:
        what = "no Vulkan loader is installed: drivers are opened directly, which is enough, but layers cannot be used"
        problems.append(Problem(what, "", False))
    if report.chosen is not None and report.devices[report.chosen].software:
        what = "the device is a software device: it computes on the CPU, slowly"
        problems.append(Problem(what, "", False))
    return problems


def _no_device(report: Report, fault: str) -> Problem:
    """The one blocking problem of a machine without a usable device."""
    if report.override:
        name = report.override.partition("=")[0]
        fate = (
            "names none that works"
            if all(d.problem for d in report.drivers)
            else "its drivers find no device here"
        )
        what = f"{report.override} replaces the search for Vulkan drivers, and {fate}"
        if name == "VK_ICD_FILENAMES":
            what += " (VK_ICD_FILENAMES is the older spelling of VK_DRIVER_FILES)"
        return Problem(what, f"unset {name}", True)
    if not report.drivers:
        missing = "no Vulkan loader and no Vulkan driver are" if not report.loader else "no Vulkan driver is"
        return Problem(f"{missing} installed", vulkan.install_command(), True)
    if report.devices:
        return Problem("no device has what oa needs", vulkan.install_command(), True)
    return Problem(fault or "the installed drivers find no device", vulkan.install_command(), True)


def _hardware_hints(report: Report, nodes: Sequence[str] | None = None) -> list[Problem]:
    """Hardware that is there and has no working driver. `nodes` replaces the device files of this machine."""
    if sys.platform != "linux" or any(not d.software for d in report.devices) or report.override:
        return []
    present = (
        glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/dri/renderD*") if nodes is None else list(nodes)
    )
    hints = []
    if any("/nvidia" in node for node in present):
        extra = [m.path for m in vulkan.extra_manifests()]
        remedy = (
            f"export VK_DRIVER_FILES={extra[0]}"
            if extra
            else "docker run -e NVIDIA_DRIVER_CAPABILITIES=all ..."
        )
        what = "an NVIDIA card is present, but not its Vulkan driver (in a container it comes with the capability 'graphics')"
        hints.append(Problem(what, remedy, False))
    closed = [node for node in present if "/dri/" in node and not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        what = f"{closed[0]} exists, and this user may not open it"
        hints.append(Problem(what, "sudo usermod -aG render $USER  (then log in again)", False))
    return hints
