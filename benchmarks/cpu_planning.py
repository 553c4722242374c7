"""How long the device `cpu` takes to plan a graph, by number of nodes: from the lowered graph to an executable.

    python benchmarks/cpu_planning.py [--nodes 1250 2500 5000 10000 20000]

It prints processor seconds, the least of 3.  Nothing is fused before, so every node is planned.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import dmlgraph as dg
from dmlgraph.devices.cpu import CpuDevice


def chain(nodes: int) -> dg.Graph:
    """One region: every node reads the one before."""
    g = dg.Graph("chain")
    x = value = g.input("x", sizes=[2, 3], dtype="float32")
    for _ in range(nodes // 2):
        value = dg.tanh(value + x)
    g.output("y", value)
    return g


def rows(nodes: int) -> dg.Graph:
    """Reductions with nodes before and after them."""
    g = dg.Graph("rows")
    value = g.input("x", sizes=[4, 8], dtype="float32")
    for _ in range(nodes // 4):
        value = dg.tanh(value - dg.reduce(dg.abs(value), function="average", axes=[1]))
    g.output("y", value)
    return g


def wide(nodes: int) -> dg.Graph:
    """Pairs of nodes side by side, joined at the end."""
    g = dg.Graph("wide")
    x = g.input("x", sizes=[1, 3], dtype="float32")
    parts = [dg.exp(x * float(index)) for index in range(nodes // 3)]
    g.output("y", dg.join(parts, axis=0))
    return g


KINDS: tuple[Callable[[int], dg.Graph], ...] = (chain, rows, wide)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1250, 2500, 5000, 10_000, 20_000])
    counts = parser.parse_args().nodes
    print(f"{'kind':<8}" + "".join(f"{count:>18,} nodes" for count in counts))
    for build in KINDS:
        cells = []
        for count in counts:
            desc = build(count).lower(fuse=False)
            seconds = []
            for _ in range(3):
                start = time.process_time()
                CpuDevice().compile(desc, reason="benchmark")
                seconds.append(time.process_time() - start)
            cells.append(f"{min(seconds) * 1e3:>10,.0f} ms ({min(seconds) / count * 1e6:.0f} µs)")
        print(f"{build.__name__:<8}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
