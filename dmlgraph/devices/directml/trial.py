"""Runs a small graph on a device and compares its values with ones calculated by hand.

    python -m dmlgraph.devices.directml.trial directml:software

The only argument is the device. The exit status is 0 if it works; otherwise standard error says what does not.
"""

from __future__ import annotations

import sys

import numpy as np

from dmlgraph import functions
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.devices import choose
from dmlgraph.devices.compile import compile_graph
from dmlgraph.graph.graph import Graph


def trial(device: str) -> str | None:
    """What does not work on a device; None if everything works."""
    graph = Graph("trial")
    x = graph.input("x", sizes=[1, 1, 2, 3], dtype="float32")
    ramp = graph.fill_value_sequence(sizes=[1, 1, 2, 3], dtype="float32", value_start=3, value_delta=2)
    graph.output("y", functions.activation_relu(x * ramp))
    data = np.array([-1, 0, 1, 2, -3, 0.5], np.float32).reshape(1, 1, 2, 3)
    try:
        with compile_graph(graph, choose(device)) as executable:
            found = executable.run({"x": data})["y"].ravel().tolist()
    except DmlGraphError as error:
        return str(error)
    expected = [0.0, 0.0, 7.0, 18.0, 0.0, 6.5]
    return None if found == expected else f"it gives {found}, not {expected}"


if __name__ == "__main__":
    sys.exit(trial(sys.argv[1]))
