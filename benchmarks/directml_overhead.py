"""What one compiled graph saves compared with its operators run one by one on DirectML, in one process.

    python benchmarks/directml_overhead.py [--device directml:software] [--elements 1024 1048576] [--repeats 7]

The graph is a chain: multiply, add, tanh, relu, subtract, max.  Medians of interleaved runs:

graph        one executable for the whole chain
one by one   one executable an operator, compiled and initialised once; every result comes back to NumPy in between
made anew    the same, but every operator is compiled and initialised at every call, as a binding without
             executables does
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

import dmlgraph as dg
from dmlgraph.devices.executable import Array, Executable

Step = Callable[[dg.Value, dg.Value], dg.Value]

STEPS: list[Step] = [
    lambda x, w: x * w,
    lambda x, w: x + w,
    lambda x, _: dg.activation_tanh(x),
    lambda x, _: dg.activation_relu(x),
    lambda x, w: x - w,
    dg.max,
]


def build(steps: Sequence[Step], elements: int) -> dg.Graph:
    """A chain of steps on x; each may read w."""
    g = dg.Graph("chain")
    x, w = (g.input(name, sizes=[elements], dtype="float32") for name in ("x", "w"))
    for step in steps:
        x = step(x, w)
    g.output("y", x)
    return g


def run_each(executables: Sequence[Executable], x: Array, w: Array) -> Array:
    """Runs the executables one after another, each on the result of the one before."""
    for executable in executables:
        x = executable.run({"x": x, "w": w})["y"]
    return x


def run_anew(graphs: Sequence[dg.Graph], device: str, x: Array, w: Array) -> Array:
    """The same with executables for one call only."""
    for graph in graphs:
        with graph.compile(device) as executable:
            x = executable.run({"x": x, "w": w})["y"]
    return x


def measure(device: str, elements: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(elements, dtype=np.float32) for _ in range(2))
    whole = build(STEPS, elements).compile(device)
    singles = [build([step], elements) for step in STEPS]
    compiled = [graph.compile(device) for graph in singles]
    ways: dict[str, Callable[[], Array]] = {
        "graph": lambda: whole.run({"x": x, "w": w})["y"],
        "one by one": lambda: run_each(compiled, x, w),
        "made anew": lambda: run_anew(singles, device, x, w),
    }
    results = [way() for way in ways.values()]  # warms up, and checks that all compute the same
    assert all(np.array_equal(result, results[0]) for result in results)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in times.items()}
    cells = [f"{elements:>12,}"]
    cells += [f"{seconds * 1e6:>12,.0f} µs ({seconds / medians['graph']:5.1f}×)" for seconds in medians.values()]
    print("  ".join(cells), f"  dispatches of the graph: {whole.stats.get('dispatches', 'not counted')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="directml:software")
    parser.add_argument("--elements", type=int, nargs="+", default=[1 << 10, 1 << 16, 1 << 20])
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{'elements':>12}  {'graph':>24}  {'one by one':>24}  {'made anew':>24}")
    for count in arguments.elements:
        measure(arguments.device, count, arguments.repeats)
