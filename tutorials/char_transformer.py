"""Train a character-level Transformer on real English text, on any Vulkan device.

Text:     the language reference that every CPython carries (`pydoc_data.topics`), about 465,000 characters; the last tenth is
          held out and never trained on.
Model:    2 pre-norm blocks, width 64, 4 heads, context 64, about 117,000 parameters.
Training: 500 AdamW steps of 32 windows, seed 0.
Result:   a validation loss of about 1.65 to 1.70 nats a character, on every device (unigram entropy of the text: 3.25).

The text, the table that says where each batch starts, the step number and the optimiser's state all live on the device, so one
captured step is replayed with nothing from the host: no upload, no Python number that changes. Batches and schedule depend on
the step alone, so a run that was stopped and resumed gives exactly the result of one that was not.

    python tutorials/char_transformer.py --help
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oa
from oa import matrix, ml
from oa.matrix import Matrix


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, stored in the checkpoint."""

    seed: int = 0
    steps: int = 500
    batch: int = 32
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2
    peak: float = 3e-3
    warmup: int = 50

    def __post_init__(self) -> None:
        """ArgumentError for numbers that no run can have; what the layers check is left to them."""
        for name, least in (("seed", 0), ("steps", 1), ("batch", 1), ("context", 1), ("layers", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value < 2**63:
                raise oa.errors.ArgumentError(f"--{name} {value}: wanted a whole number of {least} or more")


#: What `--help` says of each field of the recipe.
RECIPE_HELP = {
    "seed": "of initial values, batches and generated text",
    "steps": "AdamW updates",
    "batch": "windows per update",
    "context": "characters that the model sees",
    "width": "channels",
    "heads": "attention heads; divide the width",
    "layers": "Transformer blocks",
    "peak": "highest learning rate",
    "warmup": "updates until the rate is highest; a cosine to a tenth follows",
}


class Corpus:
    """The text as symbol numbers: the first nine tenths to train on, the last tenth held out."""

    def __init__(self) -> None:
        from pydoc_data.topics import topics

        self.text = "\n".join(topics[name] for name in sorted(topics))
        self.sha256 = hashlib.sha256(self.text.encode()).hexdigest()
        self.symbols = sorted(set(self.text))
        number = {symbol: i for i, symbol in enumerate(self.symbols)}
        ids = np.array([number[c] for c in self.text], np.int32)
        cut = len(ids) - len(ids) // 10
        self.train, self.held_out = ids[:cut], ids[cut:]

    def decode(self, ids: NDArray[Any]) -> str:
        """The characters of symbol numbers."""
        return "".join(self.symbols[i] for i in ids)


class CharTransformer(ml.Module):
    """Symbols [B, T] -> logits [B, T, symbols]: embeddings, pre-norm blocks, a last norm, an untied head."""

    def __init__(self, engine: oa.Engine, recipe: Recipe, symbols: int) -> None:
        self.token = ml.Embedding(engine, symbols, recipe.width, std=0.02)
        self.position = ml.Embedding(engine, recipe.context, recipe.width, std=0.02)
        self.blocks = [ml.TransformerBlock(engine, recipe.width, recipe.heads) for _ in range(recipe.layers)]
        self.norm = ml.LayerNorm(engine, recipe.width)
        self.head = ml.Linear(engine, recipe.width, symbols)

    def forward(self, ids: Matrix) -> Matrix:
        x = self.token(ids) + self.position.weight.value[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Matrix = self.head(self.norm(x))
        return logits


def batch_starts(recipe: Recipe, length: int) -> NDArray[np.int32]:
    """Where each window starts, [steps, batch]: entry k of a counter-based stream depends on k and the seed."""
    raw = np.random.Philox(key=recipe.seed).random_raw(recipe.steps * recipe.batch)
    return (raw % np.uint64(length - recipe.context)).astype(np.int32).reshape(recipe.steps, recipe.batch)


class Trainer:
    """Model, optimiser and data on one engine; `step` is one update and the thing that gets captured."""

    def __init__(self, engine: oa.Engine, recipe: Recipe, corpus: Corpus) -> None:
        if recipe.context >= len(corpus.held_out):
            raise oa.errors.ArgumentError(
                f"--context {recipe.context}: the held-out text has {len(corpus.held_out)} characters; choose fewer"
            )
        self.engine, self.recipe, self.corpus = engine, recipe, corpus
        self.model = CharTransformer(engine, recipe, len(corpus.symbols))
        rate = ml.warmup_cosine(recipe.peak, steps=recipe.steps, warmup=recipe.warmup, floor=0.1)
        self.optimizer = ml.AdamW(self.model.named_parameters(), rate, weight_decay=0.01, max_norm=1.0)
        self.text = matrix.from_numpy(engine, corpus.train)
        self.starts = matrix.from_numpy(engine, batch_starts(recipe, len(corpus.train)))
        self.losses = oa.State(engine, matrix.zeros(engine, (recipe.steps,)))
        self.done = 0  # updates submitted; the device counts for itself

    def step(self) -> Matrix:
        """One update on the batch that the step cell names; returns the loss before it."""
        number = self.optimizer.step_count
        start = matrix.expand_dims(matrix.take(self.starts, number, axis=0), 1)
        window = matrix.take(self.text, start + matrix.arange(self.engine, self.recipe.context + 1), axis=0)
        with ml.GradientTape() as tape:
            loss = ml.cross_entropy(self.model(window[:, :-1]), window[:, 1:])
        here = matrix.arange(self.engine, self.recipe.steps) == number
        self.losses.assign(matrix.where(here, loss, self.losses.value))
        self.optimizer.step(tape.gradient(loss, self.optimizer.parameters))
        return loss

    def save(self, path: Path) -> None:
        """Write a checkpoint from which `load` continues exactly."""
        config = {**asdict(self.recipe), "corpus_sha256": self.corpus.sha256}
        progress = {"done": self.done}
        extra = {"losses": self.losses.value}
        ml.save_checkpoint(path, self.model, self.optimizer, config=config, progress=progress, extra=extra)

    def load(self, checkpoint: ml.Checkpoint) -> None:
        """Continue from a checkpoint of the same recipe and text."""
        if checkpoint.config.get("corpus_sha256") != self.corpus.sha256:
            raise oa.errors.FileFormatError(
                f"{checkpoint.path}: trained on another text (this Python's differs); resume with the Python that wrote it"
            )
        losses, done = checkpoint.extra.get("losses"), checkpoint.progress.get("done")
        if losses is None or losses.shape != (self.recipe.steps,) or not isinstance(done, int):
            raise oa.errors.FileFormatError(
                f"{checkpoint.path}: holds no losses or progress of this tutorial"
            )
        checkpoint.restore(self.model, self.optimizer)
        self.losses.assign(matrix.from_numpy(self.engine, losses))
        self.done = done

    def validate(self) -> float:
        """Mean loss in nats over 10 batches of 64 windows spread evenly over the held-out text."""
        text, context = self.corpus.held_out, self.recipe.context
        starts = np.linspace(0, len(text) - context - 1, 640).astype(int).reshape(10, 64)
        losses = []
        for rows in starts:
            window = matrix.from_numpy(self.engine, text[rows[:, None] + np.arange(context + 1)])
            losses.append(ml.cross_entropy(self.model(window[:, :-1]), window[:, 1:]))
            self.engine.flush()
        return float(np.mean([loss.item() for loss in losses]))

    def generate(self, length: int, temperature: float) -> tuple[str, str]:
        """A prompt, the start of the held-out text, and what the model writes after it."""
        rng = np.random.Generator(np.random.Philox(key=self.recipe.seed))
        prompt = self.corpus.held_out[: self.recipe.context]
        ids = list(prompt)
        for _ in range(length):
            window = matrix.from_numpy(self.engine, np.array([ids[-len(prompt) :]], np.int32))
            logits = self.model(window)[0, -1].to_numpy().astype(np.float64) / temperature
            weights = np.exp(logits - logits.max())
            ids.append(np.int32(rng.choice(len(weights), p=weights / weights.sum())))
        return self.corpus.decode(prompt), self.corpus.decode(np.array(ids[len(prompt) :]))


class Interrupt:
    """Turns the first Ctrl-C or SIGTERM into a flag that is looked at between steps; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Interrupt:
        self._previous = {s: signal.signal(s, self._on_signal) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def train(trainer: Trainer, stop_at: int, eager: bool, trace: Path) -> tuple[bool, float]:
    """Run updates up to number `stop_at`; returns whether it got there and the characters per second."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    recipe, first = trainer.recipe, trainer.done
    text = TextColumn("loss {task.fields[loss]} · {task.fields[rate]} tokens/s · ETA")
    # Drawn between steps: a thread that redraws would take the interpreter from the one that submits work.
    bar = Progress(BarColumn(), MofNCompleteColumn(), text, TimeRemainingColumn(), auto_refresh=False)
    task = bar.add_task("training", total=recipe.steps, completed=first, loss="-", rate="-")
    begin = shown = time.perf_counter()
    plan = None if eager or first == stop_at else trainer.engine.capture(trainer.step)
    rate = 0.0
    with Interrupt() as interrupt, bar:
        while trainer.done < stop_at and not interrupt.asked:
            if trainer.done == first + 2:  # past the start-up cost of the first step
                with trainer.engine.profile() as profile:
                    loss = advance(trainer, plan)
                profile.write_trace(trace)
            else:
                loss = advance(trainer, plan)
            trainer.done += 1
            tenth = trainer.done * 10 // recipe.steps > (trainer.done - 1) * 10 // recipe.steps
            if tenth or trainer.done == stop_at or time.perf_counter() - shown > 0.2:
                value = loss.item()  # waits for the device, so that the rate is that of finished work
                shown = time.perf_counter()
                rate = (trainer.done - first) * recipe.batch * recipe.context / (shown - begin)
                live = bar.console.is_terminal
                bar.update(
                    task, completed=trainer.done, loss=f"{value:.3f}", rate=f"{rate:,.0f}", refresh=live
                )
                if tenth and not live:
                    print(f"step {trainer.done}: loss {value:.3f}, {rate:,.0f} tokens/s", flush=True)
    return trainer.done >= stop_at, rate


def advance(trainer: Trainer, plan: Any) -> Matrix:
    """One update: a replay of the captured step, or the step itself."""
    if plan is None:
        return trainer.step()
    trainer.engine.submit(plan)
    loss: Matrix = plan.outputs
    return loss


def plot(losses: NDArray[Any], validation: float, path: Path) -> None:
    """Training loss per step, and the validation loss as a level."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(1, len(losses) + 1), losses, linewidth=1.2, label="training")
    axes.axhline(validation, color="tab:red", linestyle="--", label=f"validation {validation:.3f}")
    axes.set(xlabel="step", ylabel="loss, nats a character", title="Character-level Transformer")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def gemm_rate(engine: oa.Engine, n: int = 512) -> float:
    """GFLOP/s of an n x n x n matrix product by the clock, best of five: what this machine gives in this minute."""
    a, b = (matrix.uniform(engine, (n, n), -1.0, 1.0, seed=s) for s in (1, 2))
    plan = engine.capture(lambda: matrix.matmul(a, b))
    best = math.inf
    for _ in range(6):  # the first one builds the pipeline
        begin = time.perf_counter()
        engine.submit(plan).wait()
        best = min(best, time.perf_counter() - begin)
    return 2e-9 * n**3 / best


def prototype_rate() -> float:
    """GFLOP/s of the fixed product that times on a shared machine are compared by; 0 outside the repository."""
    command = [sys.executable, "-m", "bench.lab.prototype"]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return 0.0 if done.returncode else float(done.stdout)


def count(text: str) -> int:
    """A command line's whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def above_zero(text: str) -> float:
    """A command line's number above 0."""
    value = float(text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a character-level Transformer language model on the text that every CPython carries."
    )
    parser.add_argument(
        "--device", default="auto", help="auto, gpu, cpu, an index, a UUID or part of a name (default auto)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/char_transformer"),
        help="folder of results (default %(default)s)",
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE",
        help="continue from a checkpoint (default: the one in the folder of results)",
    )
    parser.add_argument(
        "--stop-at", type=count, metavar="STEP", help="save and stop after this update, as Ctrl-C would"
    )
    parser.add_argument(
        "--eager", action="store_true", help="record every step anew instead of replaying a captured one"
    )
    parser.add_argument(
        "--length", type=count, default=300, help="characters to generate (default %(default)s)"
    )
    parser.add_argument(
        "--temperature", type=above_zero, default=0.8, help="of the generated text (default %(default)s)"
    )
    for item in fields(Recipe):
        text = f"{RECIPE_HELP[item.name]} (default {item.default})"
        parser.add_argument(f"--{item.name}", type=type(item.default), help=text)
    return parser.parse_args(arguments)


def choose_recipe(options: argparse.Namespace) -> tuple[Recipe, ml.Checkpoint | None]:
    """The recipe of the command line, or that of the checkpoint to resume; a contradiction between the two is an error."""
    given = {f.name: getattr(options, f.name) for f in fields(Recipe) if getattr(options, f.name) is not None}
    if options.resume is None:
        if "steps" in given and "warmup" not in given:
            given["warmup"] = min(Recipe.warmup, given["steps"])
        return Recipe(**given), None
    path = options.out / "checkpoint.safetensors" if options.resume == Path() else options.resume
    checkpoint = ml.read_checkpoint(path)
    names = {f.name for f in fields(Recipe)}
    if not names <= set(checkpoint.config):
        raise oa.errors.FileFormatError(f"{path}: not a checkpoint of this tutorial")
    recipe = Recipe(**{n: checkpoint.config[n] for n in names})
    for name, value in given.items():
        if value != getattr(recipe, name):
            raise oa.errors.ArgumentError(
                f"--{name} {value} contradicts the checkpoint, made with {getattr(recipe, name)}: leave the option out"
            )
    return recipe, checkpoint


def resume_command(options: argparse.Namespace) -> str:
    """The line to type that goes on from the checkpoint, through the door that this run came through."""
    door = os.environ.get("OA_RUN")  # set by `./run demo`
    words = [door, "demo"] if door else [sys.executable, __file__]
    words += ["--resume", str(options.out / "checkpoint.safetensors")]
    usual = parse([])
    for name in ("device", "out", "length", "temperature"):
        if getattr(options, name) != getattr(usual, name):
            words += [f"--{name}", str(getattr(options, name))]
    return shlex.join([*words, "--eager"] if options.eager else words)


def run(options: argparse.Namespace) -> int:
    """The whole tutorial; returns the exit status."""
    begin = time.perf_counter()
    recipe, checkpoint = choose_recipe(options)
    options.out.mkdir(parents=True, exist_ok=True)
    corpus = Corpus()
    with oa.Engine(device=options.device, seed=recipe.seed) as engine:
        snapshot, profile = engine.device.snapshot, engine.device.profile
        print(f"device: {snapshot.name}, driver {snapshot.driver_name} {snapshot.driver_info}")
        print(f"profile: {profile.name}, addressing {profile.addressing}")
        print(
            f"text: {len(corpus.text):,} characters, {len(corpus.symbols)} symbols, SHA-256 {corpus.sha256}"
        )
        trainer = Trainer(engine, recipe, corpus)
        print(f"model: {trainer.model.parameter_count:,} parameters")
        if checkpoint is not None:
            trainer.load(checkpoint)
            print(f"resumed at step {trainer.done} from {checkpoint.path}")
        stop_at = recipe.steps if options.stop_at is None else min(options.stop_at, recipe.steps)
        finished, rate = train(trainer, stop_at, options.eager, options.out / "trace.json")
        trainer.save(options.out / "checkpoint.safetensors")
        print(f"checkpoint: {options.out / 'checkpoint.safetensors'}")
        if not finished or stop_at < recipe.steps:
            print(f"stopped after step {trainer.done}; to go on: {resume_command(options)}")
            return 0 if finished else 130
        report(trainer, options, rate, begin)
    return 0


def report(trainer: Trainer, options: argparse.Namespace, rate: float, begin: float) -> None:
    """Validation, generated text, plot, and the last line."""
    validation = trainer.validate()
    bits = validation / math.log(2)
    prompt, text = trainer.generate(options.length, options.temperature)
    print(
        f"validation: {validation:.4f} nats, {bits:.4f} bits a character\n\n--- prompt\n{prompt}\n--- generated\n{text}\n---"
    )
    plot(trainer.losses.value.to_numpy(), validation, options.out / "loss.png")
    print(f"loss plot: {options.out / 'loss.png'}")
    if (options.out / "trace.json").exists():
        print(f"profile trace: {options.out / 'trace.json'} (open in chrome://tracing or Perfetto)")
    seconds = time.perf_counter() - begin
    print(f"matmul at 512 in the same minute: {gemm_rate(trainer.engine):,.1f} GFLOP/s")
    if trainer.engine.device.profile.software and (prototype := prototype_rate()):
        print(
            f"the prototype's matmul in the same minute: {prototype:,.1f} GFLOP/s;"
            f" scaled to 13, this run would take {seconds * prototype / 13:.0f} s"
        )
    print(
        f"val_loss={validation:.4f} bits_per_char={bits:.4f} tokens_per_s={rate:.0f} seconds={seconds:.1f}"
        f" device={trainer.engine.device.snapshot.name}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    try:
        return run(parse(arguments))
    except (oa.errors.OaError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
