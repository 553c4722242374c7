"""A residual network that is read from ONNX and trained: its losses are PyTorch's, step by step, on every device."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import helper
from support import pytorch

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
BATCH, CLASSES, RATE, MOMENTUM = 8, 5, 0.1, 0.9
BLOCKS = {"layer1": (8, 8, 1), "layer2": (8, 16, 2)}  # input and output channels, stride
STEPS: dict[DeviceName, int] = {"reference": 8, "cpu": 100, "directml:software": 8}
BOUND = 1e-4  # how far a loss may be from PyTorch's: rounding differences grow from step to step, here to 1e-5


def weights() -> Weights:
    """The weights of the network under PyTorch's names; those of normalizations are random, too."""
    random, found = np.random.default_rng(0), {}

    def convolution(name: str, inputs: int, outputs: int, taps: int, norm: str) -> None:
        spread = np.sqrt(2 / (inputs * taps * taps))
        found[f"{name}.weight"] = random.normal(size=(outputs, inputs, taps, taps)) * spread
        found[f"{norm}.weight"] = random.uniform(0.5, 1, outputs)
        found[f"{norm}.bias"], found[f"{norm}.running_mean"] = random.normal(size=(2, outputs)) / 10
        found[f"{norm}.running_var"] = random.uniform(0.5, 1.5, outputs)

    convolution("conv1", 3, 8, 3, "bn1")
    for block, (inputs, outputs, stride) in BLOCKS.items():
        convolution(f"{block}.conv1", inputs, outputs, 3, f"{block}.bn1")
        convolution(f"{block}.conv2", outputs, outputs, 3, f"{block}.bn2")
        if stride > 1:
            convolution(f"{block}.downsample.0", inputs, outputs, 1, f"{block}.downsample.1")
    found["fc.weight"] = random.normal(size=(CLASSES, 16)) / 4
    found["fc.bias"] = np.zeros(CLASSES)
    return {name: array.astype(np.float32) for name, array in found.items()}


def model(path: pathlib.Path) -> None:
    """Writes the network as PyTorch's exporter does."""
    nodes: list[onnx.NodeProto] = []

    def add(operator: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [f"value{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    def normalized(x: str, name: str, norm: str, taps: int, stride: int = 1) -> str:
        pads = [taps // 2] * 4
        x = add("Conv", x, f"{name}.weight", pads=pads, strides=[stride] * 2, kernel_shape=[taps] * 2)
        return add("BatchNormalization", x, *(f"{norm}.{each}" for each in PARAMETERS), epsilon=1e-5)

    x = add("Relu", normalized("image", "conv1", "bn1", 3))
    for block, (_, _, stride) in BLOCKS.items():
        h = add("Relu", normalized(x, f"{block}.conv1", f"{block}.bn1", 3, stride))
        h = normalized(h, f"{block}.conv2", f"{block}.bn2", 3)
        if stride > 1:
            x = normalized(x, f"{block}.downsample.0", f"{block}.downsample.1", 1, stride)
        x = add("Relu", add("Add", h, x))
    x = add("Flatten", add("GlobalAveragePool", x))
    nodes.append(helper.make_node("Gemm", [x, "fc.weight", "fc.bias"], ["logits"], transB=1))
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "resnet",
        [helper.make_tensor_value_info("image", kind, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("logits", kind, ["batch", CLASSES])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights().items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


PARAMETERS = ("weight", "bias", "running_mean", "running_var")


def logits(weights: dict[str, Any], x: Any) -> Any:
    """The same network in JAX."""

    def normalized(x: Any, name: str, norm: str, stride: int = 1) -> Any:
        kernel = weights[f"{name}.weight"]
        padding = [(kernel.shape[-1] // 2,) * 2] * 2
        x = jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding)
        scale, bias, mean, variance = (weights[f"{norm}.{each}"][None, :, None, None] for each in PARAMETERS)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias

    x = jax.nn.relu(normalized(x, "conv1", "bn1"))
    for block, (_, _, stride) in BLOCKS.items():
        h = jax.nn.relu(normalized(x, f"{block}.conv1", f"{block}.bn1", stride))
        h = normalized(h, f"{block}.conv2", f"{block}.bn2")
        if stride > 1:
            x = normalized(x, f"{block}.downsample.0", f"{block}.downsample.1", stride)
        x = jax.nn.relu(h + x)
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


def batch(step: int) -> tuple[Array, Array]:
    """Noise, on which the class is a brighter line."""
    random = np.random.default_rng(step)
    labels = random.integers(0, CLASSES, BATCH).astype(np.int32)
    images = random.normal(size=(BATCH, 3, 8, 8)).astype(np.float32)
    images[range(BATCH), :, labels] += 2
    return images, labels


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dg.Graph, dg.Graph]:
    """The imported network, and a step of its training."""
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    model(path)
    network = dg.load(path, dims={"batch": BATCH}, trainable=["*.weight", "*.bias"])
    training = copy.copy(network)
    labels = training.input("labels", sizes=[BATCH], dtype="int32")
    loss = dg.losses.softmax_cross_entropy(training.outputs["logits"], labels)
    training.output("loss", loss)
    training.minimize(loss, ["*"], optimizer=dg.SGD(RATE, momentum=MOMENTUM))
    return network, training


@pytest.mark.parametrize("device", STEPS)
@pytest.mark.usefixtures("directml_path")
def test_each_step_follows_pytorch(graphs: tuple[dg.Graph, dg.Graph], device: DeviceName) -> None:
    exe, expected = graphs[1].compile(device), pytorch.losses("resnet")
    losses = []
    for step in range(STEPS[device]):
        image, labels = batch(step)
        losses.append(exe.run({"image": image, "labels": labels})["loss"].item())
        if device == "directml:software":  # one step is one execution
            assert (exe.stats["submissions"], exe.stats["waits"]) == (1, 1)
    np.testing.assert_allclose(losses, expected[: STEPS[device]], rtol=BOUND)
    np.testing.assert_allclose(losses[:20], expected[: min(20, STEPS[device])], rtol=1e-6)
    assert np.mean(expected[90:]) < expected[0] * 0.7


def test_the_same_states_evaluate(graphs: tuple[dg.Graph, dg.Graph]) -> None:
    network, training = graphs
    exe, (image, labels) = training.compile("cpu"), batch(0)
    exe.run({"image": image, "labels": labels}, steps=5)
    held = {name: exe.states[name] for name in exe.states if "/" not in name}
    found = network.compile("cpu").run({"image": image}, states=exe.states)["logits"]
    np.testing.assert_allclose(found, jax.jit(logits)({**weights(), **held}, image), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("directml_path")
def test_several_steps_are_one_wait(graphs: tuple[dg.Graph, dg.Graph]) -> None:
    exe, (image, labels) = graphs[1].compile("directml:software"), batch(0)
    losses = exe.run({"image": image, "labels": labels}, steps=20, collect=["loss"])["loss"].ravel()
    assert (exe.stats["submissions"], exe.stats["waits"]) == (1, 1)
    assert exe.stats["dispatches"] % 20 == 0
    again = graphs[1].compile("cpu")
    expected = [again.run({"image": image, "labels": labels})["loss"].item() for _ in range(20)]
    np.testing.assert_allclose(losses, expected, rtol=BOUND)
