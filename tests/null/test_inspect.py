"""What plans tell of themselves: flow, lifetimes, costs, reasons, text, pictures and reports, over the corpus of plan replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from oa import _device
from oa import matrix as m
from oa._device import Roofline
from oa._inspect.explain import explain
from oa._inspect.flow import flow, lifetimes, live_bytes
from oa._inspect.graph import draw_graph
from oa._inspect.memory import draw_memory
from oa._inspect.report import report, to_json
from oa._inspect.subject import Subject, bytes_text, count_text, seconds_text
from oa._inspect.why import boundaries
from oa._lower.memory import intervals
from oa._lower.passes import lower, stages
from tests.null.device_fixtures import snapshot
from tests.null.lower_rig import Recorder, graph_of, profile
from tools.project import ROOT
from tools.replay import Engine as Steps
from tools.replay import corpus

ROOF = Roofline(bytes=1e9, operations=1e10, dispatch=1e-6, source="a test")
PROFILES = ("lavapipe-descriptor", "card")
#: Every so many graphs of the corpus, and those with the most in them.
SOME = [name for name, _ in corpus()][::23] + ["layer norm both ways (64, 256)", "concat 0", "demo step"]


@cache
def graph(name: str) -> Any:
    recorder = Steps()
    kept = dict(corpus())[name](recorder)
    found = recorder.graph()
    del kept
    return found


@cache
def plan_of(name: str, where: str) -> Any:
    return lower(graph(name), profile(where)).plan


def known(name: str, where: str = "card") -> Subject:
    """A graph of the corpus as a subject."""
    return Subject(plan_of(name, where), graph(name), profile(where), "a device", ROOF, lambda _: "")


def subject(
    found: Any, where: str, roofline: Roofline | None = ROOF, **lines: Callable[[int], str]
) -> Subject:
    plan = lower(found, profile(where)).plan
    return Subject(plan, found, profile(where), "a device", roofline, lines.get("line", lambda _: ""))


def of(function: Callable[[Recorder], Any], where: str = "card", **more: Any) -> Subject:
    return subject(graph_of(function), where, **more)


# -- flow and lifetimes


@pytest.mark.parametrize("where", PROFILES)
@pytest.mark.parametrize("name", SOME)
def test_flow_found_in_the_plan_is_what_lowering_meant(name: str, where: str) -> None:
    """Levels and lifetimes follow from operands alone; the passes that made the plan know them otherwise."""
    made = stages(graph(name), profile(where))
    plan = plan_of(name, where)
    found = flow(plan)
    assert found.levels == [made.levels[k] for k in made.order]
    wanted = intervals(made.base, made.drafts, made.levels, set(made.outputs), made.in_place)
    assert sorted((life.value.size, life.first, life.last) for life in lifetimes(found)) == sorted(
        (i.size, i.first, i.last) for i in wanted
    )
    least = max(live_bytes(lifetimes(found), found.depth), default=0)
    assert least <= plan.scratch_bytes <= 1.1 * least


@pytest.mark.slow
@pytest.mark.parametrize("where", PROFILES)
def test_every_arena_of_the_corpus_is_within_a_tenth_of_its_lower_bound(where: str) -> None:
    checked = 0
    for name, _ in corpus():
        plan = lower(graph(name), profile(where)).plan
        found = flow(plan)
        least = max(live_bytes(lifetimes(found), found.depth), default=0)
        assert least <= plan.scratch_bytes <= 1.1 * least, name
        checked += bool(least)
    assert checked > 10, checked


def test_every_value_is_made_before_it_is_read() -> None:
    found = flow(plan_of("demo step", "card"))
    for value in found.values:
        assert all(found.levels[d] < found.levels[r] for d in value.made for r in value.read)
        assert not value.name.startswith("s") or (value.made and value.read)


# -- costs


@pytest.mark.parametrize("where", PROFILES)
def test_a_map_costs_its_operands_and_results(where: str) -> None:
    (cost,) = (d.cost for d in of(lambda r: r.input(64, 32) * r.input(32) + 1.0, where).plan.dispatches())
    assert (cost.read, cost.written, cost.operations) == (4 * 64 * 32 + 4 * 32, 4 * 64 * 32, 2 * 64 * 32)


@pytest.mark.parametrize("where", PROFILES)
def test_a_slice_costs_what_it_reads_and_a_transcendental_more(where: str) -> None:
    (cost,) = (d.cost for d in of(lambda r: m.exp(r.input(64, 32)[:8]), where).plan.dispatches())
    assert (cost.read, cost.written) == (4 * 8 * 32, 4 * 8 * 32)
    assert cost.operations == 20 * 8 * 32


@pytest.mark.parametrize("where", PROFILES)
def test_a_row_kernel_computes_what_is_along_the_row_once(where: str) -> None:
    (cost,) = (d.cost for d in of(lambda r: m.sum(r.input(500, 40), 1) * 2.0, where).plan.dispatches())
    assert (cost.read, cost.written, cost.operations) == (4 * 500 * 40, 4 * 500, 500 * 40 + 500)


@pytest.mark.parametrize("where", PROFILES)
def test_a_product_costs_two_operations_a_step(where: str) -> None:
    (cost,) = (
        d.cost for d in of(lambda r: m.matmul(r.input(3, 512, 64), r.input(64, 512)), where).plan.dispatches()
    )
    assert cost.operations == 2 * 3 * 512 * 64 * 512
    assert cost.written == 4 * 3 * 512 * 512
    assert cost.read == 4 * (3 * 512 * 64 + 64 * 512), "what strides of 0 repeat is read once"


@pytest.mark.parametrize("where", PROFILES)
def test_costs_are_never_more_than_the_operands(where: str) -> None:
    for name in SOME:
        for dispatch in plan_of(name, where).dispatches():
            whole = sum(o.size for o in dispatch.operands)
            assert dispatch.cost.read + dispatch.cost.written <= whole + 16 * len(dispatch.operands), name


# -- rooflines


def test_rooflines_are_known_for_software_and_listed_devices_only() -> None:
    software = _device.roofline(snapshot("lavapipe-22.3"), 4)
    assert software is not None and software == _device.roofline(snapshot("lavapipe-22.3"), 4)
    single = _device.roofline(snapshot("lavapipe-22.3"), 1)
    assert single is not None and software.bytes == 4 * single.bytes
    listed = _device.roofline(snapshot("h200"), 4)
    assert listed is not None and listed.bytes > 4e12
    assert _device.roofline(snapshot("radv-navi21"), 4) is None


def test_a_roofline_says_what_bounds() -> None:
    assert [ROOF.bound(*work) for work in ((2000, 0), (2000, 40_000), (10, 10))] == [
        "memory",
        "arithmetic",
        "dispatch",
    ]
    assert ROOF.seconds(4_000_000, 0) == 4e-3 and ROOF.seconds(0, 0) == 1e-6


# -- reasons


def reasons(function: Callable[[Recorder], Any], where: str = "card") -> list[str]:
    return [b.reason for b in boundaries(stages(graph_of(function), profile(where)).fusion)]


def test_every_boundary_has_its_reason() -> None:
    assert reasons(lambda r: m.exp(r.input(8, 8)) * 2.0) == []
    assert any("product" in x for x in reasons(lambda r: m.matmul(m.exp(r.input(8, 8)), r.input(8, 8))))
    summed = reasons(lambda r: m.sum(m.matmul(r.input(8, 8), r.input(8, 8)), 0))
    assert summed == ["a reduction of a product has a kernel of its own"]
    other = reasons(lambda r: m.matmul(r.input(8, 8), r.input(8, 8))[::2] + 1.0)
    assert other == ["it reads other elements of the product than those it computes"]
    both = reasons(lambda r: m.sum(m.softmax(r.input(64, 8), axis=1), axis=0), "lavapipe-descriptor")
    assert both and any("reduce over different axes, (1,) and (0,)" in x for x in both), both
    shapes = reasons(lambda r: m.broadcast_to(m.sum(r.input(6, 7)), (11, 3)) * r.input(11, 3))
    assert any("different shapes" in x for x in shapes)
    gathered = reasons(lambda r: m.take(m.cumulative_sum(r.input(50)), r.input(50, dtype="int32"), axis=0))
    assert gathered


def test_a_boundary_names_clusters_in_order() -> None:
    for where in PROFILES:
        found = boundaries(stages(graph("demo step"), profile(where)).fusion)
        assert found and all(b.before < b.after and b.reason for b in found)
        assert len({(b.before, b.after) for b in found}) == len(found)


# -- text


def test_explain_tells_groups_lines_costs_and_ends() -> None:
    lines = {0: "a.py:1", 1: "a.py:2"}
    made = of(
        lambda r: m.matmul(m.tanh(r.input(64, 64) * 2.0), r.input(64, 64)), line=lambda k: lines.get(k, "")
    )
    text = explain(made)
    assert "a map over 64 x 64 elements, 2 operations: multiply, tanh" in text
    assert "at a.py:1, a.py:2" in text
    assert "product 64 x 64 by 64 x 64: variant matmul.tiles_" in text and "workgroups" in text
    assert "ends before 1: a matrix product reads its operands from memory [tanh float32[64, 64]]" in text
    assert "reads 16 KiB, writes 16 KiB" in text and "bound by" in text
    assert "roofline 1 GB/s" in text


def test_explain_tells_what_a_product_takes_along() -> None:
    made = of(lambda r: m.relu(m.matmul(r.input(64, 64), r.input(64, 64)) + r.input(64)))
    text = explain(made)
    assert "0  matmul+add+relu" in text and "1 dispatch in 1 level" in text
    assert (
        "variant matmul.tiles_" in text
        and "a product and what follows it, 3 operations: matmul, add, relu" in text
    )


def test_explain_says_what_it_does_not_know() -> None:
    made = of(lambda r: r.input(8) + 1.0, roofline=None)
    assert "roofline unknown" in explain(made) and "expected time unknown" in explain(made)
    assert "roofline 1 GB/s" in explain(made.with_roofline(ROOF))
    loaded = Subject(made.plan, None, made.profile, "a device", ROOF, lambda _: "")
    assert "loaded from a file" in explain(loaded) and "reads 32 B" in explain(loaded)


@pytest.mark.parametrize("where", ["lavapipe-descriptor", "lavapipe-compat", "swiftshader", "card"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((64, 64), (64, 64)),
        ((1000, 7), (7, 13)),
        ((3, 4099), (4099, 5)),
        ((512, 512), (512, 1)),
        ((1, 9), (9, 400)),
    ],
)
def test_every_product_has_a_variant_and_a_reason(where: str, shapes: tuple[tuple[int, int], ...]) -> None:
    made = of(lambda r: m.matmul(r.input(*shapes[0]), r.input(*shapes[1])), where)
    text = explain(made)
    dispatch = next(iter(made.plan.dispatches()))
    if dispatch.kernel.name.startswith("matmul."):
        line = next(x for x in text.splitlines() if ": variant " in x)
        assert len(line.partition(": variant ")[2].split(", ", 1)[1]) > 10
    if len(list(made.plan.dispatches())) == 2 and "c_split" not in text:
        assert "k is split into" in text and "parts along k" in text


def test_figures_are_easy_to_read() -> None:
    assert [bytes_text(n) for n in (0, 1023, 1024, 1536, 300 << 20, 5 << 30)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "1.5 KiB",
        "300 MiB",
        "5 GiB",
    ]
    assert [count_text(n) for n in (7, 1500, 2_000_000)] == ["7", "1.5 k", "2 M"]
    assert [seconds_text(s) for s in (2.5, 0.0123, 4e-6)] == ["2.5 s", "12.3 ms", "4 us"]


# -- pictures


@pytest.mark.parametrize("name", SOME)
def test_the_graph_shows_every_dispatch_and_slot_and_no_box_overlaps(name: str) -> None:
    made = known(name)
    root = ET.fromstring(draw_graph(made).svg())
    boxes = [
        tuple(float(e.attrib[k]) for k in ("x", "y", "width", "height"))
        for e in root.iter("{http://www.w3.org/2000/svg}rect")
        if e.attrib.get("stroke", "none") != "none" and float(e.attrib["height"]) > 20
    ]
    plan = made.plan
    assert len(boxes) == len(list(plan.dispatches())) + len(plan.inputs) + len(plan.outputs) + len(
        plan.constants
    )
    for k, (x, y, w, h) in enumerate(boxes):
        for other in boxes[:k]:
            apart = (
                x >= other[0] + other[2] or other[0] >= x + w or y >= other[1] + other[3] or other[1] >= y + h
            )
            assert apart, f"{name}: two boxes overlap"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(x + w <= width and y + h <= height for x, y, w, h in boxes)


@pytest.mark.parametrize("name", ["layer norm both ways (64, 256)", "demo step"])
def test_no_line_of_the_graph_runs_behind_a_box(name: str) -> None:
    root = ET.fromstring(draw_graph(known(name)).svg())
    boxes, lines = [], []
    for e in root.iter():
        if (
            e.tag.endswith("rect")
            and e.attrib.get("stroke", "none") != "none"
            and float(e.attrib["height"]) > 20
        ):
            boxes.append(tuple(float(e.attrib[k]) for k in ("x", "y", "width", "height")))
        if e.tag.endswith("line"):
            lines.append(tuple(float(e.attrib[k]) for k in ("x1", "y1", "y2")))
    assert lines or name != "demo step"
    for x, y1, y2 in lines:
        assert not any(b[0] < x < b[0] + b[2] and y1 < b[1] + b[3] and b[1] < y2 for b in boxes)


def test_names_in_pictures_are_escaped() -> None:
    made = of(lambda r: r.input(8) + 1.0, line=lambda _: "<a & b>.py:1")
    text = draw_graph(made).svg()
    assert "&lt;a &amp; b&gt;.py:1" in text
    ET.fromstring(text)


def test_the_memory_picture_shows_arena_peak_and_bound() -> None:
    made = known("demo step")
    text = draw_memory(made).svg()
    root = ET.fromstring(text)
    said = " ".join(e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text"))
    found = flow(made.plan)
    live = live_bytes(lifetimes(found), found.depth)
    assert f"arena {bytes_text(made.plan.scratch_bytes)}" in said
    assert f"lower bound {bytes_text(max(live))}" in said
    assert f"peak at level {live.index(max(live))}" in said
    assert text.count("<rect") == 2 + len(lifetimes(found))
    assert "no arena" in draw_memory(of(lambda r: r.input(8) + 1.0)).svg()


# -- reports


def test_the_report_names_operations_and_reconciles_with_the_plan() -> None:
    made = known("layer norm both ways (64, 256)")
    data = json.loads(to_json(report(made)))
    ops = [node["op"] for node in data["semantic"]["nodes"]]
    assert all(op.startswith(("matrix.", "ml.")) for op in ops), ops
    steps = [s for s in data["executable"]["steps"] if s != "barrier"]
    dispatches = list(made.plan.dispatches())
    assert [s["groups"] for s in steps] == [list(d.groups) for d in dispatches]
    kernels = data["executable"]["kernels"]
    assert [kernels[s["kernel"]]["digest"] for s in steps] == [d.kernel.digest for d in dispatches]
    assert data["executable"]["scratch"]["bytes"] == made.plan.scratch_bytes
    assert data["executable"]["steps"].count("barrier") == len(made.plan.steps) - len(steps)


CODE = """
from tests.null.test_inspect import SOME, graph, known
from oa._inspect.report import report, to_json
from oa._inspect.explain import explain
from oa._inspect.graph import draw_graph
from oa._inspect.memory import draw_memory
import hashlib
total = hashlib.sha256()
names = SOME[-5:]
for name in names if {forwards} else reversed(names):
    graph(name)
for name in names:
    made = known(name)
    for part in (to_json(report(made)), explain(made), draw_graph(made).svg(), draw_memory(made).svg()):
        assert " at 0x" not in part and "0x7f" not in part
        total.update(part.encode())
print(total.hexdigest())
"""


def test_reports_and_pictures_are_the_same_in_every_process_and_for_every_hash_seed() -> None:
    said = set()
    for seed, forwards in (("0", True), ("4242", False)):
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(forwards=forwards)],
            cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        said.add(done.stdout.strip())
    assert len(said) == 1
