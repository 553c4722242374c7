"""Attention on `cpu` and in ONNX Runtime, interleaved in one process.

    python benchmarks/attention.py [--threads 1 2] [--seconds 1]

Each line is a batch, heads, queries, past keys and numbers of a head.  "fused" is DirectML's MULTIHEAD_ATTENTION beside
ONNX Runtime's MultiHeadAttention; "written out" is MatMul, Softmax, MatMul, with the transpositions before and after;
"product" is a batch of matrix products alone, of the scores' sizes.  Prints medians in milliseconds, and the ratio of
ours to ONNX Runtime's with the range of the middle half of the pairs.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import helper

import dmlgraph as dg

Arrays = dict[str, np.ndarray]
Call = Callable[[], object]
RANDOM = np.random.default_rng(0)


@dataclasses.dataclass(frozen=True)
class Shape:
    batch: int
    heads: int
    queries: int
    past: int
    size: int

    def __str__(self) -> str:
        past = f" after {self.past}" if self.past else ""
        return f"{self.batch} × {self.heads} × {self.queries}{past} × {self.size}"

    @property
    def scale(self) -> float:
        return float(self.size**-0.5)

    def arrays(self) -> Arrays:
        def numbers(*sizes: int) -> np.ndarray:
            return RANDOM.standard_normal(sizes, np.float32)

        arrays = {name: numbers(self.batch, self.queries, self.heads * self.size) for name in "qkv"}
        if self.past:
            arrays |= {f"past_{name}": numbers(self.batch, self.heads, self.past, self.size) for name in "kv"}
        return arrays


SHAPES = (
    Shape(1, 12, 128, 0, 64),
    Shape(1, 12, 512, 0, 64),
    Shape(1, 16, 1, 1024, 64),
    Shape(8, 8, 77, 0, 40),
    Shape(1, 8, 2048, 0, 64),
    Shape(2, 32, 1, 300, 128),
    Shape(1, 4, 16, 0, 32),
)


def fused(shape: Shape, arrays: Arrays) -> tuple[dg.Graph, bytes]:
    graph = dg.Graph("attention")
    value = {name: graph.input(name, sizes=each.shape, dtype=each.dtype) for name, each in arrays.items()}
    past = {"past_key": value["past_k"], "past_value": value["past_v"]} if shape.past else {}
    made = dg.multihead_attention(
        query=value["q"],
        key=value["k"],
        value=value["v"],
        scale=shape.scale,
        head_count=shape.heads,
        output_present_key=bool(past),
        output_present_value=bool(past),
        **past,
    )
    outputs = ["y", "present_k", "present_v"] if past else ["y"]
    for name, each in zip(outputs, made if past else [made], strict=True):
        graph.output(name, each)
    inputs = ["q", "k", "v"] + (["", "", "", "past_k", "past_v"] if past else [])
    node = helper.make_node("MultiHeadAttention", inputs, outputs, domain="com.microsoft", num_heads=shape.heads)
    return graph, model([node], arrays, outputs)


def written_out(shape: Shape, arrays: Arrays) -> tuple[dg.Graph, bytes]:
    split = [shape.batch, shape.queries, shape.heads, shape.size]
    initializers = [
        helper.make_tensor("split", 7, [4], split),
        helper.make_tensor("joined", 7, [3], [shape.batch, shape.queries, shape.heads * shape.size]),
        helper.make_tensor("scale", 1, [], [shape.scale]),
    ]
    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(helper.make_node("Reshape", [name, "split"], [f"{name}_split"]))
        nodes.append(helper.make_node("Transpose", [f"{name}_split"], [f"{name}_heads"], perm=order))
    nodes += [
        helper.make_node("MatMul", ["q_heads", "k_heads"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v_heads"], ["results"]),
        helper.make_node("Transpose", ["results"], ["lines"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["lines", "joined"], ["y"]),
    ]
    data = model(nodes, arrays, ["y"], initializers)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "attention.onnx")
        path.write_bytes(data)
        return dg.load(path), data


def product(_: Shape, arrays: Arrays) -> tuple[dg.Graph, bytes]:
    a, b = (each for each in arrays.values())
    graph = dg.Graph("product")
    inputs = [graph.input(name, sizes=each.shape, dtype=each.dtype) for name, each in (("a", a), ("b", b))]
    graph.output("y", dg.gemm(*inputs))
    return graph, model([helper.make_node("MatMul", ["a", "b"], ["y"])], arrays, ["y"])


def factors(shape: Shape) -> Arrays:
    sizes = (shape.batch, shape.heads, shape.queries, shape.size)
    a = RANDOM.standard_normal(sizes, np.float32)
    return {"a": a, "b": np.ascontiguousarray(RANDOM.standard_normal(sizes, np.float32).swapaxes(-1, -2))}


def model(nodes: list, arrays: Arrays, outputs: list[str], initializers: list | None = None) -> bytes:
    def info(name: str, array: np.ndarray | None = None) -> object:
        dtype = next(iter(arrays.values())).dtype if array is None else array.dtype
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(dtype), None if array is None else array.shape
        )

    graph = helper.make_graph(
        nodes,
        "attention",
        [info(name, each) for name, each in arrays.items()],
        [info(name) for name in outputs],
        initializers or [],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def pair(graph: dg.Graph, data: bytes, arrays: Arrays, threads: int, tolerance: float) -> tuple[Call, Call]:
    """Calls of ours and of ONNX Runtime's, after a check that their results agree."""
    executable = graph.compile("cpu", threads=threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if threads > 1 else "0")
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    theirs = dict(zip((each.name for each in session.get_outputs()), session.run(None, arrays), strict=True))
    for name, each in executable.run(arrays).items():
        error = np.abs(each.astype(np.float64) - theirs[name].astype(np.float64)).max()
        assert error <= tolerance, f"{name} differs by {error}"
    return lambda: executable.run(arrays), lambda: session.run(None, arrays)


def measure(ours: Call, theirs: Call, seconds: float) -> list[tuple[float, float]]:
    """Seconds of ours and theirs, in pairs that follow one another."""

    def timed(call: Call) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    pairs: list[tuple[float, float]] = []
    for _ in range(3):
        ours(), theirs()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(pairs) < 7:
        pairs.append((min(timed(ours) for _ in range(3)), min(timed(theirs) for _ in range(3))))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line")
    parser.add_argument("--kinds", nargs="+", default=["fused", "written out", "product"])
    arguments = parser.parse_args()
    kinds = {"fused": fused, "written out": written_out, "product": product}
    print(f"{'kind':12}{'sizes':>26}{'threads':>9}{'ours':>11}{'theirs':>11}  ratio")
    for threads in arguments.threads:
        for kind in arguments.kinds:
            for shape in SHAPES:
                if kind != "fused" and shape.past:
                    continue
                arrays = factors(shape) if kind == "product" else shape.arrays()
                graph, data = kinds[kind](shape, arrays)
                pairs = measure(*pair(graph, data, arrays, threads, 1e-4), arguments.seconds)
                ours, theirs = (statistics.median(each) * 1e3 for each in zip(*pairs, strict=True))
                ratios = sorted(a / b for a, b in pairs)
                low, middle, high = (ratios[len(ratios) * k // 4] for k in (1, 2, 3))
                times = f"{kind:12}{shape!s:>26}{threads:>9}{ours:>8.3f} ms{theirs:>8.3f} ms"
                print(f"{times}  {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
