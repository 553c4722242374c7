"""The JSON Schema accepts what the reader accepts, and catches what an editor should catch."""

from __future__ import annotations

import inspect
import json
import pathlib
import re
from typing import Any

import jsonschema
import pytest

from dmlgraph.base.errors import DeviceError
from dmlgraph.base.report import DocumentReport
from dmlgraph.devices import check_name
from dmlgraph.devices.names import NAMES
from dmlgraph.formats.text_tree.tree import parse
from dmlgraph.formats.yaml.schema import FILE_NAME, TITLE, schema, write_beside
from dmlgraph.operators import REGISTRY

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"
DEFINITIONS = schema()["$defs"]
HEAD = "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2, N]}}\ndims: {N: 3}\noutputs: [y]\n"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


def errors(validator: jsonschema.Draft202012Validator, text: str) -> list[str]:
    report = DocumentReport()
    tree = parse(text, "test.yaml", report)
    assert tree is not None
    assert not report.problems
    return [error.message for error in validator.iter_errors(tree.plain)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_examples_are_valid(validator: jsonschema.Draft202012Validator, path: pathlib.Path):
    assert errors(validator, path.read_text(encoding="utf-8")) == []


def test_every_operator_is_known_by_both_names():
    names = schema()["properties"]["nodes"]["additionalProperties"]["properties"]["op"]["enum"]
    assert set(REGISTRY) <= set(names)
    assert {"element_wise_add", "add", "if", "element_wise_if", "gemm"} <= set(names)


TEMPLATES = """
dmlgraph: 1
templates:
  file: [blocks.yaml]
  block:
    dims: {width: 64, half: width / 2, rate: null}
    inputs: [x, w]
    states: {s: {dtype: float32, sizes: [width], initial: {value: half}, next: y}}
    nodes: {y: {op: gemm, a: x, b: w}}
    outputs: [y]
  delay: {inputs: [x], states: {s: {dtype: float32, sizes: [1], next: x}}, outputs: [s]}
"""


@pytest.mark.parametrize(
    "use",
    [
        "{use: block, x: x, w: null}",
        "{use: block, repeat: 2 * N, x: {first: x, then: y}, w: 'w{index}'}",
        "{use: block, repeat: 2, x: x, w: [w0, null], dims: {rate: [0.5, '1 / N'], width: N}}",
    ],
)
def test_templates_and_uses_that_are_right(validator: jsonschema.Draft202012Validator, use: str):
    assert errors(validator, TEMPLATES) == []
    assert errors(validator, f"{TEMPLATES}nodes: {{y: {use}}}\noutputs: [y.y]\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "nodes: {y: {use: 3, x: x}}",
        "nodes: {y: {use: block, x: 3}}",
        "nodes: {y: {use: block, repeat: 0, x: x}}",
        "nodes: {y: {use: block, repeat: 2, x: {first: x}}}",
        "nodes: {y: {use: block, x: x, dims: [3]}}",
        "nodes: {y: {a: x}}",
        "templates: {block: {inputs: x, nodes: {}, outputs: [y]}}",
        "templates: {block: {inputs: [x], nodes: {y: {op: none}}, outputs: [y]}}",
        "templates: {block: {inputs: [x], outputs: [y]}}",
        "templates: {block: {states: {s: {sizes: [1]}}, outputs: [s]}}",
        "templates: {file: 3}",
    ],
)
def test_templates_and_uses_that_are_wrong(validator: jsonschema.Draft202012Validator, text: str):
    assert errors(validator, f"dmlgraph: 1\noutputs: [y]\n{text}\n")


@pytest.mark.parametrize(
    "node",
    [
        "{op: add, a: x, b: x}",
        "{op: element_wise_add, a: x, b: x, output: {strides: [1, 2]}}",
        "{op: clip, input: x, min: 0, max: 6, scale_bias: {scale: 2}}",
        "{op: gemm, a: x, b: x, trans_b: transpose, fused_activation: activation_relu}",
        "{op: split, input: x, axis: 1, outputs: [1, 2]}",
        "{op: reduce, input: x, function: argmax, axes: [0]}",
        "{op: fill_value_constant, output: {dtype: float32, sizes: [N]}, value: {bits: 0x7fc00001}}",
    ],
)
def test_nodes_that_are_right(validator: jsonschema.Draft202012Validator, node: str):
    assert errors(validator, f"{HEAD}nodes:\n  y: {node}\n") == []


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("{op: ad, a: x, b: x}", "'ad' is not one of"),
        ("{op: add, a: x}", "'b' is a required property"),
        ("{op: add, a: x, b: x, c: x}", "'c' was unexpected"),
        ("{op: gemm, a: x, b: x, trans_a: transposed}", "'transposed' is not one of"),
        ("{op: clip, input: x, min: [0], max: 6}", "[0] is not valid under any of the given schemas"),
        ("{a: x, b: x}", "'op' is a required property"),
    ],
)
def test_nodes_that_are_wrong(validator: jsonschema.Draft202012Validator, node: str, words: str):
    assert any(words in message for message in errors(validator, f"{HEAD}nodes:\n  y: {node}\n"))


def test_unknown_sections_are_caught(validator: jsonschema.Draft202012Validator):
    assert errors(validator, f"{HEAD}node: {{}}\n")


TEST = "{inputs: {x: {value: 1}}, expect: {y: {data: [1, 2]}}}"


@pytest.mark.parametrize(
    "test",
    [
        TEST,
        "{inputs: {x: {sequence: {start: N, delta: 2}}}, expect: {same_as: reference}, ulp: 2, dims: {N: 4}}",
        "{inputs: {x: {random: {seed: 3, low: -1, high: 1}}}, expect: {y: {same_as: 'directml:0'}}}",
        "{inputs: {x: {file: x.npy}}, expect: {y: {value: {bits: 0x7fc00001}}}, devices: [cpu, 'directml:software']}",
        "{expect: {same_as: {value: 1}}, absolute: 1e-6, relative: 0}",
        "{states: {s: {random: {}, length: N}, t: {value: 1}}, steps: 3, collect: [y], expect_states: {same_as: cpu}}",
        "{states: {'u/*': {data: []}}, expect_states: {s: {same_as: cpu}, t: {file: t.npy, length: 3}}}",
    ],
)
def test_tests_that_are_right(validator: jsonschema.Draft202012Validator, test: str) -> None:
    assert errors(validator, f"{HEAD}nodes: {{y: {{op: exp, input: x}}}}\ntests: {{t: {test}}}\n") == []


@pytest.mark.parametrize(
    "test",
    [
        "{inputs: {x: {value: 1}}}",
        "{inputs: {x: {value: 1, data: [1]}}, expect: {same_as: cpu}}",
        "{inputs: {x: {valu: 1}}, expect: {same_as: cpu}}",
        "{inputs: {x: {random: {sed: 1}}}, expect: {same_as: cpu}}",
        "{expect: {y: {random: {}}}}",
        "{expect: {same_as: cuda}}",
        "{expect: {same_as: cpu}, ulp: -1}",
        "{expect: {same_as: cpu}, devices: cpu}",
        "{expect: {same_as: cpu}, upl: 1}",
        "{expect_states: {s: {random: {}}}}",
        "{expect_states: {s: {length: 3}}}",
        "{expect_states: {s: {value: 3, length: -1}}}",
        "{expect_states: {s: {value: 3, data: [3]}}}",
        "{expect: {same_as: cpu}, states: {s: {same_as: cpu}}}",
        "{expect: {same_as: cpu}, steps: 0}",
        "{expect: {same_as: cpu}, collect: y}",
    ],
)
def test_tests_that_are_wrong(validator: jsonschema.Draft202012Validator, test: str) -> None:
    assert errors(validator, f"{HEAD}nodes: {{y: {{op: exp, input: x}}}}\ntests: {{t: {test}}}\n")


@pytest.mark.parametrize("name", [*NAMES, "directml:17", "directml:x", "directml:", "directm", "cpu:0", "cpus", "CPU"])
def test_devices_are_those_that_can_be_named(validator: jsonschema.Draft202012Validator, name: str) -> None:
    tests = f"tests: {{t: {{expect: {{same_as: '{name}'}}}}}}\n"
    found = errors(validator, f"{HEAD}nodes: {{y: {{op: exp, input: x}}}}\n{tests}")
    if found:
        with pytest.raises(DeviceError):
            check_name(name)
    else:
        check_name(name)


# What an editor shows.


def keys_without_text(schema: Any, path: str = "") -> list[str]:
    """The properties, at any depth, of a schema that have no description."""
    found: list[str] = []
    if isinstance(schema, list):
        return [each for index, item in enumerate(schema) for each in keys_without_text(item, f"{path}/{index}")]
    if not isinstance(schema, dict):
        return found
    properties = schema.get("properties")
    for key, value in schema.items():
        if value is not properties:
            found += keys_without_text(value, f"{path}/{key}")
    for key, value in (properties or {}).items():
        if not value.get("description", "").strip():
            found.append(f"{path}/{key}")
        found += keys_without_text(value, f"{path}/{key}")
    return found


def test_every_key_has_a_description() -> None:
    parts = schema()
    conditions = parts["properties"]["nodes"]["additionalProperties"].pop("allOf")  # which operator a node has
    assert len(conditions) == len(REGISTRY)
    known = {"bits", "op", "scale", "bias"}  # of numbers and activations inside a field
    assert [each for each in keys_without_text(parts) if each.rpartition("/")[2] not in known] == []


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_operator_and_field_has_a_meaning(name: str) -> None:
    operator = REGISTRY[name]
    definition = DEFINITIONS[operator.name]
    assert definition["description"] == inspect.getdoc(operator)
    assert definition["markdownDescription"].endswith("```")
    assert "op" in definition["properties"]
    for field in operator.fields:
        words = operator.meaning(field)
        assert re.fullmatch(r"[A-Z].*\.", words), f"{name}.{field}: {words!r}: write it in its class, in `meanings`"
        assert definition["properties"][field]["description"].startswith(words)


def test_a_completion_of_an_operator_says_what_it_does() -> None:
    op = schema()["properties"]["nodes"]["additionalProperties"]["properties"]["op"]
    texts = dict(zip(op["enum"], op["enumDescriptions"], strict=True))
    assert texts["gemm"].startswith("activation(alpha · A · B + beta · C)")
    assert texts["add"] == texts["element_wise_add"]
    assert all(texts.values())


def test_the_schema_is_written_beside_a_file_and_replaces_none_but_its_own(tmp_path: pathlib.Path) -> None:
    target = tmp_path / FILE_NAME
    assert write_beside(tmp_path / "g.yaml")
    assert json.loads(target.read_text("utf-8")) == schema()
    assert not write_beside(tmp_path / "g.yaml")
    target.write_text(json.dumps({"title": TITLE}), "utf-8")
    assert write_beside(tmp_path / "g.yaml")
    for precious in (b"{}", b"\xff\xfe"):
        target.write_bytes(precious)
        assert not write_beside(tmp_path / "g.yaml")
        assert target.read_bytes() == precious
