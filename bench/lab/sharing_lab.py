"""Sharing device memory with torch and CuPy on an NVIDIA card: every step by itself, each said to work or why not.

    python -m bench.lab.sharing_lab [--json PATH]

Needs a card on which `oa`, torch and, for its rows, CuPy run. A step that fails says so and the next is tried; the exit status is
the number of failures.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import oa
from oa import matrix as m
from oa._device import plan
from oa._vk import open_instance
from oa._vk.cuda import Cuda

_STEPS: list[Callable[[Any], Any]] = []


def step(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Adds a step; it takes the engine and returns what to print."""
    _STEPS.append(function)
    return function


def torch() -> Any:
    """The module, an error where it is not installed."""
    return __import__("torch")


def seconds(work: Callable[[], Any], times: int = 5) -> float:
    """The best of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


@step
def devices(engine: Any) -> Any:
    """UUIDs on both sides."""
    cuda = engine._sharing.cuda
    return {
        "vulkan": engine.device.snapshot.uuid,
        "cuda": cuda.devices(),
        "ordinal": cuda.ordinal,
        "extensions": engine.device.profile.extensions,
    }


@step
def allocations(engine: Any) -> Any:
    """What exportable memory costs, by size: seconds to allocate and free, its flags, and whether CUDA takes it."""
    device, rows = engine.device, {}
    cuda = engine._sharing.cuda
    for size in (1 << 20, 64 << 20, 1 << 30, 4_292_870_144):
        for exportable in (False, True):
            took = seconds(lambda: device.buffer(size, "device", exportable).close(), 3)  # noqa: B023
            buffer = device.buffer(size, "device", exportable)
            said = f"{took * 1e3:.3f} ms, {sorted(buffer.flags)}, {buffer.allocated} B"
            if exportable:
                try:
                    start = time.perf_counter()
                    found = cuda.memory(buffer.export(), buffer.allocated, buffer.size)
                    said += f", imported in {(time.perf_counter() - start) * 1e3:.3f} ms"
                    del found
                except oa.errors.OaError as error:
                    said += f", NOT imported: {error}"
            buffer.close()
            rows[f"{size} {'exportable' if exportable else 'plain'}"] = said
    return rows


@step
def out_and_equal(engine: Any) -> Any:
    """Every dtype to torch, equal and without a second copy."""
    t, said = torch(), {}
    for name in (
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "bool",
    ):
        x = m.from_numpy(engine, np.arange(1000, dtype=np.float32), dtype=name)
        a, b = t.from_dlpack(x), t.from_dlpack(x)
        assert a.is_cuda and a.data_ptr() == b.data_ptr(), name
        assert a.float().cpu().tolist() == x.astype("float32").tolist(), name
        said[name] = str(a.dtype)
    return said


@step
def back_and_equal(engine: Any) -> Any:
    """Every dtype and several layouts from torch."""
    t = torch()
    names = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")
    for name in names:
        a = t.arange(1000, device="cuda").to(getattr(t, name))
        x = m.from_dlpack(a, device=engine)
        assert x.dtype.name == name and x.astype("float32").tolist() == a.float().cpu().tolist(), name
    a = t.arange(24.0, device="cuda").reshape(2, 3, 4)
    for view in (a.permute(2, 0, 1), a[:, 1:, ::2], a[1], a.expand(5, 2, 3, 4), a[:0], a[0, 0, 0]):
        assert m.from_dlpack(view, device=engine).tolist() == view.cpu().tolist()
        assert m.asarray(view, device=engine).tolist() == view.cpu().tolist()
    return "equal"


@step
def views_out(engine: Any) -> Any:
    """Views of a value as torch sees them."""
    t = torch()
    x = m.from_numpy(engine, np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    for view in (x[1], x[..., ::2], m.permute_dims(x, (2, 0, 1)), x[:, :0], x[0, 0, 0]):
        assert t.from_dlpack(view).cpu().tolist() == view.tolist(), view.shape
    return "equal"


@step
def order_out(engine: Any) -> Any:
    """A stream reads what a long submission is still computing, many times over, on the default stream and on others."""
    t, wrong = torch(), {}
    streams = {"default": t.cuda.default_stream(), "side": t.cuda.Stream()}
    for name, stream in streams.items():
        bad = 0
        for k in range(20):
            x = m.full(engine, (4096, 4096), float(k))
            for _ in range(8):
                x = x @ m.full(engine, (4096, 1), 1.0 / 4096) + m.zeros(engine, (4096, 4096))
            with t.cuda.stream(stream):
                bad += int((t.from_dlpack(x) != float(k)).sum().item() > 0)
        wrong[name] = bad
    assert not any(wrong.values()), wrong
    return wrong


@step
def order_back(engine: Any) -> Any:
    """A copy taken of what a long stream is still computing; the producer's tensor is dropped at once."""
    t = torch()
    for name, stream in (("default", t.cuda.default_stream()), ("side", t.cuda.Stream())):
        for k in range(20):
            with t.cuda.stream(stream):
                a = t.full((4096, 4096), float(k), device="cuda")
                for _ in range(20):
                    a = a @ t.full((4096, 4096), 1.0 / 4096, device="cuda")
                x = m.from_dlpack(a, device=engine)
                del a
                t.full((4096, 4096), -1.0, device="cuda")
            got = m.max(m.abs(x - float(k))).item()
            assert got < 1e-3 * max(1, k), (name, k, got)
    return "in order"


@step
def reuse(engine: Any) -> Any:
    """Dropped loans are taken back, and not before their stream has read them."""
    t = torch()
    for k in range(200):
        x = m.full(engine, (1 << 20,), float(k)) + 0.0
        a = t.from_dlpack(x)
        b = a * 1.0 if k % 2 else a.clone()
        del x, a
        engine.flush()
        y = m.full(engine, (1 << 20,), -1.0) + 0.0
        c = t.from_dlpack(y)
        assert bool((b == float(k)).all()) and bool((c == -1.0).all()), k
        del y, c
    return {"shared pool": str(engine._sharing.pool.stats())}


@step
def round_trip_time(engine: Any) -> Any:
    """Microseconds of a loan, and GB/s of a copy in."""
    t = torch()
    x = m.ones(engine, (1 << 20,))
    t.from_dlpack(x)
    loan = seconds(lambda: t.from_dlpack(x), 50)
    a = t.ones(1 << 28, device="cuda")

    def copy() -> None:
        m.from_dlpack(a, device=engine)
        engine.wait()
        t.cuda.synchronize()

    return {"loan_us": loan * 1e6, "copy_in_GB_s": 2 * 4 * (1 << 28) / seconds(copy) / 1e9}


@step
def writes_of_torch(engine: Any) -> Any:
    """torch writes through an alias: what the value then is (documented as forbidden) shows that memory is the same."""
    t = torch()
    x = m.zeros(engine, 1000) + 0.0
    t.from_dlpack(x)[3] = 7.0
    t.cuda.synchronize()
    return {"x[3]": x[3].item()}


@step
def large(engine: Any) -> Any:
    """A value of almost 4 GiB: one allocation holds a little less."""
    t, count = torch(), (1 << 30) - (1 << 20)
    x = m.arange(count, device=engine, dtype="int32")
    a = t.from_dlpack(x)
    assert bool((a == t.arange(count, device="cuda", dtype=t.int32)).all())
    return {"bytes": x.nbytes}


@step
def after_close(engine: Any) -> Any:
    """A tensor outlives its engine; memory comes back with the tensor."""
    t = torch()
    before = t.cuda.mem_get_info()[0]
    with oa.Engine(device=engine.device.snapshot.uuid) as inner:
        a = t.from_dlpack(m.full(inner, (1 << 28,), 3.0))
        x = m.zeros(inner, 4)
    held = t.cuda.mem_get_info()[0]
    assert bool((a == 3.0).all())
    try:
        x.__dlpack__()
        said = "no error"
    except oa.errors.EngineClosed:
        said = "EngineClosed"
    del a
    gc.collect()
    return {
        "free before": before,
        "while lent": held,
        "after": t.cuda.mem_get_info()[0],
        "use after close": said,
    }


@step
def numpy_and_host(engine: Any) -> Any:
    """The host can still be asked for."""
    x = m.arange(5, device=engine)
    assert np.from_dlpack(x, device="cpu").tolist() == [0, 1, 2, 3, 4] == np.asarray(x).tolist()
    return x.__dlpack_device__()


@step
def cupy(engine: Any) -> Any:
    """CuPy both ways."""
    cp = __import__("cupy")
    x = m.from_numpy(engine, np.arange(1000, dtype=np.float32))
    a = cp.from_dlpack(x)
    assert a.get().tolist() == x.tolist()
    assert m.from_dlpack(a * 2, device=engine).tolist() == (x * 2.0).tolist()
    with cp.cuda.Stream(non_blocking=True):
        assert float(cp.from_dlpack(x + 1.0).sum()) == float((x + 1.0).sum().item())
    return cp.__version__


@step
def compat_and_descriptors(engine: Any) -> Any:
    """The other configurations."""
    t = torch()
    for how in ({"addressing": "descriptor"}, {"profile": "compat"}):
        with oa.Engine(device=engine.device.snapshot.uuid, **how) as inner:
            x = m.arange(1000, device=inner)
            assert t.from_dlpack(x).cpu().tolist() == x.tolist()
            assert m.from_dlpack(t.arange(10, device="cuda"), device=inner).tolist() == list(range(10))
    return "equal"


def main() -> int:
    """Run every step and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    instance = open_instance()
    for adapter in instance.adapters():
        shot = adapter.snapshot()
        print(shot.name, shot.driver_name, shot.driver_info, plan(shot).extensions)
    instance.close()
    print("driver library:", Cuda.__module__)
    found: dict[str, Any] = {}
    failures = 0
    with oa.Engine(device=given.device) as engine:
        for function in _STEPS:
            start = time.perf_counter()
            try:
                said, state = function(engine), "ok"
            except Exception as error:  # any failure is a finding
                failures += 1
                said, state = f"{type(error).__name__}: {error}", "FAILED"
                traceback.print_exc(limit=-3, file=sys.stdout)
            took = time.perf_counter() - start
            found[function.__name__] = {"state": state, "said": str(said), "seconds": round(took, 3)}
            print(f"{state:6} {function.__name__:24} {took:7.2f} s  {said}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{failures} failures of {len(_STEPS)}")
    return failures


if __name__ == "__main__":
    raise SystemExit(main())
