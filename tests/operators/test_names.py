"""Hints for names that other libraries use."""

from __future__ import annotations

import pytest

from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.hints import ELSEWHERE, operator_hint
from dmlgraph.operators.catalog.registry import find


def test_what_is_called_otherwise_elsewhere_is_no_operator_and_means_one() -> None:
    assert not [name for name in ELSEWHERE if find(name) or f"activation_{name}" in REGISTRY]
    assert set(ELSEWHERE.values()) <= set(REGISTRY)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("relu", "activation_relu"),
        ("ReLU", "activation_relu"),
        ("softmax", "activation_softmax"),
        ("matmul", "gemm"),
        ("multply", "multiply"),
        ("elementwise_multiply", "multiply"),
        ("DML_OPERATOR_ELEMENT_WISE_ADD", "add"),
        ("concat", "join"),
        ("nn.ReLU", "activation_relu"),
        ("aten::relu", "activation_relu"),
        ("MaxPooling2D", "max_pooling"),
    ],
)
def test_a_name_is_answered_with_the_operator(name: str, meant: str) -> None:
    assert operator_hint(name) == f"did you mean '{meant}'?"


@pytest.mark.parametrize("name", ["qqqqqq", "", "covers", 3, None, ["add"]])
def test_a_name_like_none_is_answered_with_the_list(name: object) -> None:
    assert operator_hint(name) == "'dmlgraph operators' lists them"
