"""Texts of examples/generate_text: the graphs give that of a NumPy implementation, one token at a time and 50 per call.

Most texts are short ones after random prompts.  Three are of 1,000 tokens, one on each device:

    python tests/campaigns texts --seed 1000 --cases 3 --seconds 600
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import random
import runpy
from typing import Any

import numpy as np
from support.text_model import Model

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats import safetensors

FOLDER = pathlib.Path(__file__).parent.parent.parent / "examples" / "generate_text"
DEVICES: tuple[DeviceName, ...] = ("cpu", "reference", "directml:software")
LONG, SHORT, AT_ONCE = 1000, 20, 50
FIRST_LONG = 1000  # the first seed of a long text
WORDS = ("if", "the value", "of an object", "def x(self):", "return None", "in", "1 + 2", "_", "[ ]", "~", "try:", "Q")


@functools.cache
def example() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "generate_text.py"))


def text_of(device: DeviceName, prompt: list[int], tokens: int, at_once: int) -> list[int]:
    """The tokens after a prompt, so many to a call."""
    dims = {"capacity": len(prompt) + tokens}
    prefill = dg.load(FOLDER / "prefill.yaml", dims=dims | {"count": len(prompt)}).compile(device)
    decode = dg.load(FOLDER / "decode.yaml", dims=dims).compile(device)
    states = decode.new_states()
    parts = [prefill.run({"tokens": np.array(prompt, np.uint32)}, states=states)["token"]]
    for start in range(1, tokens, at_once):
        steps = min(at_once, tokens - start)
        parts.append(decode.run(states=states, steps=steps, collect=["token"])["token"])
    return [token for part in parts for token in part.ravel().tolist()]


def one_case(seed: int) -> str | None:
    dice = random.Random(seed)
    is_long = 0 <= seed - FIRST_LONG < len(DEVICES)
    device, tokens = DEVICES[seed % len(DEVICES)], LONG if is_long else SHORT
    prompt = " ".join(dice.choices(WORDS, k=dice.randint(1, 9)))
    coded = example()["tokens_of"](prompt).tolist()
    weights = safetensors.load(FOLDER / "weights.safetensors", example()["NAMES"])
    expected = list(itertools.islice(Model(weights).go_on(coded), tokens))
    for at_once in (1, AT_ONCE) if is_long else (dice.choice((1, 3, AT_ONCE)),):
        found = text_of(device, coded, tokens, at_once)
        if found != expected:
            place = next(index for index, pair in enumerate(zip(found, expected, strict=True)) if len(set(pair)) > 1)
            where = f"on {device}, {at_once} per call, token {place} after '{prompt}'"
            return f"{where} is {found[place]}, not {expected[place]}"
    return None


CAMPAIGN = Campaign("texts", "texts of the generation example, as by NumPy", one_case, hang_seconds=1800)
