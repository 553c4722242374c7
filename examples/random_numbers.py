"""The graph of random_numbers.yaml in Python, and what its state is good for.

    python examples/random_numbers.py

Every run makes other numbers.  A state that is kept makes the same ones again; a copy goes on by itself.
"""

import dmlgraph as dg


def build(count: int = 4, seed: int = 42) -> dg.Graph:
    g = dg.Graph("random_numbers", target="5.0", dims={"count": count})
    random = g.state("random", sizes=[6], dtype="uint32", initial=[0, 0, 0, 0, seed, 0])
    bits = dg.random_generator(random, output={"sizes": ["count"]})
    g.update(random, bits.output_state)
    upper = dg.bit_shift_right(bits.output, g.fill_value_constant(sizes=[1], dtype="uint32", value=9))
    whole = dg.cast(upper, dtype="float32")
    g.output("numbers", dg.identity(whole, scale_bias={"scale": 2**-23, "bias": 2**-24}))
    return g


if __name__ == "__main__":
    exe = build().compile()
    print(exe.run()["numbers"])
    kept = exe.states["random"]
    print(exe.run()["numbers"])
    exe.states["random"] = kept
    print(exe.run()["numbers"], "again")
    means = exe.run(steps=1000, collect=["numbers"])["numbers"].mean(axis=0)
    print(means.round(2), "on average of 1000 runs")
