"""The demo's model written a second time, in NumPy: forward, hand-written backward, clipping, schedule, AdamW.

It shares nothing with `oa` but the parameter names, so agreement between the two is evidence. Gradients are formulas derived
by hand per layer; `tests/oracle/test_twin.py` checks them against finite differences. The arithmetic runs in the dtype of the
parameters it is given: float64 as the oracle, float32 to settle a training recipe without a device.

Shapes: B windows, T positions, C width, H heads, D = C / H, V symbols. Linear weights are [out, in].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Parameters = dict[str, Array]
Gradients = dict[str, Array]
#: Turns the gradient of an output into the gradient of the input, adding those of the parameters on its way.
Backward = Callable[[Array], Array]

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function, element by element, in the dtype of `x`."""
    return np.asarray(_erf(x.astype(np.float64)), dtype=x.dtype)


@dataclass(frozen=True)
class Recipe:
    """What the model is and how it is trained; the defaults are the demo's."""

    vocabulary: int
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2
    expansion: int = 4
    steps: int = 500
    peak: float = 3e-3
    warmup: int = 50
    floor: float = 0.1
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float = 1.0


def initial(recipe: Recipe, rng: np.random.Generator, dtype: Any = np.float64) -> Parameters:
    """Initial values: embeddings normal(0, 0.02), linear layers uniform(+-1/sqrt(in)), norms one and zero."""
    c, v = recipe.width, recipe.vocabulary
    values: Parameters = {}

    def linear(name: str, fan_in: int, fan_out: int) -> None:
        bound = 1.0 / math.sqrt(fan_in)
        values[f"{name}.weight"] = rng.uniform(-bound, bound, (fan_out, fan_in))
        values[f"{name}.bias"] = rng.uniform(-bound, bound, fan_out)

    def norm(name: str) -> None:
        values[f"{name}.weight"], values[f"{name}.bias"] = np.ones(c), np.zeros(c)

    values["token.weight"] = rng.normal(0.0, 0.02, (v, c))
    values["position.weight"] = rng.normal(0.0, 0.02, (recipe.context, c))
    for i in range(recipe.layers):
        norm(f"blocks.{i}.norm1")
        linear(f"blocks.{i}.attention.qkv", c, 3 * c)
        linear(f"blocks.{i}.attention.out", c, c)
        norm(f"blocks.{i}.norm2")
        linear(f"blocks.{i}.up", c, recipe.expansion * c)
        linear(f"blocks.{i}.down", recipe.expansion * c, c)
    norm("norm")
    linear("head", c, v)
    return {name: value.astype(dtype) for name, value in values.items()}


def linear(p: Mapping[str, Array], grads: Gradients, name: str, x: Array) -> tuple[Array, Backward]:
    """y = x W^T + b over the last axis."""
    weight = p[f"{name}.weight"]

    def backward(dy: Array) -> Array:
        rows, cols = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
        grads[f"{name}.weight"] = rows.T @ cols
        grads[f"{name}.bias"] = rows.sum(axis=0)
        return dy @ weight

    return x @ weight.T + p[f"{name}.bias"], backward


def layer_norm(
    p: Mapping[str, Array], grads: Gradients, name: str, x: Array, eps: float = 1e-5
) -> tuple[Array, Backward]:
    """y = w (x - mean) / sqrt(var + eps) + b over the last axis, var being the mean square deviation."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1.0 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    unit = centred * scale
    weight = p[f"{name}.weight"]

    def backward(dy: Array) -> Array:
        lead = tuple(range(dy.ndim - 1))
        grads[f"{name}.weight"] = (dy * unit).sum(axis=lead)
        grads[f"{name}.bias"] = dy.sum(axis=lead)
        du = dy * weight
        along = np.mean(du * unit, axis=-1, keepdims=True)
        return (du - du.mean(axis=-1, keepdims=True) - unit * along) * scale

    return unit * weight + p[f"{name}.bias"], backward


def gelu(x: Array) -> tuple[Array, Backward]:
    """y = x Phi(x), Phi the normal distribution function (exact, through erf)."""
    phi = x.dtype.type(0.5) * (1 + erf(x * x.dtype.type(1 / math.sqrt(2))))
    density = np.exp(x * x * x.dtype.type(-0.5)) * x.dtype.type(1 / math.sqrt(2 * math.pi))
    return x * phi, lambda dy: dy * (phi + x * density)


def attention(
    p: Mapping[str, Array], grads: Gradients, name: str, x: Array, heads: int
) -> tuple[Array, Backward]:
    """Causal self-attention: softmax(q k^T / sqrt(D)) v per head, between two linear layers."""
    b, t, c = x.shape
    d = c // heads
    root = x.dtype.type(1 / math.sqrt(d))
    packed, packed_back = linear(p, grads, f"{name}.qkv", x)
    q, k, v = packed.reshape(b, t, 3, heads, d).transpose(2, 0, 3, 1, 4)  # each [B, H, T, D]
    future = np.triu(np.ones((t, t), bool), 1)
    scores = np.where(future, x.dtype.type(-np.inf), (q @ k.swapaxes(-1, -2)) * root)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    merged = (weights @ v).transpose(0, 2, 1, 3).reshape(b, t, c)
    y, out_back = linear(p, grads, f"{name}.out", merged)

    def backward(dy: Array) -> Array:
        dm = out_back(dy).reshape(b, t, heads, d).transpose(0, 2, 1, 3)
        dw = dm @ v.swapaxes(-1, -2)
        ds = weights * (dw - (dw * weights).sum(axis=-1, keepdims=True)) * root
        parts = np.stack([ds @ k, ds.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ dm])
        return packed_back(parts.transpose(1, 3, 0, 2, 4).reshape(b, t, 3 * c))

    return y, backward


def block(
    p: Mapping[str, Array], grads: Gradients, name: str, x: Array, heads: int
) -> tuple[Array, Backward]:
    """Pre-norm block: x + attention(norm1(x)), then x + down(gelu(up(norm2(x))))."""
    n1, n1_back = layer_norm(p, grads, f"{name}.norm1", x)
    a, a_back = attention(p, grads, f"{name}.attention", n1, heads)
    middle = x + a
    n2, n2_back = layer_norm(p, grads, f"{name}.norm2", middle)
    u, u_back = linear(p, grads, f"{name}.up", n2)
    g, g_back = gelu(u)
    f, f_back = linear(p, grads, f"{name}.down", g)

    def backward(dy: Array) -> Array:
        dm = dy + n2_back(u_back(g_back(f_back(dy))))
        return dm + n1_back(a_back(dm))

    return middle + f, backward


def forward(
    p: Mapping[str, Array], ids: Array, recipe: Recipe, grads: Gradients | None = None
) -> tuple[Array, Backward]:
    """Logits [B, T, V] for token ids [B, T], and the way back."""
    collected: Gradients = {} if grads is None else grads
    x = p["token.weight"][ids] + p["position.weight"][: ids.shape[1]]
    ways: list[Backward] = []
    for i in range(recipe.layers):
        x, back = block(p, collected, f"blocks.{i}", x, recipe.heads)
        ways.append(back)
    x, back = layer_norm(p, collected, "norm", x)
    ways.append(back)
    logits, back = linear(p, collected, "head", x)
    ways.append(back)

    def backward(dy: Array) -> Array:
        for way in reversed(ways):
            dy = way(dy)
        token = np.zeros_like(p["token.weight"])
        np.add.at(token, ids, dy)
        position = np.zeros_like(p["position.weight"])
        position[: ids.shape[1]] = dy.sum(axis=0)
        collected["token.weight"], collected["position.weight"] = token, position
        return dy

    return logits, backward


def cross_entropy(logits: Array, targets: Array) -> tuple[float, Array]:
    """Mean negative log-likelihood in nats over all tokens, and its gradient with respect to the logits."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(shifted - log_total, targets[..., None], axis=-1)
    gradient = np.exp(shifted - log_total)
    np.put_along_axis(
        gradient, targets[..., None], np.take_along_axis(gradient, targets[..., None], axis=-1) - 1, axis=-1
    )
    return float(-picked.mean()), gradient / logits.dtype.type(targets.size)


def loss_and_gradients(
    p: Mapping[str, Array], inputs: Array, targets: Array, recipe: Recipe
) -> tuple[float, Gradients]:
    """The training loss of one batch and its gradient for every parameter."""
    grads: Gradients = {}
    logits, backward = forward(p, inputs, recipe, grads)
    loss, dlogits = cross_entropy(logits, targets)
    backward(dlogits)
    return loss, {name: grads[name] for name in p}


def clip(grads: Gradients, limit: float) -> tuple[Gradients, float]:
    """g min(1, limit / (norm + 1e-6)) with the global Euclidean norm, as PyTorch clips; also the norm."""
    norm = math.sqrt(sum(float(np.vdot(g, g)) for g in grads.values()))
    scale = min(1.0, limit / (norm + 1e-6))
    return {name: g * g.dtype.type(scale) for name, g in grads.items()}, norm


def learning_rate(step: int, recipe: Recipe) -> float:
    """Rate of update number `step` (from 0): peak (step + 1) / warmup, then a cosine to peak * floor."""
    if step < recipe.warmup:
        return recipe.peak * (step + 1) / recipe.warmup
    done = min(1.0, (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup))
    return recipe.peak * (recipe.floor + (1 - recipe.floor) * 0.5 * (1 + math.cos(math.pi * done)))


@dataclass
class AdamW:
    """p -= rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay p), every parameter alike."""

    betas: tuple[float, float]
    eps: float
    weight_decay: float
    steps: int = 0
    m: Gradients = field(default_factory=dict)
    v: Gradients = field(default_factory=dict)

    def step(self, p: Parameters, grads: Gradients, rate: float) -> None:
        """Replace every entry of `p` by its updated value."""
        self.steps += 1
        b1, b2 = self.betas
        for name, g in grads.items():
            kind = g.dtype.type
            self.m[name] = kind(b1) * self.m.get(name, np.zeros_like(g)) + kind(1 - b1) * g
            self.v[name] = kind(b2) * self.v.get(name, np.zeros_like(g)) + kind(1 - b2) * g * g
            unbiased = self.m[name] / kind(1 - b1**self.steps)
            spread = np.sqrt(self.v[name] / kind(1 - b2**self.steps)) + kind(self.eps)
            p[name] = p[name] - kind(rate) * (unbiased / spread + kind(self.weight_decay) * p[name])


@dataclass
class Training:
    """A training run of the twin: parameters, optimiser and recipe; `step` consumes one batch and returns its loss."""

    recipe: Recipe
    parameters: Parameters
    norms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.optimiser = AdamW(self.recipe.betas, self.recipe.eps, self.recipe.weight_decay)

    def step(self, inputs: Array, targets: Array) -> float:
        """One update; the loss is that of the parameters before it."""
        rate = learning_rate(self.optimiser.steps, self.recipe)
        loss, grads = loss_and_gradients(self.parameters, inputs, targets, self.recipe)
        clipped, norm = clip(grads, self.recipe.clip)
        self.norms.append(norm)
        self.optimiser.step(self.parameters, clipped, rate)
        return loss
