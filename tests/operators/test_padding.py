"""PADDING and PADDING1: elements added at both ends of every dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nodes import operator_of
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import (
    FLOATS,
    INTEGERS,
    NAN,
    SIGNED,
    Case,
    add_node,
    array,
    bits_of,
    build,
    case,
    each_dtype,
    refused,
    run,
    values,
)
from support.operators.onnx_model import evaluate
from support.problems import expect

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

EVERY = (*FLOATS, *INTEGERS, "float64")
MODES_BEFORE_WRAP = ("constant", "edge", "reflection", "symmetric")


def around(mode: str, start: list[int], end: list[int], value: float = 0) -> dict[str, Any]:
    return {"padding_mode": mode, "padding_value": value, "start_padding": start, "end_padding": end}


def both(dtypes: tuple[str, ...] = EVERY) -> tuple[Case, ...]:
    """Rows of both operators."""
    return (
        *each_dtype(dtypes, "a constant", [[1, 2, 3]], [7, 7, 1, 2, 3, 7], **around("constant", [2], [1], 7)),
        *each_dtype(dtypes, "the edge", [[1, 2, 3]], [1, 1, 1, 2, 3, 3], **around("edge", [2], [1])),
        *each_dtype(dtypes, "a reflection", [[1, 2, 3]], [3, 2, 1, 2, 3, 2, 1], **around("reflection", [2], [2])),
        *each_dtype(dtypes, "a mirror", [[1, 2, 3]], [2, 1, 1, 2, 3, 3, 2], **around("symmetric", [2], [2])),
        case("reflected again", [[1, 2, 3]], [1, 2, 3, 2, 1, 2, 3, 2, 1, 2], **around("reflection", [4], [3])),
        case("mirrored again", [[1, 2]], [2, 2, 1, 1, 2, 2, 1, 1], **around("symmetric", [3], [3])),
        case("one element reflects itself", [[5]], [5, 5, 5, 5], **around("reflection", [2], [1])),
        case("one element mirrors itself", [[5]], [5, 5, 5, 5], **around("symmetric", [2], [1])),
        case("nothing added", [[1, 2]], [1, 2], **around("reflection", [0], [0])),
        case("corners reflect in both dimensions", [[[1, 2], [3, 4]]], [[4, 3, 4], [2, 1, 2], [4, 3, 4], [2, 1, 2]],
             **around("reflection", [1, 1], [1, 0])),
    )  # fmt: skip


SAMPLE = case(
    "two dimensions",
    [[[1, 2, 3], [4, 5, 6]]],
    [[9, 1, 2, 3, 9, 9], [9, 4, 5, 6, 9, 9], [9, 9, 9, 9, 9, 9]],
    **around("constant", [0, 1], [1, 2], 9),
)


class PaddingTests(ShapedTests):
    """The checks of both."""

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], around("constant", [0] * rank, [1] * rank)

    @pytest.mark.parametrize(("mode", "name"), [("constant", "constant"), ("edge", "edge"), ("reflection", "reflect")])
    def test_agrees_with_onnx(self, mode: str, name: str, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [3, 4], "float32")
        pads = np.array([2, 1, 0, 3], np.int64)
        got = run(self.operator, [x], device=device, **around(mode, [2, 1], [0, 3], 2.5))
        np.testing.assert_array_equal(got, evaluate("Pad", [x, pads, np.array(2.5, np.float32)], mode=name)[0])

    def test_lists_have_an_entry_for_each_dimension(self) -> None:
        error = refused(self.operator, [array([[1, 2]], "float32")], **around("edge", [1], [1]))
        assert (error.field, error.got, error.allowed) == ("start_padding", [1], "2 entries, or one number for all")
        error = refused(self.operator, [array([[1, 2]], "float32")], **around("edge", [1, 1], [1]))
        assert (error.field, error.got, error.allowed) == ("end_padding", [1], "2 entries, or one number for all")

    def test_the_output_is_a_tensor(self) -> None:
        error = refused(self.operator, [array([1], "float32")], **around("edge", [2**31], [2**31]))
        assert (error.field, error.got) == ("output.sizes", [2**32 + 1])
        expect(error, "too-large", node="node", field="output.sizes", got=[4294967297])

    def test_modes(self) -> None:
        error = refused(self.operator, [array([1], "float32")], **around("mirror", [1], [1]))
        assert error.field == "padding_mode"
        assert error.allowed == "constant, edge, reflection, symmetric, wrap"

    def test_wrap_takes_the_other_end(self) -> None:
        """It exists from feature level 6.4, which no library for Linux has; ONNX has the mode too."""
        x = values(np.random.default_rng(0), [3, 4], "int32")
        got = run(self.operator, [x], **around("wrap", [2, 1], [0, 4]))
        np.testing.assert_array_equal(got, evaluate("Pad", [x, np.array([2, 1, 0, 4], np.int64)], mode="wrap")[0])
        np.testing.assert_array_equal(run(self.operator, [array([1, 2, 3], "int8")], **around("wrap", [4], [2])),
                                      [3, 1, 2, 3, 1, 2, 3, 1, 2])  # fmt: skip

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    @pytest.mark.parametrize(("mode", "since"), [("symmetric", "3.0"), ("wrap", "6.4")])
    def test_levels_of_modes(self, mode: str, since: str, level: dg.FeatureLevel) -> None:
        introduced = dg.FeatureLevel.parse("1.0" if self.operator == "padding" else "5.0")
        if level < introduced:
            return
        graph = dg.Graph("test", target=level)
        x = graph.input("x", sizes=[1] * 4, dtype="float32")
        fields = around(mode, [1] * 4, [1] * 4)
        if level >= dg.FeatureLevel.parse(since):
            add_node(graph, self.operator, [x], **fields)
            return
        with pytest.raises(
            dg.OperatorError, match=f"does not exist at feature level {level}; legal from {since}"
        ) as caught:
            add_node(graph, self.operator, [x], **fields)
        assert (caught.value.field, caught.value.got) == ("padding_mode", mode)


class TestPadding(PaddingTests):
    operator = "padding"
    levels = "1.0: 4-5D F32 F16 | 2.1: 4-5D ALL8 | 3.1: 1-8D ALL8 | 5.0: 1-8D ALL11"
    sample = SAMPLE
    cases = (
        sample,
        *both(),
        *each_dtype(INTEGERS, "the value's fraction is cut", [[1]], [2, 1], **around("constant", [1], [0], 2.9)),
        *each_dtype(SIGNED, "toward zero", [[1]], [-2, 1], **around("constant", [1], [0], -2.9)),
        case("low bits of a value that does not fit", [[1]], [44, 1], "uint8", **around("constant", [1], [0], 300.5)),
        case("low bits of a negative value", [[1]], [254, 1], "uint8", **around("constant", [1], [0], -2.7)),
        case("rounded to the type", [[1]], [exact.rounded(exact.values([0.1], "float32")[0], "float16"), 1], "float16",
             **around("constant", [1], [0], 0.1)),
        case("NaN", [[1]], [NAN, 1], **around("constant", [1], [0], NAN)),
    )  # fmt: skip


class TestPadding1(PaddingTests):
    operator = "padding1"
    levels = "5.0: 1-8D ALL11"
    sample = SAMPLE
    cases = (
        sample,
        *both(),
        *(
            case("extremes", [[0]], [value, 0], dtype, **around("constant", [1], [0], value))
            for dtype in INTEGERS
            for value in exact.limits(dtype)
        ),
    )

    def test_value_is_kept_bit_for_bit(self, device: DeviceName) -> None:
        x = exact.from_bits("float32", 0x3F800000)
        got = run(
            "padding1", [x], device=device, **around("constant", [1], [0]) | {"padding_value": {"bits": 0x7FC00001}}
        )
        np.testing.assert_array_equal(bits_of(got), [0x7FC00001, 0x3F800000])

    def test_value_has_the_tensors_data_type(self) -> None:
        graph, _ = build("padding1", [array([1], "int16")], **around("constant", [1], [0], 5))
        operator = operator_of(graph.node("node"))
        assert (str(operator.padding_value_data_type), operator.padding_value.dtype) == ("int16", dg.DataType.INT16)
        fields = around("constant", [1], [0], 5)
        error = refused("padding1", [array([1], "int16")], padding_value_data_type="int32", **fields)
        assert (error.field, error.got, error.allowed) == ("padding_value_data_type", "int32", "int16")

    def test_value_must_fit(self) -> None:
        error = refused("padding1", [array([1], "uint8")], **around("constant", [1], [0], 300))
        assert (error.field, error.got) == ("padding_value", 300)
