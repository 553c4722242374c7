"""Texts in boxes: which fields stand there, and what of a long line is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.picture.texts import LONGEST, columns, cut, field_lines


def image() -> dg.Value:
    return dg.Graph("g").input("x", sizes=[1, 4, 8, 8], dtype="float32")


def convolution(channels: int = 4, **fields: Any) -> dg.Value:
    x = image()
    weights = x.graph.constant("w", np.ones((4, channels, 3, 5), np.float32))
    return dg.convolution(x, weights, name="node", **fields)


@pytest.mark.parametrize(
    ("make", "lines"),
    [
        (convolution, ["window 3×5"]),
        (lambda: convolution(strides=[2, 2], dilations=1), ["window 3×5 · strides 2×2"]),
        (lambda: convolution(channels=1), ["window 3×5 · group_count 4"]),
        (
            lambda: convolution(start_padding=[1, 2], fused_activation="activation_relu"),
            ["window 3×5 · start_padding 1×2", "fused_activation activation_relu"],
        ),
        (lambda: dg.reduce(image(), function="sum", axes=[2, 3], name="node"),
         ["function sum · axes [2, 3]"]),
        (lambda: dg.average_pooling(image(), window_size=2, strides=2, name="node"), ["strides 2×2 · window_size 2×2"]),
        (lambda: dg.activation_relu(image(), name="node"), []),
        (lambda: dg.activation_elu(image(), alpha=0.5, name="node"), ["alpha 0.5"]),
        (lambda: dg.activation_elu(image(), name="node"), []),
        (lambda: dg.transpose(image(), permutation=[0, 2, 3, 1], name="node"), ["permutation [0, 2, 3, 1]"]),
    ],
)  # fmt: skip
def test_fields_that_are_not_as_usual(make: Callable[[], dg.Value], lines: list[str]) -> None:
    node = make().graph.node("node")
    assert isinstance(node, OperatorNode)
    assert field_lines(node.operator) == lines


@pytest.mark.parametrize("line", ["", "short", "x" * LONGEST])
def test_short_lines_stay(line: str) -> None:
    assert cut(line) == line


@pytest.mark.parametrize("line", ["a" + "b" * 60 + "c", "层" * 40, "层" * 20 + "x" * 40, "x" * 40 + "层" * 20])
def test_the_middle_of_a_long_line_is_cut(line: str) -> None:
    short = cut(line)
    assert LONGEST - 3 <= columns(short) <= LONGEST
    head, tail = short.split("…")
    assert line.startswith(head)
    assert line.endswith(tail)
    assert abs(columns(head) - columns(tail)) <= 2
