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
        self, recipe: Recipe, parameters: Mapping[str, Any], device: str, fused: bool = False
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
        loss = F.cross_entropy(self.logits(inputs).flatten(0, 1), targets.flatten())
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
