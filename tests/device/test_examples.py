"""Every example in the documentation runs: the README's, and those of the docstrings of the public modules.

Docstrings may use `oa`, `np`, an `engine`, a `folder` to write to, and for training a `model` with `inputs` and `targets`.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oa
from tools.project import ROOT

PACKAGES = (
    "oa.engine",
    "oa.evidence",
    "oa.plan",
    "oa.inspection",
    "oa._device.roofline",
    "oa.matrix",
    "oa.ml",
    "oa._graph.state",
)


def modules() -> Iterator[str]:
    for name in PACKAGES:
        yield name
        module = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            yield found.name


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = []
    for name in modules():
        module = importlib.import_module(name)
        found += [test for test in finder.find(module, name, module=module, globs={}) if test.examples]
    return sorted(found, key=lambda test: test.name)


def test_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})


def names(engine: Any, folder: Path) -> dict[str, Any]:
    """What an example may take for granted."""
    return {
        "oa": oa,
        "np": np,
        "engine": engine,
        "folder": folder,
        "Roofline": oa.Roofline,
        "model": oa.ml.Linear(engine, 3, 2),
        "inputs": oa.matrix.ones(engine, (4, 3)),
        "targets": oa.matrix.from_list(engine, [0, 1, 1, 0]),
    }


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_docstring_example(any_engine: Any, example: doctest.DocTest, tmp_path: Path) -> None:
    example.globs = names(any_engine, tmp_path)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    failed, _ = runner.run(example, out=said.append)
    assert not failed, "".join(said)
