"""`plan.memory_plot(path)`: the scratch arena over the levels of a plan, its peak, and the least that any arena must hold."""

from __future__ import annotations

from oa._inspect.flow import flow, lifetimes, live_bytes
from oa._inspect.subject import Subject, bytes_text
from oa._inspect.svg import Drawing, fitting

_LEFT, _TOP, _WIDTH, _HEIGHT = 88.0, 64.0, 860.0, 380.0
#: Fills of neighbouring values, told apart by lightness too.
_FILLS = ("#9ec5e8", "#f6c89f", "#a8d5a2", "#d9b3e0", "#f2e29b", "#9fd6d2", "#e8a9a9", "#c4c9d6")
_STEPS = (1, 2, 5)


def draw_memory(subject: Subject) -> Drawing:
    """Each rectangle is a value: its bytes of the arena, over the levels that need it."""
    plan, found = subject.plan, flow(subject.plan)
    lives, depth = lifetimes(found), max(found.depth, 1)
    live = live_bytes(lives, depth)
    least, arena = max(live, default=0), plan.scratch_bytes
    drawing = Drawing(f"memory of plan {plan.digest}")
    drawing.text(_LEFT, 24, f"scratch arena of plan {plan.digest}", size=15, bold=True)
    if not lives:
        drawing.text(_LEFT, 42, "the plan keeps nothing between dispatches: it has no arena", fill="#555")
        return drawing
    over = f"{(arena / least - 1):.2%} above" if arena > least else "equal to"
    told = f"{bytes_text(arena)} for {len(lives)} values, {over} the least possible, {bytes_text(least)}"
    drawing.text(_LEFT, 42, f"{told}; without sharing {bytes_text(sum(v.size for v in lives))}", fill="#555")
    across, up = _WIDTH / depth, _HEIGHT / max(arena, least)
    bottom = _TOP + _HEIGHT
    _axes(drawing, depth, max(arena, least), subject)
    for k, life in enumerate(lives):
        x, wide = _LEFT + life.first * across, (life.last - life.first + 1) * across
        high = life.size * up
        y = bottom - life.value.offset * up - high
        hint = f"{life.value.name}: {bytes_text(life.value.size)}, levels {life.first} to {life.last}"
        drawing.rectangle(x, y, wide, high, _FILLS[k % len(_FILLS)], stroke="#ffffff", hint=hint)
        name = f"{life.value.name} {bytes_text(life.value.size)}"
        if fitting(name, wide - 6, 9) != name:
            name = life.value.name
        if high >= 12 and fitting(name, wide - 6, 9) == name:
            drawing.text(x + 3, y + min(high / 2 + 3, 14), name, size=9)
    _live(drawing, live, across, up, bottom)
    _marks(drawing, arena, least, live, across, up, bottom)
    return drawing


def _live(drawing: Drawing, live: list[int], across: float, up: float, bottom: float) -> None:
    """The bytes alive at each level, as a stair."""
    for level, size in enumerate(live):
        x, y = _LEFT + level * across, bottom - size * up
        drawing.line(x, y, x + across, y, "#222", width=1.5)
        if level + 1 < len(live):
            drawing.line(x + across, y, x + across, bottom - live[level + 1] * up, "#222", width=1.5)


def _marks(
    drawing: Drawing, arena: int, least: int, live: list[int], across: float, up: float, bottom: float
) -> None:
    """The arena's size, the lower bound, and the level that needs most."""
    end, right = _LEFT + _WIDTH, _LEFT + _WIDTH + 8
    for size, colour, dashes, word in (
        (arena, "#b03030", "", "arena"),
        (least, "#222", "5 3", "lower bound"),
    ):
        drawing.line(_LEFT, bottom - size * up, end, bottom - size * up, colour, width=1.5, dashes=dashes)
        aside = -4 if word == "arena" else 12
        drawing.text(right, bottom - size * up + aside, f"{word} {bytes_text(size)}", fill=colour, size=10)
    peak = live.index(least)
    x = _LEFT + (peak + 0.5) * across
    drawing.line(x, bottom - least * up, x, bottom + 6, "#b03030", dashes="2 3")
    drawing.text(x, bottom + 34, f"peak at level {peak}", fill="#b03030", size=10, anchor="middle")
    drawing.line(right, bottom - 4, right + 22, bottom - 4, "#222", width=1.5)
    drawing.text(right + 27, bottom, "alive", size=10)


def _axes(drawing: Drawing, depth: int, most: int, subject: Subject) -> None:
    bottom = _TOP + _HEIGHT
    drawing.rectangle(_LEFT, _TOP, _WIDTH, _HEIGHT, "#fafafa", stroke="#bbb")
    step = _step(most / 6)
    for k in range(int(most / step) + 1):
        y = bottom - k * step * _HEIGHT / most
        drawing.line(_LEFT - 4, y, _LEFT, y, "#888")
        drawing.text(_LEFT - 8, y + 4, bytes_text(k * step), size=9.5, anchor="end", fill="#555")
    every = max(1, round(_step(depth / 14, 10)))
    for level in range(0, depth, every):
        x = _LEFT + (level + 0.5) * _WIDTH / depth
        drawing.line(x, bottom, x, bottom + 4, "#888")
        drawing.text(x, bottom + 16, str(level), size=9.5, anchor="middle", fill="#555")
    drawing.text(_LEFT + _WIDTH, bottom + 34, "level", size=10, anchor="end", fill="#555")


def _step(least: float, base: int = 1024) -> float:
    """A round number of at least this size, in powers of `base`."""
    unit = 1.0
    while unit * base <= least:
        unit *= base
    while True:
        for factor in _STEPS:
            if unit * factor >= least:
                return unit * factor
        unit *= 10
