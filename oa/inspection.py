"""What a plan shows of itself: the methods of a captured or loaded plan that only look. The reports are made in `oa._inspect`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oa._device import Roofline
from oa.errors import ArgumentError

if TYPE_CHECKING:
    from oa._inspect.subject import Subject


def path_of(path: Any, name: str) -> Path:
    """The path that `name` was given; ArgumentError when it is none."""
    if (
        not isinstance(path, (str, os.PathLike))
        or not isinstance(os.fspath(path), str)
        or "\0" in os.fspath(path)
    ):
        raise ArgumentError(f"{name}: path is {str(path)[:60]!r}; wanted a str or pathlib.Path")
    return Path(path)


def _roofline(given: Any, name: str) -> Roofline | None:
    if given is not None and not isinstance(given, Roofline):
        raise ArgumentError(f"{name}: roofline is {str(given)[:60]!r}; wanted oa.Roofline(...) or None")
    return given


class Inspectable:
    """Text, pictures and reports of one plan. Nothing here runs or changes anything."""

    def _subject(self) -> Subject:
        """The plan with what is known of its making."""
        raise NotImplementedError

    def explain(self, roofline: Roofline | None = None) -> str:
        """Why the plan is what it is, as text. For each dispatch: the operations put into it, the user's lines, the variant of
        a product with its reason, the bytes and operations that it must take, the least time for these, and what ends it.

        Args:
            roofline: to compare with; default the engine's, `engine.roofline`. Without either, times are said to be unknown.

        Bytes count each element that a dispatch reads once; a transcendental function counts as 20 operations. The least time is
        `max(bytes / roofline.bytes, operations / roofline.operations, roofline.dispatch)`, which no kernel beats and few reach.

        Example:
            >>> x = oa.matrix.ones(engine, (64, 64))
            >>> plan = engine.capture(lambda: oa.matrix.softmax(x * 2.0))
            >>> print(plan.explain().splitlines()[0].partition(": ")[2])
            1 dispatch in 1 level, 0 barriers, 0 B of scratch
        """
        from oa._inspect.explain import explain

        return explain(self._subject().with_roofline(_roofline(roofline, "plan.explain")))

    def graph(self, path: str | os.PathLike[str], roofline: Roofline | None = None) -> Path:
        """Draw the plan as SVG and return the path. Dispatches are boxes, a row of them for each level, between inputs above and
        outputs below; lines are what they exchange. Boxes tell kernel, bytes, operations and the least time for them; whole
        names and the user's lines appear under the pointer. Equal plans give equal files.

        Example:
            >>> x = oa.matrix.ones(engine, (8, 8))
            >>> plan = engine.capture(lambda: oa.matrix.matmul(x, x) + 1.0)
            >>> plan.graph(folder / "plan.svg").name
            'plan.svg'
        """
        from oa._inspect.graph import draw_graph

        target, subject = path_of(path, "plan.graph"), self._subject()
        return draw_graph(subject.with_roofline(_roofline(roofline, "plan.graph"))).write(target)

    def memory_plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw the plan's scratch arena as SVG and return the path. Each value is a rectangle, its bytes over the levels that
        need it; a stair shows the bytes alive. The arena's size, the lower bound and the level that needs most are marked.

        Example:
            >>> x = oa.matrix.ones(engine, (8, 8))
            >>> plan = engine.capture(lambda: oa.matrix.matmul(oa.matrix.matmul(x, x), x))
            >>> plan.memory_plot(folder / "memory.svg").name
            'memory.svg'
        """
        from oa._inspect.memory import draw_memory

        return draw_memory(self._subject()).write(path_of(path, "plan.memory_plot"))

    def report(self) -> dict[str, Any]:
        """The plan as plain data, for tools. `semantic` holds the operations recorded, by their schema ids (None for a loaded
        plan); `executable` slots, kernels by digest, dispatches with operands, words and costs, values with who makes and reads
        them, and the arena beside its lower bound.

        Equal work on equal devices gives equal reports in every process: nothing in them is a handle, address, path or counter.

        Example:
            >>> x = oa.matrix.ones(engine, (8,))
            >>> data = engine.capture(lambda: x + 1.0).report()
            >>> [node["op"] for node in data["semantic"]["nodes"]], len(data["executable"]["steps"])
            (['matrix.add'], 1)
        """
        from oa._inspect.report import report

        return report(self._subject())

    def to_json(self) -> str:
        """The report as JSON text, byte for byte the same wherever the report is.

        Example:
            >>> x = oa.matrix.ones(engine, (8,))
            >>> text = engine.capture(lambda: x + 1.0).to_json()
            >>> text == engine.capture(lambda: x + 1.0).to_json()
            True
        """
        from oa._inspect.report import report, to_json

        return to_json(report(self._subject()))
