"""Every operator's function with tensors and attributes of wrong ranks, types, counts and kinds: our own errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example

OPERATORS = list(REGISTRY.values())
DTYPES = tuple(dg.DataType)
NUMBERS = (0, 1, -1, 2, 3, 8, 9, 100, 2**31, 2**32, 2**64, -(2**63), 10**30)
ODD: tuple[Any, ...] = (
    None, True, "", "x", "0", 1.5, float("nan"), float("inf"), -0.0, [], [[]], {}, {"a": 1}, b"x", (), object(),
)  # fmt: skip
SIZES = ([1], [4], [0], [2, 3], [1, 1, 4], [1, 1, 4, 1], [1, 2, 3, 4], [1, 1, 1, 4, 4], [1] * 8, [1] * 9, [2**31, 2])


def _odd(value: Any, rng: random.Random) -> Any:
    """Another value in place of one: of another kind, size or count."""
    choice = rng.randrange(5)
    if isinstance(value, (list, tuple)) and choice:
        changed = list(value)
        if choice == 1:
            changed.append(changed[-1] if changed else 1)
        elif choice == 2 and changed:
            changed.pop()
        elif changed:
            changed[rng.randrange(len(changed))] = rng.choice(NUMBERS if choice == 3 else ODD)
        return changed
    if isinstance(value, (int, float)) and choice > 1:
        return rng.choice(NUMBERS)
    return rng.choice(ODD)


def _other_tensor(graph: dg.Graph, name: str, given: dg.TensorDesc, rng: random.Random) -> Any:
    """An input of another type or sizes; what cannot be one is refused, too."""
    dtype = rng.choice(DTYPES) if rng.random() < 0.5 else given.dtype
    sizes = list(given.sizes)
    choice = rng.randrange(4)
    if choice == 0:
        sizes = list(rng.choice(SIZES))
    elif choice == 1:
        sizes.pop(rng.randrange(len(sizes)))
    elif choice == 2:
        sizes.insert(rng.randrange(len(sizes) + 1), rng.choice((1, 1, 2)))
    else:
        sizes[rng.randrange(len(sizes))] = rng.choice((1, 2, 3, 5))
    return graph.input(name, sizes=sizes, dtype=dtype)


def _changed(tensors: dict[str, Any], attributes: dict[str, Any], graph: dg.Graph, rng: random.Random) -> None:
    """Makes one thing wrong."""
    field = rng.choice(list(tensors) or [""])
    value = tensors.get(field)
    wrongs: list[Callable[[], Any]] = []
    if isinstance(value, dg.Value):
        wrongs.append(lambda: tensors.update({field: _other_tensor(graph, f"other_{field}", value.desc, rng)}))
        wrongs.append(lambda: tensors.update({field: rng.choice((None, 1, 0.5, "x", [value], [value, value], {}))}))
    elif isinstance(value, list):
        wrongs.append(lambda: tensors.update({field: _odd(value, rng)}))
        wrongs.append(lambda: tensors.update({field: value[0] if value else None}))
    if attributes:
        name = rng.choice(list(attributes))
        wrongs += [lambda: attributes.update({name: _odd(attributes[name], rng)})] * 2
        wrongs.append(lambda: attributes.pop(name))
    wrongs.append(lambda: attributes.update({rng.choice(("nothing", "axis", "sizes", "")): rng.choice(ODD)}))
    rng.choice(wrongs)()


def one_case(seed: int) -> str | None:
    rng = random.Random(seed)
    operator: type[Operator] = rng.choice(OPERATORS)
    given = dg.loads(example(operator))
    (node,) = [each for each in given.nodes if isinstance(each, OperatorNode) and type(each.operator) is operator][-1:]
    graph = dg.Graph("g")
    values: dict[str, tuple[dg.Value | None, ...]] = {}
    said = ""
    try:
        for each in given.nodes:
            if isinstance(each, InputNode):
                values[each.name] = (graph.input(each.name, sizes=each.desc.sizes, dtype=each.desc.dtype),)
            elif isinstance(each, ConstantNode):
                values[each.name] = (graph.constant(each.name, each.data),)
            elif isinstance(each, OperatorNode):
                tensors = _bound(given, each, values)
                attributes = dict(each.attributes)
                if each is node:
                    for _ in range(rng.randint(1, 2)):
                        _changed(tensors, attributes, graph, rng)
                    said = f"{operator.name}({tensors}, {attributes})"
                values[each.name] = graph.add(type(each.operator), tensors, attributes, each.outputs)
            if each is node:
                break
        for index, value in enumerate(values[node.name]):
            if value is not None:
                graph.output(f"y{index}", value)
        graph.lower()
    except dg.DmlGraphError as error:
        return None if str(error).strip() else f"{said}: an error without a message"
    except Exception as error:
        return f"{said}: {type(error).__name__}: {error}"
    return None


def _bound(given: dg.Graph, node: OperatorNode, values: dict[str, Any]) -> dict[str, Any]:
    """A node's tensors by field, as functions take them."""
    bound = {port: values[source][from_port] for source, from_port, port in given.producers(node.name)}
    tensors: dict[str, Any] = {}
    port = 0
    for field in type(node.operator).input_fields:
        current = getattr(node.operator, field)
        count = len(current) if isinstance(current, tuple) else 1
        found = [bound.get(index) for index in range(port, port + count)]
        tensors[field] = found if isinstance(current, tuple) else found[0]
        port += count
    return tensors


CAMPAIGN = Campaign("calls", "functions with wrong tensors and attributes: our own errors", one_case)
