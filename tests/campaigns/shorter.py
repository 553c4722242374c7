"""Every operator with attributes in a short form equals the operator with the attributes written in full."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.formats.yaml import dumps, loads
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.struct import Member

Fields = dict[str, Any]


def one_case(seed: int) -> str | None:
    choose = random.Random(seed)
    operator = REGISTRY[choose.choice(sorted(REGISTRY))]
    graph = loads(example(operator))
    node = next(each for each in graph.nodes if isinstance(each, OperatorNode) and each.operator.name == operator.name)
    whole = _changed(choose, node.operator)
    short = _shortened(choose, node.operator, whole)
    expected, got = (_built(graph, node, fields) for fields in (whole, short))
    if isinstance(expected, Operator) != isinstance(got, Operator):
        return f"{operator.name} {whole}: {expected}; {short}: {got}"
    if not isinstance(expected, Operator):
        return None
    if expected != got:
        return f"{operator.name} {short} is {got!r} and not {expected!r}"
    text = dumps(graph)
    again = loads(text)
    if dumps(again) != text:
        return f"{operator.name} {short} is saved as\n{text}\nand then as\n{dumps(again)}"
    found = [each.operator for each in again.nodes if isinstance(each, OperatorNode)]
    return None if found.count(expected) >= 2 else f"{operator.name} {short} is saved as\n{text}\nwhich is not the same"


def _changed(choose: random.Random, operator: Operator) -> Fields:
    """The attributes of the example, some with other numbers; mostly legal."""
    fields = dict(operator.attributes)
    rank = operator.input_rank or 1
    for member in type(operator).members_to_complete:
        if member.field is None or choose.random() < 0.5:
            continue
        value = fields[member.field]
        if member.entries is not None:
            same = choose.random() < 0.5
            number = choose.randint(0, 2)
            fields[member.field] = tuple(number if same else choose.randint(0, 2) for _ in value)
        elif member.axes is not None and member.count:
            fields[member.field] = tuple(sorted(choose.sample(range(rank), choose.randint(0, rank))))
        elif member.axes is not None:
            fields[member.field] = choose.randrange(rank)
    return fields


def _shortened(choose: random.Random, operator: Operator, whole: Mapping[str, Any]) -> Fields:
    """The same attributes, each unchanged or in a shorter form."""
    short: Fields = {}
    members = type(operator).fields
    for field, value in whole.items():
        forms = [value, *_forms(choose, operator, members[field], value)]
        form = choose.choice(forms)
        if form is not None or choose.random() < 0.5:
            short[field] = form
    return short


def _forms(choose: random.Random, operator: Operator, member: Member, value: Any) -> list[Any]:
    """Other ways to write an attribute; None leaves it out."""
    info = type(operator).fields[str(member.field)]
    rank = operator.input_rank or 1
    if member.entries is not None:
        left_out = {member.entries.default} == set(value)
        return [*([value[0]] if len(set(value)) == 1 else []), *([None] if left_out else [])]
    if member.axes is not None:
        several = value if isinstance(value, tuple) else (value,)
        negative = [axis - rank if choose.random() < 0.5 else axis for axis in several]
        return [negative if isinstance(value, tuple) else negative[0]]
    if not info.required and info.default is None and value is None:
        return [None]
    return []


def _built(graph: dg.Graph, node: OperatorNode, attributes: Fields) -> Operator | str:
    """The operator in the graph, or the messages with which it is refused."""
    values = iter(dg.Value(graph, source, port) for source, port, _ in graph.producers(node.name))
    tensors: Fields = {}
    for field in node.operator.input_fields:
        desc = getattr(node.operator, field)
        tensors[field] = [next(values) for _ in desc] if isinstance(desc, tuple) else desc and next(values)
    try:
        outputs = graph.add(type(node.operator), tensors, attributes, node.outputs)
    except dg.DmlGraphError as error:
        return "; ".join(problem.message for problem in error.problems)
    value = next(each for each in outputs if each is not None)
    graph.output(f"out{len(graph.outputs)}", value)
    built = graph.node(value.node)
    assert isinstance(built, OperatorNode)
    return built.operator


CAMPAIGN = Campaign("shorter", "operators written shortly: the same as written out, in files too", one_case)
