"""`plan.explain()`: which operations share a dispatch and why it ends there, which variant, what it should cost."""

from __future__ import annotations

from dataclasses import replace

from oa._inspect.flow import Flow, Flowing, flow
from oa._inspect.products import product_text
from oa._inspect.subject import Subject, bytes_text, count_text, many, seconds_text, total
from oa._inspect.why import Boundary, boundaries
from oa._lower.base import BaseGraph, Ref
from oa._lower.fuse import Cluster
from oa._lower.passes import Stages
from oa._lower.plan import Access, Cost, Dispatch
from oa._lower.route import WHOLE
from oa.tunable import keys

#: Lines about one dispatch's readers, and names in a list, before the rest is only counted.
_MOST = 4
_MOST_NAMES = 10
_KINDS = {"partial": "the first stage of a reduction", "matmul": "a product and what follows it"}


def explain(subject: Subject) -> str:
    """The text; equal subjects give equal text."""
    found, made = flow(subject.plan), subject.stages()
    ends = _ends(made) if made is not None else {}
    lines = _head(subject, found)
    for number, dispatch in enumerate(subject.plan.dispatches()):
        lines += ["", *_dispatch(subject, found, number, dispatch)]
        if made is not None:
            lines += [f"    {line}" for line in _group(made, number)]
            lines += [f"    {line}" for line in ends.get(number, [])]
    if made is not None:
        lines += _inlined(made)
    return "\n".join(lines) + "\n"


def _head(subject: Subject, found: Flow) -> list[str]:
    plan, roof = subject.plan, subject.roofline
    count, whole = len(found.levels), total(plan)
    lines = [
        f"plan {plan.digest}: {many(count, 'dispatch')} in {many(found.depth, 'level')},"
        f" {many(len(plan.steps) - count, 'barrier')},"
        f" {bytes_text(plan.scratch_bytes)} of scratch",
        f"device {subject.device}: {subject.profile.name}, {subject.profile.addressing}",
    ]
    if len(subject.profile.tuned):
        used = measured(subject)
        lines.append(
            f"tuned: {many(len(subject.profile.tuned), 'measured choice')} for this device, driver and kernels"
            f" ({subject.profile.tuned.digest}), {len(used)} of them here"
        )
        lines += [f"    {key}: {choice}" for key, choice in used]
    if subject.profile.numeric != "stable":
        lines.append(f"numeric mode {subject.profile.numeric}")
    if roof is None:
        lines.append(
            "roofline unknown: no figures for this device; give plan.explain(roofline=oa.Roofline(...))"
        )
    else:
        lines.append(
            f"roofline {roof.bytes / 1e9:.4g} GB/s, {roof.operations / 1e9:.4g} G operations/s,"
            f" {seconds_text(roof.dispatch)} a dispatch ({roof.source})"
        )
    lines.append(f"all of it {_cost(subject, whole, sum_of=[d.cost for d in plan.dispatches()])}")
    if subject.graph is None:
        lines.append("loaded from a file: the operations behind it are not known")
    return lines


def measured(subject: Subject) -> list[tuple[str, str]]:
    """The measured choices that the plan was made with, each once."""
    if subject.graph is None:
        return []
    tuned = subject.profile.tuned
    plain = replace(subject.profile, tuned=type(tuned)({}))
    found = []
    for key in keys(subject.graph, plain):
        if (choice := tuned.get(key)) is not None:
            found.append((key, choice))
    return found


def _cost(subject: Subject, cost: Cost, sum_of: list[Cost] | None = None) -> str:
    told = f"reads {bytes_text(cost.read)}, writes {bytes_text(cost.written)}, {count_text(cost.operations)} operations"
    if subject.roofline is None:
        return told + "; expected time unknown"
    parts = [subject.seconds(c) or 0.0 for c in sum_of or [cost]]
    told += f"; at least {seconds_text(sum(parts))}"
    if sum_of is None:
        told += f", bound by {subject.roofline.bound(cost.read + cost.written, cost.operations)}"
    return told


def _dispatch(subject: Subject, found: Flow, number: int, dispatch: Dispatch) -> list[str]:
    groups = " x ".join(str(g) for g in dispatch.groups if g > 1) or "1"
    grid = f"{groups} workgroup{'' if groups == '1' else 's'} of {' x '.join(map(str, dispatch.kernel.local_size))}"
    lines = [
        f"{number}  {dispatch.label or dispatch.kernel.name}  level {found.levels[number]},"
        f" kernel {dispatch.kernel.name}, {grid}",
        f"    {_cost(subject, dispatch.cost)}",
        f"    {_values('from', found.reads[number])}{_values('to', found.writes[number])}".rstrip(),
    ]
    if places := subject.lines(dispatch):
        lines.append("    at " + _some(places))
    return lines + [f"    {line}" for line in product_text(dispatch, subject.profile)]


def _values(word: str, values: list[Flowing]) -> str:
    return f"{word} {_some([f'{v.name} ({bytes_text(v.size)})' for v in values])} " if values else ""


def _some(names: list[str], most: int = _MOST_NAMES) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _name(base: BaseGraph, ref: Ref) -> str:
    return base.nodes[ref].name.removeprefix("matrix.").lstrip("_")


def _shape(cluster: Cluster) -> str:
    space = " x ".join(map(str, cluster.space)) or "1"
    if cluster.kind == "map":
        return f"a map over {space} elements"
    if cluster.kind == "row":
        axes = ", ".join(map(str, cluster.axes or ()))
        return f"rows of {space} elements reduced over axis {axes}"
    return {"partial": "the first stage of a reduction", "matmul": "a product and what follows it"}.get(
        cluster.kind, cluster.kind
    )


def _group(made: Stages, number: int) -> list[str]:
    """What was put into the dispatch."""
    draft = made.drafts[made.order[number]]
    cluster = made.fusion.clusters[draft.cluster]
    if cluster.kind in {"matmul", "concat", *WHOLE} and len(cluster.members) == 1:
        return []
    names = [_name(made.base, r) for r in cluster.members]
    together = f"{len(names)} operations: {_some(names)}" if len(names) > 1 else "one operation"
    return [f"{_shape(cluster)}, {together}"]


def _ends(made: Stages) -> dict[int, list[str]]:
    """By dispatch: who reads what it stores, and why they are not one kernel."""
    last = {made.drafts[k].cluster: number for number, k in enumerate(made.order)}
    by_reason: dict[int, dict[str, list[int]]] = {}
    for boundary in boundaries(made.fusion, made.replaced):
        if boundary.before not in last:
            continue
        told = by_reason.setdefault(last[boundary.before], {})
        readers = _readers(made, boundary)
        if readers:
            told.setdefault(_reason(made, boundary), []).extend(readers)
        elif boundary.value in made.in_place:
            told.setdefault("", []).append(boundary.value)
    lines: dict[int, list[str]] = {}
    for number, reasons in by_reason.items():
        for reason, readers in list(reasons.items())[:_MOST]:
            if not reason:
                names = _some([f"{_name(made.base, v)} {made.base.nodes[v].spec!r}" for v in readers])
                lines.setdefault(number, []).append(f"writes {names} in its place inside a concatenation")
                continue
            who = _some([str(r) for r in sorted(set(readers))])
            lines.setdefault(number, []).append(f"ends before {who}: {reason}")
        if len(reasons) > _MOST:
            lines[number].append(f"ends before others for {len(reasons) - _MOST} more reasons")
    return lines


def _readers(made: Stages, boundary: Boundary) -> list[int]:
    """The dispatches that read a boundary's value."""
    found = []
    for number, k in enumerate(made.order):
        draft = made.drafts[k]
        if draft.cluster == boundary.after and any(
            ref == boundary.value and Access.READ in access for ref, access in draft.operands
        ):
            found.append(number)
    return found


def _reason(made: Stages, boundary: Boundary) -> str:
    value = made.base.nodes[boundary.value]
    stored = " (stored in any case: it is wanted)" if boundary.value in made.fusion.stored else ""
    return f"{boundary.reason} [{_name(made.base, boundary.value)} {value.spec!r}]{stored}"


def _inlined(made: Stages) -> list[str]:
    """Nodes that no dispatch stores: their readers compute them."""
    fusion = made.fusion
    inline = [r for r, flag in enumerate(fusion.inline) if flag and made.base.nodes[r].kind != "view"]
    again = sorted(fusion.again)
    lines = []
    if inline:
        names = list(dict.fromkeys(_name(made.base, r) for r in inline))
        lines.append(
            f"computed by their readers, not stored: {_some(names)} ({many(len(inline), 'operation')})"
        )
    if again:
        names = list(dict.fromkeys(_name(made.base, r) for r in again))
        lines.append(f"computed again rather than stored: {_some(names)} ({many(len(again), 'operation')})")
    return ["", *lines] if lines else []
