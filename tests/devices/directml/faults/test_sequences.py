"""FILL_VALUE_SEQUENCE on the real DirectML: the reference's bits, and it never ends the process."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.faults import make_safe
from dmlgraph.devices.directml.faults.sequences import LARGEST_SEQUENCE_BYTES

AWKWARD = [
    (0.1, 0.1),
    (1.0, 0.001),
    (-3.7, 0.333),
    (2048, 0.7),
    (1e-3, 1e-4),
    (0, 1e-7),
    (-0.0, -0.0),
    (60000, -0.37),
]
INTEGERS = [str(dtype) for dtype in dg.DataType if not dtype.is_float and dtype.bits > 4]


def sequence(dtype: str, count: int, start: Any, delta: Any) -> dg.Graph:
    g = dg.Graph("sequence")
    g.output("y", g.fill_value_sequence(sizes=[1, 1, 1, count], dtype=dtype, value_start=start, value_delta=delta))
    return g


def run(device: DirectMLDevice, graph: dg.Graph, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    with device.compile(lower(graph, device.level), reason="asked for") as executable:
        return executable.run(inputs)


def whole_range(dtype: str) -> int:
    """The most elements that DirectML computes at once."""
    return LARGEST_SEQUENCE_BYTES // np.dtype(dtype).itemsize


@pytest.mark.parametrize(("start", "delta"), AWKWARD)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_match_bit_for_bit(directml: DirectMLDevice, dtype: str, start: float, delta: float):
    graph = sequence(dtype, whole_range(dtype), start, delta)
    (got,), (expected,) = run(directml, graph).values(), graph.compile("reference").run().values()
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_over_the_whole_range(directml: DirectMLDevice, dtype: str):
    graph = sequence(dtype, whole_range(dtype), 3, 7)
    (got,) = run(directml, graph).values()
    bits = 8 * np.dtype(dtype).itemsize
    for index in (0, 1, 18, 36, 37, 4681, whole_range(dtype) - 1):
        assert int(got.flat[index]) % 2**bits == (3 + 7 * index) % 2**bits
    (expected,) = graph.compile("reference").run().values()
    assert got.tobytes() == expected.tobytes()


def test_there_is_no_fused_multiply_add(directml: DirectMLDevice):
    """0.1 + i * 0.1 in float32: rounding once and rounding twice differ for a quarter of the elements."""
    (got,) = run(directml, sequence("float32", 1000, 0.1, 0.1)).values()
    tenth = Fraction(float(np.float32(0.1)))
    once = [float(np.float32(float(tenth + index * tenth))) for index in range(1000)]
    twice = [float(np.float32(float(tenth) + float(np.float32(float(index * tenth))))) for index in range(1000)]
    assert once != twice
    assert got.ravel().tolist() == twice


def test_a_sequence_beyond_what_directml_computes_is_handed_to_it(directml: DirectMLDevice):
    count = whole_range("float32") + 1
    g = sequence("float32", count, 0.5, 2)
    x = g.input("x", sizes=[1, 1, 1, count], dtype="float32")
    g.output("sum", x + g.value("fill_value_sequence"))
    results = run(directml, g, x=np.ones((1, 1, 1, count), np.float32))
    steps = 0.5 + 2 * np.arange(count, dtype=np.float64)
    np.testing.assert_array_equal(results["y"].ravel(), steps.astype(np.float32))
    np.testing.assert_array_equal(results["sum"].ravel(), (steps + 1).astype(np.float32))


def test_a_sequence_may_be_several_outputs_beside_others(directml: DirectMLDevice):
    g = sequence("uint8", 4, 10, -2)
    steps = g.value("fill_value_sequence")
    g.output("again", steps)
    g.output("twice", steps + steps)
    results = run(directml, g)
    assert results["y"].ravel().tolist() == results["again"].ravel().tolist() == [10, 8, 6, 4]
    assert results["twice"].ravel().tolist() == [20, 16, 12, 8]


def test_graphs_without_dangerous_sequences_stay_as_they_are():
    g = dg.Graph("harmless")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.output("y", x * g.fill_value_sequence(sizes=[2, 3], dtype="float32", value_start=1, value_delta=1))
    desc = lower(g)
    assert make_safe(desc) == (desc, 0)


def test_edges_lead_to_the_same_nodes_once_a_sequence_has_become_an_input():
    count = whole_range("float32") + 1
    g = dg.Graph("edges")
    x = g.input("x", sizes=[count], dtype="float32")
    steps = g.fill_value_sequence(sizes=[count], dtype="float32", value_start=1, value_delta=1)
    left, right = dg.split(x - steps, axis=0, outputs=[1, count - 1])
    g.output("left", left)
    g.output("right", dg.activation_relu(right))
    safe, added = make_safe(lower(g))
    assert added == 0
    assert [slot.name for slot in safe.inputs] == ["x", "fill_value_sequence"]
    assert safe.inputs[1].desc.owned
    assert [node.name for node in safe.nodes] == ["subtract", "split", "activation_relu"]
    text = str(safe).splitlines()
    assert "edge input 0 x -> node 0 subtract:0" in text
    assert "edge input 1 fill_value_sequence -> node 0 subtract:1" in text
    assert "edge node 1 split:1 -> node 2 activation_relu:0" in text
    assert "edge node 1 split:0 -> output 0 left" in text
    assert "    BTensor = float32 [262145] owned, 1048580 bytes" in text
