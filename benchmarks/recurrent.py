"""Recurrent networks on the device `cpu`, beside ONNX Runtime.

    python benchmarks/recurrent.py [--threads 1 2] [--layers lstm-1-128-128 …] [--rounds 15]

A layer's name has the sequences of its batch, its inputs and its hidden units; it runs 500 time steps, or one if the
name ends with "step".  The rounds are those of beside.py.  A ratio is the device's time over ONNX Runtime's: of the
shortest times, and of the medians; the difference is the greatest one of their results.  It needs onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
from typing import Any

import beside
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import dmlgraph as dg


@dataclasses.dataclass(frozen=True)
class Layer:
    """A network of ONNX's operator; `resets_after`: a GRU's attribute linear_before_reset."""

    operator: str
    batch: int
    inputs: int
    hidden: int
    steps: int = 500
    bidirectional: bool = False
    resets_after: bool = False

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def operations(self) -> int:
        """Multiplications and additions of the products."""
        gates = GATES[self.operator]
        return 2 * self.directions * self.steps * self.batch * gates * self.hidden * (self.inputs + self.hidden)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {
    "RNN": ["activation_tanh"],
    "GRU": ["activation_sigmoid", "activation_tanh"],
    "LSTM": ["activation_sigmoid", "activation_tanh", "activation_tanh"],
}
SIZES = ((1, 128, 128), (1, 256, 256), (8, 256, 512), (32, 64, 256))
LAYERS: dict[str, Layer] = {
    **{"lstm-" + "-".join(map(str, sizes)): Layer("LSTM", *sizes) for sizes in SIZES},
    **{"gru-" + "-".join(map(str, sizes)): Layer("GRU", *sizes) for sizes in SIZES},
    **{"gru-after-" + "-".join(map(str, sizes)): Layer("GRU", *sizes, resets_after=True) for sizes in SIZES},
    **{"both-lstm-" + "-".join(map(str, sizes)): Layer("LSTM", *sizes, bidirectional=True) for sizes in SIZES},
    "rnn-1-128-128": Layer("RNN", 1, 128, 128),
    "both-gru-1-128-128": Layer("GRU", 1, 128, 128, bidirectional=True, resets_after=True),
    "lstm-1-512-512": Layer("LSTM", 1, 512, 512),
    "lstm-1-20-20": Layer("LSTM", 1, 20, 20),
    "lstm-1-128-128-step": Layer("LSTM", 1, 128, 128, 1),
    "lstm-1-64-64-step": Layer("LSTM", 1, 64, 64, 1),
}


def arrays_of(layer: Layer) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rows = GATES[layer.operator] * layer.hidden
    shapes = {
        "w": (layer.directions, rows, layer.inputs),
        "r": (layer.directions, rows, layer.hidden),
        "b": (layer.directions, 2 * rows),
    }
    bound = layer.hidden**-0.5
    arrays = {name: random.uniform(-bound, bound, sizes).astype(np.float32) for name, sizes in shapes.items()}
    return {"x": random.standard_normal((layer.steps, layer.batch, layer.inputs), np.float32), **arrays}


def device_call(layer: Layer, arrays: dict[str, np.ndarray], threads: int) -> tuple[beside.Call, np.ndarray]:
    """The call, and the array that it writes."""
    g = dg.Graph("layer")
    x = g.input("x", sizes=(1, *arrays["x"].shape), dtype="float32")
    w, r = (g.constant(name, arrays[name][None]) for name in "wr")
    fields: dict[str, Any] = {
        "bias": g.constant("b", arrays["b"][None, None]),
        "activation_descs": ACTIVATIONS[layer.operator] * layer.directions,
        "direction": "bidirectional" if layer.bidirectional else "forward",
    }
    if layer.operator == "GRU":
        fields["linear_before_reset"] = layer.resets_after
    function = getattr(dg, layer.operator.lower())
    g.output("y", function(x, w, r, **fields, output_sequence=True).output_sequence)
    executable = g.compile("cpu", threads=threads)
    inputs = {"x": arrays["x"][None]}
    y = executable.run(inputs)["y"]
    return executable.bind(inputs, {"y": y}), y


def onnxruntime_call(layer: Layer, arrays: dict[str, np.ndarray], threads: int) -> beside.Call:
    attributes: dict[str, Any] = {
        "hidden_size": layer.hidden,
        "direction": "bidirectional" if layer.bidirectional else "forward",
    }
    if layer.operator == "GRU":
        attributes["linear_before_reset"] = int(layer.resets_after)
    sizes = (layer.steps, layer.directions, layer.batch, layer.hidden)
    graph = helper.make_graph(
        [helper.make_node(layer.operator, ["x", "w", "r", "b"], ["y"], **attributes)],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, arrays["x"].shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        [numpy_helper.from_array(arrays[name], name) for name in "wrb"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {"x": arrays["x"]}
    return lambda: session.run(["y"], feed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, min(2, os.cpu_count() or 1)}))
    parser.add_argument("--layers", nargs="+", choices=LAYERS, metavar="LAYER", help="by default all")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    for threads in arguments.threads:
        print(f"\n{threads} threads, {arguments.rounds} rounds")
        print(f"{'':24}{'ms':>9}{'GFLOP/s':>9}{'shortest':>10}{'median':>8}{'difference':>12}")
        for name in arguments.layers or LAYERS:
            layer = LAYERS[name]
            arrays = arrays_of(layer)
            own, y = device_call(layer, arrays, threads)
            other = onnxruntime_call(layer, arrays, threads)
            rounds = arguments.rounds * (20 if layer.steps == 1 else 1)
            seconds = beside.measure({"cpu": own, "onnxruntime": other}, rounds)
            difference = np.abs(y - other()[0]).max()
            shortest, median = (
                [summary(each) for each in (seconds["cpu"], seconds["onnxruntime"])]
                for summary in (min, statistics.median)
            )
            speed = layer.operations / shortest[0] / 1e9
            print(
                f"{name:24}{1e3 * shortest[0]:9.3f}{speed:9.1f}{shortest[0] / shortest[1]:10.2f}"
                f"{median[0] / median[1]:8.2f}{difference:12.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
