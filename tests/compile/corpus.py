"""Static and emitted kernels, built by the compiler of the device that the environment chooses; prints what it says of each.

    RADV_FORCE_FAMILY=gfx1100 VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/radeon_icd.x86_64.json \\
        python -m tests.compile.corpus strict address

`--least=1000` adds random graphs until so many kernels were emitted.
With `--json` after the two, one JSON object: device, statistics by kernel, the kernels that the device cannot have, with why, and
the schedules of emitted kernels.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from oa import _device, ml
from oa import matrix as m
from oa._graph.graph import Graph, freeze
from oa._kernel.emit import nest_compile
from oa._kernel.pack import Kernel, default
from oa._lower.passes import lower
from oa._vk import open_instance
from tests.null.lower_rig import Recorder, graph_of
from tests.null.random_graphs import random_graph

ROOT = Path(__file__).resolve().parent.parent.parent

FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
    " erf sigmoid sqrt rsqrt reciprocal"
).split()


def maps(e: Recorder) -> list[Any]:
    """Pointwise chains: every function of the prelude, broadcasting, views, sub-word results, random values."""
    x, y, b = e.input(33, 64), e.input(33, 65), e.input(65)
    i, j = e.input(1000, dtype="int32"), e.input(1000, dtype="uint8")
    functions = [getattr(m, name) for name in FUNCTIONS if hasattr(m, name)]
    assert len(functions) > 15
    return [
        *(f(x) for f in functions),
        m.gelu(y * 2.0 + b) - b,
        m.pow(m.abs(y), m.transpose(e.input(65, 33))),
        m.atan2(y, b),
        m.remainder(y, b),
        m.floor_divide(i, 7) + m.remainder(i, 5) * i**3,
        m.where(i > 3, i, -i) & 1023,
        m.astype(i > 5, "uint8") + j,
        m.flip(y[::2, 1:]) * 2.0,
        m.concat([x, x * 2.0, m.tanh(x)], axis=1),
        m.take(y, e.input(77, dtype="int32"), axis=0),
        m.normal(e, (40, 50)) + m.uniform(e, (50,)),
        m.reshape(y, (5, 429)).T + 1.0,
        m.gelu(m.transpose(e.input(128, 256))) + e.input(256, 128),
    ]


def rows(e: Recorder) -> list[Any]:
    """Reductions and normalisations over rows of several lengths, along the last axis and across it."""
    found: list[Any] = []
    for length in (2, 7, 64, 65, 256, 1000, 4096, 20_000):
        x = e.input(300, length)
        found += [m.softmax(x * 0.5, axis=-1), m.sum(x, axis=1), m.argmax(x, axis=1)]
    wide, tall = e.input(4096, 512), e.input(20_000, 96)
    found += [
        m.log_softmax(wide, axis=-1),
        m.mean(tall, axis=0),
        m.max(tall, axis=0),
        m.softmax(tall, axis=0),
    ]
    found += [m.sum(m.square(e.input(3_000_000))), m.max(e.input(8, 500_000), axis=1)]
    mean = m.mean(wide, axis=-1, keepdims=True)
    deviation = wide - mean
    spread = m.mean(m.square(deviation), axis=-1, keepdims=True)
    found.append(deviation * m.rsqrt(spread + 1e-5) * e.input(512) + e.input(512))
    found.append(m.any(tall > 1.0, axis=1))
    return found


def epilogues(e: Recorder) -> list[Any]:
    """What follows products of every kernel: tiles in every layout, one column, one row, long sums; light, heavy, and kept."""
    found: list[Any] = []
    for n in (2048, 1000, 500, 24):
        x, w, b, full = e.input(n, 64), e.input(64, n), e.input(n), e.input(n, n)
        turned = m.transpose(e.input(64, n))
        found += [
            m.relu(m.matmul(x, w) + b),
            m.gelu(m.matmul(x, m.transpose(e.input(n, 64))) + b) * 0.5 + full,
            ml.dropout(m.tanh(m.matmul(turned, w)), 0.5),
        ]
        kept = m.matmul(x, m.transpose(e.input(64, n + 1)).T[:, :n]) + b
        found += [kept, m.silu(kept), m.astype(m.matmul(turned, w) * 0.5, "float16")]
    long = m.matmul(e.input(8, 9000), e.input(9000, 12))
    column, row = m.matmul(e.input(3000, 70), e.input(70, 1)), m.matmul(e.input(1, 70), e.input(70, 3000))
    heads = m.matmul(e.input(8, 4, 128, 64), e.input(8, 4, 64, 32))
    found += [m.gelu(y + 1.0) for y in (long, column, row)]
    found += [m.reshape(m.permute_dims(heads, (0, 2, 1, 3)), (8, 128, 128)) + e.input(128)]
    return found


class Demo(Recorder):
    """A recorder for a whole program: flushing goes on with the same batch."""

    def flush(self) -> None:
        """Everything stays pending."""


def demo() -> Graph:
    """The demo: initial values and one training step at its full size."""
    spec = importlib.util.spec_from_file_location("char_transformer", ROOT / "tutorials/char_transformer.py")
    assert spec is not None and spec.loader is not None
    tutorial = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tutorial
    spec.loader.exec_module(tutorial)
    engine = Demo()
    trainer = tutorial.Trainer(engine, tutorial.Recipe(), tutorial.Corpus())
    loss = trainer.step()
    cells = [trainer.losses, trainer.optimizer._flat.state, trainer.optimizer._m, trainer.optimizer._v]
    return freeze(engine._batch, [loss._value, *(c._held._value for c in cells)])


CORPUS: dict[str, Callable[[], Graph]] = {
    "maps": lambda: graph_of(maps),
    "rows": lambda: graph_of(rows),
    "epilogues": lambda: graph_of(epilogues),
    "demo": demo,
}


def graphs() -> Iterator[tuple[str, Graph]]:
    """The corpus, then random graphs without end."""
    for name, graph in CORPUS.items():
        yield name, graph()
    for seed in count():
        yield f"random {seed}", graph_of(random_graph(seed))


def emitted(profile: Any, least: int = 0) -> Iterator[tuple[str, Kernel]]:
    """The kernels of the corpus for a device, each once, under a name that says where it first occurs, and of so many random
    graphs that there are at least `least`."""
    seen: set[str] = set()
    for name, graph in graphs():
        if name.startswith("random") and len(seen) >= least:
            return
        for number, dispatch in enumerate(lower(graph, profile).plan.dispatches()):
            kernel = dispatch.kernel
            if kernel.name not in default().names() and kernel.digest not in seen:
                seen.add(kernel.digest)
                yield f"{name} {number} {kernel.name}: {dispatch.label[:60]}", kernel


def static(profile: Any) -> Iterator[tuple[str, Kernel, str]]:
    """Every static kernel for the addressing, and why the device cannot have it, if so."""
    limits = profile.limits
    for name in default().names(profile.addressing):
        kernel = default().kernel(name, profile.addressing)
        why = ""
        size = kernel.subgroup_size
        if size is not None and not limits.subgroup_min <= size <= limits.subgroup_max:
            why = f"subgroups of {size}, the device has {limits.subgroup_min} to {limits.subgroup_max}"
        elif kernel.shared_bytes > limits.shared_bytes:
            why = f"{kernel.shared_bytes} bytes of workgroup memory, the device has {limits.shared_bytes}"
        yield name, kernel, why


def build(profile_name: str, addressing: str, least: int = 0) -> dict[str, Any]:
    """Compile everything for the first device there is."""
    instance = open_instance(api=(1, 2) if profile_name == "compat" else (1, 3))
    adapter = instance.adapters()[0]
    profile = _device.plan(adapter.snapshot(), profile_name, addressing, extra=["pipeline_statistics"])
    device = adapter.open(profile)
    found: dict[str, dict[str, int]] = {}
    refused: dict[str, str] = {}

    def compile_one(name: str, kernel: Kernel) -> None:
        pipeline = device.pipeline(
            kernel.words,
            buffers=kernel.buffers,
            addressing=kernel.addressing,
            subgroup_size=kernel.subgroup_size,
            name=kernel.name,
        )
        found[name] = pipeline.statistics()
        pipeline.close()

    for name, kernel, why in static(profile):
        if why:
            refused[name] = why
        else:
            compile_one(name, kernel)
    for name, kernel in emitted(profile, least):
        compile_one(name, kernel)
    device.close()
    instance.close()
    schedules = {nest.schedule for nest, *_ in nest_compile._KERNELS}
    return {
        "device": adapter.snapshot().name,
        "kernels": found,
        "refused": refused,
        "schedules": sorted({f"{s.kind}{' partial' if s.chunked else ''}" for s in schedules}),
    }


def main(profile: str, addressing: str, *options: str) -> None:
    """Print the statistics as a table, the kernels with most registers first, or as JSON."""
    least = next((int(o.partition("=")[2]) for o in options if o.startswith("--least=")), 0)
    found = build(profile, addressing, least)
    if "--json" in options:
        print(json.dumps(found))
        return
    print(found["device"])
    for name, row in sorted(found["kernels"].items(), key=lambda item: -item[1]["VGPRs"]):
        spilled = row["Spilled VGPRs"] + row["Spilled SGPRs"]
        print(f"{row['VGPRs']:4} VGPRs {row['SGPRs']:4} SGPRs {spilled:3} spilled  {name}")
    for name, why in found["refused"].items():
        print(f"not for this device: {name} ({why})")


if __name__ == "__main__":
    main(*sys.argv[1:])
