"""Perplexity of the trained model over Python's own documentation: ONNX Runtime's, on every device."""

from __future__ import annotations

import pathlib
import pydoc_data.topics
from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.generation import Generator

Array = np.ndarray[Any, Any]

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "generate_text" / "decoder.yaml"
CHUNK, CHUNKS = 48, 4

pytestmark = pytest.mark.usefixtures("directml_path")


@pytest.fixture(scope="module")
def decoder() -> dg.Graph:
    return dg.load(EXAMPLE).with_dims({"capacity": 256})


@pytest.fixture(scope="module")
def tokens() -> Array:
    """What Python says of `while`, as tokens: the end of a line is 0, others are their codes less 31."""
    text = "\n" + pydoc_data.topics.topics["while"]
    found = [0 if each == "\n" else ord(each) - 31 for each in text if each == "\n" or " " <= each <= "~"]
    return np.array(found[: CHUNK * CHUNKS + 1], np.uint32)


@pytest.fixture(scope="module")
def expected(decoder: dg.Graph, tokens: Array, tmp_path_factory: pytest.TempPathFactory) -> Array:
    """The logits of ONNX Runtime, which reads all tokens at once."""
    path = tmp_path_factory.mktemp("perplexity") / "decoder.onnx"
    decoder.with_dims({"count": CHUNK * CHUNKS}).save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(uint32)": np.uint32}
    feed = {each.name: np.zeros(each.shape, kinds[each.type]) for each in session.get_inputs()}
    logits: Array = session.run(["logits"], feed | {"input_ids": tokens[None, :-1]})[0][0]
    return logits


def perplexity(logits: Array, tokens: Array) -> float:
    """e to the mean of -log p of each token after those before it."""
    wide = logits.astype(np.float64)
    likely = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return float(np.exp(-likely[np.arange(len(wide)), tokens[1:]].mean()))


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
def test_perplexity_is_that_of_onnx_runtime(
    device: DeviceName, decoder: dg.Graph, tokens: Array, expected: Array
) -> None:
    exe = decoder.with_dims({"count": CHUNK}).compile(device)
    parts = [exe.run({"input_ids": tokens[None, CHUNK * at : CHUNK * (at + 1)]}) for at in range(CHUNKS)]
    logits = np.concatenate([each["logits"][0] for each in parts])
    np.testing.assert_allclose(logits, expected, atol=2e-3)
    wanted = perplexity(expected, tokens)
    assert wanted < 6  # of 96 characters: the model knows such texts
    assert perplexity(logits, tokens) == pytest.approx(wanted, rel=1e-4)


def test_single_tokens_have_the_perplexity_of_chunks(decoder: dg.Graph, tokens: Array, expected: Array) -> None:
    """As a text is written: one token after the other, each likeliest one as it would be chosen."""
    exe = decoder.with_dims({"count": 1}).compile("cpu")
    logits = np.concatenate([exe.run({"input_ids": tokens[None, at : at + 1]})["logits"][0] for at in range(100)])
    np.testing.assert_allclose(logits, expected[:100], atol=2e-3)
    text = Generator(decoder, device="cpu", capacity=256)([int(each) for each in tokens[:60]], max_new_tokens=1)
    assert list(text) == [int(expected[59].argmax())]
