"""The graph of nearest_colours.yaml in Python: one graph for any number of colours, compiled for the given number.

    python examples/nearest_colours/nearest_colours.py

colours float32 [N, 1, 3] → index uint32 [N, 2, 1] and squared distance float32 [N, 2, 1].
"""

import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent
TABLE = {
    "black": (0, 0, 0),
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "white": (255, 255, 255),
}


def build() -> dg.Graph:
    g = dg.Graph("nearest_colours", target="5.0", dims={"N": 1})
    colours = g.input("colours", sizes=["N", 1, 3], dtype="float32")
    table = g.constant("table", np.float32([list(TABLE.values())]))
    squares = dg.reduce(colours - table, function="sum_square", axes=[2])
    distance, index = dg.top_k1(squares, axis=1, k=2, axis_direction="increasing")
    g.output("index", index)
    g.output("distance", distance)
    return g


if __name__ == "__main__":
    colours = np.load(FOLDER / "colours.npy")
    graph, names = build(), list(TABLE)
    for batch in (colours[:1], colours):  # a batch of one, then of all
        index = graph.compile(dims={"N": len(batch)}).run({"colours": batch})["index"]
        for colour, (nearest, second) in zip(batch[:, 0], index[:, :, 0], strict=True):
            print(f"{colour.astype(int)} is nearest to {names[nearest]}, then to {names[second]}")
