"""The cost of starting: a fresh process that imports dmlgraph, and short commands, compared with importing NumPy.

    python benchmarks/start_up.py [--repeats 10] [--json start_up.json]

Each line is the least processor time, user and system, of some fresh processes, minus that of one that does nothing;
`ratio` is relative to NumPy's.  Processor time and ratios hardly depend on the load of the machine.

import numpy          the measure of all the others
import dmlgraph       the package alone
first operator        one operator added to a graph: its family, NumPy, Pydantic
every operator        the classes of all of them
--version             the command line
completion            a TAB behind a command's option, as the shell runs it
check                 a graph of a few nodes, read, checked and lowered without fusion
run                   a graph of a few nodes, read, fused, compiled for the processor and run
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).parent.parent
FIRST = "import dmlgraph as dg; x = dg.Graph().input('x', sizes=[2], dtype='float32'); dg.multiply(x, x)"
EVERY = "from dmlgraph.operators import REGISTRY; list(REGISTRY.values())"
COMMAND = ("-c", "import sys; sys.argv[0] = 'dmlgraph'; from dmlgraph.cli.command import main; main()")
RAMP = ROOT / "examples" / "ramp.yaml"
TAB = {"_DMLGRAPH_COMPLETE": "bash_complete", "COMP_WORDS": "dmlgraph run g.yaml --de", "COMP_CWORD": "3"}
NUMPY = "import numpy"

# Arguments of the interpreter, and variables of its environment.
CASES: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
    NUMPY: (("-c", NUMPY), {}),
    "import dmlgraph": (("-c", "import dmlgraph"), {}),
    "first operator": (("-c", FIRST), {}),
    "every operator": (("-c", EVERY), {}),
    "--version": ((*COMMAND, "--version"), {}),
    "completion": (COMMAND, TAB),
    "check": ((*COMMAND, "check", str(RAMP)), {}),
    "run": ((*COMMAND, "run", str(RAMP), "--input", f"x={RAMP.with_suffix('.x.npy')}", "--device", "cpu"), {}),
}


def processor_seconds(arguments: Sequence[str], variables: Mapping[str, str]) -> float:
    """The processor time of one fresh interpreter, including its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(repeats: int) -> dict[str, float]:
    """The least processor seconds of each case; cases are interleaved, so that a busy period affects all."""
    least = dict.fromkeys(("nothing", *CASES), float("inf"))
    for _ in range(repeats):
        for name, (arguments, variables) in {"nothing": (("-c", ""), {}), **CASES}.items():
            least[name] = min(least[name], processor_seconds(arguments, variables))
    nothing = least.pop("nothing")
    return {name: seconds - nothing for name, seconds in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the seconds there, too")
    arguments = parser.parse_args()
    measured = measure(arguments.repeats)
    for name, seconds in measured.items():
        print(f"{name:<16}  {seconds:6.3f} s  ratio {seconds / measured[NUMPY]:5.2f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(measured, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
