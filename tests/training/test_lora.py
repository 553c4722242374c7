"""Low-rank adaptation: pairs beside weights, trained alone and merged into them."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.graph.nodes import ConstantNode

Array = np.ndarray[Any, Any]
DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")
RANDOM = np.random.default_rng(0)


def numbers(*sizes: int) -> Array:
    return RANDOM.normal(size=sizes).astype(np.float32)


X = numbers(2, 3, 6, 6)
PIXELS, DENSE, LEFT, TURNED = numbers(4, 3, 3, 3), numbers(5, 36), numbers(3, 2), numbers(4, 5)
TARGET, BIAS = numbers(3, 4), numbers(4)
ADAM = dg.Adam(0.02)


def network() -> dg.Graph:
    """A product of each form: a convolution, weights that are transposed, on the left, and a view of a constant."""
    g = dg.Graph("network")
    x = g.input("x", sizes=X.shape, dtype="float32")
    with g.scope("body"):
        h = dg.convolution(
            x,
            g.constant("pixels", PIXELS),
            g.constant("bias", BIAS),
            strides=[2, 2],
            fused_activation="activation_relu",
            name="convolution",
            start_padding=[1, 1],
            end_padding=[1, 1],
        ).reshape(2, 36)
        dense = g.constant("dense", DENSE)
        h = dg.gemm(h, dense, trans_b="transpose", alpha=0.5, fused_activation="activation_tanh", name="gemm")
    with g.scope("head"):
        h = dg.gemm(g.constant("left", LEFT), h, name="left_product")
        g.output("y", dg.gemm(h, g.constant("turned", TURNED).T, name="turned_product"))
    return g


def result(g: dg.Graph, states: Any = None, device: DeviceName = "cpu") -> Array:
    found: Array = g.compile(device).run({"x": X}, states=states)["head/y"]
    return found


def trained(g: dg.Graph, device: DeviceName = "cpu", steps: int = 10, optimizer: Any = ADAM) -> tuple[Any, list[float]]:
    """What holds the states after some steps, and the losses."""
    training = copy.copy(g)
    target = training.constant("target", TARGET)
    loss = dg.losses.mean_squared_error(training.outputs["head/y"], target)
    training.output("loss", loss)
    training.minimize(loss, ["lora/*"], optimizer=optimizer)
    exe = training.compile(device)
    return exe, exe.run({"x": X}, steps=steps, collect=["loss"])["loss"].ravel().tolist()


def test_nothing_changes_at_first() -> None:
    g = network()
    before, names = result(g), [node.name for node in g.nodes]
    pairs = dg.add_lora(g, "*", rank=2, alpha=3)
    assert [(value.node, value.sizes) for value in pairs] == [
        ("lora/body/convolution/down", (2, 3, 3, 3)),
        ("lora/body/convolution/up", (4, 2, 1, 1)),
        ("lora/body/gemm/down", (36, 2)),
        ("lora/body/gemm/up", (2, 5)),
        ("lora/head/left_product/down", (2, 2)),
        ("lora/head/left_product/up", (3, 2)),
        ("lora/head/turned_product/down", (5, 2)),
        ("lora/head/turned_product/up", (2, 4)),
    ]
    np.testing.assert_array_equal(result(g), before)
    assert [node.name for node in g.nodes if not node.name.startswith("lora/")] == names
    start = g.compile("reference").states["lora/body/gemm/down"]
    assert 0.9 / 6 < np.abs(start).max() < 1 / 6  # ±1 / √inputs


def test_a_pair_adds_its_product() -> None:
    g, x, w = dg.Graph("one"), numbers(2, 3), numbers(3, 4)
    product = dg.gemm(g.input("x", sizes=x.shape, dtype="float32"), g.constant("w", w), alpha=2, name="p")
    g.output("y", product)
    dg.add_lora(g, "w", rank=2, alpha=3)
    assert g.writes(product)  # who has the product reads the sum
    exe = g.compile("reference")
    exe.states["lora/p/up"] = up = numbers(2, 4)
    expected = 2 * x @ (w + 1.5 * exe.states["lora/p/down"] @ up)
    np.testing.assert_allclose(exe.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


def test_only_pairs_are_trained_and_merging_them_is_the_same() -> None:
    g = network()
    dg.add_lora(g, "*", rank=2)
    exe, losses = trained(g, steps=60)
    assert losses[-1] < losses[0] / 10
    assert all(name.startswith(("lora/", "optimizer/")) for name in exe.states)
    expected = result(g, exe.states)
    np.testing.assert_allclose(result(g.with_states(exe.states)), expected, rtol=1e-5, atol=1e-5)
    merged = dg.merge_lora(g, exe.states)
    assert [node.name for node in merged.nodes] == [node.name for node in network().nodes]
    assert not np.allclose(result(network()), expected, atol=0.1)
    np.testing.assert_allclose(result(merged), expected, rtol=1e-5, atol=1e-5)
    weights = {node.name: node.data for node in merged.nodes if isinstance(node, ConstantNode)}
    down, up = (exe.states[f"lora/head/left_product/{each}"] for each in ("down", "up"))
    np.testing.assert_allclose(weights["head/left"], LEFT + up @ down, rtol=1e-5, atol=1e-6)
    assert g.value("lora/head/left_product/up").sizes == (3, 2)  # the graph itself stays what it is


def test_devices_agree() -> None:
    g = network()
    dg.add_lora(g, "*", rank=2)
    sets = [trained(g, device, 3, dg.SGD(0.05))[0].states for device in DEVICES]
    for name in sets[0]:
        for other in sets[1:]:
            np.testing.assert_allclose(other[name], sets[0][name], rtol=2e-4, atol=2e-5, err_msg=name)


def test_patterns_name_products_or_weights() -> None:
    for pattern, products in {
        "body/*": ["body/convolution", "body/gemm"],
        "head/left": ["head/left_product"],
        "*turned_product": ["head/turned_product"],
        "*/dense": ["body/gemm"],
    }.items():
        pairs = dg.add_lora(network(), pattern)
        assert [value.node for value in pairs[::2]] == [f"lora/{name}/down" for name in products], pattern


def test_a_pair_is_added_once() -> None:
    g = network()
    dg.add_lora(g, "body/*")
    assert len(dg.add_lora(g, "*")) == 4
    with raises(dg.GraphError, "unknown-name", field="patterns.0", got="*"):
        dg.add_lora(g, "*")


def test_pairs_survive_a_file(tmp_path: pathlib.Path) -> None:
    g = network()
    with g.scope("anywhere"):
        dg.add_lora(g, "*", rank=2, alpha=3)
    exe, _ = trained(g)
    g.save(tmp_path / "g.yaml")
    again = dg.load(tmp_path / "g.yaml")
    np.testing.assert_array_equal(result(again, exe.states), result(g, exe.states))
    merged = dg.merge_lora(again, exe.states)
    np.testing.assert_allclose(result(merged), result(g, exe.states), rtol=1e-5, atol=1e-5)


def test_weights_that_others_read_stay() -> None:
    g = dg.Graph("tied")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    w = g.constant("w", numbers(3, 3))
    g.output("y", dg.gemm(dg.gemm(x, w, name="first"), w, name="second"))
    g.output("w", dg.identity(w))
    dg.add_lora(g, "second", rank=1)
    exe = g.compile("reference")
    exe.states["lora/second/up"] = numbers(1, 3)
    inputs = {"x": numbers(2, 3)}
    merged = dg.merge_lora(g, exe.states)
    found, expected = merged.compile("reference").run(inputs), exe.run(inputs)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["w"], expected["w"])


def test_float16_weights_have_float32_pairs() -> None:
    g = dg.Graph("half")
    x = g.input("x", sizes=[2, 3], dtype="float16")
    g.output("y", dg.gemm(x, g.constant("w", numbers(3, 4).astype(np.float16)), name="p"))
    pairs = dg.add_lora(g, "w", rank=2)
    assert {value.dtype for value in pairs} == {dg.DataType.FLOAT32}
    exe = g.compile("reference")
    exe.states["lora/p/up"] = numbers(2, 4)
    inputs = {"x": numbers(2, 3).astype(np.float16)}
    merged = dg.merge_lora(g, exe.states).compile("reference").run(inputs)["y"]
    assert merged.dtype == np.float16
    np.testing.assert_allclose(merged, exe.run(inputs)["y"], rtol=1e-2, atol=1e-2)


def test_quantized_weights_can_have_pairs_and_do_not_take_them_in() -> None:
    g = dg.Graph("quantized")
    x = g.input("x", sizes=[2, 2], dtype="float32")
    w = dg.dequantize_linear(
        g.constant("w", [[1, 2], [3, 4]], dtype="int8"), g.constant("scale", [[0.5]], dtype="float32")
    )
    g.output("y", dg.gemm(x, w, name="p"))
    dg.add_lora(g, "w", rank=1)
    exe = g.compile("cpu")
    exe.states["lora/p/up"] = np.ones((1, 2), np.float32)
    inputs = {"x": np.eye(2, dtype=np.float32)}
    expected = np.array([[0.5, 1], [1.5, 2]]) + exe.states["lora/p/down"] @ np.ones((1, 2))
    np.testing.assert_allclose(exe.run(inputs)["y"], expected, rtol=1e-6)
    with raises(dg.GraphError, "kind", node="p", field="b", got="dequantize_linear"):
        dg.merge_lora(g, exe.states)


@pytest.mark.parametrize(
    ("patterns", "given", "code", "field"),
    [
        (["tail/*"], {}, "unknown-name", "patterns.0"),
        (["x"], {}, "unknown-name", "patterns.0"),
        (["*"], {"rank": 0}, "range", "rank"),
        (["*"], {"rank": 1.5}, "range", "rank"),
        (["*"], {"alpha": "4"}, "range", "alpha"),
        (["*"], {"alpha": float("nan")}, "range", "alpha"),
        (["*"], {"seed": -1}, "range", "seed"),
    ],
)
def test_mistakes_are_refused(patterns: list[str], given: dict[str, Any], code: str, field: str) -> None:
    g = network()
    with pytest.raises(dg.GraphError) as caught:
        dg.add_lora(g, *patterns, **given)
    assert (caught.value.code, caught.value.problems[0].field) == (code, field)
    assert not g.states
