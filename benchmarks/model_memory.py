"""The memory of a process that loads, compiles and runs a model's file, on `cpu` and in ONNX Runtime.

    python benchmarks/model_memory.py [--networks vgg19 transformer …] [--threads 1]

Each library reads each of the networks of models.py in a process of its own, once with the weights in the model's file
and once with external data.  "peak" is the most memory until the first run has ended, and "steady" what is used then,
both less what was used when the library had been imported; "files" is the part of the steady memory that is pages of
files, which the system takes back when it needs memory.  "imported" is what was subtracted.  Numbers are MB.  The
networks need onnx; ONNX Runtime must be installed.  Only Linux tells these numbers.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np


def memory(key: str) -> float:
    """A line of /proc/self/status, in MB."""
    lines = pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(each.split()[1]) for each in lines if each.startswith(f"{key}:")) / 1024


def device(path: str, threads: int) -> tuple[float, Callable[[dict[str, np.ndarray]], object]]:
    import dmlgraph as dg
    import dmlgraph.devices.cpu.executable
    import dmlgraph.formats.onnx.importer

    before = memory("VmRSS")
    return before, dg.load(path).compile("cpu", threads=threads).run


def onnxruntime(path: str, threads: int) -> tuple[float, Callable[[dict[str, np.ndarray]], object]]:
    import onnxruntime

    before = memory("VmRSS")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return before, lambda feed: session.run(None, feed)


LIBRARIES = {"cpu": device, "onnxruntime": onnxruntime}


def measure(library: str, path: str, inputs: str, threads: int) -> dict[str, float]:
    with np.load(inputs) as arrays:
        feed = dict(arrays)
    before, run = LIBRARIES[library](path, threads)
    run(feed)
    used = {"peak": memory("VmHWM"), "steady": memory("VmRSS")}
    return {**{key: each - before for key, each in used.items()}, "files": memory("RssFile"), "imported": before}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=["resnet50", "vgg19", "transformer"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", nargs=3, metavar=("LIBRARY", "MODEL", "INPUTS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure, arguments.threads)))
        return
    import onnx
    from models import NETWORKS

    columns = ("peak", "steady", "files", "imported")
    print(f"{'':42}" + "".join(f"{each:>10}" for each in columns))
    for name in arguments.networks:
        network = NETWORKS[name]()
        for external in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                path, inputs = pathlib.Path(folder) / "model.onnx", pathlib.Path(folder) / "inputs.npz"
                model = onnx.load(network.file(pathlib.Path(folder)))  # saving moves its weights
                onnx.save_model(model, path, save_as_external_data=external, location="weights.bin")
                np.savez(inputs, **network.inputs)
                for library in LIBRARIES:
                    command = [sys.executable, __file__, "--threads", str(arguments.threads), "--measure"]
                    command += [library, str(path), str(inputs)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    found = json.loads(done.stdout)
                    title = f"{name}{', external data' if external else ''}"
                    print(f"{title:30}{library:12}" + "".join(f"{found[each]:10.0f}" for each in columns), flush=True)


if __name__ == "__main__":
    main()
