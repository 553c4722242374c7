"""What is laid over pictures: times, values, differences, fusion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.executable import Step
from dmlgraph.measure.diff import Side, inner_values
from dmlgraph.measure.ulp import compare
from dmlgraph.passes import fuse
from dmlgraph.picture import Mark, sources


def texts(marks: dict[str, Mark]) -> dict[str, str]:
    return {name: mark.text for name, mark in marks.items()}


def layer() -> dg.Graph:
    """A product with an activation, which fusion joins, and a logarithm."""
    g = dg.Graph("layer")
    x = g.input("x", sizes=[1, 2], dtype="float32")
    product = dg.gemm(x, g.constant("w", np.array([[1, -2], [3, 0]], np.float32)), name="product")
    g.output("y", dg.log(dg.activation_relu(product, name="bounded"), name="y"))
    return g


def test_times_of_nodes_that_run_together_stand_at_the_last() -> None:
    steps = [Step(("a",), "how", 0.0, 0.003, 4), Step(("b", "c"), "how", 0.003, 0.001, 4)]
    over = sources.times(steps, {"c": ("c", "d"), "a": ("a",)})
    assert texts(dict(over.marks)) == {
        "a": "3.00 ms, 75.0%", "b": "runs with c", "c": "1.00 ms, 25.0%", "d": "runs with c",
    }  # fmt: skip
    assert over.ends == (0.0, 0.003)
    assert over.joined([over.marks["a"], over.marks["b"], over.marks["c"]]).text == "4.00 ms, 100.0%"


def test_times_of_a_device_name_its_nodes() -> None:
    graph = layer()
    with graph.compile("cpu") as executable:
        steps = executable.profile({"x": np.ones((1, 2), np.float32)})
    assert steps is not None
    over = sources.times(steps, fuse(graph).origins)
    assert over.marks.keys() >= {"product", "bounded", "y"}
    assert sum(mark.number is not None for mark in over.marks.values()) == len(steps)


def test_values_have_their_range_and_what_is_not_a_number_is_an_alarm() -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "small": np.array([-0.5, 0.25], np.float32),
        "large": np.array([2, 100], np.int32),
        "zero": np.zeros(3, np.float32),
        "wrong": np.array([np.nan, np.inf, -np.inf, 1], np.float32),
        "nothing": np.array([np.nan], np.float16),
    }
    over = sources.values(arrays)
    assert texts(dict(over.marks)) == {
        "small": "-0.5 … 0.25", "large": "2 … 100", "zero": "0 … 0", "wrong": "1 … 1, 1 NaN, 2 ∞", "nothing": "1 NaN",
    }  # fmt: skip
    assert {name for name, mark in over.marks.items() if mark.alarm} == {"wrong", "nothing"}
    assert over.marks["large"].number == pytest.approx(2)
    assert over.look(over.marks["large"]) == "shade-5"
    assert over.look(over.marks["zero"]) == "plain"
    assert over.joined([over.marks["small"], over.marks["wrong"]]).alarm


def test_several_values_of_a_node_are_one_mark() -> None:
    over = sources.values([("a", np.ones(1)), ("a", np.full(1, 7.0)), ("a", np.zeros(1))])
    assert over.marks["a"].text == "7 … 7"


def test_inner_values_are_those_of_every_node() -> None:
    x = np.array([[1, 2]], np.float32)
    found = {
        source.node: array.tolist()
        for source, array in inner_values(layer(), Side(choose("cpu"), fuse=False), {"x": x})
    }
    assert found == {"product": [[7, -2]], "bounded": [[7, 0]], "y": [[np.log(np.float32(7)), -np.inf]]}


def test_inner_values_of_a_state_are_those_of_the_first_step() -> None:
    g = dg.Graph("g")
    s = g.state("s", sizes=[2], dtype="float32", initial=3)
    total = dg.add(s, g.input("x", sizes=[2], dtype="float32"), name="total")
    g.update(s, total)
    g.output("y", total)
    run = inner_values(g, Side(choose("cpu"), fuse=False), {"x": np.ones(2, np.float32)})
    assert {source.node: array.tolist() for source, array in run} == {"total": [4, 4]}


def test_differences_are_in_units_in_the_last_place() -> None:
    one = np.ones(4, np.float32)
    close, wrong = one.copy(), one.copy()
    close[1], wrong[0] = np.nextafter(np.float32(1), np.float32(2)), np.nan
    over = sources.differences({"same": compare(one, one), "close": compare(one, close), "wrong": compare(one, wrong)})
    assert texts(dict(over.marks)) == {"same": "equal", "close": "1 ULP, 1 of 4", "wrong": "NaN against a number"}
    assert [over.look(mark) for mark in over.marks.values()] == ["shade-0", "shade-1", "alarm"]
    assert over.joined(list(over.marks.values())).alarm


def test_fusion_tells_what_became_of_each_node() -> None:
    over = sources.fusion(fuse(layer()))
    assert texts(dict(over.marks)) == {"bounded": "with 1 more", "product": "→ bounded"}
    assert over.joined(list(over.marks.values())).text == "2 fused"
