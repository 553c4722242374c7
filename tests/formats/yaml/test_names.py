"""Names with dots and slashes, and references that distinguish them from outputs of nodes."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph.formats import dxdispatch
from dmlgraph.formats.yaml import dumps
from dmlgraph.graph.nodes import readings

GRAPH = """\
dmlgraph: 1
inputs:
  layer.0.x: {dtype: float32, sizes: [2, 4]}
constants:
  encoder/w.0: {dtype: float32, sizes: [2, 4], data: [1, 2, 3, 4, 5, 6, 7, 8]}
nodes:
  layer.0.sum: {op: add, a: layer.0.x, b: encoder/w.0}
  layer.0: {op: top_k1, input: layer.0.sum, axis: 1, k: 2, axis_direction: decreasing}
  layer: {op: split, input: layer.0.sum, axis: 1, outputs: [2, 2]}
  layer.outputs: {op: negate, input: layer.outputs.1}
  a.b: {op: add, a: layer.0.output_value, b: layer.outputs}
outputs: [a.b, layer.0.output_index, layer.outputs.0, layer.0.x, encoder/w.0]
"""


def run(graph: dg.Graph) -> dict[str, Any]:
    inputs = {"layer.0.x": np.zeros((2, 4), np.float32)}
    return {name: each.tolist() for name, each in graph.compile("reference").run(inputs).items()}


def test_a_reference_means_the_node_and_output_that_fit_it() -> None:
    results = run(dg.loads(GRAPH))
    assert results["a.b"] == [[4 - 3, 3 - 4], [8 - 7, 7 - 8]]
    assert results["layer.0.output_index"] == [[3, 2], [3, 2]]
    assert results["layer.outputs.0"] == [[1, 2], [5, 6]]


def test_the_names_outlast_every_form_of_the_graph(tmp_path: pathlib.Path) -> None:
    graph = dg.loads(GRAPH)
    names = [node.name for node in graph.nodes]
    graph.save(tmp_path / "g.yaml")
    model = dxdispatch.loads(dxdispatch.dumps(graph), inputs=["layer.0.x"])
    for again in (dg.load(tmp_path / "g.yaml"), model, graph.with_dims({})):
        assert [node.name for node in again.nodes] == names
        assert run(again) == run(graph)


def test_values_are_found_by_reference_in_python() -> None:
    graph = dg.loads(GRAPH)
    for reference in ("layer.0.x", "layer.0.sum", "layer.0.output_value", "layer.outputs", "layer.outputs.1"):
        assert graph.value(reference).reference == reference
    assert graph.value("layer.0.output_index").node == "layer.0"
    assert graph.value("layer.outputs").node == "layer.outputs"
    assert graph.value("layer.outputs.1").node == "layer"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("layer.0", "'layer.0' has several outputs; got layer.0; allowed: layer.0.output_value, layer.0.output_index"),
        ("layer.0.x.y", "'layer.0.x' has one output; got layer.0.x.y; allowed: layer.0.x"),
        ("layer.outputs.2", "'layer.outputs' has one output; got layer.outputs.2; allowed: layer.outputs"),
        ("layer.1", "'layer' has no such output; got layer.1; allowed: layer.outputs.0, layer.outputs.1"),
        (
            "layer.0.y",
            "'layer.0' has no such output; got layer.0.y; allowed: layer.0.output_value, layer.0.output_index",
        ),
        ("layr.0.x", "node 'layr.0.x': there is no node of this name (did you mean 'layer.0.x'?)"),
        ("lyer.outputs.1", "node 'lyer.outputs.1': there is no node of this name (did you mean 'layer.outputs'?)"),
    ],
)
def test_what_a_reference_does_not_mean(reference: str, message: str) -> None:
    with pytest.raises(dg.GraphError) as caught:
        dg.loads(GRAPH).value(reference)
    assert str(caught.value) == message


@pytest.mark.parametrize("is_first", [True, False])
def test_a_node_that_is_called_as_anothers_output_is_refused_with_both_readings(is_first: bool) -> None:
    lines = [
        "  top: {op: top_k1, input: x, axis: 0, k: 1, axis_direction: decreasing}",
        "  top.output_index: {op: negate, input: x}",
    ]
    header = "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\nnodes:\n"
    ordered = lines if is_first else lines[::-1]
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(f"{header}{ordered[0]}\n{ordered[1]}\noutputs: [top.output_index]\n")
    assert str(caught.value).splitlines() == [
        "<text>:5:3: node 'top.output_index': is also the reference to output 'output_index' of 'top' "
        "(rename one of the two)"
        if is_first
        else "<text>:5:3: node 'top': the reference to its output 'output_index' is also the name of the node "
        "'top.output_index' "
        "(rename one of the two)"
    ]


def test_only_outputs_that_are_there_keep_names_from_others() -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[4], dtype="float32")
    dg.split(x, axis=0, outputs=[2, 2], name="parts")
    dg.negate(x, name="parts.outputs.2")
    assert graph.value("parts.outputs.2").node == "parts.outputs.2"
    with pytest.raises(dg.GraphError, match=r"also the reference to output 'outputs\.1' of 'parts'"):
        dg.negate(x, name="parts.outputs.1")
    assert [node.name for node in graph.nodes] == ["x", "parts", "parts.outputs.2"]


NAMES = st.lists(
    st.sampled_from(["a", "b", "outputs", "output_index", "output_value", "0", "1"]), min_size=1, max_size=4
)


@given(st.lists(st.tuples(NAMES.map(".".join), st.sampled_from(["negate", "split", "top_k1"])), max_size=12))
def test_whatever_names_a_graph_takes_it_can_be_written_and_read(nodes: list[tuple[str, str]]) -> None:
    graph = dg.Graph()
    values = [graph.input("x", sizes=[2, 2], dtype="float32")]
    fields = {
        "split": {"axis": 1, "outputs": [2]},
        "top_k1": {"axis": 1, "k": 2, "axis_direction": "decreasing"},
        "negate": {},
    }
    for name, operator in nodes:
        try:
            made = getattr(dg, operator)(values[-1], name=name, **fields[operator])
        except dg.GraphError:
            continue  # a node or an output with this reference exists
        values.append(made[0] if isinstance(made, tuple) else made)
    for index, value in enumerate(values):
        graph.output(f"y{index}", value)
    again = dg.loads(dumps(graph))
    assert str(again.lower(fuse=False)) == str(graph.lower(fuse=False))
    references = [value.reference for value in values]
    assert len(set(references)) == len(references)
    for value in values:
        assert (graph.value(value.reference).node, graph.value(value.reference).port) == (value.node, value.port)


def test_a_reference_is_read_in_three_ways_at_the_most() -> None:
    assert list(readings("a")) == [("a", "")]
    assert list(readings("a.b")) == [("a.b", ""), ("a", ".b")]
    assert list(readings("a.b.c.d")) == [("a.b.c.d", ""), ("a.b.c", ".d"), ("a.b", ".c.d")]
    assert len(list(itertools.islice(readings("." * 10**6), 10))) == 3
