"""Photos prepared for a network, and its results mapped back to the photo."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def china() -> Array:
    """The Summer Palace in Beijing, [427, 640, 3] uint8, as scikit-learn ships it."""
    return load_sample_image("china.jpg")


def normalized(photo: Array) -> Array:
    """normalize_photo in plain NumPy, in float64."""
    planes = photo.astype(np.float64).transpose(2, 0, 1)[None] / 255
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).reshape(2, 1, 3, 1, 1)
    return (planes - mean) / deviation


def test_normalize_photo(run_example: Any, china: Array):
    (planes,) = run_example("normalize_photo", photo=china.transpose(2, 0, 1)[None]).values()
    assert planes.dtype == np.float16
    # float16 keeps 11 bits: half a unit in the last place is 2^-11 of the value, and 2^-11 at most below 1.
    np.testing.assert_allclose(planes, normalized(china), rtol=2**-11, atol=2**-12)


def test_normalize_photo_as_a_script(china: Array, examples: pathlib.Path, tmp_path: pathlib.Path, capsys: Any):
    script = runpy.run_path(str(examples / "normalize_photo.py"))
    np.save(tmp_path / "photo.npy", china)
    script["main"](str(tmp_path / "photo.npy"), str(tmp_path / "planes.npy"))
    np.testing.assert_allclose(np.load(tmp_path / "planes.npy"), normalized(china), rtol=2**-11, atol=2**-12)
    assert "(1, 3, 427, 640)" in capsys.readouterr().out


def test_a_photos_strides_read_the_photo_in_place(china: Array, examples: pathlib.Path):
    (desc,) = [node.desc for node in dg.load(examples / "normalize_photo.yaml").inputs]
    planes = china.transpose(2, 0, 1)[None]
    assert desc.pack(planes)[: china.nbytes].tobytes() == china.tobytes()


# Letterboxes.


def resized(picture: Array, height: int, width: int) -> Array:
    """Linear interpolation between pixel centres, in float64; beyond the outermost centres it is constant."""
    for axis, size in ((2, height), (3, width)):
        old = picture.shape[axis]
        at = (np.arange(size) + 0.5) * old / size - 0.5

        def interpolated(line: Array, at: Array = at) -> Array:
            return np.interp(at, np.arange(len(line)), line)

        picture = np.apply_along_axis(interpolated, axis, picture)
    return picture


@pytest.fixture(scope="module")
def noise() -> Array:
    """A photo [1, 3, 60, 80] without any structure."""
    return np.random.default_rng(0).integers(0, 256, (1, 3, 60, 80), np.uint8)


def letterboxed(photo: Array) -> Array:
    planes = np.full((1, 3, 64, 64), 114.0)
    planes[:, :, 8:56] = resized(photo.astype(np.float64), 48, 64)
    return planes / 255


def test_letterbox(run_example: Any, noise: Array):
    (planes,) = run_example("letterbox/letterbox", photo=noise).values()
    assert planes.dtype == np.float16
    np.testing.assert_allclose(planes, letterboxed(noise), rtol=2**-11, atol=1e-5)


def test_letterbox_of_a_photo_that_is_higher_than_wide(examples: pathlib.Path, device: DeviceName, noise: Array):
    script = runpy.run_path(str(examples / "letterbox" / "letterbox.py"))
    graph = script["letterbox"](script["Geometry"](height=80, width=60))
    (planes,) = graph.compile(device).run({"photo": noise.transpose(0, 1, 3, 2)}).values()
    np.testing.assert_allclose(planes.transpose(0, 1, 3, 2), letterboxed(noise), rtol=2**-11, atol=1e-5)


def test_boxes_to_photo(run_example: Any):
    boxes = np.random.default_rng(0).uniform(-20, 80, (30, 4)).astype(np.float32)
    (in_photo,) = run_example("letterbox/boxes_to_photo", {"N": 30}, boxes=boxes).values()
    for (left, top, right, bottom), got in zip(boxes.astype(np.float64), in_photo, strict=True):
        across, down = [
            np.clip(np.array([a, b]) * 80 / 64, 0, limit)
            for a, b, limit in ((left, right, 80), (top - 8, bottom - 8, 60))
        ]
        np.testing.assert_allclose(got, [across[0], down[0], across[1], down[1]], rtol=1e-6, atol=1e-5)


def test_picture_to_photo(run_example: Any):
    planes = np.random.default_rng(0).uniform(0, 1, (1, 3, 64, 64)).astype(np.float16)
    (photo,) = run_example("letterbox/picture_to_photo", planes=planes).values()
    assert photo.dtype == np.uint8
    exact = 255 * resized(planes[:, :, 8:56].astype(np.float64), 60, 80)
    assert np.abs(photo - exact).max() <= 0.5 + 1e-3


def test_a_smooth_photo_survives_both_ways(run_example: Any, examples: pathlib.Path):
    photo = np.load(examples / "letterbox" / "photo.npy")
    (planes,) = run_example("letterbox/letterbox", photo=photo).values()
    (back,) = run_example("letterbox/picture_to_photo", planes=planes).values()
    assert np.abs(back.astype(int) - photo).max() <= 2
