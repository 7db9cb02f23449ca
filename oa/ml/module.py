"""Modules: Python objects whose attributes are the registry of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oa.errors import ArgumentError
from oa.matrix import Matrix
from oa.ml.parameter import Parameter, as_matrix, assign_all, check_fits


class Module:
    """Base of everything that has parameters.

    Attributes that are a `Parameter`, a `Module`, or a list or tuple of modules are found by walking them in the order in which
    they were set; their dotted path is their name (`blocks.0.attention.qkv.weight`). There is nothing to register. A parameter
    reached by two paths (tied weights) counts once, under the first.

    Example:
        >>> class Net(oa.ml.Module):
        ...     def __init__(self, engine):
        ...         self.hidden = oa.ml.Linear(engine, 8, 16)
        ...         self.out = oa.ml.Linear(engine, 16, 2)
        ...     def forward(self, x):
        ...         return self.out(oa.matrix.relu(self.hidden(x)))
    """

    #: True while training: Dropout is active. `train()` and `eval()` set it for the whole tree.
    training: bool = True

    def forward(self, *inputs: Any) -> Any:
        """What the module computes; calling the module calls this."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.forward(*inputs, **options)

    def children(self) -> Iterator[tuple[str, Module]]:
        """Direct submodules with their names."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple)):
                for i, item in enumerate(value):
                    if isinstance(item, Module):
                        yield f"{name}.{i}", item

    def modules(self) -> Iterator[Module]:
        """This module and all below it, parents first."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def named_parameters(self) -> dict[str, Parameter]:
        """All parameters by dotted name, in the order in which the attributes were set, own ones before those of children."""
        found: dict[str, Parameter] = {}
        seen: set[int] = set()
        for name, parameter in self._walk(""):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                found[name] = parameter
        return found

    def _walk(self, prefix: str) -> Iterator[tuple[str, Parameter]]:
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield prefix + name, value
        for name, child in self.children():
            yield from child._walk(f"{prefix}{name}.")

    def parameters(self) -> list[Parameter]:
        """All parameters, in the order of `named_parameters`."""
        return list(self.named_parameters().values())

    @property
    def parameter_count(self) -> int:
        """The number of trainable elements."""
        return sum(p.size for p in self.parameters())

    def train(self, mode: bool = True) -> Module:
        """Set training mode in the whole tree and return the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Leave training mode: the same as `train(False)`."""
        return self.train(False)

    def state_dict(self) -> dict[str, Matrix]:
        """The present values by name. They are immutable: training on does not change a dictionary taken earlier."""
        return {name: p.value for name, p in self.named_parameters().items()}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Assign all parameters from matrices or NumPy arrays by name. Everything is checked before anything is changed.

        Raises:
            ArgumentError: names are missing or unknown; the message lists them.
            ShapeError, DTypeError: a value does not fit its parameter.
        """
        own = self.named_parameters()
        problems = []
        if missing := [n for n in own if n not in values]:
            problems.append(f"missing: {', '.join(missing)}")
        if unknown := [n for n in values if n not in own]:
            problems.append(f"unknown: {', '.join(unknown)}")
        if problems:
            raise ArgumentError(f"{type(self).__name__}.load_state_dict: {'; '.join(problems)}")
        fitting: dict[Parameter, Matrix] = {}
        for name, parameter in own.items():
            value = as_matrix(parameter.engine, values[name])
            check_fits(parameter, value, f"load_state_dict: {name}")
            fitting[parameter] = value
        assign_all(fitting)

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's line in `repr`."""
        return ""

    def __repr__(self) -> str:
        return "\n".join(self._lines("", 0))

    def _lines(self, label: str, depth: int) -> Iterator[str]:
        count = self.parameter_count
        what = f"{'  ' * depth}{label}{type(self).__name__}({self.extra_repr()})"
        yield f"{what}  {count:,} parameters" if count else what
        for name, child in self.children():
            yield from child._lines(f"{name}: ", depth + 1)
