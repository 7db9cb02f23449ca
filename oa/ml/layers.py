"""Layers with parameters: Linear, Embedding, LayerNorm, Dropout, MultiHeadAttention, TransformerBlock.

Initial values are drawn from the engine's random state in the order in which layers are made, so a model is reproducible from
the engine's seed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oa import matrix
from oa._schema.spec import MAX_EXTENT
from oa.errors import ArgumentError, ShapeError
from oa.matrix import Matrix
from oa.matrix.surface import shown
from oa.ml import functional
from oa.ml.module import Module
from oa.ml.parameter import Parameter


def _positive(what: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_EXTENT:
            raise ArgumentError(
                f"{what}: {name} is {shown(size)}; wanted a whole number from 1 to {MAX_EXTENT}"
            )


class Linear(Module):
    """y = x W^T + b over the last axis.

    `weight` [out_features, in_features] and `bias` [out_features] start uniform in +-1 / sqrt(in_features).

    Args:
        engine: where the parameters live.
        in_features, out_features: extents of the last axis of x and of y.
        bias: whether there is a b (default True).
    """

    def __init__(self, engine: Any, in_features: int, out_features: int, *, bias: bool = True) -> None:
        _positive("Linear", in_features=in_features, out_features=out_features)
        bound = 1.0 / math.sqrt(in_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(matrix.uniform(engine, (out_features, in_features), -bound, bound))
        self.bias = Parameter(matrix.uniform(engine, (out_features,), -bound, bound)) if bias else None

    if TYPE_CHECKING:

        def __call__(self, x: Matrix) -> Matrix: ...

    def forward(self, x: Matrix) -> Matrix:
        """[..., in_features] -> [..., out_features]."""
        if not x.shape or x.shape[-1] != self.in_features:
            raise ShapeError(f"Linear: x has shape {x.shape}; its last axis must be {self.in_features}")
        y = matrix.mat_mul_nt(x, self.weight.value)
        return y if self.bias is None else y + self.bias.value

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}{'' if self.bias is not None else ', bias=False'}"


class Embedding(Module):
    """A row of `weight` [count, width] for each integer; starts normal with standard deviation `std` (default 1).

    An integer below 0, or of `count` or more, gives a row of NaN and has no gradient: never another integer's row.
    """

    def __init__(self, engine: Any, count: int, width: int, *, std: float = 1.0) -> None:
        _positive("Embedding", count=count, width=width)
        self.count, self.width = count, width
        self.weight = Parameter(matrix.normal(engine, (count, width), 0.0, std))

    if TYPE_CHECKING:

        def __call__(self, ids: Matrix) -> Matrix: ...

    def forward(self, ids: Matrix) -> Matrix:
        """Integers [...] from 0 to count - 1 -> float32 [..., width]."""
        return matrix.embedding(ids, self.weight.value)

    def extra_repr(self) -> str:
        return f"{self.count}, {self.width}"


class LayerNorm(Module):
    """Normalises the last axis to mean 0 and variance 1, then applies `weight` [width] (from 1) and `bias` [width] (from 0)."""

    def __init__(self, engine: Any, width: int, *, eps: float = 1e-5) -> None:
        _positive("LayerNorm", width=width)
        functional.check_spread(eps, "LayerNorm")
        self.width, self.eps = width, eps
        self.weight = Parameter(matrix.ones(engine, (width,)))
        self.bias = Parameter(matrix.zeros(engine, (width,)))

    if TYPE_CHECKING:

        def __call__(self, x: Matrix) -> Matrix: ...

    def forward(self, x: Matrix) -> Matrix:
        """[..., width] -> [..., width]."""
        return functional.layer_norm(x, self.weight.value, self.bias.value, self.eps)

    def extra_repr(self) -> str:
        return f"{self.width}, eps={self.eps}"


class Dropout(Module):
    """Zeroes elements with probability `p` (default 0.5) and rescales the rest in training mode; the identity otherwise."""

    def __init__(self, p: float = 0.5) -> None:
        functional.check_probability(p, "Dropout")
        self.p = p

    if TYPE_CHECKING:

        def __call__(self, x: Matrix) -> Matrix: ...

    def forward(self, x: Matrix) -> Matrix:
        """Same shape as x."""
        return functional.dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"


class MultiHeadAttention(Module):
    """Self-attention with `heads` heads of width / heads channels: out(concat_h softmax(q_h k_h^T / sqrt(D)) v_h).

    `qkv` is one linear layer [3 width, width] giving queries, keys and values in that order; `out`
    [width, width] mixes the heads.

    Args:
        engine: where the parameters live.
        width, heads: the channels and their number of groups; `heads` divides `width`.
        causal: no position attends to a later one (default True).
        dropout: probability on the result, in training mode (default 0).
        bias: whether the linear layers have biases (default True).
    """

    def __init__(
        self,
        engine: Any,
        width: int,
        heads: int,
        *,
        causal: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        _positive("MultiHeadAttention", width=width, heads=heads)
        if width % heads:
            raise ArgumentError(
                f"MultiHeadAttention: {heads} heads do not divide width {width}; choose a divisor"
            )
        self.width, self.heads, self.causal = width, heads, causal
        self.qkv = Linear(engine, width, 3 * width, bias=bias)
        self.out = Linear(engine, width, width, bias=bias)
        self.dropout = Dropout(dropout)

    if TYPE_CHECKING:

        def __call__(self, x: Matrix, mask: Matrix | None = None) -> Matrix: ...

    def forward(self, x: Matrix, mask: Matrix | None = None) -> Matrix:
        """[B, T, width] -> [B, T, width]; `mask` is added to the scores and broadcasts to [B, heads, T, T]."""
        if x.ndim != 3:
            raise ShapeError(
                f"MultiHeadAttention: x has shape {x.shape}; wanted [batch, positions, {self.width}]"
            )
        b, t, _ = x.shape
        packed = matrix.reshape(self.qkv(x), (b, t, 3, self.heads, self.width // self.heads))
        query, key, value = (matrix.permute_dims(packed[:, :, i], (0, 2, 1, 3)) for i in range(3))
        mixed = functional.scaled_dot_product_attention(query, key, value, causal=self.causal, mask=mask)
        merged = matrix.reshape(matrix.permute_dims(mixed, (0, 2, 1, 3)), (b, t, self.width))
        result: Matrix = self.dropout(self.out(merged))
        return result

    def extra_repr(self) -> str:
        return f"{self.width}, heads={self.heads}, causal={self.causal}"


class TransformerBlock(Module):
    """A pre-norm block: x + attention(norm1(x)), then x + down(gelu(up(norm2(x)))).

    Args:
        engine: where the parameters live.
        width, heads: as in `MultiHeadAttention`.
        expansion: the feed-forward width is expansion * width (default 4).
        causal, dropout, bias: as in `MultiHeadAttention`; dropout also follows the feed-forward layers.
    """

    def __init__(
        self,
        engine: Any,
        width: int,
        heads: int,
        *,
        expansion: int = 4,
        causal: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        _positive("TransformerBlock", expansion=expansion)
        self.norm1 = LayerNorm(engine, width)
        self.attention = MultiHeadAttention(engine, width, heads, causal=causal, dropout=dropout, bias=bias)
        self.norm2 = LayerNorm(engine, width)
        self.up = Linear(engine, width, expansion * width, bias=bias)
        self.down = Linear(engine, expansion * width, width, bias=bias)
        self.dropout = Dropout(dropout)

    if TYPE_CHECKING:

        def __call__(self, x: Matrix, mask: Matrix | None = None) -> Matrix: ...

    def forward(self, x: Matrix, mask: Matrix | None = None) -> Matrix:
        """[B, T, width] -> [B, T, width]."""
        if x.ndim != 3:
            raise ShapeError(f"TransformerBlock: x has shape {x.shape}; wanted [batch, positions, width]")
        x = x + self.attention(self.norm1(x), mask)
        result: Matrix = x + self.dropout(self.down(matrix.gelu(self.up(self.norm2(x)))))
        return result
