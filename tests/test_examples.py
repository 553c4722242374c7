"""The examples run, and give what an independent formula gives."""

from __future__ import annotations

import math
import pathlib
import runpy

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

import dmlgraph as dg

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
DEVICES = ("reference", "cpu", "directml:software")

pytestmark = pytest.mark.usefixtures("directml_path")


def run(name: str, device: str, inputs: dict | None = None, **dims: int) -> dict[str, np.ndarray]:
    return dg.load(EXAMPLES / f"{name}.yaml").compile(device, dims=dims).run(inputs)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_lowers_and_survives_being_saved(path: pathlib.Path, tmp_path: pathlib.Path):
    graph = dg.load(path)
    graph.save(tmp_path / "again.yaml")
    assert str(dg.load(tmp_path / "again.yaml").lower()) == str(graph.lower())


@pytest.mark.parametrize("device", DEVICES)
def test_ramp(device: str):
    x = np.load(EXAMPLES / "ramp.x.npy")
    (y,) = run("ramp", device, {"x": x}).values()
    assert x.ravel().tolist() == [-1, 0, 1, 2, -3, 0.5]
    assert y.ravel().tolist() == [0, 0, 7, 18, 0, 6.5]


@pytest.mark.parametrize("device", DEVICES)
def test_ramp_for_a_batch_goes_on_counting(device: str):
    ones = np.ones((2, 1, 2, 3), np.float32)
    (y,) = run("ramp", device, {"x": ones}, N=2).values()
    assert y.ravel().tolist() == [3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25]


@pytest.mark.parametrize("device", DEVICES)
def test_fill_value_constant(device: str):
    (thirteen,) = run("fill_value_constant", device).values()
    assert thirteen.dtype == np.float32
    assert thirteen.tolist() == [[[[13.0] * 4] * 2]]


@pytest.mark.parametrize("device", DEVICES)
def test_fill_value_sequence(device: str):
    outputs = run("fill_value_sequence", device)
    assert outputs["up"].tolist() == [[[[3.0, 5.0, 7.0]]]]
    assert outputs["down"].dtype == np.uint8
    assert outputs["down"].tolist() == [[[[10, 8], [6, 4]]]]


@pytest.mark.parametrize("device", DEVICES)
def test_positional_encoding_is_vaswanis_formula(device: str):
    (encoding,) = run("positional_encoding", device, positions=50).values()
    table = encoding.reshape(50, 16)  # the memory of [50, 8, 2]
    for position in range(50):
        for pair in range(8):
            angle = position / 10000 ** (2 * pair / 16)
            # The rates are float32: an angle of up to 49 is off by a few of its units in the last place.
            assert table[position, 2 * pair] == pytest.approx(math.sin(angle), abs=2e-5)
            assert table[position, 2 * pair + 1] == pytest.approx(math.cos(angle), abs=2e-5)


@pytest.mark.parametrize("name", ["fill_value_constant", "fill_value_sequence"])
def test_fills_are_the_same_bits_on_directml(name: str):
    for got, expected in zip(run(name, "directml:software").values(), run(name, "reference").values(), strict=True):
        assert got.tobytes() == expected.tobytes()


def normalized(photo: np.ndarray) -> np.ndarray:
    """The same in plain NumPy, in float64."""
    planes = photo.astype(np.float64).transpose(2, 0, 1)[None] / 255
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).reshape(2, 1, 3, 1, 1)
    return (planes - mean) / deviation


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    """The Summer Palace in Beijing, [427, 640, 3] uint8, as scikit-learn ships it."""
    return load_sample_image("china.jpg")


@pytest.mark.parametrize("device", DEVICES)
def test_normalize_photo(device: str, photo: np.ndarray):
    (planes,) = run("normalize_photo", device, {"photo": photo.transpose(2, 0, 1)[None]}).values()
    assert planes.dtype == np.float16
    # float16 keeps 11 bits: half a unit in the last place is 2^-11 of the value, and 2^-11 at most below 1.
    np.testing.assert_allclose(planes, normalized(photo), rtol=2**-11, atol=2**-12)


def test_normalize_photo_in_python_gives_the_same_bits(photo: np.ndarray, tmp_path: pathlib.Path, capsys):
    script = runpy.run_path(str(EXAMPLES / "normalize_photo.py"))
    np.save(tmp_path / "photo.npy", photo)
    script["main"](str(tmp_path / "photo.npy"), str(tmp_path / "planes.npy"))
    (expected,) = run("normalize_photo", "cpu", {"photo": photo.transpose(2, 0, 1)[None]}).values()
    np.testing.assert_array_equal(np.load(tmp_path / "planes.npy").view(np.uint16), expected.view(np.uint16))
    assert "(1, 3, 427, 640)" in capsys.readouterr().out


def test_a_photos_strides_read_the_photo_in_place(photo: np.ndarray):
    (desc,) = [node.desc for node in dg.load(EXAMPLES / "normalize_photo.yaml").inputs]
    planes = photo.transpose(2, 0, 1)[None]
    assert desc.pack(planes)[: photo.nbytes].tobytes() == photo.tobytes()
