"""Dims that cannot change any more: a saved graph says it, so that its file refuses another value, too."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps, loads


def trained() -> dg.Graph:
    """A graph that is minimized for a batch of 1: its gradients would also run for more, and be wrong."""
    g = dg.Graph("line", dims={"batch": 1, "unused": 3}, allow=["unused-dim"])
    x = g.input("x", sizes=["batch", 1], dtype="float32")
    w = g.state("w", sizes=[1, 1], dtype="float32")
    loss = dg.losses.mean_squared_error(x @ w, x)
    g.output("loss", loss)
    g.minimize(loss, ["w"], optimizer=dg.SGD(0.25))
    return g


def test_a_minimized_graph_keeps_its_dims_in_a_file() -> None:
    text = dumps(trained())
    for change in (lambda: loads(text, dims={"batch": 8}), lambda: loads(text).with_dims({"batch": 8})):
        with raises(dg.DmlGraphError, "fixed-dim", field="dims.batch", got=8):
            change()
    same = loads(text, dims={"batch": 1})
    assert dumps(same) == text
    exe = same.compile("reference")
    exe.run({"x": np.full((1, 1), 2, np.float32)})
    assert exe.states["w"].item() == 0.25 * 2 * 2 * 2  # w - rate * 2 * (w * x - x) * x


def test_so_do_graphs_of_other_processes() -> None:
    again = pickle.loads(pickle.dumps(trained()))
    assert again.origin.fixed == trained().origin.fixed
    exe = pickle.loads(pickle.dumps(trained().compile("reference")))
    assert exe.run({"x": np.ones((1, 1), np.float32)})["loss"].item() == 1


TEXT = """dmlgraph: 1
dims: {batch: 4}
fixed: {batch: copies}
inputs: {x: {dtype: float32, sizes: [batch]}}
nodes: {y: {op: exp, input: x}}
outputs: [y]
"""


@pytest.mark.parametrize(
    ("fixed", "code", "column"),
    [("{batsh: copies}", "unknown-dim", 9), ("{batch: 3}", "kind", 16), ("[batch]", "kind", 8)],
)
def test_mistakes_have_places(fixed: str, code: str, column: int) -> None:
    loads(TEXT)
    with pytest.raises(dg.DocumentError) as caught:
        loads(TEXT.replace("{batch: copies}", fixed))
    (problem,) = caught.value.problems
    assert problem.location is not None
    assert (problem.code, problem.location.line, problem.location.column) == (code, 3, column)
