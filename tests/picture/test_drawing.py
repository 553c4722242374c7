"""What a picture shows, before it is laid out."""

from __future__ import annotations

import pytest
from support.nodes import operator_of
from support.picture.graphs import fused, ramp

import dmlgraph as dg
from dmlgraph.picture.drawing import draw
from dmlgraph.picture.shapes import Kind


def test_every_node_and_output_is_a_box_of_its_kind() -> None:
    assert [(box.name, box.kind) for box in draw(ramp()).boxes] == [
        ("x", Kind.INPUT),
        ("w", Kind.CONSTANT),
        ("steps", Kind.FILL),
        ("seven", Kind.FILL),
        ("scaled", Kind.OPERATOR),
        ("shifted", Kind.OPERATOR),
        ("more", Kind.OPERATOR),
        ("clipped", Kind.OPERATOR),
        ("y", Kind.OUTPUT),
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("x", ("x", "float32 [2,3]")),
        ("w", ("w", "float32 [1,3]")),
        ("steps", ("steps", "float32 [2,3]", "3.0 − 2.0·i")),
        ("seven", ("seven", "float32 [1,1] = 7.0")),
        ("scaled", ("scaled", "multiply")),
        ("y", ("y", "float32 [2,3]")),
    ],
)
def test_what_is_written_in_a_box(name: str, lines: tuple[str, ...]) -> None:
    assert next(box for box in draw(ramp()).boxes if box.name == name).lines == lines


def test_edges_are_labelled_as_their_reader_reads_them() -> None:
    drawing = draw(ramp())
    names = [box.name for box in drawing.boxes]
    assert [(names[edge.source], names[edge.target], edge.label) for edge in drawing.edges] == [
        ("x", "scaled", "float32 [2,3]"),
        ("steps", "scaled", "float32 [2,3]"),
        ("scaled", "shifted", "float32 [2,3]"),
        ("w", "shifted", "float32 [2,3]"),
        ("shifted", "more", "float32 [2,3]"),
        ("seven", "more", "float32 [2,3]"),
        ("more", "clipped", "float32 [2,3]"),
        ("clipped", "y", "float32 [2,3]"),
    ]


def test_an_edge_tells_its_ends_and_its_whole_tensor() -> None:
    assert draw(ramp()).edges[3].rows == (
        ("from", "w"),
        ("to", "shifted.b"),
        ("dtype", "float32"),
        ("sizes", "[2, 3]"),
        ("strides", "[0, 1]"),
        ("owned by DirectML", "false"),
        ("bytes", "12"),
    )


def test_a_node_tells_every_field() -> None:
    clipped = next(box for box in draw(ramp()).boxes if box.name == "clipped")
    assert clipped.rows == (
        ("node", "clipped"),
        ("operator", "DML_OPERATOR_ELEMENT_WISE_CLIP"),
        ("feature level", "3.0 or newer"),  # before 3.0 only four dimensions and more are legal
        ("scale_bias", "none"),
        ("min", "0.0"),
        ("max", "4.0"),
        ("input", "float32 [2,3], 24 bytes ← more"),
        ("output", "float32 [2,3], 24 bytes"),
    )


def test_every_operator_field_is_told() -> None:
    for box, node in zip(draw(ramp()).boxes, ramp().nodes, strict=False):
        if box.kind in (Kind.OPERATOR, Kind.FILL):
            assert {what for what, _ in box.rows} >= set(type(operator_of(node)).fields)


def test_fused_activations_and_arrays_are_told() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 4], dtype="float32")
    y = dg.gemm(x, x, trans_b="transpose", fused_activation={"op": "activation_elu", "alpha": 0.5}, name="y")
    parts = dg.split(y, axis=1, outputs=[1, 1], name="parts")
    g.output("a", parts[1])
    rows = {box.name: dict(box.rows) for box in draw(g).boxes}
    assert rows["y"]["trans_b"] == "transpose"
    assert rows["y"]["fused_activation"] == "activation_elu (alpha 0.5)"
    assert rows["y"]["c"] == "none"
    assert rows["parts"]["outputs.1"] == "float32 [2,1], 8 bytes"
    assert rows["a"]["from"] == "parts.outputs.1"


def test_the_feature_level_is_the_first_legal_one() -> None:
    g = dg.Graph("g")
    g.output("y", g.fill_value_constant(sizes=[2], dtype="float64", value=1, name="y"))
    assert dict(draw(g).boxes[0].rows)["feature level"] == "4.1 or newer"


def test_long_names_are_cut_in_boxes_and_whole_in_rows() -> None:
    g = dg.Graph("g")
    name = "begin" + "-" * 40 + "end"
    g.output("y", dg.activation_relu(g.input("x", sizes=[1], dtype="float32"), name=name))
    box = draw(g).boxes[1]
    assert box.lines[0] == "begin-----------…--------------end"
    assert box.rows[0] == ("node", name)


def test_a_fused_node_lists_what_it_came_from_and_opens_to_it() -> None:
    before, after = fused()
    index = next(index for index, box in enumerate(after.boxes) if box.name == "both")
    assert [box.kind for box in after.boxes] == [Kind.INPUT, Kind.CONSTANT, Kind.FUSED, Kind.OUTPUT]
    assert after.boxes[index].lines == ("both", "add", "↳ scaled", "↳ shifted")
    assert ("came from", "scaled, shifted") in after.boxes[index].rows
    group = after.groups[index]
    assert [box.name for box in group.boxes] == ["scaled", "shifted"]
    assert [(edge.source, edge.target) for edge in group.edges] == [(0, 1)]
    assert list(after.groups) == [index]
    assert not before.groups


def test_many_origins_are_counted() -> None:
    g = dg.Graph("g")
    g.output("y", g.fill_value_constant(sizes=[2], dtype="float32", value=1, name="y"))
    box = draw(g, origins={"y": tuple("abcdef")}).boxes[0]
    assert box.lines == ("y", "fill float32 [2] = 1.0", "↳ a", "↳ b", "↳ c", "↳ … 3 more")
    assert draw(g, origins={"y": tuple("abcd")}).boxes[0].lines[2:] == ("↳ a", "↳ b", "↳ c", "↳ d")
