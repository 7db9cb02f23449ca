"""`plan.graph(path)`: the plan as a picture. Dispatches are boxes, a row for each level; lines are what they exchange."""

from __future__ import annotations

from collections.abc import Sequence

from oa._inspect.flow import Flow, Flowing, flow
from oa._inspect.subject import Subject, bytes_text, count_text, many, seconds_text
from oa._inspect.svg import CHARACTER, Drawing, fitting
from oa._lower.plan import Dispatch, Space

BOX, HIGH, GAP, ROW_GAP, SLOT_HIGH = 176.0, 76.0, 18.0, 46.0, 34.0
#: Boxes side by side; a level with more takes several rows.
_WIDE = 8
#: Lines between boxes up to which each says what it carries.
_LABELLED = 40
_LEFT = 74.0
_FILL = {"memory": "#dbe9f6", "arithmetic": "#fde3cf", "dispatch": "#ececec", "": "#e8f0e4"}
_EDGE = {"memory": "#5b8db8", "arithmetic": "#c9803f", "dispatch": "#999999", "": "#7a9a6a"}
_SLOT, _SLOT_EDGE = "#f7f3d0", "#b9a94a"

#: Room for a value that goes through a rank.
_PASS = 12.0

Point = tuple[float, float]
_Item = int | str  #: a dispatch, or an input or output by name


class _Picture:
    """Places and draws. Ranks are the rows of the picture; a value that passes a rank on its way has a point there, so that no
    line runs behind a box. `at` gives the upper left corner of dispatch k, `slots` those of inputs and outputs by name."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.plan = subject.plan
        self.found: Flow = flow(subject.plan)
        self.steps = list(subject.plan.dispatches())
        self.drawing = Drawing(f"plan {subject.plan.digest}")
        self.at: dict[int, Point] = {}
        self.slots: dict[str, Point] = {}
        self.rows: list[tuple[float, str]] = []
        self.ranks: list[list[_Item]] = []
        self.tops: list[float] = []
        self.rank_of: dict[_Item, int] = {}
        self.points: list[
            dict[str, list[Point]]
        ] = []  #: by rank and value: where it leaves the rank downwards
        self.passing: list[dict[str, float]] = []  #: by rank and value: where it goes through

    # -- places

    def place(self) -> None:
        """Inputs above, then the levels, outputs below."""
        values = self.found.values
        self._add_ranks([v.name for v in values if v.space in (Space.INPUT, Space.CONSTANT)], "inputs")
        for level in range(self.found.depth):
            members: list[_Item] = [d for d, at in enumerate(self.found.levels) if at == level]
            self._add_ranks(members, f"level {level}")
        self._add_ranks([v.name for v in values if v.space is Space.OUTPUT], "outputs")
        spans = {v.name: self._span(v) for v in values}
        y = 84.0
        for rank, items in enumerate(self.ranks):
            passing = [v for v in values if spans[v.name][0] < rank < spans[v.name][1]]
            y = self._place_rank(rank, items, passing, y)

    def _add_ranks(self, items: Sequence[_Item], title: str) -> None:
        for start in range(0, len(items), _WIDE):
            for item in items[start : start + _WIDE]:
                self.rank_of[item] = len(self.ranks)
            self.ranks.append(list(items[start : start + _WIDE]))
            self.rows.append((0.0, title if start == 0 else ""))

    def _span(self, value: Flowing) -> tuple[int, int]:
        """The ranks between which a value is on its way."""
        makers: list[_Item] = [*value.made] if value.made else [value.name]
        readers: list[_Item] = [*value.read]
        if value.space is Space.OUTPUT:
            readers.append(value.name)
        first = min(self.rank_of[m] for m in makers)
        return first, max((self.rank_of[r] for r in readers), default=first)

    def _place_rank(self, rank: int, items: list[_Item], passing: list[Flowing], y: float) -> float:
        """Boxes and passing values from left to right, each below what it continues where there is room."""
        high = SLOT_HIGH if isinstance(items[0], str) else HIGH
        self.rows[rank] = (y, self.rows[rank][1])
        self.tops.append(y)
        self.points.append({})
        self.passing.append({})
        wanted: list[tuple[float, int, _Item | Flowing]] = []
        for k, item in enumerate([*items, *passing]):
            wanted.append((self._wish(rank, item), k, item))
        wanted.sort(key=lambda w: w[:2])
        x = _LEFT
        for wish, _, item in wanted:
            wide = _PASS if isinstance(item, Flowing) else BOX + GAP
            x = max(x, wish - wide / 2 + (0 if isinstance(item, Flowing) else GAP / 2))
            if isinstance(item, Flowing):
                self.passing[rank][item.name] = x + wide / 2
                self.points[rank][item.name] = [(x + wide / 2, y + high)]
            elif isinstance(item, str):
                self.slots[item] = (x, y)
                self.points[rank].setdefault(item, []).append((x + BOX / 2, y + high))
            else:
                self.at[item] = (x, y)
            x += wide
        for item in items:
            if isinstance(item, int):
                self._leave(rank, item)
        return y + high + (ROW_GAP if rank + 1 < len(self.rows) else 0.0)

    def _leave(self, rank: int, dispatch: int) -> None:
        """Where what a dispatch writes leaves its box."""
        x, y = self.at[dispatch]
        made = self.found.writes[dispatch]
        for k, value in enumerate(made):
            point = (x + BOX * (k + 1) / (len(made) + 1), y + HIGH)
            self.points[rank].setdefault(value.name, []).append(point)

    def _wish(self, rank: int, item: _Item | Flowing) -> float:
        """Where the middle of an item would lie best: below what comes into it."""
        if rank == 0:
            return 0.0
        above = self.points[rank - 1]
        if isinstance(item, Flowing):
            names = [item.name]
        else:
            names = [item] if isinstance(item, str) else [v.name for v in self.found.reads[item]]
        return self._middle([place for name in names for place in above.get(name, ())])

    @staticmethod
    def _middle(places: list[Point]) -> float:
        return sum(x for x, _ in places) / len(places) if places else 0.0

    # -- drawing

    def draw(self) -> Drawing:
        """Lines first, so that boxes and names cover them."""
        self._edges()
        for y, title in self.rows:
            self.drawing.text(_LEFT - 12, y + 20, title, anchor="end", fill="#777")
        for value in self.found.values:
            if value.name in self.slots:
                self._slot(value)
        most = max((self.subject.seconds(s.cost) or 0.0 for s in self.steps), default=0.0)
        for number, step in enumerate(self.steps):
            self._box(number, step, most)
        self._head()
        return self.drawing

    def _edges(self) -> None:
        edges: list[tuple[Point, Point, Flowing, bool]] = []  # from, to, value, whether a box reads it there
        named = {v.name: v for v in self.found.values}
        for rank in range(1, len(self.ranks)):
            above, top = self.points[rank - 1], self.tops[rank]
            for name, x in self.passing[rank].items():
                edges += [(start, (x, top), named[name], False) for start in above.get(name, ())]
            for item in self.ranks[rank]:
                if isinstance(item, str):
                    x = self.slots[item][0] + BOX / 2
                    edges += [(start, (x, top), named[item], False) for start in above.get(item, ())]
                    continue
                # From left to right as they come from above, so that fewer lines cross.
                reads = sorted(self.found.reads[item], key=lambda v: self._middle(above.get(v.name, [])))
                for k, value in enumerate(reads):
                    end = (self.at[item][0] + BOX * (k + 1) / (len(reads) + 1), top)
                    edges += [(start, end, value, True) for start in above.get(value.name, ())]
        crowded = sum(reads for *_, reads in edges) > _LABELLED
        stroke = "#bdbdbd" if crowded else "#8a8a8a"
        for (x1, y1), (x2, y2), value, _ in edges:
            self.drawing.curve(x1, y1, x2, y2, stroke, hint=f"{value.name}: {bytes_text(value.size)}")
        for rank, found in enumerate(self.passing):
            for name, x in found.items():
                self.drawing.line(x, self.tops[rank], x, self.points[rank][name][0][1], stroke)
        if not crowded:
            self._labels([e[:3] for e in edges if e[3] and e[2].space is Space.SCRATCH])

    def _labels(self, edges: list[tuple[Point, Point, Flowing]]) -> None:
        """What scratch values are called and take, above their readers; names that would meet lie one above the other."""
        ends: list[tuple[float, float]] = []  # (row, right end of the last name there)
        for (x, y), text in sorted({(end, f"{v.name} {bytes_text(v.size)}") for _, end, v in edges}):
            wide = len(text) * 9 * CHARACTER
            row = y - 8
            while any(row == other and x - wide / 2 < right for other, right in ends):
                row -= 11
            ends.append((row, x + wide / 2))
            self.drawing.rectangle(x - wide / 2, row - 9, wide, 12, "#fff", opacity=0.85)
            self.drawing.text(x, row, text, size=9, anchor="middle", fill="#555")

    def _slot(self, value: Flowing) -> None:
        x, y = self.slots[value.name]
        if value.space is Space.CONSTANT:
            what = "constant"
        else:
            slot = (self.plan.inputs if value.space is Space.INPUT else self.plan.outputs)[value.index]
            what = f"{slot.dtype} {'×'.join(map(str, slot.shape)) or 'scalar'}"
        self.drawing.rectangle(
            x, y, BOX, SLOT_HIGH, _SLOT, stroke=_SLOT_EDGE, radius=SLOT_HIGH / 2, hint=f"{value.name}: {what}"
        )
        middle = x + BOX / 2
        head = f"{value.name}  {bytes_text(value.size)}"
        self.drawing.text(middle, y + 14, head, size=10, anchor="middle", bold=True)
        self.drawing.text(middle, y + 27, fitting(what, BOX - 24, 9), size=9, anchor="middle", fill="#555")

    def _box(self, number: int, step: Dispatch, most: float) -> None:
        x, y = self.at[number]
        cost, roof = step.cost, self.subject.roofline
        bound = "" if roof is None else roof.bound(cost.read + cost.written, cost.operations)
        lines = "\n".join(self.subject.lines(step))
        self.drawing.rectangle(
            x,
            y,
            BOX,
            HIGH,
            _FILL[bound],
            stroke=_EDGE[bound],
            radius=5,
            hint=f"{number} {step.label}\n{lines}",
        )
        name = step.label or step.kernel.name
        self.drawing.text(x + 8, y + 16, fitting(f"{number}  {name}", BOX - 14, 13), size=11.5, bold=True)
        groups = "×".join(str(g) for g in step.groups if g > 1) or "1"
        kernel = f"{step.kernel.name.removeprefix('matmul.')}, {groups} group{'' if groups == '1' else 's'}"
        self.drawing.text(x + 8, y + 31, fitting(kernel, BOX - 14, 9.5), size=9.5, fill="#555")
        moved = f"reads {bytes_text(cost.read)}, writes {bytes_text(cost.written)}"
        self.drawing.text(x + 8, y + 46, fitting(moved, BOX - 14, 9.5), size=9.5)
        work = f"{count_text(cost.operations)} operations"
        seconds = self.subject.seconds(cost)
        if seconds is not None:
            work += f", ≥ {seconds_text(seconds)}"
        self.drawing.text(x + 8, y + 60, fitting(work, BOX - 14, 9.5), size=9.5)
        if seconds is not None and most > 0:
            self.drawing.rectangle(x + 1, y + HIGH - 7, (BOX - 2) * seconds / most, 5, _EDGE[bound], radius=2)

    def _head(self) -> None:
        plan, count = self.plan, len(self.steps)
        told = (
            f"{many(count, 'dispatch')}, {many(len(plan.steps) - count, 'barrier')},"
            f" {bytes_text(plan.scratch_bytes)} of scratch; {self.subject.device}"
        )
        self.drawing.text(_LEFT, 24, f"plan {plan.digest}", size=15, bold=True)
        self.drawing.text(_LEFT, 42, told, fill="#555")
        x = _LEFT
        known = self.subject.roofline is not None
        for bound, word in (
            ("memory", "bound by memory"),
            ("arithmetic", "by arithmetic"),
            ("dispatch", "by the dispatch itself"),
        ):
            if known:
                self.drawing.rectangle(x, 53, 14, 10, _FILL[bound], stroke=_EDGE[bound], radius=2)
                self.drawing.text(x + 19, 62, word, size=9.5, fill="#555")
                x += 40 + len(word) * 9.5 * CHARACTER
        last = "bar: least time, the longest full" if known else "roofline unknown: no times"
        self.drawing.text(x, 62, last, size=9.5, fill="#555")


def draw_graph(subject: Subject) -> Drawing:
    """The picture of a plan; equal subjects give equal bytes."""
    picture = _Picture(subject)
    picture.place()
    return picture.draw()
