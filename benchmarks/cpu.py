"""The device `cpu` compared with alternatives, in one process with the same number of threads.

    python benchmarks/cpu.py [--threads 2] [--elements 1024 65536 …] [--lines relu gelu …] [--repeats 7]

Peers are those of NumPy, numexpr, JAX (jit), ONNX Runtime and numba that are installed.  Times are medians of
interleaved rounds.  "bound" is `executable.bind(inputs, out)`, "run" is `executable.run(inputs)` with new outputs;
numexpr and numba write into an existing array; NumPy, JAX and ONNX Runtime make a new one at every call.

A number under a peer is its time over that of "run" (NumPy, JAX, ONNX Runtime) or "bound" (numexpr, numba): if it is
above 1, the peer is slower.  "of copy" is the least memory traffic of the line, in bytes per second, over that of a
copy.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

CALL = Callable[[], object]
LEAST_SECONDS = 5e-3  # of one measurement: shorter calls are repeated
REST_SECONDS = 60e-3  # before each: ONNX Runtime's threads spin for 40 ms after a call, on the cores of the next

parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
parser.add_argument("--elements", type=int, nargs="+", default=[1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26])
parser.add_argument("--lines", nargs="+", help="names of lines; by default all")
parser.add_argument("--peers", nargs="+", help="names of peers; by default all that are installed")
parser.add_argument("--repeats", type=int, default=7)
arguments = parser.parse_args()

# The libraries read these when they are loaded.
os.environ["DMLGRAPH_THREADS"] = str(arguments.threads)
# JAX takes as many threads as NPROC says, whatever its flags say of them.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC"):
    os.environ[variable] = str(arguments.threads)
os.environ["XLA_FLAGS"] = (
    f"--xla_cpu_multi_thread_eigen={'true' if arguments.threads > 1 else 'false'} "
    f"intra_op_parallelism_threads={arguments.threads}"
)

import numpy as np  # noqa: E402
from cpu_lines import LINES, Line  # noqa: E402
from cpu_peers import PEERS  # noqa: E402


def copy_bandwidth(elements: int, threads: int, repeats: int) -> float:
    """Bytes that a copy of float32 reads and writes per second: by one thread or by all, whichever is faster."""
    source, target = np.ones(elements, np.float32), np.empty(elements, np.float32)
    cuts = np.linspace(0, elements, threads + 1).astype(int)
    parts = [(target[start:end], source[start:end]) for start, end in itertools.pairwise(cuts)]
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        ways: dict[str, CALL] = {
            "alone": lambda: np.copyto(target, source),
            "together": lambda: list(pool.map(_copy, parts)),
        }
        return 2 * source.nbytes / min(measure(ways, repeats).values())


def _copy(part: tuple[np.ndarray, np.ndarray]) -> None:
    np.copyto(*part)


def measure(ways: Mapping[str, CALL], repeats: int) -> dict[str, float]:
    """Median seconds of each way, in interleaved rounds."""
    calls = {name: _calls(way) for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            time.sleep(REST_SECONDS)
            _seconds(way, calls[name])  # wakes the threads, which may take a millisecond, and fills the caches
            times[name].append(_seconds(way, calls[name]))
    return {name: statistics.median(each) for name, each in times.items()}


def _calls(way: CALL) -> int:
    """How often to call it for one measurement; this also warms it up."""
    way()
    return max(1, int(LEAST_SECONDS / max(_seconds(way, 1), 1e-7)))


def _seconds(way: CALL, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        way()
    return (time.perf_counter() - start) / calls


def ways_of(line: Line, elements: int, peers: Sequence[str]) -> tuple[dict[str, CALL], int]:
    """Everything that computes a line, after a check that the results agree; and the least bytes of memory traffic."""
    inputs = line.inputs(elements)
    graph = line.graph(inputs)
    executable = graph.compile("cpu")
    given = {node.name: inputs[node.name] for node in graph.inputs}
    out = {name: np.empty(value.sizes, value.dtype.numpy) for name, value in graph.outputs.items()}
    bound = executable.bind(given, out)
    ways: dict[str, CALL] = {"bound": bound, "run": lambda: executable.run(given)}
    bound()
    (expected,) = out.values()
    for name in peers:
        way = PEERS[name](line, inputs, arguments.threads)
        if way is None:
            continue
        got = np.asarray(way()).reshape(expected.shape)
        error = np.abs(got.astype(np.float64) - expected.astype(np.float64)).max()
        scale = np.abs(expected.astype(np.float64)).max()
        assert error <= line.tolerance * max(scale, 1), f"{line.name}: {name} differs by {error} of {scale}"
        ways[name] = way
    moved = sum(array.nbytes for array in given.values()) + sum(array.nbytes for array in out.values())
    return ways, moved


def main() -> None:
    installed = [name for name, peer in PEERS.items() if peer.is_installed()]
    missing = [name for name in PEERS if name not in installed]
    peers = [name for name in installed if arguments.peers is None or name in arguments.peers]
    lines = [line for line in LINES if arguments.lines is None or line.name in arguments.lines]
    print(f"{arguments.threads} threads; not installed: {', '.join(missing) or 'none'}")
    head = f"{'line':<14}{'elements':>12}{'bound':>12}{'run':>12}{'of copy':>9}"
    print(head + "".join(f"{name:>13}" for name in peers))
    for elements in arguments.elements:
        bandwidth = copy_bandwidth(elements, arguments.threads, arguments.repeats)
        print(f"{'copy':<14}{elements:>12,}{bandwidth / 1e9:>18.1f} GB/s")
        for line in lines:
            ways, moved = ways_of(line, elements, peers)
            seconds = measure(ways, arguments.repeats)
            cells = f"{line.name:<14}{elements:>12,}{_time(seconds['bound']):>12}{_time(seconds['run']):>12}"
            cells += f"{moved / seconds['bound'] / bandwidth:>8.0%} "
            for name in peers:
                ours = seconds["bound" if PEERS[name].writes_in_place else "run"]
                cells += f"{seconds[name] / ours:>12.2f}×" if name in seconds else f"{'—':>13}"
            print(cells, flush=True)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.2f} ms"


if __name__ == "__main__":
    main()
