"""Traits: what an operator's class says of its function is true of what `evaluate` computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph import passes
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.rule import Kinds, later
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Gather, Gemm, QuantizeLinear
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.common.element_wise import Binary, Unary
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.traits import NumberOfType
from dmlgraph.operators.declaration.words import FIELDS

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.75, 3.0, 100.0, math.inf, -math.inf, math.nan)


def of(trait: str) -> list[Any]:
    """The operators whose class declares a trait."""
    return [
        pytest.param(each, id=name)
        for name, each in REGISTRY.items()
        if getattr(each, trait) != getattr(Operator, trait)
    ]


def types(operator: type[Operator]) -> list[DataType]:
    """The data types of the first input at the newest level."""
    member = operator.fields[operator.input_fields[-1]]
    row = operator.support().rows(member.name, max(operator.support().levels))
    assert row is not None
    return [dtype for dtype in DataType if dtype in row.dtypes and dtype.bits > 4]


def values(dtype: DataType) -> Array:
    """Numbers of a type, with its extremes."""
    if dtype.is_float:
        return np.array(NUMBERS, dtype.numpy)
    low, high = dtype.range
    return np.array([low, low + 1, 0, 1, 2, 5, high // 2, high - 1, high], dtype.numpy)


def result(operator: type[Operator], *arrays: Array) -> Array:
    """The output of a binary or unary operator, or of `if` with both conditions."""
    descs = [TensorDesc(dtype=DataType.parse(each.dtype), sizes=each.shape) for each in arrays]
    given = dict(zip(operator.input_fields[-len(arrays) :], descs, strict=True))
    read = list(arrays)
    if len(operator.input_fields) > len(arrays):
        given["condition"] = TensorDesc(dtype="uint8", sizes=arrays[0].shape)
        read = [np.arange(arrays[0].size, dtype=np.uint8).reshape(arrays[0].shape) % 2, *read]
    with np.errstate(all="ignore"):
        (made,) = operator(**given).evaluate(*read)
    return made


def assert_same_numbers(made: Array, expected: Array) -> None:
    """Equal to the bit, except for payloads of NaN."""
    np.testing.assert_array_equal(made, expected)
    if made.dtype.kind == "f":
        known = ~np.isnan(made)
        np.testing.assert_array_equal(np.signbit(made[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("operator", of("commutative"))
def test_commutative(operator: type[Operator]) -> None:
    for dtype in types(operator):
        a, b = np.meshgrid(values(dtype), values(dtype))
        one, other = result(operator, a, b), result(operator, b, a)
        if operator in (REGISTRY["max"], REGISTRY["min"]):  # of zeros of both signs, either
            np.testing.assert_array_equal(one, other)
        else:
            assert_same_numbers(one, other)


@pytest.mark.parametrize("operator", of("neutral"))
def test_neutral(operator: type[Operator]) -> None:
    tried = 0
    for dtype in types(operator):
        assert operator.neutral is not None
        number = operator.neutral.of(dtype)
        if number is not None:
            x = values(dtype)
            assert_same_numbers(result(operator, x, np.full_like(x, number.value)), x)
            tried += 1
    assert tried


@pytest.mark.parametrize("operator", of("absorbing"))
def test_absorbing(operator: type[Operator]) -> None:
    tried = 0
    for dtype in types(operator):
        assert operator.absorbing is not None
        number = operator.absorbing.of(dtype)
        if number is not None:
            x = values(dtype)
            absorbing = np.full_like(x, number.value)
            assert_same_numbers(result(operator, x, absorbing), absorbing)
            assert_same_numbers(result(operator, absorbing, x), absorbing)
            tried += 1
    assert tried


@pytest.mark.parametrize("operator", of("idempotent"))
def test_idempotent(operator: type[Operator]) -> None:
    for dtype in types(operator):
        x = values(dtype)
        once = result(operator, x) if len(operator.input_fields) == 1 else x
        assert_same_numbers(result(operator, *[once] * min(2, len(operator.input_fields))), once)


@pytest.mark.parametrize("operator", of("cancels"))
def test_cancels(operator: type[Operator]) -> None:
    for dtype in types(operator):
        if not dtype.is_float:
            assert not result(operator, values(dtype), values(dtype)).any()


@pytest.mark.parametrize("operator", of("involution"))
def test_involution(operator: type[Operator]) -> None:
    for dtype in types(operator):
        twice = result(operator, result(operator, values(dtype)))
        if dtype in operator.involution:
            assert_same_numbers(twice, values(dtype))
        else:
            assert (twice != values(dtype)).any()


@pytest.mark.parametrize("operator", of("is_truth"))
def test_truth(operator: type[Operator]) -> None:
    for dtype in types(operator):
        x = values(dtype)
        assert set(result(operator, *[x] * len(operator.input_fields)).tolist()) <= {0, 1}


def made(operator: type[Operator]) -> Operator:
    """The operator of its example."""
    nodes = dg.loads(example(operator)).nodes
    return next(node.operator for node in nodes if isinstance(node, OperatorNode) and type(node.operator) is operator)


@pytest.mark.parametrize("operator", of("moves"))
def test_moves(operator: type[Operator]) -> None:
    """Where all elements that may be moved are one number, the outputs are this number."""
    one = made(operator)
    if not one.only_moves:
        assert "interpolation_mode" in operator.fields
        return
    arrays = []
    for binding, desc in zip(one.bindings(Role.INPUT), one.input_descs, strict=True):
        assert desc is not None
        number = 7 if binding.field in operator.moves else 0
        arrays.append(np.full(desc.sizes, number, desc.dtype.numpy))
    allowed = {7} if one.padded_with() is None else {7, float(one.padded_with())}
    for output in one.evaluate(*arrays):
        assert set(output.ravel().tolist()) <= allowed


@pytest.mark.parametrize("operator", of("order_preserving"))
def test_order_preserving(operator: type[Operator]) -> None:
    """An increasing function of the moved elements before the operator is the same after it."""
    one = made(operator)
    arrays, grown = [], []
    for binding, desc in zip(one.bindings(Role.INPUT), one.input_descs, strict=True):
        assert desc is not None
        is_moved = binding.field == operator.order_preserving
        array = np.arange(desc.element_count).reshape(desc.sizes) * is_moved % 5
        arrays.append(array.astype(desc.dtype.numpy))
        grown.append((array * array + 3 * is_moved).astype(desc.dtype.numpy))
    before, after = one.evaluate(*grown)[0], one.evaluate(*arrays)[0]
    np.testing.assert_array_equal(before, after * after + 3)


EXAMPLES: Mapping[str, dict[str, Any]] = {
    "clip": {"min": -1.0, "max": 2.0},
    "clip1": {"min": -1.0, "max": 2.0},
    "threshold": {"min": -0.5},
    "activation_linear": {"alpha": 2.0, "beta": 1.0},
    "identity": {"scale_bias": {"scale": 2.0, "bias": -0.5}},
}


def with_numbers(operator: type[Operator], number: float) -> list[tuple[Operator, list[Scalar | None], list[Array]]]:
    """The operator in float32, with a number as either operand if it has two: itself, its numbers, its inputs."""
    x = np.array([-3.0, -1.0, 0.25, 1.0, 2.5, 100.0], np.float32)
    desc, scalar = TensorDesc(dtype="float32", sizes=x.shape), Scalar.of(number, DataType.FLOAT32)
    one = operator(**dict.fromkeys(operator.input_fields, desc), **EXAMPLES.get(operator.name, {}))
    if len(operator.input_fields) == 1:
        return [(one, [None], [x])]
    other = np.full_like(x, number)
    return [(one, [None, scalar], [x, other]), (one, [scalar, None], [other, x])]


@pytest.mark.parametrize("number", [2.0, -0.5, 8.0])
@pytest.mark.parametrize("operator", of("affine"))
def test_affine(operator: type[Operator], number: float) -> None:
    found = []
    for one, numbers, arrays in with_numbers(operator, number):
        affine_map = one.affine(numbers)
        if affine_map is not None:
            x = arrays[numbers.index(None)]
            np.testing.assert_array_equal(one.evaluate(*arrays)[0], x * affine_map.scale + affine_map.bias)
            found.append(affine_map)
    assert found


@pytest.mark.parametrize("operator", of("bounds"))
def test_bounds(operator: type[Operator]) -> None:
    for one, numbers, arrays in with_numbers(operator, 1.5):
        bounds = one.bounds(numbers)
        assert bounds is not None
        x = arrays[numbers.index(None)]
        np.testing.assert_array_equal(one.evaluate(*arrays)[0], np.clip(x, bounds.low, bounds.high))
        arrays[numbers.index(None)] = np.full_like(x, math.nan)
        assert (one.evaluate(*arrays)[0] == bounds.nan).all()


@pytest.mark.parametrize("trait", ["with_scale_bias", "as_activation"])
def test_operators_that_compute_the_same(trait: str) -> None:
    for parameter in of(trait):
        (operator,) = parameter.values
        given = {"min": 0.0} if operator is REGISTRY["threshold"] else EXAMPLES.get(operator.name, {})
        x = np.array([-3.0, -1.0, 0.25, 1.0, 2.5, 100.0], np.float32)
        desc = TensorDesc(dtype="float32", sizes=x.shape)
        one = operator(input=desc, **given)
        other, attributes = getattr(one, trait)()
        np.testing.assert_array_equal(other(input=desc, **attributes).evaluate(x)[0], one.evaluate(x)[0])


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_fields_that_traits_name_exist(name: str) -> None:
    operator = REGISTRY[name]
    tensors = {*operator.moves, *operator.repeatable, operator.order_preserving} - {""}
    assert tensors <= set(operator.input_fields)
    own = {field for each in operator.__mro__ for field in vars(each).get("meanings", {})} - set(FIELDS)
    declared = {field for each in REGISTRY.values() for field in each.fields}
    assert own <= declared
    assert set(FIELDS) <= declared


# A new operator needs its class alone.


class Scaled(Binary, dml="ELEMENT_WISE_MEAN"):
    """An operator that no rule has heard of."""

    commutative: ClassVar = True
    neutral: ClassVar = NumberOfType(floats=4.0)
    meanings: ClassVar = {"a": "What is scaled."}

    def function(self, a: Array, b: Array) -> Array:
        return np.asarray(a * b / 4)


class Mirrored(Unary, dml="ELEMENT_WISE_SIGN"):
    """Another one."""

    involution: ClassVar = frozenset(DataType)

    def function(self, x: Array) -> Array:
        return np.asarray(1 - x)


def test_rules_take_an_operator_by_its_traits() -> None:
    graph = dg.Graph("g")
    x = graph.input("x", sizes=[2, 3], dtype="float32")
    (scaled,) = graph.add(Scaled, {"a": 4.0, "b": dg.abs(x)}, {}, {})
    (mirrored,) = graph.add(Mirrored, {"input": scaled}, {}, {})
    (again,) = graph.add(Mirrored, {"input": mirrored}, {}, {})
    assert again is not None
    graph.output("y", dg.exp(again))
    fused = passes.fuse(graph)
    assert [node.operator.name for node in fused.graph.nodes if isinstance(node, OperatorNode)] == ["abs", "exp"]
    assert Scaled.meaning("a") == "What is scaled."
    assert Scaled.meaning("b") == FIELDS["b"]


def test_later_stands_for_a_class() -> None:
    kinds = Kinds([later.QuantizeLinear, Gemm])
    assert QuantizeLinear in kinds
    assert Gemm in kinds
    assert Gather not in kinds
    with pytest.raises(AttributeError, match="there is no operator QuantiseLinear"):
        later.QuantiseLinear  # type: ignore[attr-defined]  # noqa: B018
