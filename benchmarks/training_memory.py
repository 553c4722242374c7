"""The peak memory of steps of training on the device `cpu`, beside JAX and, if it is installed, PyTorch.

    python benchmarks/training_memory.py [--threads 2] [--steps mlp-32 …] [--json FILE]

The steps are those of training.py.  Each library takes four of each in a process of its own.  A number is the most
memory of the process while the step is made and taken, VmHWM of /proc/self/status, less what it used when all libraries
had been imported, VmRSS; so weights, what the optimizer keeps, values between the passes and compiling count.  Numbers
are MB, and the ratio is the device's over the other library's: at most 1 is wanted.  Only Linux tells these numbers.
The number is nan where PyTorch's compiler fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

import training
from beside import geometric_mean
from model_memory import memory

STEPS = 4


def measure(library: str, case: str, threads: int) -> float:
    """The memory that a library needs for a step, in this process."""
    if training.TORCH:
        import pytorch_training  # noqa: F401
    name, batch = case.rsplit("-", 1)
    make = training.steps_of(name, int(batch), threads)[library]
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # VmHWM begins anew
    before = memory("VmRSS")
    step = make()
    for _ in range(STEPS):
        step()
    return memory("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", nargs="+", choices=training.CASES, default=list(training.CASES), metavar="NAME")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all numbers into a file")
    parser.add_argument("--measure", metavar="LIBRARY", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(measure(arguments.measure, arguments.steps[0], arguments.threads))
        return
    libraries = ["cpu", "jax", *training.TORCH]
    print(f"{'':20}" + "".join(f"{each:>10}" for each in libraries) + "".join(f"{'/ ' + e:>9}" for e in libraries[1:]))
    found: dict[str, dict[str, float]] = {}
    for case in arguments.steps:
        found[case] = {}
        for library in libraries:
            command = [sys.executable, __file__, "--measure", library, "--steps", case]
            command += ["--threads", str(arguments.threads)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode and library != "compiled":  # PyTorch's compiler fails at some networks
                raise SystemExit(done.stderr)
            found[case][library] = math.nan if done.returncode else float(done.stdout)
        own = found[case]["cpu"]
        ratios = "".join(f"{own / found[case][each]:9.2f}" for each in libraries[1:])
        print(f"{case:20}" + "".join(f"{each:10.1f}" for each in found[case].values()) + ratios, flush=True)
    for library in libraries[1:]:
        known = [each["cpu"] / each[library] for each in found.values() if not math.isnan(each[library])]
        if known:
            print(f"over {library}: geometric mean {geometric_mean(known):.2f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
