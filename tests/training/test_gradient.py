"""Gradients of graphs: what is differentiated, what is added up, what is refused."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import ClipGrad, Convolution

X = np.array([[1, -2, 3], [0.5, 4, -1]], np.float32)


def run(graph: dg.Graph, device: Any = "reference", **inputs: Any) -> Any:
    return graph.compile(device).run({name: np.asarray(each) for name, each in inputs.items()})


def total(x: dg.Value) -> dg.Value:
    return dg.reduce(x, function="sum")


@pytest.fixture
def g() -> dg.Graph:
    return dg.Graph("g")


@pytest.fixture
def x(g: dg.Graph) -> dg.Value:
    return g.input("x", sizes=[2, 3], dtype="float32")


def test_readers_add_up(g: dg.Graph, x: dg.Value) -> None:
    """x³ + 2x: 3x² + 2."""
    (dx,) = dg.gradient(total(x * x * x + x * 2), [x])
    g.output("dx", dx)
    np.testing.assert_allclose(run(g, x=X)["dx"], 3 * X * X + 2, rtol=1e-6)


def test_a_linear_layer(g: dg.Graph, x: dg.Value) -> None:
    """mean((x w + b − t)²) for a weight that is a state and a bias that is a constant, by hand."""
    w_array, b_array, t = np.ones((3, 2), np.float32), np.array([1, -1], np.float32), np.full((2, 2), 2, np.float32)
    w = g.state("w", sizes=[3, 2], dtype="float32", initial=w_array)
    b = g.constant("b", b_array)
    loss = dg.reduce(dg.difference_square(x @ w + b, g.constant("t", t)), function="average")
    dw, db = dg.gradient(loss, [w, b])
    g.output("dw", dw)
    g.output("db", db)
    results = run(g, x=X)
    error = (X @ w_array + b_array - t) * 2 / 4
    np.testing.assert_allclose(results["dw"], X.T @ error, rtol=1e-6)
    np.testing.assert_allclose(results["db"], error.sum(0), rtol=1e-6)


def test_inner_values_and_what_they_depend_on(g: dg.Graph, x: dg.Value) -> None:
    h = x * 3
    dh, dx, dloss = dg.gradient(loss := total(h * h), [h, x, loss])
    for name, each in (("dh", dh), ("dx", dx), ("dloss", dloss)):
        g.output(name, each)
    results = run(g, x=X)
    np.testing.assert_allclose(results["dh"], 6 * X)
    np.testing.assert_allclose(results["dx"], 18 * X)
    assert results["dloss"].item() == 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_gradient_of_the_loss_itself(dtype: Any) -> None:
    """By default 1; it may be a number or a value."""
    g = dg.Graph("g")
    x = g.input("x", sizes=[3], dtype=dtype)
    seed = g.input("seed", sizes=[1, 1], dtype="float32")
    loss = dg.reduce(x * x, function="sum").reshape(1, 1, 1)
    g.output("number", dg.gradient(loss, [x], seed=4)[0])
    g.output("value", dg.gradient(loss, [x], seed=seed)[0])
    array = np.array([1, -2, 3], dtype)
    results = run(g, x=array, seed=np.full((1, 1), 8, np.float32))
    np.testing.assert_array_equal(results["number"], 8 * array)
    np.testing.assert_array_equal(results["value"], 16 * array)
    with raises(dg.GraphError, "sizes", got=[3]) as caught:
        dg.gradient(loss, [x], seed=x)
    assert caught.value.field == "seed"


def test_second_derivatives(g: dg.Graph, x: dg.Value) -> None:
    """d²/dx² of sin x, and of e^(x · y) mixed."""
    (first,) = dg.gradient(total(dg.sin(x)), [x])
    (second,) = dg.gradient(total(first), [x])
    y = g.input("y", sizes=[2, 3], dtype="float32")
    (by_y,) = dg.gradient(total(dg.exp(x * y)), [y])
    (mixed,) = dg.gradient(total(by_y), [x])
    g.output("second", second)
    g.output("mixed", mixed)
    results = run(g, x=X, y=X * 0.1)
    np.testing.assert_allclose(results["second"], -np.sin(X), rtol=1e-5)
    np.testing.assert_allclose(results["mixed"], np.exp(0.1 * X * X) * (1 + 0.1 * X * X), rtol=1e-5)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_stop_gradient(g: dg.Graph, x: dg.Value, device: str) -> None:
    """x · stop(x) has the derivative x."""
    y = x * dg.stop_gradient(x)
    (dx,) = dg.gradient(total(y), [x])
    g.output("y", y)
    g.output("dx", dx)
    g.output("same", dg.stop_gradient(x))
    results = run(g, device, x=X)
    np.testing.assert_array_equal(results["y"], X * X)
    np.testing.assert_array_equal(results["dx"], X)
    np.testing.assert_array_equal(results["same"], X)


def test_stop_gradient_costs_nothing(g: dg.Graph, x: dg.Value) -> None:
    g.output("y", dg.exp(dg.stop_gradient(x)))
    assert [each.name for each in g.lower().nodes] == ["exp"]


def test_files_keep_where_gradients_stop(g: dg.Graph, x: dg.Value, tmp_path: pathlib.Path) -> None:
    g.output("y", dg.stop_gradient(x * 2, name="still"))
    g.save(tmp_path / "g.yaml")
    again = dg.load(tmp_path / "g.yaml")
    (dx,) = dg.gradient(total(again.value("still") * again.value("x")), [again.value("x")])
    again.output("dx", dx)
    np.testing.assert_array_equal(run(again, x=X)["dx"], 2 * X)


def test_a_model_has_an_identity_there(g: dg.Graph, x: dg.Value, tmp_path: pathlib.Path) -> None:
    g.output("y", dg.exp(dg.stop_gradient(x)))
    g.save(tmp_path / "g.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "g.onnx").graph.node] == ["Identity", "Exp"]


@pytest.mark.parametrize(
    "through",
    [
        dg.round,
        dg.stop_gradient,
        lambda x: dg.cast(dg.cast(x, dtype="int32"), dtype="float32"),
        lambda x: dg.if_(x > 0, x * 0 + 1, 2),
    ],
)
def test_steps_give_zeros(g: dg.Graph, x: dg.Value, through: Any) -> None:
    (dx,) = dg.gradient(total(through(x)), [x])
    g.output("dx", dx)
    np.testing.assert_array_equal(run(g, x=X)["dx"], np.zeros_like(X))


def test_nothing_is_made_for_what_is_frozen(g: dg.Graph, x: dg.Value) -> None:
    """Of a product with a frozen weight in front, only the way to the trained one is differentiated."""
    frozen, trained = (g.constant(name, np.ones((3, 3), np.float32)) for name in ("frozen", "trained"))
    loss = total(dg.activation_relu(x @ frozen) @ trained)
    before = {node.name for node in g.nodes}
    (dw,) = dg.gradient(loss, [trained])
    added = [node.name for node in g.nodes if node.name not in before]
    assert [name for name in added if "gemm" in name.split("/")[-1]] == [dw.node]
    assert not [name for name in added if "relu" in name]


def test_only_what_is_needed_of_a_node(g: dg.Graph, x: dg.Value) -> None:
    """Unread nodes are removed, and their names are free again."""
    loss = total(x * g.constant("w", X))
    before = len(g.nodes)
    dg.gradient(loss, [x])
    assert [node.name for node in g.nodes[before:]] == [
        "gradient/fill_value_constant",
        "gradient/reduce/broadcast_to",
        "gradient/multiply/multiply",
    ]
    dg.gradient(loss, [x])
    assert g.nodes[-1].name == "gradient/multiply/multiply_1"


def test_names_are_in_scopes(g: dg.Graph, x: dg.Value) -> None:
    with g.scope("layer"):
        y = dg.exp(x, name="y")
    (dx,) = dg.gradient(total(y), [x])
    assert dx.node == "gradient/layer/y/multiply"


def test_a_fused_activation_is_differentiated(g: dg.Graph, x: dg.Value) -> None:
    w = np.linspace(-1, 1, 6).reshape(3, 2).astype(np.float32)
    y = dg.gemm(x, g.constant("w", w), fused_activation="activation_sigmoid")
    (dx,) = dg.gradient(total(y), [x])
    g.output("dx", dx)
    share = 1 / (1 + np.exp(-X @ w))
    np.testing.assert_allclose(run(g, x=X)["dx"], (share * (1 - share)) @ w.T, rtol=1e-5)


def test_float16_stays_float16(g: dg.Graph) -> None:
    x = g.input("x", sizes=[4], dtype="float16")
    (dx,) = dg.gradient(dg.reduce(x * x, function="average"), [x])
    assert (str(dx.dtype), dx.sizes) == ("float16", (4,))
    g.output("dx", dx)
    np.testing.assert_array_equal(run(g, x=np.arange(4, dtype=np.float16))["dx"], np.arange(4) / 2)


def test_older_levels_have_compositions() -> None:
    g = dg.Graph("g", target="3.0")
    x = g.input("x", sizes=[1, 1, 2, 3], dtype="float32")
    (dx,) = dg.gradient(total(dg.activation_relu(dg.clip(x, min=-1, max=3.5))), [x])
    assert ClipGrad.support().introduced > g.level
    g.output("dx", dx)
    np.testing.assert_array_equal(run(g, x=X.reshape(1, 1, 2, 3))["dx"].ravel(), [1, 0, 1, 1, 0, 0])


@pytest.mark.parametrize(
    ("loss", "values", "code", "field"),
    [
        (lambda x, y: x, lambda x, y: [x], "sizes", "loss"),
        (lambda x, y: total(dg.cast(x, dtype="int32")), lambda x, y: [x], "dtype", "loss"),
        (lambda x, y: 3, lambda x, y: [x], "not-a-value", "loss"),
        (lambda x, y: total(x), lambda x, y: x, "kind", "values"),
        (lambda x, y: total(x), lambda x, y: ["x"], "not-a-value", "values.0"),
        (lambda x, y: total(x), lambda x, y: [x, y], "independent", "values.1"),
        (lambda x, y: total(x), lambda x, y: [x, dg.cast(x, dtype="int32")], "dtype", "values.1"),
        (
            lambda x, y: total(x),
            lambda x, y: [dg.Graph().input("z", sizes=[1], dtype="float32")],
            "foreign-value",
            "values.0",
        ),
    ],
)
def test_refused(g: dg.Graph, x: dg.Value, loss: Any, values: Any, code: str, field: str) -> None:
    y = g.input("y", sizes=[1], dtype="float32")
    with pytest.raises(dg.DmlGraphError) as caught:
        dg.gradient(loss(x, y), values(x, y))
    assert (caught.value.code, caught.value.field) == (code, field)


def test_what_has_no_derivative_is_named_with_the_way(g: dg.Graph) -> None:
    x = g.input("x", sizes=[4], dtype="float32")
    scale = g.constant("scale", np.ones(1, np.float32))
    zero = g.constant("zero", np.zeros(1, np.uint8))
    y = dg.dequantize_linear(dg.cast(x, dtype="uint8", name="bytes"), scale, zero, name="back")
    loss = dg.reduce(dg.exp(y, name="e"), function="sum", name="loss")
    count = len(g.nodes)
    with pytest.raises(dg.GraphError) as caught:
        dg.gradient(loss, [scale])
    assert (caught.value.code, caught.value.node, caught.value.got) == ("no-derivative", "back", "loss ← e ← back")
    assert len(g.nodes) == count, "a refused gradient leaves no nodes"


def test_one_step_down_a_hill_on_directml(g: dg.Graph, directml_path: pathlib.Path) -> None:
    """A state that is updated with its gradient, on the real DirectML: x ← x − 0.1 · 2x."""
    del directml_path
    s = g.state("s", sizes=[3], dtype="float32", initial=np.array([1, 2, 4], np.float32))
    loss = total(s * s)
    (ds,) = dg.gradient(loss, [s])
    g.update(s, s - ds * 0.1)
    g.output("loss", loss)
    exe = g.compile("directml:software")
    losses = [exe.run({})["loss"].item() for _ in range(3)]
    np.testing.assert_allclose(losses, [21, 21 * 0.64, 21 * 0.64**2], rtol=1e-5)
    np.testing.assert_allclose(exe.states["s"], np.array([1, 2, 4]) * 0.8**3, rtol=1e-5)
    assert math.isfinite(losses[0])


def test_dims_stay_as_they_are() -> None:
    g = dg.Graph("g", dims={"n": 4})
    x = g.input("x", sizes=["n"], dtype="float32")
    (dx,) = dg.gradient(dg.reduce(x * x, function="average"), [x])
    g.output("dx", dx)
    with raises(dg.GraphError, "fixed-dim", field="dims.n", got=1):
        g.with_dims({"n": 1})
    np.testing.assert_array_equal(run(g.with_dims({"n": 4}), x=np.ones(4, np.float32))["dx"], np.full(4, 0.5))


def test_a_gradient_that_directml_lacks_is_refused(g: dg.Graph) -> None:
    """The image of ROI_ALIGN has one, its regions have none."""
    image = g.input("image", sizes=[1, 1, 4, 4], dtype="float32")
    boxes = g.input("boxes", sizes=[1, 4], dtype="float32")
    fields: Any = {
        "reduction_function": "average",
        "interpolation_mode": "linear",
        "spatial_scale_x": 1,
        "spatial_scale_y": 1,
        "out_of_bounds_input_value": 0,
        "minimum_samples_per_output": 1,
        "maximum_samples_per_output": 1,
    }
    y = dg.roi_align(image, boxes, g.constant("images", np.zeros(1, np.uint32)), sizes=[1, 1, 2, 2], **fields)
    assert dg.gradient(total(y), [image])[0].sizes == (1, 1, 4, 4)
    with raises(dg.GraphError, "no-derivative", node="roi_align", got="reduce_1 ← roi_align"):
        dg.gradient(total(y), [boxes])


def test_weights_of_many_batches_get_one_product(g: dg.Graph) -> None:
    """No product for each batch, which would be as large as the weights times the batches."""
    x = g.input("x", sizes=[8, 4, 3], dtype="float32")
    w = g.constant("w", np.ones((3, 2), np.float32))
    (dw,) = dg.gradient(total(x @ w), [w])
    products = [node.name for node in g.nodes if node.name.startswith("gradient/gemm/gemm")]
    assert (products, dw.node, dw.sizes) == (["gradient/gemm/gemm_1"], "gradient/gemm/gemm_1", (3, 2))


@pytest.mark.parametrize(("size", "taps", "padding"), [(8, 3, 1), (8, 1, 0), (9, 3, 1), (1, 1, 1)])
def test_the_gradient_of_a_filter_has_no_places_beside_it(g: dg.Graph, size: int, taps: int, padding: int) -> None:
    """With strides, no window may reach the last elements; with size 1, windows may lie in the padding alone."""
    image = g.input("image", sizes=[2, 3, size, size], dtype="float32")
    weights = g.input("weights", sizes=[4, 3, taps, taps], dtype="float32")
    y = dg.convolution(image, weights, strides=[2, 2], start_padding=[padding] * 2, end_padding=[padding] * 2)
    (found,) = dg.gradient((y * y).sum(), [weights])
    made = [node.operator for node in g.nodes if isinstance(node, OperatorNode)]
    places = [each.output.sizes[2:] for each in made if isinstance(each, Convolution) and each.input.sizes[0] == 3]
    assert places == [(taps, taps)]
    g.output("found", found)
    arrays = {"image": np.ones(image.sizes, np.float32), "weights": np.ones(weights.sizes, np.float32)}
    results = g.compile("reference").run(arrays)["found"]
    np.testing.assert_array_equal(g.compile("cpu").run(arrays)["found"], results)
    padded = np.pad(arrays["image"], [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2])
    count = (padded.shape[2] - taps) // 2 + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, (taps, taps), axis=(2, 3))[:, :, ::2, ::2]
    assert windows.shape[2:4] == (count, count)
    of_y = 2 * windows.sum((1, 4, 5))  # of ones times ones, the same for each of 4 outputs
    np.testing.assert_allclose(results, np.broadcast_to(np.einsum("nhw,nchwij->cij", of_y, windows), results.shape))


def test_a_number_beyond_the_data_type_is_refused(g: dg.Graph) -> None:
    """Here the slope of a linear function of float16 is 1e30, which the function itself takes."""
    x = g.input("x", sizes=[2], dtype="float16")
    y = dg.activation_linear(x, alpha=1e30, beta=0)
    with pytest.raises(dg.GraphError, match=r"no derivative here: 1.0.*e.30 is beyond the range of float16") as raised:
        dg.gradient(total(y), [x])
    assert (raised.value.code, raised.value.node) == ("no-derivative", "activation_linear")
