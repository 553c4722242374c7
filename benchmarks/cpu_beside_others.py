"""Networks on `cpu` on an idle machine, and beside other busy processes.

    python benchmarks/cpu_beside_others.py --busy 0 --busy 1 --threads 2

A network of matrix products and one of convolutions (SqueezeNet 1.1), with random weights.  Prints the median of a
run in milliseconds for each number of busy processes, and the ratio of each column to the first.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

import dmlgraph as dg

RANDOM = np.random.default_rng(0)


def weights(g: dg.Graph, *sizes: int) -> dg.Value:
    scale = np.sqrt(2 / np.prod(sizes[1:]))
    name = f"w{sum(1 for _ in g.nodes)}"
    return g.constant(name, (RANDOM.standard_normal(sizes) * scale).astype(np.float32))


def perceptron() -> dg.Graph:
    """Six layers of 1,024 numbers for a batch of 64."""
    g = dg.Graph("perceptron")
    x = g.input("x", sizes=[64, 1024], dtype="float32")
    for _ in range(6):
        x = dg.activation_relu(dg.gemm(x, weights(g, 1024, 1024)))
    g.output("y", x)
    return g


def convolved(g: dg.Graph, x: dg.Value, channels: int, side: int, stride: int = 1) -> dg.Value:
    pad = [side // 2] * 2
    made = dg.convolution(
        x, weights(g, channels, x.sizes[1], side, side), strides=[stride] * 2, start_padding=pad, end_padding=pad
    )
    return dg.activation_relu(made)


def pooled(x: dg.Value) -> dg.Value:
    return dg.max_pooling(x, window_size=[3, 3], strides=[2, 2], start_padding=[0, 0], end_padding=[0, 0])


def squeezenet() -> dg.Graph:
    """SqueezeNet 1.1 for one picture of 224 × 224."""
    g = dg.Graph("squeezenet")
    x = convolved(g, g.input("x", sizes=[1, 3, 224, 224], dtype="float32"), 64, 3, 2)
    for squeezed, expanded, pools in (
        (16, 64, True),
        (16, 64, False),
        (32, 128, True),
        (32, 128, False),
        (48, 192, True),
        (48, 192, False),
        (64, 256, False),
        (64, 256, False),
    ):
        x = convolved(g, pooled(x) if pools else x, squeezed, 1)
        x = dg.join([convolved(g, x, expanded, 1), convolved(g, x, expanded, 3)], axis=1)
    x = convolved(g, x, 1000, 1)
    g.output("y", dg.reduce(x, function="average", axes=[2, 3]))
    return g


NETWORKS: tuple[Callable[[], dg.Graph], ...] = (perceptron, squeezenet)


def spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Runs `count` processes that compute all the time."""
    processes = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    time.sleep(0.5 if processes else 0)
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def median(run: Callable[[], object], seconds: float) -> float:
    """The median time of a run, in milliseconds."""
    for _ in range(3):
        run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, action="append", help="busy processes; several times compares")
    parser.add_argument("--threads", type=int, help="of a run, by default one for each processor")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each number")
    arguments = parser.parse_args()
    counts = arguments.busy or [0, 1]
    print("network     " + "".join(f"{f'{count} busy':>12}" for count in counts))
    for network in NETWORKS:
        graph = network()
        x = RANDOM.standard_normal(graph.inputs[0].desc.sizes).astype(np.float32)
        with graph.compile("cpu", threads=arguments.threads) as executable:
            run = executable.bind({"x": x})
            times = []
            for count in counts:
                with busy(count):
                    times.append(median(run, arguments.seconds))
        ratios = "".join(f"  × {each / times[0]:.1f}" for each in times[1:])
        print(f"{network.__name__:12}" + "".join(f"{each:9.2f} ms" for each in times) + ratios)


if __name__ == "__main__":
    main()
