"""What it costs to build, check and lower a chain of element-wise operators, by its length.

    python benchmarks/graph_building.py [--lengths 1000 10000 100000] [--repeats 3]

Every line is the best of some repeats, in one process.  The baseline is the bare NetworkX graph of the same
chain, nodes and edges without anything in them; `ratio` is all of our work over that.

building      Graph.add for every node, all it does
  validation  of it: the operator's class making and checking a node, measured alone
lowering      Graph → GraphDesc
text          GraphDesc → its text
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx

import dmlgraph as dg
from dmlgraph.levels import NEWEST
from dmlgraph.operators import ActivationRelu, Add, Multiply
from dmlgraph.operators.operator import Operator

SIZES = (2, 3)


def chain(length: int) -> dg.Graph:
    """`length` nodes: add, multiply and relu in turn, each reading the one before."""
    g = dg.Graph("chain")
    x = value = g.input("x", sizes=SIZES, dtype="float32")
    for index in range(length):
        step = index % 3
        value = value + x if step == 0 else value * x if step == 1 else dg.activation_relu(value)
    g.output("y", value)
    return g


def validate(length: int) -> list[Operator]:
    """The same operators made and checked on their own."""
    desc = dg.TensorDesc(dtype="float32", sizes=SIZES)
    operators: list[Operator] = []
    for index in range(length):
        step = index % 3
        pair = {"a": desc, "b": desc}
        operator = Add(**pair) if step == 0 else Multiply(**pair) if step == 1 else ActivationRelu(input=desc)
        assert not operator.level_problems(NEWEST)
        operators.append(operator)
    return operators


def bare(length: int) -> nx.MultiDiGraph:
    """The chain's nodes and edges in NetworkX alone."""
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
    """The least time of some repeats, in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def measure(lengths: Sequence[int], repeats: int) -> None:
    columns = ("nodes", "building", "validation", "lowering", "text", "build+lower", "per node", "ratio")
    print("  ".join(f"{column:>11}" for column in columns))
    for length in lengths:
        baseline, _ = best(repeats, lambda: bare(length))  # noqa: B023 - called at once
        building, graph = best(repeats, lambda: chain(length))  # noqa: B023
        validation, _ = best(repeats, lambda: validate(length))  # noqa: B023
        lowering, desc = best(repeats, graph.lower)
        text, _ = best(repeats, lambda: str(desc))  # noqa: B023
        total = building + lowering
        cells = [f"{length:,}", *(f"{seconds:.3f} s" for seconds in (building, validation, lowering, text, total))]
        cells += [f"{total / length * 1e6:.1f} µs", f"{total / baseline:.1f}"]
        print("  ".join(f"{cell:>11}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    measure(arguments.lengths, arguments.repeats)
