"""One good call of everything public, from which calls with one bad argument are made."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import oa
from oa import matrix as m
from oa import ml

#: What each argument is in turn.
BAD: dict[str, Any] = {
    "None": None,
    "word": "a",
    "nan": math.nan,
    "minus": -1,
    "fraction": 2.5,
    "empty": [],
    "huge": 10**40,
    "vast": 10**400,
    "thing": object(),
}


class Good(NamedTuple):
    """A call that works: what its errors start with, and its arguments by position and by name."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]


class Values:
    """Values to call with."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.f = m.from_list(engine, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        self.row = m.from_list(engine, [1.0, 2.0, 4.0])
        self.i = m.from_list(engine, [[0, 1, 2], [2, 1, 0]])
        self.ids = m.from_list(engine, [0, 1, 1])
        self.b = m.from_list(engine, [[True, False, True], [False, False, True]])
        self.square, self.identity = m.ones(engine, (3, 3)), m.eye(engine, 3)
        self.logits = m.zeros(engine, (3, 4))
        self.attend = m.ones(engine, (2, 3, 4))


#: Arguments of the functions of `oa.matrix`; of those not here one or two float values.
MATRIX: dict[str, Callable[[Values], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "all": lambda v: ((v.b,), {"axis": 0, "keepdims": False}),
    "any": lambda v: ((v.b,), {"axis": 0, "keepdims": False}),
    "arange": lambda v: ((v.engine, 0, 6, 2), {"dtype": "int32", "device": None}),
    "argmax": lambda v: ((v.f,), {"axis": 0, "keepdims": False}),
    "argmin": lambda v: ((v.f,), {"axis": 0, "keepdims": False}),
    "argsort": lambda v: ((v.f,), {"axis": 0, "descending": False, "stable": True}),
    "argwhere": lambda v: ((v.i,), {"size": 2, "fill_value": 0}),
    "asarray": lambda v: (([1, 2],), {"dtype": "int32", "device": v.engine, "copy": None}),
    "astype": lambda v: ((v.f, "int32"), {"copy": True, "device": None}),
    "bernoulli": lambda v: ((v.engine, (2,), 0.5), {"seed": 1, "device": None}),
    "bitwise_and": lambda v: ((v.i, v.i), {}),
    "bitwise_invert": lambda v: ((v.i,), {}),
    "bitwise_left_shift": lambda v: ((v.i, v.i), {}),
    "bitwise_or": lambda v: ((v.i, v.i), {}),
    "bitwise_right_shift": lambda v: ((v.i, v.i), {}),
    "bitwise_xor": lambda v: ((v.i, v.i), {}),
    "broadcast_arrays": lambda v: ((v.f, v.row), {}),
    "broadcast_shapes": lambda v: (((2, 1), (3,)), {}),
    "broadcast_to": lambda v: ((v.row, (2, 3)), {}),
    "can_cast": lambda v: (("int32", "float32"), {}),
    "categorical_accuracy_count": lambda v: ((v.logits, v.ids, v.ids), {}),
    "categorical": lambda v: ((v.logits,), {"axis": 1, "seed": 1}),
    "clip": lambda v: ((v.f, 0.0, 1.0), {}),
    "compact_rows": lambda v: ((v.f, m.any(v.b, axis=1)), {"size": 1}),
    "concat": lambda v: (([v.f, v.f],), {"axis": 0}),
    "count_nonzero": lambda v: ((v.i,), {"axis": 0, "keepdims": False}),
    "cumulative_prod": lambda v: ((v.f,), {"axis": 0, "dtype": None, "include_initial": False}),
    "cumulative_sum": lambda v: ((v.f,), {"axis": 0, "dtype": None, "include_initial": False}),
    "diff": lambda v: ((v.f,), {"axis": 0, "n": 1, "prepend": v.f, "append": v.f}),
    "einsum": lambda v: (("ij,ij->i", v.f, v.f), {}),
    "embedding": lambda v: ((v.ids, v.f), {}),
    "empty": lambda v: ((v.engine, (2,)), {"dtype": None, "device": None}),
    "empty_like": lambda v: ((v.f,), {"dtype": None, "device": None}),
    "expand_dims": lambda v: ((v.f, 0), {}),
    "eye": lambda v: ((v.engine, 2, 3), {"k": 0, "dtype": None, "device": None}),
    "finfo": lambda v: (("float32",), {}),
    "flip": lambda v: ((v.f, 0), {}),
    "from_dlpack": lambda v: ((np.zeros(2, np.float32),), {"device": v.engine, "copy": None}),
    "from_f32": lambda v: ((v.engine, [1.0, 2.0], (2,)), {"device": None}),
    "from_list": lambda v: ((v.engine, [1.0, 2.0]), {"dtype": None, "device": None}),
    "from_numpy": lambda v: ((v.engine, np.zeros(2, np.float32)), {"dtype": None, "device": None}),
    "full": lambda v: ((v.engine, (2,), 1.0), {"dtype": None, "device": None}),
    "full_like": lambda v: ((v.f, 1.0), {"dtype": None, "device": None}),
    "gamma": lambda v: ((v.engine, (2,), 1.0, 2.0), {"seed": 1, "device": None}),
    "gather": lambda v: ((v.f, v.i, 1), {}),
    "glorot_normal": lambda v: ((v.engine, (2, 3)), {"seed": 1, "device": None}),
    "glorot_uniform": lambda v: ((v.engine, (2, 3)), {"seed": 1, "device": None}),
    "histogram": lambda v: ((v.row, 3), {"range": (0.0, 4.0)}),
    "iinfo": lambda v: (("int32",), {}),
    "integers": lambda v: ((v.engine, (2,), 0, 4), {"dtype": "int32", "seed": 1, "device": None}),
    "isdtype": lambda v: (("int32", "integral"), {}),
    "isin": lambda v: ((v.i, v.i), {"invert": False}),
    "kaiming_uniform": lambda v: ((v.engine, (2, 3), 0.1), {"seed": 1, "device": None}),
    "linspace": lambda v: ((v.engine, 0.0, 1.0, 3), {"dtype": None, "device": None, "endpoint": True}),
    "log_softmax": lambda v: ((v.f, 1), {}),
    "logical_and": lambda v: ((v.b, v.b), {}),
    "logical_not": lambda v: ((v.b,), {}),
    "logical_or": lambda v: ((v.b, v.b), {}),
    "logical_xor": lambda v: ((v.b, v.b), {}),
    "logsumexp": lambda v: ((v.f, 1, False), {}),
    "matmul": lambda v: ((v.f, v.square), {}),
    "max": lambda v: ((v.f,), {"axis": 0, "keepdims": False}),
    "mean": lambda v: ((v.f,), {"axis": 0, "keepdims": False}),
    "median": lambda v: ((v.f,), {"axis": 0, "keepdims": False}),
    "meshgrid": lambda v: ((v.row, v.row), {"indexing": "xy"}),
    "min": lambda v: ((v.f,), {"axis": 0, "keepdims": False}),
    "moe_expert_plan": lambda v: ((v.i, 3), {}),
    "moe_routing_bias_update": lambda v: ((v.square, v.row, 1, 0.1), {}),
    "moveaxis": lambda v: ((v.f, 0, 1), {}),
    "multi_add": lambda v: (([v.f, v.row], [v.f, v.row]), {}),
    "multi_fill": lambda v: (([v.f, v.row], 2.0), {}),
    "nonzero": lambda v: ((v.i,), {"size": 2, "fill_value": 0}),
    "normal": lambda v: ((v.engine, (2,), 0.0, 1.0), {"seed": 1, "device": None}),
    "one_hot": lambda v: ((v.i, 3), {"dtype": "float32"}),
    "ones": lambda v: ((v.engine, (2,)), {"dtype": None, "device": None}),
    "ones_like": lambda v: ((v.f,), {"dtype": None, "device": None}),
    "pad": lambda v: ((v.f, 1, "constant"), {"constant_values": 0.0}),
    "permutation": lambda v: ((v.engine, 3), {"seed": 1, "device": None}),
    "permute_dims": lambda v: ((v.f, (1, 0)), {}),
    "prod": lambda v: ((v.f,), {"axis": 0, "dtype": None, "keepdims": False}),
    "put": lambda v: ((v.f, 0, 1.0), {}),
    "quantile": lambda v: ((v.f, 0.5), {"axis": 0, "keepdims": False, "method": "linear"}),
    "repeat": lambda v: ((v.f, 2), {"axis": 0, "size": None}),
    "reshape": lambda v: ((v.f, (3, 2)), {"copy": None}),
    "result_type": lambda v: ((v.f, "float32", 1.0), {}),
    "roll": lambda v: ((v.f, 1), {"axis": 0}),
    "sample_logits": lambda v: ((v.logits, 1.0, 2, 0.5), {"axis": 1, "seed": 1}),
    "scatter": lambda v: ((v.f, v.i, v.f), {"axis": 1, "mode": "add"}),
    "scatter_add_rows": lambda v: ((v.row, v.ids, v.row), {"axis": 0}),
    "scatter_rows": lambda v: ((v.row, v.ids, v.row), {"axis": 0, "mode": "add"}),
    "searchsorted": lambda v: ((v.row, v.row), {"side": "left", "sorter": v.ids}),
    "segment_max": lambda v: ((v.row, v.ids, 2), {}),
    "segment_mean": lambda v: ((v.row, v.ids, 2), {}),
    "segment_min": lambda v: ((v.row, v.ids, 2), {}),
    "segment_prod": lambda v: ((v.row, v.ids, 2), {}),
    "segment_sum": lambda v: ((v.row, v.ids, 2), {}),
    "slice": lambda v: ((v.f, 1, 0, 2, 1), {}),
    "softmax": lambda v: ((v.f, 1), {}),
    "sort": lambda v: ((v.f,), {"axis": 0, "descending": False, "stable": True}),
    "split": lambda v: ((v.f, 2), {"axis": 0}),
    "squeeze": lambda v: ((m.ones(v.engine, (1, 2)), 0), {}),
    "stack": lambda v: (([v.f, v.f],), {"axis": 0}),
    "std": lambda v: ((v.f,), {"axis": 0, "correction": 0.0, "keepdims": False}),
    "sum": lambda v: ((v.f,), {"axis": 0, "dtype": None, "keepdims": False}),
    "take": lambda v: ((v.f, v.ids, 0), {}),
    "take_along_axis": lambda v: ((v.f, v.i), {"axis": 1}),
    "tensordot": lambda v: ((v.f, v.square), {"axes": 1}),
    "tile": lambda v: ((v.f, (1, 2)), {}),
    "top_k_mask": lambda v: ((v.i, 3), {}),
    "topk": lambda v: ((v.f, 2), {"axis": 1, "largest": True}),
    "transpose": lambda v: ((v.f, 0, 1), {}),
    "tril": lambda v: ((v.f,), {"k": 0}),
    "triu": lambda v: ((v.f,), {"k": 0}),
    "truncated_normal": lambda v: ((v.engine, (2,), -1.0, 1.0, 0.0, 1.0), {"seed": 1, "device": None}),
    "uniform": lambda v: ((v.engine, (2,), 0.0, 1.0), {"seed": 1, "device": None}),
    "unstack": lambda v: ((v.f,), {"axis": 0}),
    "var": lambda v: ((v.f,), {"axis": 0, "correction": 0.0, "keepdims": False}),
    "vecdot": lambda v: ((v.f, v.f), {"axis": -1}),
    "where": lambda v: ((v.b, v.f, v.f), {}),
    "zeros": lambda v: ((v.engine, (2,)), {"dtype": None, "device": None}),
    "zeros_like": lambda v: ((v.f,), {"dtype": None, "device": None}),
}


#: The same of `oa.matrix.linalg`; of those not here the identity.
LINALG: dict[str, Callable[[Values], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "cholesky": lambda v: ((v.identity,), {"upper": False}),
    "cross": lambda v: ((v.row, v.row), {"axis": 0}),
    "diagonal": lambda v: ((v.f,), {"offset": 0}),
    "matmul": lambda v: ((v.f, v.square), {}),
    "matrix_norm": lambda v: ((v.f,), {"keepdims": False, "ord": "fro"}),
    "matrix_power": lambda v: ((v.identity, 2), {}),
    "matrix_rank": lambda v: ((v.identity,), {"rtol": 1e-3}),
    "outer": lambda v: ((v.row, v.row), {}),
    "pinv": lambda v: ((v.identity,), {"rtol": 1e-3}),
    "qr": lambda v: ((v.identity,), {"mode": "reduced"}),
    "solve": lambda v: ((v.identity, v.row), {}),
    "svd": lambda v: ((v.identity,), {"full_matrices": True}),
    "tensordot": lambda v: ((v.f, v.square), {"axes": 1}),
    "trace": lambda v: ((v.f,), {"offset": 0, "dtype": None}),
    "vecdot": lambda v: ((v.f, v.f), {"axis": -1}),
    "vector_norm": lambda v: ((v.f,), {"axis": 0, "keepdims": False, "ord": 2}),
}

#: Arguments that may be anything that is true or false, of which two are tried.
FLAGS = frozenset(
    "keepdims copy stable descending largest include_initial invert endpoint bias causal mode persistent upper".split()
) | {"full_matrices"}
NUMBERS = ("nan", "minus", "fraction", "huge", "vast")
#: By the name of an argument, the bad ones that it takes for good reason; of a name not here None alone.
TAKES: dict[str, tuple[str, ...]] = {
    "array": ("nan", "minus", "fraction", "empty"),
    "axis": ("None", "minus", "empty"),
    "a": ("minus",),  # of isin
    "b": ("minus",),
    "arrays_and_dtypes": NUMBERS,
    "axes": ("minus",),
    "condition": ("nan", "minus", "fraction"),
    "concentration": ("fraction", "huge", "vast"),
    "config": ("None", "empty"),
    "constant_values": NUMBERS,
    "correction": NUMBERS,
    "destination": ("minus",),
    "eps": ("fraction", "huge", "vast"),
    "extra": ("None", "empty"),
    "fill_value": NUMBERS,
    "gamma": NUMBERS,
    "high": ("None", *NUMBERS),
    "ignore_index": ("None", "minus"),
    "k": ("minus", "huge", "vast"),
    "key": ("None", "minus", "empty"),
    "limit": ("None",),
    "lr": ("fraction", "huge", "vast"),
    "low": NUMBERS,
    "mask": ("None", *NUMBERS),
    "max": ("None", *NUMBERS),
    "max_norm": ("None", "fraction", "huge", "vast"),
    "mean": NUMBERS,
    "min": ("None", *NUMBERS),
    "n": ("minus", "huge", "vast"),
    "obj": ("minus", "empty"),
    "offset": ("minus", "huge", "vast"),
    "ord": ("None", *NUMBERS),
    "other": NUMBERS,
    "parts": ("empty",),
    "path": ("word",),
    "peak": ("fraction", "huge"),
    "progress": ("None", "empty"),
    "repetitions": ("empty",),
    "rows": NUMBERS,
    "rtol": ("None", *NUMBERS),
    "scale": ("fraction", "huge", "vast"),
    "seed": ("None", "minus", "huge", "vast"),
    "shapes": ("empty",),
    "slope": ("minus", "fraction", "huge"),
    "shape": ("None", "empty", "minus"),
    "shift": ("minus", "huge", "vast"),
    "source": ("minus",),
    "sources": ("empty",),
    "start": ("None", *NUMBERS),
    "std": NUMBERS,
    "step": ("None", *NUMBERS),
    "stop": ("None", *NUMBERS),
    "temperature": ("minus", "fraction", "huge", "vast"),
    "timeout": ("None", "fraction", "huge", "vast"),
    "v": NUMBERS,
    "value": ("None", "empty", *NUMBERS),
    "values": ("empty", *NUMBERS),
    "weight_decay": ("fraction", "huge", "vast"),
}


def functions() -> Iterator[str]:
    """The public functions of `oa.matrix`."""
    for name in m.__all__:
        if inspect.isfunction(getattr(m, name)) and name != "__array_namespace_info__":
            yield name


def matrix_calls(v: Values) -> Iterator[Good]:
    for name in functions():
        function = getattr(m, name)
        if name in MATRIX:
            args, named = MATRIX[name](v)
        else:
            parameters = inspect.signature(function).parameters.values()
            args = tuple(v.f for p in parameters if p.annotation in ("Matrix", "Operand"))
            named = {}
        yield Good(f"matrix.{name}", function, args, named)


def linalg_calls(v: Values) -> Iterator[Good]:
    """The public functions of `oa.matrix.linalg`."""
    for name in m.linalg.__all__:
        function = getattr(m.linalg, name)
        args, named = LINALG[name](v) if name in LINALG else ((v.identity,), {})
        yield Good("matrix." if name in m.__all__ else f"matrix.linalg.{name}", function, args, named)


class Net(ml.Module):
    """A model to train and to save."""

    def __init__(self, engine: Any) -> None:
        self.layer = ml.Linear(engine, 3, 2)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def taped(v: Values) -> tuple[Any, Any]:
    """A tape and what it can differentiate."""
    tape = ml.GradientTape(persistent=True)
    with tape:
        tape.watch(v.f)
        y = m.sum(v.f * v.f)
    return tape, y


def ml_calls(v: Values, folder: Path) -> Iterator[Good]:
    """The public functions and classes of `oa.ml`."""
    e, net = v.engine, Net(v.engine)
    optimizer = ml.AdamW(net, 1e-3)
    saved = folder / "saved"
    ml.save_checkpoint(saved, net, optimizer)
    checkpoint = ml.read_checkpoint(saved)
    weight, gradients = ml.Parameter(v.f), [m.zeros(e, p.shape) for p in net.parameters()]
    tape, y = taped(v)
    yield Good("cross_entropy", ml.cross_entropy, (v.logits, v.ids), {"ignore_index": None})
    yield Good("checkpoint", ml.checkpoint, (m.exp, v.f), {})
    yield Good("dropout", ml.dropout, (v.f, 0.5), {})
    yield Good("layer_norm", ml.layer_norm, (v.f, v.row, v.row, 1e-5), {})
    yield Good(
        "scaled_dot_product_attention", ml.scaled_dot_product_attention, (v.attend, v.attend, v.attend),
        {"causal": False, "mask": m.zeros(e, (3, 3))},
    )  # fmt: skip
    yield Good("clip_grad_norm", ml.clip_grad_norm, (gradients, 1.0), {})
    yield Good("warmup_cosine", ml.warmup_cosine, (1e-3,), {"steps": 10, "warmup": 2, "floor": 0.1})
    yield Good("Parameter", ml.Parameter, (v.f,), {})
    yield Good("Parameter.assign", weight.assign, (v.f,), {})
    yield Good("Linear", ml.Linear, (e, 3, 2), {"bias": True})
    yield Good("Linear", ml.Linear(e, 3, 2), (v.f,), {})
    yield Good("Embedding", ml.Embedding, (e, 3, 2), {"std": 1.0})
    yield Good("Embedding", ml.Embedding(e, 3, 2), (v.ids,), {})
    yield Good("LayerNorm", ml.LayerNorm, (e, 3), {"eps": 1e-5})
    yield Good("LayerNorm", ml.LayerNorm(e, 3), (v.f,), {})
    yield Good("Dropout", ml.Dropout, (0.5,), {})
    yield Good("Dropout", ml.Dropout(0.5), (v.f,), {})
    more = {"causal": True, "dropout": 0.1, "bias": True}
    yield Good("MultiHeadAttention", ml.MultiHeadAttention, (e, 4, 2), more)
    yield Good("MultiHeadAttention", ml.MultiHeadAttention(e, 4, 2), (v.attend, m.zeros(e, (3, 3))), {})
    yield Good("TransformerBlock", ml.TransformerBlock, (e, 4, 2), {"expansion": 2, **more})
    yield Good("TransformerBlock", ml.TransformerBlock(e, 4, 2), (v.attend, m.zeros(e, (3, 3))), {})
    yield Good("Module.load_state_dict", net.load_state_dict, (net.state_dict(),), {})
    yield Good("Module.train", net.train, (True,), {})
    settings = {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1, "max_norm": 1.0}
    yield Good("AdamW", lambda *a, **n: ml.AdamW(*a, **n), ([ml.Parameter(v.f)], 1e-3), settings)
    yield Good("AdamW.step", optimizer.step, (gradients,), {})
    yield Good("AdamW.load_state_dict", optimizer.load_state_dict, (optimizer.state_dict(),), {})
    yield Good("GradientTape", ml.GradientTape, (), {"persistent": True})
    yield Good("tape.watch", ml.GradientTape().watch, (v.f,), {})
    yield Good("tape.gradient", tape.gradient, (y, v.f), {"seed": m.ones_like(y)})
    notes = {"config": {"a": 1}, "progress": {"b": 2}, "extra": {"c": v.f}}
    yield Good("save_checkpoint", ml.save_checkpoint, (folder / "made", net, optimizer), notes)
    yield Good("load_checkpoint", ml.load_checkpoint, (saved, net, optimizer), {})
    yield Good("read_checkpoint", ml.read_checkpoint, (saved,), {})
    yield Good("Checkpoint.restore", checkpoint.restore, (net, optimizer), {})


def core_calls(v: Values, folder: Path) -> Iterator[Good]:
    """Engine, State, plans, and the methods of a Matrix."""
    e, cell = v.engine, oa.State(v.engine, v.f)
    plan = e.capture(lambda: v.f + v.row)
    yield Good("engine.capture", e.capture, (lambda: v.f + 1.0,), {})
    yield Good("engine.submit", e.submit, (plan,), {})
    yield Good("engine.family", e.family, (lambda x: x + 1.0,), {})
    yield Good("Event.wait", e.submit(plan).wait, (9.5,), {})
    yield Good("plan.bind", plan.bind, (v.row, m.ones(e, (3,))), {})
    roof = oa.Roofline(bytes=1e9, operations=1e9)
    yield Good("plan.explain", plan.explain, (), {"roofline": roof})
    yield Good("plan.graph", plan.graph, (folder / "graph.svg",), {"roofline": roof})
    yield Good("plan.memory_plot", plan.memory_plot, (folder / "memory.svg",), {})
    yield Good("plan.save", plan.save, (folder / "plan.oap",), {"names": {"row": v.row}, "values": True})
    yield Good("engine.load_plan", e.load_plan, (plan.save(folder / "good.oap", {"row": v.row}, True),), {})
    loaded = e.load_plan(folder / "good.oap")
    yield Good("plan.bind", loaded.bind, ("row", m.ones(e, (3,))), {})
    for name, good in (("seed", 1), ("rng_state", (1, 2)), ("memory_limit", 1 << 30)):
        yield Good(f"engine.{name}", functools.partial(setattr, e, name), (good,), {})
    yield Good("State", oa.State, (e, v.f), {})
    yield Good("State.assign", cell.assign, (v.f,), {})
    x = v.f
    yield Good("index", x.__getitem__, (0,), {})
    yield Good("index", lambda key: x.copy().__setitem__(key, 1.0), (0,), {})
    yield Good("assignment", lambda value: x.copy().__setitem__(0, value), (1.0,), {})
    yield Good("matrix.astype", x.astype, ("int32",), {})
    yield Good("matrix.reshape", x.reshape, ((3, 2),), {})
    yield Good("matrix.transpose", x.transpose, (0, 1), {})
    for name in ("sum", "mean", "max", "min"):
        yield Good(f"matrix.{name}", getattr(x, name), (0, False), {})
    yield Good("to_device", x.to_device, (e,), {"stream": None})
    yield Good("api_version", x.__array_namespace__, (), {"api_version": "2023.12"})
    for sign in "add sub mul truediv floordiv mod pow matmul eq lt".split():
        yield Good("matrix.", getattr(x, f"__{sign}__"), (v.f.T if sign == "matmul" else x,), {})
    yield Good("matrix.", v.i.__and__, (v.i,), {})
    yield Good("matrix.", v.i.__lshift__, (v.i,), {})


class Bad(NamedTuple):
    """One call with something wrong: what, and whether it may work for good reason."""

    what: str
    call: Callable[[], Any]
    may_work: bool


def _names(call: Good) -> list[str]:
    """The names of the arguments given by position, "operand" for those that may be numbers."""
    function = call.function
    if isinstance(function, ml.Module):
        function = type(function).forward.__get__(function)
    given, names = len(call.args), []
    for p in inspect.signature(function).parameters.values():
        name = "operand" if "Operand" in str(p.annotation) else p.name
        names += [name] * (given if p.kind is p.VAR_POSITIONAL else 1)
    leads = given and isinstance(call.args[0], oa.Engine) and names[:1] != ["engine"]
    return [*(["engine"] if leads else []), *names]


def _may_work(name: str, word: str) -> bool:
    if name == "operand":
        return word in NUMBERS or word == "None"
    return name in FLAGS or word in TAKES.get(name, ("None",))


def _bad(name: str) -> list[tuple[str, Any]]:
    """The bad values to try for an argument of this name."""
    return [(word, value) for word, value in BAD.items() if name not in FLAGS or word in ("word", "empty")]


def bad_calls(call: Good) -> Iterator[Bad]:
    """Each argument replaced by each bad one."""
    names = _names(call)
    for place in range(len(call.args)):
        for word, value in _bad(names[place]):
            args = (*call.args[:place], value, *call.args[place + 1 :])
            run = functools.partial(call.function, *args, **call.named)
            yield Bad(f"{place} ({names[place]}) = {word}", run, _may_work(names[place], word))
    for key in call.named:
        for word, value in _bad(key):
            run = functools.partial(call.function, *call.args, **{**call.named, key: value})
            yield Bad(f"{key} = {word}", run, _may_work(key, word))


def settle(result: Any) -> None:
    """Read whatever a call gave."""
    if isinstance(result, oa.Matrix):
        result.to_numpy()
    elif isinstance(result, (tuple, list)):
        for part in result:
            settle(part)
