"""The most memory of a process that compiles and runs a network with large weights, on `cpu` and in ONNX Runtime.

    python benchmarks/memory.py [--layers 8] [--weights 8] [--rows 1] [--side 2048] [--threads 1]

Each library runs in a process of its own.  The network is some rows times square matrices, one after the other; with
fewer weights than layers, several layers read the same one, in turn.  "before"
is the most memory when the weights have been made and the library is loaded; "peak" is the most until the first run has
ended.  Numbers are MB; "of weights" is what was added, as a multiple of the weights.  Both begin with arrays: that of
ONNX Runtime includes the model and its bytes, from which the session is made.  It takes part if it and onnx are
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys

import numpy as np

MEGABYTE = 1 << 20


def peak() -> float:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def device(weights: list[np.ndarray], layers: int, x: np.ndarray, threads: int) -> float:
    import dmlgraph as dg

    before = peak()
    g = dg.Graph()
    y = g.input("x", sizes=x.shape, dtype="float32")
    constants = [g.constant(f"w{number}", each) for number, each in enumerate(weights)]
    for layer in range(layers):
        y = dg.gemm(y, constants[layer % len(constants)])
    g.output("y", y)
    g.compile("cpu", threads=threads).run({"x": x})
    return before


def onnxruntime(weights: list[np.ndarray], layers: int, x: np.ndarray, threads: int) -> float:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    before = peak()
    nodes, last = [], "x"
    tensors = [numpy_helper.from_array(each, f"w{number}") for number, each in enumerate(weights)]
    for layer in range(layers):
        nodes.append(helper.make_node("MatMul", [last, f"w{layer % len(weights)}"], [f"y{layer}"]))
        last = f"y{layer}"
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in ("x", last))
    graph = helper.make_graph(nodes, "layers", [given], [made], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    del graph, tensors
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    del model
    session.run([last], {"x": x})
    return before


LIBRARIES = {"cpu": device, "onnxruntime": onnxruntime}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--weights", type=int, help="as many as layers by default")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--side", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--library", choices=LIBRARIES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    count = arguments.weights or arguments.layers
    if arguments.library:
        random = np.random.default_rng(0)
        weights = [random.standard_normal((arguments.side, arguments.side), np.float32) for _ in range(count)]
        x = random.standard_normal((arguments.rows, arguments.side), np.float32)
        before = LIBRARIES[arguments.library](weights, arguments.layers, x, arguments.threads)
        print(json.dumps([before, peak()]))
        return
    size = count * arguments.side**2 * 4 / MEGABYTE
    print(f"weights: {size:.0f} MB\n{'':14}{'before':>10}{'peak':>10}{'of weights':>12}")
    for library in LIBRARIES:
        if library == "onnxruntime" and not all(importlib.util.find_spec(each) for each in ("onnx", "onnxruntime")):
            continue
        command = [sys.executable, __file__, *sys.argv[1:], "--library", library]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        before, most = json.loads(done.stdout)
        print(f"{library:14}{before:10.0f}{most:10.0f}{(most - before) / size:12.2f}")


if __name__ == "__main__":
    main()
