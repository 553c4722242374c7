"""FOLD and UNFOLD: images as matrices of the patches that a sliding window covers, and back.

No library for Linux has feature level 6.4: they are compared with the documentation's examples, the formula element by
element, and ONNX's Col2Im.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from support.operators.checks import OperatorTests
from support.operators.harness import DTYPES, FLOATS, INTEGERS, Array, add_node, case, each_dtype, refused, run, values
from support.operators.onnx_model import evaluate
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

EVERY = (*FLOATS, *INTEGERS, "float64")


def window(sizes: list[int], strides: Any = 1, dilations: Any = 1, start: Any = 0, end: Any = 0) -> dict[str, Any]:
    def each(value: Any) -> list[int]:
        return value if isinstance(value, list) else [value] * len(sizes)

    return {
        "window_sizes": sizes,
        "strides": each(strides),
        "dilations": each(dilations),
        "start_padding": each(start),
        "end_padding": each(end),
    }


# The documentation's examples.
UNFOLDED = [
    [0, 0, 0, 0, 1, 2, 5, 6, 7, 10, 11, 12, 15, 16, 17],
    [0, 0, 0, 1, 2, 3, 6, 7, 8, 11, 12, 13, 16, 17, 18],
    [0, 0, 0, 2, 3, 4, 7, 8, 9, 12, 13, 14, 17, 18, 19],
    [0, 1, 2, 5, 6, 7, 10, 11, 12, 15, 16, 17, 20, 21, 22],
    [1, 2, 3, 6, 7, 8, 11, 12, 13, 16, 17, 18, 21, 22, 23],
    [2, 3, 4, 7, 8, 9, 12, 13, 14, 17, 18, 19, 22, 23, 24],
    [5, 6, 7, 10, 11, 12, 15, 16, 17, 20, 21, 22, 0, 0, 0],
    [6, 7, 8, 11, 12, 13, 16, 17, 18, 21, 22, 23, 0, 0, 0],
    [7, 8, 9, 12, 13, 14, 17, 18, 19, 22, 23, 24, 0, 0, 0],
]
FOLDED = [[0, 5, 13, 9], [14, 38, 54, 32], [38, 86, 102, 56], [26, 57, 65, 35]]
FOLDED_CHANNELS = [
    [[26, 70, 102, 60], [78, 183, 231, 129], [84, 195, 243, 135], [82, 182, 214, 116]],
    [[170, 358, 390, 204], [294, 615, 663, 345], [300, 627, 675, 351], [226, 470, 502, 260]],
]

# Window, strides, dilations, paddings, and spatial sizes of an image.
WINDOWS = [
    (window([2], strides=2), [6]),
    (window([3], dilations=2, start=1, end=2), [6]),
    (window([2, 3], strides=[2, 1], start=[1, 0], end=[0, 2]), [4, 5]),
    (window([2, 2], strides=3, dilations=[2, 1]), [6, 7]),
    (window([1, 2, 2], strides=[1, 2, 1], start=[0, 0, 1], end=[1, 0, 0]), [2, 4, 3]),
]


def met(image: Array, fields: dict[str, Any]) -> list[tuple[tuple[int, int, int], tuple[int, ...]]]:
    """(index in the patches, index in the image) of every pair of elements that the window maps to each other."""
    spatial, sizes = image.shape[2:], fields["window_sizes"]
    settings = [fields[name] for name in ("strides", "dilations", "start_padding", "end_padding")]
    blocks = [
        (size + start + end - dilation * (taps - 1) - 1) // stride + 1
        for size, taps, stride, dilation, start, end in zip(spatial, sizes, *settings, strict=True)
    ]
    pairs = []
    for batch, channel in itertools.product(range(image.shape[0]), range(image.shape[1])):
        for number, block in enumerate(itertools.product(*map(range, blocks))):
            for tap, element in enumerate(itertools.product(*map(range, sizes))):
                place = [
                    b * stride + e * dilation - start
                    for b, e, stride, dilation, start, _ in zip(block, element, *settings, strict=True)
                ]
                if all(0 <= at < size for at, size in zip(place, spatial, strict=True)):
                    pairs.append(((batch, channel * math.prod(sizes) + tap, number), (batch, channel, *place)))
    return pairs


class WindowTests(OperatorTests):
    """The checks of both."""

    def legal(self, dtype: DataTypeName, rank: int) -> tuple[list[int], dict[str, Any]]:
        """The input's sizes and the fields for images of this number of dimensions."""
        raise NotImplementedError

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels(self, level: dg.FeatureLevel) -> None:
        """The documentation names no data types: all of whole bytes are accepted."""
        for dtype, rank in itertools.product(DTYPES, range(3, 9)):
            sizes, fields = self.legal(dtype, rank)
            graph = dg.Graph("test", target=level)
            x = graph.input("x", sizes=sizes, dtype=dtype)
            if level >= dg.FeatureLevel.parse("6.4") and not dtype.endswith("int4"):
                add_node(graph, self.operator, [x], **fields)
                continue
            with pytest.raises(dg.OperatorError) as caught:
                add_node(graph, self.operator, [x], **fields)
            assert ("appears at 6.4" in str(caught.value)) == (level < dg.FeatureLevel.parse("6.4"))

    def test_sizes_strides_and_dilations_are_positive(self) -> None:
        for field in ("window_sizes", "strides", "dilations"):
            error = refused(self.operator, self.sample.inputs, **{**self.sample.fields, field: [1, 0]})
            assert (error.field, error.got) == (f"{field}.1", 0)

    def test_lists_have_one_length(self) -> None:
        error = refused(self.operator, self.sample.inputs, **{**self.sample.fields, "strides": [1]})
        assert (error.field, error.got, error.allowed) == ("strides", [1], "2 entries, or one number for all")

    def test_windows_have_the_images_spatial_dimensions(self) -> None:
        for sizes in ([], [1], [1] * 7):
            fields = {key: value for key, value in self.sample.fields.items() if key == "sizes"}
            error = refused(self.operator, self.sample.inputs, **fields, **window(sizes))
            assert (error.field, error.got, error.allowed) == (
                "window_sizes",
                sizes,
                "2 entries, or one number for all",
            )


class TestUnfold(WindowTests):
    operator = "unfold"
    sample = case(
        "blocks side by side",
        [[[[[1, 2, 3], [4, 5, 6]]]]],
        [[[1, 2], [2, 3], [4, 5], [5, 6]]],
        **window([2, 2]),
    )
    cases = (
        sample,
        case("the documentation's padded example", [np.arange(25, dtype="float32").reshape(1, 1, 5, 5)], [UNFOLDED],
             **window([3, 3], start=[1, 0], end=[1, 0])),
        *each_dtype(EVERY, "one dimension, two channels", [[[[1, 2, 3, 4], [5, 6, 7, 8]]]],
                    [[[1, 3], [2, 4], [5, 7], [6, 8]]], **window([2], strides=2)),
        case("dilated", [[[[1, 2, 3, 4]]]], [[[1, 2], [3, 4]]], **window([2], dilations=2)),
    )  # fmt: skip

    def legal(self, dtype: DataTypeName, rank: int) -> tuple[list[int], dict[str, Any]]:
        return [1] * rank, window([1] * (rank - 2))

    @pytest.mark.parametrize(("fields", "spatial"), WINDOWS)
    def test_formula(self, fields: dict[str, Any], spatial: list[int], device: DeviceName) -> None:
        image = values(np.random.default_rng(0), [2, 3, *spatial], "int32")
        got = run("unfold", [image], device=device, **fields)
        expected = np.zeros(got.shape, np.int32)
        for patch, place in met(image, fields):
            expected[patch] = image[place]
        np.testing.assert_array_equal(got, expected)

    def test_image_has_a_dimension_for_each_window_size(self) -> None:
        error = refused("unfold", [np.zeros([1, 1, 4], np.float32)], **window([2, 2]))
        assert (error.field, error.got, error.allowed) == ("window_sizes", [2, 2], "1 entry, or one number for all")

    def test_window_is_no_larger_than_the_padded_image(self) -> None:
        error = refused("unfold", [np.zeros([1, 1, 4], np.float32)], **window([3], dilations=3, end=2))
        assert (error.field, error.got) == ("window_sizes.0", "7 elements with dilation")
        assert error.allowed == "at most 6"


class TestFold(WindowTests):
    operator = "fold"
    sample = case(
        "overlapping blocks are added",
        [[[[1, 2], [3, 4], [5, 6], [7, 8]]]],
        [[[[1, 5, 4], [5, 13, 8]]]],
        sizes=[1, 1, 2, 3],
        **window([2, 2]),
    )
    cases = (
        sample,
        case("the documentation's first example", [np.arange(36, dtype="float32").reshape(1, 9, 4)], [[FOLDED]],
             sizes=[1, 1, 4, 4], **window([3, 3])),
        case("the documentation's third example", [np.arange(144, dtype="float32").reshape(1, 18, 8)],
             [FOLDED_CHANNELS], sizes=[1, 2, 4, 4], **window([3, 3], start=[1, 0], end=[1, 0])),
        *each_dtype(EVERY, "one dimension", [[[[1, 2], [3, 4]]]], [[[1, 5, 4]]], sizes=[1, 1, 3], **window([2])),
        case("sums of integers wrap", [[[[200, 200], [100, 100]]]], [[[200, 44, 100]]], "uint8", sizes=[1, 1, 3],
             **window([2])),
        case("float16 is added wider and rounded once", [[[[0, 0, 2048], [0, 1, 0], [1, 0, 0]]]],
             [[[0, 0, 2050, 0, 0]]], "float16", sizes=[1, 1, 5], **window([3])),
    )  # fmt: skip

    def legal(self, dtype: DataTypeName, rank: int) -> tuple[list[int], dict[str, Any]]:
        return [1, 1, 1], {"sizes": [1] * rank, **window([1] * (rank - 2))}

    @pytest.mark.parametrize(("fields", "spatial"), WINDOWS)
    def test_formula(self, fields: dict[str, Any], spatial: list[int], device: DeviceName) -> None:
        image = np.zeros([2, 3, *spatial], np.int32)
        pairs = met(image, fields)
        shape = run("unfold", [image], **fields).shape
        patches = values(np.random.default_rng(0), shape, "int32")
        for patch, place in pairs:
            image[place] += patches[patch]
        got = run("fold", [patches], device=device, sizes=list(image.shape), **fields)
        np.testing.assert_array_equal(got, image)

    def test_agrees_with_onnx(self, device: DeviceName) -> None:
        patches = values(np.random.default_rng(0), [2, 12, 12], "float32")
        fields = window([2, 2], strides=[1, 2], start=[0, 1], end=[0, 1])
        got = run("fold", [patches], device=device, sizes=[2, 3, 4, 6], **fields)
        expected = evaluate("Col2Im", [patches, np.array([4, 6]), np.array([2, 2])], strides=[1, 2], pads=[0, 1, 0, 1])[
            0
        ]
        np.testing.assert_array_equal(got, expected)

    def test_sizes_must_be_given(self) -> None:
        error = refused("fold", self.sample.inputs, **window([2, 2]))
        expect(error, "undetermined", node="node", field="output.sizes")

    def test_input_has_the_windows_patches(self) -> None:
        error = refused("fold", [np.zeros([1, 4, 3], np.float32)], sizes=[1, 1, 2, 3], **window([2, 2]))
        assert (error.field, error.got, error.allowed) == ("input.sizes", [1, 4, 3], "[1, 4, 2]")

    def test_image_has_a_dimension_for_each_window_size(self) -> None:
        error = refused("fold", self.sample.inputs, sizes=[1, 1, 6], **window([2, 2]))
        assert (error.field, error.got, error.allowed) == ("window_sizes", [2, 2], "1 entry, or one number for all")
