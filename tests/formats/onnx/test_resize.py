"""Resize with scales that do not give whole sizes, against ONNX Runtime."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import pytest
from support.onnx.onnx_runtime import session

import dmlgraph as dg

SIZES = [(5, 7), (3, 10), (10, 3), (4, 9)]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1.4, 0.7), (1.9, 2.8), (0.6, 1.4)])
def test_sizes_are_products_in_float32(mode: str, scales: tuple[float, float], tmp_path: pathlib.Path) -> None:
    """5 times the float32 nearest to 1.4 is 7 in float32, and less in float64."""
    for rows, columns in SIZES:
        x = np.random.default_rng(rows).normal(size=(1, 2, rows, columns)).astype(np.float32)
        text = f"""<ir_version: 8, opset_import: ["" : 13]>
            g (float[1, 2, {rows}, {columns}] x) => (float[a, b, c, d] y)
            <float[4] s = {{1, 1, {scales[0]}, {scales[1]}}}> {{ y = Resize <mode = "{mode}"> (x, , s) }}"""
        onnx.save_model(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        (got,) = dg.load(tmp_path / "model.onnx").compile("cpu").run({"x": x}).values()
        expected = session(tmp_path / "model.onnx")({"x": x})["y"]
        assert got.shape == expected.shape
        if mode == "linear":  # the others jump at whole positions, to which rounding leads from either side
            np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_a_scale_that_keeps_the_size_moves_the_places(coordinates: str, tmp_path: pathlib.Path) -> None:
    """3 times 1.1 is 3, and yet the places that are read lie 1 / 1.1 apart."""
    text = f"""<ir_version: 8, opset_import: ["" : 13]> g (float[1, 1, 3, 4] x) => (float[a, b, c, d] y)
        <float[4] s = {{1, 1, 1.1, 2}}> {{
        y = Resize <mode = "cubic", coordinate_transformation_mode = "{coordinates}"> (x, , s) }}"""
    onnx.save_model(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    x = np.random.default_rng(0).normal(size=(1, 1, 3, 4)).astype(np.float32)
    (got,) = dg.load(tmp_path / "model.onnx").compile("cpu").run({"x": x}).values()
    np.testing.assert_allclose(got, session(tmp_path / "model.onnx")({"x": x})["y"], atol=1e-5)
