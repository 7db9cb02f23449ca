"""The demo: its losses against the twin, its bits in every way of running, resuming, interrupting."""

from __future__ import annotations

import dataclasses
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix, ml
from tests.oracle import twin
from tutorials import char_transformer as demo

SMALL = demo.Recipe(steps=20, batch=4, context=12, width=16, heads=2, layers=1, warmup=4)


@pytest.fixture(scope="module")
def corpus() -> demo.Corpus:
    return demo.Corpus()


def bits(trainer: demo.Trainer) -> list[Any]:
    """Parameters, moments, step and losses as raw words."""
    values = (
        *trainer.model.state_dict().values(),
        *trainer.optimizer.state_dict().values(),
        trainer.losses.value,
    )
    return [v.to_numpy().view(np.uint32) for v in values]


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))


def test_first_20_losses_of_the_demo_are_the_twins(any_engine: Any, corpus: demo.Corpus) -> None:
    engine = any_engine
    recipe = demo.Recipe()
    trainer = demo.Trainer(engine, recipe, corpus)
    assert trainer.model.parameter_count == 117_479 or len(corpus.symbols) != 103
    twins = twin.Recipe(vocabulary=len(corpus.symbols))
    assert all(
        getattr(recipe, f.name) == getattr(twins, f.name)
        for f in dataclasses.fields(demo.Recipe)
        if f.name not in ("seed", "batch")
    )
    p = {n: v.to_numpy().astype(np.float64) for n, v in trainer.model.state_dict().items()}
    oracle = twin.Training(twins, p)
    plan = engine.capture(trainer.step)
    starts = demo.batch_starts(recipe, len(corpus.train))
    for step in range(20):
        engine.submit(plan)
        window = corpus.train[starts[step][:, None] + np.arange(recipe.context + 1)]
        wanted = oracle.step(window[:, :-1], window[:, 1:])
        assert plan.outputs.item() == pytest.approx(wanted, abs=1e-4), step


def test_eager_captured_and_replayed_are_bit_identical(engine: Any, corpus: demo.Corpus) -> None:
    state = engine.rng_state
    results = []
    for eager_steps in (20, 0, 10, 1):
        engine.rng_state = state
        trainer = demo.Trainer(engine, SMALL, corpus)
        for _ in range(eager_steps):
            trainer.step()
        plan = engine.capture(trainer.step)
        for _ in range(20 - eager_steps):
            engine.submit(plan)
        results.append(bits(trainer))
        assert trainer.optimizer.step_count.item() == 20
    assert all(same(results[0], other) for other in results[1:])


def test_every_configuration_gives_the_same_bits(device_name: str, corpus: demo.Corpus) -> None:
    results = []
    for profile, addressing in (("strict", "address"), ("strict", "descriptor"), ("compat", None)):
        with oa.Engine(device=device_name, profile=profile, addressing=addressing, seed=5) as engine:
            trainer = demo.Trainer(engine, SMALL, corpus)
            plan = engine.capture(trainer.step)
            for _ in range(5):
                engine.submit(plan)
            results.append(bits(trainer))
    assert all(same(results[0], other) for other in results[1:])


class Regularised(ml.Module):
    """A block with dropout: its training step consumes the engine's random state."""

    def __init__(self, engine: Any) -> None:
        self.block = ml.TransformerBlock(engine, 8, 2, dropout=0.3)
        self.head = ml.Linear(engine, 8, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.block(x))


def test_random_state_advances_alike_eager_and_replayed(engine: Any) -> None:
    state = engine.rng_state
    x = np.random.default_rng(1).normal(size=(2, 6, 8)).astype(np.float32)
    y = np.random.default_rng(2).integers(0, 5, (2, 6)).astype(np.int32)
    results, losses = [], []
    for eager_steps in (20, 0, 7):
        engine.rng_state = state
        model = Regularised(engine)
        optimizer = ml.AdamW(model.parameters(), 1e-2)
        inputs, targets = oa.State(engine, matrix.from_numpy(engine, x)), matrix.from_numpy(engine, y)

        def step(
            model: Any = model, optimizer: Any = optimizer, inputs: Any = inputs, targets: Any = targets
        ) -> Any:
            with ml.GradientTape() as tape:
                loss = ml.cross_entropy(model(inputs.value), targets)
            optimizer.step(tape.gradient(loss, optimizer.parameters))
            return loss

        seen = [step().item() for _ in range(eager_steps)]
        plan = engine.capture(step)
        for _ in range(20 - eager_steps):
            engine.submit(plan)
            seen.append(plan.outputs.item())
        losses.append(seen)
        results.append([p.value.to_numpy().view(np.uint32) for p in model.parameters()])
        draws = matrix.uniform(engine, (4,)).to_numpy()
        results[-1].append(draws.view(np.uint32))
    assert all(same(results[0], other) for other in results[1:])
    assert losses[0] == losses[1] == losses[2]
    assert len(set(losses[0])) == 20


def arguments(out: Path, device: str, *more: str) -> list[str]:
    sizes = {f.name: getattr(SMALL, f.name) for f in dataclasses.fields(SMALL)}
    options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    return ["--device", device, "--out", str(out), "--length", "8", *options, *more]


def test_resumed_equals_uninterrupted(
    tmp_path: Path, device_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert demo.main(arguments(whole, device_name)) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("val_loss=") and all(
        f" {k}=" in last for k in ("bits_per_char", "tokens_per_s", "seconds", "device")
    )
    assert demo.main(arguments(parts, device_name, "--stop-at", "7", "--eager")) == 0
    assert "stopped after step 7" in capsys.readouterr().out
    assert demo.main(["--device", device_name, "--out", str(parts), "--length", "8", "--resume"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == last.split()[:2]
    assert (whole / "checkpoint.safetensors").read_bytes() == (parts / "checkpoint.safetensors").read_bytes()
    for name in ("loss.png", "trace.json"):
        assert (whole / name).stat().st_size > 100


def test_the_line_that_goes_on_is_a_command(
    tmp_path: Path, device_name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OA_RUN", raising=False)
    folder = tmp_path / "a folder's name"
    assert demo.main(arguments(folder, device_name, "--stop-at", "2")) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1].partition("to go on: ")[2])
    assert words[:2] == [sys.executable, demo.__file__]
    assert demo.main([*words[2:], "--stop-at", "3"]) == 0
    assert "resumed at step 2" in capsys.readouterr().out
    monkeypatch.setenv("OA_RUN", "./run")
    assert demo.main([*words[2:], "--stop-at", "4"]) == 0
    line = capsys.readouterr().out.splitlines()[-1].partition("to go on: ")[2]
    assert shlex.split(line)[:4] == ["./run", "demo", "--resume", str(folder / "checkpoint.safetensors")]


def test_ctrl_c_saves_and_says_how_to_resume(
    tmp_path: Path, device_name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = demo.advance

    def interrupted(trainer: demo.Trainer, plan: Any) -> Any:
        if trainer.done == 5:
            signal.raise_signal(signal.SIGINT)
        return advance(trainer, plan)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(demo, "advance", interrupted)
    assert demo.main(arguments(tmp_path, device_name)) == 130
    assert signal.getsignal(signal.SIGINT) is before
    printed = capsys.readouterr().out
    assert "stopped after step 6" in printed and "--resume" in printed
    checkpoint = ml.read_checkpoint(tmp_path / "checkpoint.safetensors")
    assert checkpoint.progress == {"done": 6} and int(checkpoint.optimizer["step"]) == 6


def test_wrong_resume_is_one_line_and_an_exit_status(
    tmp_path: Path, device_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(["--device", device_name, "--out", str(tmp_path), "--resume"]) == 1
    (tmp_path / "checkpoint.safetensors").write_bytes(b"broken")
    assert demo.main(["--device", device_name, "--out", str(tmp_path), "--resume"]) == 1
    assert demo.main(arguments(tmp_path, device_name, "--stop-at", "1")) == 0
    assert demo.main(["--device", device_name, "--out", str(tmp_path), "--resume", "--batch", "5"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3 and all(line.startswith("error: ") for line in errors)
    assert "--batch 5 contradicts" in errors[2]


@pytest.mark.parametrize("option", ["seed -5", "steps -1", "steps 0", "batch 0", "batch -1", "layers -1", "layers 0", "context 0",
                                    "context 999999", "width 0", "heads 5", "peak nan", "peak -1", "warmup 9999"])  # fmt: skip
def test_an_impossible_recipe_is_one_line(
    tmp_path: Path, device_name: str, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    name, value = option.split()
    assert demo.main([*arguments(tmp_path, device_name), f"--{name}", value]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith("error: ") and value in said[0]


@pytest.mark.parametrize(
    "option", ["temperature 0", "temperature nan", "temperature x", "length -1", "length 2.5", "stop-at -3"]
)
def test_an_impossible_option_is_explained(
    tmp_path: Path, device_name: str, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    name, value = option.split()
    with pytest.raises(SystemExit) as caught:
        demo.main([*arguments(tmp_path, device_name), f"--{name}={value}"])
    assert caught.value.code == 2 and f"--{name}" in capsys.readouterr().err


def test_batches_depend_on_seed_and_step_only() -> None:
    long, short = demo.Recipe(steps=50), demo.Recipe(steps=20)
    a, b = demo.batch_starts(long, 1000), demo.batch_starts(short, 1000)
    assert np.array_equal(a[:20], b)
    assert a.min() >= 0 and a.max() < 1000 - long.context
    assert not np.array_equal(a, demo.batch_starts(demo.Recipe(steps=50, seed=1), 1000))
