"""The tables of exported files."""

from __future__ import annotations

import numpy as np

import dmlgraph as dg
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.formats.cpp.layout import Scratch, Weights
from dmlgraph.formats.cpp.lowered import lowered
from dmlgraph.formats.cpp.tables import Tables, enumerators, rows, tensor_info


def tables_of(graph: dg.Graph) -> Tables:
    desc = lowered(graph, fuse=False, level=None).desc
    return Tables(Weights([desc]).contents[0], Scratch(desc))


def test_enumerators() -> None:
    assert enumerators([]) == ""
    assert enumerators(["x", "a/b"]) == "\n    x,\n    a_b,  // a/b\n"


def test_a_table_has_a_row() -> None:
    assert rows([]) == "    {},"
    assert rows(["    {1},", "    {2},"]) == "    {1},\n    {2},"


def test_tensor_info() -> None:
    desc = TensorDesc(dtype="int8", sizes=[2, 3], strides=[0, 1])
    info = '{"a/b", DML_TENSOR_DATA_TYPE_INT8, 2, {2, 3}, {0, 1}, 4, false}'
    assert tensor_info("a/b", desc) == info


def test_slots_say_what_is_bound() -> None:
    g = dg.Graph("g", dims={"capacity": 4})
    x = g.input("x", sizes=[1], dtype="float32")
    w = g.constant("w", np.ones(20, np.float32))
    cache = g.state("cache", sizes=["capacity"], dtype="float32", grows=0)
    g.append(cache, x)
    total = g.state("total", sizes=[20], dtype="float32")
    g.update(total, dg.add(total, w, name="next"))
    g.output("length", dg.identity(cache.length))
    tables = tables_of(g)
    bound = [line.split("Source::")[1].split(", ")[:2] for line in tables.input_slots().splitlines()]
    assert bound == [["Input", "0"], ["Weights", "0"], ["State", "0"], ["StateLength", "0"], ["State", "1"]]
    bound = [line.split("Target::")[1].split(", ")[:2] for line in tables.output_slots().splitlines()]
    assert sorted(bound) == [["NextValue", "1"], ["Output", "0"], ["Rows", "0"]]
    grows, replaced = tables.states().splitlines()
    assert grows.endswith(", 16, false}, true, 1, 4, 1, NoOffset},")
    assert replaced.endswith(", 80, false}, false, 2, 0, 0, NoOffset},")


def test_edges_name_what_they_connect() -> None:
    g = dg.Graph("g")
    g.output("y", dg.activation_relu(dg.activation_tanh(g.input("x", sizes=[1], dtype="float32"), name="t"), name="r"))
    edges = tables_of(g).edges()
    assert edges["input_edges"] == "    {0, 0, 0, nullptr},  // x -> t"
    assert edges["edges"] == "    {0, 0, 1, 0, nullptr},  // t -> r"
    assert edges["output_edges"] == "    {1, 0, 0, nullptr},  // r -> y"
