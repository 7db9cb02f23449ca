"""The demo's model and training step in eager PyTorch, with the parameter names of `tests/oracle/twin.py`.

Written as a PyTorch user writes it: its own attention, GELU, layer norm, gradient clipping and AdamW.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.oracle.twin import Recipe, learning_rate


class Training:
    """A training run from given parameters; `step` consumes one batch of token ids and returns the loss, on the device."""

    def __init__(
        self,
        recipe: Recipe,
        parameters: Mapping[str, Any],
        device: str,
        fused: bool = False,
        capturable: bool = False,
    ) -> None:
        self.recipe = recipe
        self.device = device
        self.parameters = {
            name: torch.nn.Parameter(torch.tensor(np.asarray(value, np.float32), device=device))
            for name, value in parameters.items()
        }
        self.optimiser = torch.optim.AdamW(
            self.parameters.values(),
            lr=recipe.peak,
            betas=recipe.betas,
            eps=recipe.eps,
            weight_decay=recipe.weight_decay,
            fused=fused or None,
            capturable=capturable,
        )
        self.steps = 0

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """[B, T] token ids -> [B, T, V]."""
        p = self.parameters
        x = p["token.weight"][ids] + p["position.weight"][: ids.shape[1]]
        for i in range(self.recipe.layers):
            x = self._block(f"blocks.{i}", x)
        return self._linear("head", self._norm("norm", x))

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """One update; the loss is that of the parameters before it."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.steps, self.recipe)
        self.steps += 1
        return self.update(inputs, targets)

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy of a batch."""
        return F.cross_entropy(self.logits(inputs).flatten(0, 1), targets.flatten())

    def update(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Forward, backward, clipping and the optimiser, at the learning rate that is set."""
        loss = self.loss(inputs, targets)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.recipe.clip)
        self.optimiser.step()
        return loss.detach()

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])

    def _norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(
            x, x.shape[-1:], self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        )

    def _block(self, name: str, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        packed = self._linear(f"{name}.attention.qkv", self._norm(f"{name}.norm1", x))
        q, k, v = packed.view(b, t, 3, self.recipe.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self._linear(f"{name}.attention.out", mixed.transpose(1, 2).reshape(b, t, c))
        hidden = F.gelu(self._linear(f"{name}.up", self._norm(f"{name}.norm2", x)))
        return x + self._linear(f"{name}.down", hidden)


class Graphed(Training):
    """The same step as a CUDA graph, captured at the first batch: batch and learning rate are copied in before each replay."""

    def __init__(self, recipe: Recipe, parameters: Mapping[str, Any], device: str) -> None:
        super().__init__(recipe, parameters, device, capturable=True)
        self.rate = torch.tensor(0.0, device=device)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate
        self.graph: torch.cuda.CUDAGraph | None = None

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """One update by a replay; the loss is that of the parameters before it."""
        self.rate.fill_(learning_rate(self.steps, self.recipe))
        self.steps += 1
        if self.graph is None:
            self._capture(inputs, targets)
        self.inputs.copy_(inputs)
        self.targets.copy_(targets)
        assert self.graph is not None
        self.graph.replay()
        return self.result

    def _capture(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Warm up on a side stream, as PyTorch's notes on CUDA graphs ask, then record one update."""
        self.inputs, self.targets = inputs.clone(), targets.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.update(self.inputs, self.targets)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.result = self.update(self.inputs, self.targets)


class Compiled(Training):
    """The same step with the loss, and through it its gradients, under torch.compile's reduce-overhead mode."""

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy of a batch, compiled at the first call."""
        if not hasattr(self, "compiled"):
            self.compiled = torch.compile(super().loss, mode="reduce-overhead")
        torch.compiler.cudagraph_mark_step_begin()
        return self.compiled(inputs, targets)
