"""The cost of building, checking, fusing and lowering a chain of element-wise operators, and of reading its file.

    python benchmarks/graph_building.py [--lengths 1000 10000 100000] [--repeats 3]

Every line is the best of some repeats, in one process and in seconds of processor time.  The first line is a fixed
piece of pure Python, to compare machines: the ratios are those of building, fusing and lowering, and of reading, to
that work times the number of nodes in tens of thousands.  `bare` is the NetworkX graph of the same chain, with empty
nodes and edges.

building      Graph.add for every node, all it does, checking among it
fusing        the pipeline of passes, which finds nothing to do
lowering      the rest of Graph.lower: graph to GraphDesc
reading       dmlgraph.load of the chain's graph file
  parsing     of it: PyYAML's own parser alone, to events
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import yaml

import dmlgraph as dg
from dmlgraph import passes
from dmlgraph.compiler import lowering

SIZES = (2, 3)


def chain(length: int) -> dg.Graph:
    """`length` nodes: add, multiply and relu in turn; each reads the one before."""
    g = dg.Graph("chain")
    x = value = g.input("x", sizes=SIZES, dtype="float32")
    for index in range(length):
        step = index % 3
        value = value + x if step == 0 else value * x if step == 1 else dg.activation_relu(value)
    g.output("y", value)
    return g


def pure_python() -> int:
    """Work that does not depend on libraries or dmlgraph: small objects, dictionaries, calls and text."""

    def name(index: int) -> str:
        return f"node_{index}"

    table: dict[str, tuple[int, list[int]]] = {}
    for index in range(100_000):
        table[name(index)] = index, [index, index + 1]
    return sum(first + len(rest) for first, rest in table.values())


def bare(length: int) -> nx.MultiDiGraph:
    """The chain's nodes and edges in plain NetworkX."""
    graph = nx.MultiDiGraph()
    graph.add_node("x")
    previous = "x"
    for index in range(length):
        name = f"node_{index}"
        graph.add_node(name)
        graph.add_edge(previous, name)
        if index % 3 != 2:
            graph.add_edge("x", name)
        previous = name
    return graph


def best(repeats: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The least processor time of some repeats, in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


def parse(path: pathlib.Path) -> int:
    """The number of events in a YAML file."""
    return sum(
        1 for _ in yaml.parse(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    )


COLUMNS = ("nodes", "building", "fusing", "lowering", "together", "ratio", "reading", "parsing", "ratio", "bare")


def measure(length: int, repeats: int, folder: pathlib.Path, python: float) -> list[str]:
    """A line of the table; `python` is the time of the pure Python."""
    python *= length / 10_000
    baseline, _ = best(repeats, lambda: bare(length))
    building, graph = best(repeats, lambda: chain(length))
    fusing, fused = best(repeats, lambda: passes.fuse(graph).graph)
    lowering_, _ = best(repeats, lambda: lowering.lower(fused))
    graph.save(folder / "chain.yaml")
    reading, _ = best(repeats, lambda: dg.load(folder / "chain.yaml"))
    parsing, _ = best(repeats, lambda: parse(folder / "chain.yaml"))
    total = building + fusing + lowering_
    numbers = (building, fusing, lowering_, total, total / python, reading, parsing, reading / python, baseline)
    return [f"{length:,}", *(f"{each:.3f}" for each in numbers)]


def main(lengths: Sequence[int], repeats: int) -> None:
    python, _ = best(max(repeats, 5), pure_python)
    print(f"pure Python: {python:.3f} s")
    print("  ".join(f"{column:>9}" for column in COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        for length in lengths:
            cells = measure(length, repeats, pathlib.Path(folder), python)
            print("  ".join(f"{cell:>9}" for cell in cells), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.lengths, arguments.repeats)
