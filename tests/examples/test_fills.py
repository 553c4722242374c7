"""Fills, and positional encodings made of them."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg


def test_ramp(run_example: Any, examples: pathlib.Path):
    x = np.load(examples / "ramp.x.npy")
    (y,) = run_example("ramp", x=x).values()
    assert x.ravel().tolist() == [-1, 0, 1, 2, -3, 0.5]
    assert y.ravel().tolist() == [0, 0, 7, 18, 0, 6.5]


def test_ramp_for_a_batch_goes_on_counting(run_example: Any):
    ones = np.ones((2, 1, 2, 3), np.float32)
    (y,) = run_example("ramp", {"N": 2}, x=ones).values()
    assert y.ravel().tolist() == [3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25]


def test_fill_value_constant(run_example: Any):
    (thirteen,) = run_example("fill_value_constant").values()
    assert thirteen.dtype == np.float32
    assert thirteen.tolist() == [[[[13.0] * 4] * 2]]


def test_fill_value_sequence(run_example: Any):
    outputs = run_example("fill_value_sequence")
    assert outputs["up"].tolist() == [[[[3.0, 5.0, 7.0]]]]
    assert outputs["down"].dtype == np.uint8
    assert outputs["down"].tolist() == [[[[10, 8], [6, 4]]]]


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("name", ["fill_value_constant", "fill_value_sequence"])
def test_fills_are_the_same_bits_on_directml(name: str, examples: pathlib.Path):
    graph = dg.load(examples / f"{name}.yaml")
    expected = graph.compile("reference").run()
    for output, got in graph.compile("directml:software").run().items():
        assert got.tobytes() == expected[output].tobytes()


def test_positional_encoding_is_vaswanis_formula(run_example: Any):
    (encoding,) = run_example("positional_encoding", {"positions": 50}).values()
    table = encoding.reshape(50, 16)  # the memory of [50, 8, 2]
    for position in range(50):
        for pair in range(8):
            angle = position / 10000 ** (2 * pair / 16)
            # The rates are float32: an angle of up to 49 has an error of a few units in its last place.
            assert table[position, 2 * pair] == pytest.approx(math.sin(angle), abs=2e-5)
            assert table[position, 2 * pair + 1] == pytest.approx(math.cos(angle), abs=2e-5)


def test_rotary_encoding_multiplies_by_complex_numbers_of_length_one(run_example: Any):
    x = np.random.default_rng(0).standard_normal((2, 3, 50, 8)).astype(np.float32)
    y = run_example("rotary_encoding/rotary_encoding", {"batch": 2, "heads": 3, "tokens": 50}, x=x)["y"]
    angle = np.arange(50)[:, None] / 10000.0 ** (np.arange(4) / 4)
    expected = (x[..., :4] + 1j * x[..., 4:].astype(np.float64)) * np.exp(1j * angle)
    np.testing.assert_allclose(y, np.concatenate([expected.real, expected.imag], axis=3), rtol=0, atol=1e-4)
