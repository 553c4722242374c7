"""The JSON Schema accepts what the reader accepts, and catches what an editor should catch."""

from __future__ import annotations

import pathlib

import jsonschema
import pytest

from dmlgraph.document.schema import schema
from dmlgraph.document.tree import parse
from dmlgraph.errors import Problems
from dmlgraph.operators import REGISTRY

EXAMPLES = pathlib.Path(__file__).parent.parent.parent / "examples"
HEAD = "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2, N]}}\ndims: {N: 3}\noutputs: [y]\n"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


def errors(validator: jsonschema.Draft202012Validator, text: str) -> list[str]:
    problems = Problems()
    tree = parse(text, "test.yaml", problems)
    assert tree is not None
    assert not problems
    return [error.message for error in validator.iter_errors(tree.plain)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_examples_are_valid(validator: jsonschema.Draft202012Validator, path: pathlib.Path):
    assert errors(validator, path.read_text(encoding="utf-8")) == []


def test_every_operator_is_known_by_both_names():
    names = schema()["properties"]["nodes"]["additionalProperties"]["properties"]["op"]["enum"]
    assert set(REGISTRY) <= set(names)
    assert {"element_wise_add", "add", "if", "element_wise_if", "gemm"} <= set(names)


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
