"""Quantized operators on `cpu`: as floats between dequantization and quantization, as integers, and on ONNX Runtime.

    python benchmarks/quantized.py [--repeats 9] [--threads 1]

`cpu` takes the integers of convolutions and products, and the floats of means and of products that are not
quantized: this shows what that is worth.  ONNX Runtime, if it is installed, runs QLinearConv and QLinearMatMul with
its own integer kernels.  Times are medians of interleaved runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.passes import RULES

CONVOLUTIONS = ((64, 64, 56, 3), (64, 256, 56, 1), (3, 32, 224, 3), (512, 512, 7, 3))  # channels, filters, size, window
MEANS = ((64, 56, 3), (256, 28, 2))  # channels, size, window
PRODUCTS = ((128, 768, 768), (1, 768, 768), (512, 512, 512))  # rows, inner, columns
X_SCALE, W_SCALE, Y_SCALE, ZERO = np.float32(0.02), np.float32(0.01), np.float32(0.5), np.uint8(128)
Array = np.ndarray[Any, Any]


# No rule that replaces floats by integers.
OF_FLOATS = [
    name
    for name, rule in RULES.items()
    if rule.default and not name.startswith("quantized_") and name != "integers_to_float"
]


def _graph(kind: str, x: Array, w: Array, *, floats: bool) -> dg.Graph:
    """A convolution or mean of 4 dimensions, or a product of 2, of dequantized tensors or of integers."""
    graph = dg.Graph("case")
    steps, weights = graph.input("x", sizes=x.shape, dtype="uint8"), graph.constant("w", w)
    scales = [
        graph.constant(f"scale{index}", each.reshape(1)) for index, each in enumerate((X_SCALE, W_SCALE, Y_SCALE))
    ]
    zero = graph.constant("zero", ZERO.reshape(1))
    padding = [w.shape[-1] // 2] * 2
    fields: dict[str, Any] = {"start_padding": padding, "end_padding": padding} if kind == "convolution" else {}
    result = {"output_scale": scales[2], "output_zero_point": zero}
    if kind == "mean":
        fields = {"window_size": w.shape[2:], "strides": w.shape[2:]}
    if floats:
        number = dg.dequantize_linear(steps, scales[0], zero)
        if kind == "mean":
            made: Any = dg.average_pooling(number, **fields)
        else:
            operator = dg.convolution if kind == "convolution" else dg.gemm
            made = operator(number, dg.dequantize_linear(weights, scales[1]), **fields)
        if kind != "product of floats":
            made = dg.quantize_linear(made, scales[2], zero)
    elif kind == "mean":
        made = dg.quantized_linear_average_pooling(steps, scales[0], zero, **result, **fields)
    elif kind == "product of floats":
        made = dg.matrix_multiply_integer_to_float(steps, scales[0], zero, weights, scales[1])
    else:
        integers = dg.quantized_linear_convolution if kind == "convolution" else dg.quantized_linear_matrix_multiply
        made = integers(steps, scales[0], zero, weights, scales[1], **result, **fields)
    graph.output("y", made)
    return graph


def _peer(kind: str, x: Array, w: Array, threads: int) -> Callable[[], Any] | None:
    """The same on ONNX Runtime."""
    try:
        import onnx
        import onnxruntime
        from onnx import helper, numpy_helper
    except ImportError:
        return None
    if kind not in ("convolution", "product"):
        return None
    numbers = {"xs": X_SCALE, "z": ZERO, "w": w, "ws": W_SCALE, "wz": np.int8(0), "ys": Y_SCALE}
    attributes = {"pads": [w.shape[-1] // 2] * 4} if w.ndim == 4 else {}
    name = "QLinearConv" if w.ndim == 4 else "QLinearMatMul"
    node = helper.make_node(name, ["x", "xs", "z", "w", "ws", "wz", "ys", "z"], ["y"], **attributes)
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
    cases: list[tuple[str, str, tuple[int, ...], tuple[int, ...]]] = [
        ("convolution", f"{c}→{f}, {s}×{s}, window {k}", (1, c, s, s), (f, c, k, k)) for c, f, s, k in CONVOLUTIONS
    ]
    cases += [("mean", f"{c}, {s}×{s}, window {k}", (1, c, s, s), (1, 1, k, k)) for c, s, k in MEANS]
    for kind in ("product", "product of floats"):
        cases += [(kind, f"{m}×{k}×{n}", (m, k), (k, n)) for m, k, n in PRODUCTS]
    print(f"{'':40}{'floats':>10}{'integers':>10}{'ORT':>10}  ms")
    for kind, sizes, x_shape, w_shape in cases:
        x = rng.integers(0, 256, x_shape).astype(np.uint8)
        w = rng.integers(-128, 128, w_shape).astype(np.uint8 if kind == "product of floats" else np.int8)
        runs: list[Callable[[], Any] | None] = []
        for floats in (True, False):
            graph = _graph(kind, x, w, floats=floats)
            executable = graph.compile(device="cpu", threads=asked.threads, fuse=OF_FLOATS)
            runs.append(lambda executable=executable, x=x: executable.run({"x": x}))
        times = _median([*runs, _peer(kind, x, w, asked.threads)], asked.repeats)
        name = f"{kind} {sizes}"
        print(f"{name:40}", *("         –" if each is None else f"{each * 1e3:10.2f}" for each in times), sep="")


if __name__ == "__main__":
    main()
