"""The section `workarounds` of a graph file."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.workarounds import Workaround
from dmlgraph.formats.yaml import dumps
from dmlgraph.formats.yaml.schema import schema

GRAPH = """dmlgraph: 1
name: net
inputs:
  x: {dtype: float16, sizes: [2, 3]}
nodes:
  norm: {op: activation_softmax, input: x}
  y: {op: exp, input: norm}
outputs: [y]
"""
SECTION = """workarounds:
- {device: directml, adapter: Radeon*, driver: {from: "31.0", below: "32"}, why: NaN, metacommands: false, \
without: [share], nodes: {n*: decomposed}}
- {device: cpu, half_precision: false, fuse: false}
"""


def test_it_is_read_and_written_as_it_is() -> None:
    g = dg.loads(GRAPH + SECTION)
    assert g.origin.workarounds == (
        Workaround(
            "directml",
            adapter="Radeon*",
            driver_from="31.0",
            driver_below="32",
            why="NaN",
            metacommands=False,
            without=("share",),
            nodes={"n*": "decomposed"},
        ),
        Workaround("cpu", half_precision=False, fuse=False),
    )
    assert dumps(g) == GRAPH + SECTION


def test_the_schema_describes_it() -> None:
    document = yaml.safe_load(GRAPH + SECTION)
    jsonschema.validate(document, schema())
    document["workarounds"][0]["nodes"]["y"] = "round"
    with pytest.raises(jsonschema.ValidationError, match="round"):
        jsonschema.validate(document, schema())
    keys = json.loads(json.dumps(schema()))["properties"]["workarounds"]["items"]["properties"]
    assert all(each["description"] for each in keys.values())


@pytest.mark.parametrize(
    ("section", "place", "field", "code", "got"),
    [
        ("workarounds: {device: cpu}", "9:14", "workarounds", "kind", {"device": "cpu"}),
        ("workarounds: [3]", "9:15", "workarounds.0", "kind", 3),
        ("workarounds: [{}]", "9:15", "workarounds.0.device", "missing", None),
        ("workarounds: [{devise: cpu}]", "9:16", "workarounds.0.devise", "unknown-field", None),
        ("workarounds: [{device: cuda}]", "9:24", "workarounds.0.device", "unknown-device", "cuda"),
        ("workarounds: [{device: auto}]", "9:24", "workarounds.0.device", "range", "auto"),
        ("workarounds: [{device: cpu, fuse: true}]", "9:35", "workarounds.0.fuse", "kind", True),
        ("workarounds: [{device: cpu, driver: 3}]", "9:37", "workarounds.0.driver", "kind", 3),
        ("workarounds: [{device: cpu, driver: {from: 31.0}}]", "9:37", "workarounds.0.driver", "kind", {"from": 31.0}),
        (
            'workarounds: [{device: cpu, driver: {from: "x1"}}]',
            "9:44",
            "workarounds.0.driver.from",
            "kind",
            "x1",
        ),
        (
            "workarounds: [{device: cpu, without: [sharing]}]",
            "9:39",
            "workarounds.0.without.0",
            "unknown-rule",
            "sharing",
        ),
        (
            "workarounds: [{device: cpu, nodes: {norn: apart}}]",
            "9:43",
            "workarounds.0.nodes.norn",
            "unknown-node",
            "norn",
        ),
        (
            "workarounds: [{device: cpu, nodes: {norm: apar}}]",
            "9:43",
            "workarounds.0.nodes.norm",
            "unknown-name",
            "apar",
        ),
        (
            "workarounds: [{device: cpu, nodes: {y: decomposed}}]",
            "9:40",
            "workarounds.0.nodes.y",
            "conflict",
            None,
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_place(section: str, place: str, field: str, code: str, got: object) -> None:
    with raises(dg.DmlGraphError, code, field=field, got=got) as caught:
        dg.loads(GRAPH + section)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert problem.location is not None
    assert f"{problem.location.line}:{problem.location.column}" == place


def test_a_broken_graph_hides_nothing_else() -> None:
    with pytest.raises(dg.DmlGraphError) as caught:
        dg.loads(GRAPH.replace("exp", "expo") + "workarounds: [{device: cpu, fuse: true}]")
    assert [each.field for each in caught.value.problems] == ["op", "workarounds.0.fuse"]
