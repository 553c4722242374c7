"""Products with 4-bit weights in blocks (MatMulNBits) on `cpu`, next to ONNX Runtime.

    python benchmarks/few_bits.py [--rows 1 8 128] [--seconds 0.3] [--threads 2] [--accuracy 0 4] [--every-block]

Both read the same ONNX model and take turns in one process.  A row says the least times in milliseconds, the device's
over ONNX Runtime's, the gigabytes of packed weights that the device reads a second, and the largest difference between
the results over the largest result.  Weights of several products, more than 8 MB, take turns too, so that none finds
its own in the second cache.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import dmlgraph as dg

SIZES = ((896, 4864), (2048, 2048), (4864, 896))  # inner, columns
ROWS = (1, 4, 8, 64, 128, 512)
BLOCKS = (16, 64, 128, 256)  # besides 32, of the first sizes
LEAST_BYTES = 8 << 20  # of weights that take turns
Array = np.ndarray[Any, Any]


def model(inner: int, columns: int, block: int, *, zero_points: bool, accuracy: int, path: pathlib.Path) -> int:
    """Writes a model: products y0, y1, … of one x {rows, inner}; returns how many there are."""
    rng = np.random.default_rng(0)
    blocks = -(-inner // block)
    count = max(1, LEAST_BYTES // (inner * columns // 2))
    nodes, constants = [], []
    fields = {"K": inner, "N": columns, "bits": 4, "block_size": block, "accuracy_level": accuracy}
    for index in range(count):
        given: dict[str, Array] = {
            "w": rng.integers(0, 256, (columns, blocks, block // 2), np.uint8),
            "s": (rng.random((columns, blocks)) / 64 + 1 / 64).astype(np.float32),
        }
        if zero_points:
            given["z"] = rng.integers(0, 256, (columns, -(-blocks // 2)), np.uint8)
        names = [f"{name}{index}" for name in given]
        constants += [numpy_helper.from_array(each, name) for each, name in zip(given.values(), names, strict=True)]
        nodes.append(helper.make_node("MatMulNBits", ["x", *names], [f"y{index}"], domain="com.microsoft", **fields))
    single = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", single, ["rows", inner])],
        [helper.make_tensor_value_info(f"y{index}", single, ["rows", columns]) for index in range(count)],
        constants,
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), str(path))
    return count


def least(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least seconds of each, in turns, for about so many seconds each."""
    best = [math.inf] * len(calls)
    end = time.perf_counter() + seconds * len(calls)
    turns = 0
    while turns < 4 or time.perf_counter() < end:
        turns += 1
        for index, call in enumerate(calls):
            call()  # threads of the others have stopped looking for work
            for _ in range(3):
                start = time.perf_counter()
                call()
                best[index] = min(best[index], time.perf_counter() - start)
    return best


def measured(path: pathlib.Path, inner: int, rows: int, threads: int, seconds: float) -> tuple[float, float, float]:
    """The least seconds of the device and of ONNX Runtime, and how much their results differ."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    executable = dg.load(path, dims={"rows": rows}).compile("cpu", threads=threads)
    given = {"x": np.random.default_rng(1).standard_normal((rows, inner)).astype(np.float32)}
    mine, theirs = executable.run(given)["y0"], session.run(["y0"], given)[0]
    difference = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
    cpu, other = least([lambda: executable.run(given), lambda: session.run(None, given)], seconds)
    return cpu, other, difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--accuracy", type=int, nargs="+", default=(0, 4))
    parser.add_argument("--threads", type=int, nargs="+", default=(os.cpu_count() or 1,))
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--every-block", action="store_true", help="other blocks than 32, and zero points, too")
    parser.add_argument("--sizes", type=int, default=len(SIZES), help="so many of the sizes")
    asked = parser.parse_args()
    cases = [(sizes, 32, False) for sizes in SIZES[: asked.sizes]]
    if asked.every_block:
        cases += [(SIZES[0], 32, True)]
        cases += [(SIZES[0], block, zeros) for block in BLOCKS for zeros in (False, True)]
    heads = "".join(f"{name:>9}" for name in ("accuracy", "threads", "rows", "cpu", "ORT", "ratio", "GB/s"))
    print(f"{'inner × columns, block':32}{heads}  difference")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "products.onnx"
        for ((inner, columns), block, zeros), accuracy in itertools.product(cases, asked.accuracy):
            count = model(inner, columns, block, zero_points=zeros, accuracy=accuracy, path=path)
            for threads, rows in itertools.product(asked.threads, asked.rows):
                cpu, other, difference = measured(path, inner, rows, threads, asked.seconds)
                speed = count * inner * columns / 2 / cpu / 1e9
                ratios.append(cpu / other)
                name = f"{inner} × {columns}, {block}{', zero points' if zeros else ''}"
                times = f"{cpu / count * 1e3:9.3f}{other / count * 1e3:9.3f}{cpu / other:9.2f}{speed:9.1f}"
                print(f"{name:32}{accuracy:9}{threads:9}{rows:9}{times}  {difference:.1e}", flush=True)
    print(f"geometric mean of the ratios: {math.exp(math.fsum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
