"""AdamW with all of its state on the device, and clipping by the global norm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oa import matrix
from oa._graph.state import State
from oa.errors import ArgumentError, ShapeError
from oa.matrix import Matrix
from oa.matrix.surface import shown
from oa.ml.module import Module
from oa.ml.parameter import FlatParameters, Parameter, as_matrix, check_fits
from oa.ml.schedule import Schedule


def clip_grad_norm(gradients: Sequence[Matrix], max_norm: float) -> tuple[list[Matrix], Matrix]:
    """g min(1, max_norm / (norm + 1e-6)) for every gradient, norm being the Euclidean norm of all of them together.

    Returns the scaled gradients and the norm before scaling (rank 0). Nothing is read back to the host.

    Raises:
        ArgumentError: no gradients, or max_norm not positive.
    """
    if not gradients:
        raise ArgumentError("clip_grad_norm: the list of gradients is empty; wanted at least one")
    _check(max_norm > 0.0, f"clip_grad_norm: max_norm is {max_norm!r}; wanted a positive number")
    total = matrix.sum(gradients[0] * gradients[0])
    for g in gradients[1:]:
        total = total + matrix.sum(g * g)
    norm = matrix.sqrt(total)
    ratio = max_norm / (norm + 1e-6)
    scale = matrix.where(ratio < 1.0, ratio, 1.0)
    return [g * scale for g in gradients], norm


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter), as PyTorch defines it.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
    p -= rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p), t counting updates from 1.

    Parameters move into one flat State cell, their moments into two more, so that an update is one pointwise pass; the step is an
    int32 cell. Nothing that changes is a Python number: a captured step replays exactly.

    Args:
        parameters: what to train: a module, its `parameters()`, or a mapping with names such as `model.named_parameters()`.
        lr: a number, a function of the step (see `warmup_cosine`), or a rank-0 float32 State that the caller may assign between
            steps (default 1e-3).
        betas, eps, weight_decay: as in the formula (defaults 0.9 and 0.999, 1e-8, 0.01); decay applies to every parameter.
        max_norm: clip gradients to this global norm first (default None: no clipping).

    Raises:
        ArgumentError: a number out of range, no parameters, or a parameter that another optimiser has.

    Example:
        >>> optimizer = oa.ml.AdamW(model.parameters(), lr=1e-3)
        >>> with oa.ml.GradientTape() as tape:
        ...     loss = oa.ml.cross_entropy(model(inputs), targets)
        >>> optimizer.step(tape.gradient(loss, optimizer.parameters))
    """

    def __init__(
        self,
        parameters: Module | Iterable[Parameter] | Mapping[str, Parameter],
        lr: float | Schedule | State = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        max_norm: float | None = None,
    ) -> None:
        if isinstance(parameters, Module):
            parameters = parameters.named_parameters()
        if not isinstance(parameters, Mapping):
            parameters = {str(i): p for i, p in enumerate(parameters)}
        _check(len(betas) == 2, f"AdamW: betas are {betas!r}; wanted two numbers")
        for name, beta in zip(("betas[0]", "betas[1]"), betas):
            _check(0.0 <= beta < 1.0, f"AdamW: {name} is {beta!r}; wanted a number of at least 0 and below 1")
        _check(eps > 0.0, f"AdamW: eps is {eps!r}; wanted a positive number")
        _check(weight_decay >= 0.0, f"AdamW: weight_decay is {weight_decay!r}; wanted zero or more")
        _check(max_norm is None or max_norm > 0.0, f"AdamW: max_norm is {max_norm!r}; wanted None or above 0")
        if isinstance(lr, (int, float)):
            _check(0.0 <= lr < math.inf, f"AdamW: lr is {lr!r}; wanted zero or more")
        else:
            fits = isinstance(lr, State) or callable(lr)
            _check(fits, f"AdamW: lr is {shown(lr)}; wanted a number, a function of the step or a State")
        self.betas, self.eps, self.lr = betas, eps, lr
        self.weight_decay, self.max_norm = weight_decay, max_norm
        self._names = tuple(parameters)
        self._flat = FlatParameters(list(parameters.values()))
        engine = self.engine = self._flat.engine
        self._m = State(engine, matrix.zeros(engine, (self._flat.size,)))
        self._v = State(engine, matrix.zeros(engine, (self._flat.size,)))
        self._step = State(engine, matrix.zeros(engine, (), dtype="int32"))

    @property
    def parameters(self) -> list[Parameter]:
        """The trained parameters, in the order in which `step` wants their gradients."""
        return list(self._flat.parameters)

    @property
    def step_count(self) -> Matrix:
        """Updates done so far: rank 0, int32, on the device."""
        return self._step.value

    @property
    def rate(self) -> Matrix | float:
        """The learning rate that the next update will use."""
        if isinstance(self.lr, State):
            return self.lr.value
        return self.lr(self._step.value) if callable(self.lr) else self.lr

    def step(self, gradients: Sequence[Matrix | None]) -> None:
        """One update from one gradient per parameter; None counts as zeros. Ends the pending batch of work.

        Raises:
            ArgumentError: another number of gradients than parameters.
            ShapeError: a gradient without its parameter's shape.
        """
        self._update(gradients)
        del gradients  # with what `_update` had in variables: nobody asks for it, so it need not be stored
        self.engine.flush()

    def _update(self, gradients: Sequence[Matrix | None]) -> None:
        g = self._flat.join(gradients)
        if self.max_norm is not None:
            (g,), _ = clip_grad_norm([g], self.max_norm)
        (b1, b2), rate = self.betas, self.rate
        count = self._step.value + 1
        m = self._m.value * b1 + g * (1.0 - b1)
        v = self._v.value * b2 + g * g * (1.0 - b2)
        unbiased = m / _one_minus_power(b1, count)
        spread = matrix.sqrt(v / _one_minus_power(b2, count)) + self.eps
        p = self._flat.value
        self._flat.assign(p - (unbiased / spread + p * self.weight_decay) * rate)
        self._m.assign(m)
        self._v.assign(v)
        self._step.assign(count)

    def state_dict(self) -> dict[str, Matrix]:
        """`step`, and `m.NAME` and `v.NAME` for every parameter, in its shape."""
        state = {"step": self._step.value}
        for letter, cell in (("m", self._m), ("v", self._v)):
            parts = self._flat.split(cell.value)
            state.update({f"{letter}.{n}": part for n, part in zip(self._names, parts)})
        return state

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave: matrices or NumPy arrays. Everything is checked before anything is changed.

        Raises:
            ArgumentError: names are missing or unknown.
            ShapeError: a moment has not its parameter's shape.
        """
        wanted = ["step", *(f"{letter}.{n}" for letter in "mv" for n in self._names)]
        if differing := sorted(set(wanted) ^ set(values)):
            raise ArgumentError(f"AdamW.load_state_dict: names missing or unknown: {', '.join(differing)}")
        found = {n: as_matrix(self.engine, v) for n, v in values.items()}
        step = found["step"]
        if step.shape != () or step.dtype.name != "int32":
            raise ShapeError(
                f"AdamW.load_state_dict: step is {step.dtype.name} {step.shape}; wanted int32 of rank 0"
            )
        for letter in "mv":
            for name, parameter in zip(self._names, self._flat.parameters):
                check_fits(parameter, found[f"{letter}.{name}"], f"AdamW.load_state_dict: {letter}.{name}")
        moments = [self._flat.join([found[f"{letter}.{n}"] for n in self._names]) for letter in "mv"]
        self._step.assign(step)
        self._m.assign(moments[0])
        self._v.assign(moments[1])

    def __repr__(self) -> str:
        elements = sum(p.size for p in self._flat.parameters)
        return f"AdamW({elements:,} elements, betas={self.betas}, weight_decay={self.weight_decay})"


def _one_minus_power(beta: float, count: Matrix) -> Matrix:
    """1 - beta^count without cancellation: -expm1(count log(beta)), the logarithm taken in double precision."""
    if beta == 0.0:
        return matrix.full(count.engine, (), 1.0)
    return -matrix.expm1(count.astype("float32") * math.log(beta))


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ArgumentError(message)
