"""Rules: a rule does nothing where it states that it fits nowhere."""

from __future__ import annotations

import pytest
from support.random_graphs import FOCUSES, graph_of

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.rule import Differs
from dmlgraph.passes import RULES, fuse

SEEDS = range(60)


def ask_where_nothing_fits(ir: IrGraph) -> None:
    """Calls every rule at every node of its kinds for which `after` or `needs` does not hold."""
    for node in ir:
        for rule in RULES.values():
            if rule.anchors and node.kind not in rule.anchors:
                continue
            fits = rule.may_fit(set(ir.kinds)) and (not rule.after or not rule.after.isdisjoint(node.signature[1]))
            if not fits:
                assert rule.function(ir, node) is None, f"{rule.name} does something at {node.content}"


@pytest.mark.parametrize("focus", FOCUSES)
def test_a_rule_does_nothing_where_it_says_so(focus: str) -> None:
    for seed in SEEDS:
        fuse(graph_of(seed, focus).graph, check=ask_where_nothing_fits)


def test_rules_that_are_left_out_do_not_look_at_nodes() -> None:
    """Most rules state what they need, so that a graph without it costs nothing."""
    unbounded = {rule.name for rule in RULES.values() if not rule.anchors and not rule.needs}
    assert unbounded == {"share"}


def test_rules_differ_in_what_their_effect_says() -> None:
    """Comparisons use `differs`; people read `effect`."""
    for rule in RULES.values():
        assert bool(rule.differs) or "ULP" not in rule.effect, rule.name
        assert not rule.differs or rule.effect != "bit-exact", rule.name
        assert (Differs.CANCELS in rule.differs) == ("ULP of x" in rule.effect or "cancel" in rule.effect), rule.name
        assert Differs.NAN not in rule.differs or "NaN" in rule.effect, rule.name
        assert Differs.WIDENED not in rule.differs or "float16" in rule.effect, rule.name
