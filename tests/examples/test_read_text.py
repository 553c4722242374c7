"""The example that reads the text of a photo: as ONNX Runtime does with the same pictures, and what was drawn."""

from __future__ import annotations

import pathlib
import runpy
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from support.packaged_models import PHOTO as PHOTO_OF_A_PAGE

from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPT = ROOT / "examples" / "read_text" / "read_text.py"
PHOTO = SCRIPT.with_name("photo.jpg")


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def drawn() -> list[str]:
    """The lines of the photo without spaces: the model leaves most of them out."""
    names = runpy.run_path(str(ROOT / "tools" / "draw_notice.py"))
    return [text.replace(" ", "") for text in (*(text for text, _ in names["LINES"]), names["LABEL"])]


@pytest.fixture(scope="module")
def models(packaged_models: pathlib.Path) -> pathlib.Path:
    return packaged_models / "rapidocr_onnxruntime" / "models"


def on_onnx_runtime(reader: Any) -> Any:
    """The reader with ONNX Runtime in place of a device."""

    def run(name: str, pictures: Array) -> Array:
        session = onnxruntime.InferenceSession(reader.paths[name], providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {"x": pictures})
        return np.asarray(result)

    reader.run = run
    return reader


@pytest.mark.parametrize("device", ["cpu", "directml:software"], indirect=True)
def test_the_photo_is_read(device: DeviceName, example: dict[str, Any], models: pathlib.Path, drawn: list[str]) -> None:
    photo = Image.open(PHOTO).convert("RGB")
    lines = example["Reader"](models, device).read(photo)
    assert [text.replace(" ", "") for text, _ in lines] == drawn
    expected = on_onnx_runtime(example["Reader"](models)).read(photo)
    assert [text for text, _ in lines] == [text for text, _ in expected]
    np.testing.assert_allclose([sure for _, sure in lines], [sure for _, sure in expected], atol=1e-4)


def test_a_cameras_photo_of_a_page_is_read(
    example: dict[str, Any], models: pathlib.Path, packaged_models: pathlib.Path
) -> None:
    """The page is bent, and of one line the models are not sure: on ONNX Runtime, too.  Only on cpu: it is large."""
    photo = Image.open(packaged_models / PHOTO_OF_A_PAGE).convert("RGB")
    readers = example["Reader"](models), on_onnx_runtime(example["Reader"](models))
    lines, expected = ([text for text, sure in reader.read(photo) if sure > 0.5] for reader in readers)
    assert lines == expected
    read = {text.replace(" ", "") for text in lines}
    printed = """
        Region-based segmentation
        Let us first determine markers of the coins and the
        background. These markers are pixels that we can label
        unambiguously as either object or background. Here,
        histogram of grey values:
    """
    assert {text.replace(" ", "") for text in printed.strip().splitlines()} <= read


@pytest.mark.parametrize("turn", [90, 180])
def test_a_turned_photo_is_read(turn: int, example: dict[str, Any], models: pathlib.Path, drawn: list[str]) -> None:
    photo = Image.open(PHOTO).convert("RGB").rotate(turn, expand=True)
    lines = [text.replace(" ", "") for text, _ in example["Reader"](models).read(photo)]
    assert sorted(lines) == sorted(drawn)


def test_a_photo_without_text_has_no_lines(example: dict[str, Any], models: pathlib.Path) -> None:
    grey = Image.new("RGB", (160, 96), (127, 127, 127))
    assert example["Reader"](models).read(grey) == []


def test_the_script_prints_what_its_docstring_says(
    example: dict[str, Any],
    packaged_models: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (wheel,) = packaged_models.glob("rapidocr_onnxruntime-*.whl")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(wheel)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 5
    shown = [line.strip() for line in example["__doc__"].splitlines()]
    assert [line for line in printed if line not in shown] == []


# The steps that are NumPy's.


def test_regions_are_pixels_that_touch(example: dict[str, Any]) -> None:
    text = """
        ##..#...#
        .#..#.#.#
        ..#.#####
        #........
    """
    mask = np.array([[pixel == "#" for pixel in row.strip()] for row in text.strip().splitlines()])
    found = {frozenset(map(tuple, points.tolist())) for points in example["regions"](mask)}
    left = {(0, 0), (1, 0), (1, 1), (2, 2)}
    right = {(4, 0), (8, 0), (4, 1), (6, 1), (8, 1), *((x, 2) for x in range(4, 9))}
    assert found == {frozenset(left), frozenset(right), frozenset({(0, 3)})}


def test_a_rectangle_encloses_its_points(example: dict[str, Any]) -> None:
    y, x = np.mgrid[:200, :200]
    along, across = (x - 100) * 0.8 + (y - 100) * 0.6, (y - 100) * 0.8 - (x - 100) * 0.6
    points = np.argwhere((abs(along) < 60) & (abs(across) < 10))[:, ::-1]
    corners = example["rectangle"](points)
    margin = example["GROWTH"] * 120 * 20 / 280
    sides = np.linalg.norm(corners - np.roll(corners, -1, 0), axis=1)
    np.testing.assert_allclose(sides, np.array([120, 20, 120, 20]) + 2 * margin, atol=4)
    np.testing.assert_allclose(corners.mean(0), [100, 100], atol=1)
    assert example["rectangle"](np.array([[5, 5], [6, 5]])) is None
