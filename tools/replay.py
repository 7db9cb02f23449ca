"""Process replay: plans and kernels of a corpus of graphs, for a refactor to leave as they are.

    python -m tools.replay            compare with tests/replay/plans.json; exit 1 and name what changed
    python -m tools.replay --write    record the present plans
    python -m tools.replay --show NAME

A commit whose title begins with [same] must pass the comparison. Everything is lowered for recorded devices, without a driver.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from oa import matrix as m
from oa import ml
from oa._lower.passes import Program, lower
from tests.null.lower_rig import Recorder, profile
from tests.null.random_graphs import random_graph
from tools.project import ROOT

RECORD = ROOT / "tests" / "replay" / "plans.json"
PROFILES = ("lavapipe-descriptor", "card")
SHAPES = ((), (1,), (5,), (64,), (257,), (3, 4), (16, 64), (7, 65), (2, 3, 8), (4, 1, 6, 5))
#: Random graphs.
RANDOM = 100
Build = Callable[[Recorder], Any]

_UNARY = (
    "abs ceil cos cosh erf exp exp2 expm1 floor gelu gelu_tanh isfinite isinf isnan log log10 log1p log2 negative reciprocal relu"
    " round rsqrt sigmoid sign silu sin sinh sqrt square tan tanh trunc asin acos atan asinh"
).split()
_BINARY = "add subtract multiply divide maximum minimum pow remainder floor_divide equal less atan2 hypot copysign".split()
_ALONG = "sum mean max min prod argmax argmin softmax log_softmax var".split()


def corpus() -> Iterator[tuple[str, Build]]:
    """(name, what records the graph), each name once."""
    for name in _UNARY:
        for shape in SHAPES[2:8:2]:
            yield f"{name} {shape}", lambda r, n=name, s=shape: getattr(m, n)(r.input(*s))
    for name in _BINARY:
        for shape in SHAPES[3:8]:
            yield f"{name} {shape}", lambda r, n=name, s=shape: getattr(m, n)(r.input(*s), r.input(*s))
        yield f"{name} broadcast", lambda r, n=name: getattr(m, n)(r.input(8, 1, 5), r.input(6, 5))
        yield f"{name} number", lambda r, n=name: getattr(m, n)(r.input(33), 2.0)
    for name in _ALONG:
        for shape, axis in (
            ((5,), 0),
            ((16, 64), 1),
            ((16, 64), 0),
            ((7, 65), -1),
            ((300, 1000), 1),
            ((3000, 12), 0),
        ):
            yield (
                f"{name} {shape} {axis}",
                lambda r, n=name, s=shape, a=axis: getattr(m, n)(r.input(*s), axis=a),
            )
    yield from _products()
    yield from _views()
    yield from _gradients()
    for seed in range(RANDOM):
        yield f"random {seed}", random_graph(seed)
    yield "demo step", _demo


def _products() -> Iterator[tuple[str, Build]]:
    for k, (a, b) in enumerate(
        (((4, 5), (5, 6)), ((128, 64), (64, 96)), ((2, 3, 8), (2, 8, 4)), ((7,), (7, 3)), ((3, 0), (0, 2)))
    ):
        yield f"matmul {k}", lambda r, a=a, b=b: m.matmul(r.input(*a), r.input(*b))
        yield f"matmul relu {k}", lambda r, a=a, b=b: m.relu(m.matmul(r.input(*a), r.input(*b)) + 1.0)
    yield "matmul transposed", lambda r: m.matmul(m.transpose(r.input(64, 32)), r.input(64, 16))
    yield "mat_mul_nt", lambda r: m.mat_mul_nt(r.input(4, 32, 64), r.input(16, 64))


def _views() -> Iterator[tuple[str, Build]]:
    yield "reshape of a transpose", lambda r: m.reshape(m.transpose(r.input(6, 8)), (4, 12)) * 2.0
    yield "slice steps", lambda r: r.input(20, 30)[::-2, 3:27:4] + 1.0
    yield "concat 0", lambda r: m.concat([r.input(3, 8), r.input(5, 8) * 2.0], axis=0)
    yield "concat 1", lambda r: m.concat([r.input(3, 8), r.input(3, 4)], axis=1)
    yield "take", lambda r: m.take(r.input(10, 6), r.input(3, 2, dtype="int32"), axis=0)
    yield "gather", lambda r: m.gather(r.input(10, 6), r.input(10, 2, dtype="int32"), axis=1)
    yield "one hot", lambda r: m.one_hot(r.input(9, dtype="int32"), 5)
    yield "where", lambda r: m.where(r.input(4, 4) > 0.0, r.input(4, 1), 0.0)
    yield "astype bytes", lambda r: m.astype(r.input(13), "uint8")
    yield "chain of 40", lambda r: _chain(r.input(64), 40)


def _chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = m.tanh(x) * 0.5 + x
    return x


def _gradients() -> Iterator[tuple[str, Build]]:
    """Forward and backward of small models."""

    def both(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Build:
        def build(r: Recorder) -> Any:
            inputs = [r.input(*s) for s in shapes]
            with ml.GradientTape() as tape:
                tape.watch(inputs)
                y = function(*inputs)
            return y, tape.gradient(y, inputs, seed=r.input(*y.shape))

        return build

    for shape in ((4, 8), (64, 256), (9, 65)):
        yield f"softmax both ways {shape}", both(m.softmax, shape)
        yield f"log softmax both ways {shape}", both(m.log_softmax, shape)
        width = (shape[1],)
        yield f"layer norm both ways {shape}", both(ml.layer_norm, shape, width, width)
        yield (
            f"gelu product both ways {shape}",
            both(lambda x, w: m.gelu(m.mat_mul_nt(x, w)), shape, (16, shape[1])),
        )


def _demo(recorder: Recorder) -> Any:
    """A training step of the tutorial's model on a text of 97 symbols, whatever text this Python carries."""
    from tutorials.char_transformer import CharTransformer, Recipe

    recipe = Recipe()
    model = CharTransformer(recorder, recipe, 97)
    rate = ml.warmup_cosine(recipe.peak, steps=recipe.steps, warmup=recipe.warmup)
    optimizer = ml.AdamW(model.named_parameters(), rate, max_norm=1.0)
    ids = recorder.input(recipe.batch, recipe.context + 1, dtype="int32")
    with ml.GradientTape() as tape:
        loss = ml.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
    optimizer.step(tape.gradient(loss, optimizer.parameters))
    return model, optimizer, loss


class Engine(Recorder):
    """A recorder for whole training steps: flushing leaves everything pending."""

    def flush(self) -> None:
        """Nothing runs."""


def programs(only: str | None = None) -> Iterator[tuple[str, Program]]:
    """Every program of the corpus, by graph and profile."""
    for name, build in corpus():
        if only is not None and name != only:
            continue
        recorder = Engine()
        kept = build(recorder)
        graph = recorder.graph()
        del kept
        for where in PROFILES:
            yield f"{name} | {where}", lower(graph, profile(where))


def digest(program: Program) -> str:
    """What must not change: the plan's text and its kernels."""
    parts = [program.plan.text(), *(d.kernel.digest for d in program.plan.dispatches())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="record the present plans")
    parser.add_argument("--show", metavar="NAME", help="print the plans of one graph")
    options = parser.parse_args(arguments)
    if options.show:
        for name, program in programs(options.show):
            print(f"== {name}\n{program.plan.text()}")
        return 0
    found = {name: digest(program) for name, program in programs()}
    if options.write:
        write(RECORD, found)
        print(f"{len(found)} plans recorded")
        return 0
    known = json.loads(RECORD.read_text(encoding="utf-8"))
    changed = sorted(n for n in known.keys() | found.keys() if known.get(n) != found.get(n))
    for name in changed[:40]:
        print(f"changed: {name}")
    print(f"{len(found)} plans, {len(changed)} changed")
    return 1 if changed else 0


def write(path: Path, found: dict[str, str]) -> None:
    """Store the record, sorted, a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
