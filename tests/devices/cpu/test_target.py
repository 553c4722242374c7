"""What `cpu` absorbs: fusing never makes a node run by its definition in NumPy that runs natively without fusion."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from compiler.passes.directml.test_activations import HOSTS, OTHERS, X
from operators.test_fused_activation import FUSABLE as TABLE
from support.cpu.plans import kinds
from support.pages import DOCS
from support.passes.fusing import of_one
from support.random_graphs import graph_of

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.passes.directml.activations import is_fusable
from dmlgraph.compiler.pipeline import Pass, fuse
from dmlgraph.compiler.rule import New, Outcome, Rewrite, rule
from dmlgraph.compiler.target import refuses_nothing
from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.cpu.target import absorption_refusal
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.measure.inputs import complete
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.common.element_wise import ScaledUnary
from dmlgraph.operators.element_wise import Abs
from dmlgraph.operators.normalization import LocalResponseNormalization

Array = np.ndarray[Any, Any]
Definitions = frozenset[str]

REQUIRED: dict[str, dict[str, Any]] = {
    "threshold": {"min": 0},
    "clip": {"min": 0.5, "max": 6},
    "clip1": {"min": 0.5, "max": 6},
    **{name: attributes for name, (attributes, *_) in TABLE.items()},
    "activation_softmax1": {"axes": [3]},
    "constant_pow": {"exponent": 3},
    "round": {"rounding_mode": "halves_to_nearest_even"},
}
ONE_CHANNEL = ("activation_softmax",)  # needs tensors whose sizes except the last two are 1
SCALED = tuple(each.name for each in REGISTRY.values() if issubclass(each, ScaledUnary))
SOFTMAXES = ("activation_softmax", "activation_softmax1")


@pytest.fixture
def definitions(monkeypatch: pytest.MonkeyPatch) -> Callable[[dg.Graph, dict[str, Array], bool], Definitions]:
    """The operators whose `evaluate`, or `apply` for fused ones, a run of a graph on `cpu` calls."""
    called: set[str] = set()

    def watch(cls: type[Operator], method: str) -> None:
        original = getattr(cls, method)

        @functools.wraps(original)
        def run(self: Operator, *given: Any) -> Any:
            called.add(type(self).name)
            return original(self, *given)

        monkeypatch.setattr(cls, method, run)

    for cls in REGISTRY.values():
        for method in ("evaluate", "apply"):
            if method in vars(cls) or hasattr(cls, method):
                watch(cls, method)

    def of_run(graph: dg.Graph, inputs: dict[str, Array], fuse: bool) -> Definitions:
        executable = graph.compile("cpu", fuse=fuse)  # passes and plans may evaluate, too
        called.clear()
        executable.run(inputs)
        return frozenset(called)

    return of_run


def applied_to(name: str, value: dg.Value) -> Any:
    return getattr(dg, name)(value, **REQUIRED.get(name, {}))


def hosted(host: str, name: str, dtype: str) -> tuple[dg.Graph, dict[str, Array]]:
    """activation(host(x))."""
    x = (X[:, :1] if name in ONE_CHANNEL else X).astype(dtype)

    def build(g: dg.Graph, x: dg.Value) -> dg.Value:
        if name in ONE_CHANNEL and host == "gemm":
            return applied_to(name, dg.gemm(x, g.constant("w", np.eye(4, dtype=dtype)[None, None])))
        return applied_to(name, HOSTS[host](g, x))

    return of_one(build, x), {"x": x}


FUSABLE = [each for each in REGISTRY.values() if is_fusable(each)]
PAIRS = [(host, each.name) for host in HOSTS for each in FUSABLE if host == "gemm" or each.name not in ONE_CHANNEL]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("host", "activation"), PAIRS)
def test_activations(host: str, activation: str, dtype: str, definitions: Any) -> None:
    graph, inputs = hosted(host, activation, dtype)
    assert definitions(graph, inputs, True) <= definitions(graph, inputs, False)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_activation_by_name(host: str, name: str, definitions: Any) -> None:
    graph = of_one(lambda g, x: OTHERS[name][0](g, HOSTS[host](g, x)), X)
    assert definitions(graph, {"x": X}, True) <= definitions(graph, {"x": X}, False)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", SCALED)
def test_a_scale_and_a_bias(name: str, dtype: str, definitions: Any) -> None:
    x = np.linspace(0.1, 0.4, 24).reshape(1, 2, 3, 4).astype(dtype)
    graph = of_one(lambda g, x: applied_to(name, x * 2 + 0.125), x)
    assert definitions(graph, {"x": x}, True) <= definitions(graph, {"x": x}, False) == frozenset()


@pytest.mark.parametrize("path", sorted((DOCS / "rules").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_rule(path: pathlib.Path, definitions: Any) -> None:
    graph = dg.load(path)
    inputs, _ = complete(graph, {}, 0)
    assert definitions(graph, inputs, True) <= definitions(graph, inputs, False)


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs(seed: int, definitions: Any) -> None:
    sample = graph_of(seed)
    if not sample.tame:  # numbers that are not finite are left to the definitions, fused or not
        sample = graph_of(seed + 10_000)
    assert definitions(sample.graph, sample.inputs, True) <= definitions(sample.graph, sample.inputs, False)


def operators(desc: dg.GraphDesc) -> list[str]:
    return [node.operator.name for node in desc.nodes if isinstance(node, OperatorDescNode)]


@pytest.mark.parametrize("name", SOFTMAXES)
def test_gemm_absorbs_softmax(name: str) -> None:
    graph, inputs = hosted("gemm", name, "float32")
    fused, reference = graph.compile("cpu"), graph.compile("reference")
    assert operators(reference.graph) == operators(fused.graph) == ["gemm"]
    np.testing.assert_allclose(fused.run(inputs)["y"], reference.run(inputs)["y"], rtol=1e-5)


def test_a_training_normalization_absorbs_an_activation() -> None:
    graph, inputs = hosted("batch_normalization_training", "activation_relu", "float32")
    fused, reference = graph.compile("cpu"), graph.compile("reference")
    assert operators(reference.graph) == operators(fused.graph) == ["batch_normalization_training"]
    assert "python" not in kinds(fused)
    np.testing.assert_allclose(fused.run(inputs)["y"], reference.run(inputs)["y"], rtol=1e-5)


def line() -> dg.Graph:
    graph = dg.Graph("line")
    x, w, b = (graph.input(name, sizes=[2, 3, 4, 5], dtype="float32") for name in "xwb")
    graph.output("y", x * w + b)
    return graph


def test_only_the_rules_of_the_device_run_whatever_is_asked_for() -> None:
    executable = line().compile("cpu", fuse=["multiply_add"])
    assert executable.fusion == ()
    assert operators(executable.graph) == ["multiply", "add"]


def test_lower_shows_what_each_device_gets(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "line.yaml")
    line().save(path)
    said = {}
    for device in ("cpu", "reference"):
        result = CliRunner().invoke(main, ["lower", path, "--explain", "--device", device])
        assert result.exit_code == 0, result.output
        said[device] = result.stdout
    assert said["cpu"].startswith("# nothing to fuse\n")
    assert "ELEMENT_WISE_ADD\n" in said["cpu"]
    assert "\nregion [multiply, add]: x, w, b -> y\n" in said["cpu"]  # better than a normalization
    assert "# multiply_add: " in said["reference"]


@rule(Abs, effect="none: it is wrong")
def by_definition(_: IrGraph, node: IrNode) -> Outcome:
    """abs → an operator that `cpu` computes in NumPy."""
    attributes = {"cross_channel": True, "local_size": 1, "alpha": 1, "beta": 0, "bias": 1}
    return Rewrite.of(New(LocalResponseNormalization, {"input": node.operand("input")}, attributes), "never")


def test_what_runs_natively_is_not_replaced_by_a_definition() -> None:
    graph = of_one(lambda _, x: dg.abs(x), X)
    target = dataclasses.replace(CpuDevice().target, passes=(Pass("wrong", [by_definition]),))
    (entry,) = fuse(graph, target).record
    assert not entry.applied
    assert entry.why == "on 'cpu' local_response_normalization runs by its definition in NumPy, abs natively"
    made = fuse(graph, dataclasses.replace(target, absorption_refusal=refuses_nothing))
    assert [entry.applied for entry in made.record] == [True]
    (operator,) = (node.operator for node in made.graph.nodes if isinstance(node, OperatorNode))
    assert absorption_refusal(operator, operator) is None
