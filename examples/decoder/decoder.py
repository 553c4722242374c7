"""Runs decoder.yaml with random weights, and counts what it costs.

    python examples/decoder/decoder.py

The weights are given with the first run only: the device keeps them.  It prints the likeliest token after each of six,
and the number of dispatches without fusion and with it.
"""

import math
import pathlib

import numpy as np

import dmlgraph as dg

PATH = pathlib.Path(__file__).parent / "decoder.yaml"


def random_weights(graph: dg.Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """The owned inputs by name: float32, of sizes with which numbers neither grow nor vanish from layer to layer."""
    random = np.random.default_rng(seed)
    weights = {}
    for node in graph.inputs:
        if node.desc.owned:
            rows = node.desc.sizes[0]
            middle, spread = {"scale": (1, 0.1), "bias": (0, 0.1)}.get(
                node.name.split(".")[-1], (0, 1 / math.sqrt(rows))
            )
            weights[node.name] = random.normal(middle, spread, node.desc.sizes).astype(np.float32)
    return weights


if __name__ == "__main__":
    graph = dg.load(PATH, dims={"batch": 1, "length": 6, "layers": 12})
    executable = graph.compile()
    tokens = np.array([[3, 1, 4, 1, 5, 9]], np.uint32)
    logits = executable.run({"tokens": tokens} | random_weights(graph))["logits"]
    print(f"after {tokens[0]} come {logits[0].argmax(axis=1)}")
    logits = executable.run({"tokens": tokens[:, ::-1]})["logits"]
    print(f"after {tokens[0, ::-1]} come {logits[0].argmax(axis=1)}")
    plain, fused = (len(graph.lower(fuse=fuse).nodes) for fuse in (False, True))
    print(f"{plain} dispatches, {fused} after fusion")
