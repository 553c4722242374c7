"""What a run of an exported C++ class costs, compared with a run of Python's executable on the software adapter.

    DMLGRAPH_DIRECTX_INCLUDE=/usr/include python benchmarks/cpp.py [--repeats 50]

Both take inputs from memory, record or reuse a command list, execute it, wait, and copy the outputs out.  Runs are
interleaved; the ratio is of the least times.  It needs g++ and the official headers, Debian's directx-headers-dev.
"""

from __future__ import annotations

import argparse
import ctypes
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping

import numpy as np

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.devices.executable import Array
from dmlgraph.formats import cpp
from dmlgraph.testing import random_inputs

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = ("ramp.yaml", "feed_forward/feed_forward.yaml", "digits/digits.yaml", "unet_block.yaml")
LEVEL = FeatureLevel.V6_2  # of DirectML for Linux


class Exported:
    """A graph as compiled C++, loaded into this process."""

    def __init__(self, graph: dg.Graph, inputs: Mapping[str, Array], folder: pathlib.Path) -> None:
        sys.path.insert(0, str(ROOT / "tests"))
        from support.cpp_export import WARNINGS, Program

        cpp.save(graph, folder, level=LEVEL)
        shutil.copy(ROOT / "benchmarks" / "cpp_class.cpp", folder / "bench.cpp")
        names = [line for line in (folder / "graph.h").read_text("utf-8").splitlines() if line.startswith("namespace ")]
        namespace = names[0].split()[1]
        self._library = Program(folder, "bench", options=(*WARNINGS, "-O2", f"-DGRAPH={namespace}")).library
        given = [np.ascontiguousarray(inputs[node.name]) for node in graph.inputs]
        pointers = (ctypes.c_void_p * (len(given) + 1))(*(each.ctypes.data for each in given), None)
        assert self._library.graph_open(str(folder / "weights.bin").encode(), pointers) == 0

    def run(self) -> None:
        assert self._library.graph_run() == 0

    def output(self, index: int, like: Array) -> Array:
        found = np.empty_like(like, order="C")
        self._library.graph_output(index, ctypes.c_void_p(found.ctypes.data))
        return found

    def close(self) -> None:
        self._library.graph_close()


def least(times: list[float]) -> str:
    return f"{min(times) * 1e6:>10,.0f} µs"


def measure(example: str, repeats: int) -> None:
    graph = dg.load(ROOT / "examples" / example)
    inputs = random_inputs(graph, 0)
    executable = graph.compile("directml:software")
    with tempfile.TemporaryDirectory() as folder:
        exported = Exported(graph, inputs, pathlib.Path(folder))
        exported.run()
        for index, (name, expected) in enumerate(executable.run(inputs).items()):
            assert np.array_equal(exported.output(index, expected), expected, equal_nan=True), name
        python: list[float] = []
        native: list[float] = []
        for _ in range(repeats):
            for times, run in ((python, lambda: executable.run(inputs)), (native, exported.run)):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
        exported.close()
    ratio = min(native) / min(python)
    print(f"{example:32} {least(python)} {least(native)} {ratio:7.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    print(f"{'':32} {'Python':>13} {'C++':>13} {'ratio':>7}")
    for name in EXAMPLES:
        measure(name, arguments.repeats)
