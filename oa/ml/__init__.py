"""Machine learning: gradients, modules, losses, optimisers, checkpoints."""

import inspect

from oa.matrix.surface import public, public_methods
from oa.ml.functional import cross_entropy, dropout, layer_norm, scaled_dot_product_attention
from oa.ml.layers import Dropout, Embedding, LayerNorm, Linear, MultiHeadAttention, TransformerBlock
from oa.ml.module import Module
from oa.ml.optim import AdamW, clip_grad_norm
from oa.ml.parameter import Parameter
from oa.ml.recompute import checkpoint
from oa.ml.saved import Checkpoint, load_checkpoint, read_checkpoint, save_checkpoint
from oa.ml.schedule import Schedule, warmup_cosine
from oa.ml.tape import GradientTape

__all__ = [
    "AdamW",
    "Checkpoint",
    "Dropout",
    "Embedding",
    "GradientTape",
    "LayerNorm",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "Parameter",
    "Schedule",
    "TransformerBlock",
    "checkpoint",
    "clip_grad_norm",
    "cross_entropy",
    "dropout",
    "layer_norm",
    "load_checkpoint",
    "read_checkpoint",
    "save_checkpoint",
    "scaled_dot_product_attention",
    "warmup_cosine",
]

for _name in __all__:
    _found = globals()[_name]
    if inspect.isfunction(_found):
        globals()[_name] = public(_name, _found, __name__)
    elif inspect.isclass(_found):
        public_methods(_found, "tape" if _found is GradientTape else "", leave=("record", "step"))
# Nothing but `step` may hold the gradients when it flushes, or they would be stored: its work is wrapped instead.
AdamW._update = public("AdamW.step", AdamW._update)  # type: ignore[method-assign]
