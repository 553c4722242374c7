"""Decoders of every family generate ONNX Runtime's tokens, by one or sixteen to a wait, alone and three at once."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from support.onnx import decoders
from support.onnx.judge import MODELS, prompt, written, wrong
from support.onnx.onnx_runtime import session

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.generation import Generator
from dmlgraph.generation.decoder import TOKEN, Decoder
from dmlgraph.generation.generator import GREEDY

NEW, LENGTHS = 200, (7, 3, 12)
PROMPTS = [prompt(1 + at, length)[0].tolist() for at, length in enumerate(LENGTHS)]


def check(name: str, folder: pathlib.Path, device: DeviceName, new: int) -> None:
    model = MODELS[name]()
    writer = Generator(written(model, folder), device=device, capacity=max(LENGTHS) + new, chunks=[16])
    for steps in (1, 16):
        writer.steps = steps
        text = writer(PROMPTS[0], max_new_tokens=new, stop=[])
        assert wrong(model, PROMPTS[0], list(text)) is None
        texts: list[list[int]] = [[], [], []]
        for number, token in writer.together(PROMPTS, at_once=3, max_new_tokens=new, stop=[]):
            texts[number].append(token)
        assert [len(each) for each in texts] == [new] * 3
        assert [wrong(model, *each) for each in zip(PROMPTS, texts, strict=True)] == [None] * 3
    writer.close()


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("along")])
def test_the_tokens_of_onnx_runtime(name: str, tmp_path: pathlib.Path) -> None:
    check(name, tmp_path, "cpu", NEW)


@pytest.mark.parametrize("name", ["phi", "multi-head"])
@pytest.mark.usefixtures("directml_path")
def test_directml_gives_them_too(name: str, tmp_path: pathlib.Path) -> None:
    check(name, tmp_path, "directml:software", 17)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("steps", [1, 16])
def test_a_decoder_with_an_encoder(batch: int, steps: int, tmp_path: pathlib.Path) -> None:
    """The first run reads the encoder's states; then tokens come as those of other decoders do."""
    model, rows = decoders.encoder_decoder(), 7
    path, judge = written(model, tmp_path), session(model.SerializeToString())
    dims = {"batch": batch, "capacity": 2 + NEW, "encoder_sequence_length": rows}
    first = dg.load(path, states="auto", dims=dims | {"tokens": 2}, values={"use_cache_branch": False}).compile("cpu")
    decoder = Decoder.of(lambda sizes: dg.load(path, states="auto", dims={**dims, **sizes}), dims["capacity"])
    stepper = decoder.stepper({"batch": batch}, GREEDY).compile("cpu")
    states, tokens = stepper.new_states(), prompt(batch, 2)
    encoded = np.random.default_rng(2).normal(size=(batch, rows, decoders.HIDDEN)).astype(np.float32)
    logits = first.run({"input_ids": tokens, "encoder_hidden_states": encoded}, states=states)["logits"]
    made = [logits[:, -1:].argmax(axis=2)]
    states["input_ids"] = made[0].astype(states["input_ids"].dtype)
    while len(made) < NEW:
        made += list(stepper.run(states=states, steps=min(steps, NEW - len(made)), collect=[TOKEN])[TOKEN])
    names = [f"past.0.{kind}.{part}" for kind in ("decoder", "encoder") for part in ("key", "value")]
    held = {name: np.zeros((batch, decoders.HEADS, 0, decoders.WIDTH), np.float32) for name in names}
    for step, expected in enumerate(made):
        given = {"input_ids": tokens, "encoder_hidden_states": encoded, "use_cache_branch": np.array([step > 0])}
        outputs = judge(given | held)
        held = {name: outputs[name.replace("past", "present")] for name in names}
        tokens = outputs["logits"][:, -1:].argmax(axis=2)
        np.testing.assert_array_equal(tokens, expected, f"token {step}")
