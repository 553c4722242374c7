"""Numbers without bounds in Python: expressions of any size and depth, and huge values in the fields of operators.

What is accepted can be written and read again with the same result; what is not raises an error of dmlgraph's own.
"""

from __future__ import annotations

import math
import pickle
import random
from fractions import Fraction
from typing import Any

import numpy as np

import dmlgraph as dg
from campaigns.campaign import Campaign
from campaigns.documents import immoderate
from dmlgraph.base.expressions import Expression
from dmlgraph.formats.yaml.writer import dumps
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Role

DIMS = {"N": 4, "M": 7, "pi": 2, "a-b": 3}
FIELDS = 20  # of operators, in a case


def number(chance: random.Random) -> Any:
    digits = chance.choice((1, 18, 399, 400, 401, 1233, 4301, 5000))
    whole = chance.choice((1, -1)) * (10**digits - chance.choice((0, 1)))
    return chance.choice(
        (whole, whole, 2, 0, -1, 0.5, 1e308, 5e-324, Fraction(whole, 3), np.uint64(2**64 - 1), np.float16(3))
    )


def grown(chance: random.Random, graph: dg.Graph) -> Expression:
    """An expression made by Python's operators."""
    steps = chance.choice((1, 5, 55, 61, 501, 2000))
    names = [each for each in DIMS if each != "a-b" or chance.random() < 0.05]
    made: Any = graph.dim(chance.choice(names))
    kinds = chance.sample("+-*/%^|n", chance.choice((1, 1, 2, 4)))
    for _ in range(steps):
        kind = chance.choice(kinds)
        other = chance.choice((1, 1, 2, graph.dim("N"), number(chance))) if chance.random() < 0.3 else 1
        left, right = (made, other) if chance.random() < 0.5 else (other, made)
        match kind:
            case "+":
                made = left + right
            case "-":
                made = left - right
            case "*":
                made = left * right
            case "/":
                made = left / right
            case "%":
                made = left % right
            case "^":  # a fraction's own power makes a float of it, and asks no expression
                made = made**other if isinstance(left, Fraction) else left**right
            case "|":
                made = left // right
            case _:
                made = chance.choice((lambda x: -x, math.ceil, math.floor))(made)
    assert isinstance(made, Expression)
    return made


def _expression(chance: random.Random) -> str | None:
    graph = dg.Graph(dims=DIMS)
    made = grown(chance, graph)
    again = pickle.loads(pickle.dumps(made))
    try:
        value = made.value(DIMS)
    except dg.DmlGraphError as error:
        str(error)
        return None
    if again.value(DIMS) != value or repr(again) == "":
        return f"another value when it is read again: {made}"
    graph.output("y", graph.fill_value_constant(dtype="float32", sizes=[1], value=made))
    return None if dumps(dg.loads(dumps(graph))) == dumps(graph) else f"another graph when it is read again: {made}"


def _field(chance: random.Random) -> None:
    """A huge value, or an expression, in a field of an operator's example."""
    operator = chance.choice(list(REGISTRY.values()))
    graph = dg.loads(example(operator))
    node = next(each for each in graph.nodes if isinstance(each, OperatorNode) and type(each.operator) is operator)
    bound = {port: dg.Value(graph, source, at) for source, at, port in graph.producers(node.name)}
    attributes, outputs = dict(node.attributes), dict(node.outputs)
    field = chance.choice([*operator.attribute_fields, *operator.output_fields])
    given = attributes.get(field, outputs.get(field))
    value = chance.choice((number(chance), immoderate(chance)))
    if isinstance(given, list | tuple) and given and chance.random() < 0.8:
        value = [value, *given[1:]]
    elif chance.random() < 0.2:
        value = chance.choice(
            ({"scale": value, "bias": value}, {"op": "activation_elu", "alpha": value}, {"bits": value})
        )
    if field in operator.output_fields:
        outputs[field] = chance.choice((value, {"dtype": "float32", "sizes": [value]}, {"strides": [value]}))
    else:
        attributes[field] = value
    _add(graph, operator, node.operator.by_field(Role.INPUT, bound), attributes, outputs)


def _add(graph: dg.Graph, operator: type[Operator], tensors: Any, attributes: Any, outputs: Any) -> None:
    (value, *_) = graph.add(operator, tensors, attributes, outputs)
    if value is not None:
        graph.output("made", value)
    dg.loads(dumps(graph)).with_dims({})


def one_case(seed: int) -> str | None:
    chance = random.Random(seed)
    try:
        problem = _expression(chance)
    except dg.DmlGraphError as error:
        problem = None if str(error) else "an error without words"
    for _ in range(FIELDS):
        try:
            _field(chance)
        except dg.DmlGraphError as error:
            if not all(map(repr, error.problems)):
                return "a problem without words"
    return problem


CAMPAIGN = Campaign(
    "immoderate", "numbers without bounds: an error of dmlgraph's own, or the same when read again", one_case
)
