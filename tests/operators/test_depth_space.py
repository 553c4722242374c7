"""SPACE_TO_DEPTH, DEPTH_TO_SPACE and their successors with an order: blocks of pixels to channels and back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INTEGERS, Array, array, case, each_dtype, refused, run, values
from support.operators.onnx_model import evaluate
from support.problems import expect

from dmlgraph.devices.names import DeviceName

EVERY = (*FLOATS, *INTEGERS, "float64")
ORDERS = ("depth_column_row", "column_row_depth")
DEEP = [[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]]  # {1, 4, 1, 2}
WIDE = [[[[1, 3, 2, 4], [5, 7, 6, 8]]]]  # {1, 1, 2, 4}
TWO_CHANNELS = [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]  # {1, 2, 2, 2}
BY_PIXEL = [[[[value]] for value in (1, 5, 2, 6, 3, 7, 4, 8)]]
BY_CHANNEL = [[[[value]] for value in (1, 2, 3, 4, 5, 6, 7, 8)]]


def depth_to_space(deep: Array, block: int, order: str) -> Array:
    """The documentation's formula, element by element."""
    batch, channels, height, width = deep.shape
    kept = channels // block**2
    wide = np.empty((batch, kept, height * block, width * block), deep.dtype)
    for n, c, h, w, y, x in itertools.product(*map(range, (batch, kept, height, width, block, block))):
        channel = (y * block + x) * kept + c if order == "depth_column_row" else c * block**2 + y * block + x
        wide[n, c, h * block + y, w * block + x] = deep[n, channel, h, w]
    return wide


class BlockTests(ShapedTests):
    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * (rank - 3) + [4, 2, 2]], {"block_size": 2}

    def test_block_size_is_positive(self) -> None:
        error = refused(self.operator, self.sample.inputs, block_size=0)
        assert (error.field, error.got) == ("block_size", 0)

    def test_images_have_four_dimensions(self) -> None:
        error = refused(self.operator, [array([[1]], "float32")], block_size=1)
        assert (error.field, error.got) == ("input.sizes", [1, 1])

    def test_block_of_one_is_a_copy(self, device: DeviceName) -> None:
        got = run(self.operator, self.sample.inputs, device=device, block_size=1)
        np.testing.assert_array_equal(got, self.sample.inputs[0])


class ToDepthTests(BlockTests):
    def test_height_and_width_are_multiples_of_the_block(self) -> None:
        error = refused(self.operator, [np.zeros([1, 1, 4, 3], np.float32)], block_size=2)
        assert (error.field, error.got, error.allowed) == ("input.sizes", 3, "2 · n")
        expect(error, "sizes", node="node", field="input.sizes", got=3)
        error = refused(self.operator, [np.zeros([1, 1, 5, 4], np.float32)], block_size=2)
        expect(error, "sizes", node="node", field="input.sizes", got=5)


class ToSpaceTests(BlockTests):
    def test_channels_are_a_multiple_of_the_block_squared(self) -> None:
        error = refused(self.operator, [np.zeros([1, 6, 1, 1], np.float32)], block_size=2)
        assert (error.field, error.got, error.allowed) == ("input.sizes", 6, "4 · n")


class TestSpaceToDepth(ToDepthTests):
    operator = "space_to_depth"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 5.0: 4D ALL11"
    sample = case("blocks of two", [WIDE], DEEP, block_size=2)
    cases = (
        *each_dtype(EVERY, "blocks of two", [WIDE], DEEP, block_size=2),
        case("channels stay together", [TWO_CHANNELS], BY_PIXEL, block_size=2),
    )

    def test_agrees_with_onnx(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [2, 3, 4, 6], "float32")
        got = run("space_to_depth", [x], device=device, block_size=2)
        np.testing.assert_array_equal(got, evaluate("SpaceToDepth", [x], blocksize=2)[0])


class TestDepthToSpace(ToSpaceTests):
    operator = "depth_to_space"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 5.0: 4D ALL11"
    sample = case("blocks of two", [DEEP], WIDE, block_size=2)
    cases = (
        *each_dtype(EVERY, "blocks of two", [DEEP], WIDE, block_size=2),
        case("channels stay together", [BY_PIXEL], TWO_CHANNELS, block_size=2),
    )

    def test_agrees_with_onnx(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [2, 18, 2, 3], "float32")
        got = run("depth_to_space", [x], device=device, block_size=3)
        np.testing.assert_array_equal(got, evaluate("DepthToSpace", [x], blocksize=3, mode="DCR")[0])


class TestSpaceToDepth1(ToDepthTests):
    operator = "space_to_depth1"
    levels = "2.1: 4D ALL8 | 5.0: 4D ALL11"
    sample = case("blocks of two", [WIDE], DEEP, block_size=2)
    cases = (
        *each_dtype(EVERY, "depth first", [TWO_CHANNELS], BY_PIXEL, block_size=2, order="depth_column_row"),
        *each_dtype(EVERY, "depth last", [TWO_CHANNELS], BY_CHANNEL, block_size=2, order="column_row_depth"),
        case("depth first by default", [TWO_CHANNELS], BY_PIXEL, block_size=2),
    )

    @pytest.mark.parametrize("order", ORDERS)
    def test_is_the_inverse_of_depth_to_space1(self, order: str, device: DeviceName) -> None:
        deep = values(np.random.default_rng(0), [2, 12, 3, 2], "int16")
        got = run("space_to_depth1", [depth_to_space(deep, 2, order)], device=device, block_size=2, order=order)
        np.testing.assert_array_equal(got, deep)


class TestDepthToSpace1(ToSpaceTests):
    operator = "depth_to_space1"
    levels = "2.1: 4D ALL8 | 5.0: 4D ALL11"
    sample = case("blocks of two", [DEEP], WIDE, block_size=2)
    cases = (
        *each_dtype(EVERY, "depth first", [BY_PIXEL], TWO_CHANNELS, block_size=2, order="depth_column_row"),
        *each_dtype(EVERY, "depth last", [BY_CHANNEL], TWO_CHANNELS, block_size=2, order="column_row_depth"),
        case("depth first by default", [BY_PIXEL], TWO_CHANNELS, block_size=2),
    )

    @pytest.mark.parametrize("order", ORDERS)
    def test_formula(self, order: str, device: DeviceName) -> None:
        deep = values(np.random.default_rng(0), [2, 12, 3, 2], "int16")
        got = run("depth_to_space1", [deep], device=device, block_size=2, order=order)
        np.testing.assert_array_equal(got, depth_to_space(deep, 2, order))

    def test_orders(self) -> None:
        error = refused("depth_to_space1", self.sample.inputs, block_size=2, order="row")
        assert (error.field, error.allowed) == ("order", ", ".join(ORDERS))
