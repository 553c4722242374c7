"""Where constants lie in weights.bin, and lengths and rows of states in scratch memory."""

from __future__ import annotations

import numpy as np

import dmlgraph as dg
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.formats.cpp.layout import Growth, Scratch, Weights, aligned
from dmlgraph.formats.cpp.lowered import lowered


def lowered_graph(graph: dg.Graph) -> GraphDesc:
    return lowered(graph, fuse=False, level=None).desc


def sums(*counts: int) -> dg.Graph:
    """An input plus constants of so many floats."""
    g = dg.Graph("sums")
    for index, count in enumerate(counts):
        x = g.input(f"x{index}", sizes=[count], dtype="float32")
        g.output(f"y{index}", x + g.constant(f"w{index}", np.arange(count, dtype=np.float32)))
    return g


def test_aligned() -> None:
    assert [aligned(offset, 16) for offset in (0, 1, 16, 17)] == [0, 16, 16, 32]


def test_constants_lie_one_behind_the_other() -> None:
    weights = Weights([lowered_graph(sums(17, 20))])  # 68 and 80 bytes: larger than a constant node's data
    assert [(block.offset, block.bytes, block.stays) for block in weights.blocks] == [(0, 80 + 80, False)]
    assert [(place.block, place.offset) for place in weights.contents[0].places.values()] == [(0, 0), (0, 80)]
    assert weights.bytes == 256


def test_constants_that_do_not_fit_a_buffer_have_others() -> None:
    weights = Weights([lowered_graph(sums(17, 20, 25))], most_bytes=160)
    assert [(block.offset, block.bytes) for block in weights.blocks] == [(0, 160), (256, 100)]
    contents = weights.contents[0]
    assert [contents.offset(name) for name in contents.places] == [0, 80, 256]
    whole = bytearray(weights.bytes)
    for offset, part in weights.parts():
        whole[offset : offset + part.nbytes] = part.tobytes()
    assert np.frombuffer(whole[256:356], np.float32).tolist() == list(range(25))


def growing() -> dg.Graph:
    """Two states that grow, one of them with a length that is read, and two that are replaced."""
    g = dg.Graph("states", dims={"capacity": 6})
    keys = g.state("keys", sizes=[2, "capacity", 3], dtype="float16", grows=1)
    g.append(keys, g.input("rows", sizes=[2, 2, 3], dtype="float16"))
    other = g.state("other", sizes=["capacity"], dtype="float32", grows=0)
    g.append(other, g.input("row", sizes=[1], dtype="float32"))
    total = g.state("total", sizes=[2], dtype="float32", initial=[1, 2])
    zeros = g.state("zeros", sizes=[2], dtype="float32")
    g.update(total, total + zeros)
    g.output("length", dg.identity(keys.length))
    return g


def test_scratch_has_lengths_and_then_rows() -> None:
    scratch = Scratch(lowered_graph(growing()))
    assert scratch.staging_bytes == 4 * 16
    assert list(scratch.lengths.values()) == [0, 16]  # of the first two of four states
    assert list(scratch.rows.values()) == [256, 512]
    assert scratch.bytes == 512 + 4


def test_growth() -> None:
    graph = lowered_graph(growing())
    weights = Weights([graph]).contents[0]
    found = {state.name: Growth.of(state, graph, weights.state_desc(state)) for state in graph.states}
    assert found["keys"] == Growth(blocks=2, row_bytes=6, capacity=6, rows=2)
    assert found["other"] == Growth(blocks=1, row_bytes=4, capacity=6, rows=1)
    assert found["total"].rows == 0


def test_only_what_is_not_zero_at_first_is_in_the_file() -> None:
    weights = Weights([lowered_graph(growing())])
    assert weights.contents[0].initial == {"total": 0}
    assert [(offset, part.view(np.float32).tolist()) for offset, part in weights.parts()] == [(0, [1, 2])]


def test_a_graph_without_constants_has_an_empty_file() -> None:
    g = dg.Graph("ramp")
    g.output("y", g.fill_value_sequence(sizes=[3], dtype="float32", value_start=1, value_delta=1))
    weights = Weights([lowered_graph(g)])
    assert (weights.blocks, weights.bytes, list(weights.parts())) == ([], 0, [])


def test_what_several_graphs_have_lies_in_the_file_once() -> None:
    first, second = (lowered(sums(17, count), fuse=False, level=None, shared=True).desc for count in (20, 25))
    weights = Weights([first, second])
    places = [[(place.block, place.offset) for place in each.places.values()] for each in weights.contents]
    assert places == [[(0, 0), (0, 80)], [(0, 0), (0, 160)]]
    assert [(block.bytes, block.stays) for block in weights.blocks] == [(160 + 100, True)]
    assert [(offset, part.nbytes) for offset, part in weights.parts()] == [(0, 68), (80, 80), (160, 100)]


def test_what_states_of_several_graphs_hold_at_first_lies_in_the_file_once() -> None:
    graph = lowered_graph(growing())
    weights = Weights([graph, graph])
    assert [each.initial for each in weights.contents] == [{"total": 0}, {"total": 0}]
    assert weights.bytes == 256
