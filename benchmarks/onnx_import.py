"""The time that importing an ONNX model takes, of which onnx's and onnx-ir's reading is shown apart.

    python benchmarks/onnx_import.py [--nodes 1500 6000] [--repeats 3] [MODEL.onnx --dim batch=1 ...]

Without models, one is made that has three kinds of blocks in turn: a convolution with normalization and a skip
connection; attention of four heads, with layer normalization in single operators, as exporters write it; and sizes
computed from a shape.  Every line is the best of some repeats, in seconds of processor time.

protobuf   onnx.load
onnx-ir    from protobuf to onnx-ir, with its passes
dmlgraph   the rest of dmlgraph.load
together   dmlgraph.load
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

import dmlgraph as dg
from dmlgraph.formats.onnx.model import read

CHANNELS, HEADS = 32, 4


class Builder:
    """A model of one input, x float [batch, 32, 8, 8], to which blocks add nodes."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node of one output, whose name it returns."""
        name = f"/layer.{len(self.nodes) // 50}/{operator}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(operator, inputs, [f"{name}_output"], name, **attributes))
        return f"{name}_output"

    def weight(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape, np.float32) / 10)

    def constant(self, array: Any, dtype: type = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def convolution(self, x: str) -> str:
        y = self.add("Conv", x, self.weight(CHANNELS, CHANNELS, 3, 3), self.weight(CHANNELS), pads=[1, 1, 1, 1])
        ones = [self.constant(np.ones(CHANNELS)) for _ in range(4)]
        y = self.add("BatchNormalization", y, *ones)
        return self.add("Relu", self.add("Add", x, y))

    def attention(self, x: str) -> str:
        """Over the 64 places; 33 nodes."""
        shape = self.add("Shape", x)
        batch = self.add("Gather", shape, self.constant([0], np.int64))
        ends = [self.constant(each, np.int64) for each in ([CHANNELS, -1], [-1, HEADS, CHANNELS // HEADS], [8, 8])]
        rows = self.add("Transpose", self.add("Reshape", x, self.add("Concat", batch, ends[0], axis=0)), perm=[0, 2, 1])
        centred = self.add("Sub", rows, self.add("ReduceMean", rows, self.constant([-1], np.int64)))
        power = self.add("Pow", centred, self.constant(2))
        variance = self.add("ReduceMean", power, self.constant([-1], np.int64))
        deviation = self.add("Sqrt", self.add("Add", variance, self.constant(1e-5)))
        scaled = self.add("Mul", self.add("Div", centred, deviation), self.weight(CHANNELS))
        norm = self.add("Add", scaled, self.weight(CHANNELS))
        to_heads = self.add("Concat", batch, ends[1], axis=0)
        heads = []
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            product = self.add("Add", self.add("MatMul", norm, self.weight(CHANNELS, CHANNELS)), self.weight(CHANNELS))
            heads.append(self.add("Transpose", self.add("Reshape", product, to_heads), perm=order))
        scores = self.add("Softmax", self.add("Mul", self.add("MatMul", *heads[:2]), self.constant(0.35)))
        mixed = self.add("Transpose", self.add("MatMul", scores, heads[2]), perm=[0, 2, 3, 1])
        channels = self.constant([CHANNELS], np.int64)
        return self.add("Add", x, self.add("Reshape", mixed, self.add("Concat", batch, channels, ends[2], axis=0)))

    def sizes(self, x: str) -> str:
        """Half the rows, resized to all: their number is computed; 8 nodes."""
        shape = self.add("Shape", x)
        rows = self.add("Gather", shape, self.constant([2], np.int64))
        half = self.add("Cast", self.add("Div", rows, self.constant([2], np.int64)), to=onnx.TensorProto.INT64)
        upper = self.add("Slice", x, self.constant([0], np.int64), half, self.constant([2], np.int64))
        y = self.add("Resize", upper, "", "", shape, mode="nearest", coordinate_transformation_mode="asymmetric")
        return self.add("Mul", self.add("Sigmoid", y), x)


def model(count: int) -> onnx.ModelProto:
    """A model of at least `count` nodes, and few more."""
    builder = Builder()
    x = "x"
    while len(builder.nodes) < count:
        for block in (builder.convolution, builder.attention, builder.sizes):
            x = block(x)
    sizes = ["batch", CHANNELS, 8, 8]
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes) for name in ("x", x)]
    graph = onnx.helper.make_graph(builder.nodes, "blocks", infos[:1], infos[1:], builder.weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)


def best(repeats: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The least processor time of some repeats, in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


COLUMNS = ("model", "nodes", "protobuf", "onnx-ir", "dmlgraph", "together", "nodes of the graph")


def measure(path: pathlib.Path, dims: Mapping[str, int], repeats: int) -> list[str]:
    """A line of the table."""
    protobuf, proto = best(repeats, lambda: onnx.load(path))
    reading, _ = best(repeats, lambda: read(path))
    together, graph = best(repeats, lambda: dg.load(path, dims=dims))
    times = (protobuf, reading - protobuf, together - reading, together)
    return [path.stem, f"{len(proto.graph.node):,}", *(f"{each:.3f}" for each in times), f"{len(graph.nodes):,}"]


def main(given: argparse.Namespace) -> None:
    dims = {name: int(size) for name, _, size in (each.partition("=") for each in given.dim)}
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(each) for each in given.models]
        for count in [] if paths else given.nodes:
            paths.append(pathlib.Path(folder, f"blocks of {count}.onnx"))
            onnx.save_model(model(count), paths[-1])
            dims = {"batch": 1}
        dg.load(paths[0], dims=dims)  # imports what it needs
        width = max(len(path.stem) for path in paths)
        print("  ".join(f"{column:>{width if column == 'model' else 8}}" for column in COLUMNS))
        for path in paths:
            name, *numbers = measure(path, dims, given.repeats)
            print("  ".join([f"{name:>{width}}", *(f"{number:>8}" for number in numbers)]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL.onnx", help="measure these")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE", help="of the models")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_500, 6_000], help="of the models that are made")
    parser.add_argument("--repeats", type=int, default=3)
    main(parser.parse_args())
