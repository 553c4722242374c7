"""Ways round a node that a device computes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.faulty_device import Call, faulty

import dmlgraph as dg
from dmlgraph.devices import with_permissions
from dmlgraph.doctor.cut import cut_node
from dmlgraph.doctor.shrink import shrink
from dmlgraph.doctor.trials import Trials
from dmlgraph.doctor.ways import How, Treatment, treat, ways, workaround_for
from dmlgraph.formats.yaml import dumps

Array = np.ndarray[Any, Any]
NORM = "mean_variance_normalization2"
X = np.random.default_rng(0).normal(0, 1, (2, 3, 4, 24)).astype(np.float16)


def tower(layers: int = 2) -> dg.Graph:
    """RMS normalizations of float16 with what is between them."""
    g = dg.Graph("tower")
    x = v = g.input("x", sizes=X.shape, dtype="float16")
    for index in range(layers):
        v = dg.mean_variance_normalization2(
            v, axes=[3], use_mean=False, use_variance=True, epsilon=1e-5, name=f"norm{index}"
        )
        v = dg.activation_relu(v + x, name=f"relu{index}")
    g.output("y", v)
    return g


def treated(graph: dg.Graph, node: str, trials: Trials, inputs: dict[str, Array]) -> Treatment:
    return treat(graph, [node], inputs, trials, shrink(*cut_node(graph, node, inputs), trials.is_wrong))


def results(found: Treatment) -> dict[str, str]:
    return {each.way.name: each.result for each in found.tried}


def test_a_normalization_that_is_wrong_in_float16() -> None:
    def is_wrong(call: Call) -> bool:
        return call.operator.name == NORM and call.right[0].dtype == np.float16

    trials = Trials(faulty(is_wrong))
    found = treated(tower(), "norm0", trials, {"x": X})
    assert found.before.is_wrong
    assert results(found) == {
        "without metacommands": "the case is still wrong",
        "not fused": "the whole graph is still wrong",
        "apart": "the whole graph is still wrong",
        "activation_apart": "not possible: it has no fused activation",
        "other_version": "not possible: no other version has all of its fields at feature level 6.4",
        "inputs_copied": "the case is still wrong",
        "output_copied": "the case is still wrong",
        "aligned": "the whole graph is still wrong",
        "channels_last": "the whole graph is still wrong",
        "float32": "the whole graph is right",
        "decomposed": "the whole graph is right",
        "in two executions": "the whole graph is still wrong",
    }
    assert found.best is not None
    assert found.best.way.name == "float32"
    last = dumps(found.graph()).splitlines()[-1]
    assert last == (
        "- {device: directml, adapter: Faulty 3000, driver: {from: 31.0.15, below: 31.0.16}, "
        "nodes: {norm0: float32, norm1: float32}}"
    )
    assert trials.run_whole(dg.loads(dumps(found.graph())), {"x": X}).is_right
    assert found.detoured is not None
    assert trials.run_whole(dg.loads(dumps(found.detoured)), {"x": X}).is_right


def test_one_node_of_several_goes_round_where_that_is_enough() -> None:
    def is_wrong(call: Call) -> bool:  # of what only the first one reads
        return call.operator.name == NORM and call.given[0].tobytes() == X.tobytes()

    g = tower()
    found = treat(g, ["norm0"], {"x": X}, Trials(faulty(is_wrong)))
    assert found.best is not None
    assert list(found.best.workaround.nodes) == ["norm0"]


def test_a_fused_node_is_taken_apart() -> None:
    """Wrong is only what has an activation: without the rule, or with the node apart, there is none."""
    g = dg.Graph("fused")
    x = g.input("x", sizes=[3, 4], dtype="float32")
    y = dg.gemm(x, g.constant("w", np.eye(4, dtype=np.float32)), name="product")
    g.output("y", dg.activation_relu(y, name="relu"))

    def is_wrong(call: Call) -> bool:
        return call.operator.attributes.get("fused_activation") is not None

    found = treat(g, ["product"], {"x": np.ones((3, 4), np.float32)}, Trials(faulty(is_wrong)))
    helpful = [each.way.name for each in found.tried if each.helps]
    assert {"without fuse_activation", "not fused", "apart"} <= set(helpful)
    assert found.best is not None
    assert found.best.way.name == helpful[0] == "without fuse_activation"
    assert found.graph().origin.workarounds[0].without == ("fuse_activation",)


def test_the_fewest_dispatches_win() -> None:
    g = dg.Graph("soft")
    g.output("y", dg.activation_softmax(g.input("x", sizes=[3, 20], dtype="float32"), name="y"))
    x = np.random.default_rng(1).normal(size=(3, 20)).astype(np.float32)
    found = treated(g, "y", Trials(faulty(lambda call: call.operator.name == "activation_softmax")), {"x": x})
    assert found.best is not None
    assert found.best.way.name == "other_version"
    cost = {each.way.name: each.whole.dispatches for each in found.tried if each.helps and each.whole}
    assert cost == {"other_version": 1, "decomposed": 5}


def test_nothing_helps_where_everything_is_wrong() -> None:
    g = dg.Graph("all")
    g.output("y", dg.exp(g.input("x", sizes=[3, 20], dtype="float32"), name="y"))
    found = treated(g, "y", Trials(faulty(lambda _: True)), {"x": np.ones((3, 20), np.float32)})
    assert found.best is None
    assert found.detoured is None
    with pytest.raises(LookupError):
        found.graph()


def test_another_wrong_node_is_told_from_one_that_no_way_helps() -> None:
    """What helps the normalization leaves the sums wrong."""

    def tried(*wrong: str) -> Treatment:
        trials = Trials(faulty(lambda call: call.operator.name in wrong and call.right[0].dtype == np.float16))
        return treated(tower(1), "norm0", trials, {"x": X})

    found = tried(NORM, "add", "add1")
    assert found.advised is None
    assert found.elsewhere is not None
    assert found.elsewhere.way.name == "float32"
    assert results(found)["float32"] == "the whole graph is still wrong"
    assert tried(NORM).elsewhere is None


def test_half_precision_is_a_way_only_where_it_was_permitted() -> None:
    choice = faulty(lambda _: True)
    names = [each.name for each in ways(tower(), ["norm0"], Trials(choice))]
    assert "without half precision" not in names
    permitted = with_permissions(choice, metacommands=False, half_precision=True)
    names = [each.name for each in ways(tower(), ["norm0"], Trials(permitted))]
    assert names[0] == "without half precision"


def test_a_fault_that_the_outputs_hide_is_judged_by_the_case() -> None:
    """The clip behind the node takes everything away: every way seems to help the whole graph."""
    g = dg.Graph("hidden")
    x = g.input("x", sizes=[3, 20], dtype="float32")
    g.output("y", dg.clip(dg.activation_softmax(x, name="soft"), min=0, max=0))
    wrong = faulty(lambda call: call.operator.name == "activation_softmax")
    found = treated(g, "soft", Trials(wrong), {"x": np.ones((3, 20), np.float32)})
    assert found.before.is_right
    assert [each.way.name for each in found.tried if found.is_proved(each)] == ["other_version", "decomposed"]


@pytest.mark.parametrize(("driver", "below"), [("31.0.0", "31.0.1"), ("1.0.0.0", "1.0.0.1"), ("7", "8")])
def test_the_next_version_of_a_driver(driver: str, below: str) -> None:
    choice = faulty(lambda _: True)
    choice.device.driver_version = driver
    assert workaround_for(choice).driver_below == below
    assert workaround_for(choice).is_for(choice.device)


def test_a_workaround_is_for_this_driver_alone() -> None:
    found = workaround_for(faulty(lambda _: True))
    assert (found.device, found.adapter, found.driver_from, found.driver_below) == (
        "directml",
        "Faulty 3000",
        "31.0.15",
        "31.0.16",
    )
    assert found.is_for(faulty(lambda _: True).device)


def squares() -> dg.Graph:
    """Three functions one after another, and a sum with what is read first."""
    g = dg.Graph("squares")
    x = g.input("x", sizes=[3, 8], dtype="float32")
    a = dg.exp(x, name="a")
    b = dg.sin(a, name="b")
    c = dg.tanh(b, name="c")
    g.output("y", dg.add(c, x, name="d"))
    return g


Y = {"x": np.random.default_rng(3).normal(size=(3, 8)).astype(np.float32)}


@pytest.mark.parametrize(("hidden", "with_output"), [("b", "b"), ("a", "a")])
def test_ways_round_what_is_wrong_only_in_the_whole(hidden: str, with_output: str) -> None:
    """A value that lies in memory which another one needs: unless it is an output, or it is copied."""

    def is_wrong(call: Call) -> bool:
        names = {each.name for each in call.graph.nodes}
        inner = names - {each.name for each in call.graph.outputs}
        return call.operator.name == "tanh" and hidden in inner and {"a", "b", "c", "d"} == names - {"x"}

    found = treat(squares(), ["a", "b", "c"], Y, Trials(faulty(is_wrong)))
    assert found.before.is_wrong
    told = results(found)
    assert told["not fused"] == told["apart"] == "the whole graph is still wrong"
    assert told["in two executions"] == told["with an output more"] == "the whole graph is right"
    assert found.best is not None
    assert found.best.way.how is How.IN_FILE
    trials = Trials(faulty(is_wrong))
    assert trials.run_whole(dg.loads(dumps(found.graph())), Y).is_right
    tried = next(each for each in found.tried if each.way.how is How.WITH_OUTPUTS)
    assert tried.graph is not None
    assert set(tried.graph.outputs) == {"y", with_output}


def test_an_output_more_is_written_where_no_workaround_helps() -> None:
    def is_wrong(call: Call) -> bool:
        return call.operator.name == "add" and not {"a", "b", "c"} & {each.name for each in call.graph.outputs}

    found = treat(squares(), ["b", "c"], Y, Trials(faulty(is_wrong)))
    assert found.best is None
    assert found.detoured is not None
    assert list(found.detoured.outputs) == ["y", "b"]
    assert Trials(faulty(is_wrong)).run_whole(dg.loads(dumps(found.detoured)), Y).is_right


def test_where_nothing_is_known_only_what_holds_for_all_is_tried() -> None:
    found = treat(squares(), [], Y, Trials(faulty(lambda _: True)))
    assert [each.way.name for each in found.tried] == ["without metacommands", "not fused"]
