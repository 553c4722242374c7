"""Values match their nodes, whatever happens to them; graphs are copied as a whole."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.yaml import dumps


@pytest.fixture
def g() -> dg.Graph:
    return dg.Graph("values", dims={"N": 4})


@pytest.fixture
def x(g: dg.Graph) -> dg.Value:
    return g.input("x", sizes=["N"], dtype="float32")


def large(value: dg.Value) -> dg.TensorDesc:
    """A description that reaches beyond the value's buffer."""
    return dg.TensorDesc(dtype=value.dtype, sizes=[1_000_000])


def test_a_value_made_by_hand_is_the_nodes(g: dg.Graph, x: dg.Value) -> None:
    made = dg.Value(g, "x", 0)
    assert made.desc is x.desc
    g.output("y", dg.exp(made))
    np.testing.assert_array_equal(g.compile("cpu").run({"x": np.zeros(4, np.float32)})["y"], np.ones(4, np.float32))


@pytest.mark.parametrize("port", [1, -1, 2**40, True, 0.0, "0", None])
@pytest.mark.usefixtures("x")
def test_there_is_no_value_of_an_output_that_is_none(g: dg.Graph, port: Any) -> None:
    with pytest.raises(dg.GraphError) as caught:
        dg.Value(g, "x", port)
    assert (caught.value.node, caught.value.got, caught.value.allowed) == ("x", port, "0")
    with raises(dg.GraphError, "unknown-node", node="y"):
        dg.Value(g, "y", 0)


def test_there_is_no_value_of_an_output_that_is_left_out(g: dg.Graph) -> None:
    pooled = dg.max_pooling1(g.input("image", sizes=[1, 1, 4, 4], dtype="float32"), window_size=2)
    with raises(dg.GraphError, "left-out", got="max_pooling1.output_indices"):
        dg.Value(g, pooled.node, 1)


def test_a_description_cannot_be_given(g: dg.Graph, x: dg.Value) -> None:
    with pytest.raises(TypeError):
        dg.Value(g, "x", 0, large(x))  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        dg.Value(g, "x", 0, desc=large(x))  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["desc", "port", "node", "graph", "other"])
def test_a_value_never_changes(x: dg.Value, name: str) -> None:
    with pytest.raises(AttributeError, match="never changes"):
        setattr(x, name, large(x))
    with pytest.raises(AttributeError, match="never changes"):
        delattr(x, name)


def test_a_forged_description_is_found_where_it_is_used(g: dg.Graph, x: dg.Value) -> None:
    object.__setattr__(x, "desc", large(x))
    for use in (lambda: dg.exp(x), lambda: x + 1, lambda: g.output("y", x)):
        with raises(dg.GraphError, "foreign-value", got=x):
            use()


def test_a_copy_of_a_value_is_the_value(x: dg.Value) -> None:
    assert copy.copy(x) is x


@pytest.mark.parametrize("way", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_value_goes_with_its_graph(g: dg.Graph, x: dg.Value, way: Any) -> None:
    g.output("y", dg.exp(x))
    graph, value = way((g, x))
    assert value.graph is graph is not g
    assert value.desc == x.desc
    graph.output("z", value * 2)
    assert list(g.outputs) == ["y"]
    with raises(dg.GraphError, "foreign-value", got="x"):
        g.output("z", value)


COPIES: dict[str, Any] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda graph: pickle.loads(pickle.dumps(graph)),
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_copies_of_a_graph_have_nothing_in_common(g: dg.Graph, x: dg.Value, make: Any) -> None:
    k = g.constant("k", np.arange(4, dtype=np.float32))
    g.output("y", dg.exp(x) * k)
    before = dumps(g)
    other = make(g)
    assert dumps(other) == before
    other.output("z", dg.log(other.value("x")))
    other._dims.values["N"] = 7
    g.input("only_here", sizes=[1], dtype="uint8")
    assert dumps(other) != before
    assert "only_here" not in {node.name for node in other.nodes}
    assert (list(g.outputs), list(other.outputs), g.dims) == (["y"], ["y", "z"], {"N": 4})
    assert all(value.graph is other for value in other.outputs.values())
    # Each counts names separately.
    assert dg.exp(g.value("x")).node == dg.exp(other.value("x")).node == "exp_1"
    data = np.arange(1, 5, dtype=np.float32)
    for graph in (g, other):
        got = graph.compile("reference").run({"x": data} | ({"only_here": np.zeros(1, np.uint8)} if graph is g else {}))
        np.testing.assert_allclose(got["y"], np.exp(data) * np.arange(4), rtol=1e-6)


def test_every_output_of_a_graph_built_again_is_its_own(g: dg.Graph) -> None:
    image = g.input("image", sizes=["N", 1, 4, 4], dtype="float32")
    dy = g.input("dy", sizes=[1, 1, 2, 2], dtype="float32")
    roi = g.constant("roi", np.array([[0, 0, 2, 2]], np.float32))
    regions = dg.roi_align_grad(
        image,
        dy,
        roi,
        0,
        spatial_scale_x=1,
        spatial_scale_y=1,
        input_pixel_offset=0,
        output_pixel_offset=0,
        minimum_samples_per_output=1,
        maximum_samples_per_output=1,
        reduction_function="average",
        interpolation_mode="linear",
        align_regions_to_corners=False,
        output_roi_gradient=True,
    )
    assert isinstance(regions, dg.Value)
    g.output("regions", regions)
    assert regions.port == 1  # the first output is left out
    assert g.with_dims({"N": 1}).outputs["regions"].port == 1


MASKED = np.ma.masked_array(np.ones(4, np.float32), mask=[False, True, False, False])


@pytest.mark.parametrize(
    "data", [MASKED, [MASKED, np.ones(4, np.float32)], ([1.0, np.ma.masked],), np.ma.masked_array([1.0, 2.0])]
)
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_masked_constant_is_refused(g: dg.Graph, data: Any, dtype: Any) -> None:
    with pytest.raises(dg.OperatorError) as caught:
        g.constant("k", data, dtype=dtype)
    assert (caught.value.node, caught.value.code) == ("k", "masked")
    assert "filled" in (caught.value.hint or "")


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_masked_arrays_are_refused_wherever_data_goes_in(g: dg.Graph, x: dg.Value, device: DeviceName) -> None:
    owned = g.input("owned", sizes=[4], dtype="float32", owned=True)
    g.output("y", x + owned)
    plain, masked_out = np.ones(4, np.float32), np.ma.masked_array(np.zeros(4, np.float32), mask=False)
    executable = g.compile(device)
    wrong: list[tuple[dict[str, Any], Any, str]] = [
        ({"x": MASKED, "owned": plain}, None, "x"),
        ({"x": [1.0, np.ma.masked, 1.0, 1.0], "owned": plain}, None, "x"),
        ({"x": plain, "owned": MASKED}, None, "owned"),
        ({"x": plain, "owned": plain}, {"y": masked_out}, "y"),
    ]
    for inputs, out, field in wrong:
        for give in (executable.run, executable.bind):
            with pytest.raises(dg.BindingError) as caught:
                give(inputs, out)
            assert caught.value.field == field
            assert caught.value.code == "masked"
    with raises(dg.BindingError, "masked", field="x"):
        executable.profile({"x": MASKED, "owned": plain})


def test_a_masked_array_is_no_tensor_and_no_number(x: dg.Value) -> None:
    wrong: Any
    for wrong in (MASKED, np.ma.masked):
        with pytest.raises(dg.DmlGraphError):
            dg.add(x, wrong)
        with pytest.raises(dg.DmlGraphError):
            dg.clip(x, min=wrong, max=1)
        with pytest.raises(dg.DmlGraphError):
            dg.reduce(x, function="sum", axes=wrong)


# Python's operators, and what they are for masks.

A, B = np.array([1, 2, 3, -4], np.float32), np.array([1, 3, 2, 4], np.float32)
FIRST, SECOND = np.array([5, 6, 7, 12], np.int32), np.array([3, 10, 4, 5], np.int32)
COMPARED: dict[str, Any] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "!=": lambda a, b: a != b,
    "number !=": lambda a, b: 3 != a,  # noqa: SIM300
    "and": lambda a, b: (a > 1) & (b > 2),
    "or": lambda a, b: (a > 2) | (b > 3),
    "xor": lambda a, b: (a >= 2) ^ (b >= 3),
    "not": lambda a, b: ~(a < b),
    "through views": lambda a, b: ~((a > b)[::-1].reshape(2, 2).T.reshape(4)),
    "through the rest": lambda a, b: (a > b)[None, 1:3] & (b > 2)[None][:, :2],
}
COUNTED: dict[str, Any] = {
    "%": lambda a, b: a % b,
    "% number": lambda a, b: -a % 4,
    "number %": lambda a, b: 20 % a,
    "&": lambda a, b: a & b,
    "| number": lambda a, b: a | 8,
    "number ^": lambda a, b: 3 ^ a,
    "~": lambda a, b: ~a,
    "~ through a view": lambda a, b: ~a[::2],
}


@pytest.mark.parametrize("function", COMPARED.values(), ids=COMPARED)
def test_comparisons_and_logic_are_numpys(function: Any) -> None:
    graph = dg.Graph("logic")
    made = function(graph.input("a", sizes=[4], dtype="float32"), graph.input("b", sizes=[4], dtype="float32"))
    assert made.dtype is dg.DataType.UINT8
    graph.output("y", made)
    got = graph.compile("cpu").run({"a": A, "b": B})["y"]
    np.testing.assert_array_equal(got, function(A, B).astype(np.uint8))


@pytest.mark.parametrize("function", COUNTED.values(), ids=COUNTED)
def test_integers_are_counted_and_masked_as_in_numpy(function: Any) -> None:
    graph = dg.Graph("bits")
    a, b = (graph.input(name, sizes=[4], dtype="int32") for name in "ab")
    graph.output("y", function(a, b))
    assert not a.is_truth()
    np.testing.assert_array_equal(graph.compile("cpu").run({"a": FIRST, "b": SECOND})["y"], function(FIRST, SECOND))


def test_a_mask_and_a_number_of_bits_are_no_truth(x: dg.Value) -> None:
    mask = x > 0
    assert mask.is_truth(mask.reshape(2, 2), mask[1:], ~mask)
    bits = dg.cast(x, dtype="uint8")
    assert not mask.is_truth(bits)
    assert (mask & bits).node.startswith("bit_and")


def test_shape_rank_and_t_are_numpys(g: dg.Graph) -> None:
    value = g.input("image", sizes=["N", 2, 3], dtype="float32")
    assert (value.shape, value.sizes, value.rank, value.T.shape) == ((4, 2, 3), (4, 2, 3), 3, (3, 2, 4))
