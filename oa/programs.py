"""The cache of lowered programs: a batch seen before costs a look-up."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oa._graph.graph import Graph
from oa._inspect.changes import Compilation, Entry, History
from oa._lower.passes import Program, lower
from oa.config import CONFIG

if TYPE_CHECKING:
    from oa._device import Profile
    from oa._device.tuned import Tuned
    from oa.tuning import Tuning

#: Programs kept, least recently used dropped first.
CAPACITY = 256


class Programs:
    """Programs by exact key, least recently used dropped first."""

    def __init__(self, profile: Profile, tuning: Tuning | None = None) -> None:
        self._tuning = tuning
        self._profile = profile if tuning is None else replace(profile, tuned=tuning.tuned)
        self.without = CONFIG.without  #: passes left out, as in `oa._lower.passes.lower`
        self._unaudited: dict[
            int, tuple[Program, Graph]
        ] = {}  #: with OA_CHECK, by identity: programs that never ran
        self._known: OrderedDict[Any, Program] = OrderedDict()
        self._history = History()
        self._hits = 0
        self._lowerings = 0

    def trust(self, operations: frozenset[str]) -> None:
        """Use these native operations from now on; results keep their bits, since they round as their replacements do."""
        if operations != self._profile.trusted:
            self._profile = replace(self._profile, trusted=operations)
            self._known.clear()

    def adopt(self, tuned: Tuned) -> None:
        """Let what was measured decide from now on. Programs that are known stay, with the choices that they were made with."""
        self._profile = replace(self._profile, tuned=tuned)

    def get(self, key: Any, graph: Callable[[], Graph], carried: tuple[tuple[int, int], ...] = ()) -> Program:
        """The program under `key`, lowering the graph when it is new; `carried` as in `oa._lower.passes.lower`."""
        found = self._known.get(key)
        if found is not None:
            self._hits += 1
            self._known.move_to_end(key)
            return found
        made = self.lower(graph(), carried=carried)
        self._known[key] = made
        if len(self._known) > CAPACITY:
            self._known.popitem(last=False)
        return made

    def lower(
        self,
        graph: Graph,
        *,
        owned: frozenset[int] = frozenset(),
        carried: tuple[tuple[int, int], ...] = (),
    ) -> Program:
        """Lower without the cache; `owned` and `carried` as in `oa._lower.passes.lower`."""
        self._lowerings += 1
        tuning = self._tuning
        if tuning is not None and tuning.active and tuning.tune_graph(graph, self._profile):
            self.adopt(tuning.tuned)
        program = lower(graph, self._profile, owned=owned, carried=carried, without=self.without)
        without: frozenset[str] = getattr(self, "without", frozenset())
        self._history.add(Entry(graph, self._profile, without, owned, carried, program.plan.digest))
        if CONFIG.show:
            sys.stderr.write(f"{self._history.compilations[-1]}\n{program.plan.text()}")
        if CONFIG.check:
            self._unaudited[id(program)] = (program, graph)
        return program

    def unaudited(self, program: Program) -> Graph | None:
        """The graph of a program at its first run with OA_CHECK, afterwards None."""
        found = self._unaudited.pop(id(program), None)
        return None if found is None else found[1]

    @property
    def profile(self) -> Profile:
        """What programs are lowered for."""
        return self._profile

    def counters(self) -> dict[str, int]:
        """Cache hits, lowerings, those of them that only repeated operations seen before, and programs held."""
        return {
            "cache_hits": self._hits,
            "lowerings": self._lowerings,
            "recompilations": self._history.recompilations,
            "programs": len(self._known),
        }

    def compilations(self) -> list[Compilation]:
        """The last lowerings, oldest first, with what made each necessary."""
        return list(self._history.compilations)
