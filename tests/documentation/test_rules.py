"""Every rule of the passes applies to its example in docs/rules/, and keeps the results as exact as it declares."""

from __future__ import annotations

import pytest
from support.pages import DOCS
from support.passes.perturbed import assert_fused

import dmlgraph as dg
from dmlgraph.compiler.views import COPY
from dmlgraph.measure.inputs import complete
from dmlgraph.passes import RULES, fuse

SAVE_BYTES = {"join_of_products", "sum_of_products"}  # with more nodes, which do not copy what is joined
EXAMPLES = {path.stem: path for path in sorted((DOCS / "rules").glob("*.yaml"))}


def test_every_rule_has_an_example() -> None:
    assert set(EXAMPLES) == set(RULES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_rule_fires_and_no_other_is_needed(name: str) -> None:
    fused = fuse(dg.load(EXAMPLES[name]), rules=[name])
    assert {entry.rule for entry in fused.record if entry.applied} - {COPY} == {name}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_results_stay_as_they_are(name: str, seed: int) -> None:
    graph = dg.load(EXAMPLES[name])
    inputs, _ = complete(graph, {}, seed)
    assert_fused(graph, inputs, fuse(graph, rules=[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_graph_gets_no_larger(name: str) -> None:
    """Not counting constants, there are at most as many nodes as before, and usually fewer; or far fewer bytes."""
    graph = dg.load(EXAMPLES[name])
    before, after = (written(graph.lower(fuse=rules)) for rules in (False, [name]))
    if name in SAVE_BYTES:
        assert sum(after) < sum(before) / 10
    else:
        assert len(after) <= len(before)


def written(desc: dg.GraphDesc) -> list[int]:
    """The bytes that each operator writes."""
    operators = [node.operator for node in desc.nodes if hasattr(node, "operator")]
    return [sum(each.total_bytes for each in operator.output_descs if each is not None) for operator in operators]
