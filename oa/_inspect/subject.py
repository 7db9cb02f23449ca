"""What reports are made of: a program, where it came from, and the device it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from oa._device import Profile, Roofline
from oa._graph.graph import Graph
from oa._lower.passes import Stages, stages
from oa._lower.plan import Cost, Dispatch, Plan


@dataclass(frozen=True)
class Subject:
    """A plan with what is known of its making. `graph` is None where the plan was loaded from a file."""

    plan: Plan
    graph: Graph | None
    profile: Profile
    device: str
    roofline: Roofline | None
    line: Callable[[int], str]  #: user line of operation k of the graph, "" where it is not known
    owned: frozenset[int] = frozenset()
    carried: tuple[tuple[int, int], ...] = ()

    def with_roofline(self, roofline: Roofline | None) -> Subject:
        """The same with another roofline, unless that is None."""
        return self if roofline is None else replace(self, roofline=roofline)

    def stages(self) -> Stages | None:
        """The passes once more, for what they leave behind; None without a graph."""
        if self.graph is None:
            return None
        return stages(self.graph, self.profile, owned=self.owned, carried=self.carried)

    def lines(self, dispatch: Dispatch) -> list[str]:
        """The user's lines that a dispatch computes, each once."""
        return [line for line in dict.fromkeys(map(self.line, dispatch.nodes)) if line]

    def seconds(self, cost: Cost) -> float | None:
        """The least time for the work on this device, None where its roofline is not known."""
        roof = self.roofline
        return None if roof is None else roof.seconds(cost.read + cost.written, cost.operations)


def total(plan: Plan) -> Cost:
    """The sum of the costs of all dispatches."""
    costs = [d.cost for d in plan.dispatches()]
    return Cost(sum(c.read for c in costs), sum(c.written for c in costs), sum(c.operations for c in costs))


def many(count: int, name: str) -> str:
    """1 dispatch, 2 dispatches."""
    return f"{count} {name}" + ("" if count == 1 else "es" if name.endswith("ch") else "s")


def bytes_text(count: float) -> str:
    """A number of bytes to read: 3 B, 1.5 KiB, 20 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.3g} {unit}"


def count_text(count: float) -> str:
    """A large number to read: 512, 1.3 k, 4.1 M."""
    for unit in ("", " k", " M", " G"):
        if count < 1000 or unit == " G":
            break
        count /= 1000
    return f"{count:.0f}{unit}" if not unit or count >= 100 else f"{count:.3g}{unit}"


def seconds_text(seconds: float) -> str:
    """A time to read: 12.3 us."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            break
    return f"{seconds * factor:.3g} {unit}"
