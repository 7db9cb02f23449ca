"""One declaration gives every derived surface: call, checks, registry, documentation, gradient, fused kernel, plan."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from oa import errors
from oa import matrix as m
from oa._schema import expr, registry
from oa._schema.declare import composite, gradient, pointwise, primitive
from oa._schema.op import Inference
from oa._schema.spec import spec
from oa.matrix import Matrix
from oa.matrix.value import Operand
from oa.ml import GradientTape
from tests.null.lower_rig import PROFILES, Recorder, kernels, lowered


@pointwise(kinds="f")
def bump(x: Operand, height: Operand) -> Matrix:
    """height / (1 + x^2)."""
    return height / (1.0 + x * x)  # type: ignore[return-value, operator]


@composite
def bumps(x: Matrix, count: int = 2) -> Matrix:
    """The sum of `count` bumps, each half as high as the one before."""
    total = bump(x, 1.0)
    for k in range(1, count):
        total = total + bump(x, 0.5**k)
    return total


@primitive("view")
def reversed_rows(x: Matrix, again: bool = False) -> Matrix:
    """The first axis backwards; its rule is its own inverse."""
    from oa._graph.views import Slice

    rank = len(x.shape)
    view = Slice((x.shape[0] - 1,) + (0,) * (rank - 1), (-1,) + (1,) * (rank - 1))
    return Inference((spec(x.dtype, x.shape),), (view,))  # type: ignore[return-value, arg-type]


@gradient(reversed_rows)
def _reversed_rows_gradient(instance: Any, ct: Matrix) -> tuple[Matrix]:
    return (reversed_rows(ct),)


DUMMIES = {"bump": bump, "bumps": bumps, "reversed_rows": reversed_rows}


def call(name: str, x: Matrix) -> Matrix:
    return bump(x, 2.0) if name == "bump" else DUMMIES[name](x)


@pytest.mark.parametrize("name", DUMMIES)
def test_registry(name: str) -> None:
    record = registry.operations()[f"null.{name}"]
    assert record is DUMMIES[name].operation  # type: ignore[attr-defined]
    assert list(registry.operations()) == sorted(registry.operations())


@pytest.mark.parametrize("name", DUMMIES)
def test_callable_keeps_name_signature_and_documentation(name: str) -> None:
    function = DUMMIES[name]
    assert function.__name__ == name
    assert function.__doc__ and inspect.signature(function).parameters
    assert next(iter(inspect.signature(function).parameters)) == "x"


def test_operands_and_attributes_follow_the_annotations() -> None:
    assert bump.operation.operands == ("x", "height")  # type: ignore[attr-defined]
    assert bumps.operation.operands == ("x",)  # type: ignore[attr-defined]
    assert bumps.operation.attributes == {"count": 2}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", DUMMIES)
def test_inference(name: str) -> None:
    e = Recorder()
    result = call(name, e.input(3, 4))
    assert isinstance(result, Matrix)
    assert (result.shape, result.dtype.name) == ((3, 4), "float32")


def test_broadcasting_and_weak_numbers() -> None:
    e = Recorder()
    assert bump(e.input(3, 1), e.input(4)).shape == (3, 4)
    assert bump(x=2.0, height=e.input(4)).shape == (4,)
    assert bumps(e.input(2), count=3).shape == bumps(e.input(2), 3).shape == (2,)


def test_checks() -> None:
    e = Recorder()
    with pytest.raises(errors.DTypeError, match=r"null\.bump.*int32.*floating-point"):
        bump(e.input(3, dtype="int32"), 2.0)
    with pytest.raises(errors.ShapeError, match=r"null\.bump.*height \(4,\)"):
        bump(e.input(3), e.input(4))
    with pytest.raises(errors.ArgumentError, match=r"null\.bumps.*depth"):
        bumps(e.input(3), depth=3)  # type: ignore[call-arg]
    with pytest.raises(errors.EngineMismatch, match=r"null\.bump"):
        bump(e.input(3), Recorder().input(3))
    with pytest.raises(errors.InternalError, match="twice"):
        registry.add(bump.operation)  # type: ignore[attr-defined]


def gradient_of(name: str, e: Recorder) -> Any:
    x = e.input(3, 4)
    with GradientTape() as tape:
        tape.watch(x)
        y = m.sum(call(name, x))
    return y, tape.gradient(y, x)


@pytest.mark.parametrize("name", DUMMIES)
def test_gradient(name: str) -> None:
    loss, slope = gradient_of(name, Recorder())
    assert loss.shape == ()
    assert slope.shape == (3, 4)


def test_second_gradient() -> None:
    e = Recorder()
    x = e.input(5)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            y = m.sum(bumps(x))
        slope = m.sum(inner.gradient(y, x))
    assert outer.gradient(slope, x).shape == (5,)


@pytest.mark.parametrize("device", PROFILES)
@pytest.mark.parametrize("name", DUMMIES)
def test_lowering(name: str, device: str) -> None:
    program = lowered(lambda e: call(name, e.input(3, 4)) * 2.0, device)
    assert len(kernels(program)) == 1
    both = lowered(lambda e: gradient_of(name, e), device)
    assert kernels(both)
    if name != "reversed_rows":
        assert "bump" in program.base_text


def test_a_wrong_rule_is_found_when_it_is_declared() -> None:
    @primitive("view")
    def same(x: Matrix) -> Matrix:
        """x."""
        return x

    with pytest.raises(errors.InternalError, match="weights"):

        @gradient(same)
        def _rule(instance: Any, ct: Matrix, weights: Matrix) -> tuple[Matrix]:
            return (ct,)


def test_a_composite_may_only_call_operations() -> None:
    @composite
    def peeking(x: Matrix) -> Matrix:
        """Reads its operand, which it may not."""
        return x * float(x.sum().item())

    with pytest.raises(errors.OaError, match="peeking"):
        peeking(Recorder().input(3))


def test_expressions_are_typed_once_for_each_mix_of_dtypes() -> None:
    before = len(m.add.operation.cache)  # type: ignore[attr-defined]
    e = Recorder()
    for _ in range(3):
        m.add(e.input(17, 19), e.input(17, 19))
    assert len(m.add.operation.cache) - before <= 1  # type: ignore[attr-defined]
    with pytest.raises(errors.DTypeError):
        expr.resolve(expr.call("sqrt", expr.Expr("arg", (), 0)), [e.input(1, dtype="int32").dtype], "test")
