"""The command line: `oa doctor`, `oa devices`, `oa selftest`, `oa tune`, `oa ops` (also as `python -m oa ...`)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from oa._version import __version__
from oa.errors import OaError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oa", description="A GPU-first compute engine on Vulkan.")
    parser.add_argument("--version", action="version", version=f"oa {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor", help="say what this machine has of Vulkan and what is missing; exit 1 when unusable"
    )
    doctor.add_argument("--json", action="store_true", help="machine-readable")
    doctor.add_argument("--device", help="the device an engine would ask for (default: OA_DEVICE, else auto)")
    doctor.set_defaults(run=_doctor)
    devices = commands.add_parser("devices", help="list the Vulkan devices")
    devices.add_argument("--json", action="store_true", help="machine-readable")
    devices.set_defaults(run=_devices)
    selftest = commands.add_parser(
        "selftest", help="run the known-answer test of a device and driver; exit 1 when it fails"
    )
    selftest.add_argument("--device", help="auto, gpu, cpu, an index, a UUID or part of a name")
    selftest.set_defaults(run=_selftest)
    tune = commands.add_parser(
        "tune",
        help="measure which kernel variants are fastest on a device and keep the choices for later processes",
    )
    tune.add_argument(
        "problems",
        nargs="*",
        help="matmul:512x512x512:nt, rows:8192x4096 or sum:8x1000000:1; none: a standard list",
    )
    tune.add_argument("--device", help="auto, gpu, cpu, an index, a UUID or part of a name")
    tune.add_argument("--json", action="store_true", help="machine-readable, losers with their times")
    tune.set_defaults(run=_tune)
    ops = commands.add_parser("ops", help="list the operations, or describe one; needs no device")
    ops.add_argument(
        "name", nargs="?", default="", help="an operation (matrix.exp, exp), or a word to filter by"
    )
    ops.add_argument("--json", action="store_true", help="machine-readable")
    ops.set_defaults(run=_ops)
    return parser


def _doctor(options: argparse.Namespace) -> int:
    from oa._doctor import examine

    report = examine(options.device)
    print(json.dumps(report.as_dict(), indent=1) if options.json else report.text())
    return 0 if report.usable else 1


def _devices(options: argparse.Namespace) -> int:
    from oa._device import to_json
    from oa._doctor import devices, line

    found = devices()
    print(
        to_json(found) if options.json else "\n".join(map(line, found)) or "no Vulkan device: see `oa doctor`"
    )
    return 0 if any(device.usable for device in found) else 1


def _selftest(options: argparse.Namespace) -> int:
    from oa.config import CONFIG
    from oa.engine import Engine
    from oa.selftest import selftest

    with Engine(device=options.device or CONFIG.device) as engine:
        report = selftest(engine)
        print(report)
    return 0 if report.passed else 1


def _tune(options: argparse.Namespace) -> int:
    from oa._tune import as_dict, table, tune
    from oa.config import CONFIG
    from oa.engine import Engine

    with Engine(device=options.device or CONFIG.device) as engine:
        found = tune(engine, options.problems)
        print(json.dumps(as_dict(engine, found), indent=1) if options.json else table(engine, found))
    return 0


def _ops(options: argparse.Namespace) -> int:
    from oa.reference import chosen

    found, single = chosen(options.name)
    if options.json:
        print(json.dumps(found[0].as_dict() if single else [e.as_dict() for e in found], indent=1))
    elif single:
        print(found[0].text())
    else:
        wide = max((len(e.name) for e in found), default=0)
        print("\n".join(f"{e.name:<{wide}}  {e.summary}" for e in found))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 1 for "no" and for an error, which is printed without a traceback."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except OaError as problem:
        print(f"oa: {problem}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
