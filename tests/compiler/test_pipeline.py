"""The driver: which rules run, how often, and the record."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from support.passes.fusing import applied, operators, target_of
from support.problems import raises

import dmlgraph as dg
from dmlgraph.compiler import pipeline
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.pipeline import MAX_ROUNDS, REWRITES_PER_NODE, Pass
from dmlgraph.compiler.rule import Declined, New, Outcome, Rewrite, rule
from dmlgraph.compiler.verify import verify
from dmlgraph.devices.directml.target import PASSES
from dmlgraph.operators.element_wise import Abs, Add, Exp, Identity, Negate, Sqrt
from dmlgraph.passes import RULES, fuse


def chain(*functions: object) -> dg.Graph:
    """Functions of x, one after another."""
    g = dg.Graph("chain")
    x = g.input("x", sizes=[3], dtype="float32")
    for function in functions:
        x = function(x)  # type: ignore[operator]
    g.output("y", x)
    return g


@rule(Exp, effect="none: it is wrong")
def exp_to_sqrt(_: IrGraph, node: IrNode) -> Outcome:
    """exp → sqrt."""
    return Rewrite.of(New(Sqrt, {"input": node.operand("input")}), "there")


@rule(Sqrt, effect="none: it is wrong")
def sqrt_to_exp(_: IrGraph, node: IrNode) -> Outcome:
    """sqrt → exp."""
    return Rewrite.of(New(Exp, {"input": node.operand("input")}), "and back")


@rule(Abs, effect="none: it is wrong")
def doubling(_: IrGraph, node: IrNode) -> Outcome:
    """abs → abs of abs: never ends."""
    return Rewrite.of(New(Abs, {"input": New(Abs, {"input": node.operand("input")})}), "more")


@rule(Negate, effect="none", default=False)
def optional(_: IrGraph, node: IrNode) -> Outcome:
    """negate → abs, off by default."""
    return Rewrite.of(New(Abs, {"input": node.operand("input")}), "asked for")


class TestBounds:
    def test_rules_of_one_pass_that_undo_one_another_stop(self):
        graph = chain(dg.exp, dg.exp)
        result = pipeline.fuse(graph, target_of(Pass("circle", [exp_to_sqrt, sqrt_to_exp])), check=verify)
        assert len(applied(result)) == REWRITES_PER_NODE * 3  # the input counts

    def test_passes_that_undo_one_another_stop(self):
        target = target_of(Pass("there", [exp_to_sqrt]), Pass("back", [sqrt_to_exp]))
        result = pipeline.fuse(chain(dg.exp), target, check=verify)
        assert applied(result) == ["exp_to_sqrt", "sqrt_to_exp"] * MAX_ROUNDS
        assert operators(result) == ["exp"]

    def test_a_rule_that_always_makes_more_stops(self):
        result = pipeline.fuse(chain(dg.abs), target_of(Pass("more", [doubling])), check=verify)
        assert len(applied(result)) == REWRITES_PER_NODE * 2
        assert len(operators(result)) == REWRITES_PER_NODE * 2 + 1

    def test_it_ends_where_nothing_changes(self):
        seen = []
        fuse(chain(dg.exp), check=lambda ir: seen.append(len(ir)))
        assert seen == [2] * len(PASSES)

    def test_a_pass_wakes_those_before_it(self):
        target = target_of(Pass("second", [sqrt_to_exp]), Pass("first", [optional, doubling_of_identity]))
        result = pipeline.fuse(chain(dg.identity), target, check=verify)
        assert operators(result) == ["exp"]


@rule(Identity, effect="none: it is wrong")
def doubling_of_identity(_: IrGraph, node: IrNode) -> Outcome:
    """identity → sqrt."""
    return Rewrite.of(New(Sqrt, {"input": node.operand("input")}), "a way back to the pass before")


class TestChoice:
    GRAPH = chain(lambda x: dg.exp(x) + dg.exp(x), dg.negate, dg.negate)

    def test_none(self):
        assert fuse(self.GRAPH, rules=False).record == ()
        assert operators(fuse(self.GRAPH, rules=[])) == ["exp", "exp", "add", "negate", "negate"]

    @pytest.mark.parametrize("asked", [["share"], ("share",), {"share"}, "share", iter(["share"])])
    def test_by_name(self, asked: object):
        result = fuse(self.GRAPH, rules=asked)  # type: ignore[arg-type]
        assert set(applied(result)) == {"share"}
        assert operators(result) == ["exp", "add", "negate", "negate"]

    def test_rules_that_are_off_run_only_where_they_are_asked_for(self):
        target = target_of(Pass("optional", [optional]))
        graph = chain(dg.negate)
        assert operators(pipeline.fuse(graph, target)) == ["negate"]
        assert operators(pipeline.fuse(graph, target, frozenset(["optional"]))) == ["abs"]

    def test_an_unknown_rule_is_told_with_the_nearest(self):
        with pytest.raises(dg.DmlGraphError) as caught:
            fuse(self.GRAPH, rules=["shaer"])
        (problem,) = caught.value.problems
        assert (problem.field, problem.got) == ("fuse", "shaer")
        assert "share" in str(problem.hint)
        assert "remove_copy" in str(problem.allowed)

    @pytest.mark.parametrize("asked", [7, None, 1.5])
    def test_something_else_is_an_error(self, asked: object):
        with raises(dg.DmlGraphError, "kind", field="fuse", got=asked):
            fuse(self.GRAPH, rules=asked)  # type: ignore[arg-type]

    def test_compile_and_lower_pass_it_on(self):
        for fused, count in ((False, 5), (["share"], 4)):
            assert len(self.GRAPH.lower(fuse=fused).nodes) == count
            assert self.GRAPH.compile("reference", fuse=fused).stats["nodes"] == count
        with raises(dg.DmlGraphError, "unknown-rule", field="fuse", got="nothing"):
            self.GRAPH.compile("reference", fuse=["nothing"])

    def test_names_are_unique_and_effects_are_said(self):
        names = [each.name for family in PASSES for each in family.rules]
        assert len(names) == len(set(names)) == len(RULES)
        for each in RULES.values():
            assert each.effect
            assert each.summary.endswith((".", ":")), each.name


class TestRecord:
    @staticmethod
    @rule(Add, effect="none")
    def declining(ir: IrGraph, node: IrNode) -> Outcome:
        """Matches a sum and declines."""
        del ir, node
        raise Declined("it is a sum")

    def test_what_was_done_then_what_was_not(self):
        graph = chain(dg.exp, lambda x: x + x)
        result = pipeline.fuse(graph, target_of(Pass("both", [self.declining, exp_to_sqrt])))
        assert [(entry.rule, entry.applied) for entry in result.record] == [("exp_to_sqrt", True), ("declining", False)]
        assert result.explain() == "exp_to_sqrt: exp → exp: there\nnot declining at add: it is a sum\n"

    def test_declined_once_a_node_however_often_it_was_looked_at(self):
        graph = chain(dg.exp, lambda x: x + x, lambda x: x + x)
        result = pipeline.fuse(graph, target_of(Pass("both", [self.declining]), Pass("other", [exp_to_sqrt])))
        assert [entry.node for entry in result.record if not entry.applied] == ["add", "add_1"]

    def test_nothing_is_said_of_nodes_that_are_no_more(self):
        @rule(Exp, effect="none")
        def refusing(ir: IrGraph, node: IrNode) -> Outcome:
            """Declines always."""
            del ir, node
            raise Declined("no")

        result = pipeline.fuse(chain(dg.exp, dg.abs), target_of(Pass("one", [refusing]), Pass("two", [swallow])))
        assert operators(result) == ["abs"]
        assert all(entry.applied for entry in result.record)

    def test_the_executable_keeps_it(self):
        executable = TestChoice.GRAPH.compile("reference", fuse=["share"])
        assert [entry.rule for entry in executable.fusion if entry.applied] == ["share"]


@rule(Abs, effect="none: it is wrong")
def swallow(ir: IrGraph, node: IrNode) -> Outcome:
    """abs(exp(x)) → abs(x)."""
    found = ir.made_by(node.operand("input"), Exp)
    return None if found is None else Rewrite.of(New(Abs, {"input": found.operand("input")}), "gone")


def test_what_would_be_illegal_is_declined_with_the_reason():
    @rule(Exp, effect="none")
    def wrong_type(ir: IrGraph, node: IrNode) -> Outcome:
        """exp → a sum of different sizes."""
        small = ir.inputs[0].name
        operand = node.operand("input")
        assert operand is not None
        assert small == "x"
        other = operand._replace(desc=operand.desc.like(dtype="float16"))
        return Rewrite.of(New(Add, {"a": operand, "b": other}), "never")

    result = pipeline.fuse(chain(dg.exp), target_of(Pass("wrong", [wrong_type])), check=verify)
    (entry,) = result.record
    assert not entry.applied
    assert "dtype" in entry.why
    assert operators(result) == ["exp"]


def test_the_source_graph_stays_as_it_was():
    graph = chain(dg.exp, lambda x: x * 2.0, dg.activation_relu)
    before = str(graph.lower(fuse=False))
    fuse(graph)
    assert str(graph.lower(fuse=False)) == before


def test_a_fused_graph_cannot_be_saved_as_onnx(tmp_path: pathlib.Path):
    fused = fuse(chain(dg.exp)).graph
    with raises(dg.DmlGraphError, "fused-graph", hint="save the graph before fusing"):
        fused.save(tmp_path / "fused.onnx")


def test_inputs_stay_and_keep_their_order():
    g = dg.Graph()
    x, unused = (g.input(name, sizes=[2], dtype="int32") for name in ("x", "unused"))
    g.output("y", dg.multiply(x, 0))
    dg.exp(dg.cast(unused, dtype="float32"))  # no output depends on it
    result = fuse(g, check=verify)
    assert [node.name for node in result.graph.inputs] == ["x", "unused"]
    data = {name: np.array([1, 2], np.int32) for name in ("x", "unused")}
    assert not g.compile("reference").run(data)["y"].any()
