"""Plans in files: the same bits after loading, what must be bound, and everything that a file may have wrong is refused."""

from __future__ import annotations

import copy
import gc
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m
from oa import ml, planfile
from oa.errors import ArgumentError, CaptureError, DTypeError, EngineMismatch, FileFormatError, ShapeError
from tools.project import ROOT


def vector(engine: Any, *values: float) -> Any:
    return m.from_numpy(engine, np.array(values, np.float32))


def bits(tree: Any) -> Any:
    """The elements of everything in a result, as bytes."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: bits(part) for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(bits(part) for part in tree)
    return tree.to_numpy().tobytes(), tree.dtype.name, tree.shape


class Scene:
    """A plan with all that a plan can have: values, views, cells read, assigned or both, draws, numbers, nested results."""

    def __init__(self, engine: Any) -> None:
        rng = np.random.default_rng(5)
        self.engine = engine
        self.x = m.from_numpy(engine, rng.normal(size=(24, 40)).astype(np.float32))
        self.view = m.transpose(m.from_numpy(engine, rng.normal(size=(6, 40)).astype(np.float32)))[3:27]
        engine.flush()
        self.weight = oa.State(engine, m.from_numpy(engine, rng.normal(size=(40, 6)).astype(np.float32)))
        self.count = oa.State(engine, m.from_numpy(engine, np.array(0, np.int32)))
        self.last = oa.State(engine, m.zeros(engine, (24, 6)))

    @property
    def cells(self) -> dict[str, oa.State]:
        return {"weight": self.weight, "count": self.count, "last": self.last}

    def step(self) -> dict[str, Any]:
        noise = m.uniform(self.engine, (24, 6))
        y = m.softmax(m.matmul(self.x, self.weight.value) + self.view, axis=1) * noise + 0.25
        self.weight.assign(self.weight.value - 0.125 * m.matmul(m.transpose(self.x), y))
        self.count.assign(self.count.value + 1)
        self.last.assign(y)
        return {"y": y, "rest": [m.sum(y), (self.x, None)], "top": m.argmax(y, axis=1)}

    def capture(self) -> Any:
        return self.engine.capture(self.step)

    def state(self) -> Any:
        return bits([cell.value for cell in self.cells.values()])


def runs(engine: Any, plan: Any, times: int, cells: dict[str, oa.State]) -> Any:
    engine.rng_state = (77, 3)
    found = []
    for _ in range(times):
        engine.submit(plan)
        found.append((bits(plan.outputs), bits([c.value for c in cells.values()])))
    return found, engine.rng_state


def test_a_loaded_plan_gives_the_same_bits(engine: Any, tmp_path: Path) -> None:
    scene, other = Scene(engine), Scene(engine)
    plan = scene.capture()
    path = plan.save(tmp_path / "step.oap", names={"x": scene.x, "view": scene.view, **scene.cells})
    wanted = runs(engine, plan, 3, scene.cells)
    loaded = engine.load_plan(path)
    assert {p.name: p.kind for p in loaded.parameters} == {
        "x": "input", "view": "input", "weight": "cell", "count": "cell", "last": "cell",
    }  # fmt: skip
    assert not any(p.bound for p in loaded.parameters)
    loaded.bind("x", other.x)
    loaded.bind("view", other.view)
    for name, cell in other.cells.items():
        loaded.bind(name, cell)
    assert loaded.show() == plan.show()
    assert runs(engine, loaded, 3, other.cells) == wanted
    assert other.count.value.item() == 3


def test_a_plan_saved_with_its_values_runs_as_it_is(engine: Any, tmp_path: Path) -> None:
    scene = Scene(engine)
    plan = scene.capture()
    path = plan.save(tmp_path / "step.oap", values=True)
    wanted, draws = runs(engine, plan, 2, scene.cells)
    loaded = engine.load_plan(path)
    assert all(p.bound for p in loaded.parameters)
    engine.rng_state = (77, 3)
    for outputs, _ in wanted:
        engine.submit(loaded)
        assert bits(loaded.outputs) == outputs
    assert engine.rng_state == draws


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "int16", "uint8", "bool"])
def test_values_of_every_width_are_kept(any_engine: Any, dtype: str, tmp_path: Path) -> None:
    engine = any_engine
    if not engine.supports(dtype):
        pytest.skip(f"the device has no {dtype}")
    x = m.from_numpy(engine, np.arange(35, dtype=np.float32).reshape(5, 7)).astype(dtype)
    cell = oa.State(engine, x)
    engine.flush()
    plan = engine.capture(lambda: (m.transpose(x), m.concat([x, cell.value])))
    path = plan.save(tmp_path / "p.oap", values=True)
    loaded = engine.load_plan(path)
    for one, other in zip(run_once(engine, plan), run_once(engine, loaded)):
        assert one.dtype is other.dtype is x.dtype
        assert one.astype("float32").tolist() == other.astype("float32").tolist()


def run_once(engine: Any, plan: Any) -> Any:
    engine.submit(plan)
    return plan.outputs


def test_saving_writes_the_same_file_again_and_also_from_a_loaded_plan(engine: Any, tmp_path: Path) -> None:
    scene = Scene(engine)
    plan = scene.capture()
    first = plan.save(tmp_path / "a.oap", names=scene.cells, values=True).read_bytes()
    assert plan.save(str(tmp_path / "b.oap"), names=scene.cells, values=True).read_bytes() == first
    assert engine.load_plan(tmp_path / "a.oap").save(tmp_path / "c.oap", values=True).read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.oap", "b.oap", "c.oap"], (
        "nothing temporary is left"
    )


CODE = """
import sys, hashlib, oa
from tests.device.test_saved_plans import bits
with oa.Engine(device={device!r}, seed=9) as engine:
    plan = engine.load_plan({path!r})
    for _ in range(3):
        engine.submit(plan)
    print(hashlib.sha256(repr(bits(plan.outputs)).encode()).hexdigest())
"""


def test_another_process_gets_the_same_bits(any_engine: Any, device_name: str, tmp_path: Path) -> None:
    import hashlib

    scene = Scene(any_engine)
    plan = scene.capture()
    path = plan.save(tmp_path / "step.oap", values=True)
    any_engine.rng_state = (9, 0)
    for _ in range(3):
        any_engine.submit(plan)
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(device=device_name, path=str(path))],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "5"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == hashlib.sha256(repr(bits(plan.outputs)).encode()).hexdigest()


def test_training_goes_on_from_a_file(any_engine: Any, tmp_path: Path) -> None:
    engine = any_engine

    def made() -> Any:
        engine.rng_state = (4, 0)
        model = ml.Linear(engine, 6, 3)
        optimizer = ml.AdamW(model.named_parameters(), 0.05)
        rng = np.random.default_rng(8)
        x = m.from_numpy(engine, rng.normal(size=(10, 6)).astype(np.float32))
        y = m.from_numpy(engine, rng.integers(0, 3, 10).astype(np.int32))

        def step() -> Any:
            with ml.GradientTape() as tape:
                loss = ml.cross_entropy(model(x), y)
            optimizer.step(tape.gradient(loss, optimizer.parameters))
            return loss

        return engine.capture(step)

    plan = made()
    path = plan.save(tmp_path / "train.oap", values=True)
    losses = []
    for _ in range(6):
        engine.submit(plan)
        losses.append(plan.outputs.item())
    loaded = engine.load_plan(path)
    again = []
    for _ in range(6):
        engine.submit(loaded)
        again.append(loaded.outputs.item())
    assert again == losses and losses[-1] < losses[0]


def test_parameters_stand_for_their_cells(any_engine: Any, tmp_path: Path) -> None:
    """A flat group's parameters share one cell: the plan of one model advances another model that is laid out alike."""
    engine = any_engine
    x = m.from_numpy(engine, np.ones((4, 6), np.float32))
    y = m.from_numpy(engine, np.array([0, 1, 2, 1], np.int32))

    def made() -> tuple[Any, Any]:
        model = ml.Linear(engine, 6, 3)
        optimizer = ml.AdamW(model.named_parameters(), 0.1)

        def step() -> Any:
            with ml.GradientTape() as tape:
                loss = ml.cross_entropy(model(x), y)
            optimizer.step(tape.gradient(loss, optimizer.parameters))
            return loss

        return model, step

    (one, step), (other, _) = made(), made()
    names = one.named_parameters()
    path = engine.capture(step).save(tmp_path / "p.oap", names={**names, "x": x, "y": y})
    plan = engine.load_plan(path)
    free = {p.name for p in plan.parameters}
    assert {"weight", "x", "y"} <= free and "bias" not in free
    plan.bind("x", x)
    plan.bind("y", y)
    plan.bind("weight", other.named_parameters()["bias"])
    for name in free - {"weight", "x", "y"}:
        found = next(p for p in plan.parameters if p.name == name)
        plan.bind(name, oa.State(engine, m.zeros(engine, found.shape, dtype=found.dtype)))
    before = bits([p.value for p in other.named_parameters().values()])
    engine.submit(plan)
    reference = plan.outputs.item()
    after = bits([p.value for p in other.named_parameters().values()])
    assert after != before
    assert np.isfinite(reference)


# -- binding


def simple(engine: Any, tmp_path: Path) -> Any:
    x, c = vector(engine, 1, 2), oa.State(engine, vector(engine, 3, 4))
    plan = engine.capture(lambda: x * c.value)
    return engine.load_plan(plan.save(tmp_path / "p.oap", names={"x": x, "c": c}))


def test_nothing_runs_before_everything_is_bound(engine: Any, tmp_path: Path) -> None:
    plan = simple(engine, tmp_path)
    with pytest.raises(ArgumentError, match=r"nothing is bound to x, c"):
        engine.submit(plan)
    with pytest.raises(CaptureError):
        plan.outputs.to_numpy()
    plan.bind("x", vector(engine, 5, 6))
    with pytest.raises(ArgumentError, match="nothing is bound to c:"):
        engine.submit(plan)
    assert plan.inputs[0].tolist() == [5, 6] and plan.inputs[1] is None
    plan.bind(1, oa.State(engine, vector(engine, 2, 3)))
    engine.submit(plan)
    assert plan.outputs.tolist() == [10, 18]


def test_what_does_not_fit_is_refused(engine: Any, tmp_path: Path) -> None:
    plan = simple(engine, tmp_path)
    with oa.Engine(device=engine.device.snapshot.uuid) as stranger:
        for error, slot, value in (
            (ArgumentError, "nothing", vector(engine, 1, 2)),
            (ArgumentError, 2, vector(engine, 1, 2)),
            (ArgumentError, "c", vector(engine, 1, 2)),
            (ArgumentError, "x", oa.State(engine, vector(engine, 1, 2))),
            (ShapeError, "x", vector(engine, 1, 2, 3)),
            (ShapeError, "c", oa.State(engine, vector(engine, 1))),
            (DTypeError, "c", oa.State(engine, m.from_numpy(engine, np.zeros(2, np.int32)))),
            (EngineMismatch, "c", oa.State(stranger, vector(stranger, 1, 2))),
            (EngineMismatch, "x", vector(stranger, 1, 2)),
        ):
            with pytest.raises(error):
                plan.bind(slot, value)
    assert not any(p.bound for p in plan.parameters)


def test_one_cell_takes_one_place(engine: Any, tmp_path: Path) -> None:
    a, b = oa.State(engine, vector(engine, 1, 2)), oa.State(engine, vector(engine, 3, 4))

    def swap() -> Any:
        first, second = a.value, b.value
        a.assign(second + 0.0)
        b.assign(first + 0.0)
        return first + second

    plan = engine.load_plan(engine.capture(swap).save(tmp_path / "p.oap", names={"a": a, "b": b}))
    plan.bind("a", a)
    with pytest.raises(ArgumentError, match="another place"):
        plan.bind("b", a)
    plan.bind("a", a)
    plan.bind("b", b)
    engine.submit(plan)
    assert (a.value.tolist(), b.value.tolist()) == ([3, 4], [1, 2])


def test_names_must_be_of_the_plan_and_each_for_one_thing(engine: Any, tmp_path: Path) -> None:
    x, y = vector(engine, 1, 2), vector(engine, 3, 4)
    plan = engine.capture(lambda: x * y)
    with pytest.raises(ArgumentError, match=r"names\['x'\] is a int"):
        plan.save(tmp_path / "p.oap", names={"x": 3})
    with pytest.raises(ArgumentError, match="two inputs or cells would be called 'in1'"):
        plan.save(tmp_path / "p.oap", names={"in1": x})
    with pytest.raises(ArgumentError, match="keys that are no str"):
        engine.capture(lambda: {1: x + y}).save(tmp_path / "p.oap")
    assert not list(tmp_path.iterdir())


def test_what_a_loaded_plan_holds_goes_with_it(engine: Any, tmp_path: Path) -> None:
    path = Scene(engine).capture().save(tmp_path / "p.oap", values=True)
    engine.load_plan(path)
    gc.collect()
    engine.wait()
    before = engine.memory.allocated
    for _ in range(5):
        plan = engine.load_plan(path)
        engine.submit(plan).wait()
        del plan
        gc.collect()
    engine.wait()
    engine.trim()
    assert engine.memory.allocated <= before


# -- looking at a loaded plan


def test_a_loaded_plan_can_be_looked_at(engine: Any, tmp_path: Path) -> None:
    scene = Scene(engine)
    plan = scene.capture()
    loaded = engine.load_plan(plan.save(tmp_path / "p.oap"))
    assert "loaded from a file" in loaded.explain()
    assert loaded.report()["executable"] == plan.report()["executable"]
    assert loaded.report()["semantic"] is None
    assert loaded.graph(tmp_path / "a.svg").read_text().count("<rect") == plan.graph(
        tmp_path / "b.svg"
    ).read_text().count("<rect")
    assert (
        loaded.memory_plot(tmp_path / "c.svg").read_bytes()
        == plan.memory_plot(tmp_path / "d.svg").read_bytes()
    )


# -- files that are refused


@pytest.fixture(scope="module")
def saved(any_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield Scene(any_engine).capture().save(tmp_path_factory.mktemp("plan") / "step.oap", values=True)


def test_truncated_lengthened_and_changed_files_are_refused(
    any_engine: Any, saved: Path, tmp_path: Path
) -> None:
    whole = saved.read_bytes()
    rng = random.Random(3)
    lengths = [0, 1, 7, 8, 12, 55, 56, 57, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(40))]
    contents = [whole[:length] for length in lengths] + [whole + b"\0"]
    for place in [*range(0, 56, 3), *(rng.randrange(len(whole)) for _ in range(60))]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        contents.append(bytes(changed))
    target = tmp_path / "bad.oap"
    for content in contents:
        target.write_bytes(content)
        with pytest.raises(FileFormatError):
            any_engine.load_plan(target)
    with pytest.raises(FileNotFoundError):
        any_engine.load_plan(tmp_path / "none.oap")
    (tmp_path / "text.oap").write_text("not a plan at all, but longer than a header would be: " * 3)
    with pytest.raises(FileFormatError, match="is none"):
        any_engine.load_plan(tmp_path / "text.oap")


def test_another_version_is_refused(
    any_engine: Any, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = bytearray(saved.read_bytes())
    struct.pack_into("<I", changed, 8, planfile.VERSION + 1)
    (tmp_path / "v.oap").write_bytes(changed)
    with pytest.raises(FileFormatError, match=re.escape(f"version {planfile.VERSION + 1}")):
        any_engine.load_plan(tmp_path / "v.oap")
    monkeypatch.setattr("oa.loading.__version__", "999.0")
    with pytest.raises(FileFormatError, match=r"this is 999\.0"):
        any_engine.load_plan(saved)


def rewritten(saved: Path, target: Path, change: Any) -> Path:
    """The file with its JSON changed, and whole again."""
    data, sections = planfile.read(saved)
    change(data)
    planfile.write(target, data, sections)
    return target


@pytest.mark.parametrize("what", ["fingerprint", "profile", "addressing"])
def test_another_device_profile_or_addressing_is_refused(
    any_engine: Any, saved: Path, tmp_path: Path, what: str
) -> None:
    bad = rewritten(saved, tmp_path / "d.oap", lambda data: data["device"].update({what: "other"}))
    with pytest.raises(FileFormatError, match=r"it was made for .*other"):
        any_engine.load_plan(bad)


def test_an_engine_with_other_addressing_refuses_the_file(device_name: str, tmp_path: Path) -> None:
    with oa.Engine(device=device_name, addressing="descriptor") as one:
        x = vector(one, 1, 2)
        path = one.capture(lambda: x + 1.0).save(tmp_path / "p.oap", values=True)
    try:
        other = oa.Engine(device=device_name, addressing="address")
    except oa.errors.Unsupported:
        pytest.skip("the device has no addresses")
    with other, pytest.raises(FileFormatError, match="addressing descriptor, this engine has address"):
        other.load_plan(path)


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(data, dict):
        for key, part in data.items():
            yield from leaves(part, (*path, key))
    elif isinstance(data, list):
        for key, part in enumerate(data):
            yield from leaves(part, (*path, key))


def test_whole_files_with_anything_wrong_in_them_are_refused_or_harmless(
    any_engine: Any, saved: Path, tmp_path: Path, full: bool
) -> None:
    """A right digest makes no file trusted: each part is replaced by others, and nothing but FileFormatError comes of it."""
    data, sections = planfile.read(saved)
    rng = random.Random(11)
    places = [p for p in leaves(data) if p]
    refused = 0
    tries = 3000 if full else 500
    for number in range(tries):
        changed = copy.deepcopy(data)
        *inner, last = rng.choice(places)
        at = changed
        for key in inner:
            at = at[key]
        old = at[last]
        at[last] = rng.choice(
            [None, -1, 0, 1 << 40, 1 << 70, 1.5, True, "x", [], {}, [old], old + 1 if type(old) is int else 3]
        )
        target = tmp_path / f"{number % 2}.oap"
        planfile.write(target, changed, sections)
        try:
            any_engine.load_plan(target)
        except FileFormatError:
            refused += 1
    assert refused > tries * 0.6
    missing = [p for p in leaves(data) if p and isinstance(p[-1], str)]
    for *inner, last in rng.sample(missing, 60):
        changed = copy.deepcopy(data)
        at = changed
        for key in inner:
            at = at[key]
        del at[last]
        planfile.write(target, changed, sections)
        with pytest.raises(FileFormatError):
            any_engine.load_plan(target)
    any_engine.wait()
    plan = any_engine.load_plan(saved)
    any_engine.submit(plan).wait()
    assert np.isfinite(plan.outputs["y"].to_numpy()).all()


def test_deep_and_strange_json_is_refused(any_engine: Any, saved: Path, tmp_path: Path) -> None:
    def deep(data: Any) -> None:
        tree: Any = "value"
        for _ in range(200):
            tree = ["list", [tree]]
        data["tree"] = tree

    with pytest.raises(FileFormatError):
        any_engine.load_plan(rewritten(saved, tmp_path / "deep.oap", deep))
    _, sections = planfile.read(saved)
    for text in (b"[" * 100_000, b"{}", b"[]", b"\xff\xfe", b'{"oa": NaN}', b""):
        _raw(tmp_path / "raw.oap", text, sections)
        with pytest.raises(FileFormatError):
            any_engine.load_plan(tmp_path / "raw.oap")


def _raw(path: Path, text: bytes, sections: list[bytes]) -> None:
    import hashlib

    body = text + b"".join(sections)
    head = struct.pack("<8sIIQ", b"oa plan\0", planfile.VERSION, len(text), 56 + len(body))
    path.write_bytes(head + hashlib.sha256(head + body).digest() + body)
