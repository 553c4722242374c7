"""Products, windows, networks and resampling, each alone on `cpu`, compared with `evaluate` and ONNX Runtime.

    python benchmarks/cpu_operators.py [--threads 2] [--lines gemm-int8 lstm …] [--repeats 7]

Each line is one operator on one set of arrays.  Times are medians of interleaved rounds; the number after a time is its
ratio to that of `cpu`: if it is above 1, the other is slower.  `cpu`, and ONNX Runtime, if it and onnx are installed,
have all arrays but the first as constants, which they pack beforehand.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
parser.add_argument("--lines", nargs="+", help="names of lines; by default all")
parser.add_argument("--repeats", type=int, default=7)
arguments = parser.parse_args()
# The libraries read these when they are loaded.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(arguments.threads)

import numpy as np  # noqa: E402

import dmlgraph as dg  # noqa: E402
from dmlgraph.base.tensor import DataType, TensorDesc  # noqa: E402
from dmlgraph.operators import find  # noqa: E402
from dmlgraph.operators.declaration.operator import Operator  # noqa: E402

Call = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Line:
    """An operator with its tensors {field: sizes, or (sizes, dtype)} and attributes, and the same in ONNX.

    `onnx` is the operator's name and attributes there; its inputs are those of `tensors` in order.
    """

    operator: str
    tensors: Mapping[str, Any]
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    onnx: tuple[str, Mapping[str, Any]] | None = None

    def make(self) -> Operator:
        cls = find(self.operator)
        assert cls is not None
        inputs = {field: _desc(each) for field, each in self.tensors.items()}
        return cls(**{**self.attributes, **cls.adapt(inputs, self.attributes)})


def _desc(tensor: Any) -> TensorDesc:
    sizes, dtype = tensor if isinstance(tensor[-1], str) else (tensor, "float32")
    return TensorDesc(dtype=DataType.parse(dtype), sizes=sizes)


_WINDOW = {"window_size": (3, 3), "strides": (2, 2), "start_padding": (1, 1), "end_padding": (1, 1)}
_ONNX_WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
_IMAGE = {"input": (1, 64, 112, 112)}


def _network(operator: str, gates: int, activations: Sequence[str], **fields: Any) -> Line:
    tensors = {
        "input": (1, 32, 128, 256),
        "weight": (1, 1, gates * 256, 256),
        "recurrence": (1, 1, gates * 256, 256),
        "bias": (1, 1, 1, 2 * gates * 256),
    }
    named = [f"activation_{each}" for each in activations]
    return Line(operator, tensors, {"activation_descs": named, "direction": "forward", **fields})


def _resample_gradient(mode: str) -> Line:
    fields = {
        "interpolation_mode": mode,
        "output_gradient": {"sizes": (1, 64, 56, 56)},
        "input_pixel_offsets": (-0.5,) * 4,
        "output_pixel_offsets": (0.5,) * 4,
    }
    return Line("resample_grad", {"input_gradient": (1, 64, 112, 112)}, fields)


LINES: dict[str, Line] = {
    "gemm-int8": Line(
        "matrix_multiply_integer",
        {"a": ((512, 512), "uint8"), "b": ((512, 512), "int8")},
        {},
        ("MatMulInteger", {}),
    ),
    "conv-int8": Line(
        "convolution_integer",
        {"input": ((1, 64, 56, 56), "uint8"), "filter": ((64, 64, 3, 3), "int8")},
        {"start_padding": (1, 1), "end_padding": (1, 1)},
        ("ConvInteger", {"pads": [1, 1, 1, 1]}),
    ),
    "conv-transposed": Line(
        "convolution",
        {"input": (1, 64, 28, 28), "filter": (64, 64, 4, 4)},
        {"direction": "backward", "strides": (2, 2), "start_padding": (1, 1), "end_padding": (1, 1)},
        ("ConvTranspose", {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ),
    "average-pooling": Line(
        "average_pooling", _IMAGE, {**_WINDOW, "include_padding": False}, ("AveragePool", _ONNX_WINDOW)
    ),
    "lp-pooling": Line("lp_pooling", _IMAGE, {**_WINDOW, "p": 2}, ("LpPool", {**_ONNX_WINDOW, "p": 2})),
    "max-pooling": Line("max_pooling", _IMAGE, _WINDOW, ("MaxPool", _ONNX_WINDOW)),
    "max-pooling-indices": Line("max_pooling1", _IMAGE, {**_WINDOW, "output_indices": True}),
    "attention": Line(
        "multihead_attention",
        dict.fromkeys(("query", "key", "value"), (1, 512, 512)),
        {"head_count": 8, "scale": 0.125, "mask_filter_value": -1e4, "mask_type": "none"},
    ),
    "rnn": _network("rnn", 1, ["tanh"]),
    "lstm": _network(
        "lstm", 4, ["sigmoid", "tanh", "tanh"], clip_threshold=0, use_clip_threshold=False, couple_input_forget=False
    ),
    "gru": _network("gru", 3, ["sigmoid", "tanh"], linear_before_reset=False),
    "resample-linear": Line(
        "resample", {"input": (1, 64, 56, 56)}, {"scales": (1, 1, 2, 2), "interpolation_mode": "linear"}
    ),
    "resample-grad": _resample_gradient("linear"),
    "resample-grad-nearest": _resample_gradient("nearest_neighbor"),
}


def arrays_of(operator: Operator) -> list[np.ndarray | None]:
    random = np.random.default_rng(0)

    def one(tensor: TensorDesc) -> np.ndarray:
        if tensor.dtype.is_float:
            return random.standard_normal(tensor.sizes).astype(tensor.dtype.numpy)
        low, high = tensor.dtype.range
        return random.integers(low, high, tensor.sizes, endpoint=True).astype(tensor.dtype.numpy)

    return [None if tensor is None else one(tensor) for tensor in operator.input_descs]


def cpu_call(line: Line, arrays: Sequence[np.ndarray]) -> Call:
    """The line on `cpu`; the first input is given, the others are constants."""
    graph = dg.Graph(line.operator)
    first, *others = line.tensors
    values = {first: graph.input(first, sizes=arrays[0].shape, dtype=arrays[0].dtype)}
    values |= {name: graph.constant(name, each) for name, each in zip(others, arrays[1:], strict=True)}
    made = getattr(dg, line.operator)(**values, **line.attributes)
    for index, value in enumerate(each for each in (made if isinstance(made, tuple) else (made,)) if each is not None):
        graph.output(f"y{index}", value)
    executable = graph.compile("cpu", threads=arguments.threads)
    return lambda: executable.run({first: arrays[0]})


def onnxruntime_call(line: Line, arrays: Sequence[np.ndarray]) -> Call | None:
    """The line in ONNX Runtime; the first input is fed, the others are constants."""
    if line.onnx is None or not all(importlib.util.find_spec(each) for each in ("onnx", "onnxruntime")):
        return None
    import onnxruntime
    from onnx import helper, numpy_helper

    name, attributes = line.onnx
    names = [f"x{index}" for index in range(len(arrays))]
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(name, names, ["y"], **attributes)],
            name,
            [helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(arrays[0].dtype), arrays[0].shape)],
            [helper.make_empty_tensor_value_info("y")],
            [numpy_helper.from_array(each, name) for name, each in zip(names[1:], arrays[1:], strict=True)],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["y"], {"x0": arrays[0]})


def medians(calls: Mapping[str, Call], repeats: int) -> dict[str, float]:
    """The median seconds of each call: one round to warm up, then interleaved rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in seconds.items()}


def main() -> None:
    print(f"{arguments.threads} threads, medians of {arguments.repeats}")
    print(f"{'':22}{'ms':>10}{'evaluate':>10}{'onnxruntime':>13}")
    for name in arguments.lines or LINES:
        line = LINES[name]
        operator = line.make()
        arrays = arrays_of(operator)
        given = [each for each in arrays if each is not None]
        calls: dict[str, Call] = {
            "cpu": cpu_call(line, given),
            "evaluate": lambda operator=operator, arrays=arrays: operator.evaluate(*arrays),
        }
        peer = onnxruntime_call(line, given)
        if peer is not None:
            calls["onnxruntime"] = peer
        seconds = medians(calls, arguments.repeats)
        ratios = {other: f"{seconds[other] / seconds['cpu']:.2f}" if other in seconds else "–" for other in seconds}
        row = f"{ratios['evaluate']:>10}{ratios.get('onnxruntime', '–'):>13}"
        print(f"{name:22}{1e3 * seconds['cpu']:10.3f}{row}", flush=True)


if __name__ == "__main__":
    main()
