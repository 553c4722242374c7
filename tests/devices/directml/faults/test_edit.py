"""DescEdit: graphs that workarounds change."""

from __future__ import annotations

import numpy as np

import dmlgraph as dg
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.faults.edit import DescEdit, Port, Value
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import Exp, Negate, Subtract


def test_nodes_are_inserted_before_inserted_ones() -> None:
    graph = dg.Graph("edited")
    x = graph.input("x", sizes=[2], dtype="float32")
    graph.output("y", dg.abs(x))
    edit = DescEdit(lower(graph))
    desc = edit.needed_desc(Port(0, 0))
    edit.insert("difference", Subtract(a=desc, b=desc), Port(0, 0), Value(None, 0), costs_a_dispatch=False)
    (difference,) = (reader.node for reader in edit.sources if reader.port == 1)
    edit.insert("power", Exp(input=desc), Port(difference, 1))
    edit.insert("opposite", Negate(input=desc), Port(difference + 1, 0))
    changed = edit.finish()
    assert [node.name for node in changed.nodes] == ["opposite", "power", "difference", "abs"]
    assert len(edit.added) == 2
    (y,) = ReferenceDevice().compile(changed, reason="asked for").run({"x": np.float32([1, -2])}).values()
    np.testing.assert_allclose(y, np.abs(np.array([1, -2]) - np.exp([-1, 2])), rtol=1e-6)
