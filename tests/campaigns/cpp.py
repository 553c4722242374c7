"""Random graphs as exported C++, some with states: the same bits as Python's executable on the software adapter.

Each case compiles a program, which takes seconds.
"""

from __future__ import annotations

import pathlib
import random
import tempfile

from support.cpp_export import Program, assert_same_bits, missing
from support.random_graphs import FOCUSES, LEVELS, graph_of

import dmlgraph as dg
from campaigns.campaign import Campaign
from campaigns.states import planned, rebuilt
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats import cpp

LEVEL = FeatureLevel.V6_2  # of the library for Linux
STEPS = 3


def one_case(seed: int) -> str | None:
    reason = missing()
    if reason is not None:
        return reason
    dice, focuses = random.Random(seed), sorted(FOCUSES)
    sample = graph_of(seed, focuses[seed % len(focuses)], LEVELS[seed // len(focuses) % len(LEVELS)])
    graph, inputs, steps, fuse = sample.graph, dict(sample.inputs), 1, dice.random() < 0.5
    if dice.random() < 0.5:
        plan, steps = planned(graph, dice), STEPS
        graph = rebuilt(graph, plan, inputs, stateful=True)
        inputs = {name: array for name, array in inputs.items() if name not in plan.next_values}
    try:
        with graph.compile("directml:software", fuse=fuse) as executable:
            if steps == 1:
                expected = executable.run(inputs)
            else:
                expected = executable.run(inputs, steps=steps, collect=list(graph.outputs))
    except dg.DmlGraphError:
        return None  # the device cannot run it
    with tempfile.TemporaryDirectory() as folder:
        cpp.save(graph, folder, fuse=fuse, level=LEVEL)
        assert_same_bits(Program(pathlib.Path(folder)).run(graph, inputs, steps=steps), expected)
    return None


CAMPAIGN = Campaign("cpp", "random graphs as exported C++: the same bits as on directml:software", one_case)
