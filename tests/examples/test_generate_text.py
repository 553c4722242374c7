"""Text with a cache: the graphs give the text of a NumPy implementation; the campaign `texts` makes long ones."""

from __future__ import annotations

import itertools
import pathlib
import runpy
from typing import Any

import numpy as np
import pytest
from support.text_model import Model

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats import safetensors

STEPS = 24
PROMPT = "The expression list after it is evaluated to a tuple, from left "  # 64 tokens


@pytest.fixture(scope="module")
def names(examples: pathlib.Path) -> dict[str, Any]:
    return runpy.run_path(str(examples / "generate_text" / "generate_text.py"))


@pytest.fixture(scope="module")
def weights(names: dict[str, Any]) -> dict[str, Any]:
    return safetensors.load(names["FOLDER"] / "weights.safetensors", names["NAMES"])


@pytest.fixture(scope="module")
def expected(names: dict[str, Any], weights: dict[str, Any]) -> list[int]:
    """The tokens after the prompt, by NumPy."""
    return list(itertools.islice(Model(weights).go_on(names["tokens_of"](PROMPT).tolist()), STEPS))


@pytest.mark.parametrize("at_once", [1, STEPS - 1])
def test_the_text_is_that_of_numpy(
    names: dict[str, Any], expected: list[int], examples: pathlib.Path, device: DeviceName, at_once: int
) -> None:
    folder = examples / "generate_text"
    prefill = dg.load(folder / "prefill.yaml", dims={"count": len(PROMPT), "capacity": 100}).compile(device)
    decode = dg.load(folder / "decode.yaml", dims={"capacity": 100}).compile(device)
    states = decode.new_states()
    tokens = [prefill.run({"tokens": names["tokens_of"](PROMPT)}, states=states)["token"]]
    for _ in range((STEPS - 1) // at_once):
        tokens.append(decode.run(states=states, steps=at_once, collect=["token"])["token"])
    assert np.concatenate([each.ravel() for each in tokens]).tolist() == expected
    assert states.lengths == dict.fromkeys(states.lengths, len(PROMPT) + STEPS - 1)
    assert len(states.lengths) == 4


def test_rewinding_and_going_on_gives_the_same_bit_for_bit(names: dict[str, Any], device: DeviceName) -> None:
    decode = names["sampling"](capacity=32).compile(device)
    states = decode.new_states()
    decode.run(states=states, steps=5)
    kept, fresh = states.copy(), states.copy()
    decode.run(states=states, steps=10)
    states.rewind(10)
    for name in ("token", "sample/random"):  # what does not grow cannot be rewound
        states[name] = kept[name]
    texts = [decode.run(states=each, steps=10, collect=["token"])["token"].tolist() for each in (states, fresh)]
    assert texts[0] == texts[1]
    assert states.lengths == dict.fromkeys(states.lengths, 15)
    for name in states:
        np.testing.assert_array_equal(states[name], fresh[name])


def test_beam_search_is_that_of_numpy(names: dict[str, Any], weights: dict[str, Any], examples: pathlib.Path) -> None:
    prompt, width, steps = names["tokens_of"]("if the"), 3, 5
    script = runpy.run_path(str(examples / "generate_text" / "beam_search.py"))
    file = examples / "generate_text" / "candidates.yaml"
    read, one = (dg.load(file, dims={"count": count}).compile("cpu") for count in (len(prompt), 1))
    script["search"].__globals__.update(WIDTH=width, STEPS=steps)
    found = script["search"](read, one, prompt)
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for _ in range(steps):
        more = []
        for score, tokens in beams:
            model = Model(weights)
            logits = [model.read(int(token)) for token in (*prompt, *tokens)][-1]
            logits = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            more += [(score + logits[token], (*tokens, int(token))) for token in np.argsort(-logits)[:4]]
        beams = sorted(more, reverse=True)[:width]
    assert [beam.tokens for beam in found] == [tokens for _, tokens in beams]
    np.testing.assert_allclose([beam.score for beam in found], [score for score, _ in beams], rtol=1e-4)


def test_the_weights_are_small(names: dict[str, Any]) -> None:
    assert (names["FOLDER"] / "weights.safetensors").stat().st_size <= 300_000


def test_text_and_tokens(names: dict[str, Any]) -> None:
    text = "def f(x):\n    return ~x\n"
    assert names["text_of"](names["tokens_of"](text)) == text
