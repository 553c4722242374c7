"""The cost of compiling the native code: processor time and memory of every compiler process, by target.

    python benchmarks/build_time.py [--jobs 1] [--files 10] [--define DMLGRAPH_NATIVE_TESTS=ON …]

Configures `native/` in a fresh folder as `pip install .` does, without a compiler cache, and builds it with one job.
`seconds` is the processor time, user and system; `peak` the memory of the target's largest compiler process in MiB.
Processor time hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

NATIVE = pathlib.Path(__file__).parent.parent / "native"
MEASURE = "--measure-compiler"  # CMake starts this script with it before every compilation


class Compilation(NamedTuple):
    output: str
    seconds: float
    peak_mib: float


def processor_seconds(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def measure(log: str, command: list[str]) -> int:
    """Runs a compiler and adds one line about it to the log."""
    code = subprocess.call(command)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = command[command.index("-o") + 1] if "-o" in command else ""
    line = Compilation(output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return code


def target_of(compilation: Compilation) -> str:
    found = re.search(r"CMakeFiles/([^/]+)\.dir/", compilation.output)
    return found[1] if found else "?"


def seconds_of(compilations: Iterable[Compilation]) -> float:
    return sum(each.seconds for each in compilations)


def build(folder: pathlib.Path, jobs: int, defines: list[str]) -> tuple[float, list[Compilation]]:
    """Configures and builds in an empty folder; returns the processor seconds in total, and of each compilation."""
    log = folder / "compilers.jsonl"
    launcher = ";".join([sys.executable, str(pathlib.Path(__file__).resolve()), MEASURE, str(log)])
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=False, capture_output=True, text=True
    )
    configure = ["cmake", "-S", str(NATIVE), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"]
    configure += [f"-Dpybind11_DIR={pybind11.stdout.strip()}"] if pybind11.returncode == 0 else []
    configure += [f"-D{define}" for define in defines]
    before = processor_seconds(resource.RUSAGE_CHILDREN)
    for command in (configure, ["cmake", "--build", str(folder), "--parallel", str(jobs)]):
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout)
    seconds = processor_seconds(resource.RUSAGE_CHILDREN) - before
    return seconds, [Compilation(*json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="compilers at once")
    parser.add_argument("--files", type=int, default=10, help="how many of the slowest files are shown")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE", help="a variable of CMake")
    arguments = parser.parse_args()
    os.environ["CCACHE_DISABLE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        total, compilations = build(pathlib.Path(folder), arguments.jobs, arguments.define)
        wall = time.monotonic() - start
    targets: dict[str, list[Compilation]] = defaultdict(list)
    for compilation in compilations:
        targets[target_of(compilation)].append(compilation)
    print(f"{'target':32}{'files':>7}{'seconds':>9}{'peak':>7}")
    for target, group in sorted(targets.items(), key=lambda item: -seconds_of(item[1])):
        print(f"{target:32}{len(group):7}{seconds_of(group):9.1f}{max(each.peak_mib for each in group):7.0f}")
    print(f"{'all, with configuring and linking':39}{total:9.1f}")
    print(f"{'wall time':39}{wall:9.1f}")
    print()
    for each in sorted(compilations, key=lambda each: -each.seconds)[: arguments.files]:
        name = each.output.replace("CMakeFiles/", "").replace(".dir/", ": ")
        print(f"{each.seconds:6.1f} s {each.peak_mib:6.0f} MiB  {name}")


if __name__ == "__main__":
    if sys.argv[1:2] == [MEASURE]:
        sys.exit(measure(sys.argv[2], sys.argv[3:]))
    main()
