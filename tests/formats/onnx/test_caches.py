"""Caches of models are found by what computes them, whatever they are called."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import onnx
import onnx_ir as ir
import pytest
from support.onnx import decoders, language_models

from dmlgraph.formats.onnx import caches

Make = Callable[[], onnx.ModelProto]
HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'


def graph_of(model: onnx.ModelProto) -> ir.Graph:
    return ir.from_proto(model).graph


def parsed(text: str) -> ir.Graph:
    return graph_of(onnx.parser.parse_model(f"{HEAD} {text}"))


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with names that say nothing, of what comes in and goes out."""
    graph = model.graph
    outputs = {each.name: f"out{at}" for at, each in enumerate(graph.output)}
    names = {each.name: f"in{at}" for at, each in enumerate(graph.input)} | outputs
    for each in (*graph.input, *graph.output):
        each.name = names[each.name]
    branches = (each.g.node for node in graph.node for each in node.attribute)
    for node in itertools.chain(graph.node, *branches):
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
    return model


@pytest.mark.parametrize("name", ["pytorch", "multi_head", "group_query", "attention", "merged", "genai"])
def test_pairs_by_what_computes_them(name: str) -> None:
    make: Make = language_models.genai if name == "genai" else getattr(decoders, name)
    model = make()
    inputs, outputs = ([each.name for each in values] for values in (model.graph.input, model.graph.output))
    pairs = {each: each.replace("past_key_values", "present") for each in inputs if each.startswith("past")}
    expected = {f"in{inputs.index(past)}": f"out{outputs.index(present)}" for past, present in pairs.items()}
    assert len(expected) == 4
    assert caches.pairs(graph_of(renamed(model))) == expected
    assert {caches.growth(output).axis for output in graph_of(make()).outputs[1:5]} == {2}  # type: ignore[union-attr]


def test_only_new_rows_behind_an_input_are_a_cache() -> None:
    """Not an input behind other rows, not a join of something else, not an input in a second output."""
    graph = parsed("""g (float[p] a, float[n] x) => (float[q] b, float[q] c, float[q] d, float[q] e) {
        b = Concat <axis = 0> (x, a)
        y = Neg (a)
        c = Concat <axis = 0> (y, x)
        d = Concat <axis = -1> (a, x)
        e = Concat <axis = 0> (a, x, x)
    }""")
    assert caches.pairs(graph) == {"x": "b", "a": "d"}


def test_others_belong_together_by_their_names() -> None:
    text = """g (float[4] past_conv, int64[2] step, float[4] past_other, float[p] past_key, float[n] x)
        => (float[4] present_conv, int64[2] "step.next", float[2, 2] present_other, float[q] present_key) {
        present_conv = Neg (past_conv)
        "step.next" = Neg (step)
        sizes = Constant <value_ints = [2, 2]> ()
        present_other = Reshape (past_other, sizes)
        present_key = Concat <axis = 0> (past_key, x)
    }"""
    assert caches.pairs(parsed(text)) == {"past_key": "present_key", "past_conv": "present_conv", "step": "step.next"}


@pytest.mark.parametrize(
    ("shapes", "inputs", "width"),
    [
        ("float[b, n, 32] q, float[b, n, 8] k", "q, k, k", 4),
        ("float[b, n, 24] q, float[b, n, m] k", "q, , ", 4),
        ("float[b, n, m] q, float[b, n, m] k", "q, k, k", None),
    ],
)
def test_the_width_of_heads(shapes: str, inputs: str, width: int | None) -> None:
    graph = parsed(f"""g ({shapes}, float[b, 2, p, w] a, float[b, 2, p, w] c, int32[b] last, int32 total)
        => (float[b, n, m] y, float[b, 2, t, w] d, float[b, 2, t, w] e) {{
        y, d, e = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2> ({inputs}, a, c, last, total)
    }}""")
    made = caches.growth(graph.outputs[1])
    assert made is not None
    assert made.width == width


def test_what_is_damaged_is_no_cache() -> None:
    """The import says what is wrong with it."""
    model = onnx.parser.parse_model(f"""{HEAD} g (float[p] a, float[n] x) => (float[q] b, float[q] c, float[q] d) {{
        b = Concat <axis = 0.5> (a, x)
        y = Identity (a)
        c = Concat <axis = 0> (y)
        d = Identity (b)
    }}""")
    del model.graph.node[3].input[:]
    assert [caches.growth(output) for output in graph_of(model).outputs] == [None] * 3
