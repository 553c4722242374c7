"""Two builds of this package beside one another: is the second one slower anywhere?

    python benchmarks/two_builds.py BEFORE AFTER [--threads 1] [--groups lines …] [--cases resnet18 …] [--rounds 9]

BEFORE and AFTER are Python programs, each of an environment with one build.  Both make the graphs of this folder's
benchmarks in processes of their own, which take turns: while one runs, the other waits.  A time is the least of all
rounds, each of them the shortest of some calls in a row; a ratio is that of AFTER over that of BEFORE, and the mean of
ratios is the geometric one.  Cases above --above are measured a second time, with four times the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

Call = Callable[[], object]
ROW = 0.004  # seconds of calls in a row, at the least three


def line_cases(threads: int) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Those of cpu.py."""
    from cpu_lines import LINES

    def make(line: object, elements: int) -> Call:
        inputs = line.inputs(elements)  # type: ignore[attr-defined]
        graph = line.graph(inputs)  # type: ignore[attr-defined]
        executable = graph.compile("cpu", threads=threads)
        inputs = {node.name: inputs[node.name] for node in graph.inputs}
        return executable.bind(inputs, executable.run(inputs))  # type: ignore[no-any-return]

    for line in LINES:
        for elements in (1 << 10, 1 << 16, 1 << 20):
            yield f"{line.name}-{elements}", functools.partial(make, line, elements)


def layer_cases(threads: int) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Those of networks.py."""
    from networks import LAYERS, arrays_of, device_call

    for name, layer in LAYERS.items():
        yield name, lambda layer=layer: device_call(layer, arrays_of(layer), threads)


def recurrent_cases(threads: int) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Those of recurrent.py."""
    from recurrent import LAYERS, arrays_of, device_call

    for name, layer in LAYERS.items():
        yield name, lambda layer=layer: device_call(layer, arrays_of(layer), threads)[0]


def model_cases(threads: int) -> Iterator[tuple[str, Callable[[], Call]]]:
    """The networks of networks.py."""
    from models import NETWORKS, PACKAGED

    import dmlgraph as dg

    def make(network: Callable[[], object]) -> Call:
        made = network()
        with tempfile.TemporaryDirectory() as folder:
            path = made.file(pathlib.Path(folder))  # type: ignore[attr-defined]
            graph = dg.load(path, dims=made.dims, values=made.values)  # type: ignore[attr-defined]
        executable = graph.compile("cpu", threads=threads)
        return executable.bind(made.inputs, executable.run(made.inputs))  # type: ignore[attr-defined]

    for name, network in (NETWORKS | PACKAGED).items():
        yield name, functools.partial(make, network)


def random_cases(threads: int) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Some of random_layers.py, the same ones each time."""
    import onnx
    from random_layers import KINDS, Chance, TooLargeError

    import dmlgraph as dg

    def make(kind: str, seed: int) -> Call:
        draft = KINDS[kind](Chance(seed))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "case.onnx"
            onnx.save(draft.model(), path)
            executable = dg.load(path).compile("cpu", threads=threads)
        inputs = {f"x{i}": each for i, each in enumerate(draft.inputs)}
        return executable.bind(inputs, executable.run(inputs))

    for kind in KINDS:
        for seed in range(12):
            with contextlib.suppress(TooLargeError):
                KINDS[kind](Chance(seed))
                yield f"{kind}-{seed}", functools.partial(make, kind, seed)


GROUPS: dict[str, Callable[[int], Iterator[tuple[str, Callable[[], Call]]]]] = {
    "lines": line_cases,
    "layers": layer_cases,
    "recurrent": recurrent_cases,
    "models": model_cases,
    "random": random_cases,
}


def work(group: str, threads: int) -> None:
    """Answers each line with the name of a case: by "ready" the first time, then by its least seconds."""
    cases = dict(GROUPS[group](threads))
    print(*cases, sep="\t", flush=True)  # names have spaces
    made: tuple[str, Call] | None = None
    for text in sys.stdin:
        name = text.strip()
        if made is None or made[0] != name:
            made = None  # frees its memory
            made = name, cases[name]()
            made[1]()
            print("ready", flush=True)
            continue
        end, count, least = time.perf_counter() + ROW, 0, math.inf
        while count < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            made[1]()
            least = min(least, time.perf_counter() - start)
            count += 1
        print(least, flush=True)


class Build:
    """A process with one build."""

    def __init__(self, python: str, group: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--work", group, "--threads", str(threads), python, python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"DMLGRAPH_THREADS": str(threads)},
        )
        self.names = self._answer().split("\t")

    def ask(self, name: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a process ended")
        return answer.strip()


def measured(builds: tuple[Build, Build], name: str, rounds: int) -> tuple[float, float]:
    """The least seconds of a case, before and after."""
    least = [math.inf, math.inf]
    for round_ in range(rounds):
        for index in (0, 1) if round_ % 2 else (1, 0):
            least[index] = min(least[index], float(builds[index].ask(name)))
    return least[0], least[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--above", type=float, default=1.05, metavar="RATIO")
    parser.add_argument("--work", choices=GROUPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.threads)
        return
    for group in arguments.groups:
        builds = Build(arguments.before, group, arguments.threads), Build(arguments.after, group, arguments.threads)
        ratios = {}
        for name in builds[0].names:
            if arguments.cases and name not in arguments.cases:
                continue
            for build in builds:
                build.ask(name)
            before, after = measured(builds, name, arguments.rounds)
            if after > arguments.above * before:
                again = measured(builds, name, 4 * arguments.rounds)
                before, after = min(before, again[0]), min(after, again[1])
            ratio = ratios[name] = after / before
            if ratio > arguments.above:
                print(f"  {name:36} {before * 1e6:10.1f} µs → {after * 1e6:10.1f} µs  {ratio:5.2f}", flush=True)
        for build in builds:
            build.close()
        if ratios:
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            worst = max(ratios, key=ratios.__getitem__)
            print(f"{group}: {len(ratios)} cases, mean {mean:.3f}, worst {ratios[worst]:.2f}: {worst}", flush=True)


if __name__ == "__main__":
    main()
