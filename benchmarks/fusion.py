"""What fusion saves on DirectML, and what it costs: nodes, dispatches, bytes and time, before and after.

    python benchmarks/fusion.py [FILE.yaml ...] [--device directml:software] [--repeats 9]
    python benchmarks/fusion.py --nodes 10000

Without files it measures the graphs of `CASES`.  The software adapter counts the dispatches of one run; other devices
do not count them.  Bytes read and written are those of the tensors of every remaining operator; each element counts
once, even if it is read often (a broadcast number is 4 bytes).  A device without caches would move these bytes; they
are computed from the graph, not counted by the adapter.  Times are medians of interleaved runs.

With --nodes it measures the processor time that fusing adds to graphs of this number of nodes and of fractions of it,
by kind of graph.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import pathlib
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc
from dmlgraph.devices.executable import Executable
from dmlgraph.passes import fuse

Value = dg.Value
SIZES = (1, 8, 64, 64)
DEVICE = "directml:software"


@dataclasses.dataclass(frozen=True)
class Case:
    """A graph as a user would write it.

    Attributes:
        name: a formula.
        build: makes the graph; its fills have the sizes of the tensors to which they are added.
        after: the expected number of dispatches after fusion.
        besides: a part of the graph whose own dispatches are added to that.
    """

    name: str
    build: Callable[[], dg.Graph]
    after: int
    besides: Callable[[], dg.Graph] | None = None


def _graph(build: Callable[[dg.Graph, Value], Value], sizes: tuple[int, ...] = SIZES) -> Callable[[], dg.Graph]:
    """A graph of one function of x."""

    def make() -> dg.Graph:
        g = dg.Graph("case")
        g.output("y", build(g, g.input("x", sizes=sizes, dtype="float32")))
        return g

    return make


def fill(g: dg.Graph, value: float, like: Value) -> Value:
    """A fill as large as another value."""
    return g.fill_value_constant(sizes=like.sizes, dtype=like.dtype, value=value)


def sequence(g: dg.Graph, like: Value) -> Value:
    return g.fill_value_sequence(sizes=like.sizes, dtype=like.dtype, value_start=0.0, value_delta=0.25)


def convolve(g: dg.Graph, x: Value) -> Value:
    """A convolution with a filter of 3 by 3."""
    channels = x.sizes[1]
    return dg.convolution(
        x,
        g.input("w", sizes=[channels, channels, 3, 3], dtype=x.dtype),
        mode="cross_correlation",
        direction="forward",
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[1, 1],
        end_padding=[1, 1],
        output_padding=[0, 0],
        group_count=1,
    )


def multiplied(g: dg.Graph, x: Value) -> Value:
    """A matrix product."""
    return dg.gemm(x, g.input("w", sizes=[1, 1, x.sizes[-1], 48], dtype=x.dtype))


def scaled_relu(g: dg.Graph, x: Value) -> Value:
    return dg.activation_relu(x * fill(g, 2.0, x) + fill(g, 0.5, x))


def relu6(g: dg.Graph, x: Value) -> Value:
    return dg.min(dg.max(x, fill(g, 0.0, x)), fill(g, 6.0, x))


def with_sequence(g: dg.Graph, x: Value) -> Value:
    seq = sequence(g, x)
    return x * seq + fill(g, 3.0, x) * seq + fill(g, 1.0, x)


def biased_convolution(g: dg.Graph, x: Value) -> Value:
    y = convolve(g, x)
    return dg.activation_relu(y + fill(g, 0.1, y))


def product_and_fill(g: dg.Graph, x: Value) -> Value:
    y = multiplied(g, x)
    return dg.activation_relu(y + g.input("c", sizes=y.sizes, dtype=y.dtype))


def product_and_row(g: dg.Graph, x: Value) -> Value:
    y = multiplied(g, x)
    return dg.activation_relu(y + g.input("c", sizes=[1, 1, 1, y.sizes[-1]], dtype=y.dtype))


def scaled_product(g: dg.Graph, x: Value) -> Value:
    """If w is an input, it takes at least two dispatches: DirectML accepts alpha or an activation, not both."""
    w = np.random.default_rng(0).standard_normal((1, 1, x.sizes[-1], 48), np.float32)
    y = dg.gemm(x, g.constant("w", w))
    return dg.activation_relu(y * fill(g, 0.125, y))


def halved_tanh(g: dg.Graph, x: Value) -> Value:
    return dg.tanh((x + fill(g, 1.0, x)) * fill(g, 0.5, x))


def masked_softmax(g: dg.Graph, x: Value) -> Value:
    mask = g.input("mask", sizes=x.sizes, dtype="uint8")
    return dg.activation_softmax1(dg.if_(mask, x, fill(g, -np.inf, x)), axes=[3])


def softmax(_: dg.Graph, x: Value) -> Value:
    return dg.activation_softmax1(x, axes=[3])


def fills_alone() -> dg.Graph:
    """A graph without inputs."""
    g = dg.Graph("case")
    numbers = [g.fill_value_constant(sizes=SIZES, dtype="float32", value=value) for value in (2.0, 3.0, 0.5)]
    g.output("y", dg.exp(numbers[0] * numbers[1] - numbers[2]))
    return g


MATRIX = (1, 1, 32, 64)
CASES = (
    Case("relu(x · 2 + 0.5)", _graph(scaled_relu), 1),
    Case("min(max(x, 0), 6)", _graph(relu6), 1),
    Case("x · seq + 3 · seq + 1", _graph(with_sequence), 2),
    Case("relu(convolution + bias)", _graph(biased_convolution, (1, 8, 16, 16)), 1),
    Case("relu(gemm + C), C whole", _graph(product_and_fill, MATRIX), 2),
    Case("relu(gemm + C), C a row", _graph(product_and_row, MATRIX), 2),
    Case("relu(gemm · 0.125)", _graph(scaled_product, MATRIX), 1),
    Case("tanh((x + 1) · 0.5)", _graph(halved_tanh), 1),
    Case("softmax(if(mask, x, −∞))", _graph(masked_softmax), 1, besides=_graph(softmax)),
    Case("exp(2 · 3 − 0.5), all fills", fills_alone, 1),
)


def data_for(graph: dg.Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Numbers for every input: normal ones, and integers from 0 to 2."""
    rng = np.random.default_rng(0)
    data = {}
    for node in graph.inputs:
        is_float = node.desc.dtype.is_float
        values = rng.normal(size=node.desc.sizes) if is_float else rng.integers(0, 3, node.desc.sizes)
        data[node.name] = values.astype(node.desc.dtype.numpy)
    return data


def operator_nodes(desc: GraphDesc) -> int:
    return sum(not isinstance(node, ConstantDescNode) for node in desc.nodes)


def bytes_moved(desc: GraphDesc) -> tuple[int, int]:
    """The bytes that the operators of a graph read, and those that they write, by their tensors."""
    operators = [node.operator for node in desc.nodes if not isinstance(node, ConstantDescNode)]
    read = sum(_bytes(each) for operator in operators for each in operator.input_descs if each is not None)
    written = sum(_bytes(each) for operator in operators for each in operator.output_descs if each is not None)
    return read, written


def _bytes(desc: dg.TensorDesc) -> int:
    """The bytes of a tensor's elements; repeated elements count once."""
    count = 1
    for size, stride in zip(desc.sizes, desc.effective_strides, strict=True):
        count *= size if stride else 1
    return (count * desc.dtype.bits + 7) // 8


def dispatches(graph: dg.Graph, *, fused: bool, device: str = DEVICE) -> int | None:
    """The dispatches of a run, if the device counts them."""
    with graph.compile(device, fuse=fused) as executable:
        executable.run(data_for(graph))
        count: int | None = executable.stats.get("dispatches")
    return count


def run_times(executables: Iterable[Executable], data: Mapping[str, Any], repeats: int) -> list[float]:
    """The median time of a run of each executable; runs are interleaved."""
    calls = [executable.bind(data) for executable in executables]
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(repeats):
        for call, each in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            each.append(time.perf_counter() - start)
    return [statistics.median(each) for each in times]


def report(name: str, graph: dg.Graph, device: str, repeats: int) -> None:
    """One line: all numbers before → after."""
    executables = [graph.compile(device, fuse=fused) for fused in (False, True)]
    times = run_times(executables, data_for(graph), repeats)
    cells = []
    moved = [bytes_moved(executable.graph) for executable in executables]
    for before, after in (
        [operator_nodes(executable.graph) for executable in executables],
        [executable.stats.get("dispatches", "?") for executable in executables],
        [f"{read:,}" for read, _ in moved],
        [f"{written:,}" for _, written in moved],
    ):
        cells.append(f"{before} → {after}")
    nodes, counted, read, written = cells
    print(f"{name:<30} {nodes:>9} {counted:>9} {read:>21} {written:>21} {times[0] / times[1]:6.2f}×")
    for executable in executables:
        executable.close()


# ---- What fusing costs


def chain(nodes: int) -> dg.Graph:
    """Functions one after another: no rule does anything."""
    g = dg.Graph("chain")
    x = g.input("x", sizes=[64], dtype="float32")
    functions = (dg.exp, dg.activation_softsign, dg.sin, dg.log)
    for index in range(nodes):
        x = functions[index % len(functions)](x)
    g.output("y", x)
    return g


def numbers(nodes: int) -> dg.Graph:
    """relu(x · 2 + 0.5) repeatedly: 5 nodes become one."""
    g = dg.Graph("numbers")
    x = g.input("x", sizes=[64], dtype="float32")
    for _ in range(nodes // 5):
        x = dg.activation_relu(x * 2.0 + 0.5)
    g.output("y", x)
    return g


def products(nodes: int) -> dg.Graph:
    """relu(x · w + b) of matrices: 5 nodes become one, not counting constants."""
    g = dg.Graph("products")
    x = g.input("x", sizes=[1, 1, 2, 2], dtype="float32")
    for index in range(nodes // 5):
        weights = g.constant(f"w{index}", np.full((1, 1, 2, 2), index, np.float32))
        bias = g.constant(f"b{index}", np.arange(index, index + 2, dtype=np.float32).reshape(1, 1, 1, 2))
        x = dg.activation_relu(dg.gemm(x, weights) + bias)
    g.output("y", x)
    return g


def wide(nodes: int) -> dg.Graph:
    """Branches from one input with different numbers; all of them are outputs."""
    g = dg.Graph("wide")
    x = g.input("x", sizes=[64], dtype="float32")
    for index in range(nodes // 4):
        g.output(f"y{index}", dg.max(x * (index + 2.0), 0.5))
    return g


def repeated(nodes: int) -> dg.Graph:
    """The same function of the same input many times, and sums of these."""
    g = dg.Graph("repeated")
    x = g.input("x", sizes=[64], dtype="float32")
    total = x
    for _ in range(nodes // 2):
        total = total + dg.exp(x)
    g.output("y", total)
    return g


KINDS: tuple[Callable[[int], dg.Graph], ...] = (chain, numbers, products, wide, repeated)


def fusing_time(graph: dg.Graph) -> float:
    """The least processor time of three that fusing takes."""
    times = []
    for _ in range(3):
        gc.collect()
        start = time.process_time()
        fuse(graph)
        times.append(time.process_time() - start)
    return min(times)


def report_fusing(nodes: int) -> None:
    print(f"{'kind':<10}" + "".join(f"{count:>9,} nodes" + " " * 11 for count in _sizes(nodes)))
    for build in KINDS:
        cells = []
        for count in _sizes(nodes):
            seconds = fusing_time(build(count))
            cells.append(f"{seconds * 1e3:8.0f} ms ({seconds / count * 1e6:5.1f} µs each)")
        print(f"{build.__name__:<10}" + " ".join(cells))


def _sizes(nodes: int) -> list[int]:
    """An eighth, a quarter, a half, all, and twice the number of nodes."""
    return [nodes // 8, nodes // 4, nodes // 2, nodes, nodes * 2]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=pathlib.Path, nargs="*", metavar="FILE")
    parser.add_argument("--device", default=DEVICE)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--nodes", type=int, help="instead: the time that fusing a graph of so many nodes takes")
    arguments = parser.parse_args()
    if arguments.nodes:
        report_fusing(arguments.nodes)
    else:
        print(f"{'graph':<30} {'nodes':>9} {'dispatches':>9} {'bytes read':>21} {'bytes written':>20} {'time':>7}")
        graphs = [(file.stem, dg.load(file)) for file in arguments.files]
        for title, source in graphs or [(case.name, case.build()) for case in CASES]:
            report(title, source, arguments.device, arguments.repeats)
