"""Small graphs in which one operator's result goes into another, for what CompileGraph merges into one operator.

    case = Case("gemm", "fused relu", "add", "left", "input", "only", "nothing", (1, 1, 3, 4), "float32")
    made = build(case)  # a graph and its data; None if the operators do not take these sizes or types

A producer makes a value; an activation is fused into it or follows it; a consumer reads the result and, if it takes
two tensors, another one of the same sizes; something may follow.  Each part comes from a table, so that every
combination can be tried.  merge_producers and merge_consumers hold the tables of operators.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from support.merge_consumers import BINARY_CONSUMERS, FUNCTION_CONSUMERS, UNARY_CONSUMERS, weights
from support.merge_producers import (
    ACTIVATIONS,
    HOSTS,
    OTHERS,
    PRODUCERS,
    Array,
    Maker,
    Read,
    Value,
    activated,
    attributes,
    operator_name,
    swapped,
)

import dmlgraph as dg
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.tensor import DataTypeName


class Case(NamedTuple):
    """One combination.

    Attributes:
        producer: of PRODUCERS.
        activation: "none", "fused relu", "then relu", …
        consumer: of UNARY_CONSUMERS, BINARY_CONSUMERS or FUNCTION_CONSUMERS.
        order: whether the value is the "left" or the "right" of two operands; "" with one.
        other: of OTHERS, or one of RELATED; "" with one operand.
        readers: who reads the value: the consumer "only"; it is an "output", too; another operator, "second"; one that
            runs "later".
        behind: of BEHIND: what reads the result.
        sizes, dtype: those of every value.
    """

    producer: str
    activation: str
    consumer: str
    order: str
    other: str
    readers: str
    behind: str
    sizes: tuple[int, ...]
    dtype: DataTypeName


@dataclasses.dataclass(frozen=True)
class Made:
    graph: dg.Graph
    inputs: Mapping[str, Array]


class _NotLegal(Exception):  # noqa: N818 - an answer
    """The tables do not combine: the producer has no other output, or the sizes are not square."""


# The other operand, if it is related to the value: an input of the producer, another output of it, or the value itself.
SAME, SIBLING, ITSELF = "an input of the producer", "another output of the producer", "the value"
TRANSPOSED, REVERSED = "the value transposed", "the value with its axes reversed"
RELATED = (SAME, SIBLING, ITSELF, TRANSPOSED, REVERSED)
ORDERS = ("left", "right")
READERS = ("only", "output", "second", "later")
BEHIND: Mapping[str, Read] = {
    "nothing": lambda m, v: v,
    "relu": lambda m, v: dg.activation_relu(v),
    "sigmoid": lambda m, v: dg.activation_sigmoid(v),
    "scaled": lambda m, v: dg.identity(v, scale_bias={"scale": 0.5, "bias": 0.25}),
    "sum": lambda m, v: dg.add(v, m.given(v.sizes, v.dtype)),
    "sum of computed": lambda m, v: dg.add(dg.cos(m.given(v.sizes, v.dtype)), v),
    "product": lambda m, v: dg.multiply(v, m.given(v.sizes, v.dtype)),
    "gemm": lambda m, v: dg.gemm(v, weights(m, v)),
    "softmax": lambda m, v: dg.activation_softmax1(v, axes=[v.rank - 1]),
}
SIZES = (
    *((1, 1, 3, 4), (2, 3, 4, 6), (1, 1, 1, 8), (1, 4, 1, 1), (2, 1, 4, 1), (1, 1, 1, 1), (1, 1, 2, 2)),
    *((1, 1, 4, 4), (2, 2, 3, 3), (4, 4), (3, 3, 3)),
    *((3, 4), (1, 8), (2, 3, 4), (1, 1, 4), (2, 3, 2, 2, 4), (1, 2, 1, 3, 4)),
)
DTYPES: tuple[DataTypeName, ...] = ("float32", "float16")
NO_ACTIVATION = "none"
ALL_ACTIVATIONS = (NO_ACTIVATION, *(f"{how} {name}" for how in ("fused", "then") for name in ACTIVATIONS))
OF_TWO = {**BINARY_CONSUMERS, **FUNCTION_CONSUMERS}
PAIRS = tuple((order, other) for order in ORDERS for other in (*OTHERS, *RELATED))
_AXES: tuple[Sequence[Any], ...] = (
    tuple(PRODUCERS), ALL_ACTIVATIONS, (*UNARY_CONSUMERS, *OF_TWO), PAIRS, READERS, tuple(BEHIND), SIZES, DTYPES
)  # fmt: skip
CASES = math.prod(map(len, _AXES))
STRIDE = 2**31 - 1  # a prime that does not divide CASES


def case_of(number: int) -> Case:
    """The combination of a number below CASES; several numbers may stand for the same one."""
    digits = []
    for axis in _AXES:
        number, digit = divmod(number, len(axis))
        digits.append(axis[digit])
    producer, activation, consumer, (order, other), *rest = digits
    if producer not in HOSTS:
        activation = activation.replace("fused", "then")
    if consumer in UNARY_CONSUMERS:
        order, other = "", ""
    return Case(producer, activation, consumer, order, other, *rest)


def differs(got: Array, expected: Array) -> bool:
    """Whether two results are those of different formulas.  Integers may be rounded differently."""
    one, other = got.astype(np.float64), expected.astype(np.float64)
    allowed = np.maximum(1, np.abs(other)) * {2: 3e-2, 4: 1e-3}[got.itemsize] if got.dtype.kind == "f" else 1.0
    with np.errstate(invalid="ignore"):
        is_near = (np.abs(one - other) <= allowed) | (one == other) | (np.isnan(one) & np.isnan(other))
    return not is_near.all()


def build(case: Case) -> Made | None:
    """The graph of a case with its data; None if it is not legal."""
    maker = Maker(case.sizes, case.dtype)
    try:
        _build(maker, case)
    except (DmlGraphError, _NotLegal, IndexError, ZeroDivisionError):
        return None
    return Made(maker.graph, maker.inputs)


def _build(maker: Maker, case: Case) -> None:
    how, _, activation = case.activation.partition(" ")
    fields = {}
    if how == "fused":
        fields = {"fused_activation": {"op": operator_name(activation), **attributes(activation, len(maker.sizes))}}
    value = PRODUCERS[case.producer](maker, **fields)
    if how == "then":
        value = activated(activation)(maker, value)
    if case.consumer in UNARY_CONSUMERS:
        result = UNARY_CONSUMERS[case.consumer](maker, value)
    else:
        pair = (value, OTHERS[case.other](maker) if case.other in OTHERS else _related(maker, case.other, value))
        result = OF_TWO[case.consumer](maker, *(pair if case.order == "left" else pair[::-1]))
    maker.graph.output("y", BEHIND[case.behind](maker, result))
    if case.readers == "output":
        maker.graph.output("value", value)
    elif case.readers == "second" or (case.readers == "later" and result.sizes != value.sizes):
        maker.graph.output("value", dg.cos(value))
    elif case.readers == "later":
        maker.graph.output("value", dg.multiply(dg.cos(result), dg.sin(value)))


def _related(maker: Maker, other: str, value: Value) -> Value:
    found: Value | None = value
    if other == SAME:
        found = dg.Value(maker.graph, maker.graph.inputs[0].name, 0)
    elif other == SIBLING:
        found = maker.sibling
    elif other == TRANSPOSED:
        found = swapped(value)
    elif other == REVERSED:
        found = value.transpose(*reversed(range(value.rank)))
    if found is None or found.sizes != value.sizes:
        raise _NotLegal
    return found
