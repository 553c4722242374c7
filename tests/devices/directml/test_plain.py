"""Plain arrays are taken as they are; everything else is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.plain import PlainArrays

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def graph_of(**options: Any) -> dg.Graph:
    """y = x + [1, 2, 3]."""
    g = dg.Graph("sum")
    x = g.input("x", sizes=[2, 3], dtype="float32", **options)
    g.output("y", x + g.constant("k", np.array([[1, 2, 3]], np.float32)))
    return g


def plain(device: DirectMLDevice, graph: dg.Graph) -> PlainArrays:
    return PlainArrays(lower(graph, device.level))


def test_an_array_of_the_same_type_and_layout_is_taken(directml: DirectMLDevice) -> None:
    taken = plain(directml, graph_of()).taken({"x": X})
    assert taken is not None
    assert [each is X for each in taken if each is not None] == [True]


@pytest.mark.parametrize(
    "inputs",
    [
        None,
        {},
        {"x": X, "z": X},
        {"z": X},
        {"x": X.tolist()},
        {"x": X.T},
        {"x": X.astype(np.float64)},
        {"x": X.astype(">f4")},
        {"x": np.asfortranarray(X)},
        {"x": X[:1]},
        {"x": np.ma.masked_array(X)},
    ],
    ids=str,
)
def test_anything_else_is_checked(directml: DirectMLDevice, inputs: Any) -> None:
    assert plain(directml, graph_of()).taken(inputs) is None


def test_graphs_with_other_tensors_have_no_plain_arrays(directml: DirectMLDevice) -> None:
    assert plain(directml, graph_of()).possible
    assert not plain(directml, graph_of(owned=True)).possible
    assert not plain(directml, graph_of(strides=[1, 2])).possible


def test_both_ways_give_the_same(directml: DirectMLDevice) -> None:
    exe = directml.compile(lower(graph_of(), directml.level), reason="asked for")
    expected = [[1, 3, 5], [4, 6, 8]]
    for given in (X, np.asfortranarray(X), X.astype(">f4").astype("<f4")):
        first, second = exe.run({"x": given})["y"], exe.run({"x": given})["y"]
        np.testing.assert_array_equal(first, expected)
        assert not np.shares_memory(first, second)
    with raises(dg.BindingError, "dtype", field="x", got="int32"):
        exe.run({"x": X.astype(np.int32)})
    exe.close()
    with raises(dg.DeviceError, "closed"):
        exe.run({"x": X})


def test_constants_of_which_some_are_owned() -> None:
    """Those of recurrent networks are bound at every run, those of other operators are owned."""
    rng = np.random.default_rng(0)
    g = dg.Graph("both")
    x = g.input("x", sizes=[1, 2, 1, 64], dtype="float32")
    w = g.constant("w", rng.normal(0, 0.2, (1, 1, 16, 64)).astype(np.float32))
    r = g.constant("r", rng.normal(0, 0.2, (1, 1, 16, 16)).astype(np.float32))
    y = dg.rnn(x, w, r, activation_descs=["activation_tanh"], direction="forward", output_sequence=True).output_sequence
    g.output("y", dg.gemm(y, g.constant("v", rng.normal(0, 1, (1, 2, 16, 640)).astype(np.float32))))
    exe = g.compile("directml:software")
    assert {slot.desc.owned for slot in exe.graph.inputs if slot.elements is not None} == {False, True}
    given = {"x": rng.normal(0, 1, (1, 2, 1, 64)).astype(np.float32)}
    wanted = g.compile("reference").run(given)["y"]
    for _ in range(2):
        np.testing.assert_allclose(exe.run(given)["y"], wanted, rtol=1e-4, atol=1e-5)
