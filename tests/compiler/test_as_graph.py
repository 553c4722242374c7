"""Fused graphs as graphs that can be saved: the same DML_GRAPH_DESC, the same bits, and not fused again."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.problems import raises
from support.random_graphs import FOCUSES, graph_of

import dmlgraph as dg
from dmlgraph import passes
from dmlgraph.cli.commands import main
from dmlgraph.compiler.as_graph import as_graph
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.devices import choose
from dmlgraph.devices.compile import compile_ir

EXAMPLES = pathlib.Path(__file__).parent.parent.parent / "examples"


def attention() -> dg.Graph:
    """Transposes, slices and broadcasts, which fusion makes strides, and activations, which it takes into products."""
    g = dg.Graph("attention")
    x = g.input("x", sizes=[1, 4, 6], dtype="float32")
    w = g.constant("w", np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6))
    q = dg.gemm(x.reshape(1, 1, 4, 6), w.reshape(1, 1, 6, 6), name="q").reshape(4, 2, 3).transpose(1, 0, 2)
    q = q.reshape(1, 2, 4, 3)
    scores = dg.gemm(q, q[:, :, ::2], trans_b="transpose", name="scores")
    g.output("y", dg.activation_relu(dg.gemm(scores, q[:, :, :2]) * 2 + 1))
    g.output("row", x[:, 0])
    return g


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.usefixtures("directml_path")
def test_a_saved_fused_graph_runs_the_same_bits_and_is_not_fused_again(device: Any, tmp_path: pathlib.Path) -> None:
    g, path = attention(), tmp_path / "fused.yaml"
    fused = passes.fuse(g).graph
    fused.save(path)
    again = dg.load(path)
    assert again.origin.fused
    assert not [entry for entry in passes.fuse(again).record if entry.applied]
    x = np.random.default_rng(0).standard_normal((1, 4, 6)).astype(np.float32)
    with compile_ir(fused, choose(device)) as executable:
        expected = executable.run({"x": x})
    with again.compile(device) as executable:
        got = executable.run({"x": x})
        assert not [entry for entry in executable.fusion if entry.applied]
    for name, array in expected.items():
        assert got[name].tobytes() == array.tobytes()
    with g.compile("reference", fuse=False) as executable:
        np.testing.assert_allclose(got["y"], executable.run({"x": x})["y"], rtol=1e-5, atol=1e-5)


def test_rules_of_a_fused_graph_are_refused(tmp_path: pathlib.Path) -> None:
    passes.fuse(attention()).graph.save(tmp_path / "fused.yaml")
    g = dg.load(tmp_path / "fused.yaml")
    for call in (lambda: g.compile("reference", fuse=["share"]), lambda: passes.fuse(g, rules=["share"])):
        with raises(dg.GraphError, "conflict", field="fuse", got="share"):
            call()
    unnamed: list[Any] = [True, False, []]
    for fuse in unnamed:
        g.compile("reference", fuse=fuse).close()


# A strided buffer that is an output of other sizes: no view of a strided value is an output without a copy.
UNEXPRESSED = {("views", 5)}


@pytest.mark.parametrize("focus", FOCUSES)
def test_random_fused_graphs_become_the_same(focus: str) -> None:
    """`as_graph` compares the DML_GRAPH_DESC."""
    for seed in range(8):
        fused = passes.fuse(graph_of(seed, focus).graph).graph
        if (focus, seed) in UNEXPRESSED:
            with raises(dg.GraphError, "fused-graph"):
                as_graph(fused)
        else:
            assert as_graph(fused).lower().outputs


def test_states_stay_states(tmp_path: pathlib.Path) -> None:
    g = dg.Graph()
    total = g.state("total", sizes=[2], dtype="float32", initial=1)
    rows = g.state("rows", sizes=[4, 2], dtype="float32", grows=0)
    x = g.input("x", sizes=[2], dtype="float32")
    g.update(total, dg.activation_relu(total + x))
    g.append(rows, x.reshape(1, 2))
    g.output("y", total * dg.cast(rows.length, dtype="float32"))
    passes.fuse(g).graph.save(tmp_path / "fused.yaml")
    again = dg.load(tmp_path / "fused.yaml")
    with again.compile("cpu") as executable:
        found = [executable.run({"x": np.array([1, -3], np.float32)})["y"].tolist() for _ in range(3)]
    assert found == [[0, 0], [2, 0], [6, 0]]


def test_the_command_writes_fused_graphs(tmp_path: pathlib.Path) -> None:
    digits, runner = str(EXAMPLES / "digits" / "digits.yaml"), CliRunner()
    for name in ("fused.yaml", "fused.json", "fused.onnx"):
        done = runner.invoke(main, ["export", digits, "-o", str(tmp_path / name), "--fuse"])
        assert done.exit_code == (2 if name == "fused.onnx" else 0), done.output
    nodes = [node.operator.name for node in dg.load(digits).lower().nodes if isinstance(node, OperatorDescNode)]
    for made in (dg.load(tmp_path / "fused.yaml"), dg.load_dxdispatch(tmp_path / "fused.json")):
        lowered = made.lower(fuse=False).nodes
        assert [node.operator.name for node in lowered if isinstance(node, OperatorDescNode)] == nodes
    assert len(nodes) < len(dg.load(digits).lower(fuse=False).nodes)
    told = runner.invoke(main, ["lower", str(tmp_path / "fused.yaml"), "--explain"])
    assert told.output.startswith("# nothing is fused: the file says that it is fused\n")


def test_fused_is_true_or_false(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(
        "dmlgraph: 1\nfused: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n", encoding="utf-8"
    )
    with raises(dg.DocumentError, "kind", field="fused", got=1):
        dg.load(path)
