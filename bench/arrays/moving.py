"""Cases of operations that make, move, choose or order elements."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from bench.arrays.case import Case

_RNG = np.random.default_rng(5)


def _count(x: Any) -> int:
    return int(x.size) if isinstance(x.size, int) else math.prod(x.shape)


def _scattered(xp: Any, x: Any, k: Any, y: Any) -> Any:
    out = x.copy()
    out[k] = y
    return out


def _summed(xp: Any, x: Any, d: Any, y: Any) -> Any:
    if hasattr(xp, "bincount") and xp is np:
        return x + xp.bincount(d, weights=y, minlength=len(x))
    out = x.copy()
    xp.add.at(out, d, y)
    return out


def _half(xp: Any, x: Any) -> Any:
    out = x.copy()
    out[: len(x) // 2] = 1.0
    return out


def _torch_half(t: Any, x: Any) -> Any:
    out = x.clone()
    out[: len(x) // 2] = 1.0
    return out


def _hot(xp: Any, e: Any) -> Any:
    return xp.equal(e[:, None], xp.arange(1024)).astype(xp.float32)


def _mask(xp: Any, q: Any) -> Any:
    out = xp.zeros((len(q), 64), bool)
    out[xp.arange(len(q))[:, None], q] = True
    return out


#: New values: the first input only tells how many.
_MADE = (
    Case("arange", "x", lambda m, x: m.arange(_count(x), dtype="int32", device=x.engine).copy(),
         lambda xp, x: xp.arange(x.size, dtype=xp.int32), lambda t, x: t.arange(x.numel(), dtype=t.int32, device=x.device)),
    Case("linspace", "x", lambda m, x: m.linspace(0.0, 1.0, _count(x), device=x.engine).copy(),
         lambda xp, x: xp.linspace(0.0, 1.0, x.size, dtype=xp.float32),
         lambda t, x: t.linspace(0, 1, x.numel(), device=x.device)),
    Case("eye", "m", lambda m, x: m.eye(x.shape[0], device=x.engine).copy(), lambda xp, x: xp.eye(x.shape[0], dtype=xp.float32),
         lambda t, x: t.eye(x.shape[0], device=x.device)),
    Case("full", "x", lambda m, x: m.full(x.shape, 3.0, device=x.engine).copy(),
         lambda xp, x: xp.full(x.shape, 3.0, xp.float32), lambda t, x: t.full(x.shape, 3.0, device=x.device)),
    Case("full_like", "x", lambda m, x: m.full_like(x, 3.0).copy(), lambda xp, x: xp.full_like(x, 3.0),
         lambda t, x: t.full_like(x, 3.0)),
    Case("ones", "x", lambda m, x: m.ones(x.shape, device=x.engine).copy(), lambda xp, x: xp.ones(x.shape, xp.float32),
         lambda t, x: t.ones(x.shape, device=x.device)),
    Case("ones_like", "x", lambda m, x: m.ones_like(x).copy(), lambda xp, x: xp.ones_like(x), lambda t, x: t.ones_like(x)),
    # xp.zeros asks the system for pages that are cleared when first read: a fill is what this does
    Case("zeros", "x", lambda m, x: m.zeros(x.shape, device=x.engine).copy(), lambda xp, x: xp.full(x.shape, 0.0, xp.float32),
         lambda t, x: t.zeros(x.shape, device=x.device)),
    Case("zeros_like", "x", lambda m, x: m.zeros_like(x).copy(), lambda xp, x: xp.full_like(x, 0.0),
         lambda t, x: t.zeros_like(x)),
    Case("empty", "x", lambda m, x: m.empty(x.shape, device=x.engine).copy(), lambda xp, x: xp.full(x.shape, 0.0, xp.float32),
         lambda t, x: t.zeros(x.shape, device=x.device), check="none"),
    Case("empty_like", "x", lambda m, x: m.empty_like(x).copy(), lambda xp, x: xp.full_like(x, 0.0),
         lambda t, x: t.zeros_like(x), check="none"),
    Case("uniform", "x", lambda m, x: m.uniform(x.engine, x.shape), lambda xp, x: _RNG.random(x.shape, np.float32),
         lambda t, x: t.rand_like(x), check="none"),
    Case("normal", "x", lambda m, x: m.normal(x.engine, x.shape), lambda xp, x: _RNG.standard_normal(x.shape, np.float32),
         lambda t, x: t.randn_like(x), check="none"),
    Case("truncated_normal", "x", lambda m, x: m.truncated_normal(x.engine, x.shape), None,
         lambda t, x: t.nn.init.trunc_normal_(t.empty_like(x)), check="none"),
    Case("bernoulli", "x", lambda m, x: m.bernoulli(x.engine, x.shape, 0.3),
         lambda xp, x: _RNG.random(x.shape, np.float32) < np.float32(0.3), lambda t, x: t.rand_like(x) < 0.3, check="none"),
    Case("integers", "x", lambda m, x: m.integers(x.engine, x.shape, 0, 1000),
         lambda xp, x: _RNG.integers(0, 1000, x.shape, np.int32),
         lambda t, x: t.randint(0, 1000, x.shape, dtype=t.int32, device=x.device), check="none"),
    Case("permutation", "x", lambda m, x: m.permutation(x.engine, _count(x)), lambda xp, x: _RNG.permutation(x.size),
         lambda t, x: t.randperm(x.numel(), device=x.device), bound="order", check="none"),
    Case("gamma", "x", lambda m, x: m.gamma(x.engine, x.shape, 2.0), lambda xp, x: _RNG.standard_gamma(2.0, x.shape, np.float32),
         lambda t, x: t._standard_gamma(t.full_like(x, 2.0)), bound="compute", check="none"),
    Case("categorical", "m", lambda m, x: m.categorical(x),
         lambda xp, x: (x + _RNG.gumbel(size=x.shape)).argmax(-1), lambda t, x: t.multinomial(x.softmax(-1), 1), check="none"),
    Case("sample_logits", "m", lambda m, x: m.sample_logits(x, 0.8, 50), None, None, bound="order", check="none"),
)  # fmt: skip

_MOVED = (
    Case("transpose, stored", "m", lambda m, x: m.transpose(x).copy(), lambda xp, x: x.T.copy(),
         lambda t, x: x.T.contiguous(), check="same"),
    Case("permute_dims, stored", "5", lambda m, x: m.permute_dims(x, (2, 0, 1)).copy(),
         lambda xp, x: xp.ascontiguousarray(x.transpose(2, 0, 1)), lambda t, x: x.permute(2, 0, 1).contiguous(), check="same"),
    Case("flip, stored", "x", lambda m, x: m.flip(x).copy(), lambda xp, x: x[::-1].copy(), lambda t, x: t.flip(x, (0,)),
         check="same"),
    Case("slice, stored", "x", lambda m, x: m.slice(x, 0, 1, None, 2).copy(), lambda xp, x: x[1::2].copy(),
         lambda t, x: x[1::2].clone(), check="same"),
    Case("broadcast_to, stored", "s", lambda m, x: m.broadcast_to(x, (len(x), len(x))).copy(),
         lambda xp, x: xp.broadcast_to(x, (len(x), len(x))).copy(), lambda t, x: x.expand(len(x), -1).contiguous(), check="same"),
    Case("meshgrid, stored", "s", lambda m, x: tuple(g.copy() for g in m.meshgrid(x, x)),
         lambda xp, x: tuple(xp.meshgrid(x, x)), lambda t, x: tuple(g.contiguous() for g in t.meshgrid(x, x, indexing="xy")),
         check="same"),
    Case("concat", "xy", lambda m, x, y: m.concat([x, y]), lambda xp, x, y: xp.concatenate([x, y]),
         lambda t, x, y: t.cat([x, y]), check="same"),
    Case("stack", "xy", lambda m, x, y: m.stack([x, y], -1), lambda xp, x, y: xp.stack([x, y], -1),
         lambda t, x, y: t.stack([x, y], -1), check="same"),
    Case("pad", "m", lambda m, x: m.pad(x, 1), lambda xp, x: xp.pad(x, 1), lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1)),
         check="same"),
    Case("repeat", "x", lambda m, x: m.repeat(x, 2), lambda xp, x: xp.repeat(x, 2), lambda t, x: x.repeat_interleave(2),
         check="same"),
    Case("roll", "x", lambda m, x: m.roll(x, 1000), lambda xp, x: xp.roll(x, 1000), lambda t, x: t.roll(x, 1000), check="same"),
    Case("tile", "x", lambda m, x: m.tile(x, (2,)), lambda xp, x: xp.tile(x, 2), lambda t, x: x.repeat(2), check="same"),
    Case("tril", "m", lambda m, x: m.tril(x), lambda xp, x: xp.tril(x), lambda t, x: t.tril(x), check="same"),
    Case("triu", "m", lambda m, x: m.triu(x), lambda xp, x: xp.triu(x), lambda t, x: t.triu(x), check="same"),
    Case("put", "x", lambda m, x: m.put(x, slice(0, len(x) // 2), 1.0), _half, _torch_half, check="same"),
    Case("one_hot", "e", lambda m, e: m.one_hot(e, 1024), _hot,
         lambda t, e: t.nn.functional.one_hot(e, 1024).float(), check="same"),
    Case("take, rows in another order", "rh", lambda m, r, h: m.take(r, h, axis=0), lambda xp, r, h: xp.take(r, h, axis=0),
         lambda t, r, h: t.index_select(r, 0, h), check="same"),
    Case("embedding, rows in another order", "hr", lambda m, h, r: m.embedding(h, r), lambda xp, h, r: r[h],
         lambda t, h, r: t.nn.functional.embedding(h, r), check="same"),
    Case("gather, along rows", "mn", lambda m, x, n: m.gather(x, n), lambda xp, x, n: xp.take_along_axis(x, n, -1),
         lambda t, x, n: t.gather(x, 1, n), check="same"),
    Case("take_along_axis", "mn", lambda m, x, n: m.take_along_axis(x, n), lambda xp, x, n: xp.take_along_axis(x, n, -1),
         lambda t, x, n: t.gather(x, 1, n), check="same"),
    Case("take, single elements", "xk", lambda m, x, k: m.take(x, k), lambda xp, x, k: xp.take(x, k),
         lambda t, x, k: x[k], bound="latency", check="same"),
    Case("scatter", "xky", lambda m, x, k, y: m.scatter(x, k, y), _scattered, lambda t, x, k, y: x.scatter(0, k, y),
         bound="latency", check="same"),
    Case("scatter, add", "xdy", lambda m, x, d, y: m.scatter(x, d, y, mode="add"), _summed,
         lambda t, x, d, y: x.scatter_add(0, d, y), bound="latency"),
    Case("scatter_rows", "rhv", lambda m, r, h, v: m.scatter_rows(r, h, v), _scattered,
         lambda t, r, h, v: r.index_copy(0, h, v), check="same"),
    Case("scatter_add_rows", "rhv", lambda m, r, h, v: m.scatter_add_rows(r, h, v),
         lambda xp, r, h, v: r + v[xp.argsort(h)], lambda t, r, h, v: r.index_add(0, h, v)),
)  # fmt: skip

_ORDERED = (
    Case("sort", "x", lambda m, x: m.sort(x), lambda xp, x: xp.sort(x), lambda t, x: t.sort(x)[0], "order", "same", cupy=True),
    Case("sort, rows", "m", lambda m, x: m.sort(x), lambda xp, x: xp.sort(x), lambda t, x: t.sort(x)[0], "order", "same",
         cupy=True),
    Case("sort, int32", "i", lambda m, x: m.sort(x), lambda xp, x: xp.sort(x), lambda t, x: t.sort(x)[0], "order", "same",
         cupy=True),
    Case("argsort", "x", lambda m, x: m.argsort(x), lambda xp, x: xp.argsort(x, kind="stable"),
         lambda t, x: t.argsort(x, stable=True), "order", "same", cupy=True),
    Case("topk, 100", "x", lambda m, x: m.topk(x, 100)[0], lambda xp, x: -xp.sort(xp.partition(-x, 99)[:100]),
         lambda t, x: t.topk(x, 100)[0], "order", "same", cupy=True),
    Case("topk, 50 of each row", "m", lambda m, x: m.topk(x, 50)[0], lambda xp, x: -xp.sort(xp.partition(-x, 49)[:, :50]),
         lambda t, x: t.topk(x, 50)[0], "order", "same", cupy=True),
    Case("top_k_mask", "q", lambda m, q: m.top_k_mask(q, 64), _mask, None, check="same"),
    Case("unique_values, 2,000 of them", "i", lambda m, x: m.unique_values(x), lambda xp, x: xp.unique(x),
         lambda t, x: t.unique(x), "order", "same", cupy=True),
    Case("unique_counts", "i", lambda m, x: tuple(m.unique_counts(x)), lambda xp, x: xp.unique(x, return_counts=True),
         lambda t, x: t.unique(x, return_counts=True), "order", "same", cupy=True),
    Case("unique_inverse", "i", lambda m, x: tuple(m.unique_inverse(x)),
         lambda xp, x: xp.unique(x, return_inverse=True), lambda t, x: t.unique(x, return_inverse=True), "order", "same",
         cupy=True),
    Case("unique_all", "i", lambda m, x: tuple(m.unique_all(x)),
         lambda xp, x: xp.unique(x, return_index=True, return_inverse=True, return_counts=True), None, "order", "same",
         cupy=True),
    Case("compact_rows", "rG", lambda m, x, g: m.compact_rows(x, g), lambda xp, x, g: x[g], lambda t, x, g: x[g], "latency",
         "same", cupy=True),
    Case("nonzero", "b", lambda m, x: m.nonzero(x), lambda xp, x: xp.nonzero(x), lambda t, x: t.nonzero(x, as_tuple=True),
         "order", "same", cupy=True),
    Case("argwhere", "b", lambda m, x: m.argwhere(x), lambda xp, x: xp.argwhere(x), lambda t, x: t.argwhere(x), "order", "same",
         cupy=True),
)  # fmt: skip

MOVING: tuple[Case, ...] = (
    *(replace(case, creates=case.inputs != "m" or case.name == "eye") for case in _MADE),
    *_MOVED,
    *_ORDERED,
)
