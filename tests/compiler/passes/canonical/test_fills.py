"""Fills: folding them symbolically, moving and reducing them, and choosing branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.passes.fusing import applied, assert_same_bits, dispatches, fused, operator, operators, refusal

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators.fill import FillValueConstant

SIZES = [1, 2, 4, 6]
INF, NAN = float("inf"), float("nan")


def filled(g: dg.Graph, value: Any, dtype: str = "float32", sizes: list[int] = SIZES) -> dg.Value:
    return g.fill_value_constant(sizes=sizes, dtype=dtype, value=value)


def of(build: Callable[[dg.Graph], Any], **keywords: Any) -> dg.Graph:
    """A graph with the outputs that a function adds."""
    g = dg.Graph("test", **keywords)
    results = build(g)
    for index, value in enumerate(results if isinstance(results, tuple) else (results,)):
        g.output(f"y{index}", value)
    return g


def number(g: dg.Graph, *rules: str) -> Any:
    """The number of the only remaining operator, a fill."""
    fill = operator(fused(g, *rules))
    assert isinstance(fill, FillValueConstant)
    return fill.value.value


# f(fill, …); the numbers by hand.


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda g: filled(g, 3) * filled(g, 4) + filled(g, 0.5), np.float32(12.5)),
        (lambda g: dg.sqrt(filled(g, 16)), np.float32(4)),
        (lambda g: dg.activation_relu(filled(g, -3)), np.float32(0)),
        (lambda g: dg.exp(filled(g, 0, "float16")), np.float16(1)),
        (lambda g: filled(g, 200, "uint8") + filled(g, 100, "uint8"), np.uint8(44)),
        (lambda g: filled(g, 1 << 31, "uint32") * filled(g, 3, "uint32"), np.uint32(1 << 31)),
        (lambda g: filled(g, 7, "int64") - filled(g, 9, "int64"), np.int64(-2)),
        (lambda g: dg.cast(filled(g, -3.75), dtype="int32"), np.int32(-3)),
        (lambda g: dg.logical_less_than(filled(g, 1), filled(g, 2)), np.uint8(1)),
        (lambda g: dg.if_(filled(g, 0, "uint8"), filled(g, 1), filled(g, 2)), np.float32(2)),
        (lambda g: dg.add1(filled(g, -1), filled(g, -1), fused_activation="activation_relu"), np.float32(0)),
        (lambda g: dg.clip(filled(g, 9), min=0, max=6), np.float32(6)),
        (lambda g: filled(g, 1) / filled(g, 0), np.float32(INF)),
        (lambda g: filled(g, 60000, "float16") + filled(g, 60000, "float16"), np.float16(INF)),
        (lambda g: dg.quantize_linear(filled(g, 1.6), filled(g, 0.5), filled(g, 3, "uint8")), np.uint8(6)),
        (lambda g: dg.bit_xor(filled(g, 5, "uint32"), filled(g, 3, "uint32")), np.uint32(6)),
    ],
)
def test_what_fills_come_to_is_a_fill(build: Callable[[dg.Graph], Any], expected: Any) -> None:
    got = number(of(build), "fold_fills")
    assert (got, got.dtype) == (expected, expected.dtype)


@pytest.mark.parametrize("value", [-0.0, NAN, -INF, 1e-45])
def test_special_numbers(value: float) -> None:
    got = number(of(lambda g: dg.identity(filled(g, value)) + filled(g, -0.0)), "fold_fills")
    np.testing.assert_array_equal(got, np.float32(value))
    assert np.signbit(got) == np.signbit(np.float32(value))


@pytest.mark.parametrize("value", [NAN, INF])
def test_activations_of_what_is_not_finite_are_left(value: float) -> None:
    for build in (
        lambda g: dg.activation_thresholded_relu(filled(g, value), alpha=1),
        lambda g: dg.add1(filled(g, value), filled(g, 1), fused_activation="activation_relu"),
    ):
        assert "differs by device" in refusal(fused(of(build), "fold_fills"), "fold_fills")
        assert "differs by device" in refusal(fused(of(build), "fold_constants"), "fold_constants")


def test_fills_broadcast_and_keep_the_layout_of_an_output() -> None:
    def build(g: dg.Graph) -> dg.Value:
        return dg.add(filled(g, 1, sizes=[3, 1]), filled(g, 2, sizes=[1, 4]), output={"strides": [8, 2]})

    g = of(build)
    fill = operator(fused(g, "fold_fills"))
    assert (fill.output.sizes, fill.output.strides) == ((3, 4), (8, 2))
    assert_same_bits(g, {}, "fold_fills")


def test_where_a_level_has_no_such_fill_one_element_stands_for_it() -> None:
    def build(g: dg.Graph) -> dg.Value:
        ones = g.constant("ones", np.ones([1, 1, 2, 3], "float32"))
        return g.input("x", sizes=[1, 1, 2, 3], dtype="float32") * dg.abs(ones) + dg.sqrt(ones)

    g = of(build, target="2.0")
    result = fused(g, "fold_fills")
    assert operators(result) == ["multiply", "add"]
    assert_same_bits(g, {"x": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)}, "fold_fills")
    assert operators(fused(of(lambda g: dg.abs(g.constant("c", np.ones([1, 1, 2, 3], "float32"))), target="2.0"))) == [
        "identity"
    ]


def test_a_constant_of_different_numbers_is_no_fill() -> None:
    g = of(lambda g: dg.sqrt(g.constant("c", np.array([1, 4], "float32"))) + filled(g, 1, sizes=[2]))
    assert applied(fused(g, "fold_fills")) == []


# Moving.


def image(g: dg.Graph, value: Any = 2, dtype: str = "float32") -> dg.Value:
    return filled(g, value, dtype, [1, 4, 4, 6])


@pytest.mark.parametrize(
    "build",
    [
        lambda g: dg.slice(image(g), offsets=[0, 0, 1, 2], sizes=[1, 2, 2, 2], strides=[1, 1, 1, 2]),
        lambda g: dg.slice1(
            image(g),
            input_window_offsets=[0] * 4,
            input_window_sizes=[1, 4, 4, 6],
            input_window_strides=[1, 1, -1, 2],
        ),
        lambda g: dg.tile(image(g), repeats=[2, 1, 1, 3]),
        lambda g: dg.join([image(g), image(g), image(g)], axis=1),
        lambda g: dg.space_to_depth(image(g), block_size=2),
        lambda g: dg.depth_to_space1(image(g), block_size=2, order="column_row_depth"),
        lambda g: dg.gather(
            image(g), g.input("i", sizes=[1, 1, 1, 5], dtype="uint32"), axis=2, index_dimensions=1
        ),
        lambda g: dg.padding(
            image(g), padding_mode="constant", padding_value=2, start_padding=[0] * 4, end_padding=[1] * 4
        ),
        lambda g: dg.padding(
            image(g), padding_mode="edge", padding_value=0, start_padding=[0] * 4, end_padding=[1] * 4
        ),
        lambda g: dg.upsample_2d(image(g), scale_size=[2, 3], interpolation_mode="nearest_neighbor"),
        lambda g: dg.if_(g.input("m", sizes=[1, 4, 4, 6], dtype="uint8"), image(g), image(g)),
    ],
)  # fmt: skip
def test_equal_numbers_are_moved_by_name_only(build: Callable[[dg.Graph], Any], device: DeviceName) -> None:
    g = of(build)
    before = g.outputs["y0"].desc
    fill = operator(fused(g, "move_fills"))
    assert isinstance(fill, FillValueConstant)
    assert (fill.value.value, fill.output.sizes) == (2, before.sizes)
    feeds = {node.name: np.zeros(node.desc.sizes, node.desc.dtype.numpy) for node in g.inputs}
    assert_same_bits(g, feeds, "move_fills", device=device)


def test_each_used_part_of_a_split_is_a_fill() -> None:
    g = dg.Graph("test")
    parts = dg.split(image(g, -0.0), outputs=[1, 2, 1], axis=1)
    g.output("first", parts[0])
    g.output("last", parts[2])
    assert operators(fused(g, "move_fills")) == ["fill_value_constant"] * 2
    assert_same_bits(g, {}, "move_fills")


@pytest.mark.parametrize(
    "build",
    [
        lambda g: dg.join([image(g), image(g, 3)], axis=1),
        lambda g: dg.join([image(g, 0.0), image(g, -0.0)], axis=1),
        lambda g: dg.padding(
            image(g), padding_mode="constant", padding_value=3, start_padding=[0] * 4, end_padding=[1] * 4
        ),
    ],
)
def test_different_numbers_stay(build: Callable[[dg.Graph], Any]) -> None:
    assert refusal(fused(of(build), "move_fills"), "move_fills") == "the numbers of its inputs are not the same"


def test_linear_resampling_computes() -> None:
    g = of(lambda g: dg.upsample_2d(image(g), scale_size=[2, 2], interpolation_mode="linear"))
    assert applied(fused(g, "move_fills")) == []


# Reducing.


@pytest.mark.parametrize(
    ("function", "value", "dtype", "expected"),
    [
        ("sum", 0.5, "float32", np.float32(12)),
        ("sum", 200, "uint32", np.uint32(4800)),
        ("sum", 1 << 30, "int32", np.int32(0)),
        ("multiply", 2, "float32", np.float32(1 << 24)),
        ("average", 0.1, "float32", np.float32(0.1)),
        ("max", -3, "int8", np.int8(-3)),
        ("min", NAN, "float32", np.float32(INF)),
        ("l1", -2, "float16", np.float16(48)),
        ("l2", 1, "float32", np.sqrt(np.float32(24))),
        ("argmax", 7, "float32", np.uint32(0)),
    ],
)
def test_reductions(function: Any, value: Any, dtype: str, expected: Any) -> None:
    g = of(lambda g: dg.reduce(filled(g, value, dtype), function=function, axes=[2, 3]))  # 24 elements
    got = number(g, "reduce_fills")
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    assert_same_bits(g, {}, "reduce_fills")


def test_the_last_of_equal_numbers() -> None:
    g = of(lambda g: dg.argmax(filled(g, 1), axes=[2, 3], axis_direction="decreasing"))
    assert number(g, "reduce_fills") == 23


def test_long_rows_are_reduced_where_the_length_does_not_matter() -> None:
    def rows(function: Literal["max", "sum"]) -> dg.Graph:
        return of(lambda g: dg.reduce(filled(g, 3, sizes=[1, 1, 512, 512]), function=function, axes=[2, 3]))

    assert number(rows("max"), "reduce_fills") == 3
    assert "262144 numbers" in refusal(fused(rows("sum"), "reduce_fills"), "reduce_fills")


# Branches.


@pytest.mark.parametrize(("condition", "kept"), [(0, "tanh"), (2, "exp")])
def test_a_known_condition_leaves_one_branch(condition: int, kept: str, device: DeviceName) -> None:
    def build(g: dg.Graph) -> dg.Value:
        x = g.input("x", sizes=SIZES, dtype="float32")
        return dg.if_(filled(g, condition, "uint8"), dg.exp(x), dg.tanh(x))

    g = of(build)
    assert operators(fused(g, "choose_branch")) == [kept]
    assert_same_bits(g, {"x": np.ones(SIZES, np.float32)}, "choose_branch", device=device)


def test_a_branch_that_is_broadcast_to_an_output_is_copied(device: DeviceName) -> None:
    def build(g: dg.Graph) -> dg.Value:
        x = g.input("x", sizes=[1, 1, 1, 6], dtype="float32")
        return dg.if_(filled(g, 1, "uint8"), dg.exp(x), filled(g, 1))

    g = of(build)
    assert operators(fused(g, "choose_branch")) == ["exp", "identity"]
    assert_same_bits(g, {"x": np.ones([1, 1, 1, 6], np.float32)}, "choose_branch", device=device)


def test_an_unknown_condition_leaves_both() -> None:
    def build(g: dg.Graph) -> dg.Value:
        return dg.if_(g.input("m", sizes=SIZES, dtype="uint8"), filled(g, 1), filled(g, 2))

    assert applied(fused(of(build), "choose_branch", "move_fills")) == []


# Any tree of operators over fills.

_NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -2.5, 3e38, 1e-45, INF, NAN])
# Without max and min, which may return either of two zeros: NumPy's choice depends on the number of elements.
_BINARY = [dg.add, dg.subtract, dg.multiply, dg.divide, dg.difference_square, dg.mean]
_UNARY = [dg.abs, dg.negate, dg.floor, dg.sqrt, dg.recip, dg.sign, dg.exp, dg.ceil]


@given(st.lists(st.tuples(st.sampled_from(_BINARY), st.sampled_from(_UNARY), _NUMBERS), min_size=1, max_size=5))
def test_trees_of_fills_are_one_fill(steps: list[tuple[Any, Any, float]]) -> None:
    def build(g: dg.Graph) -> dg.Value:
        value = filled(g, 1.5)
        for binary, unary, other in steps:
            value = unary(binary(value, filled(g, other)))
        return value

    g = of(build)
    assert operators(fused(g, "fold_fills")) == ["fill_value_constant"]
    assert_same_bits(g, {}, "fold_fills")


@pytest.mark.usefixtures("directml_path")
def test_an_output_made_of_fills_is_written_and_nothing_else() -> None:
    g = of(lambda g: dg.activation_relu(filled(g, 3) * filled(g, 4) - 0.5))
    assert (dispatches(g, {}, fuse=False), dispatches(g, {})) == (6, 1)
