"""Reports: what a vendor needs, and nothing of the user's."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from support.faulty_device import Call, faulty

import dmlgraph as dg
from dmlgraph.doctor import report
from dmlgraph.doctor.diagnosis import Diagnosis, diagnose, read_by

X = np.random.default_rng(0).normal(0, 1, (2, 3, 4)).astype(np.float32)
SECRET = 0.7310585975646973


def graph() -> dg.Graph:
    g = dg.Graph("customer")
    x = g.input("invoices", sizes=[2, 3, 4], dtype="float32")
    weights = g.constant("salaries", np.full((4, 4), SECRET, np.float32))
    y = dg.gemm(x, weights.reshape(1, 4, 4), name="secret/product")
    g.output("bonus", dg.activation_softmax1(y.transpose(0, 2, 1), axes=[1], name="secret/softmax"))
    return g


def found(is_wrong: Any, node: str = "secret/softmax") -> Diagnosis:
    return diagnose(graph(), [node], {"invoices": X}, faulty(is_wrong))


@pytest.fixture(scope="module")
def softmax() -> Diagnosis:
    return found(lambda call: call.operator.name == "activation_softmax1")


def test_it_says_where_what_and_how_to_go_round(softmax: Diagnosis) -> None:
    lines = report.text(softmax).splitlines()
    assert lines[:2] == ["Where", "-----"]
    text = "\n".join(lines)
    node = ("finding +computes the node wrong", "operator +ACTIVATION_SOFTMAX1", "node +2 of 2")
    for line in ("adapter +Faulty 3000", "driver +31.0.15", *node):
        assert re.search(line, text), line
    assert "1 of 1 elements differ, most of all this one: " in text
    assert re.search(r"> +y\[0\] +4\.0 \(0x40800000\) +1\.0 \(0x3f800000\)", text)
    assert "decomposed: Simpler operators compute it." in text
    assert re.search(r"^decomposed +the whole graph is right +\d+ \*$", text, re.MULTILINE)
    assert re.search(r"^float32 +not possible: it does not compute float16 of float16$", text, re.MULTILINE)


def test_it_has_the_case_for_dmlgraph_and_dxdispatch(softmax: Diagnosis) -> None:
    text = report.text(softmax)
    case = dg.loads(text.partition("case.yaml:\n")[2].partition("\n\n")[0])
    assert [node.name for node in case.nodes] == ["input", "y"]
    model = json.loads(text.partition("case.json:\n")[2].partition("\n\n")[0])
    assert model["dispatchables"]["y"]["type"] == "DML_OPERATOR_ACTIVATION_SOFTMAX1"


def test_nothing_of_the_users_is_in_it(softmax: Diagnosis) -> None:
    hidden = ["customer", "invoices", "salaries", "secret", "bonus", str(SECRET)[:6], "[2,3,4]", "[2,4,3]"]
    for made in (report.text(softmax), report.html(softmax)):
        assert [each for each in hidden if each in made] == []
    asked = report.text(softmax, with_names=True)
    assert "'secret/softmax'" in asked
    assert "customer" in asked
    assert "float32 [2,4,3]" in asked


def test_numbers_are_shown_only_if_they_are_asked_for() -> None:
    """The fault is for this very weight, which no simpler number stands for."""

    def is_wrong(call: Call) -> bool:
        return call.operator.name == "gemm" and bool((call.given[1] == np.float32(SECRET)).any())

    diagnosis = found(is_wrong, "secret/product")
    assert diagnosis.case is not None
    assert not diagnosis.case.is_anonymous
    plain, asked = report.text(diagnosis), report.text(diagnosis, with_data=True)
    assert report.HIDDEN in plain
    assert "case.yaml" not in plain
    assert "0.73" not in plain
    assert "0.73" in asked


def test_a_node_that_is_wrong_only_with_others() -> None:
    def is_wrong(call: Call) -> bool:
        return call.operator.attributes.get("fused_activation") is not None

    g = dg.Graph()
    y = dg.gemm(g.input("a", sizes=[2, 3], dtype="float32"), g.input("b", sizes=[3, 2], dtype="float32"), name="p")
    g.output("y", dg.activation_relu(y))
    inputs = {"a": np.ones((2, 3), np.float32), "b": np.ones((3, 2), np.float32)}
    diagnosis = diagnose(g, ["p"], inputs, faulty(is_wrong))
    assert diagnosis.case is None
    text = report.text(diagnosis)
    assert "the fault is one of several together" in text
    assert "without fuse_activation: The fusion rule fuse_activation does not run." in text


def test_the_page_needs_nothing_else(softmax: Diagnosis) -> None:
    page = report.html(softmax)
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=", page)
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [each["title"] for each in data["sections"]] == ["Where", "What", "Case", "Ways round"]
    assert [name for name, _ in data["sections"][2]["files"]] == ["case.yaml", "case.json"]


def test_what_a_node_reads_through_views() -> None:
    values = read_by(graph(), "secret/softmax", {"invoices": X})
    assert set(values) == {"secret/product", "transpose"}
    np.testing.assert_allclose(values["secret/product"], X @ np.full((4, 4), SECRET, np.float32), 1e-5)
