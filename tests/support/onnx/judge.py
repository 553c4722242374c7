"""Decoders of every family, and ONNX Runtime as the judge of their tokens."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from support.onnx import decoders, language_models
from support.onnx.language_models import Form
from support.onnx.onnx_runtime import session

Array = np.ndarray[Any, Any]
NEARLY = 1e-4  # of the greatest logit: two that differ by less are equal except for rounding

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "llama": language_models.genai,
    "llama int4": lambda: language_models.genai(Form(bits=4)),
    "qwen": lambda: language_models.genai(Form(normed=True, tied=True)),
    "qwen int4": lambda: language_models.genai(Form(bits=4, normed=True, tied=True)),
    "phi": lambda: language_models.genai(Form(packed=True, shared=4, window=6)),
    "gemma": lambda: language_models.genai(Form(shared=1, softcap=4.0, scale=0.3)),
    "mistral": lambda: language_models.genai(Form(rotary=False, window=4)),
    "pytorch": decoders.pytorch,
    "multi-head": decoders.multi_head,
    "attention": decoders.attention,
    "merged": decoders.merged,
    "unmasked": decoders.unmasked,
    "windowed": decoders.windowed,
    "positions from the mask": decoders.positions_from_the_mask,
    "positions from the past": decoders.positions_from_the_past,
    "scattered": decoders.scattered,
    **{f"along {made}": functools.partial(decoders.counted_along, made) for made in decoders.ALONG},
}


class Judge:
    """ONNX Runtime with caches that hold the rows so far, and nothing else."""

    def __init__(self, model: onnx.ModelProto, batch: int) -> None:
        self.run = session(model.SerializeToString())
        self.names = [each.name for each in model.graph.input]
        shapes = {each.name: each.type.tensor_type.shape.dim for each in model.graph.input}
        pasts = [each for each in model.graph.input if each.name.startswith("past_key_values")]
        self.caches = {
            each.name: np.zeros(
                (batch, shapes[each.name][1].dim_value, 0, language_models.WIDTH),
                onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type),
            )
            for each in pasts
        }
        self.batch, self.length = batch, 0

    def step(self, tokens: Array) -> Array:
        """The logits of tokens {B, S}."""
        after = self.length + tokens.shape[1]
        inputs = {
            "input_ids": tokens,
            "attention_mask": np.ones((self.batch, after), np.int64),
            "use_cache_branch": np.array([self.length > 0]),
            "position_ids": np.tile(np.arange(self.length, after), (self.batch, 1)),
        }
        outputs = self.run({name: each for name, each in (inputs | self.caches).items() if name in self.names})
        self.caches = {name: outputs[name.replace("past_key_values", "present")] for name in self.caches}
        self.length = after
        return outputs["logits"]


def wrong(model: onnx.ModelProto, start: Sequence[int], text: Sequence[int]) -> str | None:
    """What is wrong with a text: a token is not the likeliest one after those before it.  None: all are."""
    logits = Judge(model, 1).step(np.array([[*start, *text[:-1]]]))[0, len(start) - 1 :]
    for place, (token, each) in enumerate(zip(text, logits, strict=True)):
        if each[token] < each.max() - NEARLY * np.abs(each).max():
            return f"token {place} is {token}, ONNX Runtime's {each.argmax()}"
    return None


def prompt(batch: int, count: int) -> Array:
    return np.random.default_rng(batch).integers(0, decoders.VOCABULARY, (batch, count))


def written(model: onnx.ModelProto, folder: pathlib.Path) -> pathlib.Path:
    onnx.save_model(model, folder / "model.onnx")
    return folder / "model.onnx"
