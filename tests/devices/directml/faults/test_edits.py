"""Edits of lowered graphs, which workarounds make."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source, Use
from dmlgraph.compiler.lowering import frozen, lower, thawed
from dmlgraph.devices.directml.faults.edits import insert_after, insert_before, insert_before_output
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import Exp, Negate, Subtract


def thawed_graph() -> IrGraph:
    """y = |x|, and z = |x| · |x|."""
    graph = dg.Graph("edited")
    x = graph.input("x", sizes=[2], dtype="float32")
    y = dg.abs(x)
    graph.output("y", y)
    graph.output("z", y * y)
    ir = thawed(lower(graph))
    assert ir is not None
    return ir


def results(ir: IrGraph) -> list[np.ndarray]:
    executable = ReferenceDevice().compile(frozen(ir), reason="asked for")
    return list(executable.run({"x": np.array([1, -2], np.float32)}).values())


def test_nodes_are_inserted_before_inserted_ones() -> None:
    ir = thawed_graph()
    desc = ir.read_desc(Use("abs", 0))
    insert_before(ir, Use("abs", 0), "difference", Subtract(a=desc, b=desc), Source("x", 0))
    insert_before(ir, Use("abs.difference", 1), "power", Exp(input=desc))
    insert_before(ir, Use("abs.difference.power", 0), "opposite", Negate(input=desc))
    assert [node.name for node in frozen(ir).nodes] == [
        "abs.difference.power.opposite",
        "abs.difference.power",
        "abs.difference",
        "abs",
        "multiply",
    ]
    y, _ = results(ir)
    np.testing.assert_allclose(y, np.abs(np.array([1, -2]) - np.exp([-1, 2])), rtol=1e-6)


def test_two_nodes_before_the_inputs_of_one_have_names_of_their_own() -> None:
    ir = thawed_graph()
    for port in (1, 0):
        insert_before(ir, Use("multiply", port), "opposite", Negate(input=ir.read_desc(Use("multiply", port))))
    assert [node.name for node in frozen(ir).nodes] == ["abs", "multiply.opposite", "multiply.opposite_1", "multiply"]
    assert [each.tolist() for each in results(ir)] == [[1, 2], [1, 4]]


@pytest.mark.parametrize("before", ["multiply", None])
def test_a_node_after_another_is_read_by_all_its_readers(before: str | None) -> None:
    ir = thawed_graph()
    insert_after(ir, Source("abs", 0), "opposite", Negate(input=ir.desc("abs", 0)), before=before)
    assert [node.name for node in frozen(ir).nodes] == ["abs", "abs.opposite", "multiply"]
    assert [each.tolist() for each in results(ir)] == [[-1, -2], [1, 4]]


def test_a_node_before_an_output_is_read_by_that_one_only() -> None:
    ir = thawed_graph()
    insert_before_output(ir, "y", "opposite", Negate(input=ir.desc("abs", 0)))
    assert [node.name for node in frozen(ir).nodes] == ["abs", "multiply", "abs.opposite"]
    assert [each.tolist() for each in results(ir)] == [[-1, -2], [1, 4]]
