"""Attention over a cache, with and without the rules for products with joins, interleaved in one process.

    python benchmarks/joined_products.py [--device cpu] [--runs 200]

Past keys and values are inputs, as states are: they are joined with the new ones, and multiplied.  Each line is heads
of keys, queries for each of them, past rows and numbers of a head; then the least times in microseconds, and the ratio
(above 1: the rules are faster).  On DirectML it prints dispatches and temporary bytes: times of the software adapter
say nothing of a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import dmlgraph as dg
from dmlgraph.devices.rules import RULES

OURS = ("join_of_products", "sum_of_products")
OTHERS = [name for name, rule in RULES.items() if rule.default and name not in OURS]
SHAPES = (
    (12, 1, 128, 64),
    (12, 1, 512, 64),
    (12, 1, 2048, 64),
    (12, 1, 2048, 128),
    (8, 4, 2048, 64),
    (2, 7, 1024, 64),
    (1, 1, 256, 64),
    (12, 1, 32, 64),
    (12, 8, 512, 64),
    (12, 16, 512, 64),
)
RANDOM = np.random.default_rng(0)


def attention(heads: int, queries: int, past: int, size: int) -> dg.Graph:
    g = dg.Graph("attention")
    q = g.input("q", sizes=[1, heads, queries, size], dtype="float32")
    parts = {
        name: [g.input(f"{name}{count}", sizes=[1, heads, count, size], dtype="float32") for count in (past, 1)]
        for name in "kv"
    }
    keys, values = (dg.join(parts[name], axis=2) for name in "kv")
    scores = dg.gemm(q, keys, trans_b="transpose", alpha=size**-0.5)
    mask = g.input("mask", sizes=[1, 1, 1, past + 1], dtype="float32")
    shares = dg.activation_softmax1(scores + mask.broadcast_to(scores.sizes), axes=[3])
    g.output("y", dg.gemm(shares, values))
    return g


def least(calls: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """The least time of each call in seconds, one after the other in every round."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(runs):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    for shape in SHAPES:
        graph = attention(*shape)
        inputs = {each.name: RANDOM.standard_normal(each.desc.sizes, np.float32) for each in graph.inputs}
        with_rules = graph.compile(arguments.device)
        without = graph.compile(arguments.device, fuse=OTHERS)
        heads, queries, past, size = shape
        print(f"{heads:3} × {queries:2} after {past:4} × {size:3}:", end=" ")
        if arguments.device.startswith("directml"):
            for name, executable in (("with", with_rules), ("without", without)):
                executable.run(inputs)
                stats = executable.stats
                print(f"{name} {stats['dispatches']} dispatches, {stats['temporary_bytes']:,} bytes", end="; ")
            print()
            continue
        times = least({"with": with_rules.bind(inputs), "without": without.bind(inputs)}, arguments.runs)
        ratio = times["without"] / times["with"]
        print(f"{times['with'] * 1e6:6.0f} with, {times['without'] * 1e6:6.0f} without, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
