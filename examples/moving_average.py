"""The graph of moving_average.yaml in Python: the background of a video, and what moves before it.

    python examples/moving_average.py

frame uint8 [1, 1, height, width] → background float32 and moves uint8 of these sizes.  A dot moves over a grey picture;
it prints how many pixels move in each frame.
"""

import numpy as np

import dmlgraph as dg


def build(height: int = 2, width: int = 3) -> dg.Graph:
    g = dg.Graph("moving_average", target="5.0", dims={"height": height, "width": width})
    sizes = [1, 1, "height", "width"]
    frame = g.input("frame", sizes=sizes, dtype="uint8")
    mean = g.state("mean", sizes=sizes, dtype="float32")
    change = dg.cast(frame, dtype="float32") - mean
    background = mean + dg.identity(change, scale_bias={"scale": 0.1, "bias": 0})
    g.update(mean, background)
    much = g.fill_value_constant(sizes=[1, 1, 1, 1], dtype="float32", value=30)
    g.output("background", background)
    g.output("moves", dg.abs(change) > much)
    return g


if __name__ == "__main__":
    exe = build(16, 16).compile()
    exe.states["mean"] = np.full((1, 1, 16, 16), 100, np.float32)  # a background that is known
    for step in range(6):
        frame = np.full((1, 1, 16, 16), 100, np.uint8)
        frame[0, 0, 4:7, 2 * step : 2 * step + 3] = 220
        results = exe.run({"frame": frame})
        print(f"{results['moves'].sum()} pixels move, the mean of the background is {results['background'].mean():.2f}")
