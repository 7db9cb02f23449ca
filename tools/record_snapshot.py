"""Record what Vulkan devices of this machine say about themselves, as test data.

    python tools/record_snapshot.py                          list the devices
    python tools/record_snapshot.py 0 tests/snapshots/NAME.json [--note TEXT]

The device is an index or a part of the name. `tests/README.md` says what the snapshots are for.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Command line."""
    sys.path.insert(0, str(ROOT))
    from oa._vk import open_instance

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("device", nargs="?", help="index or part of the name")
    parser.add_argument("file", nargs="?", type=Path, help="the JSON file to write")
    parser.add_argument(
        "--note", default="recorded with tools/record_snapshot.py", help="where it comes from"
    )
    options = parser.parse_args()
    instance = open_instance()
    try:
        snapshots = [adapter.snapshot() for adapter in instance.adapters()]
    finally:
        instance.close()
    if options.device is None:
        print("\n".join(f"{index}  {snapshot.name}" for index, snapshot in enumerate(snapshots)))
        return 0
    word = options.device.lower()
    found = [s for index, s in enumerate(snapshots) if word == str(index) or word in s.name.lower()]
    if not found:
        print(f"no device answers to {options.device!r}", file=sys.stderr)
        return 1
    chosen = dataclasses.replace(found[0], note=options.note)
    if options.file is None:
        print(chosen.to_json(), end="")
    else:
        options.file.parent.mkdir(parents=True, exist_ok=True)
        options.file.write_text(chosen.to_json(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
