"""Decoders of every family on a device generate ONNX Runtime's tokens; the seed chooses how.

That is the family, the prompts, how many tokens a wait makes, how many are guessed, and by which chunks prompts are
read.  On DirectML texts are short.
"""

from __future__ import annotations

import pathlib
import random
import tempfile

from support.onnx import decoders
from support.onnx.judge import MODELS, written, wrong

from campaigns.campaign import Campaign
from dmlgraph.generation import Generator

NEW = {"cpu": 200, "directml:software": 20}
LONGEST = 40  # of a prompt


def one_case(seed: int) -> str | None:
    dice = random.Random(seed)
    name, device = dice.choice([*MODELS]), dice.choice(["cpu", "cpu", "cpu", "directml:software"])
    new, count = NEW[device], dice.choice([1, 3])
    prompts = [dice.choices(range(decoders.VOCABULARY), k=dice.randint(1, LONGEST)) for _ in range(count)]
    settings = {"steps": dice.choice([1, 16]), "chunks": [dice.randint(1, 20)], "drafts": dice.choice([0, 0, 3])}
    texts: list[list[int]] = [[] for _ in prompts]
    model = MODELS[name]()
    with tempfile.TemporaryDirectory() as folder:
        path = written(model, pathlib.Path(folder))
        writer = Generator(path, device=device, capacity=LONGEST + new, **settings)  # type: ignore[arg-type]
        for number, token in writer.together(prompts, at_once=count, max_new_tokens=new, stop=[]):
            texts[number].append(token)
        writer.close()
    lengths = [len(each) for each in texts]
    if lengths != [new] * count:
        return f"{name} on {device}: {lengths} tokens"
    problems = [problem for given, text in zip(prompts, texts, strict=True) if (problem := wrong(model, given, text))]
    return f"{name} on {device}, {settings}: {problems}" if problems else None


CAMPAIGN = Campaign("families", "decoders of every family, against ONNX Runtime's tokens", one_case)
