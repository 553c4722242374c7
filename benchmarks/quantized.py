"""Quantized products on `cpu`: as floats between dequantization and quantization, as integers, and on ONNX Runtime.

    python benchmarks/quantized.py [--repeats 9] [--threads 1]

`cpu` keeps the floats: this shows what that is worth.  ONNX Runtime, if it is installed, runs QLinearConv and
QLinearMatMul with its own integer kernels.  Times are medians of interleaved runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dmlgraph as dg

CONVOLUTIONS = ((64, 64, 56, 3), (64, 256, 56, 1), (3, 32, 224, 3), (512, 512, 7, 3))  # channels, filters, size, window
PRODUCTS = ((128, 768, 768), (1, 768, 768), (512, 512, 512))  # rows, inner, columns
X_SCALE, W_SCALE, Y_SCALE, ZERO = np.float32(0.02), np.float32(0.01), np.float32(0.5), np.uint8(128)
Array = np.ndarray[Any, Any]


def _graph(x: Array, w: Array, *, floats: bool) -> dg.Graph:
    """A convolution of 4 dimensions, or a product of 2, of dequantized tensors or of integers."""
    graph = dg.Graph("case")
    steps, weights = graph.input("x", sizes=x.shape, dtype="uint8"), graph.constant("w", w)
    scales = [
        graph.constant(f"scale{index}", each.reshape(1)) for index, each in enumerate((X_SCALE, W_SCALE, Y_SCALE))
    ]
    zero = graph.constant("zero", ZERO.reshape(1))
    fields = {"start_padding": [w.shape[-1] // 2] * 2, "end_padding": [w.shape[-1] // 2] * 2} if w.ndim == 4 else {}
    if floats:
        operator = dg.convolution if w.ndim == 4 else dg.gemm
        made = operator(
            dg.dequantize_linear(steps, scales[0], zero), dg.dequantize_linear(weights, scales[1]), **fields
        )
        made = dg.quantize_linear(made, scales[2], zero)
    else:
        integers = dg.quantized_linear_convolution if w.ndim == 4 else dg.quantized_linear_matrix_multiply
        made = integers(
            steps,
            scales[0],
            zero,
            weights,
            scales[1],
            output_scale=scales[2],
            output_zero_point=zero,
            **fields,
        )
    graph.output("y", made)
    return graph


def _peer(x: Array, w: Array, threads: int) -> Callable[[], Any] | None:
    """The same on ONNX Runtime."""
    try:
        import onnx
        import onnxruntime
        from onnx import helper, numpy_helper
    except ImportError:
        return None
    numbers = {"xs": X_SCALE, "z": ZERO, "w": w, "ws": W_SCALE, "wz": np.int8(0), "ys": Y_SCALE}
    attributes = {"pads": [w.shape[-1] // 2] * 4} if w.ndim == 4 else {}
    kind = "QLinearConv" if w.ndim == 4 else "QLinearMatMul"
    node = helper.make_node(kind, ["x", "xs", "z", "w", "ws", "wz", "ys", "z"], ["y"], **attributes)
    uint8 = onnx.TensorProto.UINT8
    graph = helper.make_graph(
        [node],
        "case",
        [helper.make_tensor_value_info("x", uint8, x.shape)],
        [helper.make_tensor_value_info("y", uint8, None)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in numbers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def _median(runs: list[Callable[[], Any] | None], repeats: int) -> list[float | None]:
    """The median seconds of each, in turns."""
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats + 2):
        for each, taken in zip(runs, seconds, strict=True):
            if each is not None:
                start = time.perf_counter()
                each()
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken[2:]) if taken else None for taken in seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    cases: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
        (f"convolution {c}→{f}, {s}×{s}, window {k}", (1, c, s, s), (f, c, k, k)) for c, f, s, k in CONVOLUTIONS
    ]
    cases += [(f"product {m}×{k}×{n}", (m, k), (k, n)) for m, k, n in PRODUCTS]
    print(f"{'':34}{'floats':>10}{'integers':>10}{'ORT':>10}  ms")
    for name, x_shape, w_shape in cases:
        x = rng.integers(0, 256, x_shape).astype(np.uint8)
        w = rng.integers(-128, 128, w_shape).astype(np.int8)
        runs: list[Callable[[], Any] | None] = []
        for floats in (True, False):
            executable = _graph(x, w, floats=floats).compile(device="cpu", threads=asked.threads)
            runs.append(lambda executable=executable, x=x: executable.run({"x": x}))
        times = _median([*runs, _peer(x, w, asked.threads)], asked.repeats)
        print(f"{name:34}", *("         –" if each is None else f"{each * 1e3:10.2f}" for each in times), sep="")


if __name__ == "__main__":
    main()
