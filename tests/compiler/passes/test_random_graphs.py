"""Random graphs: fusing does not change their results, on the reference and on the real DirectML."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.passes.fusing import target_of
from support.passes.perturbed import approximated, assert_fused, assert_near, is_exact, is_finite
from support.random_graphs import FOCUSES, graph_of, graphs
from support.sketches import TYPES, Sample

from dmlgraph.base.tensor import DataType
from dmlgraph.compiler import pipeline
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.passes.canonical import joined
from dmlgraph.compiler.pipeline import Pass
from dmlgraph.compiler.rule import Constant, Differs, New, Outcome, Rewrite, Rule, rule
from dmlgraph.compiler.verify import verify
from dmlgraph.compiler.views import COPY
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, ScaleBias
from dmlgraph.operators.convolution import Convolution
from dmlgraph.operators.element_wise import Add, Divide, Identity, Multiply
from dmlgraph.passes import RULES, Fused, fuse

EXAMPLES_A_FOCUS = 120  # of 7: 840 graphs; the campaign `graphs` tries others
SEEDS = range(75)
ON_DIRECTML = 16  # graphs per focus
DIRECTML_LEVEL = "6.2"  # the level of the library for Linux


class Verifier:
    """Verifies an IR after each pass that changed something."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def __call__(self, ir: IrGraph) -> None:
        contents = {node.name: id(node.content) for node in ir}
        if contents != self._seen:
            self._seen = contents
            verify(ir)


@pytest.fixture(autouse=True, scope="module")
def small_joins() -> Iterator[None]:
    """Products of joins are taken apart however small these are: random graphs have no large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined, "LEAST", 4)
        yield


@pytest.mark.parametrize("focus", FOCUSES)
@settings(max_examples=EXAMPLES_A_FOCUS)
@given(data=st.data())
def test_fused_graphs_compute_the_same(focus: str, data: st.DataObject):
    sample = data.draw(graphs(focus))
    assert_fused(sample.graph, sample.inputs, fuse(sample.graph, check=Verifier()))


@pytest.mark.parametrize("focus", FOCUSES)
@settings(max_examples=40)
@given(data=st.data())
def test_exact_rules_keep_every_bit(focus: str, data: st.DataObject):
    sample = data.draw(graphs(focus))
    exact = [name for name, each in RULES.items() if is_exact(each)]
    fused = fuse(sample.graph, rules=exact)
    assert {entry.rule for entry in fused.record} <= {*exact, COPY}
    assert_fused(sample.graph, sample.inputs, fused)


@functools.cache
def fixed() -> list[tuple[Sample, Fused]]:
    """The same graphs every time, of every focus, with the results of fusing."""
    samples = [graph_of(seed, focus) for focus in FOCUSES for seed in SEEDS]
    return [(sample, fuse(sample.graph)) for sample in samples]


def test_the_graphs_have_every_family_and_data_type():
    operators = [n.operator for sample, _ in fixed() for n in sample.graph.nodes if isinstance(n, OperatorNode)]
    assert {each.family for each in operators} == {each.family for each in REGISTRY.values()}
    assert {desc.dtype for each in operators for desc in each.output_descs if desc} >= set(TYPES)


def test_every_rule_that_is_on_fires():
    fired = collections.Counter(entry.rule for _, fused in fixed() for entry in fused.record if entry.applied)
    missing = [name for name, each in RULES.items() if each.default and not fired[name]]
    assert not missing, f"no graph of {len(fixed())} makes these fire"


# The comparison finds mistakes: rules that do more than they claim.


@rule(Multiply, effect="at most 2 ULP", differs=Differs.ROUNDED)
def scales_wrongly(ir: IrGraph, node: IrNode) -> Outcome:
    """x · c → x · 1.001c."""
    number, x = ir.number(node.operand("b")), node.operand("a")
    if number is None or x is None or x.desc.dtype is not DataType.FLOAT32 or not np.isfinite(number.value):
        return None
    scale = ScaleBias(scale=float(number.value * np.float32(1.001)), bias=-0.0)
    return Rewrite.of(New(Identity, {"input": x}, {"scale_bias": scale}), "wrong")


@rule(Add, effect="at most 2 ULP", differs=Differs.ROUNDED)
def drops_a_bias(ir: IrGraph, node: IrNode) -> Outcome:
    """convolution + b → convolution."""
    a = node.operand("a")
    return Rewrite.of(a, "wrong") if a is not None and ir.made_by(a, Convolution) else None


@rule(Add, effect="bit-exact")
def loses_the_sign_of_zeros(ir: IrGraph, node: IrNode) -> Outcome:
    """x + 0.0 → x, although −0.0 + 0.0 is 0.0."""
    a, number = node.operand("a"), ir.number(node.operand("b"))
    is_zero = number is not None and number.dtype.is_float and number.bits == 0
    return Rewrite.of(New(Identity, {"input": a}), "wrong") if is_zero and a is not None else None


@rule(Multiply, effect="bit-exact")
def rounds_otherwise(ir: IrGraph, node: IrNode) -> Outcome:
    """x · 0.1 → x / 10."""
    a, number = node.operand("a"), ir.number(node.operand("b"))
    if a is None or number is None or not number.dtype.is_float or number.value != number.dtype.numpy.type(0.1):
        return None
    ten = Constant(np.full(1, 10, a.desc.dtype.numpy), a.desc.sizes)
    return Rewrite.of(New(Divide, {"a": a, "b": ten}), "wrong")


@pytest.mark.parametrize(
    "mistake", [scales_wrongly, drops_a_bias, loses_the_sign_of_zeros, rounds_otherwise], ids=lambda each: each.name
)
def test_a_rule_that_does_more_than_it_says_is_found(mistake: Rule):
    found, applied = 0, 0
    for sample, _ in fixed():
        fused = pipeline.fuse(sample.graph, target_of(Pass("mistake", [mistake])))
        if any(entry.applied for entry in fused.record):
            applied += 1
            try:
                assert_fused(sample.graph, sample.inputs, fused, {mistake.name: mistake})
            except AssertionError:
                found += 1
    assert applied, "no graph has the pattern"
    assert found, f"nothing was seen in {applied} graphs"


# The real DirectML.


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("focus", FOCUSES)
def test_fused_graphs_compute_the_same_on_directml(focus: str):
    """Finite ones: the tests of the rules cover NaN and infinities on DirectML."""
    seeds = itertools.count(1000)
    compared = 0
    while compared < ON_DIRECTML:
        seed = next(seeds)
        sample = graph_of(seed, focus, DIRECTML_LEVEL)
        if is_finite(sample.graph, sample.inputs):
            _compare_on_directml(sample, f"graph_of({seed}, {focus!r}, {DIRECTML_LEVEL!r})")
            compared += 1


def _compare_on_directml(sample: Sample, what: str) -> None:
    """Fused and unfused are as close as approximations at every node allow."""
    graph = sample.graph
    runs = approximated(graph, sample.inputs)
    after = graph.compile("directml:software").run(sample.inputs)
    before = graph.compile("directml:software", fuse=False).run(sample.inputs)
    for name in graph.outputs:
        assert_near(after[name], before[name], [each[name] for each in runs], f"{what}: output '{name}'")
