"""The names of devices.

Made by tools/generate.py from the modules of the devices: change those, not this file.
"""

from typing import Literal

# What `Graph.compile` takes; an index may be that of any adapter that `dmlgraph devices` lists.
DeviceName = Literal[
    "auto",
    "cpu",
    "reference",
    "directml",
    "directml:software",
    "directml:0",
    "directml:1",
    "directml:2",
    "directml:3",
]

# Each name with what it stands for.
NAMES: dict[str, str] = {
    "auto": "the best device of this machine",
    "cpu": "runs networks natively, fused, on several threads; rare operators in NumPy",
    "reference": "evaluates every operator in NumPy, node by node",
    "directml": "DirectML on the first adapter",
    "directml:software": "DirectML on the processor",
    "directml:0": "DirectML on the adapter with the index 0",
    "directml:1": "DirectML on the adapter with the index 1",
    "directml:2": "DirectML on the adapter with the index 2",
    "directml:3": "DirectML on the adapter with the index 3",
}
