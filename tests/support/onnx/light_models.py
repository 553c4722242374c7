"""ONNX's own light models, which have fills for weights, with seeded random weights; compared with ONNX Runtime."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np
import onnx
import onnx.backend.test
from support.onnx.onnx_runtime import Array, difference, session

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

FOLDER = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "light"
# The lightest first.
NAMES = (
    *("squeezenet", "shufflenet", "inception_v1", "inception_v2", "densenet121", "resnet50"),
    *("bvlc_alexnet", "zfnet512", "vgg19"),
)
BOUND = 5e-5  # of differences, as a part of the greatest number of an output


def with_random_weights(name: str, seed: int) -> onnx.ModelProto:
    """The model with random numbers in place of its fills, and the scores before its softmax as another output."""
    rng = np.random.default_rng(seed)
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    model.ir_version = max(model.ir_version, 4)  # from which on initializers need not be inputs
    graph = model.graph
    known = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    for node in [each for each in graph.node if each.op_type == "ConstantOfShape"]:
        weights = _weights(rng, known[node.input[0]])
        graph.initializer.append(onnx.numpy_helper.from_array(weights, node.output[0]))
        graph.node.remove(node)
    read = {name for node in graph.node for name in node.input}
    for each in [each for each in graph.initializer if each.name not in read]:  # the shapes of fills
        graph.initializer.remove(each)
    filled = {each.name for each in graph.initializer}
    for each in [each for each in graph.input if each.name in filled or each.name not in read]:
        graph.input.remove(each)
    last = graph.node[-1]
    if last.op_type == "Softmax":
        graph.output.append(onnx.helper.make_empty_tensor_value_info(last.input[0]))
    return model


def _weights(rng: np.random.Generator, shape: Array) -> Array:
    """Numbers that keep the size of what goes through a layer; those of one dimension, such as variances, positive."""
    made = rng.standard_normal(shape, np.float32)
    if len(shape) == 1:
        return np.abs(made) / 10 + np.float32(0.5)
    return made * np.float32(np.sqrt(2 / np.prod(shape[1:])))


@dataclasses.dataclass(frozen=True)
class Trial:
    """A model with weights, an input, and what ONNX Runtime gives.

    Attributes:
        probabilities: the output that is the softmax of another one; None without such an output.
    """

    graph: dg.Graph
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    probabilities: str | None

    @classmethod
    def of(cls, name: str, folder: pathlib.Path, seed: int = 0) -> Trial:
        """Writes the model into a folder and removes it again."""
        path = folder / f"{name}.onnx"
        onnx.save_model(with_random_weights(name, seed), path)
        graph = dg.load(path)
        (slot,) = graph.inputs
        inputs = {slot.name: np.random.default_rng(seed + 1).standard_normal(slot.desc.sizes, np.float32)}
        expected = session(path)(inputs)
        path.unlink()
        probabilities = next(iter(expected)) if len(expected) > 1 else None
        return cls(graph, inputs, expected, probabilities)

    def problem(self, device: DeviceName) -> str | None:
        """What differs on a device: the numbers, or the class that is the likeliest."""
        results = self.graph.compile(device).run(dict(self.inputs))
        # Of two outputs one is the scores whose softmax the other is: a relative error of scores is an absolute one of
        # the exponents there.
        greatest = max(float(np.abs(wanted).max()) for wanted in self.expected.values())
        for output, wanted in self.expected.items():
            found = difference(results[output], wanted)
            if not found <= BOUND * (max(1, 2 * greatest) if output == self.probabilities else 1):
                return f"{output}: differs by {found:.1e} on {device}"
            if results[output].argmax() != wanted.argmax():
                return f"{output}: another class on {device}"
        return None
