"""The dims of templates, in every number of a node: the same graph as with the numbers written out by hand."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import expect

import dmlgraph as dg
from dmlgraph import loads
from dmlgraph.formats.yaml import dumps


def one_use(node: str, *, dims: str = "{n: 3}", given: str = "", file_dims: str = "{n: 2, nn: 5}") -> str:
    """A file with a use of a template of one node, which reads a matrix of 8 rows and columns."""
    return (
        f"dmlgraph: 1\ndims: {file_dims}\n"
        f"templates: {{t: {{dims: {dims}, inputs: [x], nodes: {{y: {node}}}, outputs: [y]}}}}\n"
        "inputs: {x: {dtype: float32, sizes: [8, 8]}}\n"
        f"nodes: {{u: {{use: t, x: x{given}}}}}\noutputs: [u]\n"
    )


def subscript(index: str, **more: str) -> str:
    return one_use(f'{{op: subscript, input: x, index: "{index}"}}', **more)


@pytest.mark.parametrize(
    ("index", "sizes"),
    [
        ("1:n", (2, 8)),
        (":n", (3, 8)),
        ("-n:", (3, 8)),
        ("n:", (5, 8)),
        ("::n", (3, 8)),
        ("n, n:", (5,)),
        ("..., :n", (8, 3)),
        ("None, :n, ::-n", (1, 3, 3)),
        ("1:max(n, 2)", (2, 8)),
        ("(n-1):n*2:n - 2", (4, 8)),
        (":nn", (5, 8)),  # no part of a longer name
        ("n:nn", (2, 8)),
        ("+n:,", (5, 8)),
    ],
)
def test_the_dims_of_a_template_are_in_all_parts_of_an_index(index: str, sizes: tuple[int, ...]) -> None:
    graph = loads(subscript(index))
    assert graph.outputs["u"].sizes == sizes
    unused = graph.checker.dims.unused()
    assert ("nn" in unused) != ("nn" in index)
    assert "n" in unused  # that of the template hides it
    warned = any(each.field == "templates.t.dims.n" for each in graph.warnings())
    assert warned == (index == ":nn")


def test_values_are_operands_of_what_is_around_them() -> None:
    graph = loads(subscript("1:w * 2", dims="{w: 1}", given=', dims: {w: "n + 1"}'))
    assert graph.outputs["u"].sizes == (5, 8)  # not n + 1 * 2
    assert graph.with_dims({"n": 1}).outputs["u"].sizes == (3, 8)


def test_the_name_of_an_activation_is_not_a_dim() -> None:
    node = "{op: gemm, a: x, b: x, fused_activation: activation_relu}"
    assert loads(one_use(node, dims="{activation_relu: 3}")).outputs["u"].sizes == (8, 8)


@pytest.mark.parametrize(
    ("text", "code", "place", "node", "field", "got"),
    [
        (subscript(":w", dims="{w: 1}", given=', dims: {w: "2 *"}'), "expression", "5:37", "u", "dims.w", "2 *"),
        (subscript(":w", dims='{w: "3 +"}'), "expression", "3:27", "u", "dims.w", "3 +"),
        (subscript(":1", dims="{'': 1}"), "name", "3:24", None, "templates.t.dims.", "''"),
        (subscript(":1", dims="{'w ': 1}"), "name", "3:24", None, "templates.t.dims.w ", "'w '"),
        (subscript(":1", file_dims="{'': 1}"), "name", "2:7", None, "dims.", "''"),
        (
            subscript(":1", file_dims="{n: 1, n - 1: 2}"),
            "name",
            "2:21",
            None,
            "dims.n - 1",
            "'n - 1'",
        ),
        (
            subscript(":w * 2", dims="{w: 1}", given=", dims: {w: b-s}", file_dims="{b-s: 1}"),
            "name",
            "3:88",
            "t/y",
            "index",
            "b-s",
        ),
    ],
)
def test_what_cannot_be_a_value_or_a_name(
    text: str, code: str, place: str, node: str | None, field: str, got: object
) -> None:
    with pytest.raises(dg.DocumentError) as caught:
        loads(text)
    (problem,) = caught.value.problems
    expect(problem, code, node=node, field=field, got=got)
    assert problem.location is not None
    assert f"{problem.location.line}:{problem.location.column}" == place


def test_a_dim_whose_name_is_not_a_word_may_be_given_whole() -> None:
    graph = loads(subscript(":w", dims="{w: 1}", given=", dims: {w: b-s}", file_dims="{b-s: 4}"))
    assert graph.outputs["u"].sizes == (4, 8)


# At random: expressions are trees, written with the values of dims in place of their names for what is made by hand.

Meanings = Mapping[str, str]
Text = Callable[[Meanings], str]
NAMES = ["n", "nn", "n1", "an", "max_n", "e5", "pi"]
FILE_DIMS = ["n", "nn", "e5", "an"]


def expression(chance: random.Random, names: list[str], terms: int = 2) -> Text:
    """A whole number over dims."""
    kind = chance.choice(["name", "name", "number"] if terms == 1 else ["name", "two", "two", "negative"])
    if kind == "name":
        name = chance.choice(names)
        return lambda means: means.get(name, name)
    if kind == "number":
        number = str(chance.randint(1, 4))
        return lambda means: number
    one = expression(chance, names, 1)
    if kind == "negative":
        return lambda means: f"-{one(means)}"
    other, sign = expression(chance, names, 1), chance.choice(["+", " - ", "*", "min", "max"])
    if sign.isalpha():
        return lambda means: f"{sign}({one(means)}, {other(means)})"
    return lambda means: f"({one(means)}{sign}{other(means)})"


Node = Callable[[Meanings], dict[str, Any]]
KINDS = ["index", "new", "fill", "scaled", "fused", "axes", "slice", "split", "broadcast"]


def made_node(chance: random.Random, names: list[str]) -> Node:
    """A node with numbers from 1 to 4 in all parts of its fields."""
    kind = chance.choice(KINDS)
    texts = [expression(chance, names) for _ in range(4)]

    def made(means: Meanings) -> dict[str, Any]:
        a, b, c, d = (f"({text(means)}) % 4 + 1" for text in texts)
        kinds: dict[str, dict[str, Any]] = {
            "index": {"op": "subscript", "input": "x", "index": f"{a}:, :{b},-({c}):,..., ::{d}"},
            "new": {"op": "subscript", "input": "x", "index": f"{a}, None, ({b}):({b}) + 2:{c}, ::-({d})"},
            "fill": {
                "op": "fill_value_constant",
                "value": f"({a}) / 8",
                "output": {"dtype": "float32", "sizes": [b, c], "strides": [c, 1]},
            },
            "scaled": {"op": "element_wise_identity", "input": "x", "scale_bias": {"scale": f"1 / ({a})", "bias": b}},
            "fused": {
                "op": "gemm",
                "a": "m",
                "b": "m",
                "alpha": a,
                "fused_activation": {"op": "activation_elu", "alpha": b},
            },
            "axes": {"op": "reduce", "input": "x", "function": "sum", "axes": [f"({a}) % 4"]},
            "slice": {
                "op": "slice",
                "input": "m",
                "offsets": [a, b],
                "sizes": [f"min({c}, 3)", f"min({d}, 2)"],
                "strides": [1, f"min({b}, 2)"],
            },
            "split": {"op": "split", "input": "m", "axis": -1, "outputs": [a, f"8 - ({a})"]},
            "broadcast": {"op": "broadcast_to", "input": "one", "sizes": [a, b, c]},
        }
        return kinds[kind]

    return made


@dataclasses.dataclass
class Part:
    """A template: the defaults of its dims, its nodes, and a use of another with that one's dims and copies."""

    dims: dict[str, Text]
    nodes: dict[str, Node]
    uses: Part | None = None
    given: dict[str, Text] = dataclasses.field(default_factory=dict)
    repeat: Text | None = None
    number: int = 0


def made_part(chance: random.Random, levels: int) -> Part:
    """A template, with up to so many levels in it."""
    dims: dict[str, Text] = {}
    seen = list(FILE_DIMS)
    for name in chance.sample(NAMES, chance.randint(1, 3)):
        dims[name] = expression(chance, seen)  # a default may use the dims before it
        seen = list(dict.fromkeys([*seen, name]))
    part = Part(dims, {f"y{index}": made_node(chance, seen) for index in range(chance.randint(1, 2))})
    if levels and chance.random() < 0.7:
        part.uses = made_part(chance, levels - 1)
        some = [name for name in part.uses.dims if chance.random() < 0.7]
        part.given = {name: expression(chance, [*seen, "{index}"]) for name in some}
        count = expression(chance, seen)
        part.repeat = lambda means: f"({count(means)}) % 2 + 1"
    return part


def written(part: Part | None) -> dict[str, Any]:
    """The templates as they are written."""
    if part is None:
        return {}
    templates = written(part.uses)
    part.number = len(templates)
    nodes = {name: node({}) for name, node in part.nodes.items()}
    if part.uses is not None and part.repeat is not None:
        given = {name: text({}) for name, text in part.given.items()}
        nodes["u"] = {"use": f"t{part.uses.number}", "x": "x", "m": "m", "one": "one", "dims": given}
        nodes["u"] |= {"repeat": part.repeat({})}
    template = {
        "inputs": ["x", "m", "one"],
        "dims": {name: text({}) for name, text in part.dims.items()},
        "nodes": nodes,
        "outputs": {"y0": "y0.outputs.0" if nodes["y0"]["op"] == "split" else "y0"},
    }
    return templates | {f"t{part.number}": template}


def by_hand(part: Part, prefix: str, given: Meanings, known: dict[str, int]) -> dict[str, Any]:
    """The nodes of a use, whose dims have these meanings; `known` are the sizes of the file's dims."""
    means: dict[str, str] = {}
    for name, default in part.dims.items():
        means[name] = f"({given[name] if name in given else default(means)})"
    nodes = {prefix + name: node(means) for name, node in part.nodes.items()}
    if part.uses is not None and part.repeat is not None:
        for copy in range(eval(part.repeat(means), {"min": min, "max": max, "pi": 0}, known)):
            inner = {name: text(means | {"{index}": str(copy)}) for name, text in part.given.items()}
            nodes |= by_hand(part.uses, f"{prefix}u/{copy}/", inner, known)
    return nodes


def operators(graph: dg.Graph) -> dict[str, Any]:
    return {node.name: getattr(node, "operator", None) for node in graph.nodes}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_any_document_is_the_same_as_written_out(seed: int) -> None:
    chance = random.Random(seed)
    part = made_part(chance, 2)
    known = {name: chance.randint(1, 9) for name in [*FILE_DIMS, "pi"]}
    matrix = {"dtype": "float32", "sizes": [8, 8]}
    inputs = {"x": matrix | {"sizes": [9, 9, 9, 9]}, "m": matrix, "one": matrix | {"sizes": [1]}}
    head = {"dmlgraph": 1, "dims": known, "inputs": inputs}
    templates = written(part)
    use = {"use": f"t{part.number}", "x": "x", "m": "m", "one": "one"}
    flat = by_hand(part, "u/", {}, known)
    first = "u/y0.outputs.0" if flat["u/y0"]["op"] == "split" else "u/y0"
    graph = loads(json.dumps(head | {"templates": templates, "nodes": {"u": use}, "outputs": ["u.y0"]}))
    other = loads(json.dumps(head | {"nodes": flat, "outputs": {"u.y0": first}}))
    assert operators(graph) == operators(other)
    others = {dim: size + 1 for dim, size in known.items() if dim not in graph.origin.fixed}
    assert operators(graph.with_dims(others)) == operators(other.with_dims(others))
    assert operators(loads(dumps(graph))) == operators(graph)
