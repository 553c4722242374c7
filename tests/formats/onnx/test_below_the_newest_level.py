"""Operators that DirectML got late, or not at all for their types, by other means: beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from support.onnx.onnx_runtime import session
from support.onnx.parsed import assert_agrees, imported, model_of, run
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

DEVICES = ["reference", "cpu", "directml:software"]

pytestmark = pytest.mark.usefixtures("directml_path")


def at_level(model: onnx.ModelProto, feeds: dict[str, Any], device: DeviceName) -> dict[str, Any]:
    """The outputs of a model whose graph must be legal at level 6.2, on any device."""
    return imported(model, target="6.2").compile(device=device).run(feeds)


def listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("image", "block", "strides", "dilations", "pads"),
    [
        ((5, 5), (2, 2), (1, 1), (1, 1), (0, 0, 0, 0)),
        ((6, 7), (2, 3), (2, 1), (1, 2), (1, 0, 1, 2)),
        ((4, 4), (2, 2), (2, 2), (1, 1), (0, 0, 0, 0)),
        ((7,), (3,), (2,), (1,), (1, 1)),
        ((1, 3), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ],
)
def test_blocks_are_added_up(
    image: tuple[int, ...], block: tuple[int, ...], strides: Any, dilations: Any, pads: Any, device: DeviceName
) -> None:
    rank = len(image)
    counts = [
        (image[d] + pads[d] + pads[d + rank] - (block[d] - 1) * dilations[d] - 1) // strides[d] + 1 for d in range(rank)
    ]
    shape = (2, 3 * int(np.prod(block)), int(np.prod(counts)))
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    x[0, 0, 0] = np.inf  # it stays where it belongs
    model = model_of(
        f"""g (float{list(shape)} x) => (float[2,3,{listed(image)}] y)
            <int64[{rank}] image = {{{listed(image)}}}, int64[{rank}] block = {{{listed(block)}}}> {{
            y = Col2Im<strides = {list(strides)}, dilations = {list(dilations)}, pads = {list(pads)}>(x, image, block)
        }}"""
    )
    expected = session(model.SerializeToString())({"x": x})["y"]
    np.testing.assert_array_equal(at_level(model, {"x": x}, device)["y"], expected)


def test_blocks_that_do_not_fit_the_image_are_refused() -> None:
    model = model_of(
        "g (float[1,4,3] x) => (float[1,1,5,5] y) <int64[2] i = {5, 5}, int64[2] b = {2, 2}> {y = Col2Im(x, i, b)}"
    )
    with raises(dg.ModelError, "sizes", node="y", got=[1, 4, 3], allowed="16 blocks"):
        imported(model, target="6.2")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pads", [(1, 0, 0, 2), (2, 3, 2, 3), (0, 1, -1, 1), (5, 0, 0, 7)], ids=str)
@pytest.mark.parametrize("dtype", ["float", "int64", "float16"])
def test_padding_that_wraps(dtype: str, pads: tuple[int, ...], device: DeviceName) -> None:
    """Also by more than the size, which NumPy repeats."""
    x = np.arange(6).reshape(2, 3)
    model = model_of(
        f"g ({dtype}[2,3] x) => ({dtype}[N,M] y) <int64[4] pads = {{{listed(pads)}}}>"
        ' {y = Pad<mode = "wrap">(x, pads)}'
    )
    cut = x[: 2 + min(pads[2], 0)]
    widths = [(max(pads[axis], 0), max(pads[axis + 2], 0)) for axis in (0, 1)]
    given = x.astype(onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type))
    got = at_level(model, {"x": given}, device)["y"]
    np.testing.assert_array_equal(got, np.pad(cut, widths, mode="wrap"))


INTEGERS = {
    "Relu": "g (TYPE[6] x) => (TYPE[6] y) {y = Relu(x)}",
    "PRelu": "g (TYPE[6] x) => (TYPE[6] y) <TYPE[1] s = {3}> {y = PRelu(x, s)}",
    "the mean": "g (TYPE[6] x) => (TYPE[1] y) <int64[1] a = {0}> {y = ReduceMean(x, a)}",
    "a product": "g (TYPE[6] x) => (TYPE[2,2] y) <int64[2] a = {2, 3}, int64[2] b = {3, 2}>"
    " {m = Reshape(x, a) n = Reshape(x, b) y = MatMul(m, n)}",
    "products in batches": "g (TYPE[6] x) => (TYPE[3,1,1] y) <int64[3] a = {3, 1, 2}, int64[2] b = {2, 1},"
    " int64[1] two = {2}, int64[1] zero = {0}> {m = Reshape(x, a) p = Slice(x, zero, two)"
    " n = Reshape(p, b) y = MatMul(m, n)}",
    "vectors": "g (TYPE[6] x) => (TYPE y) {y = MatMul(x, x)}",
    "a known power": "g (TYPE[6] x) => (TYPE[6] y) <TYPE e = {5}> {y = Pow(x, e)}",
    "a power of zero": "g (TYPE[6] x) => (TYPE[6] y) <TYPE e = {0}> {y = Pow(x, e)}",
    "a whole float power": "g (TYPE[6] x) => (TYPE[6] y) <float[6] e = {0, 1, 2, 3, 4, 5}> {y = Pow(x, e)}",
    "a computed power": "g (TYPE[6] x) => (TYPE[6] y) {a = Abs(x) y = Pow(x, a)}",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_64_bits(name: str, device: DeviceName) -> None:
    x = np.array([-7, -1, 0, 1, 2, 9], np.int64)
    got = run(model_of(INTEGERS[name].replace("TYPE", "int64")), {"x": x}, device)["y"]
    a, b = x.reshape(2, 3), x.reshape(3, 2)
    expected = {
        "Relu": np.maximum(x, 0),
        "PRelu": np.where(x < 0, 3 * x, x),
        "the mean": np.array([4 // 6]),
        "a product": a @ b,
        "products in batches": x.reshape(3, 1, 2) @ x[:2].reshape(2, 1),
        "vectors": np.array([x @ x]),
        "a known power": x**5,
        "a power of zero": np.ones(6),
        "a whole float power": x ** np.arange(6),
        "a computed power": x ** np.abs(x),
    }[name]
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_powers_at_the_ends(device: DeviceName) -> None:
    """Below 0 the power of all but 1 and -1 is a fraction, which is dropped; high ones are of 0, 1 and -1 alone."""
    x = np.array([-1, -1, 1, 0, 5, -2, -1, 1, 0, 2], np.int64)
    by = np.array([-3, -2, -5, 0, -1, -1, 2**40 + 1, 2**50, 2**33, 62], np.int64)
    model = model_of("g (int64[10] x, int64[10] e) => (int64[10] y) {y = Pow(x, e)}")
    expected = [-1, 1, 1, 1, 0, 0, -1, 1, 0, 2**62]
    np.testing.assert_array_equal(run(model, {"x": x, "e": by}, device)["y"], expected)


def test_a_mean_of_integers_is_cut_toward_zero() -> None:
    model = model_of("g (int64[2,3] x) => (int64[2,1] y) <int64[1] a = {1}> {y = ReduceMean(x, a)}")
    x = np.array([[-1, -1, -3], [1, 1, 3]], np.int64)
    assert_agrees(model, {"x": x}, "cpu")
    np.testing.assert_array_equal(run(model, {"x": x}, "cpu")["y"].ravel(), [-1, 1])


def test_a_fraction_as_a_power_of_integers_is_refused() -> None:
    model = model_of("g (int64[2] x) => (int64[2] y) <float[2] e = {0.5, 2}> {y = Pow(x, e)}")
    with raises(dg.ModelError, "unsupported", node="y", field="input 1"):
        imported(model)
